package tree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/tool"
	"steward/internal/tree"
)

// kit returns the tools by name.
func kit(t testing.TB, o office) map[string]tool.Tool {
	t.Helper()
	out := map[string]tool.Tool{}
	for _, x := range must(o.Tools()) {
		out[x.Spec().Name] = x
	}
	return out
}

// run calls a tool for a user and returns text and labels.
func run(t testing.TB, x tool.Tool, user, key, args string) (string, message.Labels, error) {
	t.Helper()
	ctx := request.With(t.Context(), request.Context{User: user, Actor: "agent:assistant", Attended: true})
	res, err := x.Call(ctx, tool.Invocation{Args: []byte(args), User: user, Key: key})
	if err != nil {
		return "", 0, err
	}
	b := res.Content[0].(*message.Text)
	return b.Text, res.Labels | b.Labels | x.Spec().Yields, nil
}

func TestToolsSpecs(t *testing.T) {
	for name, x := range kit(t, open(t)) {
		s := x.Spec()
		action := name != tree.ToolGet && name != tree.ToolList
		if (s.Effect == tool.Action) != action || s.Out() != (name == tree.ToolShare) || !s.Yields.Has(message.Private) || s.Dedupes != action {
			t.Errorf("%+v", s)
		}
		if _, ok := tool.SettlerOf(x); ok != action {
			t.Errorf("%s can be asked: %v", name, ok)
		}
		if _, ok := tool.UndoerOf(x); ok != action {
			t.Errorf("%s can be taken back: %v", name, ok)
		}
		if c, ok := x.(tool.Checker); !ok || c.Check([]byte(`{"none":1}`)) == nil {
			t.Errorf("%s takes anything", name)
		}
	}
}

