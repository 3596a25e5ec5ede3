package rpc

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
	"steward/internal/tool"
	"steward/proto/commonpb"
	"steward/proto/toolpb"
)

// tools implements the service tool.Tool.
type tools struct{ node Node }

// ExecuteTool implements toolpb.ToolHandler.
func (t tools) ExecuteTool(ctx context.Context, in *commonpb.Tool) (*commonpb.ToolCallResult, error) {
	c, err := httpauth.From(ctx)
	if err != nil {
		return nil, err
	}
	if kind := in.GetType(); kind != "" && kind != "function" {
		return nil, fault.New(fault.Invalid, "type_unknown", "there are no tools of the type %.80q", kind).WithHint(`leave the type out, or write "function"`)
	}
	name := in.GetFunction().GetName()
	if name == "" {
		name = in.GetName()
	}
	done, err := t.node.ExecuteTool(ctx, c.User, runtime.Execution{Agent: in.GetAgent(), Tool: name,
		Args: []byte(in.GetFunction().GetArguments()), ClientID: in.GetId()})
	if err != nil {
		return nil, err
	}
	return resultOf(done), nil
}

// ListTools implements toolpb.ToolHandler.
func (t tools) ListTools(ctx context.Context, in *toolpb.ListToolsRequest) (*toolpb.ListToolsResponse, error) {
	c, err := httpauth.From(ctx)
	if err != nil {
		return nil, err
	}
	specs, err := t.node.ToolList(ctx, c.User, in.GetAgent(), in.GetNamespace())
	if err != nil {
		return nil, err
	}
	out := &toolpb.ListToolsResponse{Tools: make([]*commonpb.Tool, len(specs))}
	for i, s := range specs {
		if out.Tools[i], err = definitionOf(s, in.GetAgent()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// definitionOf returns the definition of a tool in OpenAI's form, with what Steward adds to it.
func definitionOf(s tool.Spec, agent string) (*commonpb.Tool, error) {
	schema := new(structpb.Struct)
	if err := protojson.Unmarshal(s.Input, schema); err != nil {
		return nil, fault.New(fault.Internal, "schema_broken", "the schema of the tool %s cannot be sent: %w", s.Name, err)
	}
	effect := commonpb.Effect_EFFECT_ACTION
	if s.Effect == tool.Query {
		effect = commonpb.Effect_EFFECT_QUERY
	}
	return &commonpb.Tool{
		Type:     proto.String("function"),
		Function: &commonpb.Function{Name: tool.WireName(s.Name), Description: proto.String(valid(s.Description)), Parameters: schema},
		Name:     &s.Name, Agent: some(agent), Effect: &effect, Asks: some(s.Asks), Origin: some(valid(s.Origin)), Version: some(valid(s.Version)),
	}, nil
}

// some returns an optional field, which is left out if it has the zero value.
func some[T comparable](v T) *T {
	var nothing T
	if v == nothing {
		return nil
	}
	return &v
}

func resultOf(x runtime.Executed) *commonpb.ToolCallResult {
	res := x.Result
	out := &commonpb.ToolCallResult{
		Id: x.ClientID, Name: x.Tool, Status: cmp.Or(statuses[res.Status], commonpb.CallStatus_CALL_STATUS_UNKNOWN), Content: valid(res.Text()),
		Labels: (res.Labels | message.LabelsOf(res.Content)).Names(), Truncated: x.Cut, Rest: res.Rest,
		Recorded: x.Recorded, RequestId: x.Request.String(),
	}
	for _, b := range res.Content {
		switch b := b.(type) {
		case *message.Image:
			out.Attachments = append(out.Attachments, &commonpb.Attachment{MimeType: valid(b.MIME), Data: b.Data, Url: valid(b.URL)})
		case *message.File:
			out.Attachments = append(out.Attachments, &commonpb.Attachment{MimeType: valid(b.MIME), Name: valid(b.Name), Data: b.Data, Url: valid(b.URL)})
		}
	}
	return out
}

// statuses maps the statuses of results to those of the protocol. All others are unknown.
var statuses = map[message.Status]commonpb.CallStatus{
	message.OK:          commonpb.CallStatus_CALL_STATUS_OK,
	message.Failed:      commonpb.CallStatus_CALL_STATUS_FAILED,
	message.DeniedCall:  commonpb.CallStatus_CALL_STATUS_DENIED,
	message.Unavailable: commonpb.CallStatus_CALL_STATUS_UNAVAILABLE,
	message.Interrupted: commonpb.CallStatus_CALL_STATUS_INTERRUPTED,
	message.Accepted:    commonpb.CallStatus_CALL_STATUS_ACCEPTED,
	message.Queued:      commonpb.CallStatus_CALL_STATUS_ACCEPTED,
}

// valid replaces invalid UTF-8, which would keep the whole message from being written.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
