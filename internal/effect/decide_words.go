package effect

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
)

// Value is an argument as a question shows it.
type Value struct {
	Name  string   `json:"name"`
	Text  string   `json:"text"`          // without quotes and with invisible characters written out
	Cut   bool     `json:"cut,omitzero"`  // Text is only the beginning
	Size  int      `json:"size,omitzero"` // bytes of the argument's JSON
	Marks []string `json:"marks,omitempty"`
}

// Limits on what a question shows first.
const (
	maxInserted = 60  // characters of a value in the sentence
	maxValues   = 8   // arguments beside the sentence
	maxLines    = 6   // of one of them
	maxText     = 400 // characters of one of them
	maxTarget   = 2000
)

// words sets what a person reads first: the sentence, why it is asked, and what the sentence does not say.
// Nothing of it is in the hash, which covers the arguments themselves. zone is that of the person; nil: unknown.
func (q *Question) words(in *intent.Intent, spec tool.Spec, previewed bool, zone *time.Location) error {
	args, err := decoded(q.Args)
	if err != nil {
		return err
	}
	s := spec.Log.Sentence(in.Tool, args, zone, written)
	q.Summary, q.Why = s.Text, askReason(q, in, spec)
	if q.Undoes != "" {
		q.Summary = "Take back: " + q.Summary
	}
	shown := func(a tool.Argument) bool {
		return len(a.Marks) == 0 && (slices.Contains(s.Whole, a.Name) || previewed && slices.Contains(spec.Log.Previewed, a.Name))
	}
	rank := func(a tool.Argument) int {
		switch {
		case slices.Contains(spec.Targets, a.Name):
			return 0
		case len(a.Marks) > 0:
			return 1
		case slices.Contains(spec.Log.Impact, a.Name):
			return 2
		}
		return 3
	}
	rest := slices.DeleteFunc(slices.Clone(q.Arguments), shown)
	slices.SortStableFunc(rest, func(a, b tool.Argument) int { return rank(a) - rank(b) })
	q.More = max(0, len(rest)-maxValues)
	for _, a := range rest[:len(rest)-q.More] {
		v := Value{Name: tool.Visible(a.Name), Size: a.Size, Marks: a.Marks}
		most := maxText
		if rank(a) == 0 {
			most = maxTarget
		}
		v.Text, v.Cut = displayValue(args[a.Name], most)
		q.Values = append(q.Values, v)
	}
	return nil
}

// written returns a value as it stands in a sentence: on one line, with invisible characters written out,
// in quotes unless it is one word, so that nobody takes a part of it for words of Steward's. whole
// reports whether that is all of it.
func written(v any) (text string, whole bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case string:
		return quoted(v)
	case []any:
		parts, whole := make([]string, len(v)), true
		for i, x := range v {
			part, all := written(x)
			parts[i], whole = part, whole && all
		}
		text := strings.Join(parts, ", ")
		if utf8.RuneCountInString(text) > 2*maxInserted {
			return fmt.Sprintf("%s and %d more", parts[0], len(v)-1), false
		}
		return text, whole
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return "", false
		}
		return quoted(string(b))
	}
	return fmt.Sprint(v), true
}

func quoted(s string) (text string, whole bool) {
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	whole = !more && line == s
	if line = tool.Visible(strings.TrimSpace(line)); line == "" {
		return "", s == ""
	}
	if runes := []rune(line); len(runes) > maxInserted {
		line, whole = string(runes[:maxInserted])+"…", false
	} else if more && rest != "" {
		line += "…"
	}
	switch {
	case !strings.ContainsFunc(line, separatesWords):
		return line, whole
	case !strings.Contains(line, `"`):
		return `"` + line + `"`, whole
	case !strings.ContainsAny(line, "“”"):
		return "“" + line + "”", whole
	}
	b, err := json.Marshal(line)
	return string(b), whole && err == nil
}

// separatesWords reports whether a character can part a value into several words.
func separatesWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !strings.ContainsRune("@/.:_+~%#=&?-$…", r)
}

