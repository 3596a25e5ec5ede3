package calendar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

type addArgs struct {
	Title     string        `json:"title" jsonschema:"what the event is called" minlen:"1" maxlen:"200"`
	Start     string        `json:"start" jsonschema:"when it begins" format:"date-time"`
	Minutes   int           `json:"duration_minutes,omitzero" jsonschema:"how many minutes it takes; 60 unless given" min:"1" max:"44640"`
	AllDay    bool          `json:"all_day,omitzero" jsonschema:"the event is all day long; of start only the date counts"`
	Repeat    string        `json:"repeat,omitzero" jsonschema:"daily, weekdays, weekly, monthly, yearly, or an RRULE such as FREQ=WEEKLY;BYDAY=MO,TH" maxlen:"300"`
	Location  string        `json:"location,omitzero" jsonschema:"the place where it is, such as a room" maxlen:"200"`
	Attendees []local.Email `json:"attendees,omitzero" jsonschema:"e-mail addresses of who is invited" maxlen:"50"`
	Notes     string        `json:"notes,omitzero" jsonschema:"what else is to be remembered" maxlen:"4000"`
	Calendar  string        `json:"calendar,omitzero" jsonschema:"the calendar; needed only if it matters which" maxlen:"200"`
}

// eventRef are the arguments that name an event.
type eventRef struct {
	Event    string `json:"event" jsonschema:"the title of the event, or words of it" minlen:"1" maxlen:"200"`
	Date     string `json:"date,omitzero" jsonschema:"the day on which the event is now; needed for one occurrence of an event that repeats" format:"date"`
	Calendar string `json:"calendar,omitzero" jsonschema:"the calendar in which it is; needed only if it matters" maxlen:"200"`
}

type moveArgs struct {
	eventRef
	Start     string        `json:"start" jsonschema:"when it begins instead" format:"date-time"`
	Minutes   int           `json:"duration_minutes,omitzero" jsonschema:"how many minutes it takes; as long as before unless given" min:"1" max:"44640"`
	Attendees []local.Email `json:"attendees,omitzero" jsonschema:"e-mail addresses of everybody who was invited, because the calendar's server tells them; others are invited" maxlen:"50"`
}

type removeArgs struct {
	eventRef
	Series    bool          `json:"series,omitzero" jsonschema:"an event that repeats is removed with all its occurrences"`
	Attendees []local.Email `json:"attendees,omitzero" jsonschema:"e-mail addresses of everybody who was invited, because the calendar's server tells them" maxlen:"50"`
}

type respondArgs struct {
	eventRef
	Answer    string      `json:"answer" jsonschema:"the answer" enum:"accept,decline,tentative"`
	Organizer local.Email `json:"organizer" jsonschema:"the e-mail address of who invites, as the calendar shows it: the answer goes there"`
}

// actions adds the tools that change the calendar.
func (s *service) actions(k *local.Kit) {
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("search"), k.Name("free")}}}
	there := len(s.Accounts.List) > 0
	reach := map[bool]tool.Reach{true: tool.ReachOut, false: tool.ReachHere}[there]
	local.Change(k, tool.Spec{Name: "add", Reach: tool.ReachOut, Targets: []string{"attendees"}, Tidy: stale, Timeout: timeout, Sentences: addSentences,
		Description: "Adds an event to the calendar: puts in or schedules a meeting or an appointment, and says if it overlaps with another.",
		Log:         tool.LogSpec{Summary: "Add {title} to the calendar[ {calendar}], {start:time}[, inviting {attendees}]", Does: changesCalendar, Impact: []string{"title", "attendees"}},
		Widths: []tool.Width{{Name: "add any event[ to the calendar {calendar}][, inviting {attendees}]",
			Any: []string{"title", "start", "duration_minutes", "all_day", "repeat", "location", "notes"}}}}, s.of, s.add, labelled)
	local.Change(k, tool.Spec{Name: "move", Reach: reach, Targets: []string{"attendees"}, Yields: ownLabels, Tidy: stale, Timeout: timeout, Sentences: moveSentences, // an event's title may come from others
		Description: "Moves an event in the calendar to another time: reschedules or postpones a meeting.",
		Log:         tool.LogSpec{Summary: "Move {event} to {start:time}[, telling {attendees}]", Does: changesCalendar, Impact: []string{"event", "attendees"}},
		Widths:      []tool.Width{{Name: "move any event[ in the calendar {calendar}][, telling {attendees}]", Any: []string{"event", "date", "start", "duration_minutes"}}}}, s.of, s.move, tool.Text)
	local.Change(k, tool.Spec{Name: "remove", Reach: reach, Targets: []string{"attendees"}, Yields: ownLabels, Tidy: stale, Timeout: timeout, Sentences: removeSentences,
		Description: "Removes an event from the calendar: cancels or deletes a meeting or an appointment.",
		Log:         tool.LogSpec{Summary: "Remove {event} from the calendar[ {calendar}][, telling {attendees}]", Does: changesCalendar, Impact: []string{"event", "attendees"}},
		Widths:      []tool.Width{{Name: "remove any event[ from the calendar {calendar}][, telling {attendees}]", Any: []string{"event", "date"}}}}, s.of, s.remove, tool.Text)
	if there {
		local.Change(k, tool.Spec{Name: "respond", Reach: tool.ReachOut, Targets: []string{"organizer"}, Yields: ownLabels, Tidy: stale, Timeout: timeout,
			Description: "Answers an invitation that is in the calendar: accepts or declines it, or says that it is tentative.",
			Log:         tool.LogSpec{Summary: "Answer the invitation to {event}: {answer}, to {organizer}", Does: "sends an answer to the organizer", Impact: []string{"event", "organizer"}},
			Widths:      []tool.Width{{Name: "answer {answer} to any invitation of {organizer}", Any: []string{"event", "date"}}}}, s.of, s.respond, tool.Text)
	}
}

