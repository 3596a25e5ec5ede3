package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// maxChosen bounds the calls to one source in a turn whose arguments a model chose among
// non-private values. Each choice can leak a little of what the model has read.
const maxChosen = 8

// OfQuery returns where a query that reaches outside comes from, as Of does for actions. It
// requires more: the arguments may not contain private data of another source, even if a plan
// says so. sources are those whose private data its model had been shown (message.Common); at is
// the current time.
//
// An argument is clean if it is
//
//   - what a plan says by value,
//   - made of the words that the user typed in this turn,
//   - a truth value, one of a few values that the schema lists, the schema's
//     default, a usual limit, or today, tomorrow or the day a week from now,
//   - verbatim in a result of this turn that is not private or is the source's
//     own, and in no private result of another source.
//
// If all private data came from the same source that is queried, every argument is clean, except
// targets (tool.Spec.Targets), which must be fixed or typed.
func OfQuery(turn []*message.Message, call message.Ref, spec tool.Spec, args []byte, sources []string, at time.Time) policy.Flow {
	if clean(turn, call) {
		return policy.Flow{Fixed: true}
	}
	if len(sources) == 0 {
		sources = []string{message.UnknownSource}
	}
	q := query{spec: spec, at: at, back: spec.Source() != "" && !slices.ContainsFunc(sources, func(s string) bool { return s != spec.Source() })}
	q.read(turn, call, sources)
	r := before(turn, call)
	var fixed *binding
	if r.plan != nil {
		fixed, _ = r.bind(spec.Name, args)
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return open("its arguments cannot be read", "")
	}
	q.schema = schemaOf(spec.Input)
	var names []string
	chose := false
	for name, raw := range given {
		if fixed != nil && !slices.Contains(fixed.untrusted, name) {
			continue
		}
		v, err := decode(raw)
		typed := err == nil && q.typed(v)
		switch {
		case typed:
		case isTarget(spec, name):
			names = append(names, name)
		case q.back:
		case err == nil && q.chosen(v, q.schema.Properties[name], name):
			chose = true
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 && (!chose || q.before < maxChosen) {
		return policy.Flow{Fixed: true}
	}
	return q.open(names, given)
}

// query holds what is needed to judge one query.
type query struct {
	spec   tool.Spec
	at     time.Time
	back   bool // all private data shown came from its source
	schema schema
	words  map[string]int // words that the user typed, with their counts
	good   []string       // texts from which it may take values
	bad    []text         // private texts of other sources
	seen   bool           // good and bad cover everything that the model was shown
	before int            // number of calls to the source in the turn
}

type text struct{ tool, text string }

// schema is the part of an input schema that is used here.
type schema struct {
	Properties map[string]property `json:"properties"`
}

type property struct {
	Enum    []any           `json:"enum"`
	Default json.RawMessage `json:"default"`
}

func schemaOf(b []byte) (s schema) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if dec.Decode(&s) != nil {
		return schema{} // then it lists no values
	}
	return s
}

// read collects what was shown before the call.
func (q *query) read(turn []*message.Message, call message.Ref, sources []string) {
	own := q.spec.Source()
	q.words = map[string]int{}
	here := []string{own}
	for _, m := range turn {
		if m.ID == call.Message {
			break
		}
		res := m.Result()
		switch {
		case res != nil && !message.LabelsOf(m.Blocks).Has(message.Private):
			q.good = append(q.good, res.Text())
		case res != nil:
			from := message.SourcesOf(m.Blocks)
			here = message.JoinSources(here, from)
			if slices.Equal(from, []string{own}) {
				q.good = append(q.good, res.Text())
			} else {
				q.bad = append(q.bad, text{res.Name, strings.ToLower(res.Text())})
			}
		case m.Role == message.User:
			for _, b := range m.Blocks {
				if t, ok := b.(*message.Text); ok && t.Origin == "user" && t.Labels&(message.Private|message.Untrusted) == 0 {
					for _, w := range wordsOf(t.Text) {
						q.words[w]++
					}
				}
			}
		case m.Role == message.Assistant:
			for _, c := range m.Calls() {
				if word, _, _ := strings.Cut(tool.FromWire(c.Name), "."); word == own && c.Labels.Has(message.Private|message.Untrusted) {
					q.before++
				}
			}
		}
	}
	q.seen = !slices.ContainsFunc(sources, func(s string) bool { return s == message.UnknownSource || !slices.Contains(here, s) })
}

func wordsOf(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) && c != '@' && c != '\'' })
}

// leaves calls f with each scalar and each member name in a value, until f returns false. It
// reports whether f always returned true.
func leaves(v any, f func(any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if !f(name) || !leaves(x, f) {
				return false
			}
		}
		return true
	case []any:
		for _, x := range v {
			if !leaves(x, f) {
				return false
			}
		}
		return true
	}
	return f(v)
}

