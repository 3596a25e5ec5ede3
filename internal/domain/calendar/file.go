package calendar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/id"
)

// file is a user's calendar: an iCalendar file, which other programs may read and write, too. Each change
// is marked with its key in the same write.
type file struct {
	local.Record
	zone *time.Location
	now  func() time.Time
}

const maxFile = 16 << 20 // bytes

func (f *file) load() ([]piece, error) {
	data, err := local.ReadFile(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(data), nil
}

// Between returns the events in a span of time, including repetitions, sorted by start. problems describes
// what cannot be read.
func (f *file) Between(ctx context.Context, from, to time.Time) (events []Event, problems []string, err error) {
	pieces, err := f.load()
	if err != nil {
		return nil, nil, err
	}
	problem := func(p piece, err error) {
		problems = append(problems, fmt.Sprintf("the event at line %d of the calendar's file: %v", p.line, err))
	}
	for _, p := range pieces {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if p.bad != nil {
			problem(p, p.bad)
		}
		if p.event == nil {
			continue
		}
		e, err := event(p.event, f.zone)
		if err != nil {
			problem(p, err)
			continue
		}
		list, err := occurrences(p.event, e, from, to, f.zone)
		if err != nil {
			problem(p, err)
		}
		events = append(events, list...)
	}
	sorted(events)
	return events, problems, nil
}

// All returns every event once, sorted by its first start.
func (f *file) All(ctx context.Context) ([]Event, error) {
	pieces, err := f.load()
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, p := range pieces {
		if p.event == nil {
			continue
		}
		if e, err := event(p.event, f.zone); err == nil { // Between reports broken events
			events = append(events, e)
		}
	}
	sorted(events)
	return events, ctx.Err()
}

func sorted(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End), cmp.Compare(a.Title, b.Title))
	})
}

// done returns the text of the change under a key.
func done(data []byte, key string) (string, bool) {
	mark := doneLine + keyWord(key) + ":"
	for line := range strings.Lines(unfolded(data)) {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			p := ical.NewProp("X")
			p.Value = strings.TrimRight(rest, "\r\n")
			told, err := p.Text()
			if err != nil {
				told = p.Value
			}
			return told, true
		}
	}
	return "", false
}

func unfolded(data []byte) string {
	return strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(string(data))
}

// keyWord returns a key in the form of a parameter.
func keyWord(key string) string { return id.Derive("calendar", key).String() }

// Apply makes a change, once for each key, and returns the text of told. Repeated, it returns the same text.
func (f *file) Apply(ctx context.Context, key string, c Change, told func(Event) string) (string, error) {
	said, err := f.Record.Change(ctx, []string{key}, func(_ int, old []byte) ([]byte, local.Former, string, error) {
		pieces, e, was, err := f.change(parse(old), key, c)
		if err != nil {
			return nil, was, "", err
		}
		was.What = fmt.Sprintf("the event %q", e.Title)
		said := told(e)
		return []byte(join(pieces, mark(key, said))), was, said, nil
	})
	if err != nil {
		return "", err
	}
	return said[0], nil
}

// back undoes a change and marks that.
func back(old []byte, was local.Former, under string) ([]byte, string, error) {
	pieces, err := reverse(parse(old), was)
	if err != nil {
		return nil, "", err
	}
	said := "The calendar is as it was before: " + was.What + "."
	return []byte(join(pieces, mark(under, said))), said, nil
}

// reverse undoes a change in the pieces of a file.
func reverse(pieces []piece, was local.Former) ([]piece, error) {
	var raws []string
	for _, p := range pieces {
		raws = append(raws, p.raw)
	}
	added := false
	now, err := was.Reverse(raws, func(pieces []string, before string) []string {
		added = true
		return pieces
	})
	switch {
	case err != nil:
		return nil, err
	case added:
		return append(pieces, piece{raw: was.Before, event: &ical.Component{}}), nil
	}
	i := slices.Index(raws, was.After)
	if len(now) < len(pieces) {
		return slices.Delete(pieces, i, i+1), nil
	}
	pieces[i].raw = was.Before
	return pieces, nil
}

