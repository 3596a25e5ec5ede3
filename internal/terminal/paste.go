package terminal

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// The input line cannot hold every text: it replaces tabs, drops control characters, and shows eight
// lines. A pasted text that is long, or that it would change, is therefore kept beside the input,
// which has a short label in its place: [pasted 500 lines, 12.0 KB: the first line…]. What is sent is
// exactly what was pasted. A label is edited as a whole: deleting a part of it deletes the paste.
//
// Texts outside of the input (the history, the message that is being sent) have pastes between the
// marks with which terminals set them off, which no other text contains.
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// shortPaste is the number of lines, and of bytes, up to which a paste goes into the input itself.
const (
	shortPasteLines = 10
	shortPasteBytes = 2000
)

// maxInputLines is the number of lines up to which the input holds a text that is edited.
const maxInputLines = 5000

// paste puts a pasted text into the input.
func (m *liveScreen) paste(text string) tea.Cmd {
	if m.picking != nil {
		m.picking.filter, m.picking.at = cut(m.picking.filter+oneLine(text, 200), 200), 0
		return nil
	}
	m.typed = m.now()
	if path, ok := pastedFile(text); ok {
		m.input.InsertString(mention(path) + " ")
		return nil
	}
	m.insertPaste(pastedText(text))
	return nil
}

// pastedText returns a paste as the text that was copied. Terminals send line ends as carriage returns.
func pastedText(text string) string {
	if !strings.Contains(text, "\n") {
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// insertPaste inserts a text, or its label, at the cursor.
func (m *liveScreen) insertPaste(text string) {
	if strings.Count(text, "\n") < shortPasteLines && len(text) <= shortPasteBytes && !changedByInput(text) {
		m.input.InsertString(text)
		return
	}
	m.input.InsertString(m.label(text))
}

// changedByInput reports whether the input would not keep a text as it is.
func changedByInput(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && Unsafe(r) || r == '\t' || r == utf8.RuneError })
}

// label returns the label of a paste, which is kept.
func (m *liveScreen) label(text string) string {
	first := strings.NewReplacer("[", "(", "]", ")", "\ufffd", "?").Replace(oneLine(firstOf(text), 30))
	lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	about := counted(lines, "line") + ", " + SizeOf(len(text))
	for n := 1; ; n++ {
		label := fmt.Sprintf("[pasted %s: %s]", about, first)
		if n > 1 {
			label = fmt.Sprintf("[pasted %s, no. %d: %s]", about, n, first)
		}
		if old, ok := m.pastes[label]; ok && old != text {
			continue
		}
		if m.pastes == nil {
			m.pastes = map[string]string{}
		}
		m.pastes[label] = text
		return label
	}
}

// written returns the content of the input, with pastes between their marks.
func (m *liveScreen) written() string { return m.withPastes(m.input.Value(), pasteStart, pasteEnd) }

// unlabelled returns the content of the input as it is sent.
func (m *liveScreen) unlabelled() string { return m.withPastes(m.input.Value(), "", "") }

