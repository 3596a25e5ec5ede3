// Package calendar lets an agent see and change a calendar, which is an iCalendar file.
package calendar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:calendar"

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
	Free      bool // its time is free for other events
}

// overlaps reports whether two spans of time share more than an end.
func (e Event) overlaps(from, to time.Time) bool {
	if e.Start.Equal(e.End) { // a moment
		return !e.Start.Before(from) && e.Start.Before(to)
	}
	return e.Start.Before(to) && from.Before(e.End)
}

// Change is a change of a calendar. Exactly one member is set.
type Change struct {
	Add    *Event // the calendar assigns the ID
	Move   *Event // the event with this ID gets this Start, End and AllDay
	Remove string // the ID
}

// Options configure the source. The zero value works.
type Options = local.Options

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Declared `yaml:",inline"`
	File           string `yaml:"file"` // an .ics file
}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		place, err := local.NewPlace(env, d.File, "calendar.ics")
		if err != nil {
			return nil, err
		}
		k := local.NewKit(env, Kind)
		if err := k.Deliver(d.Declared, d.File); err != nil {
			return nil, err
		}
		s := &service{Options: opt, place: place}
		s.queries(k)
		s.actions(k)
		return k.Source()
	}
}

// service holds the tools over the users' calendars.
type service struct {
	Options
	place local.Place
}

// of returns the calendar of a user.
func (s *service) of(user string) *file {
	return &file{local.Record{Path: s.place.For(user), Max: maxFile, Done: done, Back: back}, s.Location(user), s.Time}
}

type listArgs struct {
	Date  string `json:"date,omitzero" jsonschema:"the day, or the first of several; today unless given" format:"date"`
	Until string `json:"until,omitzero" jsonschema:"the end of the span, where it is longer than a day" format:"date"`
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"words to look for in titles, places, notes and attendees" minlen:"1" maxlen:"200"`
}

type freeArgs struct {
	Date    string `json:"date" jsonschema:"the day" format:"date"`
	From    string `json:"from,omitzero" jsonschema:"the time of day from which on to look, as 08:00; 08:00 unless given" pattern:"^([01]\\d|2[0-3]):[0-5]\\d$"`
	Minutes int    `json:"minutes,omitzero" jsonschema:"how many minutes are needed at least; 30 unless given" min:"1" max:"1440"`
	To      string `json:"to,omitzero" jsonschema:"the time of day up to which to look; 20:00 unless given" pattern:"^([01]\\d|2[0-3]):[0-5]\\d$"`
}

const day = "2006-01-02"

// mine are the labels of a calendar: it belongs to the user, and contains invitations of others.
const mine = message.Private | message.Untrusted

// queries adds the tools that only read.
func (s *service) queries(k *local.Kit) {
	local.Query(k, tool.Spec{Name: "list", Yields: mine, Tidy: local.Again("date", "until"),
		Description: "Lists the events in the calendar: shows what meetings and appointments there are on a day, or until another day.",
		Log:         tool.LogSpec{Summary: "Look at the calendar of {date|the coming days}"}}, s.list)
	local.Query(k, tool.Spec{Name: "search", Yields: mine, Tidy: local.Again("query"),
		Description: "Searches the calendar for an event by words: finds when a meeting or an appointment is.",
		Log:         tool.LogSpec{Summary: "Search the calendar for {query}"}}, s.search)
	local.Query(k, tool.Spec{Name: "free", Yields: mine, Tidy: local.Again("date", "minutes", "from", "to"),
		Description: "Tells when there is free time on a day, and what makes the rest busy: finds a gap between the events of the calendar.",
		Log:         tool.LogSpec{Summary: "Look for free time on {date}"}}, s.free)
}

func (s *service) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	zone := s.Location(in.User)
	from, err := local.Day(a.Date, s.Time().In(zone))
	if err != nil {
		return "", err
	}
	to, err := local.Day(a.Until, from)
	if err != nil {
		return "", err
	}
	if a.Date == "" && a.Until == "" {
		to = from.AddDate(0, 0, 6)
	}
	if to.Before(from) {
		return "", fault.New(fault.Invalid, "time_invalid", "%s is before %s", a.Until, from.Format(day)).WithHint("give the earlier day as date")
	}
	events, problems, err := s.of(in.User).Between(ctx, from, to.AddDate(0, 0, 1))
	if err != nil {
		return "", err
	}
	span := from.Format("Mon 2 Jan 2006")
	if !to.Equal(from) {
		span += " to " + to.Format("Mon 2 Jan 2006")
	}
	if len(events) == 0 {
		return noted("There is nothing in the calendar on "+span+".", problems), nil
	}
	return noted("In the calendar, "+span+":\n"+lines(events, zone), problems), nil
}

func (s *service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	all, err := s.of(in.User).All(ctx)
	if err != nil {
		return "", err
	}
	found := slices.DeleteFunc(all, func(e Event) bool { return !e.has(a.Query) })
	if len(found) == 0 {
		return fmt.Sprintf("No event in the calendar has %q.", a.Query), nil
	}
	const most = 50
	more := ""
	if len(found) > most {
		more, found = fmt.Sprintf("\n(and %d more)", len(found)-most), found[:most]
	}
	return lines(found, s.Location(in.User)) + more, nil
}

func (s *service) free(ctx context.Context, in tool.Invocation, a freeArgs) (string, error) {
	zone := s.Location(in.User)
	date, err := local.Day(a.Date, s.Time().In(zone))
	if err != nil {
		return "", err
	}
	need := time.Duration(max(a.Minutes, 0)) * time.Minute
	if need == 0 {
		need = 30 * time.Minute
	}
	from, to := clockOn(date, a.From, 8), clockOn(date, a.To, 20)
	if !from.Before(to) {
		return "", fault.New(fault.Invalid, "time_invalid", "%s is not before %s", a.From, a.To).WithHint("give the earlier time as from")
	}
	events, problems, err := s.of(in.User).Between(ctx, from, to)
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
	return noted(out, problems), nil
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

func clockOn(date time.Time, text string, hour int) time.Time {
	minute := 0
	if t, err := time.Parse("15:04", text); err == nil {
		hour, minute = t.Hour(), t.Minute()
	}
	return time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, date.Location())
}

func noted(text string, problems []string) string {
	for _, p := range problems {
		text += "\nNote: " + p
	}
	return text
}

func lines(events []Event, zone *time.Location) string {
	var out []string
	for _, e := range events {
		out = append(out, "- "+e.shown(zone))
	}
	return strings.Join(out, "\n")
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
		out += ", notes: " + local.Clip(strings.Join(strings.Fields(e.Notes), " "), 200)
	}
	if e.Repeats {
		out += " (repeats)"
	}
	return out
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
