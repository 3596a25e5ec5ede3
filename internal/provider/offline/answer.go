package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/message"
	"steward/internal/search/words"
	"steward/internal/tool"
)

// Disclosure is the notice before the first answer of every conversation.
const Disclosure = "This is Steward's built-in offline model, not a language model: it matches your words to the tools that are there."

const (
	selfDescription = "I am Steward's built-in offline model, not a language model."
	remedy          = "For a real language model run: steward setup"
	wordingAdvice   = "use their words, and put texts in quotation marks."
	shownResult     = 4000 // bytes of a result that an answer repeats
)

// answer returns the results of a turn's calls, or what was not certain.
func (s *speech) answer(t *turn, doubts []*ambiguity) string {
	var parts []string
	for i, c := range t.calls {
		if i > 0 && c.denied() != "" && c.denied() == t.calls[i-1].denied() { // the reason has been said
			parts = append(parts, ended("Not done", s.x.title(c, s.now.Location()), ""))
			continue
		}
		parts = append(parts, s.x.describeOutcome(c, german(t.text), s.now.Location()))
	}
	if len(t.calls) == 0 && len(doubts) > 0 {
		parts = append(parts, s.unsure(t.text, doubts[0]))
	}
	return strings.Join(parts, "\n\n")
}

// unsure says in two lines which part of a request is not certain, and what would be understood.
func (s *speech) unsure(text string, d *ambiguity) string {
	de := german(text)
	said := fmt.Sprintf("I am not sure what %q means, so nothing was done.", clip(d.clause.text, 120))
	if de {
		said = fmt.Sprintf("Ich weiß nicht sicher, was „%s“ bedeutet. Darum wurde nichts getan.", clip(d.clause.text, 120))
	}
	if d.clause.text == "" {
		said = "I am not sure what this means, so nothing was done."
	}
	if list := s.examples(de, d.near, d.clause.text, 3); len(list) > 0 {
		return said + "\n" + s.could(de, list)
	}
	if len(d.near) == 0 {
		return said + "\nNo tool that is here shares a word with it. " + remedy
	}
	names := make([]string, len(d.near))
	for i, e := range d.near {
		names[i] = e.spec.Name
	}
	return said + "\nThe nearest tools are " + strings.Join(names, " and ") + ": " + wordingAdvice
}

func tooLong(n int) string {
	return fmt.Sprintf("This message has %d bytes, and I read at most %d, so nothing was done. Send a shorter one, or attach the text as a file. %s",
		n, maxWish, remedy)
}

// describeOutcome returns the outcome of a call in words, for a person in a time zone.
func (x *toolbox) describeOutcome(c *made, de bool, zone *time.Location) string {
	what := x.title(c, zone)
	r := c.result
	if r == nil {
		return fmt.Sprintf("There is no result of %s.", what)
	}
	text := clip(strings.TrimSpace(r.Plain()), shownResult)
	if e := x.byName[c.name]; e != nil && e.agent {
		if (r.Status == message.OK || r.Status == "") && text != "" {
			return text
		}
		what = "Ask " + strings.ReplaceAll(strings.TrimSuffix(c.name, ".ask"), "_", " ")
	}
	switch r.Status {
	case message.OK, "":
		if said := x.phrased(c, text, de); said != "" {
			return said
		}
		return success(what, text, r)
	case message.Queued:
		return ended("Queued", what, "It will be done when this turn ends")
	case message.Accepted:
		return ended("Started", what, "It goes on in the background, and its result comes as soon as it is there")
	case message.UnknownEnd:
		if said := unknown().FindStringSubmatch(text); said != nil { // what follows tells a model what to do
			text = said[1]
		}
		return ended("Nobody knows whether this was done", what, "Please check before you ask again. "+capital(text))
	case message.DeniedCall:
		return ended("Not done", what, why(text))
	case message.Interrupted:
		return ended("Not done", what, text)
	case message.Failed, message.Unavailable:
		return ended("Failed", what, text)
	}
	return ended(fmt.Sprintf("It ended as %q", r.Status), what, text)
}

// ended says how a call ended, which one it was, and what is known about it.
func ended(how, what, more string) string {
	out := asSentence(how, what)
	if more = strings.TrimSpace(more); more != "" {
		out += " " + asSentence(capital(more), "")
	}
	return out
}

var (
	denial  = pattern(`^(?:Denied, nothing was done|Not done): `)
	asked   = pattern(`^(?:[\w.]+ changes something, and is )?not approved: `)
	unknown = pattern(`(?s)^(?:The outcome is unknown: )?(.*?)\. Do not repeat it\.`)
	inner   = pattern(`\s*\([\w.]+ changes something\)|\nerror_code: \w+$`)
)

