package words

import (
	_ "embed"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"steward/internal/search/meaning"
)

// Finder finds, among many short descriptions, those that a request is most
// likely to be about. It ranks by BM25 (Robertson and Zaragoza, The Probabilistic
// Relevance Framework, 2009) over weighted fields. Besides stems it compares pairs
// of adjacent words, so that "pull request" is more than "pull" and "request", and
// groups of words that stand for the same thing (concepts.txt), so that "get rid of the
// ticket" finds what deletes an issue. A word of the request counts also as those that
// are used like it (package meaning). In addition request and description are compared as a whole, and
// the request with all documents of a group: "my week" is about a calendar.
//
// A Finder is safe for concurrent use while nothing is added to it. It holds some 100
// bytes for each word of each description, 400 for each description and each different
// word, and at most 1,000 for each of maxKnown words that were asked for.
type Finder struct {
	docs   []document
	groups []meaning.Sum
	named  map[string]int // the groups' numbers
	terms  map[string]*posted
	words  meaning.Vocabulary
	alike  []*posted // the stems of the words of the vocabulary
	total  float64   // length of all documents

	mu    sync.Mutex
	known map[string]*known // by word of a request; nil after Add
	fixed *fixed            // likewise
}

// known is what is known of a word of a request.
type known struct {
	likes []like // nil: the word has no vector
	sum   meaning.Sum
}

// like is a stem that a word of a request counts as, and how much.
type like struct {
	*posted
	share float64
}

// maxKnown bounds of how many words Finder.known is kept. People use the same ones.
const maxKnown = 4096

type document struct {
	length float64
	about  meaning.Sum
	group  int // -1: none
}

// Document is what a Finder finds.
type Document struct {
	Fields []Field
	Group  string // of documents with something in common; empty: of none
}

// posted are the documents that have a term.
type posted struct{ hits []posting }

// The weights of what stands beside the stems themselves, and the parameters of
// BM25. They were chosen on questions that no test contains.
const (
	pairWeight    = 0.6
	conceptWeight = 0.9
	commonWeight  = 0.1
	aboutWeight   = 0.9 // of the weight of a word that only one document has
	groupWeight   = 2.3
	saturation    = 1.2
	lengthShare   = 0.4

	minAlike = 0.3 // similarity of words that count
	maxAlike = 40  // words that one counts as
	maxAsked = 64  // words of a request that are compared with all others
)

// NewFinder returns a finder of documents, which are identified by their indexes
// in the list.
func NewFinder(docs []Document) *Finder {
	f := &Finder{named: map[string]int{}, terms: map[string]*posted{}}
	for _, d := range docs {
		f.Add(d)
	}
	return f
}

// Add adds a document. Its index is the number of those before it.
func (f *Finder) Add(d Document) {
	doc := document{group: -1}
	weights := map[string]float64{}
	var known []string
	for _, field := range d.Fields {
		text := field.Text[:min(len(field.Text), MaxField)]
		for _, t := range terms(text, true) {
			weights[t.Stem] += t.Weight * field.Weight
		}
		for _, w := range Split(text) {
			if !Common(w) {
				doc.about.Add(w, field.Weight)
				known = append(known, w)
			}
		}
	}
	for _, term := range slices.Sorted(maps.Keys(weights)) { // so that sums are the same each time
		w, p := weights[term], f.terms[term]
		if p == nil {
			p = &posted{}
			f.terms[term] = p
		}
		p.hits = append(p.hits, posting{len(f.docs), w})
		doc.length += w
	}
	for _, w := range known {
		if n := f.words.Add(w); n == len(f.alike) {
			f.alike = append(f.alike, f.terms[Stem(w)])
		}
	}
	doc.about.Unit()
	if d.Group != "" {
		g, ok := f.named[d.Group]
		if !ok {
			g = len(f.groups)
			f.named[d.Group], f.groups = g, append(f.groups, meaning.Sum{})
		}
		doc.group = g
		for k, x := range doc.about {
			f.groups[g][k] += x
		}
	}
	f.docs = append(f.docs, doc)
	f.total += doc.length
	f.known, f.fixed = nil, nil
}

// fixed is what all requests are compared with as long as nothing is added.
type fixed struct {
	rarities []float64     // inverse document frequencies, by how many documents have a term
	groups   []meaning.Sum // of length 1
}

func (f *Finder) fix() *fixed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fixed == nil {
		f.fixed = &fixed{make([]float64, len(f.docs)+1), slices.Clone(f.groups)}
		for n := range f.fixed.rarities {
			f.fixed.rarities[n] = math.Log(1 + (float64(len(f.docs)-n)+0.5)/(float64(n)+0.5))
		}
		for i := range f.fixed.groups {
			f.fixed.groups[i].Unit()
		}
	}
	return f.fixed
}

