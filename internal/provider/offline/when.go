package offline

import (
	"math"
	"time"
)

// when is a point in time as far as it was said: a date, a time of day, or both.
type when struct {
	year, month, day     int
	hour, minute, second int
	date, clock          bool
	exactHalf            bool // the half of the day is certain
	fixed                bool // offset (seconds east of UTC) was said
	offset               int
}

// halfDay applies "a" or "p" (of am and pm) and reports whether the clock is valid.
func (w *when) halfDay(half string) bool {
	if half != "" {
		if w.hour > 12 || w.hour == 0 {
			return false
		}
		w.hour %= 12
		if half == "p" || half == "P" {
			w.hour += 12
		}
	}
	return w.hour < 24 && w.minute < 60 && w.second < 60
}

func dateOf(t time.Time) when {
	return when{year: t.Year(), month: int(t.Month()), day: t.Day(), date: true}
}

func instant(t time.Time) when {
	w := dateOf(t)
	w.hour, w.minute, w.second, w.clock, w.exactHalf = t.Hour(), t.Minute(), t.Second(), true, true
	return w
}

// time places w: a date without a time of day is its midnight; a time of day
// without a date is its next occurrence after now.
func (w when) time(now time.Time) time.Time {
	loc := now.Location()
	if w.fixed {
		loc = time.FixedZone("", w.offset)
	}
	if w.date {
		return time.Date(w.year, time.Month(w.month), w.day, w.hour, w.minute, w.second, 0, loc)
	}
	t := time.Date(now.Year(), now.Month(), now.Day(), w.hour, w.minute, w.second, 0, loc)
	if t.Before(now) {
		t = time.Date(now.Year(), now.Month(), now.Day()+1, w.hour, w.minute, w.second, 0, loc)
	}
	return t
}

var weekdays = map[string]time.Weekday{
	"sunday": 0, "monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4, "friday": 5, "saturday": 6,
	"mondays": 1, "tuesdays": 2, "wednesdays": 3, "thursdays": 4, "fridays": 5, "saturdays": 6, "sundays": 0,
	"sonntag": 0, "montag": 1, "dienstag": 2, "mittwoch": 3, "donnerstag": 4, "freitag": 5, "samstag": 6,
	"dimanche": 0, "lundi": 1, "mardi": 2, "mercredi": 3, "jeudi": 4, "vendredi": 5, "samedi": 6,
	"domingo": 0, "lunes": 1, "martes": 2, "miércoles": 3, "jueves": 4, "viernes": 5, "sábado": 6,
}

var months = map[string]int{
	"january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9, "october": 10, "november": 11, "december": 12,
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
	"januar": 1, "februar": 2, "märz": 3, "mai": 5, "juni": 6, "juli": 7, "oktober": 10, "dezember": 12,
	"janvier": 1, "février": 2, "mars": 3, "avril": 4, "juin": 6, "juillet": 7, "août": 8, "septembre": 9, "octobre": 10, "novembre": 11, "décembre": 12,
	"enero": 1, "febrero": 2, "marzo": 3, "abril": 4, "mayo": 5, "junio": 6, "julio": 7, "agosto": 8, "septiembre": 9, "octubre": 10, "noviembre": 11, "diciembre": 12,
}

var relativeDays = map[string]int{"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "heute": 0, "morgen": 1, "gestern": -1, "übermorgen": 2,
	"demain": 1, "hier": -1, "hoy": 0, "mañana": 1, "ayer": -1}

var dayParts = map[string]int{"morning": 9, "noon": 12, "midday": 12, "midnight": 0, "afternoon": 15, "evening": 18, "night": 21,
	"mittag": 12, "mitternacht": 0, "midi": 12, "minuit": 0, "mediodía": 12, "medianoche": 0}

