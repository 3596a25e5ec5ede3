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

// Masker replaces the secrets that it knows by «secret:NAME». It finds their plain
// values, and their forms in JSON, URLs, quoted text, base64 (also within other
// text) and hexadecimal digits. Of a value with several lines it also finds each
// long line.
//
// The zero Masker knows no secrets and costs almost nothing. A nil Masker hides
// nothing. Safe for concurrent use.
type Masker struct {
	mu    sync.Mutex
	known map[string]string // names by value
	now   atomic.Pointer[matcher]
}

// minForm is the minimum length of a form in bytes. A shorter one would be found in
// other texts by chance.
const minForm = MinLength

// minLine is the minimum length of a line of a secret to be masked on its own.
const minLine = 20

// Add adds a secret (secret_short, secret_invalid). A value that is added again
// keeps its first name. Earlier values of a name stay known, since they may still
// appear.
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

// plainName replaces the characters of a name that would need escaping in JSON or
// end a line. The name of a file or a program may have any characters.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '"' || r == '\\' || r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, name)
}

// Any reports whether any secret is known.
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

// MaskBytes is Mask for bytes. Without secrets it returns b. JSON stays JSON: if a
// secret of digits is found in a number, only strings are masked, since a record
// that cannot be read is worse than a number that can.
func (m *Masker) MaskBytes(b []byte) []byte {
	if !m.Any() {
		return b
	}
	x := m.now.Load()
	// This does not copy b, because the text is only read and not retained.
	out, _ := x.mask(nil, unsafe.String(unsafe.SliceData(b), len(b)), true)
	switch {
	case out == nil:
		return b
	case !json.Valid(out) && json.Valid(b):
		return x.maskTexts(b)
	}
	return out
}

// maskTexts hides the secrets in the strings of a JSON value.
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

// In reports whether r contains a secret. It reads r to the end or to the first
// secret, through a buffer of fixed size.
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
	held := 0 // bytes that may be the beginning of a secret
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

// find reports whether a text contains a form.
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

// Writer returns a writer that hides secrets, even if they are split over several
// writes: it holds back what may be the beginning of a secret, until Flush.
func (m *Masker) Writer(to io.Writer) *Writer { return &Writer{m: m, to: to} }

// Writer hides the secrets in a stream. It is for one goroutine at a time.
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

// Flush writes what was held back.
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

// Pieces returns a function that hides the secrets in a text that arrives in
// pieces, as Writer does. It is for one goroutine at a time.
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

// form is a form of a secret.
type form struct {
	text, name string
}

// matcher finds all forms of all secrets. It skips positions at which no form can
// begin (S. Wu and U. Manber, A fast algorithm for multi-pattern searching, 1994):
// in a window as long as the shortest form, the last two bytes tell how far away
// the next form is at least.
type matcher struct {
	begins [1 << 10]uint64 // a bit for each pair of bytes that begins a form
	first  [4]uint64       // a bit for each byte that begins a form
	beyond [1 << 14]uint8  // by pairHash: how many positions can be skipped
	forms  map[[2]byte][]form
	least  int // length of the shortest form, at most 255
	most   int // length of the longest form
}

// pairHash has no collisions among pairs of ASCII characters.
func pairHash(a, b byte) int { return (int(a)<<7 ^ int(b)) & (1<<14 - 1) }

func newMatcher(known map[string]string) *matcher {
	x := &matcher{forms: make(map[[2]byte][]form), least: math.MaxUint8}
	for value, name := range known {
		for _, text := range spellings(value) {
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
	for _, list := range x.forms { // longest first; the other criteria make the order deterministic
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

// skip returns the next position from i on at which a form may begin. It stops
// where fewer than need bytes are left.
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

// at returns the longest form at a position, or nil.
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

// opens reports whether a form may begin at a position and continue after the end.
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

// mask appends the text to out, with its secrets hidden, and returns how many
// bytes of it were consumed. If all is false, it stops before the beginning of
// something that may be a secret. If nothing was hidden, it appends nothing.
// Overlapping secrets are hidden as one, under the first one's name.
func (x *matcher) mask(out []byte, text string, all bool) ([]byte, int) {
	done := 0 // text[:done] is in out
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
			held = !all && x.opens(text, k) // another form that begins within this one
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
