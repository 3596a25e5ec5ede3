package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/message"
)

// What a template can insert in place of a value: it follows the name of the argument.
const (
	AsDuration = ":duration" // a number of seconds as "1 hour 30 minutes"
	AsLines    = ":lines"    // the number of lines of a text: "14 lines"
	AsFolder   = ":folder"   // the folder of a path
	AsHost     = ":host"     // the host of an address
	AsTime     = ":time"     // a time of RFC 3339 as "Sun 29 Nov 2026 09:00", in the zone of the person
)

var derivations = []string{AsDuration, AsLines, AsFolder, AsHost, AsTime}

var (
	holePattern = regexp.MustCompile(`\{([^{}|]+?)(` + strings.Join(derivations, "|") + `)?(?:\|([^{}]*))?\}`)
	partPattern = regexp.MustCompile(`\[[^\[\]]*\{[^\[\]]*\]`)
)

// Sentence describes a call on one line.
type Sentence struct {
	Text  string
	Whole []string // the arguments whose values Text has in full
}

// Sentence describes a call of the tool called name by the template, or else by the tool's name and its
// main argument. write returns a value in the form in which it is inserted, and whether that is all of
// it; "" means that there is nothing to insert. zone is that of the person who reads it; nil: unknown.
func (l LogSpec) Sentence(name string, args map[string]any, zone *time.Location, write func(v any) (text string, whole bool)) Sentence {
	if l.Summary != "" {
		return FillTemplate(l.Summary, args, zone, write)
	}
	category, verb, ok := strings.Cut(name, ".")
	s := Sentence{Text: capital(spaced(category))}
	if ok {
		s.Text += ": " + spaced(verb)
	}
	if main, there := l.main(args); there {
		if text, whole := write(args[main]); text != "" {
			s.Text += " " + text
			if whole {
				s.Whole = []string{main}
			}
		}
	}
	return s
}

// FillTemplate inserts arguments into a template; see LogSpec.Summary and LogSpec.Sentence.
func FillTemplate(template string, args map[string]any, zone *time.Location, write func(v any) (text string, whole bool)) Sentence {
	var s Sentence
	hole := func(hole string) string {
		p := holePattern.FindStringSubmatch(hole)
		text, whole := "", false
		v, there := args[p[1]]
		switch {
		case !there:
		case p[2] == "":
			text, whole = write(v)
		case p[2] == AsDuration || p[2] == AsTime:
			if text, whole = write(v); !whole {
				break
			}
			if p[2] == AsTime {
				text = moment(text, zone)
			} else {
				text = duration(text)
			}
		case p[2] == AsLines:
			text = derived(v, p[2])
		default:
			text, _ = write(derived(v, p[2]))
		}
		if whole && text != "" {
			s.Whole = append(s.Whole, p[1])
		}
		return cmp.Or(text, p[3])
	}
	template = partPattern.ReplaceAllStringFunc(template, func(part string) string {
		for _, h := range holePattern.FindAllStringSubmatch(part, -1) {
			if v, there := args[h[1]]; there {
				if text, _ := write(v); text != "" {
					return part[1 : len(part)-1]
				}
			}
		}
		return ""
	})
	s.Text = holePattern.ReplaceAllStringFunc(template, hole)
	return s
}

// derived returns what a template inserts in place of a text, or "".
func derived(v any, as string) string {
	text, ok := v.(string)
	if !ok {
		return ""
	}
	switch as {
	case AsLines:
		n := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
		if text == "" {
			return ""
		}
		if n == 1 {
			return "1 line"
		}
		return strconv.Itoa(n) + " lines"
	case AsFolder:
		return path.Dir(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// ValueLine returns any value on one line of at most most characters.
func ValueLine(v any, most int) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		var parts []string
		for _, sub := range v {
			parts = append(parts, ValueLine(sub, most))
		}
		return message.OneLine(strings.Join(parts, ", "), most)
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return message.OneLine(string(b), most)
	}
	return message.OneLine(fmt.Sprint(v), most)
}

// duration returns a number of seconds as "1 hour 30 minutes", and anything else as it is.
func duration(s string) string {
	n, err := strconv.ParseUint(s, 10, 40)
	if err != nil || n == 0 {
		return s
	}
	var parts []string
	units := []string{"day", "hour", "minute", "second"}
	for i, size := range []uint64{86400, 3600, 60, 1} {
		switch k := n / size; {
		case k == 1:
			parts = append(parts, "1 "+units[i])
		case k > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", k, units[i]))
		}
		n %= size
	}
	return strings.Join(parts, " ")
}

// moment returns a time of RFC 3339 as a person in a zone writes it, and anything else as it is. A time
// without an offset is that of the person already. Where the zone is unknown, an offset is kept.
func moment(s string, zone *time.Location) string {
	const day, minute, second = "Mon 2 Jan 2006", " 15:04", " 15:04:05"
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(day)
	}
	offset := ""
	t, err := time.Parse(time.RFC3339, s)
	if err == nil {
		if zone != nil {
			t = t.In(zone)
		} else if offset = " " + t.Format("-07:00"); offset == " +00:00" {
			offset = " UTC"
		}
	} else if t, err = time.Parse("2006-01-02T15:04:05", s); err != nil {
		if t, err = time.Parse("2006-01-02T15:04", s); err != nil {
			return s
		}
	}
	switch {
	case t.Nanosecond() != 0:
		return s
	case t.Second() != 0:
		return t.Format(day+second) + offset
	}
	return t.Format(day+minute) + offset
}

// spaced splits a name into words.
func spaced(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '_' || r == '-' || r == '.' }), " ")
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// main returns the name of the main argument: what the call affects, the first with a telling name, or
// the only one.
func (l LogSpec) main(args map[string]any) (string, bool) {
	for _, name := range slices.Concat(l.Impact, l.Parameters, []string{"path", "file", "url", "uri", "query", "q", "question",
		"title", "subject", "name", "to", "recipient", "entity", "entity_id", "city", "location", "place", "expression", "command", "text", "message", "id"}) {
		if v, ok := args[name]; ok && ValueLine(v, 1) != "" {
			return name, true
		}
	}
	if len(args) == 1 {
		for name := range args {
			return name, true
		}
	}
	return "", false
}

// Visible writes out all invisible characters of a text that a person decides about, even joiners other
// than those of emoji: a control character by its symbol, and others by their numbers.
func Visible(s string) string {
	return writeOut(s, func(i int, r rune) bool { return r != '\n' && Invisible(r) && !inEmoji(s, i) })
}

// WriteOut escapes hidden characters and bytes that are not text.
func WriteOut(s string, hidden func(rune) bool) string {
	return writeOut(s, func(_ int, r rune) bool { return hidden(r) })
}

func writeOut(s string, hidden func(i int, r rune) bool) string {
	clean := true
	for i, r := range s {
		if hidden(i, r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case !hidden(i, r):
			b.WriteString(s[i : i+n])
		case r < 0x20:
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
		i += n
	}
	return b.String()
}
