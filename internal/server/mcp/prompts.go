package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/tree"
)

// maxCompletions is how many values the protocol allows in a completion.
const maxCompletions = 100

// listPrompts lists a prompt for each agent.
func (x *session) listPrompts(ctx context.Context) (*sdk.ListPromptsResult, error) {
	out := &sdk.ListPromptsResult{Prompts: []*sdk.Prompt{}}
	for _, a := range x.o.Node.Agents(ctx) {
		out.Prompts = append(out.Prompts, &sdk.Prompt{Name: askName(a.Path), Title: "Ask " + a.Path, Description: a.Description,
			Arguments: []*sdk.PromptArgument{{Name: "message", Description: "What the agent is asked", Required: true}}})
	}
	return out, nil
}

// getPrompt returns the message that has the client's model ask an agent.
func (x *session) getPrompt(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	path, ok := x.agentNamed(ctx, r.Params.Name)
	if !ok {
		return nil, fault.New(fault.NotFound, "prompt_unknown", "there is no prompt %.80q", r.Params.Name).WithHint("prompts/list lists them")
	}
	said := strings.TrimSpace(r.Params.Arguments["message"])
	if said == "" {
		return nil, fault.New(fault.Invalid, "argument_missing", "the argument message is missing").WithHint("say what the agent is asked")
	}
	text := fmt.Sprintf("Call the tool %s with this message, and give me its answer:\n\n%s", askName(path), said)
	return &sdk.GetPromptResult{Description: "Ask " + path, Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
}

// complete completes the argument of a prompt from the agent's examples, and that of a template from the tree.
func (x *session) complete(ctx context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	var all []string
	ref, arg := r.Params.Ref, r.Params.Argument
	switch {
	case ref == nil:
		return nil, x.wireError(ctx, "completion/complete", fault.New(fault.Invalid, "ref_missing", "the request does not say what is completed"))
	case ref.Type == "ref/prompt" && arg.Name == "message":
		if path, ok := x.agentNamed(ctx, ref.Name); ok {
			all = x.o.Examples(path)
		}
	case ref.Type == "ref/resource" && ref.URI == noteTemplate && arg.Name == "name":
		page, err := x.o.Tree.List(ctx, x.reader(), tree.Query{Type: "home.Note", Limit: maxPage})
		if err != nil {
			return nil, x.wireError(ctx, "completion/complete", err)
		}
		for i := range page.Items {
			all = append(all, page.Items[i].URI.ID())
		}
	}
	out := &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}
	begin := strings.ToLower(arg.Value)
	for _, v := range all {
		if strings.HasPrefix(strings.ToLower(v), begin) {
			out.Completion.Total++
			if len(out.Completion.Values) < maxCompletions {
				out.Completion.Values = append(out.Completion.Values, v)
			}
		}
	}
	out.Completion.HasMore = out.Completion.Total > len(out.Completion.Values)
	return out, nil
}
