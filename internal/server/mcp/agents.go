package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// askPrefix begins the names of tools that ask an agent.
const askPrefix = "ask_"

// askName is the name of the tool that asks an agent, and of its prompt. Names of agents are words with single
// underscores, so a hyphen stands only for the slash of a path.
func askName(path string) string { return askPrefix + strings.ReplaceAll(path, "/", "-") }

// agentNamed returns the path of the agent that a tool asks.
func (x *session) agentNamed(ctx context.Context, name string) (path string, ok bool) {
	if !strings.HasPrefix(name, askPrefix) {
		return "", false
	}
	for _, a := range x.o.Node.Agents(ctx) {
		if askName(a.Path) == name {
			return a.Path, true
		}
	}
	return "", false
}

// The schemas of tools that ask an agent.
const (
	askInput = `{"type":"object","properties":{` +
		`"message":{"type":"string","description":"What the agent is asked, with everything that it needs to know"},` +
		`"conversation":{"type":"string","description":"The conversation_id of an earlier answer, to go on with it; left out: a new conversation"}},` +
		`"required":["message"],"additionalProperties":false}`
	askOutput = `{"type":"object","properties":{"answer":{"type":"string"},"agent":{"type":"string"},"conversation_id":{"type":"string"}},` +
		`"required":["answer","agent","conversation_id"]}`
)

// agentTool describes the tool that asks an agent.
func agentTool(a kits.AgentView) *sdk.Tool {
	yes := true
	about := "Asks the agent " + a.Path + " and returns its answer."
	if a.Description != "" {
		about += " The agent " + a.Path + ": " + a.Description
	}
	return &sdk.Tool{Name: askName(a.Path), Title: "Ask " + a.Path, Description: about,
		InputSchema: json.RawMessage(askInput), OutputSchema: json.RawMessage(askOutput),
		Annotations: &sdk.ToolAnnotations{Title: "Ask " + a.Path, DestructiveHint: &yes, OpenWorldHint: &yes}}
}

type askArgs struct {
	Message      string `json:"message"`
	Conversation string `json:"conversation"`
}

// askAgent runs a turn of an agent and returns its answer. If the client cancels the call, the turn is stopped.
func (x *session) askAgent(ctx context.Context, r *sdk.CallToolRequest, path string) (*sdk.CallToolResult, error) {
	var in askArgs
	if err := auth.Unmarshal(r.Params.Arguments, &in); err != nil {
		return failed(err), nil
	}
	if strings.TrimSpace(in.Message) == "" {
		return failed(fault.New(fault.Invalid, "message_missing", "the argument message is empty").WithHint("say what the agent is asked")), nil
	}
	call := x.newCall(ctx, r)
	defer call.close()
	own, _ := r.Params.Meta[metaCallID].(string)
	t := turn.Input{Agent: path, ClientID: own, Attended: call.asks, Content: []message.Block{&message.Text{Text: in.Message}}}
	if in.Conversation != "" {
		var ok bool
		if t.Conversation, ok = id.Parse(in.Conversation); !ok {
			return failed(fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", in.Conversation).WithHint("leave it out to begin a new one")), nil
		}
	}
	if err := x.caller.Store(ctx, int64(len(in.Message))); err != nil {
		return nil, err
	}
	end, err := x.caller.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	acc, err := x.o.Node.Send(ctx, x.caller.User, t)
	if err != nil {
		return failed(err), nil
	}
	begun := in.Conversation == ""
	for fr, err := range x.o.Node.Watch(ctx, x.caller.User, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		switch {
		case err != nil:
			return nil, err
		case fr.Interaction != acc.Interaction:
			continue
		case fr.Kind == turn.FrameError:
			return failed(fr.Err), nil
		case fr.Kind == turn.FrameComplete:
			return answerOf(&fr, path), nil
		case fr.Kind != turn.FrameUser:
			begun = true
		}
		call.follow(&fr)
	}
	if ctx.Err() != nil && begun && x.Server.ends.Err() == nil { // a turn that waits behind another one is left alone
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := x.o.Node.Stop(stopping, x.caller.User, acc.Conversation); err != nil {
			x.o.Logger.WarnContext(ctx, "a cancelled turn cannot be stopped", "conversation", acc.Conversation.String(), "error", err)
		}
	}
	return nil, fault.New(fault.Unavailable, "turn_left", "the answer was not awaited").WithHint("it is in the conversation %s", acc.Conversation)
}

// follow reports what an agent does, and has the person asked about its questions.
func (c *call) follow(fr *turn.Frame) {
	switch {
	case (fr.Kind == turn.FrameNotice || fr.Kind == turn.FrameMemory) && fr.Text != "":
		c.report(fr.Text, 0)
	case fr.Kind == turn.FrameCall && fr.Call != nil:
		if a := fr.Call.Approval; a != nil && fr.Call.Status == turn.CallAwaiting {
			c.ask(a.ID)
			c.report("waiting for an approval: "+fr.Call.Summary, 0)
			return
		}
		if fr.Call.Status == turn.CallRunning {
			text := fr.Call.Summary
			if text == "" {
				text = fr.Call.Name
			}
			if fr.Call.Message != "" {
				text += ": " + fr.Call.Message
			}
			c.report(text, 0)
		}
	}
}

// answerOf is an agent's answer as the result of a call.
func answerOf(fr *turn.Frame, path string) *sdk.CallToolResult {
	out := contentOf(fr.Stored.Blocks)
	if len(out.Content) == 0 {
		out.Content = append(out.Content, &sdk.TextContent{Text: fr.Stored.Text()})
	}
	out.StructuredContent = map[string]string{"answer": fr.Stored.Text(), "agent": path, "conversation_id": fr.Conversation.String()}
	if labels := message.LabelsOf(fr.Stored.Blocks).Names(); len(labels) > 0 {
		out.Meta = sdk.Meta{"steward/labels": labels}
	}
	return out
}
