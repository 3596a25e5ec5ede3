//go:build ignore

// Command generate makes vectors.bin of the vectors that it reads; see README.md and
// scripts/vectors. It writes the most frequent words, in the order of the alphabet.
// Of the 100 dimensions it leaves out the three in which all words are most alike
// (Mu, Bhat and Viswanath, All-but-the-Top, 2018), and the 17 in which they differ
// least. Numbers are divided by the fourth root of how much they differ, so that four
// bits are enough for each.
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
	most    = 54000
	letters = 14
	from    = 100
	alike   = 3
	to      = 80
	step    = 0.36 // of a number, in the spread of all numbers
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
	axes, sizes := axes(spread)
	axes, sizes = axes[alike:alike+to], sizes[alike:alike+to]
	records := make([]string, len(words))
	for rank, w := range words {
		x, length := make([]float64, to), 0.0
		for k, axis := range axes {
			for i := range axis {
				x[k] += (in.Vectors[w][i] - mean[i]) * axis[i]
			}
			x[k] /= math.Pow(sizes[k], 0.25)
			length += x[k] * x[k]
		}
		r := []byte(w + strings.Repeat("\x00", letters-len(w)))
		r = append(r, byte(rank), byte(rank>>8))
		for k := 0; k < to; k += 2 {
			r = append(r, level(x[k], length)|level(x[k+1], length)<<4)
		}
		records[rank] = string(r)
	}
	slices.Sort(records)
	if err := os.WriteFile(os.Args[2], []byte(strings.Join(records, "")), 0o644); err != nil {
		log.Fatal(err)
	}
}

// level returns a number of a vector of a length in four bits.
func level(x, length float64) byte {
	return byte(max(0, min(15, math.Floor(x/math.Sqrt(length/to)/step+8))))
}

// axes returns the eigenvectors of a symmetric matrix and their eigenvalues, the
// largest first, by Jacobi's rotations.
func axes(m [][]float64) (vectors [][]float64, sizes []float64) {
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
	for _, o := range order {
		vectors, sizes = append(vectors, rows[o]), append(sizes, m[o][o])
	}
	return vectors, sizes
}
