// Package sentence understands sentences that have a known form, without a model.
//
// A tool declares the sentences by which people ask for it, beside its schema:
//
//	remind me [to] {text=call mum} in {in_minutes:minutes}
//	(add|put) {title=milk} (to|on) [the|my] {list:label=shopping} list
//
// A pattern is read from left to right. A word stands for itself, in any case. Brackets hold what may be left
// out, parentheses hold alternatives, and braces are slots. A slot is named after the argument that it fills.
// After a colon stands what kind of value it takes (see Kinds), and after an equals sign an example, which
// makes the pattern a sentence that can be shown to a person. After "=>" stand arguments that the form itself
// decides: "=> repeat=daily". A pattern that begins with "de:" is German. English and German are otherwise
// read by the same rules, because their words for numbers, days and times hardly collide.
//
// A pattern matches a whole sentence or not at all, so what it does not know it cannot ignore. Courtesies
// around a sentence are removed before. Free text is the only slot that takes arbitrary words, and it has
// limits: it takes no time, no condition and no repetition, because a reading that hides "every day" or "if it
// rains" inside a text would do something else than what was said. Of several readings the one that leaves the
// fewest words to free text wins. If two different calls remain, the sentence is ambiguous, and the user is not told
// that it was understood.
//
// Days and times are read by this package, in the time zone of now. "at 3" is the next three o'clock between
// six in the morning and midnight; "tomorrow at 3" is in the afternoon, "tomorrow at 8" in the morning. "next
// Friday" is the Friday of next week. A weekday never means today. Times in the past are not understood.
//
// Everything is bounded: the length of a sentence (maxWords), the size of a pattern (maxSource, maxProgram),
// and the work. A pattern becomes a small program that visits each instruction at each word at most once, so
// the time grows in proportion to both. The offline model uses this package first, before it compares words.
package sentence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a pattern and of a sentence.
const (
	maxSource  = 400 // bytes of a pattern
	maxProgram = 300 // instructions of a pattern
	maxDepth   = 6   // brackets in brackets
	maxSlots   = 8   // slots of a pattern
	maxWords   = 80  // words of a sentence
)

// Kinds are the kinds of values that a slot takes, with an example of each:
//
//	text     words, without a time, a condition or a repetition
//	items    such words, which may be a list: "milk, eggs and bread" is three calls
//	any      words of any kind, as for a search
//	label    up to three words, as a name of a list
//	place    a town or region, up to four words
//	number   a whole number
//	minutes  a length of time, in minutes; seconds: in seconds
//	date     a day; days: the number of days from today to it, at most 14
//	time     a time of day, as 15:04
//	moment   a day and a time of day, or the next such time
//	when     a moment; a day without a time is nine o'clock
//	waking   a moment; four to eleven o'clock are in the morning unless stated otherwise
//	weekly   a day of the week and a time of day
//	hour     a moment as three arguments: its day, its time, and the time an hour later
//	span     a day, or a weekend as its two days
//	url, email, file (a path; with a folder for bare names), folder (a word)
var Kinds = map[string]string{"text": "paint the fence", "items": "milk", "any": "mountain huts", "label": "holiday", "place": "Graz", "number": "3", "minutes": "20 minutes", "seconds": "10 minutes",
	"date": "tomorrow", "days": "tomorrow", "time": "9:00", "moment": "tomorrow at 15:00", "when": "tomorrow at 15:00", "waking": "7:00", "weekly": "Monday at 9:00", "hour": "tomorrow at 15:00", "span": "tomorrow",
	"url": "https://example.org", "email": "ann@example.org", "file": "notes.txt", "folder": "documents"}

// inGerman are the examples of kinds in German patterns, where they differ.
var inGerman = map[string]string{"minutes": "20 Minuten", "seconds": "10 Minuten", "date": "morgen", "days": "morgen", "time": "9 Uhr",
	"moment": "morgen um 15 Uhr", "when": "morgen um 15 Uhr", "waking": "7 Uhr", "weekly": "Montag um 9 Uhr", "hour": "morgen um 15 Uhr", "span": "morgen"}

