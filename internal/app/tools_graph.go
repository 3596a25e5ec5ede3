package app

import (
	"context"

	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	graphtool "steward/internal/tools/graph"
	domainlocal "steward/internal/tools/local"
)

// newGraph returns the engine that keeps the graphs of a store.
func (a *App) newGraph(st store.Store) *graph.Engine {
	return graph.New(graph.Options{Store: st, Mask: a.Hidden().Mask, Text: func(ctx context.Context, user string, u resource.URI) (string, message.Labels, error) {
		return sourceText(ctx, st, user, u)
	}})
}

// sourceText returns the text of what a triple comes from: of a message, or the title of a conversation.
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
	m, err := record.DecodeMessage(u, r.Body)
	if err != nil {
		return "", 0, err
	}
	labels := message.Private | message.LabelsOf(m.Blocks)
	if labels.Has(message.Secret) {
		return "", 0, nil
	}
	return m.Text(), labels, nil
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