// know returns what is known of a word.
func (f *Finder) know(word string) *known {
	f.mu.Lock()
	k := f.known[word]
	f.mu.Unlock()
	if k != nil {
		return k
	}
	k = &known{}
	k.sum.Add(word, 1)
	if near, ok := f.words.Near(word, minAlike, maxAlike); ok {
		k.likes = []like{}
		for _, n := range near {
			k.likes = append(k.likes, like{f.alike[n.Number], float64(n.Alike * n.Alike)})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) == maxKnown {
		f.known = map[string]*known{}
	}
	f.known[word] = k
	return k
}

// Scores returns the score of each document for a request, and the score of one that would contain
// all of it. Scores can be compared within one answer only.
func (f *Finder) Scores(request string) (scores []float64, whole float64) {
	request = request[:min(len(request), MaxField)]
	scores = make([]float64, len(f.docs))
	worth := make([]float64, len(f.docs)) // what a term is worth
	fixed, rarest, asked := f.fix(), math.Log(1+float64(len(f.docs))), 0
	var about meaning.Sum
	for _, t := range terms(request, true) {
		weight := math.Min(t.Weight, 2)
		if p := f.terms[t.Stem]; p != nil {
			rarity := fixed.rarities[len(p.hits)]
			whole += weight * rarity * (saturation + 1) / 2
			f.score(worth, p, weight*rarity)
		} else if t.word != "" {
			whole += weight * rarest * (saturation + 1) / 2
		}
		if t.word != "" && asked == maxAsked {
			about.Add(t.word, 1)
		} else if t.word != "" {
			k := f.know(t.word)
			if k.likes != nil {
				asked++
			}
			for _, l := range k.likes {
				f.score(worth, l.posted, weight*l.share*fixed.rarities[len(l.hits)])
			}
			about.Plus(&k.sum)
		}
		for i, s := range worth {
			scores[i] += s
		}
		clear(worth)
	}
	about.Unit()
	groups := make([]float64, len(f.groups))
	for i := range groups {
		groups[i] = rarest * groupWeight * max(0, float64(about.Dot(&fixed.groups[i])))
	}
	for i, d := range f.docs {
		scores[i] += rarest * aboutWeight * max(0, float64(about.Dot(&d.about)))
		if d.group >= 0 {
			scores[i] += groups[d.group]
		}
	}
	return scores, whole + rarest*aboutWeight
}

// score raises the worth of a term for documents.
func (f *Finder) score(worth []float64, p *posted, weight float64) {
	average := f.total / float64(len(f.docs))
	for _, h := range p.hits {
		norm := saturation * (1 - lengthShare + lengthShare*f.docs[h.doc].length/average)
		worth[h.doc] = max(worth[h.doc], weight*h.weight*(saturation+1)/(h.weight+norm))
	}
}

// Terms returns what a text is compared by, with weights: stems and pairs of adjacent
// stems ("pull request"), sorted, each once.
func Terms(text string) []Term { return terms(text, false) }

// terms returns those of a text, and concepts ("# 17") if they are wanted.
func terms(text string, wanted bool) []Term {
	list := Split(text)
	all := make([]Term, 0, 4*len(list))
	before := ""
	for _, w := range list {
		stem := Stem(w)
		if Common(w) {
			all = append(all, Term{Stem: stem, Weight: commonWeight})
			before = ""
			continue
		}
		all = append(all, Term{stem, 1, w})
		if wanted {
			all = append(all, concepts()[stem]...)
		}
		if before != "" {
			all = append(all, Term{Stem: before + " " + stem, Weight: pairWeight})
		}
		before = stem
	}
	slices.SortStableFunc(all, func(a, b Term) int { return strings.Compare(a.Stem, b.Stem) })
	out := all[:0]
	for _, t := range all {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Stem != t.Stem:
			out = append(out, t)
		case !strings.HasPrefix(t.Stem, "#"): // several words of one group are one concept
			out[last].Weight += t.Weight
		}
	}
	return out
}

//go:embed concepts.txt
var conceptFile string

// concepts returns the groups of words that a stem belongs to, as terms.
var concepts = sync.OnceValue(func() map[string][]Term {
	out := map[string][]Term{}
	group := 0
	for line := range strings.Lines(conceptFile) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		group++
		for _, w := range Split(line) {
			stem := Stem(w)
			out[stem] = append(out[stem], Term{Stem: "# " + strconv.Itoa(group), Weight: conceptWeight})
		}
	}
	return out
})
