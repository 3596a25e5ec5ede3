package storetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/storetest"
)

// mutant is a store with a mistake.
type mutant struct {
	*storetest.Model
	mistake string
	bodies  *sync.Map // all that were put, by their resource and version
}

func newMutant(mistake string) mutant {
	return mutant{storetest.NewModel(), mistake, new(sync.Map)}
}

func (m mutant) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if m.mistake == "get sees all spaces" {
		sc = store.ForNode(resource.System)
	}
	r, err := m.Model.Get(ctx, sc, u)
	if m.mistake == "versions are off" {
		r.Version++
	}
	return r, err
}

func (m mutant) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	b.Changes = slices.Clone(b.Changes)
	switch m.mistake {
	case "batches fall apart":
		r := store.Receipt{Versions: make([]uint64, 0, len(b.Changes))}
		for _, c := range b.Changes {
			one, err := m.Model.Commit(ctx, sc, store.Batch{Request: b.Request, Changes: []store.Change{c}})
			if err != nil {
				return store.Receipt{}, err
			}
			r.Seq, r.At, r.Versions = one.Seq, one.At, append(r.Versions, one.Versions...)
		}
		return r, nil
	case "terms are forgotten":
		for i := range b.Changes {
			b.Changes[i].Terms = nil
		}
	case "preconditions are ignored":
		for i := range b.Changes {
			b.Changes[i].If = store.If{}
		}
	case "erasures are deletions", "packing is forgotten", "packing is a put", "unlisting is forgotten", "moving is forgotten":
		b.Changes = m.misread(sc, b.Changes)
	}
	r, err := m.Model.Commit(ctx, sc, b)
	if m.mistake == "taken positions are left out" && fault.HasCode(err, "conflict") {
		for i := range b.Changes {
			b.Changes[i].Place = nil
		}
		return m.Model.Commit(ctx, sc, b)
	}
	if m.mistake == "conflicts tell too much" && err != nil {
		err = fault.Of(err).Detail("version", 7)
	}
	if m.mistake == "versions of what is not put" && err == nil && len(b.Changes) > 0 {
		r.Versions[len(b.Changes)-1] = max(r.Versions[len(b.Changes)-1], 1)
	}
	for i, v := range r.Versions {
		m.bodies.Store(fmt.Sprint(b.Changes[i].URI, v), b.Changes[i].Body)
	}
	return r, err
}

// misread makes other changes of some.
func (m mutant) misread(sc store.Scope, changes []store.Change) (out []store.Change) {
	for _, c := range changes {
		switch {
		case c.Op == store.Erase && m.mistake == "erasures are deletions":
			c.Op = store.Delete
		case c.Op == store.Unlist && m.mistake == "unlisting is forgotten":
			c = store.Change{Op: store.Check, URI: c.URI, If: c.If}
		case c.Place != nil && c.If.Version > 0 && m.mistake == "moving is forgotten":
			c.Place = nil
		case c.Op == store.Pack && m.mistake == "packing is forgotten":
			c = store.Change{Op: store.Check, URI: c.URI}
		case c.Op == store.Pack && m.mistake == "packing is a put":
			r, err := m.Model.Get(context.Background(), sc, c.URI)
			if err == nil {
				c.Op, c.Body, c.State = store.Put, r.Body, r.State
			}
		}
		out = append(out, c)
	}
	return out
}

// spoil makes what a store has that packs and erases badly.
func (m mutant) spoil(e *resource.Entry) {
	switch {
	case m.mistake == "packed bodies lose their end" && len(e.Body) > 100:
		e.Body = e.Body[:len(e.Body)-1]
	case m.mistake == "erased bodies are empty" && e.Body == nil:
		e.Body = []byte{}
	case m.mistake == "erasures look like deletions" && e.Op == resource.OpErase:
		e.Op = resource.OpDelete
	case m.mistake == "only the newest body is erased" && e.Op == resource.OpPut && e.Body == nil:
		_, older := m.bodies.Load(fmt.Sprint(e.URI, e.Version+1))
		if b, ok := m.bodies.Load(fmt.Sprint(e.URI, e.Version)); older && ok {
			e.Body = b.([]byte)
		}
	}
}

func (m mutant) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if m.mistake == "queries see all spaces" {
		sc = store.ForNode(resource.System)
	}
	if m.mistake == "reverse is ignored" {
		q.Reverse = false
	}
	p, err := m.Model.Query(ctx, sc, q)
	if m.mistake == "counts are off by one" && p.Count > 1 {
		p.Count++
	}
	if m.mistake == "full pages end" && len(p.Items) == q.Limit {
		p.Next = ""
	}
	return p, err
}

func (m mutant) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if m.mistake == "since is included" && q.Since > 0 {
		q.Since--
	}
	if m.mistake == "types are ignored" {
		q.Type = ""
	}
	if m.mistake == "types of below count" && q.Type != "" {
		return m.below(ctx, sc, q)
	}
	p, err := m.Model.Log(ctx, sc, q)
	for i := range p.Entries {
		m.spoil(&p.Entries[i])
	}
	if m.mistake == "the log's cursor stands still" {
		p.Next = q.After
	}
	return p, err
}

// below takes entries of what lies below a resource of the type, too.
func (m mutant) below(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	typ := q.Type
	q.Type = ""
	p, err := m.Model.Log(ctx, sc, q)
	p.Entries = slices.DeleteFunc(p.Entries, func(e resource.Entry) bool {
		_, ok := e.URI.Find(typ)
		return !ok
	})
	return p, err
}

func (m mutant) Wait(ctx context.Context, after uint64) (uint64, error) {
	if m.mistake == "wait returns at once" {
		after = 0
	}
	return m.Model.Wait(ctx, after)
}

const mistakeVar = "STEWARD_STORETEST_MISTAKE"

// The suite notices mistakes: with each of them it fails, in a process of its own.
func TestMistakesAreNoticed(t *testing.T) {
	if mistake := os.Getenv(mistakeVar); mistake != "" {
		storetest.Run(t, func(*testing.T) store.Store { return newMutant(mistake) })
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []string{
		"get sees all spaces", "versions are off", "batches fall apart", "terms are forgotten", "preconditions are ignored",
		"queries see all spaces", "reverse is ignored", "full pages end", "since is included", "the log's cursor stands still",
		"wait returns at once", "erasures are deletions", "erasures look like deletions", "erased bodies are empty",
		"only the newest body is erased",
		"packing is forgotten", "packing is a put", "packed bodies lose their end", "versions of what is not put",
		"types are ignored", "types of below count", "unlisting is forgotten", "moving is forgotten", "taken positions are left out",
		"conflicts tell too much", "counts are off by one",
	} {
		cmd := exec.Command(self, "-test.run=^TestMistakesAreNoticed$", "-test.timeout=20s", "-test.failfast")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), mistakeVar+"="+mistake)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: TestMistakesAreNoticed/") {
			t.Errorf("%s: %v\n%s", mistake, err, out)
		}
	}
	// Without one it passes, so it was the mistake that was noticed.
	cmd := exec.Command(self, "-test.run=^TestMistakesAreNoticed$")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), mistakeVar+"=none")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
