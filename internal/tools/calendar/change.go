package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/fault"
	"steward/internal/tools/dav"
)

// Change is a change of a calendar.
type Change struct {
	Do    changeKind
	Event Event
	Reply string // of an answer: ACCEPTED, DECLINED or TENTATIVE
}

// changeKind says what is done with the event.
type changeKind int

const (
	adding    changeKind = iota // the calendar assigns the ID
	moving                      // the event with this ID, or one occurrence of it, gets this Start, End and AllDay, and these attendees
	removing                    // the event with this ID, or one occurrence of it
	answering                   // the invitation with this ID is answered
)

// editor changes the pieces of a text.
type editor struct {
	zone  *time.Location
	now   time.Time
	zones *dav.Zones // of the text; set by change
}

// change makes a change, and returns the event, and its lines before and after.
func (ed editor) change(pieces []dav.Piece, uid string, c Change) (e Event, before, after string, err error) {
	e = c.Event
	ed.zones = dav.ZonesIn(pieces, ed.zone)
	if c.Do == adding {
		e.ID = uid
		_, after, err = dav.Encode(e.component(ed.now, ed.zone))
		if tz := "TZID:" + ed.zone.String(); e.Rule != "" && !e.AllDay && ed.zone != time.UTC && !slices.ContainsFunc(pieces, func(p dav.Piece) bool { return strings.Contains(p.Raw, tz) }) {
			after = dav.Zone(ed.zone, e.Start) + after
		}
		return e, "", after, err
	}
	before = dav.LinesOf(pieces, e.ID)
	if before == "" || e.ID == "" {
		return e, "", "", fault.New(fault.NotFound, "event_not_found", "the event is no longer in the calendar").WithHint("search the calendar for it")
	}
	var own []dav.Piece
	for _, p := range pieces {
		if p.Of(e.ID) {
			own = append(own, p)
		}
	}
	own, err = ed.edit(own, e, c)
	for _, p := range own {
		after += p.Raw
	}
	return e, before, after, err
}

// edit changes the pieces of one event.
func (ed editor) edit(own []dav.Piece, e Event, c Change) ([]dav.Piece, error) {
	series := slices.IndexFunc(own, func(p dav.Piece) bool { _, one := recurs(p.Comp, ed.zones); return !one })
	at := slices.IndexFunc(own, func(p dav.Piece) bool {
		of, one := recurs(p.Comp, ed.zones)
		return one && of.is(e.Occurs)
	})
	one := !e.Occurs.IsZero()
	switch {
	case c.Do == answering:
		for i := range own {
			answer(own[i].Comp, e.own, c.Reply)
			if err := ed.write(&own[i]); err != nil {
				return nil, err
			}
		}
		return own, nil
	case c.Do == removing && !one:
		return nil, nil
	case c.Do == removing:
		if series >= 0 {
			master := own[series].Comp
			master.Props.Add(like(master.Props.Get(ical.PropDateTimeStart), ical.PropExceptionDates, e.Occurs, ed.zones))
			if err := ed.write(&own[series]); err != nil {
				return nil, err
			}
		}
		if at >= 0 {
			own = slices.Delete(own, at, at+1)
		}
		return own, nil
	case one && at < 0:
		own = append(own, dav.Piece{Comp: ed.occurrence(own[series].Comp, e.Occurs)})
		at = len(own) - 1
	case !one:
		at = series
	}
	if at < 0 || !one && e.Repeats {
		return nil, fault.New(fault.Unsupported, "event_repeats", "%q repeats, and cannot be moved as a whole here", e.Title).WithHint("give the date of the occurrence that is to be moved")
	}
	e.times(own[at].Comp)
	e.invite(own[at].Comp)
	return own, ed.write(&own[at])
}

// occurrence returns a component for one occurrence of a series.
func (ed editor) occurrence(series *ical.Component, at time.Time) *ical.Component {
	c := ical.NewComponent(ical.CompEvent)
	for name, props := range series.Props {
		if !slices.Contains([]string{ical.PropRecurrenceRule, ical.PropRecurrenceDates, ical.PropExceptionDates}, name) {
			c.Props[name] = slices.Clone(props)
		}
	}
	c.Children = series.Children
	c.Props.Set(like(series.Props.Get(ical.PropDateTimeStart), ical.PropRecurrenceID, at, ed.zones))
	return c
}

