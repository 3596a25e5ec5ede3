package offline

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/search/words"
	"steward/internal/tool"
	"steward/internal/tool/sentence"
)

// How similar a sentence and a tool must be for a call.
const (
	likeTool    = 0.6  // of a tool
	likeAgent   = 0.5  // of an agent, which decides for itself
	clearly     = 0.08 // the distance between the best tool and the next
	rival       = 0.9  // a tool that cannot be called prevents the call of one this much worse
	lightWeight = 0.2  // the weight of words like "show"
)

// light reports whether a word says little about the request.
func light(word string) bool { return strings.Contains(lightWords, " "+word+" ") }

const lightWords = " show tell give see check know make look current currently latest last first new all called named titled saying much many long right like lot happen "

// lists matches the beginnings of questions for a list.
var lists = pattern(`^(?:which|what(?: is|'s) (?:in|on)|what \w+ (?:are|do)) `)

// step is a call that a clause certainly asks for.
type step struct {
	tool *entry
	args map[string]any

	each  string   // an argument; there is a call for each of its values
	items []string // of each
}

// expand returns a step as the calls that it stands for.
func (st *step) expand() []*step {
	if len(st.items) == 0 {
		return []*step{st}
	}
	var out []*step
	for _, item := range st.items {
		one := &step{tool: st.tool, args: maps.Clone(st.args)}
		one.args[st.each] = item
		out = append(out, one)
	}
	return out
}

// ambiguity is a clause whose meaning is not certain.
type ambiguity struct {
	clause clause
	near   []*entry // the nearest tools, at most two
}

// decide returns the call that a clause asks for, or a doubt.
func (s *speech) decide(c clause, force bool) (*step, *ambiguity) {
	if sum := arithmetic(c); sum != "" {
		if e, args := s.x.calculator(sum); e != nil && s.may(e) && e.accepts(args) {
			return &step{tool: e, args: args}, nil
		}
	}
	d := &ambiguity{clause: c}
	var best *step
	var score, top, next float64
	for i, m := range s.x.rank(c) {
		if s.ctx.Err() != nil {
			return nil, d
		}
		e := s.x.entries[m.Doc]
		top = max(top, m.Score)
		if i < 2 {
			d.near = append(d.near, e)
		}
		if m.Score < top*rival-clearly || !s.may(e) {
			continue
		}
		args := e.fill(c)
		switch {
		case args == nil || !s.x.formAllows(e, c) || c.unclear:
		case best == nil:
			best, score = &step{tool: e, args: args}, m.Score
		default:
			next = max(next, m.Score)
		}
	}
	need := likeTool
	if best != nil && best.tool.agent {
		need = likeAgent
	}
	if best == nil || !force && (score < need || score < top*rival) || score-next < clearly {
		return nil, d
	}
	return best, nil
}

// rank compares a clause with the tools, by its words other than values.
func (x *toolbox) rank(c clause) []words.Match {
	var terms []words.Term
	said := lower(c.tokens)
	for _, w := range words.Split(said) {
		weight := 1.0
		if light(w) {
			weight = lightWeight
		}
		if !words.Common(w) {
			terms = append(terms, words.Term{Stem: words.Stem(w), Weight: weight})
		}
	}
	if lists().MatchString(said) {
		terms = append(terms, words.Term{Stem: "list", Weight: lightWeight})
	}
	return x.index.Rank(terms)
}

// plenty matches words for more than one action changes.
var plenty = pattern(`\b(?:all|everything|both)\b`)

// formAllows reports whether the form of a clause allows the call: a question must not change anything, an order begins
// with a word that the tool knows, and a tool that declares its sentences changes something only for one of them.
func (x *toolbox) formAllows(e *entry, c clause) bool {
	if e.broken || e.spec.Effect == tool.Action && (!c.orders || plenty().MatchString(lower(c.tokens)) || len(e.patterns) > 0) {
		return false
	}
	return !c.orders || !slices.ContainsFunc(words.Split(c.tokens[0].text), func(w string) bool {
		return !light(w) && x.index.Weight(e.at, words.Stem(w)) < weightParameter
	})
}

// filling fills the parameters of one tool with values of one clause.
type filling struct {
	params []*param
	c      clause
	args   map[string]any
	used   []bool // by token
}

func newFilling(params []*param, c clause) *filling {
	f := &filling{params: params, c: c, args: map[string]any{}, used: make([]bool, len(c.tokens))}
	f.choices(true)
	f.choices(false)
	f.place(func(p *param, cue string, t token) bool {
		return p.takes(t, true) && (p.has(cue) || strings.EqualFold(p.name, cue))
	})
	return f
}

