package jobs

import (
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"

	"steward/internal/fault"
	"steward/internal/record"
)

// horizon is how far ahead an occurrence is searched. It bounds the search for rules that never
// come true, such as the 30th of February.
const horizon = 5 * 366 * 24 * time.Hour

// parse reads a rule. Occurrences less than a minute apart are refused, and so are the parts of
// RFC 5545 that make the search for the next occurrence long.
func parse(a record.Alarm) (*rrule.ROption, error) {
	loc, err := time.LoadLocation(a.Zone)
	if err != nil || a.Zone == "Local" {
		return nil, fault.New(fault.Invalid, "zone_unknown", "unknown time zone %.60q", a.Zone).WithHint("use a name such as Europe/Vienna")
	}
	rule := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(a.Rule)), "RRULE:")
	if len(rule) > 300 || strings.ContainsAny(rule, "\r\n") {
		return nil, invalidRule("the rule is too long")
	}
	o, err := rrule.StrToROptionInLocation(rule, loc)
	if err != nil {
		return nil, invalidRule(err.Error())
	}
	small := o.Freq == rrule.SECONDLY || o.Freq == rrule.MINUTELY || o.Freq == rrule.HOURLY
	switch {
	case o.Freq == rrule.SECONDLY, len(o.Bysecond) > 0:
		return nil, unsupportedRule("the rule repeats more than once a minute")
	case len(o.Byeaster)+len(o.Byweekno)+len(o.Byyearday) > 0:
		return nil, unsupportedRule("the rule uses weeks or days of the year")
	case small && len(o.Bymonth)+len(o.Bymonthday)+len(o.Byweekday)+len(o.Byhour)+len(o.Byminute)+len(o.Bysetpos) > 0:
		return nil, unsupportedRule("hourly and minutely rules cannot have BY parts")
	case (o.Freq != rrule.YEARLY || len(o.Bymonth) > 0) && slices.ContainsFunc(o.Byweekday, func(w rrule.Weekday) bool { return w.N() > 5 || w.N() < -5 }):
		return nil, invalidRule("a weekday occurs at most five times a month") // with more, the library panics, but only in some months
	case o.Interval < 0 || o.Interval > 10_000 || o.Count < 0:
		return nil, invalidRule("a number is out of range")
	}
	o.Dtstart = a.Start.In(loc)
	return o, nil
}

func invalidRule(why string) error {
	return fault.New(fault.Invalid, "rule_invalid", "invalid repetition: %s", why).
		WithHint("use an RRULE such as FREQ=WEEKLY;BYDAY=MO,TH")
}

func unsupportedRule(why string) error {
	return fault.New(fault.Unsupported, "rule_unsupported", "unsupported repetition: %s", why).
		WithHint("use an RRULE such as FREQ=WEEKLY;BYDAY=MO,TH")
}

// first returns an alarm's first occurrence at or after now: its start, or the first time after
// it that fits its rule.
func first(a record.Alarm, now time.Time) (time.Time, error) {
	if a.Rule == "" {
		return a.Start, nil
	}
	o, err := parse(a)
	if err != nil {
		return time.Time{}, err
	}
	if a.Start.Before(now) && !smallest(o) {
		o.Dtstart = onDay(o.Dtstart, now)
	}
	o.Count = 0
	t := after(o, now.Add(-time.Second), now)
	if t.IsZero() {
		return t, fault.New(fault.Invalid, "rule_never", "the repetition has no occurrence within the next five years").WithHint("check the days and months of the rule")
	}
	return t, nil
}

func smallest(o *rrule.ROption) bool { return o.Freq == rrule.MINUTELY || o.Freq == rrule.HOURLY }

// onDay returns the time of day of t on the day of now.
func onDay(t, now time.Time) time.Time {
	n := now.In(t.Location())
	return time.Date(n.Year(), n.Month(), n.Day(), t.Hour(), t.Minute(), t.Second(), 0, t.Location())
}

// after returns the first occurrence after t, or zero.
func after(o *rrule.ROption, t, now time.Time) time.Time {
	limited := *o
	if most := now.Add(horizon); limited.Until.IsZero() || limited.Until.After(most) {
		limited.Until = most
	}
	r, err := rrule.NewRRule(limited)
	if err != nil {
		return time.Time{} // parse has accepted it: it has no occurrence
	}
	return r.After(t, false).UTC().Truncate(time.Second)
}

// advance returns the occurrence to tell of an alarm that is due, the next one (zero: there is
// none), and how many have passed, with the one to tell.
func advance(a record.Alarm, now time.Time) (due, next time.Time, passed int) {
	due, passed = a.Next, 1
	if a.Rule == "" {
		return due, time.Time{}, 1
	}
	o, err := parse(a)
	if err != nil {
		return due, time.Time{}, 1
	}
	count := o.Count
	o.Count = 0
	if smallest(o) { // every so many minutes: computed, because there may be very many
		step := time.Duration(max(o.Interval, 1)) * map[rrule.Frequency]time.Duration{rrule.MINUTELY: time.Minute, rrule.HOURLY: time.Hour}[o.Freq]
		late := int(now.Sub(a.Next) / step)
		if count > 0 {
			late = min(late, count-a.Fired-1)
		}
		due = a.Next.Add(time.Duration(late) * step)
		passed += late
		next = due.Add(step)
		if !o.Until.IsZero() && next.After(o.Until) {
			next = time.Time{}
		}
	} else {
		o.Dtstart = a.Next.In(o.Dtstart.Location()) // intervals are counted from one occurrence to the next
		for next = after(o, due, now); !next.IsZero() && !next.After(now) && (count == 0 || a.Fired+passed < count); next = after(o, due, now) {
			due = next
			o.Dtstart = due.In(o.Dtstart.Location())
			passed++
		}
	}
	if count > 0 && a.Fired+passed >= count {
		next = time.Time{}
	}
	return due, next, passed
}
