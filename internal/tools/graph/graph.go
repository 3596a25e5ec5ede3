// Package graph lets an agent ask and extend the user's graph, which package memory/graph keeps.
//
// graph.neighbours tells who or what something is: its relations, the facts about it with their dates and
// sources, and the passages of messages and documents that mention it, so that "who is Ann, and what did we
// agree" takes one call. graph.query answers SPARQL. Both are queries, and
// their results have the labels of all triples that were read: what comes from foreign text stays foreign.
//
// graph.assert is an action. What it states has the labels of everything that the model had been shown, and
// its source is the message with the call, so that it is gone when that or its conversation is erased. A repeated call changes nothing,
// and a call can be undone. A name that is no IRI means the entity or the relation of that name.
package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Name is the first word of the tools' names.
const Name = "graph"

// Graph keeps triples; package memory/graph does.
type Graph interface {
	Query(ctx context.Context, user, text string, lim sparql.Limits) (sparql.Answer, message.Labels, error)
	// Neighbours tells what is known of an entity. What belongs to the message except is left out.
	Neighbours(ctx context.Context, user, which string, limit int, except id.ID) (client.Entity, message.Labels, error)
	// State adds a triple that is given in words.
	State(ctx context.Context, user string, t client.NewTriple, labels message.Labels, call id.ID) (int, error)
	// StatedIn says in words what a call has stated (not_found).
	StatedIn(ctx context.Context, user string, call id.ID) (string, error)
	ForgetCall(ctx context.Context, user string, call id.ID) (int, error)
}

type queryArgs struct {
	Query string `json:"query" jsonschema:"SPARQL: SELECT, ASK or CONSTRUCT" minlen:"1" maxlen:"20000"`
	Limit int    `json:"limit,omitzero" jsonschema:"Rows, 50 unless given" min:"1" max:"500"`
}

type neighboursArgs struct {
	Of    string `json:"of" jsonschema:"Name or IRI" minlen:"1" maxlen:"1000"`
	Limit int    `json:"limit,omitzero" jsonschema:"Relations, 50 unless given" min:"1" max:"500"`
}

type assertArgs struct {
	Subject   string `json:"subject" jsonschema:"Name or IRI" minlen:"1" maxlen:"1000"`
	Predicate string `json:"predicate" jsonschema:"Relation, such as works at" minlen:"1" maxlen:"1000"`
	Object    string `json:"object,omitzero" jsonschema:"Name or IRI of another thing" maxlen:"1000"`
	Value     string `json:"value,omitzero" jsonschema:"Instead of object: a text, number or day" maxlen:"4000"`
}

// Add adds the tools to a kit named Name.
func Add(k *local.Kit, g Graph) {
	local.Query(k, tool.Spec{Name: "neighbours", Yields: message.Private, Tidy: local.ReplacesEarlier("of"),
		Description: "Tells who or what something is and what was said or agreed about it: relations, remembered facts, and passages of messages and documents, with dates and sources.", Log: tool.LogSpec{Summary: "Look up what is known of {of}"}},
		func(ctx context.Context, in tool.Invocation, a neighboursArgs) (tool.Result, error) {
			e, labels, err := g.Neighbours(ctx, in.User, a.Of, a.Limit, in.Call.Message)
			return shown(Text(e), labels, err)
		})
	local.Query(k, tool.Spec{Name: "query", Yields: message.Private,
		Description: "Answers a SPARQL query about the user's graph of people, things and relations.", Log: tool.LogSpec{Summary: "Query the graph: {query}"}},
		func(ctx context.Context, in tool.Invocation, a queryArgs) (tool.Result, error) {
			answer, labels, err := g.Query(ctx, in.User, a.Query, sparql.Limits{Rows: cmp.Or(a.Limit, 50)})
			return shown(Table(answer), labels, err)
		})
	local.Change(k, tool.Spec{Name: "assert", Yields: message.Private,
		Description: "Adds a relation to the user's graph.",
		Log:         tool.LogSpec{Summary: "State that {subject} {predicate}[ {object}][ {value}]", Does: "adds a relation to the graph"},
		Widths:      []tool.Width{{Name: "state anything about {subject}", Any: []string{"predicate", "object", "value"}}, {Name: "state anything", Any: []string{"subject", "predicate", "object", "value"}}}},
		func(_ context.Context, user string) (own, error) { return own{g, user}, nil },
		func(ctx context.Context, in tool.Invocation, a assertArgs, o own) (string, error) {
			source := "call:" + in.Key
			if !in.Conversation.Zero() {
				conv := record.IDOf(in.Conversation, record.TypeConversation)
				source = record.InteractionURI(conv, in.Request).ChildID(record.TypeMessage, in.Call.Message).String()
			}
			call := callID(local.Key(in))
			n, err := g.State(ctx, in.User, client.NewTriple{Subject: a.Subject, Predicate: a.Predicate, Object: a.Object, Value: a.Value, Source: source}, in.Labels, call)
			if err != nil {
				return "", err
			}
			if n == 0 {
				return "The graph knows that already.", nil
			}
			return g.StatedIn(ctx, in.User, call)
		}, tool.Text)
}

