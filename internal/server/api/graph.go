package api

import (
	"cmp"
	"context"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
)

// personSource is the source of what a person states without naming one.
const personSource = "person"

func (f *server) servesGraph() error {
	if f.Graph == nil {
		return fault.New(fault.Unsupported, "graph_unsupported", "the graph is not served here")
	}
	return nil
}

func (f *server) queryGraph(ctx context.Context, c *call, in struct {
	Body struct {
		Query string `json:"query"`
		Limit int    `json:"limit,omitzero"`
	} `body:""`
}) (client.GraphAnswer, error) {
	if err := f.servesGraph(); err != nil {
		return client.GraphAnswer{}, err
	}
	a, labels, err := f.Graph.Query(ctx, c.User, in.Body.Query, sparql.Limits{Rows: min(cmp.Or(max(in.Body.Limit, 0), 1000), 10000)})
	if err != nil {
		return client.GraphAnswer{}, err
	}
	out := client.GraphAnswer{Vars: a.Vars, Triples: rdf.WriteNTriples(a.Triples), More: a.More, Labels: labels.Names()}
	if a.Vars == nil && a.Triples == nil {
		out.Boolean = &a.Yes
	}
	for _, r := range a.Rows {
		row := map[string]string{}
		for i, t := range r {
			if t.Kind != rdf.None {
				row[a.Vars[i]] = t.String()
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func (f *server) graphNeighbours(ctx context.Context, c *call, in struct {
	Of    string `query:"of"`
	Limit int    `query:"limit" range:"0,500"`
}) (client.Entity, error) {
	if err := f.servesGraph(); err != nil {
		return client.Entity{}, err
	}
	e, _, err := f.Graph.Neighbours(ctx, c.User, in.Of, in.Limit, id.ID{})
	return e, err
}

// labelsOf returns the labels of what a caller states. What a program states may come from anywhere.
func labelsOf(c *call) message.Labels { return by(c).Labels }

func (f *server) assertTriple(ctx context.Context, c *call, in struct {
	Body client.NewTriple `body:""`
}) (client.GraphChange, error) {
	if err := f.servesGraph(); err != nil {
		return client.GraphChange{}, err
	}
	in.Body.Source = cmp.Or(in.Body.Source, personSource)
	n, err := f.Graph.State(ctx, c.User, in.Body, labelsOf(c), id.New())
	return client.GraphChange{Triples: n}, err
}

func (f *server) importGraph(ctx context.Context, c *call, in struct {
	Body client.GraphDocument `body:""`
}) (client.GraphChange, error) {
	if err := f.servesGraph(); err != nil {
		return client.GraphChange{}, err
	}
	labels := message.Private | message.Untrusted
	if in.Body.Own {
		labels = labelsOf(c)
	}
	n, err := f.Graph.Import(ctx, c.User, in.Body.Format, in.Body.Text, graph.Origin{Source: cmp.Or(in.Body.Source, "import"), Labels: labels, Call: id.New()})
	return client.GraphChange{Triples: n}, err
}

func (f *server) exportGraph(ctx context.Context, c *call, in struct {
	Format string `query:"format"`
	Source string `query:"source"`
}) (client.GraphDocument, error) {
	if err := f.servesGraph(); err != nil {
		return client.GraphDocument{}, err
	}
	triples, _, err := f.Graph.Export(ctx, c.User, in.Source)
	if err != nil {
		return client.GraphDocument{}, err
	}
	out := client.GraphDocument{Format: cmp.Or(in.Format, graph.Turtle), Source: in.Source}
	out.Text, err = graph.Write(out.Format, triples)
	return out, err
}

func (f *server) forgetGraph(ctx context.Context, c *call, in struct {
	Source string `query:"source"`
}) (client.GraphChange, error) {
	if err := f.servesGraph(); err != nil {
		return client.GraphChange{}, err
	}
	n, err := f.Graph.Forget(ctx, c.User, in.Source)
	return client.GraphChange{Triples: n}, err
}
