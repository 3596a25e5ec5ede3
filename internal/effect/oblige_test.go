package effect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

func TestMask(t *testing.T) {
	for _, c := range []struct {
		in       string
		pointers []string
		out      string // empty: it cannot be met
	}{
		{`{"a":1,"b":[{"c":2,"d":3},{"c":4}]}`, []string{"/b/*/c"}, `{"a":1,"b":[{"c":"***","d":3},{"c":"***"}]}`},
		{`{"a":1,"b":{"c":2}}`, []string{"/b", "/x"}, `{"a":1,"b":"***"}`},
		{`{"a/b":1,"m~n":2,"c":3}`, []string{"/a~1b", "/m~0n"}, `{"a/b":"***","m~n":"***","c":3}`},
		{`[1,2,3]`, []string{"/1"}, `[1,"***",3]`},
		{` [1e400, 12345678901234567890]` + "\n", []string{"/2"}, `[1e400,12345678901234567890]`},
		{`"plain"`, []string{"/a"}, `"plain"`},
		{`{"a":1}`, []string{""}, `***`},
		{`no json`, []string{""}, `***`},
		{`no json`, []string{"/a"}, ``},
		{`{"a":1} and more`, []string{"/a"}, ``},
		{`{"a":1}{"a":2}`, []string{"/a"}, ``},
		{`{"a":1,"a":2}`, []string{"/a"}, ``}, // which one would be read?
		{`{"a":1`, []string{"/a"}, ``},
		{``, []string{"/a"}, ``},
		{`{"a":1}`, []string{"a"}, ``},
	} {
		got, ok := mask(c.in, c.pointers)
		if ok != (c.out != "") || ok && got != c.out {
			t.Errorf("%s %v: %q, %v", c.in, c.pointers, got, ok)
		}
	}
}

// Nothing that is masked is left, and nothing else is touched.
func TestMaskHidesAndOnlyThat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c/d", "e~f", "é"})
		var value func(depth int) any
		value = func(depth int) any {
			switch k := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case depth == 0 || k == 0:
				return rapid.SampledFrom([]any{"secret", 1.5, true, nil, ""}).Draw(t, "scalar")
			case k == 1:
				out := []any{}
				for range rapid.IntRange(0, 3).Draw(t, "length") {
					out = append(out, value(depth-1))
				}
				return out
			}
			out := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				out[name.Draw(t, "name")] = value(depth - 1)
			}
			return out
		}
		v := map[string]any{"a": value(3), "b": value(3)}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := mask(string(b), []string{"/a/*", "/b"})
		if !ok {
			t.Fatalf("%s", b)
		}
		want := map[string]any{"a": v["a"], "b": "***"}
		switch x := v["a"].(type) {
		case []any:
			for i := range x {
				x[i] = "***"
			}
		case map[string]any:
			for k := range x {
				x[k] = "***"
			}
		}
		wb, _ := json.Marshal(want)
		var g any
		if err := json.Unmarshal([]byte(got), &g); err != nil {
			t.Fatal(err)
		}
		gb, _ := json.Marshal(g)
		if string(gb) != string(wb) {
			t.Fatalf("%s: %s, want %s", b, gb, wb)
		}
	})
}

func FuzzMask(f *testing.F) {
	f.Add(`{"a":{"b":"secret"}}`, "/a/b")
	f.Add(`[{"a":"secret"}]`, "/*/a")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, text, pointer string) {
		got, ok := mask(text, []string{pointer})
		if ok && pointer != "" && !json.Valid([]byte(got)) {
			t.Fatalf("%q: %q", text, got)
		}
	})
}

func obliging(o policy.Obligations) policy.Judge {
	return judgeFunc(func(context.Context, policy.Question) (policy.Decision, error) {
		return policy.Decision{Verdict: policy.Allow, Reason: "with obligations", Rule: "r", Version: "v", Obligations: o}, nil
	})
}

func TestObligationsAreMet(t *testing.T) {
	s := openStore(t)
	masks := obliging(policy.Obligations{Mask: []string{"/password"}})
	const raw = `{"user":"ann","password":"hunter2"}`
	expect(t, run(t, engine(s, masks), callOf(query(says(raw)), `{}`)), message.OK, `{"user":"ann","password":"***"}`)
	c := callOf(action(says(raw)), `{}`)
	expect(t, run(t, engine(s, masks), c), message.OK, `"***"`)
	in := stateOf(t, s, c)
	if strings.Contains(string(in.Result), "hunter2") || !slices.Equal(in.Mask, []string{"/password"}) || in.Rule != "r" || in.Policy != "v" {
		t.Errorf("%+v: %s", in, in.Result)
	}
	if res := run(t, engine(s, judge(policy.Allow)), c); strings.Contains(res.Text(), "hunter2") {
		t.Errorf("later it is told: %s", res.Text())
	}

	// What is not JSON cannot be met: a query is denied, of an action nothing is told.
	res := run(t, engine(s, masks), callOf(query(says("the password is hunter2")), `{}`))
	expect(t, res, message.DeniedCall, "withheld", "/password")
	res2 := run(t, engine(s, masks), callOf(action(says("the password is hunter2")), `{}`))
	expect(t, res2, message.OK, "withheld")
	failing := action(func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{Failed: true, Content: []message.Block{&message.Text{Text: "no hunter2 here"}}}, nil
	})
	res3 := run(t, engine(s, masks), callOf(failing, `{}`))
	expect(t, res3, message.Failed, "withheld")
	for _, r := range []*message.ToolResult{res, res2, res3} {
		if strings.Contains(r.Text(), "hunter2") {
			t.Errorf("it is told: %s", r.Text())
		}
	}
	image := query(func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{Content: []message.Block{&message.Image{MIME: "image/png", Data: []byte("x")}}}, nil
	})
	expect(t, run(t, engine(s, masks), callOf(image, `{}`)), message.DeniedCall, "withheld")
}

func TestCapIsMet(t *testing.T) {
	s := openStore(t)
	e := engine(s, obliging(policy.Obligations{Cap: 10}))
	long := strings.Repeat("x", 100)
	for _, tl := range []tool.Tool{query(says(long)), action(says(long))} {
		c := callOf(tl, `{}`)
		res := run(t, e, c)
		expect(t, res, message.OK, "xxxxxxxxxx\n", "Policy allows no more")
		if res.Rest != "" || strings.Count(res.Text(), "x") > 10 {
			t.Errorf("%q, rest %s", res.Text(), res.Rest)
		}
	}
	wide := engine(s, obliging(policy.Obligations{Cap: 1000}))
	small := query(says(long))
	small.spec.ResultCap = 20
	if res := run(t, wide, callOf(small, `{}`)); res.Rest == "" || !strings.Contains(res.Text(), ReadToolName) {
		t.Errorf("the tool's own cap: %q", res.Text())
	}
}

// What one decision about a call has asked for, a later one does not lift.
func TestObligationsAddUp(t *testing.T) {
	j := &job{}
	j.oblige(policy.Obligations{Mask: []string{"/a"}, Cap: 100})
	j.oblige(policy.Obligations{Mask: []string{"/b", "/a"}, Cap: 200})
	j.oblige(policy.Obligations{})
	if !slices.Equal(j.duty.Mask, []string{"/a", "/b"}) || j.duty.Cap != 100 {
		t.Errorf("%+v", j.duty)
	}
}