func TestAgentsKeepAndRead(t *testing.T) {
	o := open(t)
	k := kit(t, o)
	say, _, err := run(t, k[tree.ToolPut], "ana", "k1", `{"uri":"cld:home.Note.a","body":{"purpose":"By the agent","b":1,"a":2},"state":"open"}`)
	if err != nil || say != "Kept as cld:identity.User.ana/home.Note.a, version 1." {
		t.Fatal(say, err)
	}
	must(o.Put(t.Context(), ana, tree.Put{URI: note("ana", "b"), Body: []byte(`{"purpose":"By ana"}`)}))
	say, labels, err := run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:home.Note.a"}`)
	if err != nil || labels != message.Private|message.Untrusted || !strings.Contains(say, `"body":{"a":2,"b":1,"purpose":"By the agent"}`) || !strings.Contains(say, `"actor":"agent:assistant"`) {
		t.Error(say, labels, err)
	}
	say, labels, err = run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:home.Note.b"}`)
	if err != nil || labels != message.Private {
		t.Error(say, labels, err)
	}
	_, labels, err = run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:tool.Tool.math.add"}`)
	if err != nil || labels != message.Private|message.Untrusted {
		t.Error(labels, err)
	}
	say, labels, err = run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:home.Note.b/home.Part.p","version":1}`)
	if !fault.HasCode(err, "not_found") {
		t.Error(say, labels, err)
	}
	must(o.Put(t.Context(), ana, tree.Put{URI: note("ana", "b").Child("home.Part", "p"), Body: []byte(`{}`)}))
	say, labels, err = run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:home.Note.b/home.Part.p","parents":true}`)
	if err != nil || labels != message.Private|message.Untrusted || !strings.Contains(say, `"parents":[{"uri":"cld:identity.User.ana/home.Note.b"`) {
		t.Error(say, labels, err)
	}
	for args, want := range map[string]string{
		`{"type":"home.Note"}`:                                "a b",
		`{"type":"home.Note","state":"open"}`:                 "a",
		`{"under":"cld:home.Note.b"}`:                         "b p",
		`{"since":"2020-01-01T00:00:00Z","type":"home.Note"}`: "b a",
		`{"space":"group:family"}`:                            "",
		`{"space":"user:bo"}`:                                 "",
		`{"limit":1,"space":"user:ana","type":"home.Note"}`:   "a +",
		`{"since":"yesterday"}`:                               "time_invalid",
		`{"under":"cld:home"}`:                                "uri_invalid",
		`{"type":"home.Note","limit":1000}`:                   "args_invalid",
	} {
		say, _, err := run(t, k[tree.ToolList], "ana", "", args)
		var out struct {
			Resources []struct{ URI resource.URI }
			Cursor    string
		}
		got := ""
		if err != nil {
			got = fault.Of(err).Code
		} else if err := json.Unmarshal([]byte(say), &out); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.Resources {
			got += r.URI.ID() + " "
		}
		if out.Cursor != "" {
			got += "+"
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for _, c := range []struct{ tool, user, args, code string }{
		{tree.ToolPut, "ana", `{"uri":"cld:identity.Group.family/home.Note.x","body":{}}`, "space_invalid"},
		{tree.ToolPut, "ana", `{"uri":"cld:identity.User.bo/home.Note.x","body":{}}`, "space_invalid"},
		{tree.ToolPut, "ana", `{"uri":"cld:home.Note","body":{}}`, "uri_invalid"},
		{tree.ToolPut, "ana", `{"uri":"cld:home.Note.x","body":[]}`, "args_invalid"},
		{tree.ToolShare, "eve", `{"group":"family","uri":"cld:home.Note.x","body":{}}`, "space_denied"},
		{tree.ToolShare, "ana", `{"group":"none","uri":"cld:home.Note.x","body":{}}`, "space_denied"},
		{tree.ToolDelete, "bo", `{"uri":"cld:identity.User.ana/home.Note.a"}`, "space_denied"},
		{tree.ToolDelete, "ana", `{"uri":"cld:home.Note.none"}`, "not_found"},
		{tree.ToolDelete, "ana", `{"uri":"cld:home.Note"}`, "uri_invalid"},
		{tree.ToolGet, "ana", `{"uri":"cld:home.Note"}`, "uri_invalid"},
		{tree.ToolGet, "bo", `{"uri":"cld:identity.User.ana/home.Note.a"}`, "not_found"},
	} {
		if say, _, err := run(t, k[c.tool], c.user, "k", c.args); !fault.HasCode(err, c.code) {
			t.Errorf("%s %s by %s: %s %v, want %s", c.tool, c.args, c.user, say, err, c.code)
		}
	}
	if say, _, err := run(t, k[tree.ToolShare], "ana", "k2", `{"group":"family","uri":"cld:home.Note.x","body":{"n":1}}`); err != nil {
		t.Error(say, err)
	}
	if say, _, err := run(t, k[tree.ToolGet], "bo", "", `{"uri":"cld:identity.Group.family/home.Note.x"}`); err != nil || !strings.Contains(say, `"n":1`) {
		t.Error(say, err)
	}
}

// Content that Steward has recorded as secret keeps that label as a resource.
func TestSecretLabelsAreKept(t *testing.T) {
	const all = message.Private | message.Untrusted | message.Secret
	for body, want := range map[string]message.Labels{
		`{"blocks":[{"content":[{"text":"x","labels":["secret"]}]}]}`: all,
		`{"labels":5}`: all,
		"{\"labels\":4}\nthe rest of a long result":           all,
		`{"blocks":[{"text":"secret","labels":["private"]}]}`: all &^ message.Secret,
		`{"labels":2}`: all &^ message.Secret,
		`no JSON`:      all &^ message.Secret,
	} {
		r := tree.Resource{URI: resource.Root("common.Conversation", "a").Child("common.Message", "b"), Body: []byte(body)}
		if got := tree.LabelsOf("ana", r); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// What is written in a conversation counts as the agent's, even if the user retried the call.
func TestActorsOfResources(t *testing.T) {
	o := open(t)
	k := kit(t, o)
	conv := resource.Root("common.Conversation", "c")
	for i, c := range []struct {
		conv  resource.URI
		actor string
		want  message.Labels
	}{
		{conv, "ana", message.Private | message.Untrusted},
		{conv, "agent:mail", message.Private | message.Untrusted},
		{resource.URI{}, "ana", message.Private},
	} {
		ctx := request.With(t.Context(), request.Context{User: "ana", Actor: c.actor})
		if _, err := k[tree.ToolPut].Call(ctx, tool.Invocation{User: "ana", Conversation: c.conv, Key: fmt.Sprint("k", i), Args: []byte(`{"uri":"cld:home.Note.a","body":{}}`)}); err != nil {
			t.Fatal(err)
		}
		if _, labels, err := run(t, k[tree.ToolGet], "ana", "", `{"uri":"cld:home.Note.a"}`); err != nil || labels != c.want {
			t.Errorf("%+v: %v %v", c, labels, err)
		}
	}
}

// A repeated action with the same idempotency key is not done again, even
// concurrently, and returns the same result.
func TestActionsHappenOnce(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	k := kit(t, o)
	put, del := k[tree.ToolPut], k[tree.ToolDelete]
	settle := func(x tool.Tool, key, args string) string {
		t.Helper()
		s, _ := tool.SettlerOf(x)
		done, res, err := s.Settle(ctx, tool.Invocation{Args: []byte(args), User: "ana", Key: key})
		if err != nil {
			return fault.Of(err).Code
		}
		if !done {
			return "no"
		}
		return res.Content[0].(*message.Text).Text
	}
	const args = `{"uri":"cld:home.Note.a","body":{"n":1}}`
	if got := settle(put, "k1", args); got != "no" {
		t.Error(got)
	}
	if got := settle(put, "k1", `{"uri":"cld:x"}`); got != "uri_invalid" {
		t.Error(got)
	}
	if got := settle(put, "k1", `[`); got != "args_invalid" {
		t.Error(got)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if say, _, err := run(t, put, "ana", "k1", args); err != nil || !strings.HasSuffix(say, "version 1.") {
				t.Error(say, err)
			}
		})
	}
	wg.Wait()
	must(o.Put(ctx, ana, tree.Put{URI: note("ana", "a"), Body: []byte(`{"n":2}`)}))
	if say, _, err := run(t, put, "ana", "k1", args); err != nil || !strings.HasSuffix(say, "version 1.") {
		t.Error(say, err)
	}
	if got := settle(put, "k1", args); !strings.HasSuffix(got, "version 1.") {
		t.Error(got)
	}
	for range 2 {
		if say, _, err := run(t, del, "ana", "k2", `{"uri":"cld:home.Note.a","version":2}`); err != nil || say != "Deleted cld:identity.User.ana/home.Note.a." {
			t.Error(say, err)
		}
	}
	if got := settle(del, "k2", `{"uri":"cld:home.Note.a"}`); !strings.HasPrefix(got, "Deleted") {
		t.Error(got)
	}
	if n := len(must(o.History(ctx, ana, note("ana", "a"), "", 0)).Items); n != 3 {
		t.Errorf("%d versions", n)
	}
	if _, _, err := run(t, put, "ana", "k3", `{"uri":"cld:home.Note.a","body":{},"version":1}`); !fault.HasCode(err, "not_found") {
		t.Error(err)
	}
	must(o.Put(ctx, ana, tree.Put{URI: note("ana", "a"), Body: []byte(`{"n":4}`)}))
	if _, _, err := run(t, put, "ana", "k4", `{"uri":"cld:home.Note.a","body":{},"version":1}`); !fault.HasCode(err, "resource_changed") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	if _, _, err := run(t, put, "ana", "k5", `{"uri":"cld:home.Note.a","body":{},"create":true}`); !fault.HasCode(err, "resource_exists") {
		t.Error(err)
	}
	// Different actions race for one resource: each is done exactly once.
	before := must(o.Get(ctx, ana, note("ana", "a"))).Version
	for i := range 8 {
		wg.Go(func() {
			if say, _, err := run(t, put, "ana", fmt.Sprint("race", i), fmt.Sprintf(`{"uri":"cld:home.Note.a","body":{"n":%d}}`, i)); err != nil {
				t.Error(say, err)
			}
		})
	}
	wg.Wait()
	if now := must(o.Get(ctx, ana, note("ana", "a"))).Version; now != before+8 {
		t.Errorf("%d versions for 8 actions", now-before)
	}
}

func TestActionsAreUndone(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	k := kit(t, o)
	undo := func(name, key, args string) error {
		u, _ := tool.UndoerOf(k[name])
		_, err := u.Undo(ctx, tool.Invocation{Args: []byte(args), User: "ana", Key: key}, tool.Result{})
		return err
	}
	do := func(name, key, args string) {
		t.Helper()
		if say, _, err := run(t, k[name], "ana", key, args); err != nil {
			t.Fatal(say, err)
		}
	}
	is := func(want string) {
		t.Helper()
		r, err := o.Get(ctx, ana, note("ana", "a"))
		got := string(r.Body) + r.State
		if err != nil {
			got = fault.Of(err).Code
		}
		if got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	const one, two, gone = `{"uri":"cld:home.Note.a","body":{"n":1},"state":"open"}`, `{"uri":"cld:home.Note.a","body":{"n":2}}`, `{"uri":"cld:home.Note.a"}`
	wantCode(t, undo(tree.ToolPut, "k1", one), fault.NotFound, "not_done")
	do(tree.ToolPut, "k1", one)
	do(tree.ToolPut, "k2", two)
	wantCode(t, undo(tree.ToolPut, "k1", one), fault.Conflict, "resource_changed")
	is(`{"n":2}`)
	for range 2 { // undoing again is not an error
		if err := undo(tree.ToolPut, "k2", two); err != nil {
			t.Fatal(err)
		}
		is(`{"n":1}open`)
	}
	s, _ := tool.SettlerOf(k[tree.ToolPut])
	if done, res, err := s.Settle(ctx, tool.Invocation{Args: []byte(two), User: "ana", Key: "k2"}); !done || err != nil || !strings.HasSuffix(res.Content[0].(*message.Text).Text, "version 2.") {
		t.Error(done, res, err)
	}
	do(tree.ToolDelete, "k3", gone)
	is("not_found")
	if err := undo(tree.ToolDelete, "k3", gone); err != nil {
		t.Fatal(err)
	}
	is(`{"n":1}open`)
	do(tree.ToolDelete, "k4", gone)
	do(tree.ToolPut, "k5", two)
	wantCode(t, undo(tree.ToolDelete, "k4", gone), fault.Conflict, "resource_changed")
	if err := undo(tree.ToolPut, "k5", two); err != nil {
		t.Fatal(err)
	}
	is("not_found")
	if err := o.Delete(ctx, ana, tree.Removal{URI: note("ana", "a"), Erase: true}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, undo(tree.ToolDelete, "k4", gone), fault.NotFound, "resource_erased")

	do(tree.ToolPut, "k6", one)
	o.judge.rule = func(policy.Question) (policy.Decision, error) { return policy.Decision{Verdict: policy.Deny}, nil }
	wantCode(t, undo(tree.ToolPut, "k6", one), fault.Denied, "access_denied")
	o.judge.rule = nil
	const shared = `{"group":"family","uri":"cld:home.Note.a","body":{"n":1}}`
	do(tree.ToolShare, "k7", shared)
	must(o.reg.Leave(ctx, "local", "family", "ana"))
	wantCode(t, undo(tree.ToolShare, "k7", shared), fault.Denied, "space_denied")
	must(o.reg.Join(ctx, "local", "family", "ana", false))
	if err := undo(tree.ToolShare, "k7", shared); err != nil {
		t.Error(err)
	}
	wantCode(t, undo(tree.ToolPut, "k", `[`), fault.Invalid, "args_invalid")
}
