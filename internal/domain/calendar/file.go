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
	"steward/internal/id"
)

// file is a user's calendar: an iCalendar file, which other programs may read and write, too.
type file struct {
	local.Record
	zone *time.Location
	now  func() time.Time
}

const maxFile = 16 << 20 // bytes

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

// keyWord returns a key as part of an ID or of a name.
func keyWord(key string) string { return id.Derive("calendar", key).String() }

// Apply implements store.
func (f *file) Apply(ctx context.Context, key string, c Change, told func(Event) string) (string, error) {
	ed := editor{f.zone, f.now()}
	said, err := f.Record.Change(ctx, []string{key}, func(_ int, old []byte) ([]byte, local.Note, error) {
		pieces, e, n, err := ed.change(dav.Split(string(old), ical.CompEvent), keyWord(key)+"@steward.local", c)
		n.What, n.Told = fmt.Sprintf("the event %q", e.Title), told(e)
		return []byte(join(pieces)), n, err
	})
	return said[0], err
}

// back undoes a change.
func back(old []byte, n local.Note) ([]byte, error) {
	pieces := dav.Split(string(old), ical.CompEvent)
	uid := ""
	for _, p := range dav.Split(n.Before+n.After, ical.CompEvent) {
		if p.Comp != nil {
			uid = dav.TextOf(p.Comp, ical.PropUID)
		}
	}
	if linesOf(pieces, uid) != n.After {
		return nil, local.ChangedSince(n.What)
	}
	return []byte(join(replace(pieces, uid, n.Before))), nil
}

// join returns the content of the pieces. New events are inserted before the calendar's end.
func join(pieces []dav.Piece) string {
	var b, fresh strings.Builder
	tail := ""
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
	return head + fresh.String() + tail
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
