package events

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/internal/store/sqlite"
	"steward/test/storetest"
)

// ask is a subscriber of the property: who he is and what he wants.
type ask struct {
	user string
	f    Filter
}

var somewhere = []resource.URI{
	{}, resource.Root("a.A", "1"), resource.Root("a.A", "1").Child("b.B", "2"), resource.Root("a.A", "1").Child("b.B", "2").Child("a.A", "3"),
	resource.Root("b.B", "2"), resource.Root("c.C", "4"), resource.Root(typeSource, "user:ana"),
}

func asks() *rapid.Generator[ask] {
	return rapid.Custom(func(t *rapid.T) ask {
		a := ask{user: rapid.SampledFrom([]string{"ana", "bob", "eve", "root"}).Draw(t, "user")}
		a.f.Prefixes = rapid.SliceOfN(rapid.SampledFrom(somewhere), 0, 3).Draw(t, "prefixes")
		a.f.Types = rapid.SliceOfN(rapid.SampledFrom([]string{"a.A", "b.B", "b.*", "event.Event"}), 0, 2).Draw(t, "types")
		a.f.Sources = rapid.SliceOfN(rapid.SampledFrom([]string{"user:ana", "user:*", "agent:x", "system"}), 0, 2).Draw(t, "sources")
		a.f.Details = rapid.SliceOfN(rapid.SampledFrom(DetailTypes()), 0, 2).Draw(t, "details")
		return a
	})
}

// expected is the property in the plainest words: it goes through the whole log.
func expected(t *rapid.T, w *world, a ask) []string {
	sees := map[resource.Space]bool{resource.UserSpace(a.user): true, "group:team": a.user != "eve" && a.user != "root", resource.System: a.user == "root"}
	var out []string
	for x, err := range store.Entries(context.Background(), w.st, store.ForNode(""), store.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !sees[x.Space] || x.Space == "group:team" && x.URI.Type() == "c.C" { // the authorizer's one rule
			continue
		}
		about, source, detail := []resource.URI{x.URI}, x.Actor, Put
		if source != "system" && !strings.HasPrefix(source, "agent:") {
			source = "user:" + source
		}
		if x.Op != resource.OpPut {
			detail = Delete
		} else if x.URI.Type() == TypeEvent {
			if len(x.Body) == 0 {
				continue
			}
			to, _ := strconv.Atoi(string(x.Body[slices.Index(x.Body, '#')+1]) + "")
			if about = append(about, somewhere[to]); strings.Contains(string(x.Body), `"RESOURCE_GET"`) {
				detail = Get
			}
			if x.Space == "group:team" && somewhere[to].Type() == "c.C" {
				continue
			}
		}
		fits := false
		for _, u := range about {
			below := len(a.f.Prefixes) == 0 || slices.ContainsFunc(a.f.Prefixes, u.Under)
			typed := len(a.f.Types) == 0 || slices.ContainsFunc(a.f.Types, func(s string) bool {
				return s == u.Type() || s == "b.*" && strings.HasPrefix(u.Type(), "b.")
			})
			fits = fits || below && typed
		}
		by := len(a.f.Sources) == 0 || slices.ContainsFunc(a.f.Sources, func(s string) bool {
			return s == source || s == "user:*" && strings.HasPrefix(source, "user:")
		})
		if fits && by && (len(a.f.Details) == 0 || slices.Contains(a.f.Details, detail)) {
			out = append(out, fmt.Sprint(x.Seq, " ", detail, " ", source))
		}
	}
	return out
}

// scribble writes at random: puts, deletions, erasures and publications by
// several users, agents and the system into several spaces.
func scribble(w *world, r *rand.Rand, n int) error {
	for range n {
		user := []string{"ana", "bob", "eve"}[r.IntN(3)]
		sp := resource.UserSpace(user)
		if user != "eve" && r.IntN(2) == 0 {
			sp = "group:team"
		}
		to := 1 + r.IntN(5)
		if r.IntN(4) == 0 {
			x := Publication{Space: sp, Detail: []DetailType{Put, Get}[r.IntN(2)],
				Resources: []Resource{{URI: somewhere[to], Body: []byte(fmt.Sprintf(`"#%d"`, to))}}}
			who := Caller{User: user}
			if r.IntN(3) == 0 {
				who.Agent = "x"
			}
			if _, err := w.Publish(context.Background(), who, x); err != nil {
				return err
			}
			continue
		}
		actor := []string{user, user, "agent:x", "system"}[r.IntN(4)]
		if r.IntN(8) == 0 {
			sp, actor = resource.System, "system"
		}
		// Each space has its own resources: a URI belongs to one space.
		u := somewhere[to].Child("b.B", string(sp)).Child([]string{"a.A", "b.B", "c.C"}[r.IntN(3)], strconv.Itoa(r.IntN(3)))
		c := store.Change{URI: u, Body: []byte(`"x"`), Op: []store.Op{store.Put, store.Put, store.Put, store.Delete, store.Erase}[r.IntN(5)]}
		_, err := w.st.Commit(context.Background(), store.Scope{Actor: actor, Read: []resource.Space{sp}, Write: sp}, store.Batch{Changes: []store.Change{c, {URI: u.Child("b.B", "n")}}})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// chase subscribes again and again, from the last cursor that it was told,
// until it has come to a position: it breaks off at random, and is slow.
func chase(w *world, a ask, r *rand.Rand, from Cursor, until func() uint64) ([]string, error) {
	var got []string
	cursor := from
	for {
		breaks := 1 + r.IntN(6)
		ctx, cancel := context.WithCancel(context.Background())
		for b, err := range w.Subscribe(ctx, Caller{User: a.user}, a.f, cursor) {
			if err != nil {
				cancel()
				return got, err
			}
			for i := range b.Events {
				got = append(got, fmt.Sprint(b.Events[i].Seq, " ", b.Events[i].Detail, " ", b.Events[i].Source))
				cursor = b.Events[i].Cursor()
				if breaks--; breaks == 0 { // in the midst of a batch
					break
				}
			}
			if breaks <= 0 {
				break
			}
			cursor = b.Cursor
			if end := until(); end > 0 {
				if at, err := cursor.Position(); err != nil || at >= end {
					cancel()
					return got, err
				}
			}
		}
		cancel()
	}
}

// What subscribers are told is the log, filtered: for random writers, slow and
// returning subscribers, several users and a group, whoever joins when.
func TestEventsMatchTheLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) { toldIsTheLog(t, rt, storetest.NewModel()) })
}

