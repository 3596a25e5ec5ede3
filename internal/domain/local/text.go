package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/search/words"
)

// Bounds of a folder of texts.
const (
	maxTexts    = 2000    // files
	maxText     = 1 << 20 // bytes that are read of one file
	snippetText = 300     // bytes of a paragraph that are shown
)

// Text is a file of a folder.
type Text struct {
	Name     string // its path in the folder, with slashes
	Title    string // the first heading, or else the first line, or else the name
	Body     string
	Modified time.Time
	Cut      bool // Body is only the beginning

	size  int64
	terms map[string]int // how often each word is there
	stems map[string]int // how often each stem is
	words int
}

// Texts are the text files of a folder and its subfolders. Symbolic links that lead out of the folder are
// not followed. It is safe for concurrent use.
type Texts struct {
	dir  string
	mu   sync.Mutex
	seen map[string]*Text
}

// NewTexts returns the texts of a folder, which need not exist yet.
func NewTexts(dir string) *Texts { return &Texts{dir: dir, seen: map[string]*Text{}} }

var textEndings = []string{".md", ".markdown", ".txt", ".text", ".rst", ".org", ".adoc"}

// All returns the texts, sorted by name. Files that cannot be read are reported in problems. A file that
// has not changed is not read again.
func (t *Texts) All(ctx context.Context) (texts []*Text, problems []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	root, err := os.OpenRoot(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, Fault(t.dir, err)
	}
	defer root.Close()
	now := map[string]*Text{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, walkErr error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case walkErr != nil:
			problems = append(problems, Fault(name, walkErr).Error())
			return nil
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !slices.Contains(textEndings, strings.ToLower(path.Ext(name))):
			return nil
		case len(texts) == maxTexts:
			problems = append(problems, "there are more files than are read")
			return fs.SkipAll
		}
		text, err := t.read(root, name)
		if err != nil {
			problems = append(problems, Fault(name, err).Error())
			return nil
		}
		now[name] = text
		texts = append(texts, text)
		return nil
	})
	if err != nil {
		return nil, problems, err
	}
	t.seen = now
	return texts, problems, nil
}

func (t *Texts) read(root *os.Root, name string) (*Text, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotPlain
	}
	if old := t.seen[name]; old != nil && old.size == info.Size() && old.Modified.Equal(info.ModTime()) {
		return old, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return nil, err
	}
	text := NewText(name, string(b))
	text.Modified, text.size, text.Cut = info.ModTime(), info.Size(), info.Size() > maxText
	return text, nil
}

// NewText returns a text with a file's content. Invalid UTF-8 is replaced.
func NewText(name, content string) *Text {
	content = strings.TrimPrefix(strings.ReplaceAll(content, "\r\n", "\n"), "\ufeff")
	t := &Text{Name: name, Body: strings.ToValidUTF8(content, "�"), terms: map[string]int{}}
	t.Title, t.stems = title(name, t.Body), stems(t.Body)
	for tok := range search.Tokens(t.Body) {
		t.terms[tok.Text]++
		t.words++
	}
	return t
}

// stems counts the words of a text by their stems.
func stems(text string) map[string]int {
	out := map[string]int{}
	for tok := range search.Tokens(text) {
		out[words.Stem(tok.Text)]++
	}
	return out
}

func title(name, body string) string {
	first := ""
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "# "); ok {
			return Clip(strings.TrimSpace(strings.TrimRight(h, "# ")), 120)
		}
		if first == "" {
			first = line
		}
	}
	if first != "" && len(first) <= 120 {
		return strings.TrimSpace(strings.TrimLeft(first, "#=*- "))
	}
	return strings.TrimSuffix(path.Base(name), path.Ext(name))
}

// Terms returns how often each word is in the text, folded as search does.
func (t *Text) Terms() map[string]int { return t.terms }

// Words returns how many words the text has.
func (t *Text) Words() int { return t.words }

// Find returns the text with a path, file name or title, or the only text whose name or title has the
// words. Error codes: document_not_found, document_ambiguous.
func Find(texts []*Text, name string) (*Text, error) {
	want := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "./")))
	var partly []*Text
	for _, t := range texts {
		file := strings.ToLower(t.Name)
		base := path.Base(file)
		if file == want || base == want || strings.TrimSuffix(base, path.Ext(base)) == want || strings.ToLower(t.Title) == want {
			return t, nil
		}
		if want != "" && (strings.Contains(file, want) || strings.Contains(strings.ToLower(t.Title), want)) {
			partly = append(partly, t)
		}
	}
	if len(partly) == 0 {
		partly = saying(texts, want)
	}
	switch len(partly) {
	case 0:
		return nil, fault.New(fault.NotFound, "document_not_found", "there is no document %.100q", name).WithHint("the documents are: %s", Names(texts, 20))
	case 1:
		return partly[0], nil
	}
	return nil, fault.New(fault.Conflict, "document_ambiguous", "%.100q may be one of several documents", name).WithHint("say which: %s", Names(partly, 20))
}

