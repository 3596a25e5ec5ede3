package id_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/id"
	_ "steward/test/seed"
)

func TestNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := id.New()
		if u[6]>>4 != 7 || u[8]>>6 != 2 {
			t.Errorf("%s is no UUID of version 7", u)
		}
		ms := int64(0)
		for _, b := range u[:6] {
			ms = ms<<8 | int64(b)
		}
		if ms != time.Now().UnixMilli() {
			t.Errorf("the time in %s is %d, want %d", u, ms, time.Now().UnixMilli())
		}
		first := u.String()
		time.Sleep(time.Millisecond)
		if later := id.New().String(); later <= first {
			t.Errorf("%s is not after %s", later, first)
		}
	})
}

func TestNewIsUniqueAcrossGoroutines(t *testing.T) {
	var mu sync.Mutex
	seen := map[id.ID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				u := id.New()
				mu.Lock()
				if seen[u] {
					t.Errorf("%s came twice", u)
				}
				seen[u] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestDerive(t *testing.T) {
	u := id.Derive("a", "b")
	if u[6]>>4 != 8 || u[8]>>6 != 2 {
		t.Errorf("%s is no UUID of version 8", u)
	}
	// The ids are in people's databases: they must never change.
	if got := u.String(); got != "3c9d5910-45bc-8876-b9d0-399bbfb05c6a" {
		t.Errorf("Derive(a, b) = %s", got)
	}
	if !u.Derived() || id.New().Derived() || (id.ID{}).Derived() {
		t.Error("Derived")
	}
	distinct := [][]string{{}, {""}, {"", ""}, {"a"}, {"a", "b"}, {"ab"}, {"", "ab"}, {"ab", ""}, {"b", "a"}}
	seen := map[id.ID][]string{}
	for _, parts := range distinct {
		u := id.Derive(parts...)
		if other, ok := seen[u]; ok {
			t.Errorf("%q and %q give the same id", parts, other)
		}
		seen[u] = parts
	}
}

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u id.ID
		copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		s := string(u.AppendText([]byte("x")))[1:]
		if got, ok := id.Parse(s); !ok || got != u {
			t.Fatalf("%s is read as %s, %v", s, got, ok)
		}
		if want := s; !u.Zero() && u.String() != want {
			t.Fatalf("String = %s, want %s", u, want)
		}
	})
	if (id.ID{}).String() != "" || !(id.ID{}).Zero() || id.New().Zero() {
		t.Error("the zero id")
	}
}

func TestParseRefuses(t *testing.T) {
	good := "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d"
	if _, ok := id.Parse(good); !ok {
		t.Fatalf("%s is refused", good)
	}
	for _, s := range []string{
		"", "x", good[1:], good + "0", strings.ToUpper(good), "{" + good + "}", "urn:uuid:" + good, strings.ReplaceAll(good, "-", ""),
		strings.ReplaceAll(good, "-", "_"), "g" + good[1:], good[:35] + "G", "0198c9a27-f3e-7b11-8c7e-5a3f1d2b4c6d", good[:35] + "\xff", " " + good[1:],
	} {
		if u, ok := id.Parse(s); ok || !u.Zero() {
			t.Errorf("Parse(%q) = %s, %v", s, u, ok)
		}
	}
}

// FuzzParse: an id has one spelling only.
func FuzzParse(f *testing.F) {
	f.Add("0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d")
	f.Add("00000000-0000-0000-0000-000000000000")
	f.Add("0198C9A2-7F3E-7B11-8C7E-5A3F1D2B4C6D")
	f.Fuzz(func(t *testing.T, s string) {
		if u, ok := id.Parse(s); ok && string(u.AppendText(nil)) != s {
			t.Fatalf("%q is another spelling of %s", s, u)
		}
	})
}

func TestJSON(t *testing.T) {
	type record struct {
		ID   id.ID `json:"id,omitzero"`
		More []id.ID
	}
	in := record{ID: id.New(), More: []id.ID{id.New(), {}}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":"` + in.ID.String() + `","More":["` + in.More[0].String() + `",""]}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	var out record
	if err := json.Unmarshal(b, &out); err != nil || out.ID != in.ID || out.More[0] != in.More[0] || !out.More[1].Zero() {
		t.Errorf("read back as %v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"id":"x"}`), &out); err == nil {
		t.Error("an id that is none was read")
	}
}