// denied returns what was said of a call that was denied, or "".
func (c *made) denied() string {
	if c.result == nil || c.result.Status != message.DeniedCall {
		return ""
	}
	return inner().ReplaceAllString(c.result.Plain(), "")
}

// why returns the reason of a denial, without what the answer says anyway.
func why(text string) string {
	text = denial().ReplaceAllString(text, "")
	return inner().ReplaceAllString(asked().ReplaceAllString(text, "It needs your approval, but "), "")
}

// capital begins a text with a capital letter, unless it begins with a name such as "todo.add".
func capital(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if strings.ContainsAny(strings.TrimRight(first, ".,:;!?"), "./:_@0123456789") {
		return text
	}
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// stamped matches a time as the clock's tool returns it.
var stamped = pattern(`^(\d{4}-\d\d-\d\dT\S+) \(\w+, ([\w/+-]+)(?:, \w+)?\)$`)

// phrased returns the result of a call as a sentence of its own, if it is a sum or the time. Otherwise it returns "".
func (x *toolbox) phrased(c *made, text string, de bool) string {
	var given map[string]any
	e := x.byName[c.name]
	if e == nil || json.Unmarshal(c.args, &given) != nil {
		return ""
	}
	if e.required == 1 && len(given) == 1 && e.params[0].name == "expression" && strings.Trim(text, "-0123456789.") == "" && text != "" {
		return strings.ReplaceAll(shown(given["expression"]), " ^", "^") + " = " + text
	}
	m := stamped().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339, m[1])
	if err != nil {
		return ""
	}
	_, elsewhere := given["zone"]
	place := strings.ReplaceAll(m[2][strings.LastIndexByte(m[2], '/')+1:], "_", " ")
	if de {
		day := fmt.Sprintf("%s, %d. %s %d", germanDays[t.Weekday()], t.Day(), germanMonths[t.Month()-1], t.Year())
		if elsewhere {
			return fmt.Sprintf("In %s ist es %s Uhr (%s).", place, t.Format("15:04"), day)
		}
		return fmt.Sprintf("Es ist %s Uhr (%s).", t.Format("15:04"), day)
	}
	now := t.Format("15:04 on Monday, 2 January 2006.")
	if elsewhere {
		return "In " + place + " it is " + now
	}
	return "It is " + now
}

var (
	germanDays   = strings.Fields("Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag")
	germanMonths = strings.Fields("Januar Februar März April Mai Juni Juli August September Oktober November Dezember")
)

// complete matches a text that is already a sentence.
var complete = pattern(`^\p{Lu}.* .*[.!?]$`)

func success(what, text string, r *message.ToolResult) string {
	var v map[string]any
	if json.Unmarshal([]byte(text), &v) == nil {
		text = shown(v)
	}
	out := asSentence(what, text)
	switch {
	case text == "":
		out = "Done: " + what + "."
	case strings.Contains(text, "\n") || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "1. "): // a list
		out = what + ":\n\n" + text
	case complete().MatchString(text):
		out = text
	}
	if r.Rest != "" || strings.HasSuffix(text, "…") {
		out += "\n\n(The result is longer; this is its beginning.)"
	}
	return out
}

func asSentence(what, text string) string {
	if text != "" {
		what += ": " + text
	}
	if !strings.ContainsAny(what[len(what)-1:], ".!?") {
		what += "."
	}
	return what
}

// title returns a call in words: its tool and, in brackets, its arguments in the order of the parameters.
func (x *toolbox) title(c *made, zone *time.Location) string {
	title := strings.Join(words.Split(c.name[strings.IndexByte(c.name, '.')+1:]), " ")
	if title != "" {
		title = strings.ToUpper(title[:1]) + title[1:]
	}
	var given map[string]any
	if json.Unmarshal(c.args, &given) != nil {
		return title
	}
	if e := x.byName[c.name]; e != nil && e.spec.Log.Summary != "" && len(e.patterns) > 0 { // an everyday tool
		return e.spec.Log.Sentence(c.name, given, zone, func(v any) (string, bool) { return tool.ValueLine(v, 80), true }).Text
	}
	names := slices.Sorted(maps.Keys(given))
	if e := x.byName[c.name]; e != nil {
		place := func(name string) int {
			return slices.IndexFunc(e.params, func(p *param) bool { return p.name == name })
		}
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	}
	for i, name := range names {
		names[i] = name + " " + clip(shown(given[name]), 80)
	}
	if len(names) == 0 {
		return title
	}
	return title + " (" + strings.Join(names, ", ") + ")"
}

// shown returns a JSON value as a person would write it.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = shown(x)
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+" "+shown(v[k]))
		}
		return strings.Join(parts, ", ")
	}
	return string(encode(v))
}

// clip cuts a text to n bytes and adds an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return whole(s, n) + "…"
}

// whole returns the first n bytes of a longer text, or fewer so that the last character is complete.
func whole(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
