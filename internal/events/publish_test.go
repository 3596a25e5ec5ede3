package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

func lamp(body string) Publication {
	return Publication{Resources: []Resource{{URI: resource.Root("home.Lamp", "lamp"), Body: json.RawMessage(body)}}}
}

// hiding is a store that hides a secret, as SQLite's does.
type hiding struct{ store.Store }

func hidden(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte("correct-horse"), []byte("«secret»"))
}

func (h hiding) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	b.Changes = slices.Clone(b.Changes)
	for i := range b.Changes {
		b.Changes[i].Body = hidden(b.Changes[i].Body)
	}
	return h.Store.Commit(ctx, sc, b)
}

// What is published again is the same when a secret of it was hidden, too.
func TestPublishedAgainWithASecret(t *testing.T) {
	w := newWorld(t, Options{Follow: over(hiding{storetest.NewModel()}, 0, 0), Mask: hidden})
	x := lamp(`{"word":"correct-horse"}`)
	x.ID = "a1"
	one, err := w.Publish(t.Context(), Caller{User: "ana"}, x)
	if err != nil || one.Duplicate {
		t.Fatalf("%+v, %v", one, err)
	}
	if two, err := w.Publish(t.Context(), Caller{User: "ana"}, x); err != nil || !two.Duplicate || two.ID != one.ID {
		t.Errorf("%+v, %v", two, err)
	}
}

func TestPublish(t *testing.T) {
	w := newWorld(t, Options{})
	l := w.listen("ana", Filter{Prefixes: []resource.URI{resource.Root("home.Lamp", "lamp")}, Bodies: true}, Now).begun()
	req := id.New()
	ctx := request.With(t.Context(), request.Context{ID: req})
	own := id.New()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	x := lamp(`{"on": true, "text":"a<b>&c", "n": 12345678901234567890}`)
	x.ID, x.Time, x.Detail, x.Source = own.String(), at, Delete, "user:ana"
	done, err := w.Publish(ctx, Caller{User: "ana"}, x)
	if err != nil || done.ID != own || done.Duplicate || done.URI.String() != "cld:event.Source.user:ana/event.Event."+own.String() {
		t.Fatalf("%+v, %v", done, err)
	}
	got := l.next(1)[0]
	if got.ID != own || got.Source != "user:ana" || !got.Time.Equal(at) || got.Detail != Delete || !got.Published || got.URI != done.URI || got.Request != req ||
		got.Cursor() != done.Cursor || string(got.Resources[0].Body) != `{"on":true,"text":"a<b>&c","n":12345678901234567890}` || got.Resources[0].Type != "home.Lamp" || got.Resources[0].Space != "" {
		t.Errorf("%+v %s", got, got.Resources[0].Body)
	}
	// The same once more is the same; another one under its id is refused.
	if again, err := w.Publish(ctx, Caller{User: "ana"}, x); err != nil || !again.Duplicate || again.ID != own || again.Cursor != done.Cursor {
		t.Errorf("%+v, %v", again, err)
	}
	for _, other := range []func(*Publication){
		func(x *Publication) { x.Detail = Put },
		func(x *Publication) { x.Time = at.Add(1) },
		func(x *Publication) { x.Resources = lamp(`{}`).Resources },
		func(x *Publication) { x.Resources = append(x.Resources, Resource{URI: noteURI("n")}) },
		func(x *Publication) { x.Space = "group:team" },
	} {
		y := x
		other(&y)
		_, err := w.Publish(ctx, Caller{User: "ana"}, y)
		wantCode(t, err, fault.Conflict, "event_id_used")
	}
	// An id is the caller's own: another's event has it, too.
	if bobs, err := w.Publish(ctx, Caller{User: "bob"}, Publication{ID: own.String(), Resources: x.Resources}); err != nil || bobs.Duplicate {
		t.Errorf("%+v, %v", bobs, err)
	}
	// One that is no UUID stands for one.
	y := lamp("")
	y.ID = "kitchen-7"
	one, err := w.Publish(ctx, Caller{User: "ana"}, y)
	two, again := w.Publish(ctx, Caller{User: "ana"}, y)
	if errors.Join(err, again) != nil || one.ID != two.ID || !two.Duplicate || !one.ID.Derived() {
		t.Errorf("%+v, %+v, %v", one, two, err)
	}
	if got := l.next(1)[0]; got.Detail != Put || got.Time.IsZero() {
		t.Errorf("%+v", got)
	}
}

