package calendar

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"steward/internal/fault"
)

// An iCalendar file (RFC 5545) is kept as its lines. Each event is read separately, so that a broken event
// does not hide others. A change replaces only the lines of its event.

// piece is a part of the file: the lines of an event, or the lines between events.
type piece struct {
	raw   string
	line  int // the number of the first line; 0 for a new piece
	event *ical.Component
	bad   error // why an event cannot be read
}

const (
	doneLine = "X-STEWARD-DONE;X-KEY=" // the mark of a change: its key and the text that was returned
	maxDone  = 200                     // marks that are not removed
)

// parse splits a file into pieces.
func parse(data []byte) []piece {
	var out []piece
	cur := piece{line: 1}
	inside := false
	flush := func(next int) {
		if cur.raw != "" {
			out = append(out, cur)
		}
		cur = piece{line: next}
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		word := strings.ToUpper(strings.TrimSpace(line))
		switch {
		case word == "BEGIN:VEVENT":
			if inside {
				cur.bad = fmt.Errorf("it does not end")
			}
			flush(n)
			inside = true
			cur.raw += line
		case word == "END:VEVENT" && inside:
			cur.raw += line
			cur.event, cur.bad = component(cur.raw)
			flush(n + 1)
			inside = false
		case word == "END:VCALENDAR" && inside:
			cur.bad = fmt.Errorf("it does not end")
			flush(n)
			inside = false
			cur.raw += line
		default:
			cur.raw += line
		}
	}
	if inside {
		cur.bad = fmt.Errorf("it does not end")
	}
	flush(0)
	return out
}