// change makes a change in the pieces of a file.
func (f *file) change(pieces []piece, key string, c Change) ([]piece, Event, local.Former, error) {
	var was local.Former
	if c.Add != nil {
		e := *c.Add
		e.ID = keyWord(key) + "@steward.local"
		raw, err := encode(e.component(f.now()))
		was.After = raw
		return append(pieces, piece{raw: raw, event: &ical.Component{}}), e, was, err
	}
	want := c.Remove
	if c.Move != nil {
		want = c.Move.ID
	}
	for i, p := range pieces {
		if p.event == nil || text(p.event, ical.PropUID) != want {
			continue
		}
		e, err := event(p.event, f.zone)
		if err != nil {
			return nil, e, was, fault.New(fault.Invalid, "event_invalid", "the event cannot be read: %w", err)
		}
		was.Before = p.raw
		if c.Move == nil {
			return slices.Delete(pieces, i, i+1), e, was, nil
		}
		if e.Repeats {
			return nil, e, was, fault.New(fault.Unsupported, "event_repeats", "%q repeats, and cannot be moved here", e.Title).
				WithHint("add a single event, or change the rule in the calendar's file")
		}
		c.Move.times(p.event)
		p.event.Props.SetDateTime(ical.PropLastModified, f.now().UTC())
		if p.event.Props.Get(ical.PropDateTimeStamp) == nil {
			p.event.Props.SetDateTime(ical.PropDateTimeStamp, f.now().UTC())
		}
		raw, err := encode(p.event)
		pieces[i].raw, was.After = raw, raw
		return pieces, *c.Move, was, err
	}
	return nil, Event{}, was, fault.New(fault.NotFound, "event_not_found", "the event is not in the calendar any more").WithHint("search the calendar for it")
}

// mark returns the line with a key and the text that was returned.
func mark(key, told string) string {
	p := ical.NewProp("X")
	p.SetText(plain(told))
	return folded(doneLine + keyWord(key) + ":" + p.Value)
}

// folded breaks a line after at most 75 bytes, between characters (RFC 5545, 3.1).
func folded(line string) string {
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

// join returns the content of the pieces. New events and the mark are inserted before the calendar's end,
// and the oldest marks beyond maxDone are removed.
func join(pieces []piece, mark string) string {
	var b strings.Builder
	tail := ""
	var fresh strings.Builder
	for i, p := range pieces {
		if p.line == 0 { // added
			fresh.WriteString(p.raw)
			continue
		}
		if at := lastEnd(p.raw); at >= 0 && !anyEnd(pieces[i+1:]) {
			b.WriteString(p.raw[:at])
			tail = p.raw[at:]
			continue
		}
		if tail != "" { // something after the end of the calendar
			tail += p.raw
			continue
		}
		b.WriteString(p.raw)
	}
	head := b.String()
	if strings.TrimSpace(head) == "" && tail == "" {
		head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:" + product + "\r\n"
	}
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\r\n"
	}
	if tail == "" {
		tail = "END:VCALENDAR\r\n"
	}
	return forget(head+fresh.String()+mark) + tail
}

// lastEnd returns where the last line END:VCALENDAR begins, or -1.
func lastEnd(raw string) int {
	at, found := 0, -1
	for line := range strings.Lines(raw) {
		if strings.EqualFold(strings.TrimSpace(line), "END:VCALENDAR") {
			found = at
		}
		at += len(line)
	}
	return found
}

func anyEnd(pieces []piece) bool {
	return slices.ContainsFunc(pieces, func(p piece) bool { return p.line > 0 && p.event == nil && lastEnd(p.raw) >= 0 })
}

// forget removes the oldest marks if there are too many.
func forget(text string) string {
	extra := strings.Count(text, "\n"+doneLine) - maxDone
	if extra <= 0 {
		return text
	}
	var b strings.Builder
	dropping := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, doneLine):
			dropping = extra > 0
			extra--
		case dropping && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")):
		default:
			dropping = false
		}
		if !dropping {
			b.WriteString(line)
		}
	}
	return b.String()
}