// write sets the lines of a piece whose component has changed.
func (ed editor) write(p *dav.Piece) (err error) {
	c := p.Comp
	n, _ := strconv.Atoi(dav.TextOf(c, ical.PropSequence)) //nolint:errcheck // without one, or with a broken one, it begins at 0
	next := ical.NewProp(ical.PropSequence)
	next.Value = strconv.Itoa(n + 1)
	c.Props.Set(next)
	c.Props.SetDateTime(ical.PropLastModified, ed.now.UTC())
	c.Props.SetDateTime(ical.PropDateTimeStamp, ed.now.UTC())
	_, p.Raw, err = dav.Encode(c)
	return err
}

// like returns a property with a time in the form of another one: a date, in a time zone, or in UTC.
func like(start *ical.Prop, name string, t time.Time, zones *dav.Zones) *ical.Prop {
	p := ical.NewProp(name)
	tzid := start.Params.Get(ical.PropTimezoneID)
	switch {
	case len(strings.TrimSpace(start.Value)) == len("20060102"):
		p.SetDate(t)
	case tzid != "":
		p.Params.Set(ical.PropTimezoneID, tzid)
		zone, _ := zones.Of(tzid)
		p.Value = t.In(zone).Format("20060102T150405")
	case strings.HasSuffix(strings.TrimSpace(start.Value), "Z"):
		p.SetDateTime(t.UTC())
	default:
		p.Value = t.In(zones.User).Format("20060102T150405")
	}
	return p
}

// answer sets the user's answer to an invitation.
func answer(c *ical.Component, own []string, reply string) {
	list := c.Props[ical.PropAttendee]
	for i := range list {
		if slices.Contains(own, strings.ToLower(address(&list[i]))) {
			list[i].Params.Set(ical.ParamParticipationStatus, reply)
			list[i].Params.Del(ical.ParamRSVP)
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

// component returns a new event as a component. One that repeats is in the user's time zone, so that it
// keeps its hour when the clocks change.
func (e Event) component(now time.Time, zone *time.Location) *ical.Component {
	c := ical.NewComponent(ical.CompEvent)
	c.Props.SetText(ical.PropUID, e.ID)
	c.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	c.Props.SetText(ical.PropSummary, dav.Plain(e.Title))
	e.times(c)
	if e.Rule != "" {
		p := ical.NewProp(ical.PropRecurrenceRule)
		p.Value = e.Rule
		c.Props.Set(p)
		if !e.AllDay {
			c.Props.SetDateTime(ical.PropDateTimeStart, e.Start.In(zone))
			c.Props.SetDateTime(ical.PropDateTimeEnd, e.End.In(zone))
		}
	}
	if e.Location != "" {
		c.Props.SetText(ical.PropLocation, dav.Plain(e.Location))
	}
	if e.Notes != "" {
		c.Props.SetText(ical.PropDescription, dav.Plain(e.Notes))
	}
	e.invite(c)
	return c
}

// invite adds the attendees that are not there yet. With an organizer they are invited: the server writes
// to them.
func (e Event) invite(c *ical.Component) {
	there := map[string]bool{}
	for _, a := range c.Props.Values(ical.PropAttendee) {
		there[strings.ToLower(address(&a))] = true
	}
	for _, a := range e.Attendees {
		if there[strings.ToLower(a)] {
			continue
		}
		p := mailto(ical.PropAttendee, a)
		if e.Organizer != "" {
			p.Params.Set(ical.ParamParticipationStatus, "NEEDS-ACTION")
			p.Params.Set(ical.ParamRSVP, "TRUE")
		}
		c.Props.Add(p)
	}
	if e.Organizer != "" && len(e.Attendees) > 0 && c.Props.Get(ical.PropOrganizer) == nil {
		c.Props.Set(mailto(ical.PropOrganizer, e.Organizer))
	}
}

func mailto(name, address string) *ical.Prop {
	p := ical.NewProp(name)
	p.SetValueType(ical.ValueCalendarAddress)
	p.Value = "mailto:" + dav.Plain(strings.Join(strings.Fields(address), ""))
	return p
}
