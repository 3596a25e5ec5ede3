package offline

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"steward/internal/llm"
	"steward/internal/tool"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// entry is one tool of an index.
type entry struct {
	spec      tool.Spec
	wire      string
	title     string // "lamp set brightness"
	params    []*param
	nameWord  []string        // stems of the name, without repetition
	vocab     map[string]bool // stems of name and parameter names
	nameWords map[string]bool
	known     map[string]bool // stems of the description
	schema    *jsonschema.Schema
	resolved  func() *jsonschema.Resolved // nil if the schema does not hold
	ask       *delegate                   // of a tool that asks an agent
}

// index is a toolset made ready for comparing.
type index struct {
	tools    []*entry
	byName   map[string]*entry
	postings map[string][]posting
	begins   map[string][]string // first letters → stems
	verbs    map[string]bool     // stems that open wishes, from the tools' names and descriptions
	deeds    map[int32]bool      // the concepts of the names' words
	names    map[string]bool     // stems of the names' words
	tokens   int64               // what the tools cost as input

	delegates bool // there are tools that ask agents
}

type posting struct {
	tool   int32
	weight float32
}

const weightKin = 0.3

const beginning = 2 // letters by which stems are grouped

func newIndex(specs []tool.Spec) *index {
	x := &index{byName: map[string]*entry{}, postings: map[string][]posting{}, begins: map[string][]string{}, verbs: map[string]bool{}, deeds: map[int32]bool{}, names: map[string]bool{}}
	for _, s := range specs {
		x.tokens += tokensOf(len(s.Name) + len(s.Description) + len(s.Input))
		e := newEntry(s)
		if e == nil {
			continue
		}
		x.byName[s.Name], x.byName[e.wire] = e, e
		x.tools = append(x.tools, e)
		x.post(int32(len(x.tools)-1), e)
	}
	x.kinship()
	for s := range x.postings {
		if len(s) >= beginning && s[0] != '~' {
			x.begins[s[:beginning]] = append(x.begins[s[:beginning]], s)
		}
	}
	for _, list := range x.begins {
		slices.Sort(list)
	}
	return x
}

// kinship lets the tools of a category share, lightly, the words of their
// names and first sentences: a calendar tool is meant by "events" even where
// only its sister says so. Where nearly all tools are of one category that
// would say nothing, and hide what tells them apart.
func (x *index) kinship() {
	family := map[string][]int32{}
	for i, e := range x.tools {
		category, _, ok := strings.Cut(e.spec.Name, ".")
		if ok {
			family[category] = append(family[category], int32(i))
		}
	}
	maps.DeleteFunc(family, func(_ string, list []int32) bool { return 4*len(list) >= 3*len(x.tools) })
	for s, list := range x.postings {
		if s[0] == '~' || weak[s] {
			continue
		}
		has := map[int32]bool{}
		shared := map[string]bool{}
		for _, p := range list {
			has[p.tool] = true
			if p.weight >= 0.75 {
				category, _, _ := strings.Cut(x.tools[p.tool].spec.Name, ".")
				shared[category] = true
			}
		}
		for category := range shared {
			for _, n := range family[category] {
				if !has[n] {
					list = append(list, posting{n, weightKin})
				}
			}
		}
		x.postings[s] = list
	}
}

// newEntry returns nil for a tool whose schema is none: it cannot be called.
func newEntry(s tool.Spec) *entry {
	e := &entry{spec: s, wire: tool.WireName(s.Name), schema: &jsonschema.Schema{}, vocab: map[string]bool{}, nameWords: map[string]bool{}}
	input := s.Input
	if len(input) == 0 {
		input = []byte(`{"type":"object"}`)
	}
	if json.Unmarshal(input, e.schema) != nil {
		return nil
	}
	e.resolved = sync.OnceValue(func() *jsonschema.Resolved {
		r, err := e.schema.Resolve(nil)
		if err != nil {
			return nil
		}
		return r
	})
	e.params = flatten(e.schema, input)
	for _, w := range splitName(s.Name) {
		if st := stem(w); !e.nameWords[st] && (!stopwords[w] || particles[w]) {
			e.nameWords[st] = true
			e.nameWord = append(e.nameWord, st)
			e.vocab[st] = true
		}
	}
	e.title = strings.Join(splitName(s.Name[strings.IndexByte(s.Name, '.')+1:]), " ")
	for _, p := range e.params {
		for _, w := range p.nameWord {
			e.vocab[w] = true
		}
	}
	if e.ask = newDelegate(s, e.params); e.ask != nil {
		delete(e.nameWords, "ask")
		e.nameWord = slices.DeleteFunc(e.nameWord, func(w string) bool { return w == "ask" })
	}
	e.known = map[string]bool{}
	for _, w := range wordStems(s.Description) {
		e.known[w] = true
	}
	for _, p := range e.params {
		for _, w := range wordStems(p.hint) {
			e.known[w] = true
		}
	}
	return e
}

