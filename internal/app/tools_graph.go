package app

import (
	"context"
	"fmt"
	"slices"

	"steward/client"
	"steward/internal/id"
	factmem "steward/internal/memory"
	"steward/internal/memory/documents"
	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	graphtool "steward/internal/tools/graph"
	domainlocal "steward/internal/tools/local"
)

// mentioned are the parts of Steward in which the graph looks for what mentions an entity. An index may be nil.
type mentioned struct {
	memory   *factmem.Engine
	messages search.Index
	papers   *documents.Engine
}

// newGraph returns the engine that keeps the graphs of a store. in is called when the graph is asked.
func (a *App) newGraph(st store.Store, in func() mentioned) *graph.Engine {
	return graph.New(graph.Options{Store: st, Mask: a.Hidden().Mask,
		Text: func(ctx context.Context, user string, u resource.URI) (string, message.Labels, error) {
			return sourceText(ctx, st, user, u)
		},
		Facts: func(ctx context.Context, user string) ([]record.Fact, error) {
			if in().memory.Off() {
				return nil, nil
			}
			return in().memory.List(ctx, user, true)
		},
		Mentions: func(ctx context.Context, user, name string, except id.ID, most int) ([]graph.Mention, error) {
			return mentions(ctx, in(), user, name, except, most)
		}})
}

// mentions returns messages of the person, the newest first, and passages of documents, the best first, that may
// mention a name. Answers and the results of tools are left out: they repeat what is known already.
func mentions(ctx context.Context, in mentioned, user, name string, except id.ID, most int) (out []graph.Mention, err error) {
	if in.messages != nil {
		page, err := in.messages.Search(ctx, store.ForUser(user), search.Query{Text: `"` + name + `"`, Order: search.Newest, Mode: search.ByText, Role: message.User, Except: except, Limit: most})
		if err != nil {
			return nil, err
		}
		for _, h := range page.Hits {
			out = append(out, graph.Mention{SourceText: client.SourceText{Source: h.URI.String(), Cite: fmt.Sprintf("a message in %q", h.Title), At: h.At, Text: h.Text}, Labels: message.Private | h.Labels})
		}
	}
	if in.papers != nil {
		hits, err := in.papers.Search(ctx, user, name, 2*most)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			out = append(out, graph.Mention{SourceText: client.SourceText{Source: h.Document.URI().String(), Cite: h.Cite(), At: h.Document.Changed, Text: h.Part.Text}, Labels: h.Document.Labels})
		}
	}
	return out, nil
}

// sourceText returns the text of what a triple comes from: of a message, or the title of a conversation. For a
// message of an agent that only calls tools, it is what the person has written before it.
func sourceText(ctx context.Context, st store.Store, user string, u resource.URI) (string, message.Labels, error) {
	if u.Type() != record.TypeMessage && u.Type() != record.TypeConversation {
		return "", 0, nil
	}
	r, err := st.Get(ctx, store.ForUser(user), u)
	if err != nil {
		return "", 0, err
	}
	if u.Type() == record.TypeConversation {
		c, err := record.DecodeConversation(u, r.Body)
		return c.Title, message.Private, err
	}
	text, labels, role, err := messageText(u, r.Body)
	if err != nil || text != "" || role != message.Assistant {
		return text, labels, err
	}
	for it, err := range store.Items(ctx, st, store.ForUser(user), store.Query{Under: u.Parent(), Type: record.TypeMessage, Limit: 50}) {
		if err != nil {
			return "", 0, err
		}
		if text, labels, role, err = messageText(it.URI, it.Body); err != nil || text != "" && role == message.User {
			return text, labels, err
		}
	}
	return "", 0, nil
}

// messageText returns the text of a message; none if it holds a secret, or names recalled facts.
func messageText(u resource.URI, body []byte) (string, message.Labels, message.Role, error) {
	m, err := record.DecodeMessage(u, body)
	if err != nil {
		return "", 0, "", err
	}
	labels := message.Private | message.LabelsOf(m.Blocks)
	recalled := slices.ContainsFunc(m.Blocks, func(b message.Block) bool {
		x, ok := b.(*message.Text)
		return ok && x.Origin == record.OriginMemory
	})
	if labels.Has(message.Secret) || recalled {
		return "", 0, m.Role, nil
	}
	return m.Text(), labels, m.Role, nil
}

// graphTools are the tools for the graph. They change nothing but the user's own graph.
func (l *Local) graphTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: graphtool.Name, tools: func() ([]tool.Tool, error) {
		k := domainlocal.NewKit(builtInEnv(set, graphtool.Name), tool.OriginOwn)
		graphtool.Add(k, l.graph)
		return k.Tools()
	}}
}

var _ graphtool.Graph = (*graph.Engine)(nil)
