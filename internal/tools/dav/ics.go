package dav

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/fault"
)

// Piece is a part of a text of iCalendar (RFC 5545): the lines of a component of one kind, or the lines
// between such components. Each component is read separately, so that a broken one does not hide others,
// and a change replaces only its own lines.
type Piece struct {
	Raw  string
	Line int             // the number of the first line; 0 for a new piece
	Comp *ical.Component // nil: not of the kind, or broken
	Bad  error           // why a component cannot be read
}

var errUnfinished = errors.New("it does not end")

// Split splits a text into the components of a kind and what is between them.
func Split(text, kind string) (out []Piece) {
	cur := Piece{Line: 1}
	inside := false
	begin, at, n := 0, 0, 0        // where cur begins, where the line begins, and its number
	flush := func(end, next int) { // ends cur
		if cur.Raw = text[begin:end]; cur.Raw != "" {
			if inside && cur.Bad == nil {
				cur.Comp, cur.Bad = component(cur.Raw, kind)
			}
			out = append(out, cur)
		}
		begin, cur = end, Piece{Line: next}
	}
	broken := func() {
		if inside {
			cur.Bad = errUnfinished
		}
	}
	for line := range strings.Lines(text) {
		n++
		switch word := strings.ToUpper(strings.TrimSpace(line)); {
		case word == "BEGIN:"+kind:
			broken()
			flush(at, n)
			inside = true
		case word == "END:"+kind && inside:
			flush(at+len(line), n+1)
			inside = false
		case word == "END:VCALENDAR" && inside:
			broken()
			flush(at, n)
			inside = false
		}
		at += len(line)
	}
	broken()
	flush(at, 0)
	return out
}

// Of reports whether a piece belongs to the event with a UID: a series and its changed occurrences have the
// same.
func (p Piece) Of(uid string) bool { return p.Comp != nil && TextOf(p.Comp, ical.PropUID) == uid }

// LinesOf returns the lines of an event.
func LinesOf(pieces []Piece, uid string) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.Of(uid) {
			b.WriteString(p.Raw)
		}
	}
	return b.String()
}

// Replace puts lines in the place of an event's.
func Replace(pieces []Piece, uid, lines string) (out []Piece) {
	fresh := Piece{Raw: lines, Comp: &ical.Component{}}
	for _, p := range pieces {
		if !p.Of(uid) {
			out = append(out, p)
		} else if fresh.Raw != "" {
			fresh.Line = p.Line
			out = append(out, fresh)
			fresh.Raw = ""
		}
	}
	if fresh.Raw != "" {
		out = append(out, fresh)
	}
	return out
}

// Join returns the content of the pieces. New ones are inserted before the calendar's end.
func Join(pieces []Piece) string {
	var old, fresh strings.Builder
	for _, p := range pieces {
		if p.Line == 0 {
			fresh.WriteString(p.Raw)
		} else {
			old.WriteString(p.Raw)
		}
	}
	head, tail, at := old.String(), "END:VCALENDAR\r\n", 0
	end := -1
	for line := range strings.Lines(head) {
		if strings.EqualFold(strings.TrimSpace(line), "END:VCALENDAR") {
			end = at
		}
		at += len(line)
	}
	if end >= 0 {
		head, tail = head[:end], head[end:]
	} else if strings.TrimSpace(head) == "" {
		head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:" + Product + "\r\n"
	}
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\r\n"
	}
	return head + fresh.String() + tail
}

// component reads the lines of one component.
func component(raw, kind string) (c *ical.Component, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics at some truncated lines
			c, err = nil, fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	var text strings.Builder
	text.WriteString("BEGIN:VCALENDAR\r\n")
	for line := range strings.Lines(raw) {
		if strings.TrimSpace(line) != "" {
			text.WriteString(strings.TrimRight(line, "\r\n") + "\r\n")
		}
	}
	text.WriteString("END:VCALENDAR\r\n")
	cal, err := ical.NewDecoder(strings.NewReader(text.String())).Decode()
	if err != nil {
		return nil, err
	}
	if len(cal.Children) != 1 || cal.Children[0].Name != kind {
		return nil, fmt.Errorf("it is not one %s", kind)
	}
	return cal.Children[0], nil
}

// TextOf returns the text of a property, or its raw value if it is malformed.
func TextOf(c *ical.Component, name string) string {
	p := c.Props.Get(name)
	if p == nil {
		return ""
	}
	list, err := p.TextList()
	if err != nil {
		return strings.ToValidUTF8(p.Value, "�")
	}
	return strings.ToValidUTF8(strings.Join(list, ", "), "�")
}

