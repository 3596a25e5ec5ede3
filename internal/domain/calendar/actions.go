package calendar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

type addArgs struct {
	Title     string   `json:"title"`
	Start     string   `json:"start"`
	Minutes   int      `json:"duration_minutes,omitzero"`
	AllDay    bool     `json:"all_day,omitzero"`
	Location  string   `json:"location,omitzero"`
	Attendees []string `json:"attendees,omitzero"`
	Notes     string   `json:"notes,omitzero"`
}

// JSONSchema returns the schema, with formats that tags cannot express.
func (addArgs) JSONSchema() string {
	return `{"type":"object","properties":{
"title":{"type":"string","minLength":1,"maxLength":200,"description":"what the event is called"},
"start":{"type":"string","format":"date-time","description":"when it begins"},
"duration_minutes":{"type":"integer","minimum":1,"maximum":44640,"description":"how many minutes it takes; 60 unless given"},
"all_day":{"type":"boolean","description":"the event is all day long; of start only the date counts"},
"location":{"type":"string","maxLength":200,"description":"the place where it is, such as a room"},
"attendees":{"type":"array","items":{"type":"string","format":"email"},"maxItems":50,"description":"e-mail addresses of who is invited"},
"notes":{"type":"string","maxLength":4000,"description":"what else is to be remembered"}},
"required":["title","start"],"additionalProperties":false}`
}

type moveArgs struct {
	Minutes int    `json:"duration_minutes,omitzero" jsonschema:"how many minutes it takes; as long as before unless given" min:"1" max:"44640"`
	Event   string `json:"event" jsonschema:"the title of the event, or words of it" minlen:"1" maxlen:"200"`
	Start   string `json:"start" jsonschema:"when it begins instead" format:"date-time"`
}

type removeArgs struct {
	Event string `json:"event" jsonschema:"the title of the event, or words of it" minlen:"1" maxlen:"200"`
}

// actions adds the tools that change the calendar.
func (s *service) actions(k *local.Kit) {
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("search"), k.Name("free")}}}
	settle := local.Settled(s.of)
	local.Action(k, tool.Spec{Name: "add", Reach: tool.ReachOut, Targets: []string{"attendees"}, Tidy: stale,
		Description: "Adds an event to the calendar: puts in or schedules a meeting or an appointment, and says if it overlaps with another.",
		Log:         tool.LogSpec{Summary: "Add {title} to the calendar, {start}", Impact: []string{"title"}}}, s.add, labelling(settle))
	local.Action(k, tool.Spec{Name: "move", Yields: mine, Tidy: stale, // an event's title may come from others
		Description: "Moves an event in the calendar to another time: reschedules or postpones a meeting.",
		Log:         tool.LogSpec{Summary: "Move {event} to {start}", Impact: []string{"event"}}}, s.move, settle)
	local.Action(k, tool.Spec{Name: "remove", Yields: mine, Tidy: stale,
		Description: "Removes an event from the calendar: cancels or deletes a meeting or an appointment.",
		Log:         tool.LogSpec{Summary: "Remove {event} from the calendar", Impact: []string{"event"}}}, s.remove, settle)
	for _, name := range []string{"add", "move", "remove"} {
		local.Undo(k, name, s.of)
	}
}

// at reads a time. It checks the format, because schemas do not enforce formats.
func at(text string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", day} {
		if t, err := time.ParseInLocation(layout, strings.TrimSpace(text), zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "time_invalid", "%.60q is no date and time", text).
		WithHint("write it like 2026-03-29T15:30:00+02:00")
}

func (s *service) add(ctx context.Context, in tool.Invocation, a addArgs) (tool.Result, error) {
	zone := s.Location(in.User)
	start, err := at(a.Start, zone)
	if err != nil {
		return tool.Result{}, err
	}
	e := Event{Title: strings.Join(strings.Fields(a.Title), " "), Start: start, Location: a.Location, Notes: a.Notes, Attendees: a.Attendees, AllDay: a.AllDay}
	if e.Title == "" {
		return tool.Result{}, fault.New(fault.Invalid, "title_missing", "the event has no title").WithHint("say what it is called")
	}
	e.lasts(minutes(a.Minutes, time.Hour), zone)
	told, err := s.apply(ctx, in, Change{Add: &e}, "Added %s to the calendar.")
	return labelled(tool.Text(told)), err
}

// labelled adds labels to the text about a new event if it names other events, whose titles may come from
// others.
func labelled(res tool.Result) tool.Result {
	for _, b := range res.Content {
		if t, ok := b.(*message.Text); ok && strings.Contains(t.Text, overlapping) {
			t.Labels |= mine
		}
	}
	return res
}

