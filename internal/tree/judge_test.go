package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tree"
)

func TestPolicyDecides(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	uri := note("ana", "x")
	for i := range 20 {
		must(o.Put(ctx, ana, tree.Put{URI: note("ana", fmt.Sprint("n", i)), Body: []byte(`{}`)}))
	}
	must(o.Put(ctx, ana, tree.Put{URI: uri, Body: []byte(`{"purpose":"p","pin":"1234","list":[{"pin":1},{"pin":2}]}`)}))
	o.judge.asked = nil
	agent := tree.Caller{User: "ana", Agent: "a/b", Lineage: []string{"a"}, Attended: true, Actor: "agent:a/b"}
	if p := must(o.List(ctx, agent, tree.Query{Type: "home.Note"})); len(p.Items) != 21 {
		t.Errorf("%d", len(p.Items))
	}
	if len(o.judge.asked) != 1 { // the mount does not have this type
		t.Errorf("%d questions for one list", len(o.judge.asked))
	}
	q := o.judge.asked[0]
	if q.Point != policy.PointAccess || q.User != "ana" || q.Agent != "a/b" || !slices.Equal(q.Lineage, []string{"a"}) || !q.Attended || q.Action != policy.Read ||
		q.Resource.Type != "home.Note" || q.Resource.Space != "user:ana" || !q.Resource.URI.Zero() {
		t.Errorf("%+v", q)
	}
	must(o.Put(ctx, agent, tree.Put{URI: uri, Body: []byte(`{"purpose":"p","pin":"1234","list":[{"pin":1},{"pin":2}]}`)}))
	q = o.judge.asked[1]
	if q.Action != policy.Write || q.Resource.URI != uri || q.Resource.Purpose != "p" {
		t.Errorf("%+v", q)
	}
	if r := must(o.Get(ctx, ana, uri)); r.Actor != "agent:a/b" {
		t.Errorf("made by %s", r.Actor)
	}

	o.judge.rule = func(q policy.Question) (policy.Decision, error) {
		return policy.Decision{Verdict: policy.Allow, Obligations: policy.Obligations{Mask: []string{"/pin", "/list/*/pin", "/none"}}}, nil
	}
	if r := must(o.Get(ctx, ana, uri)); !r.Masked || string(r.Body) != `{"purpose":"p","pin":"***","list":[{"pin":"***"},{"pin":"***"}]}` || r.Purpose != "p" {
		t.Errorf("%s %v", r.Body, r.Masked)
	}
	if p := must(o.History(ctx, ana, uri, "", 0)); strings.Contains(string(p.Items[1].Body), "1234") {
		t.Errorf("%s", p.Items[1].Body)
	}
	if r := must(o.Version(ctx, ana, uri, 1)); !r.Masked {
		t.Errorf("%+v", r)
	}
	if r := must(o.Get(ctx, ana, note("ana", "n1"))); r.Masked || string(r.Body) != `{}` {
		t.Errorf("%s", r.Body)
	}

	for name, rule := range map[string]func(policy.Question) (policy.Decision, error){
		"deny": func(policy.Question) (policy.Decision, error) { return policy.Decision{Verdict: policy.Deny}, nil },
		"ask": func(policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: policy.Ask, Reason: "so"}, nil
		},
		"none": func(policy.Question) (policy.Decision, error) { return policy.Decision{}, nil },
		"error": func(policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: policy.Allow}, errors.New("broken")
		},
	} {
		o.judge.rule = rule
		_, err := o.Get(ctx, ana, uri)
		wantCode(t, err, fault.NotFound, "not_found")
		_, err = o.Get(ctx, ana, resource.Root("tool.Tool", "math.add"))
		wantCode(t, err, fault.NotFound, "not_found")
		_, err = o.History(ctx, ana, uri, "", 0)
		wantCode(t, err, fault.NotFound, "not_found")
		for _, q := range []tree.Query{{}, {Since: start}} {
			if p := must(o.List(ctx, ana, q)); len(p.Items) != 0 {
				t.Errorf("%s: %s", name, uris(p))
			}
		}
		if list := must(o.Parents(ctx, ana, uri.Child("home.Part", "p"))); len(list) != 0 {
			t.Errorf("%s: %+v", name, list)
		}
		_, err = o.Put(ctx, ana, tree.Put{URI: uri, Body: []byte(`{}`)})
		wantCode(t, err, fault.Denied, "access_denied")
		wantCode(t, o.Delete(ctx, ana, tree.Removal{URI: uri}), fault.Denied, "access_denied")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err := o.Get(gone, ana, uri)
	wantCode(t, err, fault.Cancelled, fault.Of(context.Canceled).Code)
}