// Pattern is a compiled pattern.
type Pattern struct {
	German  bool
	example string
	program []instruction
	slots   []slot
	fixed   map[string]any
	first   []string // the words with which a sentence of this form begins; "" is a value
}

type slot struct {
	names  []string // of the arguments
	kind   string
	folder string // of a file with a bare name
}

type operation uint8

const (
	opMatch operation = iota
	opWord            // the next word is word
	opSplit           // continue at x, or else at y
	opJump            // continue at x
	opValue           // a value of slot x
	opBegin           // free text of slot x begins
	opText            // a word of free text of slot x
	opEnd             // free text of slot x ends
)

type instruction struct {
	op   operation
	word string
	x, y int
}

// free reports whether a slot takes words one by one.
func (s slot) free() bool {
	return slices.Contains([]string{"text", "items", "any", "label", "place"}, s.kind)
}

// compiler reads a pattern.
type compiler struct {
	rest    string
	p       *Pattern
	example []string
}

// Compile reads a pattern.
func Compile(source string) (*Pattern, error) {
	p, err := compile(source)
	if err != nil {
		return nil, fmt.Errorf("the sentence pattern %.80q: %w", source, err)
	}
	return p, nil
}

func compile(source string) (*Pattern, error) {
	if len(source) > maxSource || !utf8.ValidString(source) {
		return nil, fmt.Errorf("it is not a text of at most %d bytes", maxSource)
	}
	form, fixed, decided := strings.Cut(source, "=>")
	p := &Pattern{fixed: map[string]any{}}
	form, p.German = strings.CutPrefix(strings.TrimSpace(form), "de:")
	c := &compiler{rest: form, p: p}
	if err := c.sequence(0, true); err != nil {
		return nil, err
	}
	if c.rest != "" {
		return nil, fmt.Errorf("unexpected %q", c.rest[:1])
	}
	c.emit(instruction{op: opMatch})
	if err := p.decide(fixed, decided); err != nil {
		return nil, err
	}
	if len(p.program) > maxProgram || len(p.slots) > maxSlots {
		return nil, fmt.Errorf("it is too large: at most %d slots and %d steps", maxSlots, maxProgram)
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	p.example = strings.Join(c.example, " ")
	return p, nil
}

// decide reads the arguments that a form itself decides.
func (p *Pattern) decide(text string, some bool) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !some {
			return nil
		}
		if !ok || name == "" || value == "" {
			return fmt.Errorf("%q is not NAME=VALUE", part)
		}
		switch n, err := strconv.ParseInt(value, 10, 64); {
		case err == nil:
			p.fixed[name] = n
		case value == "true" || value == "false":
			p.fixed[name] = value == "true"
		default:
			p.fixed[name] = value
		}
	}
	return nil
}

func (c *compiler) emit(i instruction) int {
	c.p.program = append(c.p.program, i)
	return len(c.p.program) - 1
}

// show adds words to the example.
func (c *compiler) show(shown bool, words string) {
	if shown && words != "" {
		c.example = append(c.example, words)
	}
}

// sequence compiles up to a sign that ends it. shown says that the example has it.
func (c *compiler) sequence(depth int, shown bool) error {
	for {
		c.rest = strings.TrimLeft(c.rest, " ")
		if c.rest == "" || strings.ContainsAny(c.rest[:1], "|])}") {
			return nil
		}
		if len(c.p.program) > maxProgram {
			return errors.New("it is too large")
		}
		var err error
		switch c.rest[0] {
		case '[', '(':
			err = c.choice(depth, shown)
		case '{':
			err = c.slot(shown)
		default:
			n := strings.IndexAny(c.rest, " [](){}|")
			if n < 0 {
				n = len(c.rest)
			}
			word := c.rest[:n]
			c.rest = c.rest[n:]
			c.show(shown, word)
			for _, w := range split(word) {
				c.emit(instruction{op: opWord, word: w.low})
			}
		}
		if err != nil {
			return err
		}
	}
}

