package calendar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"steward/internal/domain/dav"
	"steward/internal/fault"
)

// Limits of one look at a calendar.
const (
	maxEvents    = 2000            // that are looked at more closely
	maxProblems  = 10              // that are told
	maxRule      = 1000            // bytes of an RRULE
	maxDates     = 10_000          // of an event that are listed, and as many exceptions
	maxExpanding = 5 * time.Second // for finding repetitions; rules that never come true take long
)

// view collects events in a span of time.
type view struct {
	from, to time.Time
	zone     *time.Location
	events   []Event
	problems []string
	until    time.Time // no repetitions are looked for after this
}

func (v *view) problem(where string, err error) {
	if say := fmt.Sprintf("%s: %v", where, err); len(v.problems) < maxProblems && !slices.Contains(v.problems, say) {
		v.problems = append(v.problems, say)
	}
}

// add adds the events of some pieces, with their repetitions. where names a piece in a problem. An
// occurrence that was changed (RECURRENCE-ID) takes the place of the original one.
func (v *view) add(ctx context.Context, pieces []dav.Piece, where func(dav.Piece) string, with func(*Event)) error {
	if v.until.IsZero() {
		v.until = time.Now().Add(maxExpanding)
	}
	changed := map[string][]time.Time{} // UID to the original starts of occurrences that were changed
	for _, p := range pieces {
		if at, ok := recurs(p.Comp, v.zone); ok {
			uid := dav.TextOf(p.Comp, ical.PropUID)
			changed[uid] = append(changed[uid], at)
		}
	}
	for _, p := range pieces {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.Bad != nil {
			v.problem(where(p), p.Bad)
		}
		if p.Comp == nil {
			continue
		}
		e, err := event(p.Comp, v.zone)
		if err != nil {
			v.problem(where(p), err)
			continue
		}
		with(&e)
		list, err := v.occurrences(p.Comp, e)
		if err != nil {
			v.problem(where(p), err)
		}
		for _, o := range list {
			if o.Repeats && slices.ContainsFunc(changed[e.ID], o.Start.Equal) {
				continue
			}
			if len(v.events) == maxEvents {
				v.problem("the calendar", fmt.Errorf("only %d of the events are shown; ask for fewer days", maxEvents))
				return nil
			}
			v.events = append(v.events, o)
		}
	}
	return nil
}

func sorted(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End), cmp.Compare(a.Title, b.Title))
	})
	return events
}

// recurs returns the original start of the one occurrence that a component is.
func recurs(c *ical.Component, zone *time.Location) (time.Time, bool) {
	if c == nil {
		return time.Time{}, false
	}
	p := c.Props.Get(ical.PropRecurrenceID)
	if p == nil {
		return time.Time{}, false
	}
	at, err := dav.Moment(p, p.Value, zone)
	return at, err == nil
}

// event returns a component as an Event.
func event(c *ical.Component, zone *time.Location) (Event, error) {
	e := Event{ID: dav.TextOf(c, ical.PropUID), Title: dav.TextOf(c, ical.PropSummary), Location: dav.TextOf(c, ical.PropLocation), Notes: dav.TextOf(c, ical.PropDescription)}
	p := c.Props.Get(ical.PropDateTimeStart)
	if p == nil {
		return e, fmt.Errorf("it has no DTSTART")
	}
	var err error
	e.AllDay = len(strings.TrimSpace(p.Value)) == len("20060102")
	if e.Start, err = dav.Moment(p, p.Value, zone); err != nil {
		return e, fmt.Errorf("its DTSTART cannot be read: %w", err)
	}
	if e.End, err = end(c, e, zone); err != nil {
		return e, err
	}
	if e.End.Before(e.Start) {
		return e, fmt.Errorf("it ends before it begins")
	}
	for _, a := range c.Props.Values(ical.PropAttendee) {
		e.Attendees = append(e.Attendees, address(&a))
		e.replies = append(e.replies, strings.ToLower(cmp.Or(a.Params.Get(ical.ParamParticipationStatus), "needs-action")))
	}
	e.Organizer = address(c.Props.Get(ical.PropOrganizer))
	e.Title = cmp.Or(e.Title, "(no title)")
	e.Occurs, _ = recurs(c, zone)
	e.Repeats = c.Props.Get(ical.PropRecurrenceRule) != nil || c.Props.Get(ical.PropRecurrenceDates) != nil
	e.Free = strings.EqualFold(dav.TextOf(c, ical.PropTransparency), "TRANSPARENT")
	if strings.EqualFold(dav.TextOf(c, ical.PropStatus), "CANCELLED") {
		e.Title, e.Free = e.Title+" (cancelled)", true
	}
	return e, nil
}

// address returns the e-mail address of somebody who takes part.
func address(p *ical.Prop) string {
	if p == nil {
		return ""
	}
	v := strings.TrimSpace(strings.ToValidUTF8(p.Value, "�"))
	if len(v) >= len("mailto:") && strings.EqualFold(v[:len("mailto:")], "mailto:") {
		v = v[len("mailto:"):]
	}
	return v
}

