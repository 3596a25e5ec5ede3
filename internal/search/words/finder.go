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
// A Finder is immutable and safe for concurrent use. It holds some 100 bytes for
// each word of each description.
type Finder struct {
	docs  int
	terms map[string]*posted
	grams map[string][]string // the stems that contain three letters
	avg   float64             // average length of a document
	long  []float64           // lengths
}

type posted struct {
	idf  float64
	hits []posting
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
	f := &Finder{docs: len(docs), terms: map[string]*posted{}, grams: map[string][]string{}, long: make([]float64, len(docs))}
	for doc, fields := range docs {
		weights := map[string]float64{}
		for _, field := range fields {
			for term, w := range Terms(field.Text[:min(len(field.Text), maxField)]) {
				weights[term] += w * field.Weight
			}
		}
		for _, term := range slices.Sorted(maps.Keys(weights)) { // so that sums are the same each time
			w, p := weights[term], f.terms[term]
			if p == nil {
				p = &posted{}
				f.terms[term] = p
				for g := range trigrams(term) {
					f.grams[g] = append(f.grams[g], term)
				}
			}
			p.hits = append(p.hits, posting{doc, w})
			f.long[doc] += w
		}
		f.avg += f.long[doc] / float64(max(len(docs), 1))
	}
	for _, p := range f.terms {
		n := float64(len(p.hits))
		p.idf = math.Log(1 + (float64(f.docs)-n+0.5)/(n+0.5))
	}
	return f
}

// Find returns at most n documents that a request may be about, the likeliest
// first. Scores can be compared within one answer only. A document that shares
// nothing with the request is not among them.
func (f *Finder) Find(request string, n int) []Match {
	scores, _ := f.Scores(request)
	var out []Match
	for doc, s := range scores {
		if s > 0 {
			out = append(out, Match{doc, s})
		}
	}
	slices.SortFunc(out, func(a, b Match) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc)) })
	return out[:min(len(out), n)]
}

// Scores returns the score of each document, and the score of one that would
// contain all of the request.
func (f *Finder) Scores(request string) (scores []float64, whole float64) {
	scores = make([]float64, f.docs)
	asked := Terms(request[:min(len(request), maxField)])
	for _, term := range slices.Sorted(maps.Keys(asked)) { // so that sums are the same each time
		weight := math.Min(asked[term], 2)
		if p := f.terms[term]; p != nil {
			whole += weight * p.idf * (saturation + 1) / 2
			f.score(scores, p, weight)
			continue
		}
		if !strings.HasPrefix(term, "#") && !strings.Contains(term, " ") {
			whole += weight * math.Log(1+float64(f.docs)) * (saturation + 1) / 2
		}
		for _, other := range f.spelledLike(term) {
			f.score(scores, f.terms[other], weight*spelledWeight)
		}
	}
	return scores, whole
}

func (f *Finder) score(scores []float64, p *posted, weight float64) {
	for _, h := range p.hits {
		norm := saturation * (1 - lengthShare + lengthShare*f.long[h.doc]/f.avg)
		scores[h.doc] += weight * p.idf * h.weight * (saturation + 1) / (h.weight + norm)
	}
}

// spelledLike returns up to three stems that share most of their letters with one
// that is not there.
func (f *Finder) spelledLike(stem string) []string {
	mine := trigrams(stem)
	if len(mine) < 4 { // short words resemble too many
		return nil
	}
	shared := map[string]int{}
	for g := range mine {
		for _, s := range f.grams[g] {
			shared[s]++
		}
	}
	type like struct {
		stem  string
		share float64
	}
	var all []like
	for s, n := range shared {
		if share := float64(n) / float64(len(mine)+len(trigrams(s))-n); share >= 0.5 {
			all = append(all, like{s, share})
		}
	}
	slices.SortFunc(all, func(a, b like) int { return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.stem, b.stem)) })
	var out []string
	for _, l := range all[:min(len(all), 3)] {
		out = append(out, l.stem)
	}
	return out
}

// trigrams returns the sets of three letters of a stem, with its ends. Pairs and
// concepts have none.
func trigrams(stem string) map[string]bool {
	out := map[string]bool{}
	if strings.ContainsAny(stem, " #") {
		return out
	}
	s := "^" + stem + "$"
	for i := range len(s) - 2 {
		out[s[i:i+3]] = true
	}
	return out
}

// Terms returns what a text is compared by, with weights: stems, pairs of adjacent
// stems ("pull request") and concepts ("#17").
func Terms(text string) map[string]float64 {
	out := map[string]float64{}
	before := ""
	for _, w := range Split(text) {
		stem := Stem(w)
		if Common(w) {
			out[stem] += commonWeight
			before = ""
			continue
		}
		out[stem]++
		for c, weight := range concepts()[stem] {
			out[c] = max(out[c], weight)
		}
		if before != "" {
			out[before+" "+stem] += pairWeight
		}
		before = stem
	}
	return out
}

//go:embed concepts.txt
var conceptFile string

// concepts returns the groups of words that a stem belongs to, and their topics, as
// terms with weights.
var concepts = sync.OnceValue(func() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
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
				if out[stem] == nil {
					out[stem] = map[string]float64{}
				}
				if !topical {
					out[stem]["#"+strconv.Itoa(group)] = conceptWeight
				}
				if topic != "" {
					out[stem][topic] = topicWeight
				}
			}
		}
	}
	return out
})
