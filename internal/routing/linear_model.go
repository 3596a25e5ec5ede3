package routing

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"

	"steward/internal/search/meaning"
	"steward/internal/search/words"
)

// sample is a text and the class that it belongs to.
type sample struct {
	text  string
	class int
}

// linear is a softmax regression over the features of a text: what it means as a
// whole, and its words, pairs of them, and their parts. A word of a request counts also
// as the words of samples that are used like it.
type linear struct {
	classes int
	known   map[uint64]int32 // the feature's place
	rarity  []float64
	weights []float32 // by feature, then by class; the meaning of the whole text comes first
	words   meaning.Vocabulary
	stems   []int // the places of the words' stems
}

type feature struct {
	hash  uint64
	value float64
}

// The weights of the kinds of features.
const (
	orderWeight   = 0.8 // of two adjacent words, function words among them
	partWeight    = 0.15
	meaningWeight = 1.0
	unknownShare  = 0.3
	alikeWeight   = 0.4 // of a word that is used like one of the text
)

// features returns those of a text, which has the words of list, sorted, so that sums are
// the same each time.
func features(text string, list []string) []feature {
	var out []feature
	add := func(kind, s string, value float64) { out = append(out, feature{hash(kind, s), value}) }
	for _, t := range words.Terms(text) {
		add("t", t.Stem, t.Weight)
	}
	before := "^"
	for _, w := range list {
		add("o", before+" "+w, orderWeight)
		before = w
		if words.Common(w) {
			add("c", w, orderWeight)
			continue
		}
		padded := []rune("^" + w + "$")
		for n := 3; n <= 5; n++ {
			for i := 0; i+n <= len(padded); i++ {
				add("p", string(padded[i:i+n]), partWeight)
			}
		}
	}
	add("o", before+" $", orderWeight)
	slices.SortFunc(out, func(a, b feature) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.value, b.value)) })
	return out
}

func hash(kind, s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(kind))
	h.Write([]byte(s))
	return h.Sum64()
}

// Training.
const (
	rounds = 6     // fewer if there are many samples:
	steps  = 20000 // in all rounds together, but at least two rounds
	rate   = 0.5
	decay  = 2e-4
	least  = 1e-3 // errors below this teach nothing
)

// train fits a model to samples. worth is how much the samples of each class count
// together.
func train(samples []sample, worth []float64) *linear {
	m := &linear{classes: len(worth), known: map[uint64]int32{}}
	all, lists := make([][]feature, len(samples)), make([][]string, len(samples))
	seen := make([]float64, meaning.Dimensions)
	count := make([]float64, m.classes)
	for i, s := range samples {
		lists[i] = words.Split(s.text)
		all[i] = features(s.text, lists[i])
		count[s.class]++
		var last uint64
		for _, f := range all[i] {
			at, ok := m.known[f.hash]
			if !ok {
				at = int32(len(seen))
				m.known[f.hash], seen = at, append(seen, 0)
			}
			if f.hash != last {
				seen[at]++
			}
			last = f.hash
		}
	}
	total := 0.0
	for _, w := range worth {
		total += w
	}
	for _, n := range seen {
		m.rarity = append(m.rarity, math.Log(1+float64(len(samples))/max(n, 1)))
	}
	m.weights = make([]float32, len(seen)*m.classes)
	sums := make([]float32, len(m.weights)) // of squared gradients
	vectors := make([][]entry, len(samples))
	for i, list := range lists {
		vectors[i], _ = m.vector(all[i], list)
		for _, w := range list {
			if at, ok := m.known[hash("t", words.Stem(w))]; ok && !words.Common(w) && m.words.Add(w) == len(m.stems) {
				m.stems = append(m.stems, int(at))
			}
		}
	}
	type miss struct {
		class int
		by    float32
	}
	var wrong []miss
	p := make([]float64, m.classes)
	next := uint64(1)
	for range min(rounds, max(2, steps/max(1, len(samples)))) {
		for range samples {
			next = next*6364136223846793005 + 1442695040888963407
			i := int((next >> 33) % uint64(len(samples)))
			class := samples[i].class
			share := float64(len(samples)) * worth[class] / total / count[class]
			m.sum(vectors[i], p)
			softmax(p)
			p[class]--
			wrong = wrong[:0]
			for c, g := range p {
				if math.Abs(g) > least {
					wrong = append(wrong, miss{c, float32(g * share)})
				}
			}
			for _, e := range vectors[i] {
				weights, sums := m.weights[e.at*m.classes:][:m.classes], sums[e.at*m.classes:][:m.classes]
				for _, w := range wrong {
					g := w.by*e.value + decay*weights[w.class]
					sums[w.class] += g * g
					weights[w.class] -= rate * g / float32(math.Sqrt(float64(sums[w.class]+1e-3)))
				}
			}
		}
	}
	return m
}

type entry struct {
	at    int
	value float32
}

// vector returns what a text means as a whole, and its known features, of length 1
// together; length is what they were divided by.
func (m *linear) vector(fs []feature, list []string) (out []entry, length float64) {
	out = make([]entry, meaning.Dimensions, meaning.Dimensions+len(fs))
	square := 0.0
	for _, f := range fs {
		if at, ok := m.known[f.hash]; ok {
			v := f.value * m.rarity[at]
			square += v * v
			if n := len(out); out[n-1].at == int(at) {
				continue // said twice is not more
			}
			out = append(out, entry{int(at), float32(v)})
		} else {
			v := f.value * math.Log(1+float64(len(m.rarity))) / 2 // unknown words make a text less certain
			square += v * v * unknownShare
		}
	}
	length = math.Sqrt(square + 1e-9)
	for i := range out {
		out[i].value /= float32(length)
	}
	var about meaning.Sum
	for _, w := range list {
		about.Add(w, 1)
	}
	about.Unit()
	for i, x := range about {
		out[i] = entry{i, meaningWeight * x}
	}
	return out, length
}

const (
	minAlike = 0.35 // similarity that counts
	maxAlike = 5    // words of samples that a word is compared with, itself among them
	same     = 0.99 // similarity of a word and itself
	maxAsked = 64   // words of a text that are compared
)

// alike returns the stems of words of samples that are used like those of a text.
func (m *linear) alike(list []string) []entry {
	var out []entry
	asked := 0
	for _, w := range list {
		if words.Common(w) || asked == maxAsked {
			continue
		}
		near, known := m.words.Near(w, minAlike, maxAlike)
		if known {
			asked++
		}
		for _, n := range near {
			if at := m.stems[n.Number]; n.Alike < same {
				out = append(out, entry{at, alikeWeight * n.Alike * float32(m.rarity[at])})
			}
		}
	}
	return out
}

func (m *linear) sum(v []entry, into []float64) {
	clear(into)
	for _, e := range v {
		weights := m.weights[e.at*m.classes:][:len(into)]
		for c, w := range weights {
			into[c] += float64(e.value * w)
		}
	}
}

// scores returns a score for each class.
func (m *linear) scores(text string) []float64 {
	out := make([]float64, m.classes)
	list := words.Split(text)
	v, length := m.vector(features(text, list), list)
	for _, e := range m.alike(list) {
		v = append(v, entry{e.at, e.value / float32(length)})
	}
	m.sum(v, out)
	return out
}