const changesCalendar = "changes your calendar"

// at reads a time. Schemas do not enforce its format.
func (s *service) at(text string, zone *time.Location) (time.Time, error) {
	c, err := local.ReadClock(text, s.Time().In(zone))
	return c.In(zone), err
}

func (s *service) add(ctx context.Context, in tool.Invocation, a addArgs, st *store) (string, error) {
	zone := s.Location(in.User)
	start, err := s.at(a.Start, zone)
	if err != nil {
		return "", err
	}
	repeat := local.Rule(a.Repeat)
	if repeat != "" {
		if _, err := rule(repeat, zone); err != nil {
			return "", err
		}
	}
	e := Event{Title: strings.Join(strings.Fields(a.Title), " "), Start: start, Location: a.Location, Notes: a.Notes, Attendees: local.Texts(a.Attendees), AllDay: a.AllDay, Rule: repeat, Calendar: a.Calendar}
	if e.Title == "" {
		return "", fault.New(fault.Invalid, "title_missing", "the event has no title").WithHint("give it a title")
	}
	e.setEnd(minutes(a.Minutes, time.Hour), zone)
	return s.apply(ctx, in, st, Change{Do: adding, Event: e}, "Added %s to the calendar.")
}

// labelled returns the reply about a new event. It has labels if it names other events, whose titles may
// come from others.
func labelled(reply string) tool.Result {
	t := &message.Text{Text: reply}
	if strings.Contains(reply, overlapping) {
		t.Labels = ownLabels
	}
	return tool.Result{Content: []message.Block{t}}
}

// setEnd sets the end. All-day events begin and end at midnight, and their time is free.
func (e *Event) setEnd(d time.Duration, zone *time.Location) {
	if !e.AllDay {
		e.End = e.Start.Add(d)
		return
	}
	local := e.Start.In(zone)
	e.Start = time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, zone)
	e.End = e.Start.AddDate(0, 0, max(1, int((d+24*time.Hour-1)/(24*time.Hour))))
	e.Free = true
}

func minutes(n int, otherwise time.Duration) time.Duration {
	if n == 0 {
		return otherwise
	}
	return time.Duration(n) * time.Minute
}

// apply makes a change and returns a text about it and about overlapping events.
func (s *service) apply(ctx context.Context, in tool.Invocation, st *store, c Change, format string) (string, error) {
	zone := s.Location(in.User)
	clashes := ""
	if c.Do == adding || c.Do == moving {
		events, _, err := st.Between(ctx, c.Event.Start, c.Event.End, "")
		if err != nil {
			return "", tool.NotDone(err)
		}
		clashes = overlaps(c.Event, events, zone)
	}
	return st.Apply(ctx, local.Key(in), c, func(e Event) string {
		return fmt.Sprintf(format, fmt.Sprintf("%q, %s,", e.Title, e.span(zone))) + clashes
	})
}

// overlapping precedes the names of overlapping events.
const overlapping = " Note: it overlaps with "

// overlaps names the events that overlap with another one.
func overlaps(e Event, events []Event, zone *time.Location) string {
	var with []string
	for _, o := range events {
		if o.Free || e.Free || o.ID == e.ID && e.ID != "" && (e.Occurs.IsZero() || o.Occurs.Equal(e.Occurs)) || !o.overlaps(e.Start, e.End) {
			continue
		}
		if len(with) == 10 {
			with = append(with, "others")
			break
		}
		with = append(with, fmt.Sprintf("%q (%s)", o.Title, o.span(zone)))
	}
	if len(with) == 0 {
		return ""
	}
	return overlapping + strings.Join(with, " and ") + "."
}

