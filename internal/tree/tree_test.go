package tree_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tree"
	"steward/test/leak"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// judge decides by the rules of a test, and records the questions.
type judge struct {
	mu    sync.Mutex
	asked []policy.Question
	rule  func(policy.Question) (policy.Decision, error)
}

func (j *judge) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, q)
	if j.rule == nil {
		return policy.Decision{Verdict: policy.Allow}, nil
	}
	return j.rule(q)
}

// shelf is a mount of two tools, one of which only admins may see.
type shelf struct{}

func (shelf) Types() []string { return []string{"tool.Tool"} }

func (shelf) List(_ context.Context, p policy.Principal) ([]tree.Resource, error) {
	out := []tree.Resource{{URI: resource.Root("tool.Tool", "math.add"), Space: resource.System, Body: []byte(`{"purpose":"Adds","secret":1}`)}}
	if p.Has(policy.RoleAdmin) {
		out = append(out, tree.Resource{URI: resource.Root("agent.Agent", "a").Child("tool.Tool", "x.y"), Space: resource.System, Body: []byte(`{}`)})
	}
	return out, nil
}

func (s shelf) Get(ctx context.Context, p policy.Principal, uri resource.URI) (tree.Resource, error) {
	list, err := s.List(ctx, p)
	for _, r := range list {
		if r.URI == uri {
			return r, err
		}
	}
	return tree.Resource{}, fault.New(fault.NotFound, "not_found", "no")
}

// audit records reads.
type audit struct {
	mu    sync.Mutex
	reads []string
	fail  error
}

func (a *audit) Read(_ context.Context, user, agent string, uri resource.URI, space resource.Space) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads = append(a.reads, fmt.Sprint(user, " ", agent, " ", uri, " ", space))
	return a.fail
}

type office struct {
	*tree.Service
	st    store.Store
	reg   *identity.Registry
	judge *judge
	audit *audit
}

func open(t testing.TB) office {
	t.Helper()
	st := storetest.NewModel()
	o := office{st: st, reg: identity.New(st), judge: &judge{}, audit: &audit{}}
	o.Service = tree.New(tree.Options{Store: st, Authorizer: o.judge, People: o.reg, Mounts: []tree.Mount{shelf{}}, Audit: o.audit})
	must(o.reg.AddGroup(t.Context(), "local", identity.NewGroup{Name: "family", Members: []string{"ana", "bo"}}))
	return o
}

var ana, bo, local = tree.Caller{User: "ana"}, tree.Caller{User: "bo"}, tree.Caller{User: "local"}

func note(user, name string) resource.URI {
	return resource.Root("identity.User", user).Child("home.Note", name)
}

func uris(p tree.Page) string {
	var out []string
	for _, r := range p.Items {
		out = append(out, r.URI.String())
	}
	return strings.Join(out, " ")
}

// A page of large bodies is cut short, and the following pages have the rest.
func TestPagesOfLargeBodies(t *testing.T) {
	o := open(t)
	body := []byte(`{"purpose":"` + strings.Repeat("x", 1<<19) + `"}`)
	want := ""
	for i := range 40 {
		name := fmt.Sprintf("n%02d", i)
		want += name + " "
		must(o.Put(t.Context(), ana, tree.Put{URI: note("ana", name), Body: body}))
	}
	for _, q := range []tree.Query{{Type: note("ana", "x").Type(), Bodies: true}, {Type: note("ana", "x").Type(), Bodies: true, Since: time.Unix(1, 0)}, {Type: note("ana", "x").Type()}} {
		var got []string
		pages := 0
		for more := true; more; pages++ {
			p := must(o.List(t.Context(), ana, q))
			size := 0
			for _, r := range p.Items {
				got, size = append(got, r.URI.ID()), size+len(r.Body)
			}
			if size > 8<<20+32*len(body) {
				t.Errorf("a page of %d bytes", size)
			}
			q.After, more = p.Next, p.Next != ""
		}
		if slices.Sort(got); strings.Join(got, " ")+" " != want || q.Bodies == (pages == 1) {
			t.Errorf("%+v: %d pages: %s", q, pages, got)
		}
	}
}

