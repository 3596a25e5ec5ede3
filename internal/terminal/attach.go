package terminal

import (
	"bytes"
	"cmp"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/strict"
)

// Bounds of what a message of the chat attaches.
const (
	maxAttached      = 20
	maxAttachedBytes = 10 << 20 // of one file
)

// Attachment makes a block from a file. The content determines its type, and for recordings and
// Word files the name.
func Attachment(name string, b []byte) (client.Block, error) {
	kind, _, _ := strings.Cut(http.DetectContentType(b), ";")
	named := message.MediaType(name, "text/plain")
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return client.Block{Type: "image", MIME: kind, Data: b}, nil
	case "application/pdf":
		return client.Block{Type: "file", MIME: kind, Name: name, Data: b}, nil
	}
	if strings.HasPrefix(named, "audio/") || named == message.DOCX && bytes.HasPrefix(b, []byte("PK")) {
		return client.Block{Type: "file", MIME: named, Name: name, Data: b}, nil
	}
	if !utf8.Valid(b) || slices.Contains(b, 0) {
		return client.Block{}, fault.New(fault.Invalid, "input_invalid", "%s is not UTF-8 text, an image (PNG, JPEG, GIF, WebP), a recording (WAV, MP3, M4A, OGG, FLAC), a PDF or a Word file (DOCX)", name).
			WithHint("convert it to one of these")
	}
	if !strings.HasPrefix(named, "text/") && named != "application/json" {
		named = "text/plain"
	}
	return client.Block{Type: "file", MIME: named, Name: name, Data: b}, nil
}

// mentions is a path in a message: @notes.txt, or @"two words.pdf".
var mentions = regexp.MustCompile(`(?:^|\s)@(?:"([^"\n]+)"|(\S+))`)

// mentioned reads the files that a message mentions. What is not a file and does not look like a path
// is ordinary text. What is Steward's own, as private tells, is refused; private may be nil.
func mentioned(text string, private func(path string) bool) (files []client.Block, err error) {
	var seen []string
	for _, found := range mentions.FindAllStringSubmatch(text, -1) {
		name := found[1] + found[2]
		path := expanded(name)
		info, err := os.Stat(path)
		if err != nil && found[2] != "" { // the end of a sentence
			name = strings.TrimRight(name, ".,;:!?)")
			path = expanded(name)
			info, err = os.Stat(path)
		}
		switch {
		case slices.Contains(seen, path):
			continue
		case err != nil && !strings.Contains(name, "/") && found[1] == "":
			continue
		case err == nil && info.IsDir():
			continue
		}
		if seen = append(seen, path); len(seen) > maxAttached {
			return nil, fault.New(fault.TooLarge, "too_much_attached", "a message attaches at most %d files", maxAttached).WithHint("send several messages")
		}
		if private != nil && private(path) {
			return nil, Private(name)
		}
		b, err := strict.ReadFile(path, maxAttachedBytes)
		if err != nil {
			return nil, fault.New(fault.Invalid, "file_unreadable", "%s cannot be attached: %w", name, err).
				WithHint("correct the path, or move the @ if it is meant as text")
		}
		x, err := Attachment(filepath.Base(path), b)
		if err != nil {
			return nil, err
		}
		files = append(files, x)
	}
	return files, nil
}

// Private returns the error for a file of Steward's own data or settings that was to be attached.
func Private(name string) error {
	return fault.New(fault.Denied, "file_private", "%s cannot be attached: it contains Steward's own data or settings, which a model must not see", name).
		WithHint("copy the part that you want to send to another file")
}

// mention writes a path so that mentioned finds it.
func mention(path string) string {
	if strings.ContainsAny(path, " \t") {
		return `@"` + path + `"`
	}
	return "@" + path
}

// expanded replaces ~ by the home folder.
func expanded(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// pastedFile reports whether a pasted text is nothing but the path of an image, a recording or a
// document, as terminals paste a file that is dropped on them.
func pastedFile(text string) (string, bool) {
	path := strings.TrimSpace(text)
	if u, err := url.Parse(path); err == nil && u.Scheme == "file" {
		path = u.Path
	}
	if q := strings.Trim(path, `'"`); len(q) == len(path)-2 {
		path = q
	} else {
		path = strings.ReplaceAll(path, `\ `, " ")
	}
	full := expanded(path)
	if strings.ContainsAny(path, "\n\"") || !filepath.IsAbs(full) {
		return "", false
	}
	kind := message.MediaType(full, "")
	if kind == "" || strings.HasPrefix(kind, "text/") || kind == "application/json" {
		return "", false
	}
	info, err := os.Stat(full)
	return path, err == nil && info.Mode().IsRegular()
}

// maxPaths is how many files a completion considers.
const maxPaths = 2000

// pathCompletions completes the path at the end of a message.
func pathCompletions(text string) (out []string) {
	i := strings.LastIndex(text, "@")
	if i < 0 || i > 0 && !strings.ContainsAny(text[i-1:i], " \n\t") {
		return nil
	}
	begun := text[i+1:]
	begun, quoted := strings.CutPrefix(begun, `"`)
	if !quoted && strings.ContainsAny(begun, " \n\t") {
		return nil
	}
	dir, base := filepath.Split(begun)
	d, err := os.Open(cmp.Or(expanded(dir), "."))
	if err != nil {
		return nil
	}
	defer d.Close() // only read from
	entries, err := d.ReadDir(maxPaths)
	if err != nil {
		return nil // it is not a folder, or empty
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") {
			continue
		}
		whole := mention(dir + name)
		if e.IsDir() {
			whole = strings.TrimSuffix(whole, `"`) + "/"
		}
		out = append(out, text[:i]+whole)
	}
	slices.Sort(out)
	return out
}
