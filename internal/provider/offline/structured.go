package offline

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// structured answers with one JSON value of the request's schema.
func (w *writer) structured(p *Provider, r *llm.Request, turns []*turn, now time.Time) {
	root := &jsonschema.Schema{}
	err := json.Unmarshal(r.Schema.JSON, root)
	var resolved *jsonschema.Resolved
	if err == nil {
		resolved, err = root.Resolve(nil)
	}
	if err != nil {
		w.yield(llm.Event{}, fault.New(fault.Unsupported, "schema_unsupported", "the schema %q of the answer does not hold: %w", r.Schema.Name, err).With("Give a valid JSON Schema."))
		return
	}
	f := newForm(p, r, turns, now, root)
	v := f.value(root, nil, 0)
	if resolved.Validate(v) != nil {
		f.plain = true
		v = f.value(root, nil, 0)
	}
	if err := resolved.Validate(v); err != nil {
		w.yield(llm.Event{}, fault.New(fault.Unsupported, "schema_unsupported", "the offline model found no value for the schema %q: %w", r.Schema.Name, err).
			With("Use a simpler schema, or connect a language model."))
		return
	}
	w.text(string(encode(v)), turns[len(turns)-1].cut, r.Sampling)
}

// form is what is known for filling a schema: the request, what the prompt
// lists to choose from, and how the request compares with it.
type form struct {
	root    *jsonschema.Schema
	request string
	clauses []*clause
	listed  *index         // what the prompt lists and the tools
	best    *match         // the listed thing that is most like the request
	sure    float64        // how alike it is, in [0, 1]
	chosen  []string       // the listed things that the wishes mean
	found   map[string]any // by path: what the request says itself
	orders  map[string][]string
	section map[string]string // labelled parts of the prompt
	plain   bool              // only keep to the schema
}

func newForm(p *Provider, r *llm.Request, turns []*turn, now time.Time, root *jsonschema.Schema) *form {
	said := turns[len(turns)-1].text
	f := &form{root: root, section: sections(r.System + "\n" + said), found: map[string]any{}, orders: propertyOrders(r.Schema.JSON)}
	f.request = asked(said, f.section)
	var specs []tool.Spec
	seen := map[string]bool{}
	for _, s := range append(listing(r.System+"\n"+said), r.Tools.Specs()...) {
		if !seen[s.Name] {
			seen[s.Name] = true
			specs = append(specs, tool.Spec{Name: s.Name, Description: s.Description})
		}
	}
	f.listed = newIndex(specs)
	pl := &planner{x: f.listed, zones: p.zones}
	rd := read(f.request, now)
	f.clauses = pl.divide(rd)
	f.compare()
	whole := newClause(rd, 0, len(rd.toks), pl.isVerb)
	e := &entry{spec: tool.Spec{Name: r.Schema.Name}, params: flatten(root, r.Schema.JSON), vocab: map[string]bool{}, nameWords: map[string]bool{}}
	out := (&filler{c: whole, e: e, zones: p.zones}).fill()
	for i, param := range e.params {
		if out.scores[i] > 0 {
			f.found[strings.Join(param.path, "/")] = out.values[i]
		}
	}
	return f
}

// compare finds out which listed things the wishes mean.
func (f *form) compare() {
	var words []queryWord
	for _, c := range f.clauses {
		words = append(words, c.words...)
		if list := f.listed.rank(c.words, 1); len(list) > 0 && likeness(list[0], c.words) >= 0.35 {
			if name := list[0].tool.spec.Name; !contains(f.chosen, name) {
				f.chosen = append(f.chosen, name)
			}
		}
	}
	list := f.listed.rank(words, 2)
	if len(list) == 0 {
		return
	}
	f.best, f.sure = &list[0], likeness(list[0], words)
	if len(list) > 1 { // one of two that are alike is less sure
		if second := likeness(list[1], words); f.sure > 0 && second > f.sure*0.9 {
			f.sure *= 0.85
		}
	}
	f.sure = float64(int(f.sure*100+0.5)) / 100
}

// likeness is the part of the words that a thing answers to, in [0, 1].
func likeness(m match, words []queryWord) float64 {
	said, got := 0.0, 0.0
	for i, q := range words {
		if q.kind != wordSaid {
			continue
		}
		if h := m.hits[i]; h.weight > 0 {
			said += q.weight
			got += q.weight * min(1, h.weight*1.2)
		} else {
			said += q.weight * 0.35 // it may be a value
		}
	}
	if said == 0 {
		return 0
	}
	return got / said
}

// listing reads "- name: description" and its like.
func listing(text string) []tool.Spec {
	var out []tool.Spec
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item := strings.TrimLeft(line, "-*•· ")
		bullet := len(item) < len(line)
		if n := strings.IndexAny(item, ".)"); n > 0 && n < 4 && isDigits(item[:n]) {
			item, bullet = strings.TrimSpace(item[n+1:]), true
		}
		name, desc := cutItem(item)
		if name == "" || len(name) > 64 || !bullet && (strings.Contains(name, " ") || sectionLabels[strings.ToLower(name)]) {
			continue
		}
		out = append(out, tool.Spec{Name: name, Description: desc})
		if len(out) == 1000 {
			break
		}
	}
	return out
}

func cutItem(item string) (name, desc string) {
	for _, sep := range []string{": ", " — ", " – ", " - ", " (", "\t"} {
		if n, d, ok := strings.Cut(item, sep); ok {
			return strings.Trim(n, "`\"'* "), strings.TrimSuffix(strings.TrimSpace(d), ")")
		}
	}
	if item = strings.Trim(item, "`\"'*"); isWordy(strings.ReplaceAll(item, ".", "")) {
		return item, ""
	}
	return "", ""
}

var sectionLabels = words(`request question message task query input user goal result results output answer evaluation criteria success expected
 outcome context instructions tools agents note plan purpose`)

// sections reads "Label: text" parts, each up to the next label or empty line.
func sections(text string) map[string]string {
	out := map[string]string{}
	cur := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		label, rest, ok := strings.Cut(strings.TrimLeft(trimmed, "#* "), ":")
		words := strings.Fields(strings.ToLower(strings.Trim(label, "* ")))
		switch {
		case trimmed == "" && out[cur] != "":
			cur = ""
		case ok && len(words) > 0 && len(words) <= 3 && sectionLabels[words[len(words)-1]]:
			cur = words[len(words)-1]
			out[cur] = strings.TrimSpace(rest)
		case cur != "":
			out[cur] = strings.TrimSpace(out[cur] + "\n" + trimmed)
		}
	}
	return out
}

// asked is the request itself, without lists and labels around it.
func asked(said string, section map[string]string) string {
	for _, label := range []string{"request", "question", "message", "query", "task", "goal", "input", "user"} {
		if s := section[label]; s != "" {
			return strings.Trim(s, "\"“” ")
		}
	}
	var lines []string
	for line := range strings.Lines(said) {
		if t := strings.TrimSpace(line); t != "" && t[0] != '-' && t[0] != '*' {
			lines = append(lines, t)
		}
	}
	if len(lines) == 0 {
		return said
	}
	return strings.Join(lines, "\n")
}
