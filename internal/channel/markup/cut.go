package markup

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Dialect is how a messenger writes what Markdown means.
type Dialect struct {
	// Limit is how long a message may be, by Size.
	Limit int
	// Size counts as the service does. Nil counts characters of Unicode.
	Size func(string) int
	// Run writes a run. before and after are the characters beside it; zero at the end of a line.
	Run func(r Run, before, after rune) string
	// Code writes a block of code.
	Code func(lang, code string) string
	// Quote writes a quotation, of which inner is already written.
	Quote func(inner string) string
}

// UTF16 counts the units of UTF-16, as Telegram and others do.
func UTF16(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// Render converts Markdown to messages of which each fits.
func (d Dialect) Render(markdown string) []string {
	if d.Size == nil {
		d.Size = utf8.RuneCountInString
	}
	c := cutter{Dialect: d}
	for _, b := range Parse(markdown) {
		c.add(b)
	}
	c.flush(len(c.part))
	return c.out
}

// cutter collects blocks into messages.
type cutter struct {
	Dialect
	part []piece // of the message that is being filled
	size int
	out  []string
}

// piece is a written block, or a part of one.
type piece struct {
	text    string
	tight   bool
	heading bool
	size    int
}

// gapSize is the most that stands between two blocks: an empty line.
const gapSize = 2

func (c *cutter) add(b Block) {
	for {
		p := c.piece(b)
		if c.size+gapSize+p.size <= c.Limit {
			c.part, c.size = append(c.part, p), c.size+gapSize+p.size
			return
		}
		if gapSize+p.size <= c.Limit && len(c.part) > 0 {
			c.next()
			if c.size+gapSize+p.size > c.Limit { // behind the heading that was kept, it does not fit
				c.flush(len(c.part))
			}
			continue
		}
		// The block fits into no message. It is cut, and begins in this one if there is room.
		if c.size > c.Limit/2 {
			c.next()
		}
		head, tail := c.split(b, c.Limit-c.size-gapSize)
		if len(head.Runs) == 0 {
			if len(c.part) > 0 {
				c.flush(len(c.part))
				continue
			}
			return // not even one character fits
		}
		if p := c.piece(head); !blank(head.text()) {
			c.part, c.size = append(c.part, p), c.size+gapSize+p.size
		}
		c.flush(len(c.part))
		tail.Tight = true
		if blank(tail.text()) {
			return
		}
		b = tail
	}
}

// next ends the message. A heading at its end goes to the next one, where its text is.
func (c *cutter) next() {
	n := len(c.part)
	if n > 1 && c.part[n-1].heading {
		n--
	}
	c.flush(n)
}

// flush ends the message after its first n blocks.
func (c *cutter) flush(n int) {
	if n == 0 {
		return
	}
	var b strings.Builder
	for i, p := range c.part[:n] {
		switch {
		case i == 0:
		case p.tight:
			b.WriteString("\n")
		default:
			b.WriteString("\n\n")
		}
		b.WriteString(p.text)
	}
	c.out = append(c.out, b.String())
	c.part, c.size = append([]piece(nil), c.part[n:]...), 0
	for _, p := range c.part {
		c.size += gapSize + p.size
	}
}

func (c *cutter) piece(b Block) piece {
	s := c.write(b)
	return piece{text: s, tight: b.Tight, heading: b.Heading, size: c.Size(s)}
}

// write writes a block.
func (c *cutter) write(b Block) string {
	if b.Code {
		return c.Code(b.Lang, b.text())
	}
	var s strings.Builder
	for i, r := range b.Runs {
		var before, after rune
		if i > 0 {
			before, _ = utf8.DecodeLastRuneInString(b.Runs[i-1].Text)
		}
		if i+1 < len(b.Runs) {
			after, _ = utf8.DecodeRuneInString(b.Runs[i+1].Text)
		}
		s.WriteString(c.Run(r, before, after))
	}
	if b.Quote {
		return c.Quote(s.String())
	}
	return s.String()
}

// split cuts a block so that the first half takes at most room. It tries the places of the block from the
// best kind (lines) to the worst (characters); within a kind, more is better.
func (c *cutter) split(b Block, room int) (head, tail Block) {
	text := b.text()
	fits := func(n int) bool {
		h, _ := cutAt(b, n)
		return c.Size(c.write(h)) <= room
	}
	// The longest beginning that fits, by halving. Sizes grow with length, but for a few characters of
	// markup, for which the loop below makes up.
	low, high := 0, len(text)
	for low < high {
		mid := (low + high + 1) / 2
		for mid > low && !utf8.RuneStart(at(text, mid)) {
			mid--
		}
		if mid == low {
			// The rune that begins at low is the next to try.
			_, n := utf8.DecodeRuneInString(text[low:])
			mid = low + n
			if mid > high {
				break
			}
		}
		if fits(mid) {
			low = mid
		} else {
			high = mid - 1
			for high > low && !utf8.RuneStart(at(text, high)) {
				high--
			}
		}
	}
	for _, boundary := range []func(string, int) int{lineEnd, wordEnd, characterEnd} {
		if n := boundary(text, low); n > low/2 {
			return cutAt(b, n)
		}
	}
	return cutAt(b, low)
}

// at returns a byte of a text, or one that begins a character behind its end.
func at(s string, i int) byte {
	if i >= len(s) {
		return 'x'
	}
	return s[i]
}

// lineEnd returns the end of the last whole line in the first n bytes.
func lineEnd(s string, n int) int {
	if n == len(s) {
		return n
	}
	return strings.LastIndexByte(s[:n], '\n') + 1
}

// wordEnd returns the end of the last whole word in the first n bytes.
func wordEnd(s string, n int) int {
	if n == len(s) {
		return n
	}
	if strings.ContainsRune(" \n\t", rune(at(s, n))) {
		return n
	}
	return strings.LastIndexAny(s[:n], " \n\t") + 1
}

// characterEnd returns the end of the last character, as people count them, in the first n bytes. It looks
// back a little only: there is text that is one endless character.
func characterEnd(s string, n int) int {
	for range 16 {
		if n <= 0 || n >= len(s) {
			return n
		}
		before, size := utf8.DecodeLastRuneInString(s[:n])
		after, _ := utf8.DecodeRuneInString(s[n:])
		if before != '\u200d' && !joins(after) {
			return n
		}
		n -= size
	}
	return n
}

// joins reports whether a rune continues the character before it.
func joins(r rune) bool {
	return unicode.In(r, unicode.M) || r == '\u200d' || r >= 0xfe00 && r <= 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff
}

// cutAt cuts a block after n bytes of its text. White space at the cut is dropped, but not in code, where
// only the end of the line is.
func cutAt(b Block, n int) (head, tail Block) {
	head, tail = b, b
	head.Runs, tail.Runs = nil, nil
	for _, r := range b.Runs {
		first, second := r, r
		k := min(n, len(r.Text))
		first.Text, second.Text = r.Text[:k], r.Text[k:]
		n -= k
		if first.Text != "" {
			head.Runs = append(head.Runs, first)
		}
		if second.Text != "" {
			tail.Runs = append(tail.Runs, second)
		}
	}
	space := " \n\t"
	if b.Code {
		space = "\n"
	}
	if k := len(head.Runs) - 1; k >= 0 && len(tail.Runs) > 0 {
		head.Runs[k].Text = strings.TrimRight(head.Runs[k].Text, space)
	}
	if len(tail.Runs) > 0 && !b.Code {
		tail.Runs[0].Text = strings.TrimLeft(tail.Runs[0].Text, space)
	}
	return head, tail
}
