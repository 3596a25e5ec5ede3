package backup

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/store/sqlite"
	_ "steward/test/seed"
)

// Each name that the code puts into a data folder has a rule. A new kind of file gets its line in Rules.
func TestEveryFileOfTheCodeHasARule(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`filepath\.Join\((?:[a-zA-Z.]+\.)?(?:Data|data|folder|Folder), "([^"]+)"|MakeSecret\([\w.]+, "([^"]+)"|readSecret\(folder, "([^"]+)"`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../../store/backup/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + m[2] + m[3]
			found++
			if SortOf(name) == Unknown {
				t.Errorf("%s puts %q into the data folder: give it a line in Rules, which says whether a backup holds it", path, name)
			}
		}
		return nil
	})
	if err != nil || found < 15 {
		t.Errorf("%d names were found, %v", found, err)
	}
}

func TestSorts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Sort{
		"steward.db": Truth, "steward.db-wal": Passing, "steward.db.v2-20260101T000000.000000.backup": Aside, "search.db": Derived, "search.db.old": Derived,
		"vectors.db": Costly, "vectors.db-shm": Passing, "secrets": Truth, "secrets/KEY": Truth, "secrets/.new-1": Passing, "agents/a/b/c": Truth, "token": Truth,
		".token-123": Passing, "private/root/x.new": Truth, "backups": Aside, "backups/steward-1/data/token": Aside, "restore.partial/x": Passing,
		"before-restore-20260101T000000Z/token": Aside, "something": Unknown, "something/else": Unknown, "snapshots/.new-7/folder": Passing, "services/a/db/x.sqlite": Truth,
	} {
		if got := SortOf(name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// The newest backups are kept, and of each of the last days, weeks and months that have one the newest. More
// backups never make a rule keep fewer, and what is removed once stays superfluous.
func TestRetention(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Retention{Last: rapid.IntRange(1, 5).Draw(t, "last"), Daily: rapid.IntRange(0, 8).Draw(t, "daily"), Weekly: rapid.IntRange(0, 5).Draw(t, "weekly"), Monthly: rapid.IntRange(0, 7).Draw(t, "monthly")}
		n := rapid.IntRange(0, 80).Draw(t, "n")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var list []Entry
		for range n {
			list = append(list, Entry{Made: time.Unix(1_700_000_000+random.Int64N(400*24*3600), 0).UTC()})
		}
		slices.SortFunc(list, func(a, b Entry) int { return b.Made.Compare(a.Made) })
		old := r.Outdated(list, time.UTC)
		kept := slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return slices.Contains(old, e) })
		if n > 0 && (len(kept) == 0 || kept[0] != list[0]) {
			t.Fatal("the newest one is removed")
		}
		if most := r.Last + r.Daily + r.Weekly + r.Monthly; len(kept) > most {
			t.Errorf("%d are kept, at most %d are wanted", len(kept), most)
		}
		if len(kept) < min(n, r.Last) {
			t.Errorf("%d are kept of %d, although the last %d are wanted", len(kept), n, r.Last)
		}
		months := func(list []Entry) (all []string) {
			for _, e := range list {
				all = append(all, e.Made.Format("2006-01"))
			}
			return slices.Compact(all)
		}
		if want := months(list); !slices.Equal(months(kept)[:min(len(months(kept)), r.Monthly, len(want))], want[:min(len(want), r.Monthly)]) {
			t.Errorf("of the months %q these are kept: %q", want, months(kept))
		}
		if again := r.Outdated(kept, time.UTC); len(again) > 0 {
			t.Errorf("%d of those that are kept are removed the next time", len(again))
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	at := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	for i := range 6 {
		for _, kind := range []Kind{Manual, Job, Upgrade} {
			must1(Make(t.Context(), Options{Data: data, Folder: folder, Kind: kind, NoCheck: true, Now: func() time.Time { return at.AddDate(0, 0, i) }}))
		}
	}
	for _, c := range []struct {
		kind Kind
		r    Retention
		want map[Kind]int
	}{
		{Upgrade, Retention{Last: 2}, map[Kind]int{Manual: 6, Job: 6, Upgrade: 2}},
		{Job, Retention{Last: 1, Daily: 3}, map[Kind]int{Manual: 6, Job: 3, Upgrade: 2}},
	} {
		removed, err := Prune(folder, c.kind, c.r, time.UTC, nil)
		count := map[Kind]int{}
		for _, e := range must1(List(folder)) {
			count[e.Kind]++
		}
		if err != nil || !maps.Equal(count, c.want) {
			t.Errorf("of the kind %q %d are removed, and kept are %v, %v", c.kind, len(removed), count, err)
		}
	}
	// While a backup is being made in the folder, none is removed.
	release := must1(hold(folder))
	_, err := Prune(folder, Job, Retention{}, time.UTC, nil)
	wantCode(t, err, "backup_running")
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// A database that is put back is the new one until it is the old one, wherever that fails.
func TestPutBack(t *testing.T) {
	t.Parallel()
	base, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, base, "ada")
	older := must1(logState(base))
	made := must1(Make(t.Context(), Options{Data: base, Folder: folder, NoCheck: true}))
	st := must1(sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(base, database)}))
	if err := commitOne(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	newer := must1(logState(base))
	step, count := failing(0, nil)
	if err := PutBack(made.Path, clone(t, base), step); err != nil {
		t.Fatal(err)
	}
	var places []int
	for n := range *count {
		places = append(places, n+1)
	}
	for _, n := range some(places) {
		data := clone(t, base)
		step, _ := failing(n, os.ErrPermission)
		if err := PutBack(made.Path, data, step); err == nil {
			t.Fatalf("step %d does not fail", n)
		}
		if got := must1(logState(data)); got != newer {
			t.Errorf("after step %d the database is neither", n)
		}
		if err := PutBack(made.Path, data, nil); err != nil {
			t.Fatal(err)
		}
		if got := must1(logState(data)); got != older {
			t.Errorf("put back after step %d, the database is not the old one", n)
		}
	}
}
