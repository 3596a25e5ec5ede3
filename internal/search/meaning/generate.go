//go:build ignore

// Command generate makes vectors.bin of the vectors that it reads; see README.md and
// scripts/vectors. It writes the most frequent words, in the order of the alphabet.
// Of the 100 dimensions it leaves out the three in which all words are most alike
// (Mu, Bhat and Viswanath, All-but-the-Top, 2018), and the 17 in which they differ
// least.
package main

import (
	"encoding/json"
	"log"
	"math"
	"os"
	"slices"
	"strings"
)

const (
	most    = 32000
	letters = 14
	from    = 100
	alike   = 3
	to      = 80
	scale   = 254
)

func main() {
	var in struct {
		Words   []string
		Vectors map[string][]float64
	}
	b, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err != nil {
		log.Fatal(err)
	}
	var words []string
	for _, w := range in.Words {
		plain := strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
		if plain && len(w) > 1 && len(w) <= letters && len(words) < most {
			words = append(words, w)
		}
	}
	mean := make([]float64, from)
	for _, w := range words {
		for i := range mean {
			mean[i] += in.Vectors[w][i] / float64(len(words))
		}
	}
	spread := make([][]float64, from)
	for i := range spread {
		spread[i] = make([]float64, from)
	}
	for _, w := range words {
		v := in.Vectors[w]
		for i := range mean {
			for j := range mean {
				spread[i][j] += (v[i] - mean[i]) * (v[j] - mean[j])
			}
		}
	}
	axes := axes(spread)[alike : alike+to]
	records := make([]string, len(words))
	for rank, w := range words {
		x, length := make([]float64, to), 0.0
		for k, axis := range axes {
			for i := range axis {
				x[k] += (in.Vectors[w][i] - mean[i]) * axis[i]
			}
			length += x[k] * x[k]
		}
		r := []byte(w + strings.Repeat("\x00", letters-len(w)))
		r = append(r, byte(rank), byte(rank>>8))
		for _, v := range x {
			r = append(r, byte(int8(math.Round(max(-127, min(127, v/math.Sqrt(length)*scale))))))
		}
		records[rank] = string(r)
	}
	slices.Sort(records)
	if err := os.WriteFile(os.Args[2], []byte(strings.Join(records, "")), 0o644); err != nil {
		log.Fatal(err)
	}
}

// axes returns the eigenvectors of a symmetric matrix, those of the largest
// eigenvalues first, by Jacobi's rotations.
func axes(m [][]float64) [][]float64 {
	n := len(m)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n)
		rows[i][i] = 1
	}
	for range 30 {
		for p := range n {
			for q := p + 1; q < n; q++ {
				angle := 0.5 * math.Atan2(2*m[p][q], m[q][q]-m[p][p])
				s, c := math.Sincos(angle)
				for k := range n {
					m[k][p], m[k][q] = c*m[k][p]-s*m[k][q], s*m[k][p]+c*m[k][q]
				}
				for k := range n {
					m[p][k], m[q][k] = c*m[p][k]-s*m[q][k], s*m[p][k]+c*m[q][k]
					rows[p][k], rows[q][k] = c*rows[p][k]-s*rows[q][k], s*rows[p][k]+c*rows[q][k]
				}
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if m[a][a] > m[b][b] {
			return -1
		}
		return 1
	})
	out := make([][]float64, n)
	for i, o := range order {
		out[i] = rows[o]
	}
	return out
}
