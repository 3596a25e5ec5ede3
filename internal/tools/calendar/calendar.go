// Package calendar lets an agent see and change calendars: a user's iCalendar file, or calendars on servers
// (CalDAV).
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
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// Kind is where the tools come from; File is the name of a calendar of Steward's own.
const (
	Kind = "domain:calendar"
	File = "calendar.ics"
)

// Event is an event, or one occurrence of an event that repeats.
type Event struct {
	ID        string
	Title     string
	Start     time.Time // of an all-day event: midnight of its first day
	End       time.Time // not included
	AllDay    bool
	Location  string
	Notes     string
	Attendees []string
	Repeats   bool
	Free      bool      // its time is free for other events
	Occurs    time.Time // of one occurrence: the start that the series gives it
	Rule      string    // of a new event: its RRULE
	Organizer string    // who invites
	Calendar  string    // where it is; empty: the only one
	Unknown   string    // a time zone that it names and that is unknown; its times are taken for the user's

	replies []string    // of the attendees, in lower case
	reply   string      // the user's own, if another person invited the user
	own     []string    // the user's e-mail addresses, if the calendar is on a server
	guests  []string    // whom the server notifies if the event changes
	sends   bool        // the server sends invitations and answers
	object  *dav.Object // on a server
}

// overlaps reports whether two spans of time share more than an end.
func (e Event) overlaps(from, to time.Time) bool {
	if e.Start.Equal(e.End) { // a moment
		return !e.Start.Before(from) && e.Start.Before(to)
	}
	return e.Start.Before(to) && from.Before(e.End)
}

// Options configure the source. The zero value works.
type Options struct {
	local.Options
	Accounts dav.Accounts // the calendars of users who have one are on a server
}

// Add adds the tools to a kit. place is where a calendar of Steward's own and what is needed to undo
// changes are kept.
func Add(k *local.Kit, place local.Place, opt Options) {
	s := &service{opt, place}
	s.queries(k)
	s.actions(k)
}

// service holds the tools over the users' calendars.
type service struct {
	Options
	place local.Place
}

// Between returns the events of all calendars of a user that take place between two times.
func Between(ctx context.Context, place local.Place, opt Options, user string, from, to time.Time) ([]Event, error) {
	s := &service{Options: opt, place: place}
	st, err := s.of(ctx, user)
	if err != nil {
		return nil, err
	}
	events, _, err := st.Between(ctx, from, to, "")
	return events, err
}

// of returns the calendars of a user. The data for settling and undoing changes are kept beside the file, also
// for changes on a server.
func (s *service) of(ctx context.Context, user string) (*store, error) {
	there, err := s.Accounts.Has(ctx, user)
	path := s.place.For(user)
	st := &store{servers: dav.Book{Accounts: s.Accounts, User: user, Media: ical.MIMEType, Notes: path}, zone: s.Location(user), now: s.Time}
	if st.Changes = st.servers; !there {
		st.file = inFile(path)
		st.Changes = st.file
	}
	return st, err
}

// calendarRef names a calendar.
type calendarRef struct {
	Calendar string `json:"calendar,omitzero" jsonschema:"the calendar; all unless given" maxlen:"200"`
}

type listArgs struct {
	calendarRef
	Date  string `json:"date,omitzero" jsonschema:"the day, or the first of several; today unless given" format:"date"`
	Until string `json:"until,omitzero" jsonschema:"the end of the span, where it is longer than a day" format:"date"`
}

type searchArgs struct {
	calendarRef
	Query string `json:"query" jsonschema:"words to look for in titles, places, notes and attendees" minlen:"1" maxlen:"200"`
}

type freeArgs struct {
	calendarRef
	Date    string `json:"date" jsonschema:"the day" format:"date"`
	From    string `json:"from,omitzero" jsonschema:"the time of day from which on to look, as 08:00; 08:00 unless given" pattern:"^([01]\\d|2[0-3]):[0-5]\\d$"`
	Minutes int    `json:"minutes,omitzero" jsonschema:"how many minutes are needed at least; 30 unless given" min:"1" max:"1440"`
	To      string `json:"to,omitzero" jsonschema:"the time of day up to which to look; 20:00 unless given" pattern:"^([01]\\d|2[0-3]):[0-5]\\d$"`
}

