package llm_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// choosy is a provider that refuses requests with certain tools. says is what it says of the first of them.
type choosy struct {
	bad   []string
	says  func(index int, name string) string
	asked [][]string // the names of each request's tools
}

func (c *choosy) Name() string                               { return "p" }
func (c *choosy) Model(string) llm.Model                     { return c }
func (c *choosy) Models(context.Context) ([]llm.Info, error) { return nil, nil }
func (c *choosy) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		var names []string
		for _, s := range r.Tools.Specs() {
			names = append(names, s.Name)
		}
		c.asked = append(c.asked, names)
		if i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(c.bad, n) }); i >= 0 {
			yield(llm.Event{}, fault.New(fault.Invalid, "request_refused", "%s", c.says(i, tool.WireName(names[i]))))
			return
		}
		for _, ev := range good("fine").events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// A tool that a vendor refuses is found, left out, and told of once.
func TestARefusedToolIsLeftOut(t *testing.T) {
	for name, says := range map[string]func(int, string) string{
		"by name": func(_ int, name string) string {
			return "Invalid schema for function '" + name + "': array schema missing items."
		},
		"by place": func(i int, _ string) string {
			return fmt.Sprintf("tools.%d.custom.input_schema: JSON schema is invalid", i)
		},
		"nested": func(i int, _ string) string {
			return fmt.Sprintf("tools[0].function_declarations[%d].parameters: bad", i)
		},
		"neither": func(int, string) string { return "Invalid tool schema" },
	} {
		p := &choosy{bad: []string{"b.two", "e.five"}, says: says}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m")
		r := ask()
		var specs []tool.Spec
		for _, n := range []string{"a.one", "b.two", "b.two.more", "c.three", "d.four", "e.five"} {
			specs = append(specs, tool.Spec{Name: n, Input: []byte(`{"type":"object"}`)})
		}
		r.Tools = llm.NewToolset(specs...)
		g := readAll(t, m, r)
		if g.err != nil || g.text != "fine" || len(g.notices) != 2 || !strings.Contains(g.notices[0], "b.two,") || !strings.Contains(g.notices[1], "e.five,") {
			t.Errorf("%s: %+v", name, g)
		}
		before := len(p.asked)
		if g := readAll(t, m, r); g.err != nil || len(g.notices) != 0 || len(p.asked) != before+1 || len(p.asked[before]) != 4 {
			t.Errorf("%s, later: %+v, asked %v", name, g, p.asked[before:])
		}
	}
	// A refusal of something else leaves out nothing.
	p := &choosy{bad: []string{"a"}, says: func(int, string) string { return "messages.5: a tool result is missing" }}
	m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{refusing{p}}}), "p/m")
	r := ask()
	r.Tools = llm.NewToolset(tool.Spec{Name: "a"}, tool.Spec{Name: "b"})
	p.bad = nil
	if g := readAll(t, m, r); !fault.HasCode(g.err, "request_refused") || len(g.notices) != 0 {
		t.Errorf("%+v", g)
	}
}

// refusing refuses the request of the test, and answers others.
type refusing struct{ *choosy }

func (r refusing) Model(string) llm.Model { return r }
func (r refusing) Stream(ctx context.Context, q *llm.Request) iter.Seq2[llm.Event, error] {
	if q.Sampling.MaxTokens == 0 {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, fault.New(fault.Invalid, "request_refused", "%s", r.says(0, "")))
		}
	}
	return r.choosy.Stream(ctx, q)
}