func (s *service) move(ctx context.Context, in tool.Invocation, a moveArgs, st *store) (string, error) {
	zone := s.Location(in.User)
	start, err := s.at(a.Start, zone)
	if err != nil {
		return "", err
	}
	e, err := s.find(ctx, in, st, a.eventRef)
	if err != nil {
		return "", err
	}
	if e.Repeats && e.Occurs.IsZero() {
		return "", repeats(e)
	}
	if err := e.mayChange(local.Texts(a.Attendees)); err != nil {
		return "", err
	}
	length := e.End.Sub(e.Start)
	e.Start, e.Attendees = start, local.Texts(a.Attendees)
	e.setEnd(minutes(a.Minutes, length), zone)
	return s.apply(ctx, in, st, Change{Do: moving, Event: e}, "Moved %s in the calendar.")
}

func repeats(e Event) error {
	return fault.New(fault.Unsupported, "event_repeats", "%q repeats", e.Title).WithHint("give the date of the occurrence that is meant; a whole series can only be removed (series) and added again")
}

// mayChange checks that the people who are notified of a change are named in the call, so that whoever
// approves it sees them. Error codes: event_of_others, event_guests_missing.
func (e Event) mayChange(named []string) error {
	if e.reply != "" {
		return fault.New(fault.Denied, "event_of_others", "only the organizer %s can change %q", e.Organizer, e.Title).WithHint("answer the invitation instead, or write to them")
	}
	for _, g := range e.guests {
		if !slices.ContainsFunc(named, func(n string) bool { return strings.EqualFold(n, g) }) {
			return fault.New(fault.Conflict, "event_guests_missing", "%q has attendees, whom the calendar server notifies", e.Title).
				WithHint("give attendees: %s", strings.Join(e.guests, ", "))
		}
	}
	return nil
}

func (s *service) remove(ctx context.Context, in tool.Invocation, a removeArgs, st *store) (string, error) {
	e, err := s.find(ctx, in, st, a.eventRef)
	if err != nil {
		return "", err
	}
	format := "Removed %s from the calendar."
	switch {
	case a.Series:
		e.Occurs = time.Time{}
		format = "Removed %s and all its repetitions from the calendar."
	case e.Repeats && e.Occurs.IsZero():
		return "", repeats(e)
	}
	if e.reply == "" || !e.Occurs.IsZero() { // an invitation may be removed as a whole, without notifying anyone
		if err := e.mayChange(local.Texts(a.Attendees)); err != nil {
			return "", err
		}
	}
	return s.apply(ctx, in, st, Change{Do: removing, Event: e}, format)
}

func (s *service) respond(ctx context.Context, in tool.Invocation, a respondArgs, st *store) (string, error) {
	e, err := s.find(ctx, in, st, a.eventRef)
	if err != nil {
		return "", err
	}
	if e.reply == "" {
		return "", fault.New(fault.Invalid, "event_no_invitation", "%q is not an invitation to the user", e.Title).WithHint("list the calendar: it shows invitations")
	}
	if !strings.EqualFold(e.Organizer, strings.TrimSpace(string(a.Organizer))) {
		return "", fault.New(fault.Conflict, "event_guests_missing", "the answer goes to %s", e.Organizer).WithHint("give that as organizer")
	}
	reply := map[string]string{"accept": "ACCEPTED", "decline": "DECLINED", "tentative": "TENTATIVE"}[a.Answer]
	return s.apply(ctx, in, st, Change{Do: answering, Event: e, Reply: reply}, "Answered the invitation to %s: "+a.Answer+".")
}

// find returns the event that the words refer to. Error codes: event_not_found, event_ambiguous.
func (s *service) find(ctx context.Context, in tool.Invocation, st *store, w eventRef) (e Event, err error) {
	var all []Event
	if w.Date == "" {
		all, err = st.All(ctx, w.Calendar)
	} else {
		var date time.Time
		if date, err = local.ParseDay(w.Date, s.Time().In(s.Location(in.User))); err == nil {
			all, _, err = st.Between(ctx, date, date.AddDate(0, 0, 1), w.Calendar)
		}
	}
	if err != nil {
		return e, tool.NotDone(err)
	}
	return local.ExactlyOne("event", w.Event, named(all, w.Event, s.Time()), func(e Event) string { return e.shown(s.Location(in.User)) })
}

// named returns the events with an id, with a title, or with all the words. Events that are not over take
// precedence.
func named(all []Event, words string, now time.Time) []Event {
	return local.FirstMatches(all, func(e Event) bool { return e.Repeats || e.End.After(now) },
		func(e Event) bool { return e.ID == words },
		func(e Event) bool { return strings.EqualFold(e.Title, strings.TrimSpace(words)) },
		func(e Event) bool { return e.has(words) })
}

// has reports whether the event has all the words of a query.
func (e Event) has(query string) bool {
	text := strings.Join(append([]string{e.Title, e.Location, e.Notes}, e.Attendees...), "\n")
	return local.HasWords(text, query, "the", "my", "event", "a")
}
