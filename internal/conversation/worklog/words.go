package worklog

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
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

// words describes one call in a person's words.
type words struct {
	*mask.Masker
	zone  *time.Location // of the person
	spec  tool.Spec
	name  string
	args  map[string]any // masked; nil: they cannot be decoded
	quiet bool           // the call is labelled secret: no value of it is shown
}

// words decodes and masks a call's arguments.
func (e *Engine) words(c message.Call) *words {
	w := &words{zone: e.zone, quiet: c.Labels.Has(message.Secret)}
	w.spec, _ = e.spec(tool.FromWire(c.Name))
	args, ok := decode(c.Args)
	w.Masker = mask.New(w.spec.Log.Secret, args, w.quiet)
	w.name = message.OneLine(w.Text(tool.FromWire(c.Name)), maxName)
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

// decode decodes arguments. Numbers keep their digits.
func decode(args []byte) (map[string]any, bool) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v map[string]any
	return v, d.Decode(&v) == nil && v != nil
}

// describe sets what follows from the call alone.
func (w *words) describe(en *Entry) {
	en.Tool = w.name
	en.Summary = w.summary()
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
	if s := tool.ValueLine(v, maxShort); s != "" {
		list = append(list, s)
	}
	return list
}

// Summary describes a call on one line, as the log does. It returns "" if the arguments cannot be
// decoded.
func (e *Engine) Summary(c message.Call) string {
	w := e.words(c)
	if w.args == nil {
		return ""
	}
	return w.summary()
}

// summary describes the call by the spec's template, or else by the tool's name and
// its main argument.
func (w *words) summary() string {
	return message.OneLine(w.spec.Log.Sentence(w.name, w.args, w.zone, func(v any) (string, bool) {
		return tool.ValueLine(v, maxValue), true
	}).Text, maxSummary)
}

// parameters returns the arguments that the spec keeps, or all short ones.
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

// kept returns a value, or its beginning if it is long.
func kept(v any) any {
	if size(v) <= maxKept {
		return v
	}
	return tool.ValueLine(v, maxKept)
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

// why returns the beginning of a result that was no success.
func (w *words) why(res *message.ToolResult) string {
	if message.LabelsOf([]message.Block{res}).Has(message.Secret) {
		return mask.Secret
	}
	return w.short(res.Plain())
}

// short returns a text about a call on one masked line. Only its beginning is examined.
// The beginning ends at white space, so that a cut cannot disguise a secret.
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
	return message.OneLine(w.Text(s), maxWhy)
}

// setOutcome sets the outcome of a call from its intent.
func (w *words) setOutcome(en *Entry, in *intent.Intent) {
	s, ok := stateOutcomes[in.State]
	if !ok {
		s = settlement{Failure, "it was not done", true}
	}
	en.Outcome, en.Error = s.outcome, s.what
	if in.State == intent.Approved && in.Deferred {
		en.Error = "it will be done when the turn ends"
	}
	if s.why && in.Reason != "" && !w.quiet {
		en.Error += ": " + w.short(in.Reason)
	}
}

// settlement is the outcome of a call by the state of its intent.
type settlement struct {
	outcome Outcome
	what    string
	why     bool // the intent's reason follows
}

// stateOutcomes has the outcome for each state of an intent. In states that are missing, the
// action was not done.
var stateOutcomes = map[intent.State]settlement{
	intent.Proposed:  {Pending, "it is being checked against policy", false},
	intent.Awaiting:  {Pending, "it is waiting for approval", true},
	intent.Approved:  {Pending, "it is about to start", false},
	intent.Executing: {Pending, "it is running", false},
	intent.Done:      {Success, "", false},
	intent.Unknown:   {Partial, "outcome unknown", true},
	intent.Denied:    {Failure, "denied", true},
	intent.Expired:   {Failure, "the approval request expired without an answer", false},
}
