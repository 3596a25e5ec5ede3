package rpc

import (
	"context"
	"encoding/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/work"
)

// toolForm is a common.Tool: the definition of a tool in OpenAI's form, with what Steward adds to it, or a call.
type toolForm struct {
	Type     string       `json:"type"`
	Function functionForm `json:"function"`
	ID       string       `json:"id,omitzero"`
	Name     string       `json:"name"`
	Agent    string       `json:"agent,omitzero"`
	Effect   string       `json:"effect,omitzero"`
	Asks     bool         `json:"asks,omitzero"`
	Origin   string       `json:"origin,omitzero"`
	Version  string       `json:"version,omitzero"`
}

type functionForm struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Arguments   string          `json:"arguments,omitzero"`
}

// callResult is a common.ToolCallResult.
type callResult struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Status      string       `json:"status"`
	Content     string       `json:"content"`
	Attachments []attachment `json:"attachments,omitempty"`
	Labels      []string     `json:"labels,omitempty"`
	Truncated   bool         `json:"truncated"`
	Rest        string       `json:"rest"`
	Recorded    bool         `json:"recorded"`
	Request     id.ID        `json:"request_id"`
}

type attachment struct {
	MIME string `json:"mime_type"`
	Name string `json:"name"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url"`
}

// executeTool serves tool.Tool.ExecuteTool.
func (f *Server) executeTool(ctx context.Context, in *toolForm) (*callResult, error) {
	c, end, err := storing(ctx, len(in.Function.Arguments))
	if err != nil {
		return nil, err
	}
	defer end()
	if in.Type != "" && in.Type != "function" {
		return nil, fault.New(fault.Invalid, "type_unknown", "there are no tools of the type %.80q", in.Type).WithHint(`leave the type out, or write "function"`)
	}
	name := in.Function.Name
	if name == "" {
		name = in.Name
	}
	done, err := f.Node.ExecuteTool(ctx, c.User, work.Execution{Agent: in.Agent, Tool: name,
		Args: []byte(in.Function.Arguments), ClientID: in.ID})
	if err != nil {
		return nil, err
	}
	return resultOf(done), nil
}

type listToolsRequest struct{ Namespace, Agent string }

type listToolsResponse struct {
	Tools []toolForm `json:"tools,omitempty"`
}

// listTools serves tool.Tool.ListTools.
func (f *Server) listTools(ctx context.Context, in *listToolsRequest) (out listToolsResponse, err error) {
	c, err := auth.From(ctx)
	if err != nil {
		return out, err
	}
	specs, err := f.Node.ToolList(ctx, c.User, in.Agent, in.Namespace)
	for _, s := range specs {
		effect := "EFFECT_ACTION"
		if s.Effect == tool.Query {
			effect = "EFFECT_QUERY"
		}
		out.Tools = append(out.Tools, toolForm{Type: "function",
			Function: functionForm{Name: tool.WireName(s.Name), Description: s.Description, Parameters: s.Input},
			Name:     s.Name, Agent: in.Agent, Effect: effect, Asks: s.Asks, Origin: s.Origin, Version: s.Version})
	}
	return out, err
}

func resultOf(x work.Executed) *callResult {
	res := x.Result
	out := &callResult{
		ID: x.ClientID, Name: x.Tool, Status: statusOf(res.Status), Content: res.Text(),
		Labels: (res.Labels | message.LabelsOf(res.Content)).Names(), Truncated: x.Cut, Rest: res.Rest,
		Recorded: x.Recorded, Request: x.Request,
	}
	for _, b := range res.Content {
		switch b := b.(type) {
		case *message.Image:
			out.Attachments = append(out.Attachments, attachment{MIME: b.MIME, Data: b.Data, URL: b.URL})
		case *message.File:
			out.Attachments = append(out.Attachments, attachment{MIME: b.MIME, Name: b.Name, Data: b.Data, URL: b.URL})
		}
	}
	return out
}

// statusOf returns the name of a common.CallStatus.
func statusOf(s message.Status) string {
	switch s {
	case message.OK:
		return "CALL_STATUS_OK"
	case message.Failed:
		return "CALL_STATUS_FAILED"
	case message.DeniedCall:
		return "CALL_STATUS_DENIED"
	case message.Unavailable:
		return "CALL_STATUS_UNAVAILABLE"
	case message.Interrupted:
		return "CALL_STATUS_INTERRUPTED"
	case message.Accepted, message.Queued:
		return "CALL_STATUS_ACCEPTED"
	}
	return "CALL_STATUS_UNKNOWN"
}
