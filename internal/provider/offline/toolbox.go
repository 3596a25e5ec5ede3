package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/search/words"
	"steward/internal/tool"
	"steward/internal/tool/sentence"
)

// The weights of the parts of a tool's description.
const (
	weightName        = 1.0
	weightDescription = 0.85
	weightParameter   = 0.75
	weightHint        = 0.4 // a parameter's description
)

// Limits on a set of tools.
const (
	maxTools      = 4096
	maxParameters = 64
	maxSchema     = 64 << 10
	maxSentences  = 64 // patterns of a tool
	maxToolboxes  = 16 // cached
)

// toolbox is a set of tools, prepared for comparing sentences with them.
type toolbox struct {
	entries []*entry
	byName  map[string]*entry
	index   *words.Index
	tokens  int64

	set      sentence.Set // the patterns of speakers, by their place
	speakers []*entry
}

// entry is a tool with its parameters. If its schema cannot be read, broken is set, and it is never called.
type entry struct {
	at       int // in the toolbox
	spec     tool.Spec
	params   []*param
	required int  // how many of params, which come first
	agent    bool // it passes the request on to another agent
	broken   bool
	patterns []*sentence.Pattern

	once      sync.Once // makes validator when it is first needed
	validator *tool.Validator
}

// param is a parameter of a tool: a property at the top level of its schema.
type param struct {
	name, description string
	shape, format     string // of the schema, or of a list's items
	list, required    bool
	enum              []string
	words             map[string]bool // stems of the name
	hints             map[string]bool // stems of the description
	folder            string          // of files that are named without one
	folders           bool            // it takes folders and no files
}

// has reports whether the parameter's name has a word.
func (p *param) has(word string) bool { return p.words[words.Stem(word)] }

// mentions reports whether the parameter's name or description has a word.
func (p *param) mentions(word string) bool { return p.has(word) || p.hints[words.Stem(word)] }

// number returns a numeral as an argument.
func (p *param) number(text string) (any, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || p.shape != "number" && (p.shape != "integer" || strings.Contains(text, ".")) {
		return nil, false
	}
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), true
}

// newToolbox reads the tools. The time is proportional to the length of their texts.
func newToolbox(ctx context.Context, specs []tool.Spec, f *forms) (*toolbox, error) {
	x := &toolbox{byName: map[string]*entry{}}
	var docs [][]words.Field
	for i, s := range specs {
		if err := ctx.Err(); err != nil {
			return nil, fault.Of(err)
		}
		x.tokens += tokensOf(len(s.Name) + len(s.Description) + len(s.Input))
		if i >= maxTools {
			continue
		}
		e := &entry{at: i, spec: s}
		e.params, e.required, e.broken = parameters(s.Input)
		if e.patterns = f.of(s.Sentences); len(e.patterns) > 0 {
			for _, p := range e.params {
				p.places(e.patterns)
			}
			x.set.Add(e.patterns)
			x.speakers = append(x.speakers, e)
		}
		e.agent = strings.HasPrefix(s.Origin, "agent:") && len(e.params) == 1 && e.required == 1 && e.params[0].shape == "string"
		doc := []words.Field{{Text: s.Name, Weight: weightName}, {Text: s.Description, Weight: weightDescription}}
		for _, p := range e.params {
			if !e.agent { // the only parameter of an agent says nothing about it
				doc = append(doc, words.Field{Text: p.name + " " + strings.Join(p.enum, " "), Weight: weightParameter}, words.Field{Text: p.description, Weight: weightHint})
			}
		}
		x.entries, x.byName[s.Name], docs = append(x.entries, e), e, append(docs, doc)
	}
	x.index = words.NewIndex(docs)
	return x, nil
}

// member is a property of a schema.
type member struct {
	Type        any
	Description string
	Format      string
	Enum        []any
	Items       *member
}

// parameters reads the top level of an object schema: first the required parameters, then the others by
// name. broken is set if a required parameter is not a plain value.
func parameters(schema []byte) (out []*param, required int, broken bool) {
	var s struct {
		Properties map[string]member
		Required   []string
	}
	if len(schema) > 0 && (len(schema) > maxSchema || json.Unmarshal(schema, &s) != nil) {
		return nil, 0, true
	}
	add := func(name string, needed bool) {
		m := s.Properties[name]
		delete(s.Properties, name)
		p := m.param(name)
		p.required = needed
		if p.shape == "" || len(out) == maxParameters {
			broken = broken || needed
			return
		}
		out = append(out, p)
	}
	for _, name := range s.Required {
		add(name, true)
	}
	required = len(out)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		add(name, false)
	}
	return out, required, broken
}

func (m *member) param(name string) *param {
	p := &param{name: name, description: m.Description, words: stems(name), hints: stems(m.Description)}
	if p.list = m.Type == "array"; p.list {
		if m = m.Items; m == nil {
			return p
		}
	}
	p.format = m.Format
	if shape, ok := m.Type.(string); ok && slices.Contains([]string{"string", "number", "integer", "boolean"}, shape) {
		p.shape = shape
	}
	for _, v := range m.Enum {
		s, ok := v.(string)
		if !ok {
			p.shape = ""
		}
		p.enum = append(p.enum, s)
	}
	return p
}

// places reads from a tool's patterns whether a parameter takes folders or files, and where files are.
func (p *param) places(patterns []*sentence.Pattern) {
	for _, one := range patterns {
		kind, folder := one.Value(p.name)
		p.folders = p.folders || kind == "folder"
		p.folder = cmp.Or(p.folder, folder)
	}
}

func stems(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range words.Split(text[:min(len(text), 4096)]) {
		if !words.Common(w) {
			out[words.Stem(w)] = true
		}
	}
	return out
}

// toolboxCache caches toolboxes by their sets of tools.
type toolboxCache struct {
	mu    sync.Mutex
	boxes map[*llm.Toolset]*toolbox
	forms forms
}

// forms are the compiled patterns of tools, by their sources, so that each is compiled once.
type forms struct {
	mu   sync.Mutex
	have map[string]*sentence.Pattern
}

const maxForms = 4096

// of returns the patterns of a tool. Those that cannot be read are left out; a test reads all of Steward's own.
func (f *forms) of(list []string) (out []*sentence.Pattern) {
	if f == nil || len(list) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, source := range list[:min(len(list), maxSentences)] {
		p := f.have[source]
		if p == nil {
			var err error
			if p, err = sentence.Compile(source); err != nil {
				continue
			}
			if f.have == nil || len(f.have) >= maxForms {
				f.have = map[string]*sentence.Pattern{}
			}
			f.have[source] = p
		}
		out = append(out, p)
	}
	return out
}

// of returns the toolbox of a set of tools.
func (s *toolboxCache) of(ctx context.Context, set *llm.Toolset) (*toolbox, error) {
	s.mu.Lock()
	x := s.boxes[set]
	s.mu.Unlock()
	if x != nil {
		return x, nil
	}
	x, err := newToolbox(ctx, set.Specs(), &s.forms)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes == nil || len(s.boxes) >= maxToolboxes {
		s.boxes = map[*llm.Toolset]*toolbox{}
	}
	s.boxes[set] = x
	return x, nil
}
