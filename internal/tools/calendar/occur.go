package calendar

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"steward/internal/fault"
	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// Limits of one look at a calendar.
const (
	maxEvents    = 2000            // that are looked at more closely
	maxProblems  = 10              // that are reported
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
	zones := dav.ZonesIn(pieces, v.zone)
	changed := map[string][]instance{} // UID to the occurrences that were changed
	for _, p := range pieces {
		if at, ok := recurs(p.Comp, zones); ok {
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
		e, err := event(p.Comp, zones)
		if err != nil {
			v.problem(where(p), err)
			continue
		}
		with(&e)
		list, err := v.occurrences(p.Comp, e, zones)
		if err != nil {
			v.problem(where(p), err)
		}
		if e.Unknown != "" && len(list) == 0 && (e.Repeats || e.overlaps(v.from.AddDate(0, 0, -1), v.to.AddDate(0, 0, 1))) {
			v.problem(where(p), fmt.Errorf("%q may belong here: %s", local.Line(e.Title, 60), e.timeWarning(v.zone)))
		}
		for _, o := range list {
			if o.Repeats && slices.ContainsFunc(changed[e.ID], func(i instance) bool { return i.is(o.Start) }) {
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

// instance names an occurrence of a series by its original start, or by its day.
type instance struct {
	at  time.Time
	day bool
}

// is reports whether an occurrence that begins then is meant.
func (i instance) is(start time.Time) bool {
	if i.day {
		return i.at.Format(day) == start.Format(day)
	}
	return i.at.Equal(start)
}

// recurs returns which occurrence of a series a component is.
func recurs(c *ical.Component, zones *dav.Zones) (instance, bool) {
	if c == nil {
		return instance{}, false
	}
	p := c.Props.Get(ical.PropRecurrenceID)
	if p == nil {
		return instance{}, false
	}
	at, err := dav.Moment(p, p.Value, zones)
	return instance{at, dav.IsDate(p.Value)}, err == nil
}

// event returns a component as an Event.
func event(c *ical.Component, zones *dav.Zones) (Event, error) {
	e := Event{ID: dav.TextOf(c, ical.PropUID), Title: dav.TextOf(c, ical.PropSummary), Location: dav.TextOf(c, ical.PropLocation), Notes: dav.TextOf(c, ical.PropDescription)}
	p := c.Props.Get(ical.PropDateTimeStart)
	if p == nil {
		return e, fmt.Errorf("it has no DTSTART")
	}
	var err error
	e.AllDay = dav.IsDate(p.Value)
	if e.Start, err = dav.Moment(p, p.Value, zones); err != nil {
		return e, fmt.Errorf("its DTSTART cannot be read: %w", err)
	}
	if e.End, err = end(c, e, zones); err != nil {
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
	for _, name := range []string{ical.PropDateTimeStart, ical.PropDateTimeEnd} {
		p := c.Props.Get(name)
		if p == nil || e.AllDay || e.Unknown != "" {
			continue
		}
		if tzid := p.Params.Get(ical.PropTimezoneID); tzid != "" {
			if _, known := zones.Of(tzid); !known {
				e.Unknown = tzid
			}
		}
	}
	if of, one := recurs(c, zones); one {
		e.Occurs = of.at
	}
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

func end(c *ical.Component, e Event, zones *dav.Zones) (time.Time, error) {
	if p := c.Props.Get(ical.PropDateTimeEnd); p != nil {
		t, err := dav.Moment(p, p.Value, zones)
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
func (v *view) occurrences(c *ical.Component, e Event, zones *dav.Zones) (out []Event, problem error) {
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
			v.skipAhead(o, e.End.Sub(e.Start))
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
	length := e.End.Sub(e.Start)
	lengths := map[int64]time.Duration{} // of occurrences that have their own
	excluded := map[string]bool{}        // days
	all := dates(c, ical.PropRecurrenceDates, e, zones, func(i instance, own time.Duration) {
		if i.day && !e.AllDay { // the time of day is that of the series
			y, m, d := i.at.Date()
			i.at = time.Date(y, m, d, e.Start.Hour(), e.Start.Minute(), e.Start.Second(), 0, e.Start.Location())
		}
		if own > 0 {
			lengths[i.at.Unix()] = own
		}
		set.RDate(i.at)
	})
	all = dates(c, ical.PropExceptionDates, e, zones, func(i instance, _ time.Duration) {
		if i.day || e.AllDay {
			excluded[i.at.In(e.Start.Location()).Format(day)] = true
			return
		}
		set.ExDate(i.at)
	}) && all
	if !all {
		problem = fmt.Errorf("it lists more than %d dates; the others are ignored", maxDates)
	}
	for next := set.Iterator(); len(out) <= maxEvents; {
		start, ok := next()
		if !ok || !start.Before(v.to) {
			break
		}
		if start = start.In(e.Start.Location()); excluded[start.Format(day)] {
			continue
		}
		o := e
		o.Start, o.End, o.Occurs = start, start.Add(cmp.Or(lengths[start.Unix()], length)), start
		if e.AllDay { // days are not always of 24 hours
			o.End = start.AddDate(0, 0, int((length+12*time.Hour)/(24*time.Hour)))
		}
		if o.overlaps(v.from, v.to) {
			out = append(out, o)
		}
	}
	return out, problem
}

// skipAhead narrows a rule to the span. Without a number of repetitions, days and weeks before the span are
// skipped.
func (v *view) skipAhead(o *rrule.ROption, length time.Duration) {
	if o.Until.IsZero() || o.Until.After(v.to) {
		o.Until = v.to
	}
	step := map[rrule.Frequency]int{rrule.DAILY: 1, rrule.WEEKLY: 7}[o.Freq] * max(o.Interval, 1)
	if gap := int(v.from.Sub(o.Dtstart.Add(length))/(24*time.Hour)) - 2*step; o.Count == 0 && step > 0 && gap > 0 {
		o.Dtstart = o.Dtstart.AddDate(0, 0, gap/step*step)
	}
}

// untilDay matches a rule that ends with a day.
var untilDay = regexp.MustCompile(`(^|;)UNTIL=[0-9]{8}(;|$)`)

// rule reads an RRULE. Repetitions within a day would be far too many for a calendar. Error codes:
// rule_invalid, rule_unsupported.
func rule(text string, zone *time.Location) (*rrule.ROption, error) {
	text = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:")
	if len(text) > maxRule || strings.ContainsAny(text, "\r\n") {
		return nil, fault.New(fault.Invalid, "rule_invalid", "it is too long")
	}
	o, err := rrule.StrToROptionInLocation(text, zone)
	if err == nil && untilDay.MatchString(text) {
		o.Until = o.Until.AddDate(0, 0, 1).Add(-time.Second) // the whole of that day
	}
	if err != nil || o.Interval < 0 || o.Interval > 10_000 || o.Count < 0 || o.Count > 100_000 {
		return nil, fault.New(fault.Invalid, "rule_invalid", "%.100q is not a valid RRULE", text).WithHint("write one like FREQ=WEEKLY;BYDAY=MO,TH")
	}
	often := o.Freq == rrule.SECONDLY || o.Freq == rrule.MINUTELY || o.Freq == rrule.HOURLY
	if often || len(o.Byeaster) > 0 || max(len(o.Byhour), len(o.Byminute), len(o.Bysecond)) > 1 {
		return nil, fault.New(fault.Unsupported, "rule_unsupported", "it repeats within a day, or counts from Easter").WithHint("write one like FREQ=WEEKLY;BYDAY=MO,TH")
	}
	return o, nil
}

// dates reads the values of a property that may have several: times, days, and spans of time with their own
// length. It reports whether it has read all of them.
func dates(c *ical.Component, name string, e Event, zones *dav.Zones, add func(i instance, length time.Duration)) bool {
	here := *zones // a time or a day without a zone is one of the series
	here.User = e.Start.Location()
	n := 0
	for _, p := range c.Props.Values(name) {
		p.Params = maps.Clone(p.Params)
		delete(p.Params, ical.ParamValue) // each value shows what it is
		for v := range strings.SplitSeq(p.Value, ",") {
			if n++; n > maxDates {
				return false
			}
			from, to, _ := strings.Cut(strings.TrimSpace(v), "/")
			at, err := dav.Moment(&p, from, &here)
			if err != nil {
				continue
			}
			add(instance{at, dav.IsDate(from)}, lengthOf(&p, at, to, &here))
		}
	}
	return true
}

// lengthOf returns the length of a span that begins at a time, and ends at another or after a duration; 0 if
// it says none.
func lengthOf(p *ical.Prop, from time.Time, to string, zones *dav.Zones) time.Duration {
	if strings.HasPrefix(to, "P") {
		d := ical.NewProp(ical.PropDuration)
		d.Value = to
		length, err := d.Duration()
		if err != nil {
			return 0
		}
		return length
	}
	end, err := dav.Moment(p, to, zones)
	if to == "" || err != nil {
		return 0
	}
	return max(end.Sub(from), 0)
}
