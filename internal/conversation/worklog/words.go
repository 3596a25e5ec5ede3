package worklog

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/secret/mask"
	"steward/internal/tool"
)

// How much is shown, in characters.
const (
	maxName    = 80
	maxValue   = 60 // of an argument inside a summary
	maxSummary = 200
	maxWhy     = 240
	maxShort   = 200  // an argument that is kept although no spec asks for it
	maxKept    = 1000 // one that a spec asks for
)

// words tells of one call in a person's words.
type words struct {
	*mask.Masker
	spec  tool.Spec
	name  string
	args  map[string]any // masked; nil: there are none that can be read
	quiet bool           // the call is labelled secret: nothing of it is shown
}

// words looks a call's arguments over.
func (e *Engine) words(c message.Call) *words {
	w := &words{quiet: c.Labels.Has(message.Secret)}
	w.spec, _ = e.spec(tool.FromWire(c.Name))
	args, ok := decode(c.Args)
	w.Masker = mask.New(w.spec.Log.Secret, args, w.quiet)
	w.name = line(w.Text(tool.FromWire(c.Name)), maxName)
	if !ok {
		return w
	}
	w.args = w.Object(args)
	if w.quiet {
		for k := range w.args {
			w.args[k] = mask.Secret
		}
	}
	return w
}

// decode reads arguments, numbers digit for digit.
func decode(args []byte) (map[string]any, bool) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v map[string]any
	return v, d.Decode(&v) == nil && v != nil
}

// describe fills in what the call alone tells.
func (w *words) describe(en *Entry) {
	en.Tool = w.name
	en.Summary = line(w.summary(), maxSummary)
	if w.quiet {
		return
	}
	en.Parameters = w.parameters()
	for _, name := range w.spec.Log.Impact {
		if list, ok := w.args[name].([]any); ok {
			for _, v := range list {
				en.Impact = appendText(en.Impact, v)
			}
			continue
		}
		en.Impact = appendText(en.Impact, w.args[name])
	}
}

func appendText(list []string, v any) []string {
	if s := inline(v, maxShort); s != "" {
		list = append(list, s)
	}
	return list
}

// summary is what was done: by the spec's template, else made of the tool's
// name and of the argument that matters most.
func (w *words) summary() string {
	if w.spec.Log.Summary != "" {
		return w.fill(w.spec.Log.Summary)
	}
	category, verb, ok := strings.Cut(w.name, ".")
	s := capital(spaced(category))
	if ok {
		s += ": " + spaced(verb)
	}
	if main := inline(w.main(), maxValue); main != "" {
		s += " " + main
	}
	return s
}

var holePattern = regexp.MustCompile(`\{([^{}|]+)(?:\|([^{}]*))?\}`)

// fill puts arguments into a template: {path}, or {path|the folder} where it
// may be left out.
func (w *words) fill(template string) string {
	return holePattern.ReplaceAllStringFunc(template, func(hole string) string {
		p := holePattern.FindStringSubmatch(hole)
		if s := inline(w.args[p[1]], maxValue); s != "" {
			return s
		}
		return p[2]
	})
}

// spaced makes words of a name.
func spaced(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '_' || r == '-' || r == '.' }), " ")
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// main is the argument that says most: what the call affects, one with a name
// that says so, or the only one.
func (w *words) main() any {
	for _, names := range [][]string{w.spec.Log.Impact, w.spec.Log.Parameters, {"path", "file", "url", "uri", "query", "q", "question",
		"title", "subject", "name", "to", "recipient", "entity", "entity_id", "city", "location", "place", "expression", "command", "text", "message", "id"}} {
		for _, name := range names {
			if v, ok := w.args[name]; ok && inline(v, 1) != "" {
				return v
			}
		}
	}
	if len(w.args) == 1 {
		for _, v := range w.args {
			return v
		}
	}
	return nil
}

// parameters are the arguments that the spec keeps, or all short ones.
func (w *words) parameters() map[string]any {
	out := map[string]any{}
	for _, name := range w.spec.Log.Parameters {
		if v, ok := w.args[name]; ok {
			out[name] = kept(v)
		}
	}
	if len(w.spec.Log.Parameters) == 0 {
		for name, v := range w.args {
			if size(v) <= maxShort {
				out[name] = v
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// kept is a value, or its beginning where it is long.
func kept(v any) any {
	if size(v) <= maxKept {
		return v
	}
	return inline(v, maxKept)
}

func size(v any) int {
	if s, ok := v.(string); ok {
		return utf8.RuneCountInString(s)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return maxKept + 1
	}
	return len(b)
}

// why is the beginning of a result that was no success.
func (w *words) why(res *message.ToolResult) string {
	if message.LabelsOf([]message.Block{res}).Has(message.Secret) {
		return mask.Secret
	}
	return w.short(res.Plain())
}

// short makes a line of what is said of a call. What follows its beginning is
// not looked at: it ends at a blank, so that no secret is cut into what no
// longer looks like one.
func (w *words) short(s string) string {
	if w.quiet {
		return mask.Secret
	}
	const most = 4096
	if len(s) > most {
		s = s[:most]
		if i := strings.LastIndexAny(s, " \n\t"); i > 0 {
			s = s[:i]
		}
	}
	return line(w.Text(s), maxWhy)
}

// settle tells what an intent says of its call.
func (w *words) settle(en *Entry, in *intent.Intent) {
	s, ok := settled[in.State]
	if !ok {
		s = settlement{Failure, "it was not done", true}
	}
	en.Outcome, en.Error = s.outcome, s.what
	if in.State == intent.Approved && in.Deferred {
		en.Error = "it is done when the turn ends"
	}
	if s.why && in.Reason != "" && !w.quiet {
		en.Error += ": " + w.short(in.Reason)
	}
}

// settlement is what the state of an intent says of its call.
type settlement struct {
	outcome Outcome
	what    string
	why     bool // the intent's reason belongs to it
}

var settled = map[intent.State]settlement{
	intent.Proposed:  {Pending, "it is being judged", false},
	intent.Awaiting:  {Pending, "it waits for approval", true},
	intent.Approved:  {Pending, "it is about to start", false},
	intent.Executing: {Pending, "it runs", false},
	intent.Done:      {Success, "", false},
	intent.Unknown:   {Partial, "it is not known whether it was done", true},
	intent.Denied:    {Failure, "denied", true},
	intent.Expired:   {Failure, "nobody answered in time whether it may be done", false},
}