// The same over the real store.
func TestEventsMatchTheLogOnDisk(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		if n > 10 { // a database each time
			return
		}
		st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, strconv.Itoa(n))})
		if err != nil {
			rt.Fatal(err)
		}
		defer st.Close()
		toldIsTheLog(t, rt, st)
	})
}

func toldIsTheLog(tb testing.TB, t *rapid.T, st store.Store) {
	queue, size := rapid.SampledFrom([]int{1, 3, 4096}).Draw(t, "queue"), rapid.SampledFrom([]int{1, 2, 256}).Draw(t, "size")
	opt := Options{Follow: over(st, queue, size), Beat: 1, Recheck: 1e6, Authorizer: judge(func(q policy.Question) (policy.Decision, error) {
		if q.Action == policy.Read && q.Resource.Space == "group:team" && q.Resource.Type == "c.C" {
			return policy.Decision{Verdict: policy.Deny}, nil
		}
		return policy.Decision{Verdict: policy.Allow}, nil
	})}
	w := newWorld(tb, opt)
	defer func() { w.Close() }()
	who := rapid.SliceOfN(asks(), 1, 6).Draw(t, "subscribers")
	seed := rapid.Uint64().Draw(t, "seed")
	if err := scribble(w, rand.New(rand.NewPCG(seed, 0)), rapid.IntRange(0, 20).Draw(t, "before")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var end uint64
	until := func() uint64 { mu.Lock(); defer mu.Unlock(); return end }
	var writing, following sync.WaitGroup
	got, errs := make([][]string, len(who)), make([]error, len(who)+3)
	for i, a := range who {
		following.Go(func() { got[i], errs[i] = chase(w, a, rand.New(rand.NewPCG(seed, uint64(i)+10)), Start, until) })
	}
	for i := range 3 {
		n := rapid.IntRange(0, 30).Draw(t, "writes")
		writing.Go(func() { errs[len(who)+i] = scribble(w, rand.New(rand.NewPCG(seed, uint64(i)+1)), n) })
	}
	writing.Wait()
	head, err := follow.Head(context.Background(), w.st)
	if err != nil {
		t.Fatal(err)
	}
	if head == 0 { // the end has to be there to be seen
		head = w.put("system", resource.System, note("end")).Seq
	}
	mu.Lock()
	end = head
	mu.Unlock()
	following.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for i, a := range who {
		want := expected(t, w, a)
		// What was told before it was erased was told; what is told now must be all.
		if missing := without(want, got[i]); len(missing) > 0 {
			t.Fatalf("%+v is not told %v", a, missing)
		}
		if !slices.IsSortedFunc(got[i], bySeq) || len(slices.Compact(slices.Clone(got[i]))) != len(got[i]) {
			t.Fatalf("%+v is told in another order, or twice: %v", a, got[i])
		}
		if more := without(got[i], want); len(more) > 0 {
			t.Fatalf("%+v is told %v", a, more)
		}
	}
	restarted(t, w, opt, who)
}

// restarted asks a new engine over the same store: it tells the same again.
func restarted(t *rapid.T, w *world, opt Options, who []ask) {
	w.Close()
	opt.Follow, opt.Directory, opt.Log = over(w.st, 0, 0), w.people, w.opt.Log
	e, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	w.Engine = e
	head, err := follow.Head(context.Background(), w.st)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range who {
		got, err := chase(w, a, rand.New(rand.NewPCG(1, 2)), Start, func() uint64 { return head })
		if want := expected(t, w, a); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v is told %v after a restart, want %v (%v)", a, got, want, err)
		}
	}
}

func bySeq(a, b string) int {
	x, _, _ := strings.Cut(a, " ")
	y, _, _ := strings.Cut(b, " ")
	n, _ := strconv.Atoi(x)
	m, _ := strconv.Atoi(y)
	return n - m
}

// without returns what of a is not in b.
func without(a, b []string) []string {
	in := map[string]bool{}
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return out
}
