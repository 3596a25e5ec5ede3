package secret

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Masker hides the secrets that it knows: their values as they are, and as
// they look in JSON, URLs, quoted text, base64 (also in the midst of other
// text) and hexadecimal digits; of values of several lines, also each longer
// line. In their place it writes «secret:NAME».
//
// The zero Masker knows none, and costs next to nothing. A nil Masker hides
// nothing. Safe for concurrent use.
type Masker struct {
	mu    sync.Mutex
	known map[string]string // by value: its name
	now   atomic.Pointer[matcher]
}

// minForm is how many bytes a form of a value needs to be looked for: fewer
// would be found in other texts by chance.
const minForm = MinLength

// minLine is how long a line of a longer secret must be to be one by itself.
const minLine = 20

// Add makes a secret known (secret_short, secret_invalid). One value has one
// name, the first; values that one name had before stay known, as they may
// turn up still.
func (m *Masker) Add(name, value string) error {
	if m == nil {
		return nil
	}
	value = strings.TrimSpace(value)
	if err := Check(value); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[value]; ok {
		return nil
	}
	if m.known == nil {
		m.known = make(map[string]string)
	}
	m.known[value] = plainName(name)
	m.now.Store(newMatcher(m.known))
	return nil
}

// plainName is a name that stands in JSON and in a line as it is: that of a
// file or a program may have any characters.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '"' || r == '\\' || r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, name)
}

// Any reports whether there is something to hide.
func (m *Masker) Any() bool { return m != nil && m.now.Load() != nil }

// Mask returns the text with its secrets hidden.
func (m *Masker) Mask(text string) string {
	if !m.Any() {
		return text
	}
	out, _ := m.now.Load().mask(nil, text, true)
	if out == nil {
		return text
	}
	return string(out)
}

// MaskBytes is Mask for bytes; what has no secrets is returned as it is. JSON
// stays JSON: where a secret of digits is found in a number, by chance as in a
// time or as itself, only texts are masked. A record that cannot be read any
// more is worse than a number that can.
func (m *Masker) MaskBytes(b []byte) []byte {
	if !m.Any() {
		return b
	}
	x := m.now.Load()
	// Not copied: the text is only read, and nothing of it is kept.
	out, _ := x.mask(nil, unsafe.String(unsafe.SliceData(b), len(b)), true)
	switch {
	case out == nil:
		return b
	case !json.Valid(out) && json.Valid(b):
		return x.maskTexts(b)
	}
	return out
}

// maskTexts hides the secrets in the texts of a JSON value, and leaves all
// else as it stands.
func (x *matcher) maskTexts(b []byte) []byte {
	var out []byte
	for at := 0; ; {
		from := bytes.IndexByte(b[at:], '"')
		if from < 0 {
			return append(out, b[at:]...)
		}
		from += at
		to := from + 1
		for ; b[to] != '"'; to++ {
			if b[to] == '\\' {
				to++
			}
		}
		to++
		out = append(out, b[at:from]...)
		masked, _ := x.mask(nil, string(b[from:to]), true)
		if masked == nil {
			masked = b[from:to]
		}
		out, at = append(out, masked...), to
	}
}

// In reports whether a secret stands in what r holds. It reads r to the end,
// or to the first secret, through a buffer of a fixed size.
func (m *Masker) In(r io.Reader) (bool, error) {
	if !m.Any() {
		return false, nil
	}
	x := m.now.Load()
	buf := searched.Get().(*[]byte)
	defer searched.Put(buf)
	if len(*buf) < 2*x.most {
		*buf = make([]byte, 2*x.most)
	}
	held := 0 // bytes that may begin a secret whose rest was not read yet
	for {
		n, err := r.Read((*buf)[held:])
		b := (*buf)[:held+n]
		if x.find(unsafe.String(unsafe.SliceData(b), len(b))) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		held = copy(b, b[max(0, len(b)-x.most+1):])
	}
}

var searched = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// find reports whether a form stands anywhere in a text.
func (x *matcher) find(text string) bool {
	for i := 0; ; i++ {
		if i = x.skip(text, i, x.least); i+x.least > len(text) {
			return false
		}
		if x.at(text, i) != nil {
			return true
		}
	}
}

