package tree_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tree"
	_ "steward/test/seed"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantCode(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.HasCode(err, code) || !fault.Is(err, kind) {
		t.Fatalf("got %v, want %s %s", err, kind, code)
	}
}

func database(t testing.TB) store.Store {
	t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// kept is the state of a resource in the model.
type kept struct {
	space   resource.Space
	version uint64
	body    string
	state   string
	gone    bool
}

// world is the model: the resources and the members of the group.
type world struct {
	t       *rapid.T
	s       *tree.Service
	people  *identity.Registry
	things  map[resource.URI]*kept
	members map[string]bool
	foreign []resource.URI // Steward's own resources for ana
}

func (w *world) sees(user string, space resource.Space) bool {
	return space == resource.UserSpace(user) || space == "group:family" && w.members[user]
}

// where draws a URI as a user may write it, and returns it with its resolved form.
func (w *world) where(user string) (string, resource.Space, resource.URI) {
	space := rapid.SampledFrom([]resource.Space{"", "user:ana", "user:bo", "group:family"}).Draw(w.t, "space")
	short := "home.Note." + rapid.SampledFrom([]string{"a", "b", "a/home.Part.x"}).Draw(w.t, "name")
	text := resource.Scheme + short
	if rapid.Bool().Draw(w.t, "in full") && space != "" {
		text = resource.Place(space).String() + "/" + short
	}
	at := space
	if at == "" {
		at = resource.UserSpace(user)
	}
	uri := must(resource.Parse(resource.Place(at).String() + "/" + short))
	got, err := tree.Parse(user, space, text)
	if err != nil || got != uri {
		w.t.Fatalf("%s of %s in %q is %s, %v; want %s", text, user, space, got, err, uri)
	}
	return text, at, uri
}

func (w *world) user() string {
	return rapid.SampledFrom([]string{"ana", "bo"}).Draw(w.t, "user")
}

func (w *world) put(*rapid.T) {
	user := w.user()
	_, space, uri := w.where(user)
	old := w.things[uri]
	there := old != nil && !old.gone
	p := tree.Put{URI: uri, Body: fmt.Appendf(nil, `{"purpose":"p%d","n":%d}`, len(w.things), rapid.Int().Draw(w.t, "n")),
		State: rapid.SampledFrom([]string{"", "open"}).Draw(w.t, "state")}
	switch rapid.IntRange(0, 2).Draw(w.t, "condition") {
	case 1:
		p.Create = true
	case 2:
		p.Version = uint64(rapid.IntRange(1, 4).Draw(w.t, "version"))
	}
	got, err := w.s.Put(context.Background(), tree.Caller{User: user}, p)
	switch {
	case !w.sees(user, space):
		if !fault.HasCode(err, "space_denied") {
			w.t.Fatalf("%s put %s: %v", user, uri, err)
		}
	case p.Create && there:
		if !fault.HasCode(err, "resource_exists") {
			w.t.Fatalf("%s made %s again: %v", user, uri, err)
		}
	case p.Version > 0 && !there:
		if !fault.HasCode(err, "not_found") {
			w.t.Fatalf("%s replaced %s, which is not there: %v", user, uri, err)
		}
	case p.Version > 0 && old.version != p.Version:
		if !fault.HasCode(err, "resource_changed") {
			w.t.Fatalf("%s replaced version %d of %s, which is at %+v: %v", user, p.Version, uri, old, err)
		}
	case err != nil:
		w.t.Fatalf("%s put %s: %v", user, uri, err)
	default:
		version := uint64(1)
		if old != nil {
			version = old.version + 1
		}
		if got.Version != version || got.Space != space || got.Actor != user {
			w.t.Fatalf("put made %+v, want version %d", got, version)
		}
		w.things[uri] = &kept{space: space, version: version, body: string(p.Body), state: p.State}
	}
}

func (w *world) remove(*rapid.T) {
	user := w.user()
	_, space, uri := w.where(user)
	old := w.things[uri]
	err := w.s.Delete(context.Background(), tree.Caller{User: user}, tree.Removal{URI: uri})
	switch {
	case !w.sees(user, space):
		if !fault.HasCode(err, "space_denied") {
			w.t.Fatalf("%s deleted %s: %v", user, uri, err)
		}
	case old == nil || old.gone:
		if !fault.HasCode(err, "not_found") {
			w.t.Fatalf("%s deleted %s, which is not there: %v", user, uri, err)
		}
	case err != nil:
		w.t.Fatalf("%s deleted %s: %v", user, uri, err)
	default:
		old.gone = true
		old.version++
	}
}

func (w *world) join(*rapid.T) {
	user, in := w.user(), rapid.Bool().Draw(w.t, "in")
	var err error
	if in {
		_, err = w.people.Join(context.Background(), "local", "family", user, false)
	} else if w.members[user] {
		_, err = w.people.Leave(context.Background(), "local", "family", user)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.members[user] = in
}

// check compares everything that each of the two users sees with the model.
func (w *world) check(*rapid.T) {
	ctx := context.Background()
	for _, user := range []string{"ana", "bo"} {
		by := tree.Caller{User: user}
		var want []resource.URI
		for uri, k := range w.things {
			got, err := w.s.Get(ctx, by, uri)
			past, perr := w.s.History(ctx, by, uri, "", 0)
			switch {
			case !w.sees(user, k.space):
				if !fault.HasCode(err, "not_found") || !fault.HasCode(perr, "not_found") {
					w.t.Fatalf("%s reads %s: %+v %v, %+v %v", user, uri, got, err, past, perr)
				}
				continue
			case perr != nil || past.Items[0].Version != k.version && !k.gone:
				w.t.Fatalf("%s sees the history of %s: %+v %v, want version %d", user, uri, past.Items, perr, k.version)
			case k.gone:
				if !fault.HasCode(err, "not_found") {
					w.t.Fatalf("%s reads %s, which is deleted: %v", user, uri, err)
				}
				continue
			}
			if err != nil || string(got.Body) != k.body || got.Version != k.version || got.State != k.state || got.Space != k.space || got.Purpose == "" {
				w.t.Fatalf("%s reads %s: %+v %v, want %+v", user, uri, got, err, k)
			}
			want = append(want, uri)
		}
		for _, uri := range w.foreign {
			if _, err := w.s.Get(ctx, by, uri); (err == nil) != (user == "ana") {
				w.t.Fatalf("%s reads %s: %v", user, uri, err)
			}
		}
		w.list(user, want)
	}
}

// list reads lists as the user, page by page, in tree order and from the log.
func (w *world) list(user string, want []resource.URI) {
	slices.SortFunc(want, func(a, b resource.URI) int { return bytes.Compare(a.Key(), b.Key()) })
	size := rapid.IntRange(1, 5).Draw(w.t, "page")
	for name, q := range map[string]tree.Query{
		"all":   {},
		"type":  {Type: "home.Note"},
		"open":  {State: "open"},
		"group": {Space: "group:family"},
		"ana's": {Space: "user:ana"},
		"under": {Under: resource.Place("user:ana").Child("home.Note", "a")},
		"log":   {Since: start},
	} {
		q.Limit = size
		var got []resource.URI
		for {
			page, err := w.s.List(context.Background(), tree.Caller{User: user}, q)
			if err != nil {
				w.t.Fatalf("%s lists %s: %v", user, name, err)
			}
			for _, r := range page.Items {
				if r.URI.Type() == "home.Note" || r.URI.Type() == "home.Part" {
					got = append(got, r.URI)
				} else if user != "ana" || !slices.Contains(w.foreign, r.URI) {
					w.t.Fatalf("%s sees %s", user, r.URI)
				}
				if r.Body != nil {
					w.t.Fatalf("a body that nobody asked for: %+v", r)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		fits := slices.DeleteFunc(slices.Clone(want), func(u resource.URI) bool {
			k := w.things[u]
			return q.Type != "" && u.Type() != q.Type || q.State != "" && k.state != q.State || q.Space != "" && k.space != q.Space || !u.Under(q.Under)
		})
		if !q.Since.IsZero() {
			slices.SortFunc(got, func(a, b resource.URI) int { return bytes.Compare(a.Key(), b.Key()) })
		}
		if !slices.Equal(got, fits) {
			w.t.Fatalf("%s lists %s in pages of %d: %v, want %v", user, name, size, got, fits)
		}
	}
}

// With two users and a group, each user always sees exactly their own resources
// and, as a member, those of the group.
func TestNothingCrosses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := database(t)
		reg := identity.New(st)
		w := &world{t: rt, people: reg, things: map[resource.URI]*kept{}, members: map[string]bool{},
			s: tree.New(tree.Options{Store: st, Authorizer: policy.Fixed{}, People: reg})}
		ctx := context.Background()
		must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family"}))
		must(reg.AddUser(ctx, "local", "bo", identity.AccountChange{Roles: &[]string{"member"}}))
		if _, _, err := reg.Create(ctx, "local", "ana", "", start.AddDate(5000, 0, 0)); err != nil {
			rt.Fatal(err)
		}
		must(reg.SetProfile(ctx, "ana", identity.Profile{Locale: "de"}))
		conv := resource.Root("common.Conversation", "c")
		must(st.Commit(ctx, store.ForUser("ana"), store.Batch{Changes: []store.Change{
			{URI: conv, Body: []byte(`{"owner":"ana"}`)}, {URI: conv.Child("common.Message", "m"), Body: []byte(`{"role":"user"}`)}}}))
		w.foreign = []resource.URI{conv, conv.Child("common.Message", "m"), resource.Root("identity.User", "ana")}
		rt.Repeat(map[string]func(*rapid.T){"put": w.put, "delete": w.remove, "join": w.join, "look": w.check})
		w.check(rt)
	})
}

func TestURIFaults(t *testing.T) {
	long := strings.Repeat("x", 512)
	for text, at := range map[string]int{
		"":                            0,
		"http://x":                    0,
		"cld:home.Note":               13,
		"cld:home.Note.":              14,
		"cld:Note.a":                  4,
		"cld:home.Note.a/":            16,
		"cld:home.Note.a//home.B.c":   16,
		"cld:home.Note.a/home.b":      22,
		"cld:home.Note.a/ho me.B.c":   16,
		"cld:home.Note.a/home.B.\x00": 23,
		"cld:" + strings.Repeat("home.Note."+long+"/", 4) + "home.B.c": 2048,
		"cld:" + strings.Repeat("a.B.c/", 40) + "a.B.c":                4 + 31*6,
	} {
		_, err := tree.Parse("ana", "", text)
		if !fault.HasCode(err, "uri_invalid") || fault.Of(err).Details["position"] != at {
			t.Errorf("%.60q: %v at %v, want %d", text, err, fault.Of(err).Details["position"], at)
		}
	}
	_, err := tree.Parse("ana", "system", "cld:home.Note.a")
	wantCode(t, err, fault.Invalid, "space_invalid")
	_, err = tree.Parse("ana", "nobody", "cld:home.Note.a")
	wantCode(t, err, fault.Invalid, "space_invalid")
	if uri, err := tree.Parse("ana", "group:x", "cld:common.Message.m"); err != nil || uri != resource.Root("common.Message", "m") {
		t.Errorf("%s %v", uri, err)
	}
	if uri, err := tree.Parse("ana", "", "cld:"); err != nil || !uri.Zero() {
		t.Errorf("%s %v", uri, err)
	}
}