// isVerb reports whether a word that opens a wish may be what is to be done:
// it stands in a tool's name, or for a word that does.
func (x *index) isVerb(s string) bool {
	if x.verbs[s] || x.names[s] {
		return true
	}
	for _, c := range concepts[s] {
		if x.deeds[c] {
			return true
		}
	}
	return false
}

// post enters a tool's words.
func (x *index) post(n int32, e *entry) {
	weights := map[string]float32{}
	put := func(s string, w float32) {
		if weights[s] < w {
			weights[s] = w
		}
	}
	if e.ask != nil {
		x.delegates = true
		e.posts(put)
		for _, w := range e.does() {
			x.verbs[w] = true
		}
		for _, w := range e.nameWord {
			x.names[w] = true
		}
		x.enter(n, weights)
		return
	}
	for _, w := range e.nameWord {
		put(w, 1)
	}
	action := splitName(e.spec.Name[strings.IndexByte(e.spec.Name, '.')+1:])
	if len(action) > 0 {
		x.verbs[stem(action[0])] = true
	}
	for _, w := range e.nameWord {
		x.names[w] = true
		for _, c := range concepts[w] {
			x.deeds[c] = true
		}
	}
	first, rest, _ := strings.Cut(e.spec.Description, ". ")
	firstStems := wordStems(first)
	if len(firstStems) > 0 {
		x.verbs[firstStems[0]] = true
	}
	for _, w := range firstStems {
		put(w, 0.75)
	}
	for _, w := range wordStems(rest) {
		put(w, 0.5)
	}
	for _, p := range e.params {
		for _, w := range p.nameWord {
			put(w, 0.6)
		}
		for _, w := range wordStems(p.hint) {
			put(w, 0.35)
		}
		for _, c := range p.enumAll() {
			for _, w := range c.words {
				put(w, 0.75)
			}
		}
	}
	x.enter(n, weights)
}

// enter adds a tool's words, and lightly the others of their groups.
func (x *index) enter(n int32, weights map[string]float32) {
	for _, s := range sortedKeys(weights) {
		w := weights[s]
		x.postings[s] = append(x.postings[s], posting{n, w})
		if w < 0.5 {
			continue
		}
		for _, c := range concepts[s] {
			key := conceptKey(c)
			if l := x.postings[key]; len(l) > 0 && l[len(l)-1].tool == n {
				l[len(l)-1].weight = max(l[len(l)-1].weight, w)
				continue
			}
			x.postings[key] = append(x.postings[key], posting{n, w})
		}
	}
}

func conceptKey(c int32) string { return "~" + strconv.Itoa(int(c)) }

func (p *param) enumAll() []choice {
	if p.item != nil {
		return p.item.enum
	}
	return p.enum
}

// rarity is how much a word tells within this toolset, in (0, 1].
func (x *index) rarity(df int) float64 {
	n := float64(len(x.tools))
	return 0.2 + 0.8*math.Log((n+1)/(float64(df)+0.5))/math.Log((n+1)/0.5)
}

// variants are the indexed keys that a word may stand for, with how sure that is.
type variant struct {
	key  string
	sure float64
}

func (x *index) variants(s string) []variant {
	var out []variant
	if _, ok := x.postings[s]; ok {
		out = append(out, variant{s, 1})
	}
	if len(s) >= beginning {
		for _, t := range x.begins[s[:beginning]] {
			if t != s {
				if a := akin(s, t); a > 0 {
					out = append(out, variant{t, a})
				}
			}
		}
	}
	for _, c := range concepts[s] {
		if _, ok := x.postings[conceptKey(c)]; ok {
			out = append(out, variant{conceptKey(c), 0.65})
		}
	}
	for _, t := range implied[s] {
		if _, ok := x.postings[t]; ok {
			out = append(out, variant{t, 0.6})
		}
	}
	return out
}

