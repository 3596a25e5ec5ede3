package tree_test

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/tree"
)

func TestMounts(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	add, deep := resource.Root("tool.Tool", "math.add"), resource.Root("agent.Agent", "a").Child("tool.Tool", "x.y")
	must(o.Put(ctx, ana, tree.Put{URI: note("ana", "x"), Body: []byte(`{}`)}))
	if r := must(o.Get(ctx, ana, add)); r.Purpose != "Adds" || r.Version != 0 || r.Space != resource.System {
		t.Errorf("%+v", r)
	}
	if _, err := o.Get(ctx, ana, deep); !fault.HasCode(err, "not_found") {
		t.Error(err)
	}
	must(o.Get(ctx, local, deep))
	for name, c := range map[string]struct {
		by   tree.Caller
		q    tree.Query
		want string
	}{
		"ana, all":    {ana, tree.Query{}, add.String() + " " + note("ana", "x").String()},
		"ana, tools":  {ana, tree.Query{Type: "tool.Tool"}, add.String()},
		"ana, notes":  {ana, tree.Query{Type: "home.Note"}, note("ana", "x").String()},
		"system":      {ana, tree.Query{Space: resource.System}, add.String()},
		"her own":     {ana, tree.Query{Space: "user:ana"}, note("ana", "x").String()},
		"bo's":        {ana, tree.Query{Space: "user:bo"}, ""},
		"under":       {local, tree.Query{Under: resource.Root("agent.Agent", "a")}, deep.String()},
		"local tools": {local, tree.Query{Type: "tool.Tool"}, deep.String() + " " + add.String()},
		"since":       {ana, tree.Query{Since: start}, note("ana", "x").String()},
		"bo since":    {ana, tree.Query{Since: start, Space: "user:bo"}, ""},
		"until":       {ana, tree.Query{Until: start}, ""},
		"to come":     {ana, tree.Query{Since: time.Now().Add(time.Hour)}, ""},
		"long ago":    {ana, tree.Query{Since: start, Until: start.Add(1)}, ""},
	} {
		for _, size := range []int{1, 2, 100} {
			var all tree.Page
			c.q.Limit, c.q.After = size, ""
			for {
				p := must(o.List(ctx, c.by, c.q))
				all.Items = append(all.Items, p.Items...)
				if c.q.After = p.Next; p.Next == "" {
					break
				}
			}
			if got := uris(all); got != c.want {
				t.Errorf("%s in pages of %d: %q, want %q", name, size, got, c.want)
			}
		}
	}
}

func TestListRefuses(t *testing.T) {
	o := open(t)
	for code, q := range map[string]tree.Query{
		"limit_invalid": {Limit: 1001}, "space_invalid": {Space: "ana"}, "type_invalid": {Type: "note"},
	} {
		_, err := o.List(t.Context(), ana, q)
		wantCode(t, err, fault.Invalid, code)
	}
	for _, after := range []string{"x", "m.!!", "l.x", "t.x", "q.abc"} {
		_, err := o.List(t.Context(), ana, tree.Query{After: after})
		wantCode(t, err, fault.Invalid, "cursor_invalid")
	}
	_, err := o.List(t.Context(), ana, tree.Query{Since: start, After: "t.x"})
	wantCode(t, err, fault.Invalid, "cursor_invalid")
	_, err = o.List(t.Context(), ana, tree.Query{Since: start, After: "l.x"})
	wantCode(t, err, fault.Invalid, "cursor_invalid")
	_, err = o.History(t.Context(), ana, note("ana", "x"), "", -1)
	wantCode(t, err, fault.Invalid, "limit_invalid")
	_, err = o.History(t.Context(), ana, note("ana", "x"), "x", 0)
	wantCode(t, err, fault.Invalid, "cursor_invalid")
	_, err = o.History(t.Context(), ana, resource.URI{}, "", 0)
	wantCode(t, err, fault.NotFound, "not_found")
}

// A list that is read page by page during changes shows each resource that exists
// the whole time exactly once.
func TestListsWhileThingsChange(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	put := func(name string) {
		must(o.Put(ctx, ana, tree.Put{URI: note("ana", name), Body: []byte(`{}`)}))
	}
	for i := range 50 {
		put(fmt.Sprintf("stays%02d", i))
	}
	q := tree.Query{Type: "home.Note", Limit: 3}
	seen := map[string]int{}
	for n := 0; ; n++ {
		p := must(o.List(ctx, ana, q))
		for _, r := range p.Items {
			seen[r.URI.ID()]++
		}
		put(fmt.Sprintf("comes%02d", n))
		put(fmt.Sprintf("stays%02d", n))
		if n > 0 {
			if err := o.Delete(ctx, ana, tree.Removal{URI: note("ana", fmt.Sprintf("comes%02d", n-1))}); err != nil {
				t.Fatal(err)
			}
		}
		if q.After = p.Next; q.After == "" {
			break
		}
	}
	for i := range 50 {
		if n := seen[fmt.Sprintf("stays%02d", i)]; n != 1 {
			t.Errorf("stays%02d was seen %d times", i, n)
		}
	}
}