// saying returns the texts whose name or title has all the words, or words with the same stems.
func saying(texts []*Text, want string) []*Text {
	asked := stems(want)
	maps.DeleteFunc(asked, func(stem string, _ int) bool {
		return slices.Contains([]string{"the", "document", "file", "fil", "text", "a"}, stem)
	})
	var out []*Text
	for _, t := range texts {
		own := stems(t.Title + " " + t.Name)
		missing := 0
		for stem := range asked {
			if own[stem] == 0 {
				missing++
			}
		}
		if len(asked) > 0 && missing == 0 {
			out = append(out, t)
		}
	}
	return out
}

// Names lists the names of at most n texts.
func Names(texts []*Text, n int) string {
	var names []string
	for i, t := range texts {
		if i == n {
			names = append(names, "…")
			break
		}
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// Hit is a text that a search found.
type Hit struct {
	*Text
	Score   float64
	Snippet string // the paragraph that matches best
}

// Search ranks the texts by the words of a query (Okapi BM25, Robertson and Zaragoza 2009, with k1 = 1.2
// and b = 0.75). It returns at most limit texts, best first. Words with the same stem are equal.
func Search(texts []*Text, query string, limit int) []Hit {
	weights := weigh(texts, query)
	mean := 0.0
	for _, t := range texts {
		mean += float64(t.words) / float64(len(texts))
	}
	var out []Hit
	for _, t := range texts {
		score, titled := 0.0, stems(t.Title)
		for _, w := range weights {
			n := float64(t.stems[w.stem])
			if titled[w.stem] > 0 {
				n += 3 // words of the title count more
			}
			score += w.rarity * n * 2.2 / (n + 1.2*(0.25+0.75*float64(t.words)/max(mean, 1)))
		}
		if score > 0 {
			out = append(out, Hit{Text: t, Score: score, Snippet: snippet(t.Body, weights)})
		}
	}
	slices.SortStableFunc(out, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return out[:min(len(out), limit)]
}

type weighed struct {
	stem   string
	rarity float64
}

// weigh returns the stems of the query's words that occur in the texts, and how rare they are.
func weigh(texts []*Text, query string) []weighed {
	var out []weighed
	seen := map[string]bool{}
	for q := range search.Tokens(query) {
		stem := words.Stem(q.Text)
		if seen[stem] || words.Common(q.Text) {
			continue
		}
		seen[stem] = true
		with := 0
		for _, t := range texts {
			if t.stems[stem] > 0 {
				with++
			}
		}
		if with > 0 {
			out = append(out, weighed{stem, math.Log(1 + (float64(len(texts)-with)+0.5)/(float64(with)+0.5))})
		}
	}
	return out
}

// snippet returns the paragraph that matches best, clipped.
func snippet(body string, weights []weighed) string {
	best, bestScore := "", -1.0
	for p := range strings.SplitSeq(body, "\n\n") {
		p = strings.Join(strings.Fields(p), " ")
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		score, own := 0.0, stems(p)
		for _, w := range weights {
			if own[w.stem] > 0 {
				score += w.rarity
			}
		}
		if score > bestScore {
			best, bestScore = p, score
		}
	}
	return Clip(best, snippetText)
}

// Clip cuts a text to about n bytes at the end of a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n]) + "…"
}

const pageText = 16 << 10 // bytes of a page

// Page returns a part of the text from a byte on, which ends at the end of a line if possible, and where
// the rest begins, or 0 if there is none.
func (t *Text) Page(from int) (part string, next int) {
	from = min(max(from, 0), len(t.Body))
	for from > 0 && from < len(t.Body) && !utf8.RuneStart(t.Body[from]) {
		from--
	}
	rest := t.Body[from:]
	if len(rest) <= pageText {
		return rest, 0
	}
	end := pageText
	for !utf8.RuneStart(rest[end]) {
		end--
	}
	if i := strings.LastIndexByte(rest[:end], '\n'); i > pageText/2 {
		end = i + 1
	}
	return rest[:end], from + end
}
