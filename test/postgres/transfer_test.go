//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	pgstore "steward/internal/store/postgres"
	"steward/internal/store/sqlite"
	"steward/internal/store/transfer"
	"steward/test/postgres"
)

func TestMain(m *testing.M) { os.Exit(postgres.Main(m.Run)) }

var system = store.ForNode(resource.System)

func conv(name string) resource.URI { return resource.Root("common.Conversation", name) }

// fill writes something of every kind: several spaces and versions, states, terms
// and places, what is deleted, erased before and after it was sealed, and packed.
func fill(t *testing.T, s interface {
	store.Store
	store.Sealer
}) {
	t.Helper()
	do := func(user string, changes ...store.Change) {
		t.Helper()
		if _, err := s.Commit(t.Context(), store.ForUser(user), store.Batch{Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		user := []string{"ada", "bob"}[i%2]
		u := conv(fmt.Sprint(i % 150))
		if i >= 150 {
			user = []string{"ada", "bob"}[i%150%2]
		}
		do(user, store.Change{URI: u, Body: []byte(strings.Repeat(fmt.Sprint("body", i), i%40)), State: []string{"", "open"}[i%2],
			Terms: []store.Term{{Name: "t", Value: fmt.Sprint(i % 7)}, {Name: "s", Value: "\x00\xff"}}, Place: &store.Place{List: conv("list"), Pos: int64(i)}})
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	do("ada", store.Change{Op: store.Erase, URI: conv("2")}, store.Change{Op: store.Delete, URI: conv("4")}, store.Change{Op: store.Pack, URI: conv("6")})
	do("bob", store.Change{URI: conv("new"), Body: []byte("unsealed")})
	do("bob", store.Change{Op: store.Erase, URI: conv("new")}, store.Change{Op: store.Unlist, URI: conv("7"), Place: &store.Place{List: conv("list")}})
}

// seen returns everything that the contract shows of a store.
func seen(t *testing.T, s store.Store) string {
	t.Helper()
	var b strings.Builder
	for e, err := range store.Entries(t.Context(), s, system, store.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v\n", e)
	}
	for _, q := range []store.Query{{}, {List: conv("list")}, {State: "open"}, {Term: store.Term{Name: "t", Value: "3"}}, {Term: store.Term{Name: "s", Value: "\x00\xff"}}} {
		for it, err := range store.Items(t.Context(), s, system, q) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%+v\n", it)
		}
	}
	return b.String()
}

// source returns the name of a source, which includes its end.
func source(t *testing.T, r transfer.Reader) string {
	t.Helper()
	name, err := transfer.Name(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// broken is a reader that fails after some entries.
type broken struct {
	transfer.Reader
	after int
}

var errBroken = errors.New("the power is gone")

func (b broken) Entries(ctx context.Context, after uint64) iter.Seq2[transfer.Entry, error] {
	return func(yield func(transfer.Entry, error) bool) {
		n := 0
		for e, err := range b.Reader.Entries(ctx, after) {
			if n++; n > b.after {
				yield(e, errBroken)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A store moves from SQLite to PostgreSQL and back. Each is what the first was,
// and goes on from there.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	fill(t, first)
	want := seen(t, first)
	head, err := first.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	c := postgres.Shared(t)
	name := c.Database(t, "")
	o := pgstore.Options{URL: c.URL(postgres.App, name), Owner: c.URL(postgres.Owner, name)}
	there, err := pgstore.NewTransfer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// It is interrupted, is no store meanwhile, and continues.
	if _, err := transfer.Copy(t.Context(), broken{first, 250}, source(t, first), there, nil); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if _, err := pgstore.Open(t.Context(), pgstore.Options{URL: o.URL, ReadOnly: true}); !fault.HasCode(err, "store_incomplete") {
		t.Fatalf("a half copy opens: %v", err)
	}
	if _, err := transfer.Copy(t.Context(), first, "something else", there, nil); !fault.HasCode(err, "transfer_refused") {
		t.Fatalf("it continues with another source: %v", err)
	}
	r, err := transfer.Copy(t.Context(), first, source(t, first), there, nil)
	if err != nil || r.Entries.Count != int64(head.Seq) || r.Nodes.Count != 151 || !r.Resumed {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := transfer.Copy(t.Context(), first, source(t, first), there, nil); !fault.HasCode(err, "transfer_refused") {
		t.Fatalf("it copies over a store: %v", err)
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := pgstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if got := seen(t, second); got != want {
		t.Errorf("in PostgreSQL there is something else:\n%s", difference(want, got))
	}
	if v, err := second.Verify(t.Context(), head); err != nil || v.Flaw != nil || v.Head != head {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
	change := store.Batch{Changes: []store.Change{{URI: conv("2"), If: store.If{Absent: true}}, {Op: store.Erase, URI: conv("8")}, {URI: conv("10"), If: store.If{Version: 3}}}}
	if r, err := second.Commit(t.Context(), store.ForUser("ada"), change); err != nil || r.Seq != head.Seq+3 {
		t.Fatalf("%+v, %v", r, err)
	}
	want = seen(t, second)
	if head, err = second.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(dir, "b.db")
	back, err := sqlite.NewTransfer(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Copy(t.Context(), broken{second, 100}, source(t, second), back, nil); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}
	if back, err = sqlite.NewTransfer(path); err != nil {
		t.Fatal(err)
	}
	if r, err = transfer.Copy(t.Context(), second, source(t, second), back, nil); err != nil {
		t.Fatal(err)
	}
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if got := seen(t, third); got != want {
		t.Errorf("back in SQLite there is something else:\n%s", difference(want, got))
	}
	if v, err := third.Verify(t.Context(), head); err != nil || v.Flaw != nil {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
	if damage, err := third.Damage(t.Context()); err != nil || len(damage) > 0 {
		t.Errorf("%v, %v", damage, err)
	}
	if _, err := sqlite.NewTransfer(path); !fault.HasCode(err, "transfer_refused") {
		t.Errorf("it copies over a database: %v", err)
	}
}

// difference returns the first lines that differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%.300s\n%.300s", i, x[i], y[i])
		}
	}
	return fmt.Sprint(len(x), " lines and ", len(y))
}
