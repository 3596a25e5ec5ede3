package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cloud returns n vectors around as many centers as there are subjects, as embeddings of
// texts lie.
func cloud(n, dims, subjects int, seed uint64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	centers := make([][]float32, subjects)
	for i := range centers {
		centers[i] = normal(r, dims)
	}
	out := make([][]float32, n)
	for i := range out {
		v := normal(r, dims)
		c := centers[r.IntN(subjects)]
		for k := range v {
			v[k] = 0.8*v[k] + c[k]
		}
		out[i] = v
	}
	return out
}

func normal(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// filled returns a partition of vectors, with all 8-bit numbers.
func filled(vectors [][]float32) *partition {
	p := &partition{dims: len(vectors[0])}
	for i, v := range vectors {
		q := quantise(v)
		p.rows = append(p.rows, row{id: int64(i + 1), doc: int64(i + 1)})
		p.codes = append(p.codes, q.code...)
		p.nums = append(p.nums, q.num...)
		p.scales = append(p.scales, q.scale)
	}
	return p
}

// rescored is what Nearest does with a large partition.
func rescored(p *partition, q *quantised, n int) []scored {
	var found []scored
	for _, r := range p.near(q.code, &filter{}, candidates) {
		found = append(found, scored{r, q.dot(p.nums[r*p.dims:(r+1)*p.dims], p.scales[r])})
	}
	return best(found, n)
}

// plain compares the vectors themselves.
func plain(vectors [][]float32, q []float32, n int) []scored {
	units := func(v []float32) float64 {
		s := 0.0
		for _, f := range v {
			s += float64(f) * float64(f)
		}
		return s
	}
	var found []scored
	for i, v := range vectors {
		s := 0.0
		for k := range v {
			s += float64(v[k]) * float64(q[k])
		}
		found = append(found, scored{i, float32(s / (1e-9 + math.Sqrt(units(v)*units(q))))})
	}
	return best(found, n)
}

func recall(got, want []scored) float64 {
	n := 0
	for _, w := range want {
		if slices.ContainsFunc(got, func(g scored) bool { return g.row == w.row }) {
			n++
		}
	}
	return float64(n) / float64(len(want))
}

// The 8-bit scan finds nearly what a scan of the vectors finds, and so do the codes with
// exact comparison.
func TestRecall(t *testing.T) {
	for _, dims := range []int{256, 100} {
		all := cloud(5_030, dims, 50, 1)
		vectors, queries := all[:5000], all[5000:]
		p := filled(vectors)
		var exact, coded float64
		for _, v := range queries {
			q := quantise(v)
			want := plain(vectors, v, 10)
			exact += recall(p.exact(&q, &filter{}, 10), want)
			coded += recall(rescored(p, &q, 10), want)
		}
		n := float64(len(queries))
		t.Logf("%d dimensions: recall@10 of 8 bits %.3f, of codes and 8 bits %.3f", dims, exact/n, coded/n)
		if exact/n < 0.95 || dims > 100 && coded/n < 0.9 || coded/n < 0.6 {
			t.Errorf("%d dimensions: recall@10 of 8 bits %.3f, of codes and 8 bits %.3f", dims, exact/n, coded/n)
		}
	}
}

// near returns as many rows as it is asked for, and none that is farther than one that it
// leaves out.
func TestNear(t *testing.T) {
	p := filled(cloud(500, 64, 5, 3))
	for i := range p.rows {
		p.rows[i].conv = uint32(1 + i%3)
	}
	for _, n := range []int{1, 7, 100, 499, 500, 900} {
		for _, f := range []filter{{}, {conv: 2}, {conv: 9}} {
			q := quantise(cloud(1, 64, 5, uint64(n))[0])
			want := 0
			for i := range p.rows {
				if f.accepts(&p.rows[i]) {
					want++
				}
			}
			want = min(want, n)
			got := p.near(q.code, &f, n)
			farthest, seen := 0, map[int]bool{}
			for _, r := range got {
				if !f.accepts(&p.rows[r]) || seen[r] {
					t.Fatalf("n %d, %+v: row %d", n, f, r)
				}
				seen[r] = true
				farthest = max(farthest, hamming(q.code, p.codes[r:]))
			}
			for i := range p.rows {
				if f.accepts(&p.rows[i]) && !seen[i] && hamming(q.code, p.codes[i:]) < farthest {
					t.Fatalf("n %d, %+v: row %d is nearer", n, f, i)
				}
			}
			if len(got) != want {
				t.Errorf("n %d, %+v: %d rows, not %d", n, f, len(got), want)
			}
		}
	}
}