func TestBodies(t *testing.T) {
	o := open(t)
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for body, want := range map[string]string{
		`{}`:                     "",
		` {"a":[1,{"b":null}]} `: "",
		`{"purpose":"p","instructions":"i","applicability":"a","evaluation":"e","Purpose":1}`: "",
		``:                    "body_invalid",
		`[]`:                  "body_invalid",
		`"x"`:                 "body_invalid",
		`{`:                   "body_invalid",
		`{"a":1,"a":2}`:       "body_invalid",
		`{"a":1}{}`:           "body_invalid at 7",
		`{"a":1} x`:           "body_invalid at 8",
		"{\"a\":\"\xff\"}":    "body_invalid at 6",
		`{"a":"\ud800"}`:      "body_invalid",
		`{"a":01}`:            "body_invalid",
		deep:                  "body_invalid",
		`{"purpose":1}`:       "metadata_invalid",
		`{"evaluation":null}`: "metadata_invalid",
		`{"a":"` + strings.Repeat("x", tree.MaxBody) + `"}`: "too_large",
	} {
		r, err := o.Put(t.Context(), ana, tree.Put{URI: note("ana", "b"), Body: []byte(body)})
		code := ""
		if err != nil {
			code = fault.Of(err).Code
			if at := fault.Of(err).Details["position"]; strings.Contains(want, " at ") {
				code += fmt.Sprint(" at ", at)
			}
		}
		if code != want || (tree.CheckBody([]byte(body)) == nil) != (want == "") {
			t.Errorf("%.60q: %v, want %s", body, err, want)
		}
		if want == "" {
			if got := must(o.Get(t.Context(), ana, note("ana", "b"))); string(got.Body) != body || got.Version != r.Version || got.Metadata != r.Metadata {
				t.Errorf("%q is kept as %+v", body, got)
			}
		}
	}
	got := must(o.Put(t.Context(), ana, tree.Put{URI: note("ana", "m"), Body: []byte(`{"purpose":"p","instructions":"i","applicability":"a","evaluation":"e"}`)}))
	if got.Metadata != (resource.Metadata{Purpose: "p", Instructions: "i", Applicability: "a", Evaluation: "e"}) {
		t.Errorf("%+v", got.Metadata)
	}
}

func TestWhatCannotBeChanged(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	conv := resource.Root("common.Conversation", "c")
	must(o.st.Commit(ctx, store.ForUser("ana"), store.Batch{Changes: []store.Change{{URI: conv, Body: []byte(`{}`)}}}))
	family := resource.Root("identity.Group", "family")
	for name, c := range map[string]struct {
		uri   resource.URI
		space resource.Space
		kind  fault.Kind
		code  string
	}{
		"root":                {resource.URI{}, "", fault.Denied, "resource_owned"},
		"conversation":        {conv, "", fault.Denied, "resource_owned"},
		"own type below":      {conv.Child("home.Note", "x"), "", fault.Denied, "resource_owned"},
		"own type at root":    {resource.Root("home.Note", "x"), "", fault.Denied, "resource_owned"},
		"profile":             {resource.Root("identity.User", "ana"), "", fault.Denied, "resource_owned"},
		"account":             {resource.Root("identity.Account", "ana"), "", fault.Denied, "resource_owned"},
		"group":               {family, "", fault.Denied, "resource_owned"},
		"event below":         {note("ana", "x").Child("event.Event", "e"), "", fault.Denied, "resource_owned"},
		"own below an event":  {resource.Root("identity.User", "ana").Child("event.Event", "e").Child("home.Note", "x"), "", fault.Denied, "resource_owned"},
		"done record":         {resource.Root("identity.User", "ana").Child("tree.Done", "k"), "", fault.Denied, "resource_owned"},
		"tool":                {resource.Root("tool.Tool", "math.add"), "", fault.Denied, "resource_owned"},
		"another user's":      {note("bo", "x"), "", fault.Denied, "space_denied"},
		"nobody's":            {note("nobody", "x"), "", fault.Denied, "space_denied"},
		"a group of others":   {resource.Root("identity.Group", "other").Child("home.Note", "x"), "", fault.Denied, "space_denied"},
		"space says another":  {note("ana", "x"), "group:family", fault.Invalid, "space_invalid"},
		"space and no member": {note("ana", "x"), "user:bo", fault.Invalid, "space_invalid"},
	} {
		_, err := o.Put(ctx, ana, tree.Put{URI: c.uri, Space: c.space, Body: []byte(`{}`)})
		if !fault.HasCode(err, c.code) || !fault.Is(err, c.kind) || fault.Of(err).Remedy == "" {
			t.Errorf("put %s: %v", name, err)
		}
		if c.space == "" {
			if err := o.Delete(ctx, ana, tree.Removal{URI: c.uri}); !fault.HasCode(err, c.code) {
				t.Errorf("delete %s: %v", name, err)
			}
		}
	}
	_, err := o.Put(ctx, ana, tree.Put{URI: note("ana", "x"), Body: []byte(`{}`), Version: 1, Create: true})
	wantCode(t, err, fault.Invalid, "version_invalid")
	for _, state := range []string{"Open", "a b", tree.Deleted, strings.Repeat("x", 65), "ä"} {
		_, err := o.Put(ctx, ana, tree.Put{URI: note("ana", "x"), Body: []byte(`{}`), State: state})
		wantCode(t, err, fault.Invalid, "state_invalid")
	}
	if r := must(o.Get(ctx, ana, conv)); string(r.Body) != `{}` {
		t.Errorf("%+v", r)
	}
}