const day = "2006-01-02"

// ownLabels are the labels of a calendar: it belongs to the user, and contains invitations of others.
const ownLabels = message.Private | message.Untrusted

// queries adds the tools that only read.
func (s *service) queries(k *local.Kit) {
	local.Query(k, tool.Spec{Name: "list", Yields: ownLabels, Tidy: local.ReplacesEarlier("date", "until", "calendar"), Sentences: listSentences,
		Description: "Lists the events in the calendar: shows what meetings and appointments there are on a day, or until another day.",
		Log:         tool.LogSpec{Summary: "Look at the calendar of {date|the coming days}"}}, s.list)
	local.Query(k, tool.Spec{Name: "search", Yields: ownLabels, Tidy: local.ReplacesEarlier("query", "calendar"), Sentences: searchSentences,
		Description: "Searches the calendar for an event by words: finds when a meeting or an appointment is.",
		Log:         tool.LogSpec{Summary: "Search the calendar for {query}"}}, s.search)
	local.Query(k, tool.Spec{Name: "free", Yields: ownLabels, Tidy: local.ReplacesEarlier("date", "minutes", "from", "to", "calendar"), Sentences: freeSentences,
		Description: "Tells when there is free time on a day, and what makes the rest busy: finds a gap between the events of the calendar.",
		Log:         tool.LogSpec{Summary: "Look for free time on {date}"}}, s.free)
}

func (s *service) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	zone := s.Location(in.User)
	from, err := local.ParseDay(a.Date, s.Time().In(zone))
	if err != nil {
		return "", err
	}
	to, err := local.ParseDay(a.Until, from)
	if err != nil {
		return "", err
	}
	if a.Date == "" && a.Until == "" {
		to = from.AddDate(0, 0, 6)
	}
	if to.Before(from) {
		return "", fault.New(fault.Invalid, "time_invalid", "%s is before %s", a.Until, from.Format(day)).WithHint("give the earlier day as date")
	}
	events, problems, err := s.between(ctx, in, from, to.AddDate(0, 0, 1), a.Calendar)
	if err != nil {
		return "", err
	}
	span := from.Format("Mon 2 Jan 2006")
	if !to.Equal(from) {
		span += " to " + to.Format("Mon 2 Jan 2006")
	}
	if len(events) == 0 {
		return withProblems("There is nothing in the calendar on "+span+".", problems), nil
	}
	return withProblems("In the calendar, "+span+":\n"+lines(events, zone), problems), nil
}

func (s *service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	st, err := s.of(ctx, in.User)
	if err != nil {
		return "", err
	}
	all, err := st.All(ctx, a.Calendar)
	if err != nil {
		return "", err
	}
	found := slices.DeleteFunc(all, func(e Event) bool { return !e.has(a.Query) })
	if len(found) == 0 {
		return fmt.Sprintf("No event in the calendar has %q.", a.Query), nil
	}
	return lines(found, s.Location(in.User)), nil
}

func (s *service) between(ctx context.Context, in tool.Invocation, from, to time.Time, calendar string) ([]Event, []string, error) {
	st, err := s.of(ctx, in.User)
	if err != nil {
		return nil, nil, err
	}
	return st.Between(ctx, from, to, calendar)
}

