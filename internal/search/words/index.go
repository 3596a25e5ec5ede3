package words

import (
	"cmp"
	"math"
	"slices"
)

// Field is a part of a document: a text, and the weight of its words, from 0 to 1.
type Field struct {
	Text   string
	Weight float64
}

// MaxField bounds how many bytes of a field, or of a request, are read.
const MaxField = 16 << 10

// Index finds documents by their words. It is immutable and safe for concurrent
// use.
type Index struct {
	docs  int
	terms map[string][]posting // by stem
}

type posting struct {
	doc    int
	weight float64 // the highest weight of the fields that contain the stem
}

// NewIndex returns an index of documents, which are identified by their indexes in the
// list.
func NewIndex(docs [][]Field) *Index {
	x := &Index{docs: len(docs), terms: map[string][]posting{}}
	for doc, fields := range docs {
		for _, f := range fields {
			for _, w := range Split(f.Text[:min(len(f.Text), MaxField)]) {
				x.add(doc, Stem(w), f.Weight)
			}
		}
	}
	return x
}

func (x *Index) add(doc int, stem string, weight float64) {
	list := x.terms[stem]
	if n := len(list); n > 0 && list[n-1].doc == doc {
		list[n-1].weight = max(list[n-1].weight, weight)
		return
	}
	x.terms[stem] = append(list, posting{doc, weight})
}

// Weight returns the weight of a stem in a document, or 0.
func (x *Index) Weight(doc int, stem string) float64 {
	list := x.terms[stem]
	if i, ok := slices.BinarySearchFunc(list, doc, func(p posting, d int) int { return cmp.Compare(p.doc, d) }); ok {
		return list[i].weight
	}
	return 0
}

// Rarity returns how rare a stem is: 1 if no document contains it, and less the more
// documents contain it. It is always above 0.
func (x *Index) Rarity(stem string) float64 {
	return math.Log(1+float64(x.docs+1)/float64(len(x.terms[stem])+1)) / math.Log(float64(x.docs+2))
}

// Term is a part of a query, such as a stem, with its weight.
type Term struct {
	Stem   string
	Weight float64
	word   string // that the stem is of, unless it is a common one
}

// Match is a document that shares words with a query.
type Match struct {
	Doc   int
	Score float64 // the fraction of the query that the document matches, from 0 to 1
}

// Rank returns the documents that share a word with the query, most similar first.
// Documents with equal scores keep their order.
func (x *Index) Rank(query []Term) []Match {
	scores := map[int]float64{}
	seen := map[string]bool{}
	total := 0.0
	for _, t := range query {
		if seen[t.Stem] {
			continue
		}
		seen[t.Stem] = true
		worth := x.Rarity(t.Stem) * t.Weight
		total += worth
		for _, p := range x.terms[t.Stem] {
			scores[p.doc] += worth * p.weight
		}
	}
	out := make([]Match, 0, len(scores))
	for doc, s := range scores {
		if s > 0 {
			out = append(out, Match{doc, s / total})
		}
	}
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	return out
}