func end(c *ical.Component, e Event, zone *time.Location) (time.Time, error) {
	if p := c.Props.Get(ical.PropDateTimeEnd); p != nil {
		t, err := dav.Moment(p, p.Value, zone)
		if err != nil {
			return t, fmt.Errorf("its DTEND cannot be read: %w", err)
		}
		return t, nil
	}
	if p := c.Props.Get(ical.PropDuration); p != nil {
		d, err := p.Duration()
		if err != nil {
			return e.Start, fmt.Errorf("its DURATION cannot be read: %w", err)
		}
		return e.Start.Add(d), nil
	}
	if e.AllDay {
		return e.Start.AddDate(0, 0, 1), nil
	}
	return e.Start, nil
}

// occurrences returns the occurrences of an event in the span. If its rule cannot be followed, only the
// first one counts.
func (v *view) occurrences(c *ical.Component, e Event) (out []Event, problem error) {
	if !e.Repeats {
		if e.overlaps(v.from, v.to) {
			return []Event{e}, nil
		}
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil { // the library indexes past a year with some rules
			out, problem = nil, fmt.Errorf("its RRULE cannot be followed: %v", r)
		}
	}()
	set := rrule.Set{}
	if p := c.Props.Get(ical.PropRecurrenceRule); p != nil && time.Now().After(v.until) {
		problem = fmt.Errorf("there are too many repetitions; it may be missing")
	} else if p != nil {
		o, err := rule(p.Value, e.Start.Location())
		if err == nil {
			o.Dtstart = e.Start
			v.hurry(o, e.End.Sub(e.Start))
			var r *rrule.RRule
			if r, err = rrule.NewRRule(*o); err == nil {
				set.RRule(r)
			}
		}
		if err != nil {
			problem = fmt.Errorf("its RRULE cannot be followed: %w", err)
		}
	}
	set.RDate(e.Start)
	if !dates(c, ical.PropRecurrenceDates, v.zone, set.RDate) || !dates(c, ical.PropExceptionDates, v.zone, set.ExDate) {
		problem = fmt.Errorf("it lists more than %d dates; the others do not count", maxDates)
	}
	length := e.End.Sub(e.Start)
	for next := set.Iterator(); len(out) <= maxEvents; {
		start, ok := next()
		if !ok || !start.Before(v.to) {
			break
		}
		o := e
		o.Start, o.End, o.Occurs = start, start.Add(length), start
		if e.AllDay { // days are not always of 24 hours
			o.End = start.AddDate(0, 0, int((length+12*time.Hour)/(24*time.Hour)))
		}
		if o.overlaps(v.from, v.to) {
			out = append(out, o)
		}
	}
	return out, problem
}

// hurry narrows a rule to the span. Without a number of repetitions, days and weeks before the span are
// skipped.
func (v *view) hurry(o *rrule.ROption, length time.Duration) {
	if o.Until.IsZero() || o.Until.After(v.to) {
		o.Until = v.to
	}
	step := map[rrule.Frequency]int{rrule.DAILY: 1, rrule.WEEKLY: 7}[o.Freq] * max(o.Interval, 1)
	if gap := int(v.from.Sub(o.Dtstart.Add(length))/(24*time.Hour)) - 2*step; o.Count == 0 && step > 0 && gap > 0 {
		o.Dtstart = o.Dtstart.AddDate(0, 0, gap/step*step)
	}
}

// rule reads an RRULE. Repetitions within a day would be far too many for a calendar. Error codes:
// rule_invalid, rule_unsupported.
func rule(text string, zone *time.Location) (*rrule.ROption, error) {
	text = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:")
	if len(text) > maxRule || strings.ContainsAny(text, "\r\n") {
		return nil, fault.New(fault.Invalid, "rule_invalid", "it is too long")
	}
	o, err := rrule.StrToROptionInLocation(text, zone)
	if err != nil || o.Interval < 0 || o.Interval > 10_000 || o.Count < 0 || o.Count > 100_000 {
		return nil, fault.New(fault.Invalid, "rule_invalid", "%.100q is no RRULE", text).WithHint("write one like FREQ=WEEKLY;BYDAY=MO,TH")
	}
	often := o.Freq == rrule.SECONDLY || o.Freq == rrule.MINUTELY || o.Freq == rrule.HOURLY
	if often || len(o.Byeaster) > 0 || max(len(o.Byhour), len(o.Byminute), len(o.Bysecond)) > 1 {
		return nil, fault.New(fault.Unsupported, "rule_unsupported", "it repeats within a day, or counts from Easter").WithHint("write one like FREQ=WEEKLY;BYDAY=MO,TH")
	}
	return o, nil
}

// dates reads the values of a property that may have several. It reports whether it has read all of them.
func dates(c *ical.Component, name string, zone *time.Location, add func(time.Time)) bool {
	n := 0
	for _, p := range c.Props.Values(name) {
		for v := range strings.SplitSeq(p.Value, ",") {
			if n++; n > maxDates {
				return false
			}
			if t, err := dav.Moment(&p, v, zone); err == nil {
				add(t)
			}
		}
	}
	return true
}