// fill returns the arguments, or nil unless every value of the clause has a place, every required parameter
// has a value, and the schema accepts them.
func (e *entry) fill(c clause) map[string]any {
	if e.agent {
		return map[string]any{e.params[0].name: c.text}
	}
	f := newFilling(e.params, c)
	f.place(func(p *param, _ string, t token) bool { return p.required && p.takes(t, false) })
	f.place(func(p *param, _ string, t token) bool { return p.takes(t, false) })
	f.wholeDay()
	for i, t := range c.tokens {
		if !f.used[i] && (t.kind != plain || f.bare(i)) {
			return nil
		}
	}
	if slices.ContainsFunc(e.params[:e.required], f.open) || !e.accepts(f.args) {
		return nil
	}
	return f.args
}

// wholeDay makes an event last all day if only its day is said, and the tool knows such events.
func (f *filling) wholeDay() {
	i := slices.IndexFunc(f.c.tokens, func(t token) bool { return t.kind == date && t.begins != "" })
	begins := slices.IndexFunc(f.params, func(p *param) bool { return p.required && p.format == "date-time" && f.open(p) })
	all := slices.IndexFunc(f.params, func(p *param) bool { return p.shape == "boolean" && p.name == "all_day" })
	if i >= 0 && !f.used[i] && begins >= 0 && all >= 0 {
		f.args[f.params[begins].name], f.args[f.params[all].name], f.used[i] = f.c.tokens[i].begins, true, true
	}
}

// accepts reports whether the arguments are valid under the tool's schema.
func (e *entry) accepts(args map[string]any) bool {
	if len(e.spec.Input) == 0 {
		return true
	}
	e.once.Do(func() {
		if v, err := tool.NewValidator(e.spec.Input); err == nil {
			e.validator = v
		}
	})
	return e.validator != nil && e.validator.Validate(encode(args)) == nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // impossible for strings, numbers and lists of them
		return []byte("{}")
	}
	return b
}

// open reports whether a parameter has no value yet.
func (f *filling) open(p *param) bool {
	_, done := f.args[p.name]
	return !done
}

// bare reports whether a word may be a value without quotation marks: it follows a word for a parameter
// that has no value, as in "the folder notes".
func (f *filling) bare(i int) bool {
	says := func(i int) bool {
		w := f.c.tokens[i].word
		return len(words.Split(w)) > 0 && !words.Common(w) && !light(w)
	}
	return i > 0 && says(i) && says(i-1) && !(i == 1 && f.c.orders) && slices.ContainsFunc(f.params, func(p *param) bool {
		return f.open(p) && p.shape == "string" && p.format == "" && len(p.enum) == 0 && p.mentions(f.c.tokens[i-1].word)
	})
}

// choices fills enumerations that have only one of their values in the clause. If named is set, it considers
// only values after the name of their parameter.
func (f *filling) choices(named bool) {
	said := map[string][2]int{} // normal form → first token, and the one after the last
	for i := range f.c.tokens {
		form := ""
		for j := i; j < min(i+3, len(f.c.tokens)) && f.c.tokens[j].kind != quoted; j++ {
			form += normal(f.c.tokens[j].text)
			if _, ok := said[form]; !ok && !words.Common(form) {
				said[form] = [2]int{i, j + 1}
			}
		}
	}
	for _, p := range f.params {
		var found []string
		for _, v := range p.enum {
			at, ok := said[normal(v)]
			if ok && !p.list && f.open(p) && !f.used[at[0]] && (!named || at[0] > 0 && f.c.tokens[at[0]-1].word == strings.ToLower(p.name)) {
				found = append(found, v)
			}
		}
		if len(found) == 1 {
			f.args[p.name] = found[0]
			for i := said[normal(found[0])][0]; i < said[normal(found[0])][1]; i++ {
				f.used[i] = true
			}
		}
	}
}

// normal returns the form in which values of enumerations are compared.
func normal(s string) string { return strings.ToLower(separators.Replace(s)) }

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// cue returns the word before a token, ignoring colons and function words. A preposition directly before
// the token counts if a parameter has its name.
func (f *filling) cue(i int) string {
	for j := i - 1; j >= 0 && j >= i-3; j-- {
		t := f.c.tokens[j]
		if t.kind != plain && !f.used[j] {
			return ""
		}
		if t.word == "" || j == 0 && f.c.orders { // the verb of an order names no value
			continue
		}
		if !words.Common(t.word) || j == i-1 && slices.ContainsFunc(f.params, func(p *param) bool { return strings.EqualFold(p.name, t.word) }) {
			return t.word
		}
	}
	return ""
}