// typed reports whether a value is made of the user's own words, each used at most as often as
// the user wrote it.
func (q *query) typed(v any) bool {
	used := map[string]int{}
	return leaves(v, func(leaf any) bool {
		if leaf == nil {
			return true
		}
		for _, w := range wordsOf(fmt.Sprint(leaf)) {
			if used[w]++; used[w] > q.words[w] {
				return false
			}
		}
		_, truth := leaf.(bool)
		return !truth
	})
}

// maxListed is how many values a schema may list for a model to choose from.
const maxListed = 16

// chosen reports whether a value was chosen among non-private values.
func (q *query) chosen(v any, p property, name string) bool {
	return leaves(v, func(leaf any) bool {
		s := fmt.Sprint(leaf)
		switch leaf := leaf.(type) {
		case nil, bool:
			return true
		case json.Number:
			return p.Default != nil && string(p.Default) == s || limiting(name) && slices.Contains(usual, s) || q.quotes(s)
		case string:
			listed := len(p.Enum) <= maxListed && slices.ContainsFunc(p.Enum, func(x any) bool { return x == any(leaf) })
			return listed || leaf == "" || q.typed(leaf) || q.near(leaf) || q.quotes(leaf)
		}
		return false
	})
}

// usual are numbers that commonly bound lists.
var usual = []string{"1", "3", "5", "10", "20", "25", "50", "100"}

func limiting(name string) bool {
	name = strings.ToLower(name)
	for _, w := range []string{"limit", "max", "count", "size", "top", "number_of"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// near reports whether a text is today, tomorrow or the day a week from now, or the beginning or
// end of such a day.
func (q *query) near(s string) bool {
	day, clock, timed := strings.Cut(s, "T")
	if timed && !slices.Contains([]string{"00:00", "00:00:00", "23:59", "23:59:59", "00:00:00Z", "23:59:59Z"}, clock) {
		return false
	}
	for _, n := range []int{0, 1, 7} {
		if day == q.at.AddDate(0, 0, n).Format(time.DateOnly) {
			return true
		}
	}
	return false
}

// quotes reports whether a text occurs, as whole words, in data that is not private or is the
// source's own, and nowhere in private data of another source.
func (q *query) quotes(s string) bool {
	if !q.seen || strings.TrimSpace(s) == "" {
		return false
	}
	low := strings.ToLower(s)
	if slices.ContainsFunc(q.bad, func(t text) bool { return strings.Contains(t.text, low) }) {
		return false
	}
	return slices.ContainsFunc(q.good, func(t string) bool { return holdsWord(t, s) })
}

// holdsWord reports whether s occurs in a text with no letter or digit next to it.
func holdsWord(text, s string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], s)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(s):])
		if !wordy(before) && !wordy(after) {
			return true
		}
		from = i + 1
	}
}

func wordy(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

// open describes what a query would carry: `q` would carry what mail.read returned to
// search.example.com.
func (q *query) open(names []string, given map[string]json.RawMessage) policy.Flow {
	if len(names) == 0 {
		return open(fmt.Sprintf("after %d calls, the choice of arguments can tell what was read", maxChosen), "")
	}
	slices.Sort(names)
	var where, quoted, from []string
	for _, name := range names {
		where = append(where, pointerTo(name))
		quoted = append(quoted, "`"+name+"`")
		for _, t := range q.bad {
			if carries(string(given[name]), t.text) && !slices.Contains(from, "`"+t.tool+"`") {
				from = append(from, "`"+t.tool+"`")
			}
		}
	}
	would := "would carry"
	if from == nil {
		would = "could carry"
		for _, t := range q.bad {
			if !slices.Contains(from, "`"+t.tool+"`") {
				from = append(from, "`"+t.tool+"`")
			}
		}
		if !q.seen || from == nil {
			from = append(from, "earlier messages")
		}
	}
	to := q.spec.Host
	if to == "" {
		to = q.spec.Source()
	}
	what := strings.Join(from, ", ") + " returned"
	if from[len(from)-1] == "earlier messages" {
		what = strings.TrimSuffix(what, " returned") + " hold"
	}
	return policy.Flow{Open: where, Why: fmt.Sprintf("%s %s what %s to `%s`", strings.Join(quoted, ", "), would, what, to)}
}

// carries reports whether an argument and a text share a word of at least four letters or digits.
func carries(arg, text string) bool {
	return slices.ContainsFunc(wordsOf(arg), func(w string) bool { return len(w) >= 4 && holdsWord(text, w) })
}