func TestParentsAndHistory(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	must(o.reg.SetProfile(ctx, "ana", identity.Profile{Locale: "de"}))
	a := note("ana", "a")
	part := a.Child("home.Gap", "g").Child("home.Part", "p")
	must(o.Put(ctx, ana, tree.Put{URI: a, Body: []byte(`{"purpose":"first"}`), State: "open"}))
	must(o.Put(ctx, ana, tree.Put{URI: part, Body: []byte(`{}`)}))
	got := must(o.Parents(ctx, ana, part))
	if uris(tree.Page{Items: got}) != "cld:identity.User.ana "+a.String() || got[1].Purpose != "first" || got[1].State != "open" {
		t.Errorf("%+v", got)
	}
	if got := must(o.Parents(ctx, bo, part)); len(got) != 0 {
		t.Errorf("bo sees %+v", got)
	}
	if got := must(o.Parents(ctx, ana, resource.URI{})); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	must(o.Put(ctx, ana, tree.Put{URI: a, Body: []byte(`{"purpose":"second"}`)}))
	if err := o.Delete(ctx, ana, tree.Removal{URI: a, Version: 2}); err != nil {
		t.Fatal(err)
	}
	var past tree.Page
	for after := ""; ; {
		p := must(o.History(ctx, ana, a, after, 1))
		past.Items = append(past.Items, p.Items...)
		if after = p.Next; after == "" {
			break
		}
	}
	if len(past.Items) != 3 || past.Items[0].State != tree.Deleted || past.Items[0].Body != nil || past.Items[1].Purpose != "second" || past.Items[2].State != "open" || past.Items[2].Actor != "ana" {
		t.Errorf("%+v", past.Items)
	}
	if r := must(o.Version(ctx, ana, a, 1)); r.Purpose != "first" {
		t.Errorf("%+v", r)
	}
	_, err := o.Version(ctx, ana, a, 9)
	wantCode(t, err, fault.NotFound, "not_found")
	if err := o.Delete(ctx, ana, tree.Removal{URI: a, Erase: true}); err != nil {
		t.Fatal(err)
	}
	for _, r := range must(o.History(ctx, ana, a, "", 0)).Items {
		if r.Body != nil {
			t.Errorf("version %d still has its body", r.Version)
		}
	}
	must(o.Get(ctx, ana, part)) // resources below it stay
}

// Concurrent writers replace the version that they have read. Each version is
// replaced exactly once.
func TestCompareAndSet(t *testing.T) {
	ctx := t.Context()
	o := open(t)
	uri := resource.Root("identity.Group", "family").Child("home.Counter", "c")
	must(o.Put(ctx, ana, tree.Put{URI: uri, Body: []byte(`{"n":0}`)}))
	const workers, times = 8, 20
	var wg sync.WaitGroup
	for i := range workers {
		by := []tree.Caller{ana, bo}[i%2]
		wg.Go(func() {
			for range times {
				for {
					var n struct{ N int }
					r, err := o.Get(ctx, by, uri)
					if err != nil || json.Unmarshal(r.Body, &n) != nil {
						t.Errorf("%v %s", err, r.Body)
						return
					}
					_, err = o.Put(ctx, by, tree.Put{URI: uri, Body: fmt.Appendf(nil, `{"n":%d}`, n.N+1), Version: r.Version})
					if err == nil {
						break
					}
					if !fault.HasCode(err, "resource_changed") {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if r := must(o.Get(ctx, ana, uri)); string(r.Body) != fmt.Sprintf(`{"n":%d}`, workers*times) || r.Version != workers*times+1 {
		t.Errorf("%s at version %d", r.Body, r.Version)
	}
	made := make(chan bool, workers)
	for range workers {
		wg.Go(func() {
			_, err := o.Put(ctx, ana, tree.Put{URI: note("ana", "once"), Body: []byte(`{}`), Create: true})
			made <- err == nil
		})
	}
	wg.Wait()
	close(made)
	n := 0
	for ok := range made {
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestJSON(t *testing.T) {
	for want, r := range map[string]tree.Resource{
		`{"uri":"cld:a.B.c","type":"a.B","space":"user:x","version":2,"purpose":"p","body":{"a":1}}`: {URI: resource.Root("a.B", "c"), Space: "user:x", Version: 2,
			Metadata: resource.Metadata{Purpose: "p"}, Body: []byte(`{"a":1}`)},
		`{"uri":"cld:a.B.c","type":"a.B","space":"","text":"plain"}`:                {URI: resource.Root("a.B", "c"), Body: []byte("plain")},
		`{"uri":"cld:a.B.c","type":"a.B","space":"","masked":true,"base64":"/w=="}`: {URI: resource.Root("a.B", "c"), Body: []byte{0xff}, Masked: true},
	} {
		if got := string(must(json.Marshal(r))); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
