package events

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/test/storetest"
)

func TestEveryChangeIsAnEvent(t *testing.T) {
	w := newWorld(t, Options{})
	w.put("ana", "user:ana", note("before"))
	l := w.listen("ana", Filter{}, Now).begun()
	w.put("ana", "user:ana", note("a"), note("b"))
	w.put("bob", "user:bob", note("bobs"))
	w.put("bob", "group:team", note("ours"))
	w.putAs("agent:mail/sort", "user:ana", store.Change{Op: store.Delete, URI: noteURI("a")})
	w.putAs("system", "user:ana", store.Change{Op: store.Erase, URI: noteURI("b")})
	got := l.next(5)
	same(t, "what", names(got), []string{"+a", "+b", "+ours", "-a", "-b"})
	var sources []string
	seen := map[string]bool{}
	for _, x := range got {
		sources = append(sources, x.Source)
		if x.ID.Zero() || seen[x.ID.String()] || x.Published || x.Time.IsZero() || x.Resources[0].Body != nil {
			t.Errorf("%+v", x)
		}
		seen[x.ID.String()] = true
	}
	same(t, "who", sources, []string{"user:ana", "user:ana", "user:bob", "agent:mail/sort", "system"})
	if r := got[0].Resources[0]; r.Version != 1 || r.Space != "user:ana" || r.URI != noteURI("a") || got[0].URI != r.URI {
		t.Errorf("%+v", r)
	}

	// The same again from a cursor, and from the start, with the same ids.
	again := w.listen("ana", Filter{}, got[1].Cursor()).next(3)
	all := w.listen("ana", Filter{}, Start).next(6)
	for i := range again {
		if again[i].ID != got[i+2].ID || all[i+3].ID != got[i+2].ID {
			t.Errorf("event %d has the ids %v, %v and %v", i, got[i+2].ID, again[i].ID, all[i+3].ID)
		}
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t, Options{})
	home := resource.Root("home.House", "1")
	lamp, bell := home.Child("home.Lamp", "lamp"), home.Child("home.Bell", "bell")
	w.put("ana", "user:ana", store.Change{URI: home}, store.Change{URI: lamp}, store.Change{URI: bell}, note("n"))
	w.put("bob", "group:team", note("b"))
	w.put("bot", "user:ana", note("s"))
	w.putAs("agent:a/b", "user:ana", store.Change{Op: store.Delete, URI: lamp})
	for _, c := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"all", Filter{}, []string{"+1", "+lamp", "+bell", "+n", "+b", "+s", "-lamp"}},
		{"prefix", Filter{Prefixes: []resource.URI{home}}, []string{"+1", "+lamp", "+bell", "-lamp"}},
		{"prefixes that overlap", Filter{Prefixes: []resource.URI{lamp, home, lamp, noteURI("b")}}, []string{"+1", "+lamp", "+bell", "+b", "-lamp"}},
		{"the same prefix twice", Filter{Prefixes: []resource.URI{lamp, lamp}}, []string{"+lamp", "-lamp"}},
		{"type", Filter{Types: []string{"home.Lamp"}}, []string{"+lamp", "-lamp"}},
		{"types", Filter{Types: []string{"home.Lamp", "home.Bell"}}, []string{"+lamp", "+bell", "-lamp"}},
		{"beginning of types", Filter{Types: []string{"home.*"}}, []string{"+1", "+lamp", "+bell", "-lamp"}},
		{"type below prefix", Filter{Types: []string{"home.Bell", "note.Note"}, Prefixes: []resource.URI{home}}, []string{"+bell"}},
		{"detail", Filter{Details: []DetailType{Delete}}, []string{"-lamp"}},
		{"details", Filter{Details: []DetailType{Delete, Get, Put}, Types: []string{"home.Lamp"}}, []string{"+lamp", "-lamp"}},
		{"source", Filter{Sources: []string{"user:bob", "service:bot"}}, []string{"+b", "+s"}},
		{"sources", Filter{Sources: []string{"agent:*"}}, []string{"-lamp"}},
		{"all sources", Filter{Sources: []string{"*"}, Prefixes: []resource.URI{lamp}}, []string{"+lamp", "-lamp"}},
		{"none", Filter{Sources: []string{"user:eve"}}, nil},
	} {
		read := w.listen("ana", c.f, Start) // from the log, and live
		live := newWorld(t, Options{})
		l := live.listen("ana", c.f, Now).begun()
		live.put("ana", "user:ana", store.Change{URI: home}, store.Change{URI: lamp}, store.Change{URI: bell}, note("n"))
		live.put("bob", "group:team", note("b"))
		live.put("bot", "user:ana", note("s"))
		live.putAs("agent:a/b", "user:ana", store.Change{Op: store.Delete, URI: lamp})
		same(t, c.name+", live", l.names(len(c.want)), c.want)
		same(t, c.name, read.names(len(c.want)), c.want)
		read.cancel()
		l.cancel()
		live.Close()
	}
}

