package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/storetest"
)

// mutant is a store with a mistake.
type mutant struct {
	*storetest.Model
	mistake string
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
	}
	return m.Model.Commit(ctx, sc, b)
}

func (m mutant) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if m.mistake == "queries see all spaces" {
		sc = store.ForNode(resource.System)
	}
	if m.mistake == "reverse is ignored" {
		q.Reverse = false
	}
	p, err := m.Model.Query(ctx, sc, q)
	if m.mistake == "full pages end" && len(p.Items) == q.Limit {
		p.Next = ""
	}
	return p, err
}

func (m mutant) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if m.mistake == "since is included" && q.Since > 0 {
		q.Since--
	}
	p, err := m.Model.Log(ctx, sc, q)
	if m.mistake == "the log's cursor stands still" {
		p.Next = q.After
	}
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
		storetest.Run(t, func(*testing.T) store.Store { return mutant{storetest.NewModel(), mistake} })
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []string{
		"get sees all spaces", "versions are off", "batches fall apart", "terms are forgotten", "preconditions are ignored",
		"queries see all spaces", "reverse is ignored", "full pages end", "since is included", "the log's cursor stands still",
		"wait returns at once",
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
