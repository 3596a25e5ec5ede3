package effect

import (
	"context"
	"slices"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

func obliging(o policy.Obligations) policy.Authorizer {
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
	failing := action(gives(tool.Result{Failed: true, Content: []message.Block{&message.Text{Text: "no hunter2 here"}}}))
	res3 := run(t, engine(s, masks), callOf(failing, `{}`))
	expect(t, res3, message.Failed, "withheld")
	for _, r := range []*message.ToolResult{res, res2, res3} {
		if strings.Contains(r.Text(), "hunter2") {
			t.Errorf("it is told: %s", r.Text())
		}
	}
	image := query(gives(tool.Result{Content: []message.Block{&message.Image{MIME: "image/png", Data: []byte("x")}}}))
	expect(t, run(t, engine(s, masks), callOf(image, `{}`)), message.DeniedCall, "withheld")
}

func TestCapIsMet(t *testing.T) {
	s, e := open(t, obliging(policy.Obligations{Cap: 10}))
	long := strings.Repeat("x", 100)
	for _, tl := range []tool.Tool{query(says(long)), action(says(long))} {
		c := callOf(tl, `{}`)
		res := run(t, e, c)
		expect(t, res, message.OK, "xxxxxxxxxx\n", "Policy does not allow reading more")
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
	j := &toolCall{}
	j.addObligations(policy.Obligations{Mask: []string{"/a"}, Cap: 100})
	j.addObligations(policy.Obligations{Mask: []string{"/b", "/a"}, Cap: 200})
	j.addObligations(policy.Obligations{})
	if !slices.Equal(j.obligations.Mask, []string{"/a", "/b"}) || j.obligations.Cap != 100 {
		t.Errorf("%+v", j.obligations)
	}
}