// displayValue returns a value as it stands displayValue the sentence: a text with its lines, and anything else as
// JSON or a list. Its beginning is at most maxLines lines and most characters.
func displayValue(v any, most int) (text string, cut bool) {
	switch x := v.(type) {
	case string:
		text = x
	case []any:
		parts := make([]string, len(x))
		for i, part := range x {
			if s, ok := part.(string); ok && !strings.ContainsAny(s, ", \n\"") {
				parts[i] = s
				continue
			}
			b, err := json.Marshal(part)
			if err != nil {
				return "", true
			}
			parts[i] = string(b)
		}
		text = strings.Join(parts, ", ")
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return "", true
		}
		text = string(b)
	}
	if lines := strings.Split(text, "\n"); len(lines) > maxLines && strings.TrimSpace(strings.Join(lines[maxLines:], "")) != "" {
		text, cut = strings.Join(lines[:maxLines], "\n"), true
	}
	if runes := []rune(text); len(runes) > most {
		text, cut = string(runes[:most]), true
	}
	return tool.Visible(text), cut
}

// askReason returns askReason a person is asked, in one line.
func askReason(q *Question, in *intent.Intent, spec tool.Spec) string {
	after := ""
	if place := placesOf(q.Read); len(q.Read) > 0 {
		after = " after reading " + place
	} else if in.Labels.Has(message.Untrusted) && spec.Out() { // it matters only to what could carry something out
		after = " after reading content that others may have written"
	}
	switch private := in.Labels.Has(message.Private) && spec.Out(); {
	case in.Labels.Has(message.Secret):
		after += ", with secrets in view"
	case private && after != "":
		after += ", with private data in view"
	}
	out := "It " + effectText(q, spec) + after + "."
	const counts = "; the answer counts for all reads of "
	if i := strings.LastIndex(in.Reason, counts); i >= 0 && spec.Effect == tool.Query { // what a page wrote stands before it
		place, _, _ := strings.Cut(in.Reason[i+len(counts):], " in this turn")
		out += " Your answer counts for all reads of " + tool.Visible(place) + " in this turn."
	}
	own := ownPolicies(in.Rule)
	if len(own) == 0 {
		return out
	}
	reason := strings.TrimSuffix(strings.Join(strings.Fields(tool.Visible(in.Reason)), " "), ".")
	if len(own) == 1 {
		return out + " The policy " + own[0] + " asks about it: " + reason + "."
	}
	return out + " The policies " + strings.Join(own, ", ") + " ask about it: " + reason + "."
}

// effectText returns what a call does, to stand after "It".
func effectText(q *Question, spec tool.Spec) string {
	kind, source, foreign := strings.Cut(spec.Origin, ":")
	switch {
	case q.Undoes != "":
		return "undoes what was done"
	case spec.Log.Does != "":
		return spec.Log.Does
	case spec.Effect == tool.Query && spec.Out() && spec.Host != "":
		return "sends what it is given to " + tool.Visible(spec.Host)
	case spec.Effect == tool.Query && spec.Out():
		return "sends out what it is given"
	case foreign && kind == "mcp":
		return "changes something at the MCP server " + tool.Visible(source)
	case foreign && kind == "grpc":
		return "changes something at the service " + tool.Visible(source)
	case foreign && kind == "process":
		return "runs the program " + tool.Visible(source)
	case foreign && kind == "agent":
		return "gives work to the agent " + tool.Visible(source)
	case spec.Effect == tool.Query:
		return "is asked about before each call"
	case spec.Out():
		return "changes something outside of Steward"
	}
	return "changes something"
}

// ownPolicies returns the files of the person's own policies among the rules that ask.
func ownPolicies(rules string) []string {
	var out []string
	for rule := range strings.SplitSeq(rules, ", ") {
		file, _, found := strings.Cut(rule, ":")
		if !found || strings.HasPrefix(rule, "default/") {
			continue
		}
		if file = tool.Visible(file); !slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	return out
}

// placesOf returns what was read in few words: the hosts of pages, and otherwise the names of tools.
func placesOf(read []string) string {
	var out []string
	for _, r := range read {
		name, args, _ := strings.Cut(r, " ")
		var page struct{ URL string }
		if json.Unmarshal([]byte(args), &page) == nil && page.URL != "" {
			if u, err := url.Parse(page.URL); err == nil && u.Host != "" {
				name = u.Host
			}
		} else if r == "and more" {
			name = r
		}
		if name = tool.Visible(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) > 1 && out[len(out)-1] == "and more" {
		return strings.Join(out, ", ")
	}
	if n := len(out); n > 1 {
		return strings.Join(out[:n-1], ", ") + " and " + out[n-1]
	}
	return strings.Join(out, "")
}