// A short prefix means its place in every space that the subscriber reads, and what was published about it
// under either name.
func TestShortPrefixes(t *testing.T) {
	lamp := resource.Root("home.Lamp", "b")
	ours := func(space resource.Space) store.Change { return store.Change{URI: resource.Expand(space, lamp)} }
	for name, c := range map[string]struct {
		prefix resource.URI
		want   []string
	}{
		"short":       {lamp, []string{"+b", "+b", "+b", "+end"}},
		"whole":       {resource.Expand("user:ana", lamp), []string{"+b", "+b", "+end"}},
		"the group's": {resource.Expand("group:team", lamp), []string{"+b", "+end"}},
		"the place":   {resource.Place("user:ana"), []string{"+b", "+bb", "+b", "+end"}},
	} {
		w := newWorld(t, Options{})
		f := Filter{Prefixes: []resource.URI{c.prefix, noteURI("end")}}
		live := w.listen("ana", f, Now).begun()
		w.put("ana", "user:ana", ours("user:ana"), note("n"), store.Change{URI: resource.Place("user:ana").Child("home.Lamp", "bb")})
		w.put("bob", "group:team", ours("group:team"))
		w.put("bob", "user:bob", ours("user:bob"))
		if _, err := w.Publish(t.Context(), Caller{User: "ana"}, Publication{Resources: []Resource{{URI: lamp}}}); err != nil {
			t.Fatal(err)
		}
		w.put("ana", "user:ana", note("end"))
		same(t, name+", live", live.names(len(c.want)), c.want)
		same(t, name, w.listen("ana", f, Start).names(len(c.want)), c.want)
	}
}

func TestInvalidFilters(t *testing.T) {
	w := newWorld(t, Options{})
	for _, f := range []Filter{
		{Sources: []string{"ana"}}, {Sources: []string{"user:"}}, {Sources: []string{""}}, {Sources: []string{"user:*x*"}}, {Sources: []string{"syst"}},
		{Types: []string{"message"}}, {Types: []string{""}}, {Types: []string{"a/*"}}, {Types: []string{"common.Message.1/a.B"}},
		{Details: []DetailType{"RESOURCE_POST"}},
		{Prefixes: make([]resource.URI, maxNames+1)},
	} {
		w.listen("ana", f, Now).fault("filter_invalid")
	}
	for _, c := range []Cursor{"x", "ZwAAAAAKxx!", follow.Behind(7)} {
		w.listen("ana", Filter{}, c).fault("cursor_invalid")
	}
	for _, good := range []string{"*", "u*", "user:*", "user:a*", "service:x", "system", "sys*", "agent:a/b"} {
		if !sourceWord(good) {
			t.Errorf("%s is refused", good)
		}
	}
}

