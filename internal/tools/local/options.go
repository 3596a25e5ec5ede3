package local

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/tool"
)

// Options are the options of all domains. The zero value works.
type Options struct {
	Now  func() time.Time                 // nil: time.Now
	Zone func(user string) *time.Location // a user's time zone; nil, or a nil result: UTC
}

// Time returns the present time.
func (o Options) Time() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// Location returns the time zone of a user.
func (o Options) Location(user string) *time.Location {
	if o.Zone != nil {
		if z := o.Zone(user); z != nil {
			return z
		}
	}
	return time.UTC
}

// State says whether a domain can work.
type State string

// The states.
const (
	Ready   State = "ready"
	Off     State = "off"     // it is not set up
	Failing State = "failing" // it is set up, and does not work now
)

// Health is what a domain finds out about its settings and connections.
type Health struct {
	State  State
	Say    string // one line for a person, without a full stop
	Remedy string // what to do; empty if nothing is wrong
}

// ParseDay reads a date in the time zone of now. The empty text means the day of now.
func ParseDay(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, now.Location())
	if err != nil {
		return t, fault.New(fault.Invalid, "time_invalid", "%.40q is not a date", text).WithHint("write it like 2026-03-29")
	}
	return t, nil
}

// Clock is a time as people write it.
type Clock struct {
	time.Time      // with the text's own offset, or else what a clock shows, written in UTC
	Fixed     bool // the text has an offset
	Dated     bool // the text has a date; else it is that of today
}

// In returns the time at which a clock in a time zone first shows c. If it never does, because it is put forward, In
// returns when that happens. Jobs that repeat follow the same rule.
func (c Clock) In(zone *time.Location) time.Time {
	if c.Fixed {
		return c.Time
	}
	shown := time.Date(c.Year(), c.Month(), c.Day(), c.Hour(), c.Minute(), c.Second(), 0, time.UTC)
	t := time.Date(c.Year(), c.Month(), c.Day(), c.Hour(), c.Minute(), c.Second(), 0, zone)
	began, ends := t.ZoneBounds()
	_, offset := t.Zone()
	switch late := t.Add(time.Duration(offset) * time.Second).Sub(shown); {
	case late > 0:
		return began
	case late < 0:
		return ends
	case began.IsZero():
		return t
	}
	_, offset = began.Add(-time.Second).Zone()
	if earlier := shown.Add(-time.Duration(offset) * time.Second); earlier.Before(began) { // the clock shows it twice
		return earlier.In(zone)
	}
	return t
}

// ReadClock reads a time of day, a date, or both. Error code: time_invalid.
func ReadClock(text string, now time.Time) (Clock, error) {
	said := strings.Join(strings.Fields(strings.ToUpper(text)), " ")
	switch said {
	case "NOW":
		return Clock{now, true, false}, nil
	case "NOON":
		said = "12:00"
	case "MIDNIGHT":
		said = "00:00"
	}
	for _, day := range []string{"2006-01-02T", "2006-01-02 ", ""} {
		for _, clock := range []string{"15:04", "15:04:05", "3:04 PM", "3:04PM", "3 PM", "3PM"} {
			if t, err := time.Parse(day+clock+"Z07:00", said); err == nil && day != "" {
				return Clock{t, true, true}, nil
			}
			if t, err := time.Parse(day+clock, said); err == nil {
				if day == "" {
					t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
				}
				return Clock{t, false, day != ""}, nil
			}
		}
	}
	if t, err := time.Parse(time.DateOnly, said); err == nil {
		return Clock{t, false, true}, nil
	}
	return Clock{}, fault.New(fault.Invalid, "time_invalid", "%.80q is not a time", text).
		WithHint("write 15:30, 2026-03-29T15:30 or 2026-03-29T15:30:00+02:00")
}

// ReplacesEarlier makes the earlier result of a call with the same parameters obsolete.
func ReplacesEarlier(parameters ...string) []tool.Strategy {
	return []tool.Strategy{{Kind: tool.ByParameters, Parameters: parameters}}
}