func (s *service) free(ctx context.Context, in tool.Invocation, a freeArgs) (string, error) {
	zone := s.Location(in.User)
	date, err := local.ParseDay(a.Date, s.Time().In(zone))
	if err != nil {
		return "", err
	}
	need := minutes(a.Minutes, 30*time.Minute)
	first, err := local.ReadClock(cmp.Or(a.From, "08:00"), date)
	last, lastErr := local.ReadClock(cmp.Or(a.To, "20:00"), date)
	if err := cmp.Or(err, lastErr); err != nil {
		return "", err
	}
	from, to := first.In(zone), last.In(zone)
	if !from.Before(to) {
		return "", fault.New(fault.Invalid, "time_invalid", "%s is not before %s", a.From, a.To).WithHint("give the earlier time as from")
	}
	events, problems, err := s.between(ctx, in, from, to, a.Calendar)
	if err != nil {
		return "", err
	}
	var gaps []string
	for _, g := range Gaps(events, from, to, need) {
		gaps = append(gaps, g[0].In(zone).Format("15:04")+"–"+g[1].In(zone).Format("15:04"))
	}
	out := fmt.Sprintf("Free on %s: %s.", date.Format("Mon 2 Jan 2006"), strings.Join(gaps, ", "))
	if len(gaps) == 0 {
		out = fmt.Sprintf("There is no gap of %d minutes on %s between %s and %s.", int(need.Minutes()), date.Format("Mon 2 Jan 2006"), from.Format("15:04"), to.Format("15:04"))
	}
	if len(events) > 0 {
		out += "\nIn the calendar:\n" + lines(events, zone)
	}
	return withProblems(out, problems), nil
}

// Gaps returns the free spans between two times that have at least the given length, in order.
func Gaps(events []Event, from, to time.Time, least time.Duration) [][2]time.Time {
	busy := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Free || !e.overlaps(from, to) })
	slices.SortFunc(busy, func(a, b Event) int { return a.Start.Compare(b.Start) })
	var out [][2]time.Time
	at := from
	gap := func(until time.Time) {
		if until.Sub(at) >= least && until.After(at) {
			out = append(out, [2]time.Time{at, until})
		}
	}
	for _, e := range busy {
		gap(e.Start)
		if e.End.After(at) {
			at = e.End
		}
	}
	gap(to)
	return out
}

func withProblems(text string, problems []string) string {
	for _, p := range problems {
		text += "\nNote: " + p
	}
	return text
}

func lines(events []Event, zone *time.Location) string {
	return local.List(events, 100, func(e Event) string { return "- " + e.shown(zone) })
}

// shown returns an event as one line.
func (e Event) shown(zone *time.Location) string {
	out := fmt.Sprintf("%q, %s", e.Title, e.span(zone))
	if e.Location != "" {
		out += ", at " + e.Location
	}
	if len(e.Attendees) > 0 {
		out += ", with " + strings.Join(e.Attendees, ", ")
	}
	if e.Notes != "" {
		out += ", notes: " + local.Line(e.Notes, 200)
	}
	if e.Repeats {
		out += " (repeats)"
	}
	if e.reply != "" {
		out += fmt.Sprintf(" (invited by %s, your answer: %s)", e.Organizer, e.reply)
	}
	if e.Calendar != "" {
		out += " in " + e.Calendar
	}
	if e.Unknown != "" {
		out += " (its time may be wrong: " + e.timeWarning(zone) + ")"
	}
	return out
}

// timeWarning says why the time of an event may be wrong.
func (e Event) timeWarning(zone *time.Location) string {
	return fmt.Sprintf("its time zone %q is unknown, and was taken for %s", local.Line(e.Unknown, 60), zone)
}

// span returns the time of an event in words.
func (e Event) span(zone *time.Location) string {
	const date = "Mon 2 Jan 2006"
	if e.AllDay {
		last := e.End.AddDate(0, 0, -1)
		if !last.After(e.Start) {
			return e.Start.Format(date) + ", all day"
		}
		return e.Start.Format(date) + " to " + last.Format(date)
	}
	from, to := e.Start.In(zone), e.End.In(zone)
	switch {
	case from.Equal(to):
		return from.Format(date + " 15:04")
	case from.Format(day) == to.Format(day):
		return from.Format(date+" 15:04") + "–" + to.Format("15:04")
	}
	return from.Format(date+" 15:04") + " to " + to.Format(date+" 15:04")
}