// What may not be read is not told, in whatever way it is asked for.
func TestPolicyDecides(t *testing.T) {
	asked := map[kind]int{}
	var mu sync.Mutex
	w := newWorld(t, Options{Recheck: time.Hour, Authorizer: judge(func(q policy.Question) (policy.Decision, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[kind{q.Resource.Type, q.Resource.Space}]++
		if q.User != "ana" || q.Agent != "a" || q.Lineage[0] != "b" || q.Action != policy.Read || !q.Resource.URI.Zero() {
			return policy.Decision{}, errors.New("asked in another way")
		}
		switch q.Resource.Type {
		case "diary.Page":
			return policy.Decision{Verdict: policy.Ask}, nil
		case "diary.Cover":
			return policy.Decision{Verdict: "perhaps"}, nil
		case "diary.Lock":
			return policy.Decision{Verdict: policy.Allow}, errors.New("broken")
		case "note.Note":
			if q.Resource.Space == "group:team" {
				return policy.Decision{Verdict: policy.Deny}, nil
			}
			return policy.Decision{Verdict: policy.Allow, Obligations: policy.Obligations{Mask: []string{"/pin", "/list/*/x"}}}, nil
		}
		return policy.Decision{Verdict: policy.Allow}, nil
	})})
	fill := func() {
		for _, typ := range []string{"diary.Page", "diary.Cover", "diary.Lock", "identity.Key", "secret.Secret"} {
			w.put("ana", "user:ana", store.Change{URI: resource.Root(typ, "x")})
		}
		w.put("bob", "group:team", note("ours"))
		w.put("ana", "user:ana", note("mine"))
		w.put("ana", "user:ana", store.Change{URI: resource.Root("file.File", "f"), Body: []byte("no JSON")})
	}
	l := w.listenAs(Caller{User: "ana", Agent: "a", Lineage: []string{"b"}}, Filter{Bodies: true}, Now).begun()
	fill()
	got := l.next(2)
	fill()
	got = append(got, l.next(2)...)
	same(t, "told", names(got), []string{"+mine", "+f", "+mine", "+f"})
	if b := string(got[0].Resources[0].Body); b != `{"text":"mine","pin":"***"}` {
		t.Errorf("the body is %s", b)
	}
	if got[1].Resources[0].Body != nil {
		t.Errorf("a body that is no JSON: %s", got[1].Resources[0].Body)
	}
	mu.Lock()
	defer mu.Unlock()
	for k, n := range asked {
		if n != 1 {
			t.Errorf("asked %d times about %v", n, k)
		}
	}
}

// A body is told as policy obliges, or not at all.
func TestBodiesAreMaskedByPolicy(t *testing.T) {
	for _, c := range []struct {
		body string
		o    policy.Obligations
		want string
	}{
		{`{"a":{"b":1},"c":2}`, policy.Obligations{}, `{"a":{"b":1},"c":2}`},
		{`{"a":{"b":1},"c":2}`, policy.Obligations{Mask: []string{"/a/*", "/d"}}, `{"a":{"b":"***"},"c":2}`},
		{`{"a":{"b":1},"c":2}`, policy.Obligations{Mask: []string{""}}, `"***"`},
		{`{"a":{"b":1},"c":2}`, policy.Obligations{Cap: 10}, ""},
		{`no`, policy.Obligations{}, ""},
		{`{} {}`, policy.Obligations{Mask: []string{"/a"}}, ""},
	} {
		w := newWorld(t, Options{Authorizer: judge(func(policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: policy.Allow, Obligations: c.o}, nil
		})})
		w.put("ana", "user:ana", store.Change{URI: noteURI("n"), Body: []byte(c.body)})
		if got := w.listen("ana", Filter{Bodies: true}, Start).next(1)[0].Resources[0].Body; string(got) != c.want {
			t.Errorf("%s, %+v: %s", c.body, c.o, got)
		}
	}
}

