package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Limits on a list of resources or prompts: how many, and the bytes of their descriptions.
const (
	maxListed      = 1000
	maxListedBytes = 4 << 20
)

// features returns the tools through which Steward offers a server's resources and prompts. Their
// descriptions are Steward's own.
func (s *source) features(caps *sdk.ServerCapabilities) []*offer {
	if caps == nil {
		return nil
	}
	var out []*offer
	add := func(word, description, input string, call caller) {
		if !s.includes([]string{word}) {
			return
		}
		o := &offer{spec: s.spec(word, description, []byte(input)), call: call}
		err := s.decl.Apply(&o.spec, s.env, nil, s.isLocalOnly(), word)
		if o.spec.Tidy = nil; err == nil && o.completeSpec() == nil { // its texts are ours; the server's tools report a name that is too long
			out = append(out, o)
		}
	}
	const none = `{"type":"object","properties":{},"additionalProperties":false}`
	if caps.Resources != nil {
		add("list_resources", fmt.Sprintf("List the resources (files, records, pages) that the MCP server %s offers to read, and the templates of their URIs.", s.word), none, listResources)
		add("read_resource", fmt.Sprintf("Read a resource of the MCP server %s by its URI, as %s.list_resources or a result names it.", s.word, s.word),
			`{"type":"object","properties":{"uri":{"type":"string","description":"the resource's URI"}},"required":["uri"],"additionalProperties":false}`, readResource)
	}
	if caps.Prompts != nil {
		add("list_prompts", fmt.Sprintf("List the prompts that the MCP server %s offers, and their arguments.", s.word), none, listPrompts)
		add("get_prompt", fmt.Sprintf("Get a prompt of the MCP server %s with its arguments filled in.", s.word),
			`{"type":"object","properties":{"name":{"type":"string","description":"the prompt's name"},"arguments":{"type":"object","description":"the prompt's arguments","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`, getPrompt)
	}
	return out
}

// items are what a server lists, in the protocol's own form.
type items struct {
	list []json.RawMessage
	size int
}

// add adds an item if there is room.
func (l *items) add(item any) bool {
	b, err := json.Marshal(item)
	if err != nil || len(l.list) >= maxListed || l.size >= maxListedBytes {
		return false
	}
	l.list, l.size = append(l.list, b), l.size+len(b)
	return true
}

func listResources(ctx context.Context, x *session, _ tool.Invocation) (tool.Result, error) {
	resources, templates := items{list: []json.RawMessage{}}, items{}
	more, err := listed(ctx, x, "listing the resources", func(ctx context.Context) iter.Seq2[*sdk.Resource, error] { return x.client.Resources(ctx, nil) }, func(r *sdk.Resource) bool {
		r.Meta, r.Icons = nil, nil
		return resources.add(r)
	})
	if err != nil {
		return tool.Result{}, err
	}
	moreTemplates, err := listed(ctx, x, "listing the templates of resources", func(ctx context.Context) iter.Seq2[*sdk.ResourceTemplate, error] {
		return x.client.ResourceTemplates(ctx, nil)
	}, func(r *sdk.ResourceTemplate) bool {
		r.Meta, r.Icons = nil, nil
		return templates.add(r)
	})
	if err != nil && !fault.HasCode(err, "mcp_refused") { // not every server has templates
		return tool.Result{}, err
	}
	return asJSON(struct {
		Resources []json.RawMessage `json:"resources"`
		Templates []json.RawMessage `json:"templates,omitempty"`
		More      bool              `json:"more,omitempty"`
	}{resources.list, templates.list, more || moreTemplates})
}

// listed asks a server for a list, page by page, until it ends or take rejects an item, and
// reports whether there was more. An endless list of empty pages ends with ctx.
func listed[T any](ctx context.Context, x *session, what string, list func(context.Context) iter.Seq2[*T, error], take func(*T) bool) (more bool, err error) {
	return do(ctx, x, what, func(ctx context.Context) (bool, error) {
		for item, err := range list(ctx) {
			if err != nil {
				return false, err
			}
			if item != nil && !take(item) {
				return true, nil
			}
		}
		return false, nil
	})
}

func asJSON(v any) (tool.Result, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fault.New(fault.Internal, "tool_output_invalid", "a list cannot be written: %w", err)
	}
	return tool.Text(string(b)), nil
}

// arguments reads the arguments of a call.
func arguments(in tool.Invocation, to any) error {
	if err := json.Unmarshal(in.Args, to); err != nil {
		return fault.New(fault.Invalid, "args_invalid", "the arguments are invalid: %w", err)
	}
	return nil
}

func readResource(ctx context.Context, x *session, in tool.Invocation) (tool.Result, error) {
	var args struct {
		URI string `json:"uri"`
	}
	if err := arguments(in, &args); err != nil {
		return tool.Result{}, err
	}
	res, err := do(ctx, x, "reading a resource", func(ctx context.Context) (*sdk.ReadResourceResult, error) {
		return x.client.ReadResource(ctx, &sdk.ReadResourceParams{URI: args.URI, Meta: meta(in)})
	})
	switch {
	case err != nil:
		return tool.Result{}, err
	case res.NeedsInput():
		return tool.Result{}, needsInput(x.src.word)
	}
	var out tool.Result
	for _, c := range res.Contents {
		if b := contents(c); b != nil {
			out.Content = append(out.Content, b)
		}
	}
	return out, nil
}

func listPrompts(ctx context.Context, x *session, _ tool.Invocation) (tool.Result, error) {
	prompts := items{list: []json.RawMessage{}}
	more, err := listed(ctx, x, "listing the prompts", func(ctx context.Context) iter.Seq2[*sdk.Prompt, error] { return x.client.Prompts(ctx, nil) }, func(p *sdk.Prompt) bool {
		p.Meta, p.Icons = nil, nil
		return prompts.add(p)
	})
	if err != nil {
		return tool.Result{}, err
	}
	return asJSON(struct {
		Prompts []json.RawMessage `json:"prompts"`
		More    bool              `json:"more,omitempty"`
	}{prompts.list, more})
}

func getPrompt(ctx context.Context, x *session, in tool.Invocation) (tool.Result, error) {
	var args struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := arguments(in, &args); err != nil {
		return tool.Result{}, err
	}
	res, err := do(ctx, x, "getting a prompt", func(ctx context.Context) (*sdk.GetPromptResult, error) {
		return x.client.GetPrompt(ctx, &sdk.GetPromptParams{Name: args.Name, Arguments: args.Arguments, Meta: meta(in)})
	})
	switch {
	case err != nil:
		return tool.Result{}, err
	case res.NeedsInput():
		return tool.Result{}, needsInput(x.src.word)
	}
	var out tool.Result
	for _, m := range res.Messages {
		if m == nil {
			continue
		}
		b := block(x.src.word, m.Content)
		if t, ok := b.(*message.Text); ok {
			t.Text = strings.TrimSpace(string(m.Role) + ": " + t.Text)
		}
		if b != nil {
			out.Content = append(out.Content, b)
		}
	}
	return out, nil
}