// kindWords are words in the names of parameters for each kind of value.
var kindWords = map[kind][]string{date: {"date", "day"}, clock: {"time", "clock"}, address: {"email", "to", "mail", "address", "recipient"},
	file: {"path", "file", "document", "folder", "attachment"}, link: {"url", "uri", "link", "page", "address", "website"}}

// place assigns values to the parameters that fit: if only one does, or a row of them, or only one by its
// name. An assignment may leave a single parameter for another value, so it repeats.
func (f *filling) place(fits func(p *param, cue string, t token) bool) {
	for more := true; more; {
		more = false
		for i, t := range f.c.tokens {
			if t.kind == plain || f.used[i] {
				continue
			}
			var list []*param
			cue := f.cue(i)
			for _, p := range f.params {
				if (f.open(p) || p.list) && fits(p, cue, t) {
					list = append(list, p)
				}
			}
			if len(list) > 1 && !row(list) {
				list = slices.DeleteFunc(list, func(p *param) bool { return !slices.ContainsFunc(kindWords[t.kind], p.has) })
			}
			if len(list) == 1 || len(list) > 1 && row(list) {
				p := list[0]
				v, _ := p.value(t) // it fits
				if p.list {
					given, _ := f.args[p.name].([]any)
					v = append(given, v)
				}
				f.args[p.name], f.used[i], more = v, true, true
			}
		}
	}
}

// after maps the beginning of a parameter's name to that of the next one in a row.
var after = map[string]string{"a": "b", "x": "y", "first": "second"}

// row reports whether the names of parameters are a sequence: a and b, x and y, first_name and second_name.
func row(list []*param) bool {
	first, _, _ := strings.Cut(list[0].name, "_")
	second, _, _ := strings.Cut(list[1].name, "_")
	return after[first] != "" && after[first] == second
}

// takes reports whether the parameter accepts a value. named says that its name precedes the value.
func (p *param) takes(t token, named bool) bool {
	if _, ok := p.value(t); !ok {
		return false
	}
	if t.kind == name && !named {
		return !slices.ContainsFunc([]string{"text", "body", "content", "message", "subject", "title", "path", "time", "uri", "note"}, p.has)
	}
	return named || t.kind == quoted || p.shape != "string" || p.format != "" || slices.ContainsFunc(kindWords[t.kind], p.mentions)
}

// formats maps the formats of JSON Schema to kinds of values.
var formats = map[string]kind{"date": date, "date-time": moment, "time": clock, "email": address, "uri": link}

// value returns a token's value in the parameter's form.
func (p *param) value(t token) (any, bool) {
	if len(p.enum) > 0 {
		i := slices.IndexFunc(p.enum, func(v string) bool { return normal(v) == normal(t.value) })
		if i < 0 || t.kind != quoted {
			return nil, false
		}
		return p.enum[i], true
	}
	if p.shape != "string" {
		text := t.value
		if t.kind == length {
			text = p.inUnit(t.value)
		} else if t.kind != numeral || slices.ContainsFunc(unitNames, p.has) {
			return nil, false
		}
		return p.number(text)
	}
	if want, ok := formats[p.format]; ok {
		return t.value, t.kind == want && t.value != ""
	}
	if t.kind == file {
		return p.path(t.value)
	}
	return t.value, t.value != "" && !slices.Contains([]kind{plain, length, date, moment}, t.kind)
}

// path returns the path of a file, with the folder of files that are named without one. A name with an extension is
// no folder.
func (p *param) path(name string) (any, bool) {
	if p.folders && sentence.IsFile(name) {
		return nil, false
	}
	if p.folder != "" && !strings.Contains(name, "/") {
		name = p.folder + "/" + name
	}
	return name, name != ""
}

var unitNames = []string{"seconds", "minutes", "hours", "days", "weeks"}

// inUnit converts seconds to the unit that the parameter names, or returns "" if it names none.
func (p *param) inUnit(seconds string) string {
	i := slices.IndexFunc(unitNames, p.has)
	if i < 0 {
		i = slices.IndexFunc(unitNames, p.mentions)
	}
	if i < 0 {
		return ""
	}
	return strconv.FormatFloat(numberOf(seconds)/unit(unitNames[i]), 'f', -1, 64)
}
