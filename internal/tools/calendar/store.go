package calendar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// timeout is the time limit of one call: several servers may be asked.
const timeout = 90 * time.Second

// store is a user's calendars: a file, or those on servers. The last argument of the reading methods names
// one of several.
type store struct {
	local.Changes
	servers dav.Book
	file    *local.Record // nil: the calendars are on servers
	zone    *time.Location
	now     func() time.Time
}

const maxFile = 16 << 20 // bytes

// inFile returns a calendar in a file, which other programs may read and write, too.
func inFile(path string) *local.Record {
	uid := func(n local.Note) string {
		for _, p := range dav.Split(n.Before+n.After, ical.CompEvent) {
			if p.Comp != nil {
				return dav.TextOf(p.Comp, ical.PropUID)
			}
		}
		return ""
	}
	return &local.Record{Name: "calendar", Path: path, Max: maxFile,
		Part: func(text string, n local.Note) string { return dav.LinesOf(dav.Split(text, ical.CompEvent), uid(n)) },
		Splice: func(file string, n local.Note, lines string) string {
			return dav.Join(dav.Replace(dav.Split(file, ical.CompEvent), uid(n), lines))
		}}
}

// Between returns the events in a span of time, including repetitions, sorted by start. problems describes
// what cannot be read.
func (r *store) Between(ctx context.Context, from, to time.Time, calendar string) ([]Event, []string, error) {
	v := &view{from: from, to: to, zone: r.zone}
	problems, err := r.objects(ctx, from, to, calendar, func(c dav.Collection, o dav.Object) error {
		return v.add(ctx, dav.Split(o.Text, ical.CompEvent), func(p dav.Piece) string {
			if r.file != nil {
				return fmt.Sprintf("the event at line %d of the calendar's file", p.Line)
			}
			return "an event of " + c.Name
		}, locate(c, o))
	})
	return sorted(v.events), append(problems, v.problems...), err
}

// All returns every event once, sorted by its first start. On servers it looks a year back and two years
// ahead.
func (r *store) All(ctx context.Context, calendar string) (all []Event, err error) {
	now := r.now()
	_, err = r.objects(ctx, now.AddDate(-1, 0, 0), now.AddDate(2, 0, 0), calendar, func(c dav.Collection, o dav.Object) error {
		with := locate(c, o)
		for _, e := range each(dav.Split(o.Text, ical.CompEvent), r.zone) {
			with(&e)
			all = append(all, e)
		}
		return ctx.Err()
	})
	return sorted(all), err
}

// each returns every event once: a series, and single ones, but not the changed occurrences of a series.
// Between reports those that are broken.
func each(pieces []dav.Piece, zone *time.Location) (events []Event) {
	zones := dav.ZonesIn(pieces, zone)
	series := map[string]bool{}
	for _, p := range pieces {
		if _, one := recurs(p.Comp, zones); p.Comp != nil && !one {
			series[dav.TextOf(p.Comp, ical.PropUID)] = true
		}
	}
	for _, p := range pieces {
		if p.Comp == nil {
			continue
		}
		if e, err := event(p.Comp, zones); err == nil && (e.Occurs.IsZero() || !series[e.ID]) {
			events = append(events, e)
		}
	}
	return events
}

// objects hands over the file, or the objects of a span of time. RFC 4791, section 7.8: the server returns
// whole objects, whose repetitions are computed here.
func (r *store) objects(ctx context.Context, from, to time.Time, calendar string, each func(dav.Collection, dav.Object) error) (problems []string, err error) {
	if r.file != nil {
		text, err := r.file.Read()
		if err != nil {
			return nil, err
		}
		return nil, each(dav.Collection{}, dav.Object{Text: text})
	}
	all, problems, err := r.servers.Accounts.Find(ctx, r.servers.User, dav.Events, calendar)
	if err != nil {
		return nil, err
	}
	if !to.After(from) {
		to = from.Add(time.Second) // servers refuse an empty span
	}
	const form = "20060102T150405Z"
	report := `<c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/><c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">` +
		`<c:time-range start="` + from.UTC().Format(form) + `" end="` + to.UTC().Format(form) + `"/></c:comp-filter></c:comp-filter></c:filter></c:calendar-query>`
	for i, c := range all {
		list, err := c.Query(ctx, report)
		if err != nil {
			if ctx.Err() != nil || i == len(all)-1 && len(problems) == i {
				return nil, err // nothing could be read
			}
			problems = append(problems, c.Name+": "+fault.Of(err).Message)
		}
		for _, o := range list {
			if err := each(c, o); err != nil {
				return nil, err
			}
		}
	}
	return problems, nil
}

