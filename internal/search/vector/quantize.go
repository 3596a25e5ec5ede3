package vector

import (
	"math"
	"math/bits"
)

// quantised is a vector as it is stored: a sign for each dimension, packed into words,
// and an 8-bit number for each dimension with a common scale.
type quantised struct {
	code  []uint64
	scale float32
	num   []int8
}

// wordsOf returns the number of 64-bit words of a code.
func wordsOf(dims int) int { return (dims + 63) / 64 }

// quantise gives a vector the length 1, turns it, and rounds it. The turn (signs, then a
// Walsh-Hadamard transform) keeps all angles, and spreads what a sparse or lopsided vector
// says over all dimensions, so that each sign carries about as much as any other.
func quantise(v []float32) quantised {
	x := turned(v)
	q := quantised{code: make([]uint64, wordsOf(len(x))), num: make([]int8, len(x))}
	var most float32
	for i, f := range x {
		most = max(most, float32(math.Abs(float64(f))))
		if f > 0 {
			q.code[i/64] |= 1 << (i % 64)
		}
	}
	if most == 0 {
		return q
	}
	q.scale = most / 127
	for i, f := range x {
		q.num[i] = int8(math.Round(float64(f / q.scale)))
	}
	return q
}

// turned returns a turned copy of a vector, of length 1 unless it is zero.
func turned(v []float32) []float32 {
	var square float64
	for _, f := range v {
		square += float64(f) * float64(f)
	}
	x := make([]float32, len(v))
	if square == 0 {
		return x
	}
	block := 1 << bits.TrailingZeros(uint(len(v)))
	norm := 1 / (math.Sqrt(square) * math.Sqrt(float64(block)))
	seed := uint64(0x9e3779b97f4a7c15)
	for i, f := range v {
		seed ^= seed << 13 // xorshift: the same signs on every machine
		seed ^= seed >> 7
		seed ^= seed << 17
		if seed&1 == 1 {
			f = -f
		}
		x[i] = float32(float64(f) * norm)
	}
	for at := 0; at < len(x); at += block {
		hadamard(x[at : at+block])
	}
	return x
}

// hadamard applies the Walsh-Hadamard transform to a vector whose length is a power of two.
func hadamard(x []float32) {
	for h := 1; h < len(x); h *= 2 {
		for i := 0; i < len(x); i += 2 * h {
			for j := i; j < i+h; j++ {
				a, b := x[j], x[j+h]
				x[j], x[j+h] = a+b, a-b
			}
		}
	}
}

// dot returns the similarity of two vectors of the same dimensions, from -1 to 1.
func (q *quantised) dot(num []int8, scale float32) float32 {
	return float32(product(q.num, num)) * q.scale * scale
}

func product(a, b []int8) int32 {
	b = b[:len(a)]
	var s, t, u, v int32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s += int32(a[i]) * int32(b[i])
		t += int32(a[i+1]) * int32(b[i+1])
		u += int32(a[i+2]) * int32(b[i+2])
		v += int32(a[i+3]) * int32(b[i+3])
	}
	for ; i < len(a); i++ {
		s += int32(a[i]) * int32(b[i])
	}
	return s + t + u + v
}
