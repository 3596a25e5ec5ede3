package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

type world struct {
	*testing.T
	st  *sqlite.Store
	log *Log
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	l, err := New(st, o)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, st, l}
}

func (w *world) put(sc store.Scope, req id.ID, changes ...store.Change) store.Receipt {
	w.Helper()
	r, err := w.st.Commit(w.Context(), sc, store.Batch{Request: req, Changes: changes})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) export(who Reader, q Query) []byte {
	w.Helper()
	var b bytes.Buffer
	if err := w.log.Export(w.Context(), who, q, &b); err != nil {
		w.Fatal(err)
	}
	return b.Bytes()
}

func (w *world) verified(b []byte, anchors ...store.Head) Checked {
	w.Helper()
	c, err := VerifyExport(bytes.NewReader(b), anchors...)
	if err != nil {
		w.Fatal(err)
	}
	if c.Flaw != nil {
		w.Errorf("entry %d: %s\n%s", c.Flaw.Seq, c.Flaw.What, b)
	}
	return c
}

// entries reads the entries of an export.
func (w *world) entries(b []byte) (out []*Entry) {
	w.Helper()
	for one := range bytes.Lines(b) {
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			w.Fatalf("%v in %s", err, one)
		}
		if l.Kind == kindEntry {
			out = append(out, l.Entry)
		}
	}
	return out
}

func note(n int) resource.URI { return resource.Root("test.Note", fmt.Sprint(n)) }

// fill writes n entries, by turns Ada's and Bob's.
func (w *world) fill(n int) store.Head {
	w.Helper()
	for i := range n {
		sc := ada
		if i%2 == 1 {
			sc = bob
		}
		w.put(sc, id.New(), store.Change{URI: note(i), Body: []byte(fmt.Sprintf(`{"n":%d}`, i)), State: []string{"", "open"}[i%3%2]})
	}
	h, err := w.log.Head(w.Context())
	if err != nil || h.Seq != uint64(n) {
		w.Fatalf("%+v, %v", h, err)
	}
	return h
}
