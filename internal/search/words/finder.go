package words

import (
	"cmp"
	_ "embed"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Finder finds, among many short descriptions, those that a request is most
// likely to be about. It ranks by BM25 (Robertson and Zaragoza, The Probabilistic
// Relevance Framework, 2009) over weighted fields. Besides stems it compares pairs
// of adjacent words, so that "pull request" is more than "pull" and "request", and
// groups of words that mean nearly the same (concepts.txt), so that "get rid of the
// ticket" finds what deletes an issue. A word of the request that no description
// has counts as the words that are spelled most like it.
//
// A Finder is safe for concurrent use while nothing is added to it. It holds some
// 100 bytes for each word of each description.
type Finder struct {
	terms map[string]*posted
	stems []*posted          // those of the terms that are stems, in the order of their numbers
	grams map[string][]int32 // the numbers of the stems that contain three letters
	total float64            // length of all documents
	long  []float64          // lengths
}

type posted struct {
	term  string
	grams int // how many sequences of three letters it has; 0: it is no stem
	hits  []posting
}

// The weights of what stands beside the stems themselves, and the parameters of
// BM25. They were chosen on questions that no test contains.
const (
	pairWeight    = 0.6
	conceptWeight = 0.9
	topicWeight   = 0.4
	commonWeight  = 0.1
	spelledWeight = 0.6
	saturation    = 1.2
	lengthShare   = 0.4
)

// NewFinder returns a finder of documents, which are identified by their indexes
// in the list.
func NewFinder(docs [][]Field) *Finder {
	f := &Finder{terms: map[string]*posted{}, grams: map[string][]int32{}}
	for _, fields := range docs {
		f.Add(fields)
	}
	return f
}

// Add adds a document. Its index is the number of those before it.
func (f *Finder) Add(fields []Field) {
	weights := map[string]float64{}
	for _, field := range fields {
		for _, t := range Terms(field.Text[:min(len(field.Text), MaxField)]) {
			weights[t.Stem] += t.Weight * field.Weight
		}
	}
	doc, long := len(f.long), 0.0
	for _, term := range slices.Sorted(maps.Keys(weights)) { // so that sums are the same each time
		w, p := weights[term], f.terms[term]
		if p == nil {
			p = f.add(term)
		}
		p.hits = append(p.hits, posting{doc, w})
		long += w
	}
	f.long = append(f.long, long)
	f.total += long
}

// rarity is the inverse document frequency of a term.
func (f *Finder) rarity(p *posted) float64 {
	n := float64(len(p.hits))
	return math.Log(1 + (float64(len(f.long))-n+0.5)/(n+0.5))
}

func (f *Finder) add(term string) *posted {
	grams := trigrams(term)
	p := &posted{term: term, grams: len(grams)}
	f.terms[term] = p
	if p.grams > 0 {
		for _, g := range grams {
			f.grams[g] = append(f.grams[g], int32(len(f.stems)))
		}
		f.stems = append(f.stems, p)
	}
	return p
}

// Scores returns the score of each document for the terms of a request, and the score of one that
// would contain all of them. Scores can be compared within one answer only. A document that shares
// nothing with the request has 0.
func (f *Finder) Scores(asked []Term) (scores []float64, whole float64) {
	scores = make([]float64, len(f.long))
	shared := make([]int32, len(f.stems))
	for _, t := range asked {
		weight := math.Min(t.Weight, 2)
		if p := f.terms[t.Stem]; p != nil {
			whole += weight * f.rarity(p) * (saturation + 1) / 2
			f.score(scores, p, weight)
			continue
		}
		if strings.ContainsAny(t.Stem, " #") {
			continue
		}
		whole += weight * math.Log(1+float64(len(f.long))) * (saturation + 1) / 2
		for _, p := range f.spelledLike(t.Stem, shared) {
			f.score(scores, p, weight*spelledWeight)
		}
	}
	return scores, whole
}

func (f *Finder) score(scores []float64, p *posted, weight float64) {
	rarity, avg := f.rarity(p), f.total/float64(len(f.long))
	for _, h := range p.hits {
		norm := saturation * (1 - lengthShare + lengthShare*f.long[h.doc]/avg)
		scores[h.doc] += weight * rarity * h.weight * (saturation + 1) / (h.weight + norm)
	}
}

// spelledLike returns up to three stems that share most of their letters with one
// that is not there. shared counts what a stem shares, by its number: it is zero before and after.
func (f *Finder) spelledLike(stem string, shared []int32) []*posted {
	mine := trigrams(stem)
	if len(mine) < 4 { // short words resemble too many
		return nil
	}
	var met []int32
	for _, g := range mine {
		for _, s := range f.grams[g] {
			if shared[s]++; shared[s] == 1 {
				met = append(met, s)
			}
		}
	}
	type like struct {
		*posted
		share float64
	}
	var all []like
	for _, s := range met {
		p, n := f.stems[s], int(shared[s])
		shared[s] = 0
		if share := float64(n) / float64(len(mine)+p.grams-n); share >= 0.5 {
			all = append(all, like{p, share})
		}
	}
	slices.SortFunc(all, func(a, b like) int { return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.term, b.term)) })
	var out []*posted
	for _, l := range all[:min(len(all), 3)] {
		out = append(out, l.posted)
	}
	return out
}

// trigrams returns the sequences of three letters of a stem, with its ends, each once. Pairs and
// concepts have none.
func trigrams(stem string) []string {
	if strings.ContainsAny(stem, " #") {
		return nil
	}
	s := "^" + stem + "$"
	out := make([]string, 0, len(s))
	for i := range len(s) - 2 {
		out = append(out, s[i:i+3])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Terms returns what a text is compared by, with weights: stems, pairs of adjacent
// stems ("pull request") and concepts ("#17"), sorted, each once.
func Terms(text string) []Term {
	list := Split(text)
	all := make([]Term, 0, 4*len(list))
	before := ""
	for _, w := range list {
		stem := Stem(w)
		if Common(w) {
			all = append(all, Term{stem, commonWeight})
			before = ""
			continue
		}
		all = append(append(all, Term{stem, 1}), concepts()[stem]...)
		if before != "" {
			all = append(all, Term{before + " " + stem, pairWeight})
		}
		before = stem
	}
	slices.SortFunc(all, func(a, b Term) int {
		if c := strings.Compare(a.Stem, b.Stem); c != 0 {
			return c
		}
		return cmp.Compare(a.Weight, b.Weight) // so that sums are the same each time
	})
	out := all[:0]
	for _, t := range all {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Stem != t.Stem:
			out = append(out, t)
		case strings.HasPrefix(t.Stem, "#"): // several words of one group are one concept
			out[last].Weight = max(out[last].Weight, t.Weight)
		default:
			out[last].Weight += t.Weight
		}
	}
	return out
}

//go:embed concepts.txt
var conceptFile string

// concepts returns the groups of words that a stem belongs to, and their topics, as
// terms with weights.
var concepts = sync.OnceValue(func() map[string][]Term {
	out := map[string][]Term{}
	topic, group := "", 0
	for line := range strings.Lines(conceptFile) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			topic = ""
		case strings.HasPrefix(line, "= "):
			topic = "#" + line[2:]
		default:
			line, topical := strings.CutPrefix(line, "~")
			group++
			for _, w := range Split(line) {
				stem := Stem(w)
				if !topical {
					out[stem] = append(out[stem], Term{"#" + strconv.Itoa(group), conceptWeight})
				}
				if topic != "" {
					out[stem] = append(out[stem], Term{topic, topicWeight})
				}
			}
		}
	}
	return out
})
