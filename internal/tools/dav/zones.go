package dav

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Zones are the time zones of a text of iCalendar: those that it defines (VTIMEZONE), and those that are known
// by their name.
type Zones struct {
	User    *time.Location // of times that name no zone, or one that is unknown
	defined map[string][]Line
	made    map[string]*time.Location // nil: unknown
}

// Limits of the definitions in one text.
const (
	maxZones     = 100
	maxZoneLines = 2000 // of one zone
	maxOnsets    = 4000 // changes of the clock in one zone
	maxKinds     = 32   // different offsets and names of these in one zone
	firstYear    = 1970 // rules are followed from this year
	lastYear     = 2100 // to this one
)

// ZonesIn returns the time zones of the pieces of a text.
func ZonesIn(pieces []Piece, user *time.Location) *Zones {
	z := &Zones{User: user, defined: map[string][]Line{}, made: map[string]*time.Location{}}
	for _, p := range pieces {
		if p.Comp != nil || p.Bad != nil {
			continue
		}
		for _, part := range Split(p.Raw, "VTIMEZONE") {
			if !strings.HasPrefix(strings.ToUpper(part.Raw), "BEGIN:VTIMEZONE") {
				continue
			}
			lines := Lines(part.Raw)
			i := slices.IndexFunc(lines, func(l Line) bool { return l.Name == "TZID" })
			if i >= 0 && len(z.defined) < maxZones && len(lines) <= maxZoneLines {
				z.defined[lines[i].Value] = lines
			}
		}
	}
	return z
}

// Of returns the zone for a TZID. ok is false if it is unknown; it is the user's then.
func (z *Zones) Of(tzid string) (loc *time.Location, ok bool) {
	tzid = strings.Trim(tzid, `"`)
	loc, found := z.made[tzid]
	if !found {
		loc = z.find(tzid)
		z.made[tzid] = loc
	}
	if loc == nil {
		return z.User, false
	}
	return loc, true
}

// find returns a zone, or nil. A name with an area, as in Europe/Vienna, stands for the same everywhere. A
// definition says what any other name means in its text. Some programs write the name of the zone at the end
// of a longer one: /freeassociation.sourceforge.net/Europe/Vienna.
func (z *Zones) find(tzid string) *time.Location {
	name := strings.Trim(tzid, "/")
	if strings.Contains(name, "/") {
		if loc := named(name); loc != nil {
			return loc
		}
	}
	if lines, ok := z.defined[tzid]; ok {
		if loc := defined(name, lines); loc != nil {
			return loc
		}
	}
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, "/") {
		if loc := named(rest); loc != nil {
			return loc
		}
	}
	if loc := named(windowsZones[strings.ToLower(name)]); loc != nil {
		return loc
	}
	if m := fixedName.FindStringSubmatch(name); m != nil {
		if seconds, err := offsetOf(m[1] + fmt.Sprintf("%02s", m[2]) + m[3]); err == nil {
			return time.FixedZone(name, seconds)
		}
	}
	return nil
}

// fixedName matches names that say their distance from UTC.
var fixedName = regexp.MustCompile(`^(?:UTC|GMT) ?([+-])([0-9]{1,2}):?([0-9]{2})$`)