// locate returns a function that notes where an event is, and what that means for the user.
func locate(c dav.Collection, o dav.Object) func(*Event) {
	return func(e *Event) {
		e.Calendar, e.object, e.own, e.sends = c.Name, &o, c.Addresses, c.Sends
		own := func(a string) bool { return slices.Contains(c.Addresses, strings.ToLower(a)) }
		for i, a := range e.Attendees {
			switch {
			case own(a) && e.Organizer != "" && !own(e.Organizer):
				e.reply = e.replies[i]
				e.Free = e.Free || e.reply == "declined"
			case !own(a) && c.Sends && own(e.Organizer):
				e.guests = append(e.guests, a)
			}
		}
	}
}

// keyID returns a key as part of an ID or of a name.
func keyID(key string) string { return id.Derive("calendar", key).String() }

// Apply makes a change, once for each key, and returns the text that reply makes. Repeated, it returns the same text.
func (r *store) Apply(ctx context.Context, key string, c Change, reply func(Event) string) (string, error) {
	ed := editor{zone: r.zone, now: r.now()}
	if r.file != nil {
		said, err := r.file.Change(ctx, []string{key}, func(_ int, text string) (n local.Note, err error) {
			e, before, after, err := ed.change(dav.Split(text, ical.CompEvent), keyID(key), c)
			return local.Note{Before: before, After: after, What: fmt.Sprintf("the event %q", e.Title), Reply: reply(e)}, err
		})
		return said[0], err
	}
	e := &c.Event
	o, err := r.place(ctx, key, c.Do, e)
	if err != nil {
		return "", err
	}
	if e.sends && len(e.own) > 0 && c.Do != answering {
		e.Organizer = cmp.Or(e.Organizer, e.own[0])
	}
	pieces := dav.Split(o.Text, ical.CompEvent)
	now, _, lines, err := ed.change(pieces, keyID(key), c)
	if err != nil {
		return "", err
	}
	say := reply(now) + c.notifies()
	if c.Do == adding {
		say += " It is in " + e.Calendar + "."
	}
	after := ""
	if pieces = dav.Replace(pieces, now.ID, lines); slices.ContainsFunc(pieces, func(p dav.Piece) bool { return p.Comp != nil }) {
		after = dav.Join(pieces)
	}
	return r.servers.Do(ctx, key, dav.Edit{Object: o, After: after, What: fmt.Sprintf("the event %q", now.Title), Reply: say})
}

// place returns where a change is made on a server. It completes a new event.
func (r *store) place(ctx context.Context, key string, do changeKind, e *Event) (dav.Object, error) {
	if do != adding {
		return *e.object, nil
	}
	all, _, err := r.servers.Accounts.Find(ctx, r.servers.User, dav.Events, e.Calendar)
	if err != nil {
		return dav.Object{}, err
	}
	to, err := dav.ForNew(all)
	if err != nil {
		return dav.Object{}, err
	}
	e.Calendar, e.own, e.sends = to.Name, to.Addresses, to.Sends
	return to.New(keyID(key)+".ics", ""), nil
}

// notifies returns whom the server notifies of a change.
func (c Change) notifies() string {
	e := c.Event
	to := e.Attendees
	switch c.Do {
	case answering:
		to = []string{e.Organizer}
	case removing:
		to = e.guests
	}
	switch {
	case len(to) == 0:
		return ""
	case e.sends && len(e.own) > 0:
		return " The server notifies " + strings.Join(to, ", ") + "."
	}
	return " The server sends no invitations: " + strings.Join(to, ", ") + " must be notified in another way."
}