// callID returns the identity of a call in the graph.
func callID(key string) id.ID { return id.Derive("graph", "call", key) }

// own is a user's graph. It implements local.Changes.
type own struct {
	Graph
	user string
}

// Applied implements local.Changes.
func (o own) Applied(ctx context.Context, key string) (string, bool, error) {
	said, err := o.StatedIn(ctx, o.user, callID(key))
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return said, err == nil, err
}

// Revert implements local.Changes.
func (o own) Revert(ctx context.Context, key string) (string, error) {
	_, err := o.ForgetCall(ctx, o.user, callID(key))
	return "The relation is removed.", err
}

func shown(text string, labels message.Labels, err error) (tool.Result, error) {
	res := tool.Text(text)
	res.Labels = message.Private | labels
	return res, err
}

// Text shows an entity with its relations, the facts about it, and the texts that mention it.
func Text(e client.Entity) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", local.Line(e.Label, 200))
	if e.ID != "" {
		fmt.Fprintf(&b, " <%s>", e.ID)
	}
	b.WriteString("\n")
	for _, n := range e.Relations {
		other := local.Line(n.Label, 500)
		line := fmt.Sprintf("- %s: %s", n.Words, other)
		if n.Inverse {
			line = fmt.Sprintf("- %s %s this", other, n.Words)
		}
		fmt.Fprintf(&b, "%s (%s)\n", line, day(n.At))
	}
	if e.More {
		b.WriteString("There are more relations.\n")
	}
	if len(e.Facts) > 0 {
		b.WriteString("\nFacts:\n")
	}
	for _, f := range e.Facts {
		text := local.Line(f.Text, 500)
		if f.Foreign {
			text = fmt.Sprintf("others wrote %q", text)
		}
		since := "since " + day(f.From)
		if !f.Until.IsZero() {
			since = "no longer true: " + day(f.From) + " to " + day(f.Until)
		}
		fmt.Fprintf(&b, "- %s (%s, %s)\n", text, since, cmp.Or(f.Source, "saved by hand"))
	}
	for _, s := range append(slices.Clone(e.Texts), e.Passages...) {
		where := cmp.Or(s.Cite, s.Source)
		if !s.At.IsZero() {
			where += ", " + day(s.At)
		}
		fmt.Fprintf(&b, "\nFrom %s:\n%s\n", where, s.Text)
	}
	return b.String()
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Table shows the answer to a query.
func Table(a sparql.Answer) string {
	var b strings.Builder
	switch {
	case a.Vars == nil && a.Triples == nil:
		return map[bool]string{true: "yes", false: "no"}[a.Yes] + "\n"
	case a.Vars == nil:
		b.WriteString(rdf.WriteNTriples(a.Triples))
	case len(a.Rows) == 0:
		return "There is no solution.\n"
	default:
		b.WriteString(strings.Join(a.Vars, " | ") + "\n")
		for _, r := range a.Rows {
			var cells []string
			for _, t := range r {
				s := t.String()
				if t.Kind == rdf.Literal {
					s = local.Line(t.Value, 500)
				}
				cells = append(cells, s)
			}
			b.WriteString(strings.Join(cells, " | ") + "\n")
		}
	}
	if a.More {
		b.WriteString("There is more; the answer was cut.\n")
	}
	return b.String()
}