func TestUnknownCallersAreRefused(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	must(o.Put(ctx, ana, tree.Put{URI: note("ana", "x"), Body: []byte(`{}`)}))
	yes := true
	must(o.reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: &yes}))
	for who, code := range map[string]string{"": "unauthenticated", "ana": "user_disabled", "../x": "user_invalid"} {
		by := tree.Caller{User: who}
		for name, call := range map[string]func() error{
			"get":     func() error { _, err := o.Get(ctx, by, note("ana", "x")); return err },
			"list":    func() error { _, err := o.List(ctx, by, tree.Query{}); return err },
			"parents": func() error { _, err := o.Parents(ctx, by, note("ana", "x")); return err },
			"history": func() error { _, err := o.History(ctx, by, note("ana", "x"), "", 0); return err },
			"version": func() error { _, err := o.Version(ctx, by, note("ana", "x"), 1); return err },
			"put": func() error {
				_, err := o.Put(ctx, by, tree.Put{URI: note("ana", "x"), Body: []byte(`{}`)})
				return err
			},
			"delete": func() error { return o.Delete(ctx, by, tree.Removal{URI: note("ana", "x")}) },
		} {
			if err := call(); !fault.HasCode(err, code) {
				t.Errorf("%s by %q: %v", name, who, err)
			}
		}
	}
}

func TestTypesThatNobodyReads(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	key, _, err := o.reg.Create(ctx, "local", "local", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	sys := store.ForNode(resource.System)
	hidden := []resource.URI{resource.Root("identity.Key", key.ID.String()), resource.Root("secret.Secret", "s"), resource.Root("identity.User", "local").Child("tree.Done", "d"),
		resource.Root("tool.Tool", "stored")} // hidden by a mount
	admins := []resource.URI{resource.Root("identity.Group", "family"), resource.Root("llm.Calibration", "c")}
	for _, u := range append(hidden[1:], admins[1]) {
		must(o.st.Commit(ctx, sys, store.Batch{Changes: []store.Change{{URI: u, Body: []byte(`{}`)}}}))
	}
	shown := uris(must(o.List(ctx, local, tree.Query{}))) + uris(must(o.List(ctx, local, tree.Query{Since: start})))
	for _, u := range hidden {
		if _, err := o.Get(ctx, local, u); !fault.HasCode(err, "not_found") {
			t.Errorf("%s: %v", u, err)
		}
		if _, err := o.History(ctx, local, u, "", 0); !fault.HasCode(err, "not_found") {
			t.Errorf("history of %s: %v", u, err)
		}
		if strings.Contains(shown, u.String()) {
			t.Errorf("%s is listed", u)
		}
	}
	theirs := uris(must(o.List(ctx, ana, tree.Query{}))) + uris(must(o.List(ctx, ana, tree.Query{Since: start})))
	for _, u := range admins {
		if _, err := o.Get(ctx, local, u); err != nil || !strings.Contains(shown, u.String()) {
			t.Errorf("%s: %v", u, err)
		}
		if _, err := o.Get(ctx, ana, u); !fault.HasCode(err, "not_found") || strings.Contains(theirs, u.String()) {
			t.Errorf("ana reads %s: %v", u, err)
		}
	}
}

func TestReadsAreAudited(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	x := note("ana", "x")
	must(o.Put(ctx, ana, tree.Put{URI: x, Body: []byte(`{}`)}))
	must(o.Get(ctx, tree.Caller{User: "ana", Agent: "a"}, x))
	must(o.History(ctx, ana, x, "", 0))
	if got := strings.Join(o.audit.reads, "; "); got != fmt.Sprintf("ana a %s user:ana; ana  %s user:ana", x, x) {
		t.Errorf("recorded: %s", got)
	}
	// A resource in a list is recorded as read if its body is returned.
	o.audit.reads = nil
	notes := tree.Query{Type: "home.Note"}
	must(o.List(ctx, ana, notes))
	if o.audit.reads != nil {
		t.Errorf("a list without bodies is recorded: %s", o.audit.reads)
	}
	notes.Bodies = true
	must(o.List(ctx, ana, notes))
	must(o.Parents(ctx, ana, x.Child("home.Line", "1")))
	if got := strings.Join(o.audit.reads, "; "); got != fmt.Sprintf("ana  %s user:ana; ana  %s user:ana", x, x) {
		t.Errorf("recorded: %s", got)
	}
	o.audit.fail = fault.New(fault.Unavailable, "disk_full", "no room")
	if _, err := o.Get(ctx, ana, x); !errors.Is(err, o.audit.fail) {
		t.Errorf("a read that could not be recorded: %v", err)
	}
	if _, err := o.List(ctx, ana, notes); !errors.Is(err, o.audit.fail) {
		t.Errorf("a list that could not be recorded: %v", err)
	}
	if _, err := o.Parents(ctx, ana, x.Child("home.Line", "1")); !errors.Is(err, o.audit.fail) {
		t.Errorf("parents that could not be recorded: %v", err)
	}
}
