package calendar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/domain/dav"
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

const (
	maxFile  = 16 << 20                // bytes
	doneLine = "X-STEWARD-DONE;X-KEY=" // the mark of a change: its key and the text that was returned
	maxDone  = 200                     // marks that are not removed
)

func (f *file) load() ([]dav.Piece, error) {
	data, err := local.ReadFile(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	return dav.Split(string(data), ical.CompEvent), nil
}

// Between implements store.
func (f *file) Between(ctx context.Context, from, to time.Time, _ string) (events []Event, problems []string, err error) {
	pieces, err := f.load()
	if err != nil {
		return nil, nil, err
	}
	v := newView(from, to, f.zone)
	err = v.add(ctx, pieces, func(p dav.Piece) string { return fmt.Sprintf("the event at line %d of the calendar's file", p.Line) }, func(*Event) {})
	return sorted(v.events), v.problems, err
}

// All implements store.
func (f *file) All(ctx context.Context, _ string) ([]Event, error) {
	pieces, err := f.load()
	if err != nil {
		return nil, err
	}
	return sorted(each(pieces, f.zone)), ctx.Err()
}

// each returns every event once: a series, and single ones, but not the changed occurrences of a series.
// Between reports those that are broken.
func each(pieces []dav.Piece, zone *time.Location) (events []Event) {
	series := map[string]bool{}
	for _, p := range pieces {
		if _, one := recurs(p.Comp, zone); p.Comp != nil && !one {
			series[dav.TextOf(p.Comp, ical.PropUID)] = true
		}
	}
	for _, p := range pieces {
		if p.Comp == nil {
			continue
		}
		if e, err := event(p.Comp, zone); err == nil && (e.Occurs.IsZero() || !series[e.ID]) {
			events = append(events, e)
		}
	}
	return events
}

// done returns the text of the change under a key.
func done(data []byte, key string) (string, bool) {
	mark := doneLine + keyWord(key) + ":"
	for line := range strings.Lines(dav.Unfolded(string(data))) {
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

// keyWord returns a key in the form of a parameter.
func keyWord(key string) string { return id.Derive("calendar", key).String() }

// Apply implements store.
func (f *file) Apply(ctx context.Context, key string, c Change, told func(Event) string) (string, error) {
	ed := editor{f.zone, f.now()}
	said, err := f.Record.Change(ctx, []string{key}, func(_ int, old []byte) ([]byte, local.Former, string, error) {
		pieces, e, was, err := ed.change(dav.Split(string(old), ical.CompEvent), keyWord(key)+"@steward.local", c)
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
	pieces := dav.Split(string(old), ical.CompEvent)
	uid := ""
	for _, p := range dav.Split(was.Before+was.After, ical.CompEvent) {
		if p.Comp != nil {
			uid = dav.TextOf(p.Comp, ical.PropUID)
		}
	}
	if linesOf(pieces, uid) != was.After {
		return nil, "", fault.New(fault.Conflict, "changed_since", "%.200s was changed since, or is not there any more", was.What).WithHint("undo it by hand")
	}
	said := "The calendar is as it was before: " + was.What + "."
	return []byte(join(replace(pieces, uid, was.Before), mark(under, said))), said, nil
}

// mark returns the line with a key and the text that was returned.
func mark(key, told string) string {
	p := ical.NewProp("X")
	p.SetText(dav.Plain(told))
	return dav.Folded(doneLine + keyWord(key) + ":" + p.Value)
}

// join returns the content of the pieces. New events and the mark are inserted before the calendar's end,
// and the oldest marks beyond maxDone are removed.
func join(pieces []dav.Piece, mark string) string {
	var b strings.Builder
	tail := ""
	var fresh strings.Builder
	for i, p := range pieces {
		if p.Line == 0 { // added
			fresh.WriteString(p.Raw)
			continue
		}
		if at := lastEnd(p.Raw); at >= 0 && !anyEnd(pieces[i+1:]) {
			b.WriteString(p.Raw[:at])
			tail = p.Raw[at:]
			continue
		}
		if tail != "" { // something after the end of the calendar
			tail += p.Raw
			continue
		}
		b.WriteString(p.Raw)
	}
	head := b.String()
	if strings.TrimSpace(head) == "" && tail == "" {
		head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:" + dav.Product + "\r\n"
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

func anyEnd(pieces []dav.Piece) bool {
	return slices.ContainsFunc(pieces, func(p dav.Piece) bool { return p.Line > 0 && p.Comp == nil && lastEnd(p.Raw) >= 0 })
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
