package secret

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"env:NAME": true, "file:/a": true, "file:~/a": true, "command:pass show x": true, "store:x": true,
		"": false, "env:": false, "env: ": false, "sk-1234": false, "https://x": false, "file://x": false, "Env:X": false, "other:x": false,
	} {
		if IsReference(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	st := NewStore(filepath.Join(dir, "secrets"))
	if err := st.Set("own", "stored value"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "key"), "from a file\r\n", 0o600)
	var m Masker
	r := &Resolver{Store: st, Dir: dir, Masker: &m, Timeout: 5 * time.Second,
		Getenv: func(n string) string {
			return map[string]string{"TOKEN": " from the environment ", "HOME": dir, "SHORT": "abc"}[n]
		}}
	for _, c := range []struct{ ref, want, code string }{
		{"env:TOKEN", "from the environment", ""},
		{"env:NONE", "", "secret_missing"},
		{"env:SHORT", "", "secret_short"},
		{"file:key", "from a file", ""},
		{"file:~/key", "from a file", ""},
		{"file:" + dir + "/key", "from a file", ""},
		{"file:none", "", "secret_missing"},
		{"file:" + dir, "", "secret_missing"},
		{"file:" + write(t, dir+"/open", "everybody reads", 0o604), "", "secret_exposed"},
		{"file:" + write(t, dir+"/group", "everybody reads", 0o640), "", "secret_exposed"},
		{"file:" + write(t, dir+"/writable", "everybody writes", 0o602), "", "secret_exposed"},
		{"file:" + write(t, dir+"/binary", "a\x00bcdefgh", 0o600), "", "secret_invalid"},
		{"file:" + write(t, dir+"/bytes", "\xff\xfeabcdefgh", 0o600), "", "secret_invalid"},
		{"file:" + write(t, dir+"/blank", "         a   ", 0o600), "", "secret_invalid"},
		{"file:" + write(t, dir+"/huge", strings.Repeat("x", MaxLength+1), 0o600), "", "secret_invalid"},
		{"store:own", "stored value", ""},
		{"store:none", "", "secret_missing"},
		{"store:../key", "", "secret_name_invalid"},
		{"command:printf '%s\\n' 'a b' \"$HOME;c\"", "a b\n$HOME;c", ""},
		{"command:printf a\\ bcdef", "a bcdef", ""},
		{"command:false", "", "secret_command_failed"},
		{"command:/nowhere/x", "", "secret_command_failed"},
		{"command:head -c 100000 /dev/zero", "", "secret_command_failed"},
		{"command:printf 'x", "", "secret_ref_invalid"},
		{"command:''", "", "secret_ref_invalid"},
		{"plain", "", "secret_ref_invalid"},
	} {
		got, err := r.Resolve(t.Context(), c.ref)
		switch {
		case c.code == "" && (err != nil || got != c.want):
			t.Errorf("%s gives %q, %v", c.ref, got, err)
		case c.code != "" && (!fault.HasCode(err, c.code) || got != "" || fault.Of(err).Remedy == ""):
			t.Errorf("%s gives %q, %v; want %s", c.ref, got, err, c.code)
		case c.code != "" && strings.Contains(err.Error(), "everybody"):
			t.Errorf("%s tells the secret: %v", c.ref, err)
		case c.code == "" && strings.Contains(m.Mask("is "+c.want+" it"), c.want):
			t.Errorf("%s is not masked after it was used", c.ref)
		}
	}
	if got := m.Mask("from a file, a b\n$HOME;c"); got != "«secret:key», «secret:printf»" {
		t.Errorf("called %q", got)
	}
	if _, err := (&Resolver{}).Resolve(t.Context(), "store:x"); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
	if _, err := (&Resolver{}).Resolve(t.Context(), "env:x"); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
}

func TestCommandTimesOut(t *testing.T) {
	r := &Resolver{Timeout: 50 * time.Millisecond}
	if _, err := r.Resolve(t.Context(), "command:sleep 60"); !fault.HasCode(err, "secret_command_failed") || !strings.Contains(err.Error(), "50ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(ctx, "command:sleep 60"); !fault.HasCode(err, "secret_command_failed") {
		t.Error(err)
	}
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "secrets")
	s := NewStore(dir)
	if list, err := s.List(); err != nil || list != nil {
		t.Fatalf("%v, %v", list, err)
	}
	for _, name := range []string{"b", "A_KEY", "b"} {
		if err := s.Set(name, "value of "+name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, ".new-77"), "broken off", 0o600) // left by a crash
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].Name != "A_KEY" || list[1].Name != "b" || list[0].Changed.IsZero() {
		t.Fatalf("%v, %v", list, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "b"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	var m Masker
	write(t, filepath.Join(dir, "loose"), "a loose one", 0o644)
	if err := s.Learn(&m); !fault.HasCode(err, "secret_exposed") {
		t.Errorf("learned: %v", err)
	}
	if got := m.Mask("value of b"); got != "«secret:b»" {
		t.Error(got)
	}
	if _, err := s.Get("loose"); !fault.HasCode(err, "secret_exposed") {
		t.Error(err)
	}
	if err := s.Remove("b"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"secret_missing":      s.Remove("b"),
		"secret_short":        s.Set("x", "short"),
		"secret_name_invalid": s.Set("a/b", "long enough"),
	} {
		if !fault.HasCode(err, what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
	if err := s.Remove("../x"); !fault.HasCode(err, "secret_name_invalid") {
		t.Error(err)
	}
	if _, err := s.Get(".new-77"); !fault.HasCode(err, "secret_name_invalid") {
		t.Error(err)
	}
	file := write(t, filepath.Join(t.TempDir(), "file"), "x", 0o600)
	bad := NewStore(file)
	if err := bad.Set("a", "long enough"); !fault.HasCode(err, "secret_unwritable") {
		t.Error(err)
	}
	if _, err := bad.List(); err == nil {
		t.Error("a file is listed as a folder")
	}
	if _, err := bad.Get("a"); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
	if err := bad.Remove("a"); !fault.HasCode(err, "secret_unwritable") {
		t.Error(err)
	}
}

// split returns the words that were quoted.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringN(1, 10, 40), 1, 5).Draw(t, "words")
		var line []string
		for i, w := range words {
			if strings.ContainsRune(w, '\'') || i%2 == 0 {
				line = append(line, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w)+`"`)
			} else {
				line = append(line, "'"+w+"'")
			}
		}
		got, err := split(strings.Join(line, "  "))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q gives %q, %v", line, got, err)
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add(`pass show "my key"`)
	f.Add(`a\`)
	f.Add(`'`)
	f.Fuzz(func(t *testing.T, line string) {
		if words, err := split(line); err == nil && (len(words) == 0 || words[0] == "") {
			t.Errorf("%q gives %q", line, words)
		}
	})
}

func ExampleMasker() {
	var m Masker
	if err := m.Add("SMTP_PASSWORD", "hunter22"); err != nil {
		panic(err)
	}
	fmt.Println(m.Mask("login with hunter22 failed"))
	// Output: login with «secret:SMTP_PASSWORD» failed
}
