package tool

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"steward/internal/resource"
	"steward/internal/search/words"
)

// Finder finds, among many tools, those that a text is most likely about. It is
// immutable and safe for concurrent use.
type Finder struct{ words *words.Finder }

// Compiled returns what the tool says of itself as one text: its name, and its purpose, applicability,
// instructions and evaluation. Without a purpose of its own, its description is the purpose.
func (s *Spec) Compiled() string {
	m := s.Metadata
	m.Purpose = cmp.Or(m.Purpose, s.Description)
	return s.Name + "\n" + m.Description()
}

// The weights of what a tool says of itself.
const (
	nameWeight      = 2
	describesWeight = 1
	parameterWeight = 0.6
)

// NewFinder returns a finder of tools, which are identified by their indexes in
// the list.
func NewFinder(specs []Spec) *Finder {
	docs := make([]words.Document, len(specs))
	for i, s := range specs {
		docs[i].Group, _, _ = strings.Cut(s.Name, ".")
		docs[i].Fields = []words.Field{
			{Text: s.Name, Weight: nameWeight},
			{Text: s.Description, Weight: describesWeight},
			{Text: parameterWords(s.Input, maxNested), Weight: parameterWeight},
		}
		if more := s.Metadata; more != (resource.Metadata{}) {
			docs[i].Fields = append(docs[i].Fields, words.Field{Text: more.Description(), Weight: parameterWeight})
		}
	}
	return &Finder{words.NewFinder(docs)}
}

// Scores returns how similar each tool is to a text. A tool that is about all of it has
// about 1, so that the scores for several texts can be added.
func (f *Finder) Scores(text string) []float64 {
	scores, whole := f.words.Scores(text)
	for i := range scores {
		scores[i] /= whole
	}
	return scores
}

// Find returns the indexes of at most n tools, the likeliest first.
func (f *Finder) Find(text string, n int) []int { return TopScores(f.Scores(text), n) }

// TopScores returns the indexes of at most n scores above zero, the highest first.
func TopScores(scores []float64, n int) []int {
	var out []int
	for i, s := range scores {
		if s > 0 {
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
