package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
)

var png = []byte("\x89PNG\r\n\x1a\nrest")

func TestAttachment(t *testing.T) {
	for name, tt := range map[string]struct{ data, kind, mime string }{
		"a.jpg":     {string(png), "image", "image/png"}, // the content decides
		"a.pdf":     {"%PDF-1.4", "file", "application/pdf"},
		"a.docx":    {"PK\x03\x04...", "file", message.DOCX},
		"a.mp3":     {"ID3\x03\x00\x00", "file", "audio/mpeg"},
		"a.md":      {"# hello", "file", "text/markdown"},
		"a.go":      {"package a", "file", "text/plain"},
		"fake.docx": {"only text", "file", "text/plain"},
	} {
		b, err := Attachment(name, []byte(tt.data))
		if err != nil || b.Type != tt.kind || b.MIME != tt.mime || string(b.Data) != tt.data {
			t.Errorf("%s: %v %s %s", name, err, b.Type, b.MIME)
		}
	}
	for name, data := range map[string]string{"a.zip": "PK\x03\x04\x00", "a.txt": "\xff\xfe\x00", "a.bin": "\x00\x01"} {
		if _, err := Attachment(name, []byte(data)); !fault.HasCode(err, "input_invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMentions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", filepath.Join(dir, "home"))
	put(t, "photo.png", png)
	put(t, "two words.txt", []byte("words"))
	put(t, "home/n.md", []byte("notes"))
	for text, want := range map[string]int{
		"look at @photo.png":                            1,
		"@photo.png, and (again) @photo.png.":           1,
		`@"two words.txt" and @~/n.md and @./photo.png`: 3,
		"ask @ann or mail ann@example.com":              0, // no paths
		"the folder @home":                              0,
		"nothing":                                       0,
	} {
		if got, err := mentioned(text, nil); err != nil || len(got) != want {
			t.Errorf("%q: %v %d", text, err, len(got))
		}
	}
	put(t, "large.txt", make([]byte, maxAttachedBytes+1))
	for text, code := range map[string]string{"@/no/such.png": "file_unreadable", `@"no such"`: "file_unreadable", "@large.txt": "file_unreadable", "@/dev/zero": "file_unreadable"} {
		if _, err := mentioned(text, nil); !fault.HasCode(err, code) || fault.Of(err).Remedy == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	var many strings.Builder
	for i := range maxAttached + 1 {
		name := "f" + strings.Repeat("x", i)
		put(t, name, []byte("x"))
		many.WriteString("@" + name + " ")
	}
	if _, err := mentioned(many.String(), nil); !fault.HasCode(err, "too_much_attached") {
		t.Error(err)
	}
}

func TestPathsAreCompleted(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"photo.png", "paper.pdf", "my files/a.txt", ".hidden", "größe.txt", "gründe.txt"} {
		put(t, name, []byte("x"))
	}
	for text, want := range map[string][]string{
		"see @p":           {"see @paper.pdf", "see @photo.png"},
		"@my":              {`@"my files/`},
		`@"my files/`:      {`@"my files/a.txt"`},
		"@.h":              {"@.hidden"},
		"@photo.png and":   nil,
		"me@p":             nil,
		"@none/x":          nil,
		"@photo.png/":      nil,
		"no mention at al": nil,
	} {
		if got := pathCompletions(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := common(pathCompletions("@gr")); got != "@gr" { // ö and ü share their first byte
		t.Errorf("%q", got)
	}
}

func TestPastedFiles(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "a b.png")
	put(t, image, png)
	put(t, filepath.Join(dir, "a.txt"), []byte("x"))
	for _, text := range []string{image, "'" + image + "'", " " + image + "\n", strings.ReplaceAll(image, " ", `\ `), "file://" + strings.ReplaceAll(image, " ", "%20")} {
		if got, ok := pastedFile(text); !ok || got != image || mention(got) != `@"`+image+`"` {
			t.Errorf("%q: %q %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "a b.png", filepath.Join(dir, "none.png"), filepath.Join(dir, "a.txt"), image + "\n" + image, "'", dir} {
		if got, ok := pastedFile(text); ok {
			t.Errorf("%q: %q", text, got)
		}
	}
}
