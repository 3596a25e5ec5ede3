package jobs

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/teambition/rrule-go"

	"steward/internal/fault"
	"steward/internal/record"
)

// minEvery is the shortest time between two occurrences of a job.
const minEvery = time.Minute

// timetable yields the times at which a job is due.
//
// Cron expressions and rules of days are counted on the wall clock: as if the zone had no daylight
// saving time. The wall time is then looked up in the zone (instant). A wall time that does not exist
// becomes the moment at which the clocks are put forward, and one that exists twice is the first of
// both. Two occurrences that fall on one moment in this way are one. Hourly and minutely rules, and
// intervals, are counted in real time.
type timetable struct {
	loc   *time.Location
	start time.Time
	at    time.Time      // once
	step  time.Duration  // every so often
	until time.Time      // a rule ends there; zero: it does not, or its option says so
	cron  string         // five fields
	rule  *rrule.ROption // on the wall clock
	count int            // of occurrences; 0: any
}

// newTimetable reads a job's trigger. Error codes: trigger_invalid, zone_unknown, rule_invalid,
// rule_unsupported, cron_invalid.
func newTimetable(j *record.Job) (tt timetable, err error) {
	if tt.loc, err = zone(j.Zone); err != nil {
		return tt, err
	}
	set := 0
	for _, is := range []bool{!j.At.IsZero(), j.Every != 0, j.Cron != "", j.Rule != "", !j.On.Zero(), !j.Hook.Zero(), j.Mail != record.MailFilter{}, j.File != "", j.Home != ""} {
		if is {
			set++
		}
	}
	if set != 1 {
		return tt, fault.New(fault.Invalid, "trigger_invalid", "a job needs exactly one trigger, and this one has %d", set).
			WithHint("give one of at, every, cron, rule, on, hook, mail, file and home")
	}
	tt.start = j.Start.Truncate(time.Second)
	switch {
	case !j.At.IsZero():
		tt.at = j.At.Truncate(time.Second)
	case j.Every != 0:
		tt.step = time.Duration(j.Every) * time.Second
		if tt.step < minEvery || tt.step > horizon {
			return tt, fault.New(fault.Invalid, "trigger_invalid", "the job repeats every %d seconds", j.Every).
				WithHint("give at least one minute and at most five years")
		}
	case j.Cron != "":
		tt.cron, err = readCron(j.Cron)
	case j.Rule != "":
		err = tt.readRule(j.Rule)
	}
	return tt, err
}

func zone(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fault.New(fault.Invalid, "zone_unknown", "unknown time zone %.60q", name).WithHint("use a name such as Europe/Vienna")
	}
	return loc, nil
}

func readCron(expr string) (string, error) {
	if expr = strings.TrimSpace(expr); len(expr) > 200 {
		return "", invalidCron("it is too long")
	}
	fields, err := gronx.Segments(expr)
	switch {
	case err != nil, len(fields) != 6:
		return "", invalidCron("it does not have five fields")
	case fields[0] != "0", !strings.HasPrefix(expr, "@") && len(strings.Fields(expr)) != 5:
		return "", invalidCron("seconds and years are not supported")
	case !gronx.IsValid(expr):
		return "", invalidCron("a field is out of range")
	}
	return strings.Join(fields[1:], " "), nil
}

func invalidCron(why string) error {
	return fault.New(fault.Invalid, "cron_invalid", "invalid cron expression: %s", why).
		WithHint("give minute, hour, day of the month, month and day of the week, for example 0 7 * * 1-5")
}

// readRule reads an RRULE. What RFC 5545 takes from DTSTART is written into the rule, so that next
// can begin to search anywhere.
func (tt *timetable) readRule(rule string) error {
	start := wall(tt.start, tt.loc)
	o, err := parse(record.Alarm{Rule: rule, Zone: "UTC", Start: start})
	if err != nil {
		return err
	}
	tt.count, o.Count = o.Count, 0
	utc := strings.Contains(strings.ToUpper(rule), "UNTIL=") && untilIsUTC(rule)
	if smallest(o) {
		tt.step = time.Duration(max(o.Interval, 1)) * map[rrule.Frequency]time.Duration{rrule.MINUTELY: time.Minute, rrule.HOURLY: time.Hour}[o.Freq]
		if tt.until = o.Until; !tt.until.IsZero() && !utc {
			tt.until = instant(tt.until, tt.loc)
		}
		return nil
	}
	if utc {
		tt.until = o.Until // checked by next, since a wall time may stand for two instants
		o.Until = o.Until.AddDate(0, 0, 2)
	}
	if len(o.Byhour) == 0 {
		o.Byhour = []int{start.Hour()}
	}
	if len(o.Byminute) == 0 {
		o.Byminute = []int{start.Minute()}
	}
	o.Bysecond = []int{start.Second()}
	onDays := len(o.Bymonthday)+len(o.Byweekday) > 0
	switch {
	case o.Freq == rrule.WEEKLY && !onDays:
		o.Byweekday = []rrule.Weekday{[]rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}[start.Weekday()]}
	case o.Freq == rrule.MONTHLY && !onDays:
		o.Bymonthday = []int{start.Day()}
	case o.Freq == rrule.YEARLY && !onDays:
		o.Bymonthday = []int{start.Day()}
		if len(o.Bymonth) == 0 {
			o.Bymonth = []int{int(start.Month())}
		}
	}
	tt.rule = o
	return nil
}