// dateAt reads a date at token i and returns how many tokens it takes.
func dateAt(toks []token, i int, now time.Time) (when, int) {
	if i >= len(toks) {
		return when{}, 0
	}
	t, w, next := toks[i], wordAt(toks, i), wordAt(toks, i+1)
	day := func(n int) when { return dateOf(now.AddDate(0, 0, n)) }
	switch {
	case t.kind == tkDate:
		return t.when, 1
	case w == "the" && next == "day" && wordAt(toks, i+2) == "after" && wordAt(toks, i+3) == "tomorrow":
		return day(2), 4
	case w == "day" && next == "after" && wordAt(toks, i+2) == "tomorrow":
		return day(2), 3
	case w == "après" && next == "demain":
		return day(2), 2
	case hasKey(relativeDays, w) && (w != "morgen" || !capitalInside(toks, i)):
		return day(relativeDays[w]), 1
	case w == "this" && hasKey(dayParts, next):
		return day(0), 1 // the part of the day is read as its time
	}
	if d, n := weekdayAt(toks, i, now); n > 0 {
		return d, n
	}
	if d, n := calendarAt(toks, i, now); n > 0 {
		return d, n
	}
	return relativeDate(toks, i, now)
}

func capitalInside(toks []token, i int) bool { return i > 0 && toks[i].capital }

// weekdayAt reads "Monday", "next Monday", "last Friday": the coming one unless "last" is said.
func weekdayAt(toks []token, i int, now time.Time) (when, int) {
	w, n := wordAt(toks, i), 1
	mod := ""
	if w == "next" || w == "this" || w == "last" || w == "coming" {
		mod, w, n = w, wordAt(toks, i+1), 2
	}
	wd, ok := weekdays[w]
	if !ok {
		return when{}, 0
	}
	ahead := (int(wd) - int(now.Weekday()) + 7) % 7
	switch {
	case mod == "last":
		ahead -= 7
	case ahead == 0:
		ahead = 7
	}
	return dateOf(now.AddDate(0, 0, ahead)), n
}

// calendarAt reads "March 3rd, 2026", "3 March", "the 3rd of March".
func calendarAt(toks []token, i int, now time.Time) (when, int) {
	start := i
	if wordAt(toks, i) == "the" {
		i++
	}
	day, n := dayAt(toks, i)
	switch {
	case n > 0: // day first
		i += n
		if wordAt(toks, i) == "of" {
			i++
		}
		m, ok := months[wordAt(toks, i)]
		if !ok {
			return when{}, 0
		}
		return withYear(toks, start, i+1, m, day, now)
	case hasKey(months, wordAt(toks, i)) && (toks[i].capital || len(toks[i].low) > 4):
		m := months[wordAt(toks, i)]
		i++
		if wordAt(toks, i) == "the" {
			i++
		}
		if day, n = dayAt(toks, i); n == 0 {
			return when{}, 0
		}
		return withYear(toks, start, i+n, m, day, now)
	}
	return when{}, 0
}

// dayAt reads a day of the month: "3", "3rd", "third", "3.".
func dayAt(toks []token, i int) (int, int) {
	if i >= len(toks) {
		return 0, 0
	}
	if v, ok := ordinals[wordAt(toks, i)]; ok {
		return int(v), 1
	}
	if o, ok := ordinals[wordAt(toks, i+2)]; ok && tens[wordAt(toks, i)] > 0 && toks[i+1].text == "-" {
		return int(tens[wordAt(toks, i)] + o), 3
	}
	t := toks[i]
	if t.kind != tkNumber || t.num != float64(int(t.num)) || t.num < 1 || t.num > 31 {
		return 0, 0
	}
	n := 1
	switch {
	case isOrdinalTail(toks, i+1):
		n = 2
	case i+1 < len(toks) && toks[i+1].text == "." && toks[i+1].glued && i+2 < len(toks) && hasKey(months, toks[i+2].low):
		n = 2
	}
	return int(t.num), n
}

func isOrdinalTail(toks []token, i int) bool {
	switch wordAt(toks, i) {
	case "st", "nd", "rd", "th":
		return toks[i].glued
	}
	return false
}

// withYear ends a date that began at start; without a year it is the next such date.
func withYear(toks []token, start, i, month, day int, now time.Time) (when, int) {
	j := i
	if j < len(toks) && toks[j].text == "," {
		j++
	}
	if j < len(toks) && toks[j].kind == tkNumber && len(toks[j].text) == 4 && toks[j].num >= 1900 && toks[j].num <= 2999 {
		y := int(toks[j].num)
		if !validDate(y, month, day) {
			return when{}, 0
		}
		return when{year: y, month: month, day: day, date: true}, j + 1 - start
	}
	y := now.Year()
	if month < int(now.Month()) || month == int(now.Month()) && day < now.Day() {
		y++
	}
	for k := 0; !validDate(y, month, day); k++ { // 29 February
		if y++; k > 8 {
			return when{}, 0
		}
	}
	return when{year: y, month: month, day: day, date: true}, i - start
}

