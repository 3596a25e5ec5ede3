package tool

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"steward/internal/search/words"
)

// Finder finds, among many tools, those that a text is most likely about. It is
// immutable and safe for concurrent use.
type Finder struct {
	words  *words.Finder
	source []int          // by tool: its category
	topics [][]words.Term // by category: those of its name
}

// The weights of what a tool says of itself.
const (
	nameWeight      = 2
	describesWeight = 1
	parameterWeight = 0.4
	// What a whole category is about counts for each of its tools, as a share of the
	// text's whole score: "how does my week look" is about a calendar.
	topicWeight = 0.1
)

// NewFinder returns a finder of tools, which are identified by their indexes in
// the list.
func NewFinder(specs []Spec) *Finder {
	docs := make([][]words.Field, len(specs))
	for i, s := range specs {
		docs[i] = []words.Field{
			{Text: s.Name, Weight: nameWeight},
			{Text: s.Description, Weight: describesWeight},
			{Text: parameterWords(s.Input, maxNested), Weight: parameterWeight},
		}
	}
	f := &Finder{words: words.NewFinder(docs), source: make([]int, len(specs))}
	known := map[string]int{}
	for i, s := range specs {
		category, _, _ := strings.Cut(s.Name, ".")
		if _, ok := known[category]; !ok {
			known[category] = len(known)
			f.topics = append(f.topics, slices.DeleteFunc(words.Terms(category), func(t words.Term) bool { return !strings.HasPrefix(t.Stem, "#") }))
		}
		f.source[i] = known[category]
	}
	return f
}

// Find returns the indexes of at most n tools, the likeliest first.
func (f *Finder) Find(text string, n int) []int {
	asked := words.Terms(text[:min(len(text), words.MaxField)])
	scores, whole := f.words.Scores(asked)
	more := make([]float64, len(f.topics)) // for each category
	for i, topics := range f.topics {
		for _, t := range topics {
			if _, ok := slices.BinarySearchFunc(asked, t.Stem, func(a words.Term, stem string) int { return strings.Compare(a.Stem, stem) }); ok {
				more[i] = whole * topicWeight
			}
		}
	}
	var out []int
	for i := range scores {
		if scores[i] += more[f.source[i]]; scores[i] > 0 {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return out[:min(len(out), n)]
}

// maxNested bounds how deep parameters are read.
const maxNested = 3

// parameterWords returns the names and descriptions of a schema's properties, as
// one text.
func parameterWords(schema []byte, depth int) string {
	var s struct {
		Description string                     `json:"description"`
		Properties  map[string]json.RawMessage `json:"properties"`
		Items       json.RawMessage            `json:"items"`
	}
	if depth == 0 || len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(s.Description)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		b.WriteString("\n" + name + "\n" + parameterWords(s.Properties[name], depth-1))
	}
	b.WriteString("\n" + parameterWords(s.Items, depth-1))
	return b.String()
}
