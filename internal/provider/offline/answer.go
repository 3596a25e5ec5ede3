package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/message"
)

// Disclosure is what Steward says of the offline model wherever it answers.
const Disclosure = "This is Steward's built-in offline model, not a language model: it matches your words to the tools that are there."

// Remedy says how to get a language model.
const Remedy = "For a real language model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start Ollama, and start Steward again."

const shownResult = 4000 // bytes of a result that an answer repeats

// answer says what came of the plan: a sentence for each call, then what was
// not understood, then what is still needed.
func (p *plan) answer(x *index, words []queryWord) string {
	var parts []string
	for _, s := range p.steps {
		switch {
		case s.done != nil:
			parts = append(parts, s.told())
		case s.broken:
			parts = append(parts, fmt.Sprintf("I did not go on with %s, because the step before it gave no result.", s.tool.spec.Name))
		}
	}
	for _, d := range p.others {
		e := x.byName[d.name]
		if e == nil {
			e = &entry{title: d.name}
		}
		parts = append(parts, (&step{tool: e, args: d.args, done: d}).told())
	}
	if len(p.steps)+len(p.others) == 0 {
		return helpless(x, words)
	}
	for _, u := range p.unknown {
		parts = append(parts, fmt.Sprintf("I have no tool for %q.", clip(u, 120)))
	}
	for _, s := range p.steps {
		if s.done == nil && !s.broken {
			if q := s.question(); q != "" {
				parts = append(parts, q)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

// helpless is the answer to what no tool can do.
func helpless(x *index, words []queryWord) string {
	can := "There are no tools here that I could use."
	if names := suggestions(x, words); len(names) > 0 {
		can = "All I can do is use the tools here, such as " + enumerate(names) + "."
	}
	return "I am Steward's built-in offline model, not a language model, and none of the tools fits what you asked. " + can + " " + Remedy
}

// suggestions are the tools nearest to the words, then the first of each category.
func suggestions(x *index, words []queryWord) []string {
	var out []string
	for _, m := range x.rank(words, 3) {
		out = append(out, m.tool.spec.Name)
	}
	seen := map[string]bool{}
	for _, e := range x.tools {
		category, _, _ := strings.Cut(e.spec.Name, ".")
		if len(out) >= 5 {
			break
		}
		if !seen[category] && !slices.Contains(out, e.spec.Name) {
			seen[category] = true
			out = append(out, e.spec.Name)
		}
	}
	return out
}

func enumerate(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// told says what a call gave.
func (s *step) told() string {
	r := s.done.result
	what := s.said()
	if s.tool.ask != nil {
		if r != nil && r.ok() && r.text != "" {
			return clip(r.text, shownResult)
		}
		what = "Asking " + s.tool.asked()
	}
	if r == nil {
		return fmt.Sprintf("There is no result of %s.", what)
	}
	text := clip(r.text, shownResult)
	switch r.status {
	case message.OK, "":
		return s.success(what, text, r)
	case message.Failed:
		return sentence(fmt.Sprintf("%s failed", what), text)
	case message.DeniedCall:
		return sentence(fmt.Sprintf("%s was not allowed, so it was not done", what), text)
	case message.Queued:
		return sentence(fmt.Sprintf("%s is queued and will be done when this turn ends", what), "")
	case message.Accepted:
		return sentence(fmt.Sprintf("%s was started: it goes on in the background, and its result comes as soon as it is there", what), "")
	case message.Unavailable:
		return sentence(fmt.Sprintf("%s could not be reached", what), text)
	case message.UnknownEnd:
		return sentence(fmt.Sprintf("Nobody knows whether %s took effect; please check before you ask again", what), text)
	case message.Interrupted:
		return sentence(fmt.Sprintf("%s was stopped before it ran", what), text)
	}
	return sentence(fmt.Sprintf("%s ended as %q", what, r.status), text)
}

func (s *step) success(what, text string, r *outcome) string {
	if flat, ok := inWords(r.value); ok {
		text = flat
	}
	var out string
	switch {
	case text == "":
		out = "Done: " + what + "."
	case strings.Contains(text, "\n"):
		out = what + ":\n\n" + text
	case complete(text):
		out = text
	default:
		out = sentence(what, text)
	}
	if r.rest != "" || len(r.text) > shownResult {
		out += "\n\n(The result is longer; this is its beginning.)"
	}
	return out
}

// complete reports a text that is a sentence already.
func complete(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return strings.ToLower(string(r)) != string(r) && strings.ContainsAny(text[len(text)-1:], ".!?") && strings.Contains(text, " ")
}

func sentence(what, text string) string {
	out := what
	if text != "" {
		out += ": " + text
	}
	if !strings.ContainsAny(out[len(out)-1:], ".!?") {
		out += "."
	}
	return out
}

// said names the call: its tool and, in brackets, its arguments.
func (s *step) said() string {
	var args []string
	for _, p := range s.tool.params {
		if v, ok := lookup(s.args, p.path); ok {
			args = append(args, p.name+" "+clip(shown(v), 80))
		}
	}
	title := s.tool.title
	if title != "" {
		title = strings.ToUpper(title[:1]) + title[1:]
	}
	if len(args) == 0 {
		return title
	}
	return title + " (" + strings.Join(args, ", ") + ")"
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = shown(x)
		}
		return strings.Join(parts, ", ")
	}
	return string(encode(v))
}

// inWords writes a small JSON object or list as words.
func inWords(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case map[string]any:
		if len(v) == 0 || len(v) > 12 {
			return "", false
		}
		var parts []string
		for _, k := range sortedKeys(v) {
			switch v[k].(type) {
			case map[string]any, []any:
				return "", false
			}
			parts = append(parts, strings.Join(splitName(k), " ")+" "+shown(v[k]))
		}
		return strings.Join(parts, ", "), true
	}
	return "", false
}

// question asks for what a step misses.
func (s *step) question() string {
	if len(s.missing) == 0 {
		return fmt.Sprintf("I understood that you mean %s, but what you said does not fit what it takes. Could you say it in other words?", s.tool.spec.Name)
	}
	var needs []string
	for _, p := range s.missing {
		needs = append(needs, p.described())
	}
	which := "What should it be?"
	if len(needs) > 1 {
		which = "What should they be?"
	}
	return fmt.Sprintf("For %s I still need %s. %s", s.tool.spec.Name, enumerate(needs), which)
}

// described is a parameter in words.
func (p *param) described() string {
	out := "the " + strings.Join(splitName(p.name), " ")
	if d, _, _ := strings.Cut(p.schema.Description, ". "); d != "" && len(d) < 120 {
		out += " (" + strings.TrimSuffix(d, ".") + ")"
	}
	if p.shape == shEnum && len(p.enum) <= 8 {
		var values []string
		for _, c := range p.enum {
			raw, err := json.Marshal(c.value)
			if err == nil {
				values = append(values, string(raw))
			}
		}
		out += " (one of " + strings.Join(values, ", ") + ")"
	}
	return out
}

// clip cuts a text to n bytes at a whole character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