func (m *liveScreen) withPastes(text, start, end string) string {
	if len(m.pastes) == 0 {
		return text
	}
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(m.pastes)) {
		pairs = append(pairs, label, start+m.pastes[label]+end)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// size returns the size of the message in the input.
func (m *liveScreen) size() int {
	text := m.input.Value()
	n := len(text)
	for label, paste := range m.pastes {
		n += strings.Count(text, label) * (len(paste) - len(label))
	}
	return n
}

// plainText returns a text without the marks around pastes.
func plainText(text string) string {
	return strings.NewReplacer(pasteStart, "", pasteEnd, "").Replace(text)
}

// typedText returns the parts of a text that were not pasted.
func typedText(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(text, pasteEnd) {
		typed, _, _ := strings.Cut(part, pasteStart)
		b.WriteString(typed + " ")
	}
	return b.String()
}

// setInput replaces the text in the input. Pastes in it get labels again, and so does a text that the
// input would change.
func (m *liveScreen) setInput(text string) {
	m.input.Reset()
	for i, part := range strings.Split(text, pasteEnd) {
		typed, pasted, ok := strings.Cut(part, pasteStart)
		if i == 0 && !ok && (changedByInput(typed) || strings.Count(typed, "\n") >= maxInputLines) {
			typed = m.label(typed)
		}
		m.input.InsertString(typed)
		if ok {
			m.input.InsertString(m.label(pasted))
		}
	}
	m.input.MoveToEnd()
}

// typeKey passes a key to the input, and keeps labels whole.
func (m *liveScreen) typeKey(k tea.KeyPressMsg) (cmd tea.Cmd) {
	if len(m.pastes) == 0 {
		m.input, cmd = m.input.Update(k)
		return cmd
	}
	before, at := m.input.Value(), m.cursorAt()
	m.input, cmd = m.input.Update(k)
	after, now := m.input.Value(), m.cursorAt()
	if after == before {
		if from, to := m.labelAround(before, now); from < to { // jump over it
			if now < at {
				m.setCursor(from)
			} else {
				m.setCursor(to)
			}
		}
		return cmd
	}
	runes := []rune(before)
	from, to := now, now+len(runes)-utf8.RuneCountInString(after) // what was deleted
	if to <= from {
		if m.labels(after) < m.labels(before) { // its letters were changed
			m.input.SetValue(before)
			m.setCursor(at)
		}
		return cmd
	}
	wide := false
	for _, edge := range [2]int{from, to} {
		if a, b := m.labelAround(before, edge); a < b {
			from, to, wide = min(from, a), max(to, b), true
		}
	}
	if wide {
		m.input.SetValue(string(runes[:from]) + string(runes[to:]))
		m.setCursor(from)
	}
	return cmd
}

// labels counts the labels in a text.
func (m *liveScreen) labels(text string) (n int) {
	for label := range m.pastes {
		n += strings.Count(text, label)
	}
	return n
}

// labelAround returns where the label begins and ends, in characters, in whose middle a position is.
func (m *liveScreen) labelAround(text string, at int) (from, to int) {
	for label := range m.pastes {
		for start := 0; ; {
			i := strings.Index(text[start:], label)
			if i < 0 {
				break
			}
			a := utf8.RuneCountInString(text[:start+i])
			b := a + utf8.RuneCountInString(label)
			if a < at && at < b {
				return a, b
			}
			start += i + len(label)
		}
	}
	return 0, 0
}

// cursorAt returns the position of the cursor in characters.
func (m *liveScreen) cursorAt() int {
	at := m.input.Column()
	for i, line := range strings.Split(m.input.Value(), "\n") {
		if i == m.input.Line() {
			break
		}
		at += utf8.RuneCountInString(line) + 1
	}
	return at
}

// setCursor moves the cursor to a position in characters.
func (m *liveScreen) setCursor(at int) {
	m.input.MoveToBegin()
	for _, line := range strings.Split(m.input.Value(), "\n") {
		n := utf8.RuneCountInString(line)
		if at <= n {
			break
		}
		at -= n + 1
		for row := m.input.Line(); m.input.Line() == row; {
			m.input.CursorDown() // by one line of the screen
		}
	}
	m.input.SetCursorColumn(at)
}

// maxPasteShown is how many lines of a paste are shown.
const maxPasteShown = 2000

// showPastes prints the pastes in the input, and reports whether there are any.
func (m *liveScreen) showPastes() bool {
	text, any := m.input.Value(), false
	for _, label := range slices.Sorted(maps.Keys(m.pastes)) {
		if !strings.Contains(text, label) {
			continue
		}
		any = true
		lines := strings.Split(strings.TrimSuffix(m.pastes[label], "\n"), "\n")
		shown := lines[:min(len(lines), maxPasteShown)]
		out := m.turn.dim.Render(m.turn.paint.wrap(label)) + "\n" + m.turn.paint.wrap(untabbed(safe(strings.Join(shown, "\n"))))
		if n := len(lines) - len(shown); n > 0 {
			out += "\n" + m.turn.dim.Render(fmt.Sprintf("… %d more lines", n))
		}
		m.turn.print(kindShown, out)
	}
	return any
}

// untabbed replaces tabs, whose width is not counted otherwise.
func untabbed(text string) string { return strings.ReplaceAll(text, "\t", "    ") }

// pasteFile is pasteReader for a terminal, which is put into raw mode by its file.
type pasteFile struct {
	*os.File
	pasteReader
}

// Read implements io.Reader.
func (f *pasteFile) Read(p []byte) (int, error) { return f.pasteReader.Read(p) }

// keepPastes returns the input with pastes written in hexadecimal: the program's own reader takes
// pasted bytes for keys, and drops those that it does not know. rawPaste undoes it.
func keepPastes(in io.Reader) io.Reader {
	if f, ok := in.(*os.File); ok {
		return &pasteFile{f, pasteReader{in: f}}
	}
	return &pasteReader{in: in}
}

// rawPaste is the filter of a program whose input comes from keepPastes.
func rawPaste(_ tea.Model, msg tea.Msg) tea.Msg {
	if p, ok := msg.(tea.PasteMsg); ok {
		if raw, err := hex.DecodeString(p.Content); err == nil { // always so
			return tea.PasteMsg{Content: string(raw)}
		}
	}
	return msg
}

// pasteReader passes input on, with pasted bytes in hexadecimal.
type pasteReader struct {
	in     io.Reader
	inside bool
	seen   int    // how much of the mark that comes next was read
	ready  []byte // to be returned
}

// Read implements io.Reader.
func (r *pasteReader) Read(p []byte) (int, error) {
	if len(r.ready) == 0 {
		buf := make([]byte, max((len(p)-2*len(pasteEnd))/2, 1)) // nothing may be left over: nobody would read it before the next key
		n, err := r.in.Read(buf)
		for _, b := range buf[:n] {
			r.take(b)
		}
		if err != nil && len(r.ready) == 0 {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// take handles one byte. Outside of a paste, bytes are passed on at once: Esc is a key.
func (r *pasteReader) take(b byte) {
	mark := pasteStart
	if r.inside {
		mark = pasteEnd
	}
	if b == mark[r.seen] {
		r.seen++
		if !r.inside {
			r.ready = append(r.ready, b)
		}
		if r.seen == len(mark) {
			if r.inside {
				r.ready = append(r.ready, mark...)
			}
			r.inside, r.seen = !r.inside, 0
		}
		return
	}
	if held := r.seen; held > 0 { // it was no mark; only its first byte begins one
		r.seen = 0
		if r.inside {
			r.ready = hex.AppendEncode(r.ready, []byte(mark[:held]))
		}
		r.take(b)
		return
	}
	if r.inside {
		r.ready = hex.AppendEncode(r.ready, []byte{b})
	} else {
		r.ready = append(r.ready, b)
	}
}