// relativeDate reads "in 3 days", "2 weeks ago", "next week".
func relativeDate(toks []token, i int, now time.Time) (when, int) {
	w := wordAt(toks, i)
	if w == "next" || w == "last" {
		if u, ok := units[wordAt(toks, i+1)]; ok && u.dim == dimTime && u.factor >= 86400 {
			sign := 1
			if w == "last" {
				sign = -1
			}
			return dateOf(u.span(1).after(now, sign)), 2
		}
		return when{}, 0
	}
	if w == "in" || w == "within" || w == "en" || w == "dans" {
		d, n := spanAt(toks, i+1)
		if n == 0 {
			return when{}, 0
		}
		return d.point(now, 1), n + 1
	}
	if d, n := spanAt(toks, i); n > 0 {
		switch wordAt(toks, i+n) {
		case "ago":
			return d.point(now, -1), n + 1
		case "later":
			return d.point(now, 1), n + 1
		case "from":
			if wordAt(toks, i+n+1) == "now" {
				return d.point(now, 1), n + 2
			}
		}
	}
	return when{}, 0
}

// clockAt reads a time of day. after tells that a word like "at" stands
// before, which lets a bare number be one.
func clockAt(toks []token, i int, after bool) (when, int) {
	if i >= len(toks) {
		return when{}, 0
	}
	t, w := toks[i], wordAt(toks, i)
	switch {
	case t.kind == tkClock:
		return clockTail(toks, i+1, t.when, 1)
	case hasKey(dayParts, w):
		// "morning" alone is a greeting or a subject; with "this" or "in the" it is a time
		if h := dayParts[w]; h == 12 || h == 0 || i > 0 && (wordAt(toks, i-1) == "this" || hasKey(relativeDays, wordAt(toks, i-1)) || hasKey(weekdays, wordAt(toks, i-1))) {
			return when{hour: h, clock: true, exactHalf: true}, 1
		}
		return when{}, 0
	case w == "half" && wordAt(toks, i+1) == "past":
		if v, n := hourAt(toks, i+2); n > 0 {
			return clockTail(toks, i+2+n, when{hour: v, minute: 30, clock: true}, 2+n)
		}
	case w == "quarter" && (wordAt(toks, i+1) == "past" || wordAt(toks, i+1) == "to"):
		if v, n := hourAt(toks, i+2); n > 0 {
			c := when{hour: v, minute: 15, clock: true}
			if wordAt(toks, i+1) == "to" {
				c.hour, c.minute = (v+23)%24, 45
			}
			return clockTail(toks, i+2+n, c, 2+n)
		}
	case w == "a" && wordAt(toks, i+1) == "quarter":
		if c, n := clockAt(toks, i+1, after); n > 0 {
			return c, n + 1
		}
	}
	v, n := hourAt(toks, i)
	if n == 0 {
		return when{}, 0
	}
	c := when{hour: v, clock: true}
	if e, m := clockTail(toks, i+n, c, n); m > n {
		return e, m
	}
	switch next := wordAt(toks, i+n); {
	case next == "uhr" || next == "heures":
		c.exactHalf = true
		return c, n + 1
	case after && !hasKey(units, next) && !(i+n < len(toks) && hasKey(units, toks[i+n].low)) && (next == "" || stopwords[next] || hasKey(relativeDays, next) || hasKey(weekdays, next)):
		return c, n
	}
	return when{}, 0
}

func hourAt(toks []token, i int) (int, int) {
	v, n := numberAt(toks, i)
	if n == 0 || v != float64(int(v)) || v < 0 || v > 23 {
		return 0, 0
	}
	return int(v), n
}

// clockTail reads "o'clock", "am", "in the evening" after a time of day.
func clockTail(toks []token, i int, c when, n int) (when, int) {
	if wordAt(toks, i) == "o" && i+1 < len(toks) && (toks[i+1].low == "clock") {
		i, n = i+2, n+2
	} else if wordAt(toks, i) == "oclock" {
		i, n = i+1, n+1
	}
	half, m := "", 0
	switch wordAt(toks, i) {
	case "am":
		half, m = "a", 1
	case "pm":
		half, m = "p", 1
	case "in":
		if wordAt(toks, i+1) == "the" {
			switch wordAt(toks, i+2) {
			case "morning":
				half, m = "a", 3
			case "afternoon", "evening":
				half, m = "p", 3
			}
		}
	case "at":
		if wordAt(toks, i+1) == "night" {
			half, m = "p", 2
		}
	case "tonight":
		half = "p"
	}
	if half != "" && !c.exactHalf {
		e := c
		if e.halfDay(half) {
			e.exactHalf = true
			return e, n + m
		}
	}
	return c, n
}

