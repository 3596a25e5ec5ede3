package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/work"
)

// maxPage is how many tools, prompts or resources are listed at a time.
const maxPage = 500

// metaCallID is the member of a call's _meta with the client's own id of the call: calling again with it returns the
// outcome of an action, and does not execute it twice.
const metaCallID = "steward/call_id"

// listTools lists the tools that the user belongs to the audience of, then the agents.
//
// A tool's name is its wire name (tool.WireName), because many clients allow no dots. An agent's begins with ask_. The
// names do not collide: those of tools contain "__", and those of agents do not (see askName).
func (x *session) listTools(ctx context.Context, r *sdk.ListToolsRequest) (*sdk.ListToolsResult, error) {
	specs, err := x.o.Node.ToolList(ctx, x.caller.User, "", "")
	if err != nil {
		return nil, err
	}
	var all []*sdk.Tool
	for i := range specs {
		if specs[i].For.Admits(x.caller.User, x.caller.Groups) {
			all = append(all, toolOf(&specs[i]))
		}
	}
	for _, a := range x.o.Node.Agents(ctx) {
		all = append(all, agentTool(a))
	}
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	page, next, err := pageOf(all, cursor)
	return &sdk.ListToolsResult{Tools: page, NextCursor: next}, err
}

// pageOf returns the page of a list that begins at a cursor, and the cursor of the next one.
func pageOf[T any](all []T, cursor string) (page []T, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 {
			return []T{}, "", fault.New(fault.Invalid, "cursor_invalid", "invalid cursor %.80q", cursor).WithHint("begin again without a cursor")
		}
	}
	from = min(from, len(all))
	to := min(from+maxPage, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return append([]T{}, all[from:to]...), next, nil
}

// toolOf describes a tool. The hints follow from its effect and its reach. Whether an action destroys
// something is not declared, so it counts as destructive.
func toolOf(s *tool.Spec) *sdk.Tool {
	query, out := s.Effect == tool.Query, s.Out()
	destructive := !query
	input := json.RawMessage(s.Input)
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	return &sdk.Tool{Name: tool.WireName(s.Name), Title: s.Name, Description: s.Description, InputSchema: input,
		Annotations: &sdk.ToolAnnotations{Title: s.Name, ReadOnlyHint: query, DestructiveHint: &destructive, IdempotentHint: query, OpenWorldHint: &out},
		Meta:        sdk.Meta{"steward/effect": string(s.Effect), "steward/asks": s.Asks, "steward/version": s.Version}}
}

// callTool calls a tool, or asks an agent. What the tool reports is sent as progress.
func (x *session) callTool(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if path, ok := x.agentNamed(ctx, r.Params.Name); ok {
		return x.askAgent(ctx, r, path)
	}
	if err := x.caller.Store(ctx, int64(len(r.Params.Arguments))); err != nil {
		return nil, err
	}
	end, err := x.caller.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	call := x.newCall(ctx, r)
	defer call.close()
	own, _ := r.Params.Meta[metaCallID].(string)
	done, err := x.o.Node.ExecuteTool(ctx, x.caller.User, work.Execution{Tool: r.Params.Name, Args: r.Params.Arguments, ClientID: own,
		Attended: call.asks, Notify: func(p effect.Progress) {
			switch {
			case p.Status == effect.Awaiting && p.Question != nil:
				call.ask(p.Question.ID)
				call.report("waiting for an approval: "+p.Question.Summary, 0)
			case p.Message != "":
				call.answered()
				call.report(p.Message, p.Fraction)
			default:
				call.answered()
			}
		}})
	if err != nil {
		if fault.HasCode(err, "tool_unknown") || ctx.Err() != nil {
			return nil, err
		}
		return failed(err), nil // the model can correct it
	}
	res := resultOf(done)
	if done.Result.Status == message.DeniedCall && !call.asks {
		res.Content = append(res.Content, &sdk.TextContent{Text: x.howToApprove()})
	}
	return res, nil
}

// howToApprove says what a user can do about a denial in a session in which nobody can be asked.
func (x *session) howToApprove() string {
	if !x.caller.Attended() {
		return "This session has the key of a service, and services cannot approve. If a person should decide, connect with that person's own key; a policy can allow the tool for services."
	}
	return "This MCP client cannot ask you for an approval (it does not support elicitation). Use a client that does, or do it in steward chat; a policy can allow the tool."
}

// failed is an error as the result of a call.
func failed(err error) *sdk.CallToolResult {
	f := fault.Of(err)
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: f.Error()}}, Meta: sdk.Meta{"steward/error": f.Code}}
}

// resultOf converts the outcome of a call. A text that is a JSON object is also the structured content.
func resultOf(x work.Executed) *sdk.CallToolResult {
	res := x.Result
	out := contentOf(res.Content)
	out.IsError = res.Status != message.OK && res.Status != message.Accepted && res.Status != message.Queued
	out.Meta = sdk.Meta{"steward/status": string(res.Status), "steward/request": x.Request.String(), "steward/recorded": x.Recorded}
	if labels := (res.Labels | message.LabelsOf(res.Content)).Names(); len(labels) > 0 {
		out.Meta["steward/labels"] = labels
	}
	if res.Rest != "" {
		out.Content = append(out.Content, &sdk.ResourceLink{URI: res.Rest, Name: "rest", Description: "what did not fit into this result", MIMEType: "application/json"})
	}
	return out
}

func contentOf(blocks []message.Block) *sdk.CallToolResult {
	out := &sdk.CallToolResult{Content: []sdk.Content{}}
	for i, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			out.Content = append(out.Content, &sdk.TextContent{Text: b.Text})
			if object := []byte(b.Text); len(blocks) == 1 && strings.HasPrefix(b.Text, "{") && json.Valid(object) {
				out.StructuredContent = json.RawMessage(object)
			}
		case *message.Image:
			if b.URL != "" {
				out.Content = append(out.Content, &sdk.ResourceLink{URI: b.URL, Name: fmt.Sprintf("image %d", i+1), MIMEType: b.MIME})
			} else {
				out.Content = append(out.Content, &sdk.ImageContent{Data: b.Data, MIMEType: b.MIME})
			}
		case *message.File:
			if b.URL != "" {
				out.Content = append(out.Content, &sdk.ResourceLink{URI: b.URL, Name: b.Name, MIMEType: b.MIME})
			} else {
				out.Content = append(out.Content, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: fmt.Sprintf("attachment:%d", i+1), MIMEType: b.MIME, Blob: b.Data}})
			}
		}
	}
	return out
}