// HasWords reports whether each word of a query is the beginning of a word of a text. Words in skip are
// ignored. A query without other words is in no text.
func HasWords(text, query string, skip ...string) bool {
	var own []string
	for t := range search.Tokens(text) {
		own = append(own, t.Text)
	}
	asked := false
	for q := range search.Tokens(query) {
		if slices.Contains(skip, q.Text) {
			continue
		}
		asked = true
		if !slices.ContainsFunc(own, func(w string) bool { return strings.HasPrefix(w, q.Text) }) {
			return false
		}
	}
	return asked
}

// Line returns a text as one line of at most the given number of characters, without control characters and without
// those that turn the direction of writing, so that a name shows as what it is.
func Line(s string, most int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
	if len(s) <= most {
		return s
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// CutAtLine returns a part of a text of at most the given number of bytes (but at least one character), if possible
// of whole lines, and where the rest begins; 0: there is none.
func CutAtLine(text string, from, most int) (part string, next int) {
	from = min(from, len(text))
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	rest := text[from:]
	if len(rest) <= most {
		return rest, 0
	}
	end := strings.LastIndexByte(rest[:most], '\n') + 1
	if end < most/2 {
		for end = most; end > 0 && !utf8.RuneStart(rest[end]); {
			end--
		}
	}
	if end == 0 {
		_, end = utf8.DecodeRuneInString(rest)
	}
	return rest[:end], from + end
}

// Rule returns the RRULE for what a model writes about repetitions: a word, or a rule.
func Rule(text string) string {
	text = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:")
	switch text {
	case "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY":
		return "FREQ=" + text
	case "WEEKDAYS":
		return "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
	}
	return text
}

// FirstMatches returns what the first of several conditions finds that finds anything: of that what is preferred, or
// else all.
func FirstMatches[T any](all []T, prefer func(T) bool, conditions ...func(T) bool) []T {
	for _, holds := range conditions {
		var found, preferred []T
		for _, x := range all {
			if holds(x) {
				found = append(found, x)
				if prefer(x) {
					preferred = append(preferred, x)
				}
			}
		}
		if len(preferred) > 0 {
			return preferred
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// ExactlyOne returns the only one of what was found, or says which there are. kind is what it is, in one word. Error
// codes: KIND_not_found, KIND_ambiguous.
func ExactlyOne[T any](kind, words string, found []T, show func(T) string) (one T, err error) {
	switch len(found) {
	case 0:
		if words == "" {
			return one, fault.New(fault.NotFound, kind+"_not_found", "there is no %s", kind)
		}
		return one, fault.New(fault.NotFound, kind+"_not_found", "there is no %s %.100q", kind, words).WithHint("check the name, or list them")
	case 1:
		return found[0], nil
	}
	what := fmt.Sprintf("there are %d %ss", len(found), kind)
	if words != "" {
		what = fmt.Sprintf("several %ss are called like %.100q", kind, words)
	}
	bare := func(x T) string { return strings.TrimPrefix(show(x), "- ") }
	return one, fault.New(fault.Conflict, kind+"_ambiguous", "%s", what).
		WithHint("say which is meant: %s", strings.ReplaceAll(List(found, 10, bare), "\n", "; "))
}

// List shows each of a list on a line, up to a number of them.
func List[T any](list []T, most int, show func(T) string) string {
	var out []string
	for _, x := range list[:min(len(list), most)] {
		out = append(out, show(x))
	}
	if more := len(list) - most; more > 0 {
		out = append(out, fmt.Sprintf("(and %d more)", more))
	}
	return strings.Join(out, "\n")
}

// Email is an argument that is an e-mail address.
type Email string

// JSONSchema returns the schema.
func (Email) JSONSchema() string {
	return `{"type":"string","format":"email","minLength":3,"maxLength":254}`
}

// Texts returns the addresses as texts.
func Texts(list []Email) (out []string) {
	for _, e := range list {
		out = append(out, string(e))
	}
	return out
}