// Who publishes stands in the event, and cannot be made up.
func TestSources(t *testing.T) {
	w := newWorld(t, Options{})
	l := w.listen("root", Filter{}, Now).begun()
	b := w.listen("bot", Filter{}, Now).begun()
	for _, c := range []struct {
		who          Caller
		claim, want  string
		uri, refused string
	}{
		{Caller{User: "root"}, "", "user:root", "event.Source.user:root", ""},
		{Caller{User: "root", Agent: "mail/sort"}, "agent:mail/sort", "agent:mail/sort", "event.Source.user:root/agent.Agent.mail/agent.Agent.sort", ""},
		{Caller{User: "bot"}, "service:bot", "service:bot", "event.Source.service:bot", ""},
		{Caller{User: "root"}, "user:ana", "", "", "event_source_foreign"},
		{Caller{User: "root"}, "agent:mail", "", "", "event_source_foreign"},
		{Caller{User: "root"}, "system", "", "", "event_source_foreign"},
		{Caller{User: "root"}, "service:root", "", "", "event_source_foreign"},
		{Caller{User: "root", Agent: "mail"}, "user:root", "", "", "event_source_foreign"},
		{Caller{User: "root", Agent: "mail"}, "agent:mail/sort", "", "", "event_source_foreign"},
		{Caller{User: "bot"}, "user:bot", "", "", "event_source_foreign"},
		{Caller{User: "root", Agent: "a//b"}, "", "", "", "agent_invalid"},
		{Caller{User: "x/y"}, "", "", "", "unauthenticated"},
		{Caller{}, "", "", "", "unauthenticated"},
	} {
		x := lamp("")
		x.Source = c.claim
		done, err := w.Publish(t.Context(), c.who, x)
		if c.refused != "" {
			if !fault.HasCode(err, c.refused) {
				t.Errorf("%+v as %q: %v", c.who, c.claim, err)
			}
			continue
		}
		if err != nil || done.URI.Parent().String() != "cld:"+c.uri {
			t.Fatalf("%+v: %v, %v", c.who, done.URI, err)
		}
		from := l
		if c.who.User == "bot" {
			from = b
		}
		if got := from.next(1)[0]; got.Source != c.want || got.ID != done.ID {
			t.Errorf("%+v is told as %s", c.who, got.Source)
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	w := newWorld(t, Options{})
	big := `"` + strings.Repeat("x", MaxBytes) + `"`
	for _, c := range []struct {
		change func(*Publication)
		kind   fault.Kind
		code   string
	}{
		{func(x *Publication) { x.Resources = nil }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Resources = make([]Resource, MaxResources+1) }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Resources[0].URI = resource.URI{} }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Resources[0].Body = json.RawMessage("{") }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Resources[0].Body = json.RawMessage(big) }, fault.TooLarge, "event_too_large"},
		{func(x *Publication) { x.Detail = "RESOURCE_POST" }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.ID = strings.Repeat("x", 257) }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Time = time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC) }, fault.Invalid, "event_invalid"},
		{func(x *Publication) { x.Space = "group:club" }, fault.Denied, "event_space_foreign"},
		{func(x *Publication) { x.Space = "user:bob" }, fault.Denied, "event_space_foreign"},
		{func(x *Publication) { x.Space = resource.System }, fault.Denied, "event_space_foreign"},
	} {
		x := lamp("{}")
		c.change(&x)
		_, err := w.Publish(t.Context(), Caller{User: "ana"}, x)
		wantCode(t, err, c.kind, c.code)
	}
	w.people.disable("ana")
	_, err := w.Publish(t.Context(), Caller{User: "ana"}, lamp(""))
	wantCode(t, err, fault.Denied, "user_disabled")
	page, err := w.st.Log(t.Context(), store.ForNode(""), store.LogQuery{})
	if err != nil || len(page.Entries) != 0 {
		t.Errorf("something was written: %v, %v", page.Entries, err)
	}
	m := storetest.NewModel()
	w = newWorld(t, Options{Follow: over(m, 0, 0)})
	m.Close()
	_, err = w.Publish(t.Context(), Caller{User: "ana"}, lamp(""))
	wantCode(t, err, fault.Unavailable, "store_closed")
}

func TestPolicyDecidesAboutPublishing(t *testing.T) {
	for _, c := range []struct {
		d    policy.Decision
		err  error
		code string
	}{
		{policy.Decision{Verdict: policy.Allow}, nil, ""},
		{policy.Decision{Verdict: policy.Ask, Reason: "ask him"}, nil, "event_denied"},
		{policy.Decision{Verdict: policy.Deny, Reason: "guests change nothing"}, nil, "event_denied"},
		{policy.Decision{}, nil, "event_denied"},
		{policy.Decision{Verdict: policy.Allow}, errors.New("late"), "event_denied"},
	} {
		var asked policy.Question
		w := newWorld(t, Options{Authorizer: judge(func(q policy.Question) (policy.Decision, error) {
			asked = q
			return c.d, c.err
		})})
		x := lamp("")
		x.Space = "group:team"
		_, err := w.Publish(t.Context(), Caller{User: "ana", Agent: "a", Lineage: []string{"b"}}, x)
		if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c.d, err)
		}
		if asked.Action != policy.Write || asked.User != "ana" || asked.Agent != "a" || asked.Lineage[0] != "b" || asked.Resource.Type != TypeEvent ||
			asked.Resource.Space != "group:team" || asked.Resource.URI.String() != "cld:event.Source.user:ana/agent.Agent.a" {
			t.Errorf("asked %+v", asked)
		}
	}
}