// span is a length of time.
type span struct {
	seconds float64 // without the months
	months  int
}

// total returns the span in seconds, a month counting as thirty days.
func (s span) total() float64 { return s.seconds + float64(s.months)*30*86400 }

func (s span) after(t time.Time, sign int) time.Time {
	if s.months != 0 {
		t = t.AddDate(0, sign*s.months, 0)
	}
	if days := s.seconds / 86400; days == float64(int(days)) && days < 1e6 {
		return t.AddDate(0, 0, sign*int(days))
	}
	if s.seconds > 1e9 {
		return t.AddDate(0, 0, sign*int(min(s.seconds/86400, 1e6)))
	}
	return t.Add(time.Duration(float64(sign) * s.seconds * float64(time.Second)))
}

// point is the date or the instant that lies a span from now: whole days keep
// to the date.
func (s span) point(now time.Time, sign int) when {
	t := s.after(now, sign)
	if s.months != 0 || s.seconds >= 86400 && int64(s.seconds)%86400 == 0 {
		return dateOf(t)
	}
	return instant(t)
}

// spanAt reads a length of time at token i: "20 minutes", "an hour and a
// half", "2h30m", "half an hour", "1 hour and 30 minutes".
func spanAt(toks []token, i int) (span, int) {
	s, n := spanPart(toks, i, false)
	if n == 0 {
		return span{}, 0
	}
	for j := i + n; j < len(toks); j = i + n {
		k := j
		if toks[k].low == "and" || toks[k].text == "," {
			k++
		}
		more, m := spanPart(toks, k, true)
		if m == 0 || more.total() >= s.total() {
			break
		}
		s.seconds, s.months = s.seconds+more.seconds, s.months+more.months
		n = k + m - i
	}
	return s, n
}

// spanPart reads one number and its unit; after others, "m" means minutes.
func spanPart(toks []token, i int, after bool) (span, int) {
	v, n := numberAt(toks, i)
	w := wordAt(toks, i)
	switch {
	case n > 0:
	case (w == "half" || w == "quarter") && (wordAt(toks, i+1) == "an" || wordAt(toks, i+1) == "a" || wordAt(toks, i+1) == "of"):
		v, n = 0.5, 2
		if w == "quarter" {
			v = 0.25
			if wordAt(toks, i+1) == "of" {
				n = 3
			}
		}
	case w == "a" && wordAt(toks, i+1) == "quarter" && wordAt(toks, i+2) == "of":
		v, n = 0.25, 4
	case w == "a" && wordAt(toks, i+1) == "half":
		v, n = 0.5, 2
	case w == "a" || w == "an" || w == "one" || w == "eine" || w == "einer" || w == "einem" || w == "une" || w == "una":
		v, n = 1, 1
	default:
		return span{}, 0
	}
	if wordAt(toks, i+n) == "of" && n == 2 { // a couple of hours
		n++
	}
	if i+n < len(toks) && toks[i+n].text == "-" && toks[i+n].glued { // 20-minute
		n++
	}
	if i+n >= len(toks) {
		return span{}, 0
	}
	u, ok := units[toks[i+n].low]
	if after && toks[i+n].low == "m" {
		u = units["min"]
	}
	if !ok || u.dim != dimTime || v < 0 || len(toks[i+n].low) == 1 && !toks[i+n].glued {
		return span{}, 0
	}
	n++
	if f, m := fractionAt(toks, i+n); m > 0 && v == float64(int(v)) && f < 1 {
		v, n = v+f, n+m
	}
	return u.span(v), n
}

// span returns v units of time; whole months and years go by the calendar.
func (u unit) span(v float64) span {
	if u.months > 0 && v == math.Trunc(v) && v < 10000 {
		return span{months: u.months * int(v)}
	}
	return span{seconds: v * u.factor}
}