// named returns a zone of the time zone database.
func named(name string) *time.Location {
	if name == "" || strings.EqualFold(name, "local") {
		return nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return loc
}

// observance is a part of a VTIMEZONE: from when on which offset holds.
type observance struct {
	start          time.Time // as the clocks show it before, taken for UTC
	rule           string
	dates          []string
	before, offset int // in seconds
	daylight       bool
	name           string
}

// defined makes a zone of the lines of a VTIMEZONE, or nil if they do not say one.
func defined(name string, lines []Line) *time.Location {
	var all []observance
	var cur *observance
	valid := true
	for _, l := range lines {
		var err error
		switch value := strings.TrimSpace(l.Value); {
		case l.Name == "X-LIC-LOCATION" && cur == nil:
			if loc := named(value); loc != nil {
				return loc
			}
		case l.Name == "BEGIN" && (strings.EqualFold(value, "STANDARD") || strings.EqualFold(value, "DAYLIGHT")):
			cur = &observance{daylight: strings.EqualFold(value, "DAYLIGHT")}
		case cur == nil:
		case l.Name == "END":
			all, cur = append(all, *cur), nil
		case l.Name == "DTSTART":
			cur.start, err = time.Parse("20060102T150405", strings.TrimSuffix(value, "Z"))
		case l.Name == "RRULE":
			cur.rule = value
		case l.Name == "RDATE":
			cur.dates = append(cur.dates, strings.Split(value, ",")...)
		case l.Name == "TZOFFSETFROM":
			cur.before, err = offsetOf(value)
		case l.Name == "TZOFFSETTO":
			cur.offset, err = offsetOf(value)
		case l.Name == "TZNAME":
			cur.name = value
		}
		valid = valid && err == nil
	}
	if !valid || len(all) == 0 {
		return nil
	}
	var changes []onset
	for _, o := range all {
		list, ok := o.onsets()
		if changes = append(changes, list...); !ok || len(changes) > maxOnsets {
			return nil
		}
	}
	slices.SortStableFunc(changes, func(a, b onset) int { return a.at.Compare(b.at) })
	data, ok := zoneData(changes)
	if !ok {
		return nil
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil
	}
	return loc
}

// onset is one change of the clock.
type onset struct {
	at time.Time
	observance
}

// onsets returns when an observance begins, each time. It is false if its rule is none that zones have.
func (o observance) onsets() (out []onset, ok bool) {
	add := func(wall time.Time) {
		out = append(out, onset{wall.Add(-time.Duration(o.before) * time.Second), o})
	}
	add(o.start)
	for _, d := range o.dates {
		at, err := time.Parse("20060102T150405", strings.TrimSuffix(strings.TrimSpace(d), "Z"))
		if err != nil {
			return nil, false
		}
		add(at)
	}
	if o.rule == "" {
		return out, true
	}
	r, ok := yearly(o.rule, o.start)
	if !ok {
		return nil, false
	}
	count := r.count - 1 // the start is the first
	for year := o.start.Year(); year <= lastYear; year++ {
		if (year-o.start.Year())%r.interval != 0 || year < firstYear && r.count == 0 {
			continue
		}
		for _, month := range r.months {
			for day := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC); day.Month() == month; day = day.AddDate(0, 0, 1) {
				at := day.Add(o.start.Sub(o.start.Truncate(24 * time.Hour)))
				if !r.matchesDay(day) || !at.After(o.start) {
					continue
				}
				if r.count > 0 && count <= 0 || !r.until.IsZero() && at.Add(-time.Duration(o.before)*time.Second).After(r.until) {
					return out, true
				}
				count--
				add(at)
			}
		}
	}
	return out, true
}

// yearlyRule is a RRULE of a zone.
type yearlyRule struct {
	months   []time.Month
	days     []int // of the month, from its end if negative
	weekdays []nth
	interval int
	count    int
	until    time.Time
}

// nth is a weekday of a month: the nth one, from the end if n is negative, or each if n is 0.
type nth struct {
	n   int
	day time.Weekday
}

var ruleDay = regexp.MustCompile(`^([+-]?[1-5])?(SU|MO|TU|WE|TH|FR|SA)$`)

// yearly reads a RRULE of a zone. It is false if that is another one than zones have.
func yearly(text string, start time.Time) (r yearlyRule, ok bool) {
	r = yearlyRule{interval: 1}
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "FREQ":
			ok = value == "YEARLY"
		case "INTERVAL":
			if r.interval, err = strconv.Atoi(value); r.interval < 1 {
				return r, false
			}
		case "COUNT":
			if r.count, err = strconv.Atoi(value); r.count < 1 {
				return r, false
			}
		case "UNTIL":
			layout := "20060102T150405Z"
			r.until, err = time.Parse(layout[:min(len(layout), len(value))], value)
		case "BYMONTH":
			for v := range strings.SplitSeq(value, ",") {
				n, nerr := strconv.Atoi(v)
				if nerr != nil || n < 1 || n > 12 {
					return r, false
				}
				r.months = append(r.months, time.Month(n))
			}
		case "BYMONTHDAY":
			for v := range strings.SplitSeq(value, ",") {
				n, nerr := strconv.Atoi(v)
				if nerr != nil {
					return r, false
				}
				r.days = append(r.days, n)
			}
		case "BYDAY":
			for v := range strings.SplitSeq(value, ",") {
				m := ruleDay.FindStringSubmatch(v)
				if m == nil {
					return r, false
				}
				n, _ := strconv.Atoi(m[1]) //nolint:errcheck // it may be missing
				r.weekdays = append(r.weekdays, nth{n, time.Weekday(strings.Index("SUMOTUWETHFRSA", m[2]) / 2)})
			}
		case "WKST":
		default:
			return r, false
		}
		if err != nil {
			return r, false
		}
	}
	if r.months == nil {
		r.months = []time.Month{start.Month()}
	}
	if r.days == nil && r.weekdays == nil {
		r.days = []int{start.Day()}
	}
	slices.Sort(r.months)
	return r, ok && len(r.months) <= 12
}

