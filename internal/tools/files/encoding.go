package files

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"steward/internal/fault"
)

// form is how a text is written in a file.
type form struct {
	name string
	bom  string            // that the file begins with
	enc  encoding.Encoding // nil: UTF-8
}

var (
	utf8Form    = form{name: "UTF-8"}
	windowsForm = form{name: "Windows-1252", enc: charmap.Windows1252}

	// utf16Forms are looked for also without their mark.
	utf16Forms = []form{
		{"UTF-16LE", "\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
		{"UTF-16BE", "\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	}
	markedForms = append([]form{ // the mark of UTF-32LE begins with that of UTF-16LE
		{"UTF-8", "\xef\xbb\xbf", nil},
		{"UTF-32LE", "\xff\xfe\x00\x00", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
		{"UTF-32BE", "\x00\x00\xfe\xff", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	}, utf16Forms...)
)

// formOf finds out how the text b, or the beginning of one, is written. ok is false if it is not text. cut says
// that it may end inside a character.
func formOf(b []byte, cut bool) (f form, ok bool) {
	for _, f := range markedForms {
		if rest, marked := bytes.CutPrefix(b, []byte(f.bom)); marked {
			return f, f.reads(rest, cut)
		}
	}
	if text(b, cut) {
		return utf8Form, true
	}
	for i, f := range utf16Forms {
		// A zero in most characters tells the order of bytes; text in other scripts needs a mark.
		zeros := [2]int{}
		for at, c := range b {
			if c == 0 {
				zeros[at%2]++
			}
		}
		if high := zeros[1-i]; zeros[i] == 0 && high > len(b)/5 {
			f.bom = ""
			return f, f.reads(b, cut) && !slices.ContainsFunc(b, func(c byte) bool { return c != 0 && c < '\t' })
		}
	}
	return windowsForm, windowsText(b)
}

// reads reports whether b is text in the form.
func (f form) reads(b []byte, cut bool) bool {
	if f.enc == nil {
		return text(b, cut)
	}
	if cut {
		b = b[:len(b)&^3]
	}
	s, err := f.enc.NewDecoder().Bytes(b)
	if cut { // it may end in half of a character that takes two units
		s = bytes.TrimSuffix(s, []byte(string(utf8.RuneError)))
	}
	return err == nil && text(s, false) && !bytes.ContainsRune(s, utf8.RuneError)
}

// windowsText reports whether b looks like text of a Western language in Windows-1252, which has all
// characters of Latin-1: it has no control characters, and most of it is ASCII.
func windowsText(b []byte) bool {
	high := 0
	for _, c := range b {
		switch {
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f', c == 0x7f:
			return false
		case c == 0x81, c == 0x8d, c == 0x8f, c == 0x90, c == 0x9d: // they stand for nothing
			return false
		case c >= 0x80:
			high++
		}
	}
	return high <= len(b)*3/10
}

// reader returns what in says as UTF-8, without the mark.
func (f form) reader(in io.Reader) (io.Reader, error) {
	if _, err := io.ReadFull(in, make([]byte, len(f.bom))); err != nil {
		return nil, err
	}
	if f.enc == nil {
		return in, nil
	}
	return f.enc.NewDecoder().Reader(in), nil
}

// decode returns the text of a file in this form.
func (f form) decode(b []byte) (string, error) {
	b = b[len(f.bom):]
	if f.enc == nil {
		return string(b), nil
	}
	s, err := f.enc.NewDecoder().Bytes(b)
	return string(s), err
}

// encode returns a text in this form.
func (f form) encode(s string) (string, error) {
	if f.enc == nil {
		return f.bom + s, nil
	}
	out, err := f.enc.NewEncoder().String(s)
	if err != nil {
		return "", fault.New(fault.Invalid, "encoding_unfit", "the file is written in %s, which does not have every character of the new text", f.name).
			WithHint("use other characters, or write the whole file again, which makes it UTF-8")
	}
	return f.bom + out, nil
}

// endOf returns the line end that is most frequent in a text: "\n", "\r\n", or "\r" if it has no other.
func endOf(s string) string {
	lf, crlf := strings.Count(s, "\n"), strings.Count(s, "\r\n")
	switch {
	case lf == 0 && strings.Contains(s, "\r"):
		return "\r"
	case crlf > lf-crlf:
		return "\r\n"
	}
	return "\n"
}

// unixEnds returns a text with "\n" as line ends.
func unixEnds(s string) string {
	if endOf(s) == "\r" {
		return strings.ReplaceAll(s, "\r", "\n")
	}
	return strings.ReplaceAll(s, "\r\n", "\n")
}

// replaceText replaces old by now in a text, and returns how often. Any line end in old matches any in the
// text; those in now become those of the text. The rest of the file is kept, byte for byte.
func replaceText(s, old, now string) (out string, n int) {
	end, plain := endOf(s), unixEnds(s)
	old = unixEnds(old)
	now = strings.ReplaceAll(unixEnds(now), "\n", end)
	var b strings.Builder
	at := 0 // in s
	// skip returns the next bytes of s that say as much as n bytes of plain.
	skip := func(n int) string {
		from := at
		for range n {
			if strings.HasPrefix(s[at:], "\r\n") {
				at++
			}
			at++
		}
		return s[from:at]
	}
	for {
		before, after, found := strings.Cut(plain, old)
		if !found {
			return b.String() + s[at:], n
		}
		b.WriteString(skip(len(before)))
		skip(len(old))
		b.WriteString(now)
		plain = after
		n++
	}
}
