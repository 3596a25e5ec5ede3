package calendar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/domain/dav"
	"steward/internal/fault"
)

// timeout is the time limit of one call: several servers may be asked.
const timeout = 90 * time.Second

// remote is a user's calendars on servers.
type remote struct {
	dav.Book
	zone *time.Location
	now  func() time.Time
}

// Between implements store.
func (r *remote) Between(ctx context.Context, from, to time.Time, calendar string) ([]Event, []string, error) {
	v := newView(from, to, r.zone)
	problems, err := r.objects(ctx, from, to, calendar, func(c dav.Collection, o dav.Object) error {
		return v.add(ctx, dav.Split(o.Text, ical.CompEvent), func(dav.Piece) string { return "an event of " + c.Name }, placed(c, o))
	})
	return sorted(v.events), append(problems, v.problems...), err
}

// All implements store. It looks a year back and two years ahead.
func (r *remote) All(ctx context.Context, calendar string) (all []Event, err error) {
	now := r.now()
	_, err = r.objects(ctx, now.AddDate(-1, 0, 0), now.AddDate(2, 0, 0), calendar, func(c dav.Collection, o dav.Object) error {
		with := placed(c, o)
		for _, e := range each(dav.Split(o.Text, ical.CompEvent), r.zone) {
			with(&e)
			all = append(all, e)
		}
		return ctx.Err()
	})
	return sorted(all), err
}

// objects hands over the objects of a span of time. RFC 4791, section 7.8: the server returns whole
// objects, whose repetitions are computed here.
func (r *remote) objects(ctx context.Context, from, to time.Time, calendar string, each func(dav.Collection, dav.Object) error) (problems []string, err error) {
	all, problems, err := r.Accounts.Find(ctx, r.User, dav.Events, calendar)
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

// placed returns a function that notes where an event is, and what that means for the user.
func placed(c dav.Collection, o dav.Object) func(*Event) {
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

// Apply implements store.
func (r *remote) Apply(ctx context.Context, key string, c Change, told func(Event) string) (string, error) {
	e := c.about()
	var o dav.Object
	if c.Add != nil {
		all, _, err := r.Accounts.Find(ctx, r.User, dav.Events, e.Calendar)
		if err != nil {
			return "", err
		}
		to, err := dav.ForNew(all)
		if err != nil {
			return "", err
		}
		o = to.New(keyWord(key)+".ics", "")
		e.Calendar, e.own, e.sends = to.Name, to.Addresses, to.Sends
	} else {
		o = *e.object
	}
	if e.sends && len(e.own) > 0 && c.Answer == nil {
		e.Organizer = cmp.Or(e.Organizer, e.own[0])
	}
	pieces, now, _, err := editor{r.zone, r.now()}.change(dav.Split(o.Text, ical.CompEvent), keyWord(key), c)
	if err != nil {
		return "", err
	}
	text := ""
	if slices.ContainsFunc(pieces, func(p dav.Piece) bool { return p.Comp != nil }) {
		text = join(pieces)
	}
	return r.Do(ctx, key, dav.Edit{Object: o, After: text, What: fmt.Sprintf("the event %q", now.Title), Told: told(now) + c.goesTo() + in(c)})
}

// in names the calendar of a new event.
func in(c Change) string {
	if c.Add == nil {
		return ""
	}
	return " It is in " + c.Add.Calendar + "."
}

// goesTo says who is told of a change by the server.
func (c Change) goesTo() string {
	e := c.about()
	to := e.Attendees
	switch {
	case c.Answer != nil:
		to = []string{e.Organizer}
	case c.Remove != nil:
		to = e.guests
	}
	switch {
	case len(to) == 0:
		return ""
	case e.sends && len(e.own) > 0:
		return " The server tells " + strings.Join(to, ", ") + "."
	}
	return " The server sends nothing: " + strings.Join(to, ", ") + " must be told in another way."
}
