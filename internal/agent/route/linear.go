package route

import (
	"cmp"
	_ "embed"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"steward/internal/search/words"
)

//go:embed background.txt
var background string

// sample is a text and the candidate that it is for.
type sample struct {
	text      string
	candidate int
}

// linear is a softmax regression over the features of a text.
type linear struct {
	classes int
	known   map[uint64]int32 // the feature's place
	rarity  []float64
	weights []float64 // by feature, then by class
}

type feature struct {
	hash  uint64
	value float64
}

// The weights of the kinds of features.
const (
	orderWeight = 0.4 // of two adjacent words, function words among them
	partWeight  = 0.1
	// of groups of words and their topics, beside what the Finder gives them
	meaningWeight = 1.2
)

// features returns those of a text, sorted, so that sums are the same each time.
func features(text string) []feature {
	var out []feature
	add := func(kind, s string, value float64) {
		h := fnv.New64a()
		h.Write([]byte(kind))
		h.Write([]byte(s))
		out = append(out, feature{h.Sum64(), value})
	}
	for _, t := range words.Terms(text) {
		if strings.HasPrefix(t.Stem, "#") {
			t.Weight *= meaningWeight
		}
		add("t", t.Stem, t.Weight)
	}
	before := "^"
	for _, w := range words.Split(text) {
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

// Training.
const (
	rounds = 6
	rate   = 0.5
	decay  = 2e-4
)

// train fits a model to samples. Each class counts the same, however many samples it
// has.
func train(samples []sample, classes int) *linear {
	m := &linear{classes: classes, known: map[uint64]int32{}}
	all := make([][]feature, len(samples))
	var seen []float64
	count := make([]float64, classes)
	for i, s := range samples {
		all[i] = features(s.text)
		count[s.candidate]++
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
	for _, n := range seen {
		m.rarity = append(m.rarity, math.Log(1+float64(len(samples))/n))
	}
	m.weights = make([]float64, len(seen)*classes)
	sums := make([]float64, len(m.weights)) // of squared gradients
	vectors := make([][]entry, len(samples))
	for i := range samples {
		vectors[i] = m.vector(all[i])
	}
	p := make([]float64, classes)
	next := uint64(1)
	for range rounds {
		for range samples {
			next = next*6364136223846793005 + 1442695040888963407
			i := int((next >> 33) % uint64(len(samples)))
			share := float64(len(samples)) / float64(classes) / count[samples[i].candidate]
			m.sum(vectors[i], p)
			softmax(p)
			p[samples[i].candidate]--
			for _, e := range vectors[i] {
				for c, g := range p {
					k := e.at*classes + c
					g = g*e.value*share + decay*m.weights[k]
					sums[k] += g * g
					m.weights[k] -= rate * g / math.Sqrt(sums[k]+1e-3)
				}
			}
		}
	}
	return m
}

type entry struct {
	at    int
	value float64
}

// vector returns the known features of a text, of length 1 together.
func (m *linear) vector(fs []feature) []entry {
	var out []entry
	length := 0.0
	for _, f := range fs {
		if at, ok := m.known[f.hash]; ok {
			v := f.value * m.rarity[at]
			length += v * v
			if n := len(out); n > 0 && out[n-1].at == int(at) {
				continue // said twice is not more
			}
			out = append(out, entry{int(at), v})
		} else {
			v := f.value * math.Log(1+float64(len(m.rarity))) / 2 // unknown words make a text less certain
			length += v * v * unknownShare
		}
	}
	for i := range out {
		out[i].value /= math.Sqrt(length + 1e-9)
	}
	return out
}

const unknownShare = 0.3

func (m *linear) sum(v []entry, into []float64) {
	clear(into)
	for _, e := range v {
		for c := range into {
			into[c] += e.value * m.weights[e.at*m.classes+c]
		}
	}
}

// scores returns a score for each class.
func (m *linear) scores(text string) []float64 {
	out := make([]float64, m.classes)
	m.sum(m.vector(features(text)), out)
	return out
}
