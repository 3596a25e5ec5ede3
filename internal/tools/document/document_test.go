package document

import (
	"context"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	var hits []client.DocumentHit
	var asked string
	var limit int
	k := local.NewKit(tool.Env{Name: Name}, tool.OriginOwn)
	AddTools(k, func(_ context.Context, user, query string, most int) ([]client.DocumentHit, message.Labels, error) {
		asked, limit = user+" "+query, most
		if query == "?" {
			return nil, 0, fault.New(fault.Invalid, "query_invalid", "the query has no words")
		}
		return hits, message.Untrusted, nil
	})
	tools, err := k.Tools()
	if err != nil || len(tools) != 1 || tools[0].Spec().Name != "documents.search" || tools[0].Spec().Effect != tool.Query {
		t.Fatal(tools, err)
	}
	run := func(args string) (string, message.Labels, error) {
		res, err := tools[0].Call(t.Context(), tool.Invocation{User: "ann", Args: []byte(args)})
		var b strings.Builder
		for _, c := range res.Content {
			if text, ok := c.(*message.Text); ok {
				b.WriteString(text.Text)
			}
		}
		return b.String(), res.Labels, err
	}
	got, labels, err := run(`{"query":"lease"}`)
	if err != nil || got != `No document says anything about "lease".` || labels != message.Private|message.Untrusted || asked != "ann lease" || limit != 0 {
		t.Errorf("%q %v %v, asked %q %d", got, labels, err, asked, limit)
	}
	hits = []client.DocumentHit{{Passage: client.Passage{Text: "Three months.", Cite: "lease.md:7", Heading: "Notice"}}, {Passage: client.Passage{Text: "x", Cite: "a.html (Top)", Heading: "Top"}}}
	if got, _, err = run(`{"query":"lease","limit":2}`); err != nil || got != "1. lease.md:7, Notice\nThree months.\n\n2. a.html (Top)\nx\n" || limit != 2 {
		t.Errorf("%q %v", got, err)
	}
	if _, _, err = run(`{"query":"?"}`); !fault.HasCode(err, "query_invalid") {
		t.Error(err)
	}
}
