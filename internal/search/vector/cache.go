package vector

import (
	"fmt"
	"sync"
	"time"

	"encoding/binary"

	"zombiezen.com/go/sqlite"
)

// cache keeps the partitions that were searched last, up to a number of bytes.
type cache struct {
	limit int

	mu    sync.Mutex
	parts map[int64]*kept // by part
}

// kept is a place for one partition. Its lock is held while it is read from the file, so
// that several searches read it once. A partition itself does not change.
type kept struct {
	mu   sync.Mutex
	p    *partition
	size int       // guarded by cache.mu
	used time.Time // guarded by cache.mu
}

func (k *cache) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts = map[int64]*kept{}
}

func (k *cache) drop(part int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.parts, part)
}

// partition returns a part as it is in the transaction of c. It reads only what was added
// since the last time, unless rows were removed.
func (k *cache) partition(c *sqlite.Conn, part int64, dims int) (*partition, error) {
	k.mu.Lock()
	place := k.parts[part]
	if place == nil {
		place = &kept{}
		k.parts[part] = place
	}
	k.mu.Unlock()

	place.mu.Lock()
	defer place.mu.Unlock()
	var gen, cut int64
	if err := query(c, "SELECT gen, cut FROM part WHERE id = ?", []any{part}, func(s *sqlite.Stmt) { gen, cut = s.ColumnInt64(0), s.ColumnInt64(1) }); err != nil {
		return nil, err
	}
	if p := place.p; p != nil && p.gen == gen && p.cut == cut && p.dims == dims {
		k.keep(part, place, p)
		return p, nil
	}
	next := &partition{gen: gen, cut: cut, dims: dims}
	if old := place.p; old != nil && old.cut == cut && old.dims == dims && old.gen < gen {
		// Appending may use the spare room of the old slices, which nobody else appends to.
		next.rows, next.codes, next.nums, next.scales = old.rows, old.codes, old.nums, old.scales
	}
	if err := next.load(c, part); err != nil {
		return nil, err
	}
	place.p = next
	k.keep(part, place, next)
	return next, nil
}

// keep notes a use, and forgets the partitions that were used longest ago if there are too
// many bytes. One that is larger than the limit is kept alone.
func (k *cache) keep(part int64, place *kept, p *partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	place.size, place.used = p.size(), time.Now()
	for {
		sum, oldest := 0, int64(0)
		for id, o := range k.parts {
			sum += o.size
			if id != part && (oldest == 0 || o.used.Before(k.parts[oldest].used)) {
				oldest = id
			}
		}
		if sum <= k.limit || oldest == 0 {
			return
		}
		delete(k.parts, oldest)
	}
}

// load appends the rows of a part's tables that the partition does not have yet.
func (p *partition) load(c *sqlite.Conn, part int64) error {
	var last int64
	if n := len(p.rows); n > 0 {
		last = p.rows[n-1].id
	}
	n := wordsOf(p.dims)
	buf := make([]byte, 8*n)
	bad := false
	err := query(c, fmt.Sprintf("SELECT id, doc, at, conv, role, code FROM code_%d WHERE id > ? ORDER BY id", part), []any{last}, func(s *sqlite.Stmt) {
		p.rows = append(p.rows, row{id: s.ColumnInt64(0), doc: s.ColumnInt64(1), at: s.ColumnInt64(2), conv: uint32(s.ColumnInt64(3)), role: uint8(s.ColumnInt64(4))})
		bad = bad || s.ColumnLen(5) != len(buf)
		s.ColumnBytes(5, buf)
		for i := range n {
			p.codes = append(p.codes, binary.LittleEndian.Uint64(buf[8*i:]))
		}
	})
	if err != nil {
		return err
	}
	if bad {
		return broken("a code has another length than its model's vectors")
	}
	if len(p.rows) > heldRows {
		p.nums, p.scales = nil, nil
		return nil
	}
	return p.loadNums(c, part)
}

// loadNums appends the 8-bit vectors of the rows that do not have them yet.
func (p *partition) loadNums(c *sqlite.Conn, part int64) error {
	at := len(p.scales)
	if at == len(p.rows) {
		return nil
	}
	bad := false
	buf := make([]byte, p.dims)
	err := query(c, fmt.Sprintf("SELECT id, scale, num FROM vec_%d WHERE id >= ? ORDER BY id", part), []any{p.rows[at].id}, func(s *sqlite.Stmt) {
		if at >= len(p.rows) || s.ColumnInt64(0) != p.rows[at].id || s.ColumnLen(2) != p.dims {
			bad = true
			return
		}
		at++
		s.ColumnBytes(2, buf)
		p.scales = append(p.scales, float32(s.ColumnFloat(1)))
		p.nums = append(p.nums, signed(buf)...)
	})
	if err == nil && (bad || at != len(p.rows)) {
		err = broken("codes and vectors are not of the same texts")
	}
	return err
}

func signed(b []byte) []int8 {
	out := make([]int8, len(b))
	for i, c := range b {
		out[i] = int8(c)
	}
	return out
}

func unsigned(v []int8) []byte {
	out := make([]byte, len(v))
	for i, c := range v {
		out[i] = byte(c)
	}
	return out
}