// matchesDay reports whether the rule means a day of its months.
func (r yearlyRule) matchesDay(day time.Time) bool {
	last := day.AddDate(0, 1, -day.Day()).Day()
	byDay := r.days == nil || slices.Contains(r.days, day.Day()) || slices.Contains(r.days, day.Day()-last-1)
	byWeekday := r.weekdays == nil || slices.ContainsFunc(r.weekdays, func(w nth) bool {
		return w.day == day.Weekday() && (w.n == 0 || w.n == (day.Day()-1)/7+1 || w.n == -((last-day.Day())/7+1))
	})
	return byDay && byWeekday
}

// offsetOf reads an offset as +0100 or -033015, in seconds.
func offsetOf(text string) (int, error) {
	sign := 1
	digits := text
	switch {
	case strings.HasPrefix(text, "-"):
		sign, digits = -1, text[1:]
	case strings.HasPrefix(text, "+"):
		digits = text[1:]
	}
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) != 4 && len(digits) != 6 {
		return 0, fmt.Errorf("%.20q is not an offset from UTC", text)
	}
	if len(digits) == 4 {
		n *= 100
	}
	hours, minutes, seconds := n/10_000, n/100%100, n%100
	if hours > 24 || minutes > 59 || seconds > 59 {
		return 0, fmt.Errorf("%.20q is not an offset from UTC", text)
	}
	return sign * (hours*3600 + minutes*60 + seconds), nil
}

// zoneData returns changes of the clock in the format of the time zone database (RFC 8536), from which package
// time makes a zone. Before the first change its former offset holds. It is false if the kinds of time are too many.
func zoneData(changes []onset) ([]byte, bool) {
	type kind struct {
		offset   int
		daylight bool
		name     string
	}
	kinds := []kind{{changes[0].before, false, "LMT"}}
	var times, which []byte
	for _, c := range changes {
		k := kind{c.offset, c.daylight, abbreviation(c.observance)}
		i := slices.Index(kinds, k)
		if i < 0 {
			i = len(kinds)
			if kinds = append(kinds, k); len(kinds) > maxKinds {
				return nil, false
			}
		}
		times = binary.BigEndian.AppendUint64(times, uint64(c.at.Unix())) //nolint:gosec // two's complement is meant
		which = append(which, byte(i))
	}
	var types, names []byte
	for _, k := range kinds {
		daylight := byte(0)
		if k.daylight {
			daylight = 1
		}
		types = binary.BigEndian.AppendUint32(types, uint32(k.offset)) //nolint:gosec // likewise
		types = append(types, daylight, byte(len(names)))
		names = append(append(names, k.name...), 0)
	}
	header := func(n, kinds, names int) []byte {
		h := append([]byte("TZif2"), make([]byte, 15)...)
		for _, count := range []int{0, 0, 0, n, kinds, names} {
			h = binary.BigEndian.AppendUint32(h, uint32(count)) //nolint:gosec // it is bounded
		}
		return h
	}
	return slices.Concat(header(0, 0, 0), header(len(changes), len(kinds), len(names)), times, which, types, names, []byte("\n\n")), true
}

// abbreviation returns the short name of an observance. All are of a few letters, so that their places fit.
func abbreviation(o observance) string {
	if len(o.name) >= 3 && len(o.name) <= 6 && strings.Trim(o.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-0123456789") == "" {
		return o.name
	}
	return offsetText(o.offset)
}