// untilIsUTC reports whether a rule's UNTIL is a time in UTC, and not in the zone.
func untilIsUTC(rule string) bool {
	_, v, _ := strings.Cut(strings.ToUpper(rule), "UNTIL=")
	v, _, _ = strings.Cut(v, ";")
	return strings.HasSuffix(strings.TrimSpace(v), "Z")
}

// next returns the first time after t at which the job is due. It returns zero if there is none within
// five years.
func (tt *timetable) next(t time.Time) time.Time {
	if before := tt.start.Add(-time.Second); t.Before(before) {
		t = before
	}
	switch {
	case !tt.at.IsZero():
		if tt.at.After(t) {
			return tt.at.UTC()
		}
		return time.Time{}
	case tt.step > 0:
		next := tt.start
		if !next.After(t) {
			next = next.Add((t.Sub(next)/tt.step + 1) * tt.step)
		}
		if !tt.until.IsZero() && next.After(tt.until) {
			return time.Time{}
		}
		return next.UTC()
	}
	search := tt.nextCron
	if tt.rule != nil {
		search = tt.nextByRule
	} else if tt.cron == "" {
		return time.Time{} // it begins when something happens
	}
	for w := wall(t, tt.loc); ; {
		if w = search(w); w.IsZero() {
			return w
		}
		if at := instant(w, tt.loc); at.After(t) { // otherwise it is a wall time that has passed already, or several times are one
			if at.Sub(t) > horizon || !tt.until.IsZero() && at.After(tt.until) {
				return time.Time{}
			}
			return at
		}
	}
}

func (tt *timetable) nextCron(w time.Time) time.Time {
	next, err := gronx.NextTickAfter(tt.cron, w, false)
	if err != nil || !next.After(w) {
		return time.Time{}
	}
	return next.Truncate(time.Minute)
}

// nextByRule searches from the beginning of the period (day, week, month, year) of the rule in which
// w is, so that an old job costs no more than a new one.
func (tt *timetable) nextByRule(w time.Time) time.Time {
	o := *tt.rule
	start := o.Dtstart
	day := time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, time.UTC)
	const aDay = 24 * time.Hour
	interval := max(o.Interval, 1)
	switch o.Freq {
	case rrule.DAILY:
		days := max(int(w.Sub(day)/aDay), 0)
		day = day.AddDate(0, 0, days/interval*interval)
	case rrule.WEEKLY:
		first := (o.Wkst.Day() + 1) % 7 // rrule counts from Monday
		day = day.AddDate(0, 0, -(int(day.Weekday())-first+7)%7)
		weeks := max(int(w.Sub(day)/(7*aDay)), 0)
		day = day.AddDate(0, 0, 7*(weeks/interval*interval))
	case rrule.MONTHLY:
		day = day.AddDate(0, 0, 1-day.Day())
		months := max((w.Year()-day.Year())*12+int(w.Month()-day.Month()), 0)
		day = day.AddDate(0, months/interval*interval, 0)
	default:
		day = time.Date(day.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		day = day.AddDate(max(w.Year()-day.Year(), 0)/interval*interval, 0, 0)
	}
	o.Dtstart = day
	if before := start.Add(-time.Second); w.Before(before) {
		w = before
	}
	return after(&o, w, w)
}

// wall returns what the clock in the zone shows at t, as a time in UTC.
func wall(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns when the clock in the zone first shows w. If it never does, because it is put
// forward, instant returns when that happens.
func instant(w time.Time, loc *time.Location) time.Time {
	at := func(near time.Time) time.Time { // w with the offset that is in force near a time
		_, offset := near.In(loc).Zone()
		return w.Add(-time.Duration(offset) * time.Second)
	}
	before, later := at(w.Add(-36*time.Hour)), at(w.Add(36*time.Hour))
	if later.Before(before) {
		before, later = later, before
	}
	for _, t := range []time.Time{before, later} {
		if wall(t, loc).Equal(w) {
			return t
		}
	}
	change, _ := later.In(loc).ZoneBounds()
	return change.UTC()
}

// inQuiet returns when the quiet hours end in which t is, or t.
func inQuiet(q record.Quiet, loc *time.Location, t time.Time) time.Time {
	from, errFrom := time.Parse("15:04", q.From)
	to, errTo := time.Parse("15:04", q.To)
	if errFrom != nil || errTo != nil || from.Equal(to) {
		return t
	}
	w := wall(t, loc)
	day := time.Date(w.Year(), w.Month(), w.Day(), 0, 0, 0, 0, time.UTC)
	ofDay := func(x time.Time) time.Time {
		return day.Add(time.Duration(x.Hour())*time.Hour + time.Duration(x.Minute())*time.Minute)
	}
	begin, end := ofDay(from), ofDay(to)
	switch overnight := end.Before(begin); {
	case overnight && !w.Before(begin):
		end = end.AddDate(0, 0, 1)
	case overnight && !w.Before(end), !overnight && (w.Before(begin) || !w.Before(end)):
		return t
	}
	return instant(end, loc)
}
