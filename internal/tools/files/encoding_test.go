package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/test/localtest"
	"steward/test/must"
)

const umlauts = "Grüße aus Köln\r\nzweite Zeile\r\n"

// written returns a text in each form that is recognised.
func written(text string) map[string]string {
	out := map[string]string{"utf8.txt": text, "latin.txt": must.Get(windowsForm.encode(text))}
	for _, f := range markedForms {
		out[f.name+".txt"] = must.Get(f.encode(text))
	}
	for _, f := range utf16Forms {
		f.bom = ""
		out[f.name+"-unmarked.txt"] = must.Get(f.encode(text))
	}
	return out
}

// A text is found, read and changed in whatever form it is written, and keeps that form and its line ends.
func TestTextsOfEveryForm(t *testing.T) {
	dir, r := sandbox(t)
	after := written("Grüße aus Köln\r\nneue Zeile\r\nund Ölung\r\n")
	for name, data := range written(umlauts) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
		if got, err := localtest.Call(t, r, "files.search", `{"query":"größe köln","path":"notes/`+name+`"}`); err != nil || !strings.HasPrefix(got, "No line of 1 files matches.") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := localtest.Call(t, r, "files.search", `{"query":"grüße köln","path":"notes/`+name+`"}`); err != nil || got != "notes/"+name+":1: Grüße aus Köln\n" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := localtest.Call(t, r, "files.read", `{"path":"notes/`+name+`"}`); err != nil || !strings.HasPrefix(got, "Grüße aus Köln\nzweite Zeile\n") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := localtest.Call(t, r, "files.edit", `{"path":"notes/`+name+`","old":"Köln\nzweite Zeile\n","new":"Köln\nneue Zeile\nund Ölung\n"}`); err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got := string(must.Get(os.ReadFile(filepath.Join(dir, name)))); got != after[name] {
			t.Errorf("%s: %q, want %q", name, got, after[name])
		}
	}
	before := must.Get(os.ReadFile(filepath.Join(dir, "latin.txt")))
	if _, err := localtest.Call(t, r, "files.edit", `{"path":"notes/latin.txt","old":"neue","new":"☃"}`); err == nil || !strings.Contains(err.Error(), "Windows-1252") {
		t.Error(err)
	}
	if got := must.Get(os.ReadFile(filepath.Join(dir, "latin.txt"))); string(got) != string(before) {
		t.Errorf("a refused edit has changed the file: %q", got)
	}
	if got, err := localtest.Call(t, r, "files.write", `{"path":"notes/latin.txt","content":"☃\n","overwrite":true}`); err != nil || !strings.Contains(got, "It was Windows-1252, and is UTF-8 now.") {
		t.Errorf("%q, %v", got, err)
	}
}

// Binary files are no texts, whatever their first bytes are.
func TestBinaryFilesAreNoText(t *testing.T) {
	for _, b := range []string{"\xff\xfe\x00\xd8a", "a\x00b\x00\x00c", "\x7fELF\x01\x02\x90", "\x01\x00\x02\x00", "\x8a\x9f\xe3\xc4\xd0\xc7", "ab\x07c\xe4", "\xff\xfea", "\xef\xbb\xbf\xff", "\x00\x00\x00\x00"} {
		if f, ok := formOf([]byte(b), false); ok {
			t.Errorf("%q is taken for %s", b, f.name)
		}
	}
}

// What a search passes over is counted.
func TestASearchCountsWhatItPassesOver(t *testing.T) {
	dir, r := sandbox(t)
	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.MkdirAll(filepath.Join(dir, ".git"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("needle\n"), 0o600))
	for _, name := range []string{"b.bin", "c.bin"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("needle\x00\x01"), 0o600))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "large.txt"), make([]byte, maxSearchFile+1), 0o600))
	const not = "[Not searched: 2 files that are not text, 1 file with more than 8 MB, 1 that is hidden or named in .gitignore.]"
	if got, err := localtest.Call(t, r, "files.search", `{"query":"needle","path":"notes"}`); err != nil || got != "notes/a.txt:1: needle\n"+not+"\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := localtest.Call(t, r, "files.search", `{"query":"nothing","path":"notes"}`); err != nil || got != "No line of 1 files matches.\n"+not {
		t.Errorf("%q, %v", got, err)
	}
}

// An edit finds a text with any line ends, writes those of the file, and leaves the rest as it is.
func TestEditsKeepLineEnds(t *testing.T) {
	for _, c := range []struct {
		text, old, now, want string
		n                    int
	}{
		{"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n", 1},
		{"a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n", 1},
		{"a\r\nb\r\nc\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\n", 1},
		{"a\rb\rc", "a\nb", "x\ny", "x\ry\rc", 1},
		{"a\r\na\r\n", "a\n", "b\n", "b\r\nb\r\n", 2},
		{"a\r\nb", "\n", " ", "a b", 1},
		{"a\r\r\nb", "\nb", "\nc", "a\r\r\nc", 1},
		{"a\r\nb\r\n", "c", "d", "a\r\nb\r\n", 0},
		{"progress\rdone\n", "done\n", "over\n", "progress\rover\n", 1},
	} {
		if got, n := replaceText(c.text, c.old, c.now); got != c.want || n != c.n {
			t.Errorf("%q: %q became %q, %d times", c.text, c.old, got, n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ab\n]){0,30}`).Draw(t, "text")
		old := rapid.StringMatching(`[ab\n]{1,3}`).Draw(t, "old")
		now := rapid.StringMatching(`[abc\n]{0,4}`).Draw(t, "new")
		want := strings.ReplaceAll(text, old, now)
		if got, n := replaceText(text, old, now); got != want || n != strings.Count(text, old) {
			t.Fatalf("%q, %d", got, n)
		}
		if !strings.Contains(text, "\n") {
			return
		}
		crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
		if got, _ := replaceText(crlf(text), old, now); got != crlf(want) {
			t.Fatalf("with CRLF: %q", got)
		}
	})
}
