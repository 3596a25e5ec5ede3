package sentence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// numbers are the small numbers in words.
var numbers = wordsOf("zero null; one ein eine einen einer einem eins; two zwei; three drei; four vier; five fünf; six sechs; seven sieben; eight acht; nine neun; ten zehn; " +
	"eleven elf; twelve zwölf; thirteen dreizehn; fourteen vierzehn; fifteen fünfzehn; sixteen sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn; twenty zwanzig")

var tens = map[string]int{"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90, "zwanzig": 20, "dreißig": 30, "dreissig": 30, "vierzig": 40, "fünfzig": 50, "sechzig": 60, "neunzig": 90}

var weekdays = wordsOf("sunday sonntag; monday montag; tuesday dienstag; wednesday mittwoch; thursday donnerstag; friday freitag; saturday samstag sonnabend")

var months = wordsOf("; january jan januar jänner; february feb februar; march mar märz; april apr; may mai; june jun juni; july jul juli; august aug; september sep sept; " +
	"october oct oktober okt; november nov; december dec dezember dez")

// units are lengths of time in seconds.
var units = map[string]float64{}

func init() {
	for seconds, names := range map[float64]string{1: "second seconds sec secs s sekunde sekunden", 60: "minute minutes min mins m minuten",
		3600: "hour hours hr hrs h std stunde stunden", 86400: "day days tag tage tagen", 7 * 86400: "week weeks woche wochen"} {
		for name := range strings.FieldsSeq(names) {
			units[name] = seconds
		}
	}
}

// wordsOf numbers words: those before the first semicolon are 0.
func wordsOf(list string) map[string]int {
	out := map[string]int{}
	n := 0
	for group := range strings.SplitSeq(list, ";") {
		for w := range strings.FieldsSeq(group) {
			out[w] = n
		}
		n++
	}
	return out
}

// count reads a number in digits or words. end is 0 if there is none.
func (v *values) count(at int) (n float64, end int) {
	w := v.low(at)
	if w == "" {
		return 0, 0
	}
	if isDigit(rune(w[0])) {
		f, err := strconv.ParseFloat(strings.ReplaceAll(w, ",", ""), 64)
		if err != nil || len(w) > 12 || strings.ContainsAny(w, "ex_") {
			return 0, 0
		}
		return f, at + 1
	}
	if n, ok := tens[w]; ok {
		if more, ok := numbers[v.low(at+1)]; ok && more > 0 && more < 10 && v.low(at+1) != "ein" {
			return float64(n + more), at + 2
		}
		return float64(n), at + 1
	}
	if a, b, ok := strings.Cut(w, "-"); ok && tens[a] > 0 && numbers[b] > 0 && numbers[b] < 10 {
		return float64(tens[a] + numbers[b]), at + 1
	}
	if a, b, ok := strings.Cut(w, "und"); ok && tens[b] > 0 { // fünfundvierzig
		if n, ok := numbers[a]; ok && n > 0 && n < 10 {
			return float64(tens[b] + n), at + 1
		}
	}
	if n, ok := numbers[w]; ok {
		return float64(n), at + 1
	}
	return 0, 0
}

// length reads a length of time in seconds. end is 0 if there is none.
func (v *values) length(at int) (seconds float64, end int) {
	seconds, unit, end := v.oneLength(at)
	if end == 0 {
		return 0, 0
	}
	if v.is(end, " and und ") && v.is(end+1, " a eine ") && v.is(end+2, " half halbe ") { // an hour and a half
		return seconds + unit/2, end + 3
	}
	next := end
	if v.is(next, " and und ") {
		next++
	}
	if more, smaller, after := v.oneLength(next); after > 0 && smaller < unit {
		return seconds + more, after
	}
	return seconds, end
}

// oneLength reads a length of time of one unit.
func (v *values) oneLength(at int) (seconds, unit float64, end int) {
	if digits := strings.TrimLeft(v.low(at), "0123456789"); digits != v.low(at) { // 10min, 5-minute
		if u := units[strings.TrimPrefix(digits, "-")]; u > 0 {
			n, err := strconv.ParseFloat(strings.TrimSuffix(v.low(at), digits), 64)
			if err != nil || n > 1e6 {
				return 0, 0, 0
			}
			return n * u, u, at + 1
		}
	}
	if a, b, ok := strings.Cut(v.low(at), "-"); ok && numbers[a] > 0 && units[b] > 0 { // ten-minute
		return float64(numbers[a]) * units[b], units[b], at + 1
	}
	n, next := v.count(at)
	half := func(at int) bool { return v.is(at, " half halbe halben ") }
	switch {
	case half(at): // half an hour, halbe Stunde
		n, next = 0.5, at+1
		if v.is(next, " a an ") {
			next++
		}
	case v.is(at, " a an ") && half(at+1), next > 0 && n == 1 && half(at+1): // a half hour, eine halbe Stunde
		n, next = 0.5, at+2
	case v.is(at, " a an "):
		n, next = 1, at+1
	case v.is(at, " anderthalb eineinhalb "):
		n, next = 1.5, at+1
	case v.is(at, " zweieinhalb "):
		n, next = 2.5, at+1
	case next > 0 && v.is(next, " and ") && v.is(next+1, " a ") && half(next+2): // two and a half hours
		n, next = n+0.5, next+3
	}
	if next == 0 || n > 1e6 {
		return 0, 0, 0
	}
	switch w := v.low(next); {
	case n == 1 && (w == "viertelstunde" || w == "quarter" && v.is(next+1, " of ") && v.is(next+2, " an ") && v.is(next+3, " hour ")):
		return 900, 60, next + map[bool]int{true: 1, false: 4}[w == "viertelstunde"]
	case n == 1 && w == "dreiviertelstunde":
		return 2700, 60, next + 1
	case units[w] > 0:
		return n * units[w], units[w], next + 1
	}
	return 0, 0, 0
}

// clock is a time of day.
type clock struct {
	hour, minute int
	open         bool // it may be in the morning or in the afternoon
	end          int
}

func twoDigits(h, m int) string { return fmt.Sprintf("%02d:%02d", h, m) }

// alone returns the hour of a time without a day.
func (c clock) alone() (int, bool) { return c.hour, !c.open || c.hour >= 7 }

// clocks reads a time of day. A number alone is one after a preposition (bare).
func (v *values) clocks(at int, bare bool) []clock {
	if v.is(at, " at um gegen ") {
		bare = true
		at++
	}
	c, ok := v.clock(at, bare)
	if !ok {
		return nil
	}
	list := []clock{c}
	if part, end := v.part(c.end); part != "" { // 8 in the evening
		if h, ok := hourInPart(c, part); ok {
			list = append([]clock{{h, c.minute, false, end}}, list...)
		}
	}
	return list
}

func (v *values) clock(at int, bare bool) (clock, bool) {
	w := v.low(at)
	if w == "" {
		return clock{}, false
	}
	hourly := func(at int) (int, int, bool) {
		n, end := v.count(at)
		return int(n), end, end > 0 && n == float64(int(n)) && n >= 1 && n <= 12
	}
	switch w {
	case "noon", "midday", "mittag", "mittags":
		return clock{12, 0, false, at + 1}, true
	case "half":
		if h, end, ok := hourly(at + 2); ok && v.is(at+1, " past ") {
			return clock{h, 30, true, end}, true
		}
		return clock{}, false
	case "halb":
		if h, end, ok := hourly(at + 1); ok {
			return clock{(h + 11) % 12, 30, true, v.hours(end)}.normalized(), true
		}
		return clock{}, false
	}
	minutes, next := v.count(at)
	if v.is(at, " quarter viertel ") {
		minutes, next = 15, at+1
	} else if v.is(at, " a ") && v.is(at+1, " quarter ") {
		minutes, next = 15, at+2
	}
	if next > 0 && minutes > 0 && minutes < 30 && v.is(next, " past to nach vor ") {
		if v.is(next, " to ") && w != "quarter" && w != "a" && !bare {
			return clock{}, false
		}
		if h, end, ok := hourly(next + 1); ok {
			if v.is(next, " past nach ") {
				return clock{h, int(minutes), true, v.hours(end)}, true
			}
			return clock{(h + 11) % 12, 60 - int(minutes), true, v.hours(end)}.normalized(), true
		}
	}
	return v.figures(at, bare)
}

// normalized writes the hour before one as twelve.
func (c clock) normalized() clock {
	if c.hour == 0 {
		c.hour = 12
	}
	return c
}

// hours skips the words after the hour.
func (v *values) hours(at int) int {
	if v.is(at, " uhr o'clock ") {
		at++
	}
	return at
}

// figures reads 15:04, 3pm, 3:30 pm, 15 Uhr, 15 Uhr 30, or a number alone.
func (v *values) figures(at int, bare bool) (clock, bool) {
	w := v.low(at)
	half := ""
	for _, suffix := range []string{"a.m.", "p.m.", "a.m", "p.m", "am", "pm"} {
		if rest, ok := strings.CutSuffix(w, suffix); ok && rest != "" && isDigit(rune(rest[0])) {
			w, half = rest, suffix[:1]
			break
		}
	}
	next := at + 1
	if half == "" && v.is(next, " am pm a.m. p.m. a.m p.m ") && isDigit(rune(w[0])) && !(v.is(next, " am ") && v.dayAt(next+1)) {
		half, next = v.low(next)[:1], next+1
	}
	if half == "" && strings.HasSuffix(w, "h") && numeric(w[:len(w)-1]) {
		w += "00"
		w = strings.Replace(w, "h", ":", 1)
	}
	hours, minutes, colon := strings.Cut(w, ":")
	c := clock{end: next}
	exact := colon
	switch {
	case colon:
		if !numeric(hours) || !numeric(minutes) || len(minutes) != 2 || len(hours) > 2 {
			return c, false
		}
		c.hour, _ = strconv.Atoi(hours)
		c.minute, _ = strconv.Atoi(minutes)
		if v.is(c.end, " uhr ") {
			c.end++
		}
	case half != "":
		if !numeric(hours) || len(hours) > 2 {
			return c, false
		}
		c.hour, _ = strconv.Atoi(hours)
	default:
		n, end := v.count(at)
		if end == 0 || n != float64(int(n)) || n < 0 || n > 24 || v.is(at, " a an ein eine einen einer ") && !v.is(end, " uhr ") || len(w) > 8 {
			return c, false
		}
		c.hour, c.end = int(n), v.hours(end)
		exact = c.end > end
		if exact && v.is(end, " uhr ") {
			if m, after := v.count(c.end); after > 0 && m > 0 && m < 60 && !strings.Contains(v.low(c.end), ":") && !v.is(c.end, " ein eine einen einer ") && units[v.low(after)] == 0 {
				c.minute, c.end = int(m), after
			}
		}
		if !exact && !bare {
			return c, false
		}
		if !exact && units[v.low(c.end)] > 0 { // at 5 minutes
			return c, false
		}
	}
	if c.hour > 24 || c.minute > 59 || c.hour == 24 {
		return c, false
	}
	switch {
	case half != "":
		if c.hour < 1 || c.hour > 12 {
			return c, false
		}
		c.hour %= 12
		if half == "p" {
			c.hour += 12
		}
	default:
		c.open = c.hour >= 1 && c.hour <= 12 && !strings.HasPrefix(w, "0")
	}
	return c, true
}

// part reads a part of a day.
func (v *values) part(at int) (part string, end int) {
	if v.is(at, " in at am ") {
		at++
		if v.is(at, " the ") {
			at++
		}
	}
	switch {
	case v.is(at, " morning vormittag vormittags morgens früh "), v.is(at, " morgen ") && v.is(at-1, " am "):
		return "morning", at + 1
	case v.is(at, " afternoon nachmittag nachmittags "):
		return "afternoon", at + 1
	case v.is(at, " evening night abend abends "):
		return "evening", at + 1
	}
	return "", 0
}

// hours are the parts of a day.
var hours = map[string][]any{"morning": {"08:00", "12:00"}, "afternoon": {"12:00", "18:00"}, "evening": {"18:00", "22:00"}}

// usualHours are the hours that are meant by a part of a day alone.
var usualHours = map[string]int{"morning": 9, "afternoon": 15, "evening": 19}

// hourInPart returns the hour of a time in a part of a day.
func hourInPart(c clock, part string) (int, bool) {
	switch {
	case part == "morning":
		return c.hour, c.hour >= 4 && c.hour <= 12
	case c.open && c.hour < 12:
		return c.hour + 12, part == "evening" && c.hour >= 5 || part == "afternoon" && c.hour <= 6
	}
	return c.hour, c.hour >= 12
}

// moment is a day, a time of day, or both.
type moment struct {
	day     time.Time
	dated   bool // a day was said
	weekend bool // the day is the first of two
	part    string
	timed   bool
	weekly  bool // the day is given by its name only
	clock   clock
	end     int
}

// time returns the moment in the zone of now. It must be in the future. usually says that a day without a time
// has one.
func (m moment) time(now time.Time, usually bool) (time.Time, bool) {
	on := func(day time.Time, hour int) time.Time {
		return time.Date(day.Year(), day.Month(), day.Day(), hour, m.clock.minute, 0, 0, now.Location())
	}
	if m.weekend && m.timed { // on which of its days?
		return time.Time{}, false
	}
	if !m.timed {
		hour := 9
		if m.part != "" {
			hour = usualHours[m.part]
		}
		t := on(m.day, hour)
		return t, usually && t.After(now)
	}
	c := m.clock
	if m.part != "" {
		h, ok := hourInPart(c, m.part)
		t := on(m.day, h)
		return t, ok && t.After(now)
	}
	if !c.open {
		t := on(m.day, c.hour)
		if !m.dated && !t.After(now) {
			t = on(m.day.AddDate(0, 0, 1), c.hour)
		}
		return t, t.After(now)
	}
	h := c.hour % 12
	if !m.dated { // the next time that a clock shows it while people are awake
		for _, try := range []time.Time{on(m.day, h), on(m.day, h+12), on(m.day.AddDate(0, 0, 1), h), on(m.day.AddDate(0, 0, 1), h+12)} {
			if try.After(now) && try.Hour() >= 6 {
				return try, true
			}
		}
	}
	if c.hour >= 6 && c.hour != 12 {
		if t := on(m.day, h); t.After(now) {
			return t, true
		}
	}
	t := on(m.day, h+12)
	return t, t.After(now)
}

func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// momentsAt returns the moments that begin at a word, the longest first.
func (v *values) momentsAt(at int) []moment {
	if v.read == nil {
		v.read, v.moments = make([]bool, len(v.words)+1), make([][]moment, len(v.words)+1)
	}
	if at < 0 || at > len(v.words) {
		return nil
	}
	if !v.read[at] {
		v.read[at] = true
		list := v.readMoments(at)
		slices.SortStableFunc(list, func(a, b moment) int { return b.end - a.end })
		v.moments[at] = list
	}
	return v.moments[at]
}

func (v *values) readMoments(at int) (out []moment) {
	if at >= len(v.words) || v.words[at].quoted {
		return nil
	}
	if day, part, end, ok := v.day(at); ok {
		m := moment{day: day, dated: true, part: part, end: end, weekend: part == "" && v.is(end-1, " weekend wochenende ")}
		_, m.weekly = weekdays[v.low(at)]
		out = append(out, m)
		for _, c := range v.clocks(end, false) {
			with := m
			with.timed, with.clock, with.end = true, c, c.end
			out = append(out, with)
		}
		return out
	}
	for _, c := range v.clocks(at, false) {
		m := moment{day: v.now, timed: true, clock: c, end: c.end}
		out = append(out, m)
		if day, part, end, ok := v.day(c.end); ok {
			m.day, m.dated, m.part, m.end, m.weekend = day, true, part, end, v.is(end-1, " weekend wochenende ")
			out = append(out, m)
		}
	}
	return out
}

// dayAt reports whether a day begins at a word.
func (v *values) dayAt(at int) bool {
	_, _, _, ok := v.day(at)
	return ok
}

// day reads a day, with a part of it if one is given.
func (v *values) day(at int) (day time.Time, part string, end int, ok bool) {
	switch {
	case v.is(at, " tonight "):
		return v.now, "evening", at + 1, true
	case v.is(at, " this ") && v.is(at+1, " morning afternoon evening "):
		part, end = v.part(at + 1)
		return v.now, part, end, true
	}
	day, part, end, ok = v.dayAlone(at)
	if !ok || part != "" {
		return day, part, end, ok
	}
	if p, after := v.part(end); p != "" {
		return day, p, after, true
	}
	return day, "", end, true
}

func (v *values) dayAlone(at int) (day time.Time, part string, end int, ok bool) {
	ahead := func(n, end int) (time.Time, string, int, bool) { return v.now.AddDate(0, 0, n), "", end, true }
	if v.is(at, " on am for für ") || v.is(at, " this diesen ") && v.weekend(at+1) == 0 { // of a day
		at++
	}
	if v.is(at, " the ") {
		at++
	}
	w := v.low(at)
	switch {
	case w == "today" || w == "heute":
		return ahead(0, at+1)
	case w == "tomorrow" || w == "morgen" && !v.is(at-1, " guten good "):
		return ahead(1, at+1)
	case w == "übermorgen":
		return ahead(2, at+1)
	case w == "day" && v.is(at+1, " after ") && v.is(at+2, " tomorrow "):
		return ahead(2, at+3)
	case w == "in":
		if n, next := v.count(at + 1); next > 0 && n >= 1 && n <= 400 && n == float64(int(n)) {
			if u := units[v.low(next)]; u >= 86400 {
				return ahead(int(n*u/86400), next+1)
			}
		}
		return day, "", 0, false
	}
	if end := v.weekend(at); end > 0 {
		return ahead(7-(int(v.now.Weekday())+1)%7, end)
	}
	next := v.is(at, " next nächsten nächster nächste ")
	if next || v.is(at, " coming kommenden kommender ") {
		at++
	}
	name := v.low(at)
	for suffix, p := range map[string]string{"abend": "evening", "nachmittag": "afternoon", "vormittag": "morning", "morgen": "morning"} {
		if rest, ok := strings.CutSuffix(name, suffix); ok && rest != "" {
			if _, known := weekdays[rest]; known {
				name, part = rest, p
			}
		}
	}
	if d, ok := weekdays[name]; ok {
		n := (d - int(v.now.Weekday()) + 7) % 7
		if next { // of next week, which begins on Monday
			n = 7 - (int(v.now.Weekday())+6)%7 + (d+6)%7
		} else if n == 0 {
			n = 7
		}
		return v.now.AddDate(0, 0, n), part, at + 1, true
	}
	if next {
		return day, "", 0, false
	}
	return v.written(at)
}

// weekend returns where a weekend ends, or 0.
func (v *values) weekend(at int) int {
	if v.is(at, " at am on ") {
		at++
	}
	if v.is(at, " this the dieses ") {
		at++
	}
	if v.is(at, " weekend wochenende ") {
		return at + 1
	}
	return 0
}

// written reads a date: 2026-03-12, 12.3., 12.03.2026, March 12, the 12th of March, 12. März 2027.
func (v *values) written(at int) (day time.Time, part string, end int, ok bool) {
	w := v.low(at)
	if w == "" {
		return day, "", 0, false
	}
	if t, err := time.Parse(time.DateOnly, w); err == nil {
		return t, "", at + 1, true
	}
	if parts := strings.Split(strings.TrimSuffix(w, "."), "."); len(parts) >= 2 && len(parts) <= 3 && numeric(parts[0]) && numeric(parts[1]) &&
		(len(parts) == 3 || strings.HasSuffix(w, ".")) {
		d, _ := strconv.Atoi(parts[0])
		m, _ := strconv.Atoi(parts[1])
		y := 0
		if len(parts) == 3 {
			if !numeric(parts[2]) || len(parts[2]) != 4 {
				return day, "", 0, false
			}
			y, _ = strconv.Atoi(parts[2])
		}
		return v.dated(d, m, y, at+1)
	}
	number := func(at int) int {
		w := v.low(at)
		for _, suffix := range []string{"st", "nd", "rd", "th", "."} {
			w = strings.TrimSuffix(w, suffix)
		}
		if !numeric(w) || len(w) > 2 {
			return 0
		}
		n, _ := strconv.Atoi(w)
		return n
	}
	year := func(at int) (int, int) {
		if w := v.low(at); len(w) == 4 && numeric(w) && w >= "2000" {
			n, _ := strconv.Atoi(w)
			return n, at + 1
		}
		return 0, at
	}
	if m := months[w]; m > 0 && number(at+1) > 0 {
		y, end := year(at + 2)
		return v.dated(number(at+1), m, y, end)
	}
	next := at + 1
	if v.is(next, " of ") {
		next++
	}
	if d, m := number(at), months[v.low(next)]; d > 0 && m > 0 {
		y, end := year(next + 1)
		return v.dated(d, m, y, end)
	}
	return day, "", 0, false
}

// dated returns a date. Without a year it is the next one.
func (v *values) dated(d, m, y, end int) (day time.Time, part string, after int, ok bool) {
	for _, try := range []int{y, v.now.Year(), v.now.Year() + 1} {
		if try == 0 {
			continue
		}
		t := time.Date(try, time.Month(m), d, 12, 0, 0, 0, time.UTC)
		if t.Day() != d || int(t.Month()) != m {
			return day, "", 0, false
		}
		if y > 0 || !dayOf(t).Before(dayOf(v.now)) {
			return t, "", end, true
		}
	}
	return day, "", 0, false
}
