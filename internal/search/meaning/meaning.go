// Package meaning knows which English words are used alike: "umbrella" and "rain",
// "delete" and "remove". Each of some 54,000 words has a vector; the angle between
// two vectors says how similar the words are. README.md says where the vectors come
// from. They know nothing of the order of words, of negation, or of several senses of
// one word.
//
// Words are looked up in the embedded file itself, so nothing is loaded.
package meaning

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strings"
)

// Dimensions is how many numbers a vector has.
const Dimensions = 80

// A record of the file is a word, padded with zeros, its place in the order of
// frequency, and its vector, four bits a number. Records are sorted by word.
const (
	letters = 14
	record  = letters + 2 + Dimensions/2
)

//go:generate ../../../scripts/vectors
//go:embed vectors.bin
var file string

// find returns the record of a word in lower case, or "".
func find(word string) string {
	if len(word) > letters {
		return ""
	}
	low, high := 0, len(file)/record
	for low < high {
		mid := (low + high) / 2
		r := file[mid*record : (mid+1)*record]
		switch c := strings.Compare(strings.TrimRight(r[:letters], "\x00"), word); {
		case c == 0:
			return r
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return ""
}

// rank returns how many words are more frequent.
func rank(r string) float64 { return float64(r[letters]) + 256*float64(r[letters+1]) }

// Sum is what the words of a text mean together.
type Sum [Dimensions]float32

// Add adds a word in lower case with a weight. Words that are used everywhere count
// less (Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline for Sentence
// Embeddings, 2017). Unknown words count nothing.
func (s *Sum) Add(word string, weight float64) {
	r := find(word)
	if r == "" {
		return
	}
	weight /= 1 + 1/(1e-3*12*(rank(r)+3)) // by Zipf's law, a word is one of 12·rank
	v := vector(r)
	for i := range s {
		s[i] += float32(weight) * v[i]
	}
}

// Unit gives a sum the length 1, unless it is zero.
func (s *Sum) Unit() {
	var square float64
	for _, x := range s {
		square += float64(x) * float64(x)
	}
	length := float32(math.Sqrt(square) + 1e-9)
	for i := range s {
		s[i] /= length
	}
}

// Plus adds another sum.
func (s *Sum) Plus(o *Sum) {
	for i := range s {
		s[i] += o[i]
	}
}

// Dot returns the similarity of two sums of length 1, from -1 to 1.
func (s *Sum) Dot(o *Sum) float32 {
	var a, b, c, d float32
	for i := 0; i < Dimensions; i += 4 {
		a += s[i] * o[i]
		b += s[i+1] * o[i+1]
		c += s[i+2] * o[i+2]
		d += s[i+3] * o[i+3]
	}
	return a + b + c + d
}

// Vocabulary is a list of words with which others are compared. The zero value is
// empty. It may be used at the same time by all who do not add to it.
type Vocabulary struct {
	vectors []Sum
	numbers map[string]int
}

// Add returns the number of a word in lower case, from 0 on, or -1 if the word is
// unknown.
func (v *Vocabulary) Add(word string) int {
	if n, ok := v.numbers[word]; ok {
		return n
	}
	if v.numbers == nil {
		v.numbers = map[string]int{}
	}
	n, r := -1, find(word)
	if r != "" {
		n = len(v.vectors)
		v.vectors = append(v.vectors, vector(r))
	}
	v.numbers[word] = n
	return n
}

// Near is a word of a vocabulary, and how similar it is to another one.
type Near struct {
	Number int
	Alike  float32 // from -1 to 1
}

// Near returns the words that are most similar to another one: at most so many, and none
// less similar than least. known is false if nothing is known of that word.
func (v *Vocabulary) Near(word string, least float32, most int) (near []Near, known bool) {
	r := find(word)
	if r == "" {
		return nil, false
	}
	w := vector(r)
	for n := range v.vectors {
		if alike := v.vectors[n].Dot(&w); alike >= least {
			near = append(near, Near{n, alike})
		}
	}
	slices.SortStableFunc(near, func(a, b Near) int { return cmp.Compare(b.Alike, a.Alike) })
	return near[:min(len(near), most)], true
}

// vector returns the one of a record, with the length 1. A number has four bits.
func vector(r string) Sum {
	var s Sum
	for i := range Dimensions / 2 {
		pair := r[letters+2+i]
		s[2*i], s[2*i+1] = float32(pair&15)-7.5, float32(pair>>4)-7.5
	}
	s.Unit()
	return s
}