// Found returns the names of the secrets in a text, sorted.
func (m *Masker) Found(text string) []string {
	if !m.Any() {
		return nil
	}
	var names []string
	x := m.now.Load()
	for i := 0; i < len(text); i++ {
		if f := x.at(text, i); f != nil && !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}

// Writer returns a writer that hides secrets, also those that are cut in two
// by writes: it keeps back what may be the beginning of one, until Flush.
func (m *Masker) Writer(to io.Writer) *Writer { return &Writer{m: m, to: to} }

// Writer hides the secrets in a stream. One goroutine at a time.
type Writer struct {
	m    *Masker
	to   io.Writer
	held string
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if w.held == "" && !w.m.Any() {
		return w.to.Write(p)
	}
	if err := w.put(w.held+string(p), false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what was kept back.
func (w *Writer) Flush() error {
	if w.held == "" {
		return nil
	}
	return w.put(w.held, true)
}

func (w *Writer) put(text string, all bool) error {
	var out []byte
	used := len(text)
	if w.m.Any() {
		out, used = w.m.now.Load().mask(nil, text, all)
	}
	w.held = text[used:]
	if out == nil {
		out = []byte(text[:used])
	}
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}

// Pieces returns a function that hides the secrets in a text that comes in
// pieces, as Writer does. One goroutine at a time.
func (m *Masker) Pieces() func(piece string, last bool) string {
	var out strings.Builder
	w := m.Writer(&out)
	return func(piece string, last bool) string {
		if w.held == "" && !m.Any() {
			return piece
		}
		out.Reset()
		_ = w.put(w.held+piece, last) // a Builder has room for all
		return out.String()
	}
}

// form is one look of a secret.
type form struct {
	text, name string
}

// matcher finds all forms of all secrets. It skips what no form can begin with
// (S. Wu and U. Manber, A fast algorithm for multi-pattern searching, 1994):
// of as many bytes as the shortest form has, the last two tell how far off the
// next form is at least.
type matcher struct {
	begins [1 << 10]uint64 // a bit for each pair of bytes that a form begins with
	first  [4]uint64       // likewise for single bytes
	beyond [1 << 14]uint8  // by pairHash: how many places may be skipped
	forms  map[[2]byte][]form
	least  int // length of the shortest form, as far as beyond can tell
	most   int // and of the longest
}

// pairHash tells all pairs of ASCII characters apart.
func pairHash(a, b byte) int { return (int(a)<<7 ^ int(b)) & (1<<14 - 1) }

func newMatcher(known map[string]string) *matcher {
	x := &matcher{forms: make(map[[2]byte][]form), least: math.MaxUint8}
	for value, name := range known {
		for _, text := range looks(value) {
			if len(text) < minForm {
				continue
			}
			p := [2]byte{text[0], text[1]}
			n := int(p[0])<<8 | int(p[1])
			x.begins[n>>6] |= 1 << (n & 63)
			x.first[p[0]>>6] |= 1 << (p[0] & 63)
			x.forms[p] = append(x.forms[p], form{text, name})
			x.least, x.most = min(x.least, len(text)), max(x.most, len(text))
		}
	}
	for i := range x.beyond {
		x.beyond[i] = uint8(x.least - 1)
	}
	for _, list := range x.forms { // the longest first; the rest only so that it is always the same
		slices.SortFunc(list, func(a, b form) int {
			if len(a.text) != len(b.text) {
				return len(b.text) - len(a.text)
			}
			return strings.Compare(a.text+a.name, b.text+b.name)
		})
		for _, f := range list {
			for k := range x.least - 1 {
				n := &x.beyond[pairHash(f.text[k], f.text[k+1])]
				*n = min(*n, uint8(x.least-2-k))
			}
		}
	}
	return x
}

// skip returns a place from i on before which no form begins, though none may
// begin there either. It looks no further than where a form of need bytes has
// room.
func (x *matcher) skip(text string, i, need int) int {
	for i+need <= len(text) {
		n := x.beyond[pairHash(text[i+x.least-2], text[i+x.least-1])]
		if n == 0 {
			break
		}
		i += int(n)
	}
	return i
}

// at returns the longest form that stands at a place; nil: none does.
func (x *matcher) at(text string, i int) *form {
	if i+1 >= len(text) {
		return nil
	}
	n := int(text[i])<<8 | int(text[i+1])
	if x.begins[n>>6]>>(n&63)&1 == 0 {
		return nil
	}
	list := x.forms[[2]byte{text[i], text[i+1]}]
	for k := range list {
		if strings.HasPrefix(text[i:], list[k].text) {
			return &list[k]
		}
	}
	return nil
}

// opens reports whether a form may begin at a place and go on behind the end.
func (x *matcher) opens(text string, i int) bool {
	if len(text)-i >= x.most || x.first[text[i]>>6]>>(text[i]&63)&1 == 0 {
		return false
	}
	rest := text[i:]
	for p, list := range x.forms {
		if p[0] != rest[0] {
			continue
		}
		for _, f := range list {
			if len(f.text) > len(rest) && strings.HasPrefix(f.text, rest) {
				return true
			}
		}
	}
	return false
}

// mask appends the text to out, with its secrets hidden, and returns how much
// of it was used up: all of it, or what stands before the beginning of
// something that may be a secret. out is nil if nothing was hidden. Where
// secrets overlap, all of them is hidden, under the first one's name.
func (x *matcher) mask(out []byte, text string, all bool) ([]byte, int) {
	done := 0 // up to here it is in out
	for i := 0; i < len(text); i++ {
		if all {
			if i = x.skip(text, i, x.least); i+x.least > len(text) {
				break
			}
		} else if i = x.skip(text, i, x.most); i == len(text) {
			break
		}
		held := !all && x.opens(text, i)
		f := x.at(text, i)
		if f == nil && !held {
			continue
		}
		end := i
		if f != nil {
			end += len(f.text)
		}
		for k := i + 1; k < end && !held; k++ {
			if g := x.at(text, k); g != nil {
				end = max(end, k+len(g.text))
			}
			held = !all && x.opens(text, k) // another one that begins in this one
		}
		if held {
			if done > 0 {
				out = append(out, text[done:i]...)
			}
			return out, i
		}
		out = append(out, text[done:i]...)
		out = append(append(append(out, "«secret:"...), f.name...), "»"...)
		done, i = end, end-1
	}
	if done > 0 {
		out = append(out, text[done:]...)
	}
	return out, len(text)
}