// Moment reads a time. One that names no zone, or an unknown one, is in the user's.
func Moment(p *ical.Prop, value string, zones *Zones) (time.Time, error) {
	one := *p
	one.Value = strings.TrimSpace(value)
	zone := zones.User
	if tz := p.Params.Get(ical.PropTimezoneID); tz != "" {
		zone, _ = zones.Of(tz)
		one.Params = ical.Params{}
		if v := p.Params.Get(ical.ParamValue); v != "" {
			one.Params.Set(ical.ParamValue, v)
		}
	}
	if IsDate(one.Value) {
		return time.ParseInLocation("20060102", one.Value, zone)
	}
	return one.DateTime(zone)
}

// IsDate reports whether a value is a date without a time.
func IsDate(value string) bool { return len(strings.TrimSpace(value)) == len("20060102") }

// Plain removes control characters, which could end a line.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// Line is a property of iCalendar or vCard, unfolded.
type Line struct {
	Name   string // in upper case, without a group, as in item1.EMAIL
	Params string
	Value  string // as it is written
	Raw    string
}

// Lines returns the properties of a text. A line that is none has only Raw.
func Lines(text string) (out []Line) {
	text = strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(text)
	for raw := range strings.Lines(text) {
		raw = strings.TrimRight(raw, "\r\n")
		quoted := false
		at := strings.IndexFunc(raw, func(c rune) bool {
			quoted = quoted != (c == '"')
			return c == ':' && !quoted
		})
		if at < 0 {
			if raw != "" {
				out = append(out, Line{Raw: raw})
			}
			continue
		}
		name, params, _ := strings.Cut(raw[:at], ";")
		name = strings.ToUpper(name[strings.LastIndexByte(name, '.')+1:])
		out = append(out, Line{name, params, raw[at+1:], raw})
	}
	return out
}

// Folded breaks a line after at most 75 bytes, between characters (RFC 5545, 3.1).
func Folded(line string) string {
	var b strings.Builder
	n := 0
	for _, r := range line {
		size := len(string(r))
		if n+size > 75 {
			b.WriteString("\r\n ")
			n = 1
		}
		b.WriteRune(r)
		n += size
	}
	return b.String() + "\r\n"
}

// Product names Steward in calendars.
const Product = "-//Steward//Calendar//EN"

// Encode returns a component as a whole text of iCalendar, and its own lines alone.
func Encode(c *ical.Component) (whole, lines string, err error) {
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropProductID, Product)
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Children = append(cal.Children, c)
	var b bytes.Buffer
	if err := ical.NewEncoder(&b).Encode(cal); err != nil {
		return "", "", fault.New(fault.Invalid, "event_invalid", "it cannot be written: %w", err)
	}
	for _, p := range Split(b.String(), c.Name) {
		if p.Comp != nil {
			return b.String(), p.Raw, nil
		}
	}
	return "", "", fault.New(fault.Internal, "event_invalid", "it cannot be read back")
}

// Zone returns the VTIMEZONE of a zone: its changes of the clock from a time on, for ten years.
func Zone(loc *time.Location, from time.Time) string {
	var b strings.Builder
	b.WriteString("BEGIN:VTIMEZONE\r\nTZID:" + loc.String() + "\r\n")
	at := from.In(loc).AddDate(0, 0, -1)
	for n := 0; n < 22; n++ {
		start, end := at.ZoneBounds()
		name, offset := at.Zone()
		before, onset := offset, start
		if start.IsZero() {
			onset = time.Date(1970, 1, 1, 0, 0, 0, 0, loc)
		} else {
			_, before = start.Add(-time.Second).Zone()
		}
		kind := map[bool]string{true: "DAYLIGHT", false: "STANDARD"}[at.IsDST()]
		fmt.Fprintf(&b, "BEGIN:%s\r\nDTSTART:%s\r\nTZOFFSETFROM:%s\r\nTZOFFSETTO:%s\r\nTZNAME:%s\r\nEND:%[1]s\r\n",
			kind, onset.UTC().Add(time.Duration(before)*time.Second).Format("20060102T150405"), offsetText(before), offsetText(offset), name)
		if end.IsZero() {
			break
		}
		at = end
	}
	b.WriteString("END:VTIMEZONE\r\n")
	return b.String()
}

func offsetText(seconds int) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	return fmt.Sprintf("%c%02d%02d", sign, seconds/3600, seconds/60%60)
}
