package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/message"
	"steward/internal/search/words"
)

// Disclosure is the notice before the first answer of every conversation.
const Disclosure = "This is Steward's built-in offline model, not a language model: it matches your words to the tools that are there."

const (
	selfDescription = "I am Steward's built-in offline model, not a language model."
	remedy          = "For a real language model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start Ollama, and start Steward again."
	wordingAdvice   = "use their words, and put texts in quotation marks."
	shownResult     = 4000 // bytes of a result that an answer repeats
)

// answer returns the results of a turn's calls, or what was not certain.
func (s *speech) answer(t *turn, doubts []*doubt) string {
	var parts []string
	for _, c := range t.calls {
		parts = append(parts, s.x.told(c))
	}
	if len(t.calls) == 0 && len(doubts) > 0 {
		parts = append(parts, s.unsure(t.text, doubts[0]))
	}
	return strings.Join(parts, "\n\n")
}

// unsure says in two lines which part of a request is not certain, and what would be understood.
func (s *speech) unsure(text string, d *doubt) string {
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
		return said + "\n" + selfDescription + " No tool that is here shares a word with it. " + remedy
	}
	names := make([]string, len(d.near))
	for i, e := range d.near {
		names[i] = e.spec.Name
	}
	return said + "\nThe nearest tools are " + strings.Join(names, " and ") + ": " + wordingAdvice
}

func tooLong(n int) string {
	return fmt.Sprintf("%s This message has %d bytes, and I read at most %d, so nothing was done. Send a shorter one, or attach the text as a file. %s",
		selfDescription, n, maxWish, remedy)
}

// told returns the outcome of a call in words.
func (x *toolbox) told(c *made) string {
	what := x.title(c)
	r := c.result
	if r == nil {
		return fmt.Sprintf("There is no result of %s.", what)
	}
	text := clip(strings.TrimSpace(r.Plain()), shownResult)
	if e := x.byName[c.name]; e != nil && e.agent {
		if (r.Status == message.OK || r.Status == "") && text != "" {
			return text
		}
		what = "Asking " + strings.ReplaceAll(strings.TrimSuffix(c.name, ".ask"), "_", " ")
	}
	switch r.Status {
	case message.OK, "":
		return success(what, text, r)
	case message.Queued:
		return what + " is queued and will be done when this turn ends."
	case message.Accepted:
		return what + " was started: it goes on in the background, and its result comes as soon as it is there."
	case message.UnknownEnd:
		return asSentence("Nobody knows whether "+what+" took effect; please check before you ask again", text)
	}
	end := map[message.Status]string{message.Failed: "failed", message.DeniedCall: "was not allowed, so it was not done",
		message.Unavailable: "could not be reached", message.Interrupted: "was stopped before it ran"}[r.Status]
	return asSentence(what+" "+cmp.Or(end, fmt.Sprintf("ended as %q", r.Status)), text)
}

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
func (x *toolbox) title(c *made) string {
	title := strings.Join(words.Split(c.name[strings.IndexByte(c.name, '.')+1:]), " ")
	if title != "" {
		title = strings.ToUpper(title[:1]) + title[1:]
	}
	var given map[string]any
	if json.Unmarshal(c.args, &given) != nil {
		return title
	}
	if e := x.byName[c.name]; e != nil && e.spec.Log.Summary != "" && len(e.patterns) > 0 { // an everyday tool
		return filled(e.spec.Log.Summary, given)
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

// holes are the places of arguments in the sentence by which the work log describes a call.
var holes = pattern(`\{([^{}|:]+)(:duration)?(?:\|([^{}]*))?\}`)

// filled describes a call as the work log does.
func filled(template string, given map[string]any) string {
	return holes().ReplaceAllStringFunc(template, func(hole string) string {
		m := holes().FindStringSubmatch(hole)
		v, ok := given[m[1]]
		seconds, number := v.(float64)
		switch {
		case !ok:
			return m[3]
		case m[2] != "" && number:
			return (time.Duration(seconds) * time.Second).String()
		}
		return clip(shown(v), 80)
	})
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
