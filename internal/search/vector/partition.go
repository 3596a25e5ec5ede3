package vector

import (
	"cmp"
	"math/bits"
	"slices"

	"steward/internal/message"
)

// exactRows is the size up to which a partition is scanned exactly, and heldRows the one up
// to which its 8-bit numbers are kept in memory.
const (
	exactRows = 2000
	heldRows  = 20_000
)

// candidates is the number of vectors that the codes select for an exact comparison.
const candidates = 400

// partition is the part of an owner's vectors of one model that is kept in memory: the
// codes, and what a search filters by.
type partition struct {
	gen   int64 // of the table that was read: it changes with every write
	cut   int64 // changes when rows are removed
	dims  int
	rows  []row
	codes []uint64 // wordsOf(dims) per row

	// Only of a small partition.
	nums   []int8 // dims per row
	scales []float32
}

type row struct {
	id, doc int64
	at      int64 // microseconds
	conv    uint32
	role    uint8
}

// rowBytes is about what a row takes in memory.
const rowBytes = 32

func (p *partition) size() int {
	return len(p.rows)*rowBytes + 8*len(p.codes) + len(p.nums) + 4*len(p.scales)
}

// filter narrows a search within a partition; its zero values do not.
type filter struct {
	conv         uint32
	role         uint8
	since, until int64
}

func (f *filter) accepts(r *row) bool {
	return (f.conv == 0 || r.conv == f.conv) && (f.role == 0 || r.role == f.role) &&
		(f.since == 0 || r.at >= f.since) && (f.until == 0 || r.at < f.until)
}

// scored is a row with its similarity to the query.
type scored struct {
	row   int
	score float32
}

// best sorts by similarity, newer rows first among equals, and cuts.
func best(found []scored, n int) []scored {
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.row, a.row))
	})
	return found[:min(n, len(found))]
}

// exact compares the query with every row.
func (p *partition) exact(q *quantised, f *filter, n int) []scored {
	found := make([]scored, 0, 2*n+1)
	for i := range p.rows {
		if !f.accepts(&p.rows[i]) {
			continue
		}
		s := scored{i, q.dot(p.nums[i*p.dims:(i+1)*p.dims], p.scales[i])}
		if len(found) == cap(found) {
			found = best(found, n)
		}
		found = append(found, s)
	}
	return best(found, n)
}

// near returns about n rows whose codes differ least from the query's, by counting the
// rows of each distance.
func (p *partition) near(code []uint64, f *filter, n int) []int {
	dist := make([]uint16, len(p.rows))
	count := make([]int, p.dims+2)
	all := *f == filter{}
	far := p.dims + 1
	for i := range p.rows {
		d := far
		if all || f.accepts(&p.rows[i]) {
			d = hamming(code, p.codes[i*len(code):])
		}
		dist[i] = uint16(d)
		count[d]++
	}
	limit, sum := 0, 0
	for ; limit < far; limit++ {
		if sum += count[limit]; sum >= n {
			break
		}
	}
	// Rows at the last distance are as good as each other; newer ones are preferred.
	within := sum - count[min(limit, far)]
	if limit == far {
		limit, within = far-1, 0
	}
	rest := max(n-within, 0)
	out := make([]int, 0, min(n, len(p.rows)))
	for i, d := range slices.Backward(dist) {
		switch {
		case int(d) < limit:
			out = append(out, i)
		case int(d) == limit && rest > 0:
			out = append(out, i)
			rest--
		}
	}
	return out
}

func hamming(a, b []uint64) int {
	if len(a) == 4 {
		b = b[:4]
		return bits.OnesCount64(a[0]^b[0]) + bits.OnesCount64(a[1]^b[1]) + bits.OnesCount64(a[2]^b[2]) + bits.OnesCount64(a[3]^b[3])
	}
	d := 0
	for i, w := range a {
		d += bits.OnesCount64(w ^ b[i])
	}
	return d
}

// roleOf numbers the roles; 0 is none.
func roleOf(r message.Role) uint8 {
	return uint8(1 + slices.Index([]message.Role{message.System, message.User, message.Assistant, message.Tool}, r))
}