// component reads the lines of one event.
func component(raw string) (c *ical.Component, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics at some truncated lines
			c, err = nil, fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\n", "\r\n")
	var lines []string
	for line := range strings.SplitSeq(raw, "\r\n") {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	text := "BEGIN:VCALENDAR\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VCALENDAR\r\n"
	cal, err := ical.NewDecoder(strings.NewReader(text)).Decode()
	if err != nil {
		return nil, err
	}
	events := cal.Events()
	if len(events) != 1 {
		return nil, fmt.Errorf("it is not one event")
	}
	return events[0].Component, nil
}

// text returns the text of a property, or its raw value if it is malformed.
func text(c *ical.Component, name string) string {
	p := c.Props.Get(name)
	if p == nil {
		return ""
	}
	list, err := p.TextList()
	if err != nil {
		return p.Value
	}
	return strings.Join(list, ", ")
}

// moment reads a time of an event. An unknown time zone is replaced by the user's.
func moment(p *ical.Prop, value string, zone *time.Location) (time.Time, error) {
	one := *p
	one.Value = strings.TrimSpace(value)
	if tz := one.Params.Get(ical.PropTimezoneID); tz != "" {
		if loc, err := time.LoadLocation(tz); err == nil && !strings.EqualFold(tz, "local") {
			zone = loc
		}
		one.Params = ical.Params{}
		if v := p.Params.Get(ical.ParamValue); v != "" {
			one.Params.Set(ical.ParamValue, v)
		}
	}
	if len(one.Value) == len("20060102") {
		return time.ParseInLocation("20060102", one.Value, zone)
	}
	return one.DateTime(zone)
}

// event returns a component as an Event.
func event(c *ical.Component, zone *time.Location) (Event, error) {
	e := Event{ID: text(c, ical.PropUID), Title: text(c, ical.PropSummary), Location: text(c, ical.PropLocation), Notes: text(c, ical.PropDescription)}
	p := c.Props.Get(ical.PropDateTimeStart)
	if p == nil {
		return e, fmt.Errorf("it has no DTSTART")
	}
	var err error
	e.AllDay = len(strings.TrimSpace(p.Value)) == len("20060102")
	if e.Start, err = moment(p, p.Value, zone); err != nil {
		return e, fmt.Errorf("its DTSTART cannot be read: %w", err)
	}
	if e.End, err = end(c, e, zone); err != nil {
		return e, err
	}
	if e.End.Before(e.Start) {
		return e, fmt.Errorf("it ends before it begins")
	}
	for _, a := range c.Props.Values(ical.PropAttendee) {
		e.Attendees = append(e.Attendees, strings.TrimPrefix(strings.TrimPrefix(a.Value, "mailto:"), "MAILTO:"))
	}
	if e.Title == "" {
		e.Title = "(no title)"
	}
	e.Repeats = c.Props.Get(ical.PropRecurrenceRule) != nil || c.Props.Get(ical.PropRecurrenceDates) != nil
	e.Free = strings.EqualFold(text(c, ical.PropTransparency), "TRANSPARENT")
	if strings.EqualFold(text(c, ical.PropStatus), "CANCELLED") {
		e.Title, e.Free = e.Title+" (cancelled)", true
	}
	return e, nil
}

func end(c *ical.Component, e Event, zone *time.Location) (time.Time, error) {
	if p := c.Props.Get(ical.PropDateTimeEnd); p != nil {
		t, err := moment(p, p.Value, zone)
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

const maxOccurrences = 1000 // of one event that are looked at

// occurrences returns the occurrences of an event in a span of time. If its rule cannot be read, only the
// first one counts.
func occurrences(c *ical.Component, e Event, from, to time.Time, zone *time.Location) ([]Event, error) {
	if !e.Repeats {
		if e.overlaps(from, to) {
			return []Event{e}, nil
		}
		return nil, nil
	}
	set := rrule.Set{}
	var problem error
	if p := c.Props.Get(ical.PropRecurrenceRule); p != nil {
		opt, err := c.Props.RecurrenceRule()
		if err == nil {
			opt.Dtstart = e.Start
			var rule *rrule.RRule
			if rule, err = rrule.NewRRule(*opt); err == nil {
				set.RRule(rule)
			}
		}
		if err != nil {
			problem = fmt.Errorf("its RRULE cannot be read: %w", err)
		}
	}
	set.DTStart(e.Start)
	set.RDate(e.Start)
	dates(c, ical.PropRecurrenceDates, zone, set.RDate)
	dates(c, ical.PropExceptionDates, zone, set.ExDate)
	length := e.End.Sub(e.Start)
	next := set.Iterator()
	var out []Event
	for range maxOccurrences * 20 {
		start, ok := next()
		if !ok || !start.Before(to) || len(out) == maxOccurrences {
			break
		}
		o := e
		o.Start, o.End = start, start.Add(length)
		if e.AllDay { // days are not always of 24 hours
			o.End = start.AddDate(0, 0, int((length+12*time.Hour)/(24*time.Hour)))
		}
		if o.overlaps(from, to) {
			out = append(out, o)
		}
	}
	return out, problem
}

// dates reads the values of a property that may have several.
func dates(c *ical.Component, name string, zone *time.Location, add func(time.Time)) {
	for _, p := range c.Props.Values(name) {
		for v := range strings.SplitSeq(p.Value, ",") {
			if t, err := moment(&p, v, zone); err == nil {
				add(t)
			}
		}
	}
}

// times sets an event's times in c, in UTC, which every reader understands in the same way.
func (e Event) times(c *ical.Component) {
	for _, name := range []string{ical.PropDateTimeStart, ical.PropDateTimeEnd, ical.PropDuration, ical.PropTransparency} {
		c.Props.Del(name)
	}
	if e.AllDay {
		c.Props.SetDate(ical.PropDateTimeStart, e.Start)
		c.Props.SetDate(ical.PropDateTimeEnd, e.End)
		c.Props.SetText(ical.PropTransparency, "TRANSPARENT")
		return
	}
	c.Props.SetDateTime(ical.PropDateTimeStart, e.Start.UTC())
	c.Props.SetDateTime(ical.PropDateTimeEnd, e.End.UTC())
}

// component returns an event as a component.
func (e Event) component(now time.Time) *ical.Component {
	c := ical.NewComponent(ical.CompEvent)
	c.Props.SetText(ical.PropUID, e.ID)
	c.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	c.Props.SetText(ical.PropSummary, plain(e.Title))
	e.times(c)
	if e.Location != "" {
		c.Props.SetText(ical.PropLocation, plain(e.Location))
	}
	if e.Notes != "" {
		c.Props.SetText(ical.PropDescription, plain(e.Notes))
	}
	for _, a := range e.Attendees {
		p := ical.NewProp(ical.PropAttendee)
		p.SetValueType(ical.ValueCalendarAddress)
		p.Value = "mailto:" + strings.Join(strings.Fields(a), "")
		c.Props.Add(p)
	}
	return c
}

// plain removes control characters, which could end a line of the file.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// encode returns the lines of a component in a file.
func encode(c *ical.Component) (string, error) {
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropProductID, product)
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Children = append(cal.Children, c)
	var b bytes.Buffer
	if err := ical.NewEncoder(&b).Encode(cal); err != nil {
		return "", fault.New(fault.Invalid, "event_invalid", "the event cannot be written: %w", err)
	}
	for _, p := range parse(b.Bytes()) {
		if p.event != nil {
			return p.raw, nil
		}
	}
	return "", fault.New(fault.Internal, "event_invalid", "the event cannot be read back")
}

const product = "-//Steward//Calendar//EN"