// The same event from many at once is one event.
func TestPublishTogether(t *testing.T) {
	w := newWorld(t, Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 20 {
		wg.Go(func() {
			x := lamp("")
			x.ID = "once"
			done, err := w.Publish(t.Context(), Caller{User: "ana"}, x)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !done.Duplicate {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("published %d times", fresh)
	}
}

// A group's event is told to its members, with what it is about, and to
// nobody else; what was erased is not told, but that it was.
func TestPublishToGroup(t *testing.T) {
	w := newWorld(t, Options{})
	bob, eve := w.listen("bob", Filter{}, Now).begun(), w.listen("eve", Filter{}, Now).begun()
	x := lamp("")
	x.Space = "group:team"
	done, err := w.Publish(t.Context(), Caller{User: "ana"}, x)
	if err != nil {
		t.Fatal(err)
	}
	if got := bob.next(1)[0]; got.Source != "user:ana" || got.ID != done.ID {
		t.Errorf("%+v", got)
	}
	w.put("ana", "group:team", store.Change{Op: store.Erase, URI: done.URI})
	if got := bob.next(1)[0]; got.Detail != Delete || got.URI != done.URI || got.Published {
		t.Errorf("%+v", got)
	}
	w.put("eve", "user:eve", note("eves"))
	same(t, "eve", eve.names(1), []string{"+eves"})
	if got := w.listen("bob", Filter{}, Start).next(1)[0]; got.Detail != Delete {
		t.Errorf("after the erasure: %+v", got)
	}
}

// What stands where events do and is none is passed over.
func TestBrokenEvents(t *testing.T) {
	w := newWorld(t, Options{})
	l := w.listen("ana", Filter{}, Now).begun()
	at := resource.Root(typeSource, "user:ana")
	w.put("ana", "user:ana",
		store.Change{URI: at.ChildID(TypeEvent, id.New()), Body: []byte("{")},
		store.Change{URI: at.Child(TypeEvent, "x"), Body: []byte(`{}`)},
		store.Change{URI: resource.Root(TypeEvent, id.New().String()), Body: []byte(`{}`)},
		store.Change{URI: resource.Root("a.B", "c").ChildID(TypeEvent, id.New()), Body: []byte(`{}`)},
		store.Change{URI: at.Child("a.B", "c").ChildID(TypeEvent, id.New()), Body: []byte(`{}`)},
		note("n"))
	same(t, "told", l.names(1), []string{"+n"})
}

func TestAuditedReads(t *testing.T) {
	w := newWorld(t, Options{Audit: []string{"email.Message", "diary.*", "cld:home.House.1", "event.*"}})
	l := w.listen("ana", Filter{Details: []DetailType{Get}}, Now).begun()
	box := w.listen("ana", Filter{Prefixes: []resource.URI{resource.Root("home.House", "1")}}, Now).begun()
	read := func(user, agent string, u resource.URI, sp resource.Space) {
		t.Helper()
		if err := w.Read(t.Context(), user, agent, u, sp); err != nil {
			t.Fatal(err)
		}
	}
	lampAt := resource.Root("home.House", "1").Child("home.Lamp", "lamp")
	read("ana", "", noteURI("not audited"), "user:ana")
	read("ana", "", resource.Root(typeSource, "user:ana").ChildID(TypeEvent, id.New()), "user:ana")
	read("bob", "", resource.Root("email.Message", "mail"), "group:team")
	read("ana", "mail/sort", resource.Root("diary.Page", "page"), "user:ana")
	read("ana", "", lampAt, "user:ana")
	read("ana", "", resource.Expand("user:ana", lampAt), "user:ana")
	got := l.next(4)
	same(t, "read", names(got), []string{"?mail", "?page", "?lamp", "?lamp"})
	for i, want := range []string{"user:bob", "agent:mail/sort", "user:ana"} {
		if got[i].Source != want || got[i].Published || got[i].Resources[0].Space == "" || got[i].Resources[0].Body != nil {
			t.Errorf("%+v", got[i])
		}
	}
	same(t, "by its place", box.names(2), []string{"?lamp", "?lamp"})

	// A get that a source says is no get that Steward has seen.
	x := lamp("")
	x.Detail = Get
	if _, err := w.Publish(t.Context(), Caller{User: "ana"}, x); err != nil {
		t.Fatal(err)
	}
	if got := l.next(1)[0]; !got.Published {
		t.Errorf("%+v", got)
	}

	// What cannot be recorded is an error.
	w.people.disable("bob")
	wantCode(t, w.Read(t.Context(), "bob", "", lampAt, "user:bob"), fault.Denied, "user_disabled")
	wantCode(t, w.Read(t.Context(), "ana", "//", lampAt, "user:ana"), fault.Invalid, "agent_invalid")
	w.st.(*storetest.Model).Close()
	wantCode(t, w.Read(t.Context(), "ana", "", lampAt, "user:ana"), fault.Unavailable, "read_unrecorded")
}

func TestInvalidAudit(t *testing.T) {
	for s, code := range map[string]string{"cld:x": "uri_invalid", "message": "audit_invalid", "": "audit_invalid"} {
		if _, err := New(Options{Audit: []string{s}}); !fault.HasCode(err, code) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
