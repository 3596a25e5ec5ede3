package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Bounds of a list of resources or prompts: how many, and the bytes of what is
// said of them.
const (
	maxListed = 1000
	maxSaid   = 4 << 20
)

// features are the tools by which Steward makes a server's resources and
// prompts known. Their words are Steward's own.
func (s *source) features(caps *sdk.ServerCapabilities) []*offer {
	if caps == nil {
		return nil
	}
	var out []*offer
	add := func(word, description, input string, call caller) {
		if !s.takes([]string{word}) {
			return
		}
		o := &offer{spec: s.spec(word, description, []byte(input)), call: call}
		if s.flows(&o.spec, word) == nil && o.settle() == nil { // its words are ours; a name too long is told by the server's tools
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

// resource is a resource or a template as it is listed.
type resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mime_type,omitempty"`
	Size        int64  `json:"size,omitempty"`
}

// size is how much is said of it.
func (r resource) size() int {
	return len(r.URI) + len(r.Name) + len(r.Title) + len(r.Description) + len(r.MIME)
}

func listResources(ctx context.Context, x *session, _ tool.Invocation) (tool.Result, error) {
	var out struct {
		Resources []resource `json:"resources"`
		Templates []resource `json:"templates,omitempty"`
		More      bool       `json:"more,omitempty"`
	}
	out.Resources = []resource{}
	var said int
	var err error
	out.More, err = pages(func(cursor string) (string, bool, error) {
		page, err := do(ctx, x, "listing the resources", func(ctx context.Context) (*sdk.ListResourcesResult, error) {
			return x.client.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		})
		if err != nil {
			return "", false, err
		}
		for _, r := range page.Resources {
			if r != nil {
				out.Resources = append(out.Resources, resource{r.URI, r.Name, r.Title, r.Description, r.MIMEType, r.Size})
				said += out.Resources[len(out.Resources)-1].size()
			}
		}
		return page.NextCursor, len(out.Resources) >= maxListed || said >= maxSaid, nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	more, err := pages(func(cursor string) (string, bool, error) {
		page, err := do(ctx, x, "listing the templates of resources", func(ctx context.Context) (*sdk.ListResourceTemplatesResult, error) {
			return x.client.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		})
		if fault.HasCode(err, "mcp_refused") {
			return "", false, nil // templates are not every server's
		} else if err != nil {
			return "", false, err
		}
		for _, r := range page.ResourceTemplates {
			if r != nil {
				out.Templates = append(out.Templates, resource{r.URITemplate, r.Name, r.Title, r.Description, r.MIMEType, 0})
				said += out.Templates[len(out.Templates)-1].size()
			}
		}
		return page.NextCursor, len(out.Templates) >= maxListed || said >= maxSaid, nil
	})
	out.More = out.More || more
	if err != nil {
		return tool.Result{}, err
	}
	return asJSON(out)
}

// pages asks for page after page, until there are no more or enough. It
// reports whether there was more.
func pages(page func(cursor string) (next string, enough bool, err error)) (more bool, err error) {
	cursor := ""
	seen := map[string]bool{}
	for {
		next, enough, err := page(cursor)
		if err != nil || next == "" {
			return false, err
		}
		if enough || seen[next] || len(seen) >= maxPages {
			return true, nil
		}
		seen[next] = true
		cursor = next
	}
}

func asJSON(v any) (tool.Result, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fault.New(fault.Internal, "tool_output_invalid", "a list cannot be written: %w", err)
	}
	return tool.Text(string(b)), nil
}

func readResource(ctx context.Context, x *session, in tool.Invocation) (tool.Result, error) {
	var args struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Result{}, fault.New(fault.Invalid, "args_invalid", "the arguments are not as they should be: %w", err)
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

// prompt is a prompt as it is listed.
type prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []argument `json:"arguments,omitempty"`
}

type argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

func listPrompts(ctx context.Context, x *session, _ tool.Invocation) (tool.Result, error) {
	var out struct {
		Prompts []prompt `json:"prompts"`
		More    bool     `json:"more,omitempty"`
	}
	out.Prompts = []prompt{}
	var said int
	var err error
	out.More, err = pages(func(cursor string) (string, bool, error) {
		page, err := do(ctx, x, "listing the prompts", func(ctx context.Context) (*sdk.ListPromptsResult, error) {
			return x.client.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		})
		if err != nil {
			return "", false, err
		}
		for _, p := range page.Prompts {
			if p == nil {
				continue
			}
			one := prompt{Name: p.Name, Title: p.Title, Description: p.Description}
			said += len(p.Name) + len(p.Title) + len(p.Description)
			for _, a := range p.Arguments {
				if a != nil {
					one.Arguments = append(one.Arguments, argument{a.Name, a.Description, a.Required})
					said += len(a.Name) + len(a.Description)
				}
			}
			out.Prompts = append(out.Prompts, one)
		}
		return page.NextCursor, len(out.Prompts) >= maxListed || said >= maxSaid, nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	return asJSON(out)
}

func getPrompt(ctx context.Context, x *session, in tool.Invocation) (tool.Result, error) {
	var args struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Result{}, fault.New(fault.Invalid, "args_invalid", "the arguments are not as they should be: %w", err)
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
