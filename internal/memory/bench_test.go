package memory

import (
	"fmt"
	"path/filepath"
	"testing"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// BenchmarkStoredRecall recalls from 1,000 facts in a real database, as each turn does.
func BenchmarkStoredRecall(b *testing.B) {
	st, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "steward.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // the benchmark is over
	e := New(Options{Store: st})
	things, people := []string{"dentist", "colleague", "cousin", "landlord", "neighbour", "trainer", "teacher", "editor", "plumber", "baker"}, []string{"Otis", "Rosa", "Sven", "Tara", "Ugo", "Vera", "Wim", "Xenia", "Quinn", "Bruno"}
	for i := range 1000 {
		text := fmt.Sprintf("My %s %s number %d plays chess in the house %d and likes tea", things[i%10], people[i/10%10], i, i/3)
		f := record.Fact{ID: id.New(), User: "ann", Subject: subjectUser, Text: text, Type: record.FactPlain, Importance: 0.5, From: e.now(), Created: e.now(), Revision: 1}
		if err := e.commit(b.Context(), "ann", []store.Change{put(&f, store.If{Absent: true})}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for range b.N {
		r, err := e.Recall(b.Context(), "ann", "Where does my dentist Rosa play chess on Fridays?", func(id.ID, int) bool { return false }, RecallTokens)
		if err != nil || len(r.Facts) == 0 {
			b.Fatal(err)
		}
	}
}