// choice compiles alternatives. In brackets, none is one of them.
func (c *compiler) choice(depth int, shown bool) error {
	optional := c.rest[0] == '['
	closer := map[bool]string{true: "]", false: ")"}[optional]
	if depth >= maxDepth {
		return fmt.Errorf("more than %d nested brackets", maxDepth)
	}
	c.rest = c.rest[1:]
	var ends []int
	for n := 0; ; n++ {
		at := c.emit(instruction{op: opSplit})
		c.p.program[at].x = at + 1
		if err := c.sequence(depth+1, shown && n == 0 && !optional); err != nil {
			return err
		}
		ends = append(ends, c.emit(instruction{op: opJump}))
		c.p.program[at].y = len(c.p.program)
		if strings.HasPrefix(c.rest, "|") {
			c.rest = c.rest[1:]
			continue
		}
		if !strings.HasPrefix(c.rest, closer) {
			return fmt.Errorf("%q is missing", closer)
		}
		c.rest = c.rest[1:]
		if !optional { // the last alternative is the last chance
			c.p.program[at] = instruction{op: opJump, x: at + 1}
		}
		break
	}
	for _, at := range ends {
		c.p.program[at].x = len(c.p.program)
	}
	return nil
}

// slot compiles {name+name:kind folder=example}.
func (c *compiler) slot(shown bool) error {
	inside, rest, ok := strings.Cut(c.rest[1:], "}")
	if !ok {
		return errors.New(`"}" is missing`)
	}
	c.rest = rest
	inside, example, _ := strings.Cut(inside, "=")
	names, kind, ok := strings.Cut(inside, ":")
	if !ok {
		kind = "text"
	}
	kind, folder, _ := strings.Cut(kind, " ")
	usual, known := Kinds[kind]
	switch {
	case !known:
		return fmt.Errorf("{%s} is not a slot: unknown kind of value %q", inside, kind)
	case names == "":
		return fmt.Errorf("{%s} is not a slot: the name is missing", inside)
	}
	if c.p.German && inGerman[kind] != "" {
		usual = inGerman[kind]
	}
	if example == "" {
		example = usual
	}
	s := slot{names: strings.Split(names, "+"), kind: kind, folder: folder}
	if len(s.names) != 1 && kind != "hour" && kind != "span" {
		return fmt.Errorf("{%s}: only an hour and a span fill several arguments", inside)
	}
	n := len(c.p.slots)
	c.p.slots = append(c.p.slots, s)
	c.show(shown, example)
	if !s.free() {
		c.emit(instruction{op: opValue, x: n})
		return nil
	}
	c.emit(instruction{op: opBegin, x: n})
	word := c.emit(instruction{op: opText, x: n})
	c.emit(instruction{op: opSplit, x: word, y: word + 2}) // as many words as can be
	c.emit(instruction{op: opEnd, x: n})
	return nil
}

// Value returns the kind of value that fills an argument, and the folder of a file with a bare name.
func (p *Pattern) Value(argument string) (kind, folder string) {
	for _, s := range p.slots {
		if slices.Contains(s.names, argument) {
			return s.kind, s.folder
		}
	}
	return "", ""
}

// begin finds the words with which a sentence of this form begins, so that others need not be tried.
func (p *Pattern) begin() error {
	seen := make([]bool, len(p.program))
	var visit func(pc int) error
	visit = func(pc int) error {
		if seen[pc] {
			return nil
		}
		seen[pc] = true
		switch i := p.program[pc]; i.op {
		case opWord:
			p.first = append(p.first, i.word)
		case opSplit:
			if err := visit(i.x); err != nil {
				return err
			}
			return visit(i.y)
		case opJump:
			return visit(i.x)
		case opValue:
			if k := p.slots[i.x].kind; k != "seconds" && k != "minutes" {
				return errors.New("it must begin with a word or a length of time")
			}
			p.first = append(p.first, "")
		default:
			return errors.New("it must begin with a word or a length of time")
		}
		return nil
	}
	return visit(0)
}

// Example returns a sentence of the pattern.
func (p *Pattern) Example() string {
	r, n := utf8.DecodeRuneInString(p.example)
	return string(unicode.ToUpper(r)) + p.example[n:]
}