// akin compares two different stems: a long common beginning, or one letter
// that differs.
func akin(a, b string) float64 {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	short, long := min(len(a), len(b)), max(len(a), len(b))
	switch {
	case n >= 5 && n*10 >= long*6:
		return 0.8
	case n == short && n >= 4 && long <= n+3:
		return 0.7
	case n == short && n >= 5:
		return 0.65
	case short >= 5 && long-short <= 1 && oneEdit(a, b):
		return 0.75
	}
	return 0
}

// oneEdit reports whether one letter inserted, dropped, changed or swapped
// with the next makes a into b.
func oneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	}
	return a[i:] == b[i+1:]
}

// match is how well a tool answers the words of a wish.
type match struct {
	tool  *entry
	hits  []hit // by query word
	score float64
}

// hit is how a query word was found in a tool.
type hit struct {
	weight float64 // field and sureness; 0: not at all
	tells  float64 // weight times the word's rarity
}

// rank returns the tools that share words with the wish, best first, at most
// limit of them.
func (x *index) rank(words []queryWord, limit int) []match {
	found := map[int32][]hit{}
	for i, q := range words {
		for _, v := range x.variants(q.stem) {
			list := x.postings[v.key]
			rare := x.rarity(len(list))
			for _, p := range list {
				hits := found[p.tool]
				if hits == nil {
					hits = make([]hit, len(words))
					found[p.tool] = hits
				}
				if w := v.sure * float64(p.weight); w*rare > hits[i].tells {
					hits[i] = hit{w, w * rare}
				}
			}
		}
	}
	out := make([]match, 0, len(found))
	for n, hits := range found {
		m := match{tool: x.tools[n], hits: hits}
		for i, h := range hits {
			m.score += words[i].weight * h.tells
		}
		m.score += 0.25 * x.nameShare(m.tool, words)
		m.score -= clash(m.tool, words)
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b match) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.tool.spec.Name, b.tool.spec.Name)
	})
	return out[:min(len(out), limit)]
}

// nameShare is the part of a tool's name that the wish says.
func (x *index) nameShare(e *entry, words []queryWord) float64 {
	said, all := 0.0, 0.0
	for _, w := range e.nameWord {
		rare := x.rarity(len(x.postings[w]))
		all += rare
		best := 0.0
		for _, q := range words {
			best = max(best, same(q.stem, w))
		}
		said += best * rare
	}
	if all == 0 {
		return 0
	}
	return said / all
}

// same compares two stems: equal, akin, or of one concept.
func same(a, b string) float64 {
	if a == b {
		return 1
	}
	if len(a) >= beginning && len(b) >= beginning && a[:beginning] == b[:beginning] {
		if s := akin(a, b); s > 0 {
			return s
		}
	}
	for _, c := range concepts[a] {
		if slices.Contains(concepts[b], c) {
			return 0.65
		}
	}
	return 0
}

// clash is how much of the wish the tool's name contradicts.
func clash(e *entry, words []queryWord) float64 {
	sum := 0.0
	for _, q := range words {
		if e.nameWords[q.stem] {
			continue
		}
		for _, o := range opposites[q.stem] {
			if e.nameWords[o] {
				sum += 0.6 * q.weight
				break
			}
		}
	}
	return sum
}

// indexes keeps the indexes of the toolsets used last.
type indexes struct {
	mu   sync.Mutex
	keys []*llm.Toolset // oldest first
	made map[*llm.Toolset]func() *index
}

const keptIndexes = 32

// of returns the index of a toolset, made once as long as it is in use. A nil
// toolset has an empty one.
func (c *indexes) of(ts *llm.Toolset) *index { return c.entry(ts)() }

func (c *indexes) entry(ts *llm.Toolset) func() *index {
	c.mu.Lock()
	defer c.mu.Unlock()
	if make := c.made[ts]; make != nil {
		if i := slices.Index(c.keys, ts); i < len(c.keys)-1 {
			c.keys = append(slices.Delete(c.keys, i, i+1), ts)
		}
		return make
	}
	if c.made == nil {
		c.made = map[*llm.Toolset]func() *index{}
	}
	c.made[ts] = sync.OnceValue(func() *index { return newIndex(ts.Specs()) })
	c.keys = append(c.keys, ts)
	if len(c.keys) > keptIndexes {
		delete(c.made, c.keys[0])
		c.keys = slices.Delete(c.keys, 0, 1)
	}
	return c.made[ts]
}