func TestRightsThatChange(t *testing.T) {
	w := newWorld(t, Options{Recheck: time.Millisecond})
	l := w.listen("ana", Filter{}, Now).begun()
	w.put("bob", "group:team", note("1"))
	same(t, "as a member", l.names(1), []string{"+1"})
	w.people.set("ana", nil, nil)
	w.put("bob", "group:team", note("2"))
	w.put("ana", "user:ana", note("3"))
	same(t, "not a member", l.names(1), []string{"+3"})
	w.people.set("ana", []string{policy.RoleAdmin}, []string{"club"})
	// That is found out while nothing happens; then it is told.
	probe := func(sp resource.Space, name string) {
		t.Helper()
		for {
			w.put("x", sp, note(name))
			select {
			case b := <-l.got:
				for _, x := range b.Events {
					if x.Resources[0].Space != sp {
						t.Fatalf("told of %v", x)
					}
				}
				if len(b.Events) > 0 {
					return
				}
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	probe("group:club", "club")
	w.people.disable("ana")
	l.fault("user_disabled")
}

// An administrator is told of the system's own; nobody else is.
func TestSystem(t *testing.T) {
	w := newWorld(t, Options{})
	r, a := w.listen("root", Filter{}, Now).begun(), w.listen("ana", Filter{}, Now).begun()
	w.put("system", resource.System, note("s"))
	w.put("ana", "user:ana", note("a"))
	same(t, "root", r.names(1), []string{"+s"})
	same(t, "ana", a.names(1), []string{"+a"})
}

// Who does not take what comes holds up nobody, and misses nothing.
func TestSlow(t *testing.T) {
	w := newWorld(t, Options{Follow: over(storetest.NewModel(), 8, 3)})
	slow, quick := w.listen("ana", Filter{}, Now).begun(), w.listen("ana", Filter{}, Now).begun()
	var want []string
	for i := range 100 {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		w.put("ana", "user:ana", note(name))
		want = append(want, "+"+name)
		if got := quick.names(1); got[0] != "+"+name {
			t.Fatalf("the quick one is told %v", got)
		}
	}
	same(t, "the slow one", slow.names(100), want)
	w.put("ana", "user:ana", note("last"))
	same(t, "the slow one, afterwards", slow.names(1), []string{"+last"})
}

// Large bodies do not wait in memory.
func TestLargeBodies(t *testing.T) {
	w := newWorld(t, Options{})
	l := w.listen("ana", Filter{Bodies: true}, Now).begun()
	lean := w.listen("ana", Filter{}, Now).begun()
	big := append(append([]byte{'"'}, make([]byte, 4<<20/3)...), '"')
	for i := range big[1 : len(big)-1] {
		big[i+1] = 'x'
	}
	for range 9 {
		w.put("ana", "user:ana", store.Change{URI: noteURI("big"), Body: big})
	}
	for _, x := range l.next(9) {
		if len(x.Resources[0].Body) != len(big) {
			t.Errorf("a body of %d bytes", len(x.Resources[0].Body))
		}
	}
	lean.next(9)
}

// Nothing happening, a batch without events comes now and then, and its cursor
// has passed what was not told.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Beat: 15 * time.Second})
		l := w.listen("ana", Filter{Types: []string{"home.Lamp"}}, Now)
		first := l.batch()
		began := time.Now()
		r := w.put("bob", "user:bob", note("b"))
		b := l.batch()
		if took := time.Since(began); took < 15*time.Second || took > 17*time.Second || len(b.Events) != 0 || b.Cursor != follow.Behind(r.Seq) || b.Cursor == first.Cursor {
			t.Errorf("after %v: %+v", took, b)
		}
		l.cancel()
		<-l.ended
		w.Close()
	})
}

func TestEnds(t *testing.T) {
	w := newWorld(t, Options{})
	l, m := w.listen("ana", Filter{}, Now).begun(), w.listen("ana", Filter{}, Now).begun()
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	for range w.Subscribe(t.Context(), Caller{User: "ana"}, Filter{}, Now) {
		break
	}
	r := w.put("ana", "user:ana", note("x"))
	m.next(1)
	w.Close()
	e := m.fault("closing")
	if e.Details["cursor"] != string(follow.Behind(r.Seq)) {
		t.Errorf("the cursor is %v", e.Details["cursor"])
	}
	w.listen("ana", Filter{}, Now).fault("closing")
	w.Close()
}

// flaky is a store whose log cannot be read for a while.
type flaky struct {
	store.Store
	mu   sync.Mutex
	fail error
}

func (f *flaky) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *flaky) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	f.mu.Lock()
	err := f.fail
	f.mu.Unlock()
	if err != nil {
		return store.LogPage{}, err
	}
	return f.Store.Log(ctx, sc, q)
}

func TestStoreFails(t *testing.T) {
	st := &flaky{Store: storetest.NewModel()}
	w := newWorld(t, Options{Follow: over(st, 0, 0)})
	l := w.listen("ana", Filter{}, Now).begun()
	w.put("ana", "user:ana", note("1"))
	l.next(1)
	st.set(fault.New(fault.Unavailable, "store_broken", "the disk is gone"))
	w.put("ana", "user:ana", note("2"))
	e := l.fault("store_broken")
	w.listen("ana", Filter{}, Now).fault("store_broken")
	st.set(nil)
	same(t, "taken up again", w.listen("ana", Filter{}, Cursor(e.Details["cursor"].(string))).names(1), []string{"+2"})
}