// labelling adds the same labels to the text of a call that is settled later.
func labelling(settle local.Settler) local.Settler {
	return func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
		ok, res, err := settle(ctx, in)
		return ok, labelled(res), err
	}
}

// lasts sets the end. All-day events begin and end at midnight, and their time is free.
func (e *Event) lasts(d time.Duration, zone *time.Location) {
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
func (s *service) apply(ctx context.Context, in tool.Invocation, c Change, format string) (string, error) {
	cal := s.of(in.User)
	zone := s.Location(in.User)
	clashes := ""
	if e := cmpEvent(c); e != nil {
		events, _, err := cal.Between(ctx, e.Start, e.End)
		if err != nil {
			return "", tool.NotDone(err)
		}
		clashes = overlaps(*e, events, zone)
	}
	return cal.Apply(ctx, local.Key(in), c, func(e Event) string {
		return fmt.Sprintf(format, fmt.Sprintf("%q, %s,", e.Title, e.span(zone))) + clashes
	})
}

// cmpEvent returns the event whose time a change sets.
func cmpEvent(c Change) *Event {
	if c.Add != nil {
		return c.Add
	}
	return c.Move
}

// overlapping precedes the names of overlapping events.
const overlapping = " Note: it overlaps with "

// overlaps names the events that overlap with another one.
func overlaps(e Event, events []Event, zone *time.Location) string {
	var with []string
	for _, o := range events {
		if o.Free || e.Free || o.ID == e.ID && e.ID != "" || !o.overlaps(e.Start, e.End) {
			continue
		}
		with = append(with, fmt.Sprintf("%q (%s)", o.Title, o.span(zone)))
	}
	if len(with) == 0 {
		return ""
	}
	return overlapping + strings.Join(with, " and ") + "."
}

func (s *service) move(ctx context.Context, in tool.Invocation, a moveArgs) (string, error) {
	zone := s.Location(in.User)
	start, err := at(a.Start, zone)
	if err != nil {
		return "", err
	}
	e, done, err := s.find(ctx, in, a.Event)
	if err != nil || done != "" {
		return done, err
	}
	length := e.End.Sub(e.Start)
	e.Start = start
	e.lasts(minutes(a.Minutes, length), zone)
	return s.apply(ctx, in, Change{Move: &e}, "Moved %s in the calendar.")
}

func (s *service) remove(ctx context.Context, in tool.Invocation, a removeArgs) (string, error) {
	e, done, err := s.find(ctx, in, a.Event)
	if err != nil || done != "" {
		return done, err
	}
	return s.apply(ctx, in, Change{Remove: e.ID}, "Removed %s from the calendar.")
}

// find returns the event that the words refer to. If this call has already made its change, done is the
// text that was returned. Error codes: event_not_found, event_ambiguous.
func (s *service) find(ctx context.Context, in tool.Invocation, words string) (e Event, done string, err error) {
	c := s.of(in.User)
	if told, ok, err := c.Applied(ctx, local.Key(in)); err != nil || ok {
		return e, told, err
	}
	all, err := c.All(ctx)
	if err != nil {
		return e, "", tool.NotDone(err)
	}
	found := named(all, words, s.Time())
	switch len(found) {
	case 0:
		return e, "", fault.New(fault.NotFound, "event_not_found", "there is no event %.100q in the calendar", words).WithHint("search the calendar for it")
	case 1:
		return found[0], "", nil
	}
	return e, "", fault.New(fault.Conflict, "event_ambiguous", "several events are called like %.100q", words).
		WithHint("give more of the title: %s", lines(found[:min(len(found), 10)], s.Location(in.User)))
}

// named returns the events with an id, with a title, or with all the words. Events that are not over take
// precedence.
func named(all []Event, words string, now time.Time) []Event {
	for _, match := range []func(Event) bool{
		func(e Event) bool { return e.ID == words },
		func(e Event) bool { return strings.EqualFold(e.Title, strings.TrimSpace(words)) },
		func(e Event) bool { return e.has(words) },
	} {
		var found, ahead []Event
		for _, e := range all {
			if match(e) {
				found = append(found, e)
				if e.Repeats || e.End.After(now) {
					ahead = append(ahead, e)
				}
			}
		}
		if len(ahead) > 0 {
			return ahead
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// has reports whether the event has all the words of a query.
func (e Event) has(query string) bool {
	text := strings.Join(append([]string{e.Title, e.Location, e.Notes}, e.Attendees...), "\n")
	return local.HasWords(text, query, "the", "my", "event", "a")
}
