//go:build long

package vector_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/llm"
	"steward/internal/search/vector"
	"steward/internal/store"
)

// numbered is an embedding model whose texts are numbers: each has a vector near one of
// 1,000 centers.
type numbered struct{ dims int }

// Embed implements llm.Embedder.
func (n numbered) Embed(_ context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: "test/numbered"}
	for _, t := range texts {
		i, err := strconv.Atoi(strings.TrimPrefix(t, "number "))
		if err != nil {
			return out, err
		}
		out.Values = append(out.Values, n.vector(uint64(i)))
	}
	return out, nil
}

func (n numbered) vector(i uint64) []float32 {
	center, own := rand.New(rand.NewPCG(i%1000, 1)), rand.New(rand.NewPCG(i, 2))
	v := make([]float32, n.dims)
	for k := range v {
		v[k] = float32(center.NormFloat64() + 0.8*own.NormFloat64())
	}
	return v
}

// BenchmarkNearest measures searches in one owner's messages beside a plain scan of the
// vectors, which are held in memory for that. A message is copied in the file itself to
// make many.
func BenchmarkNearest(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkNearest(b, size) })
	}
}

func benchmarkNearest(b *testing.B, size int) {
	const dims = 256
	model := numbered{dims}
	opt := vector.Options{Model: func(string) (vector.Model, error) {
		return vector.Model{Name: "test/numbered", Embedder: model}, nil
	}}
	w := openWorld(b, b.TempDir(), opt)
	defer func() { w.close() }()
	w.talk("ana", "x").say("number 0")
	w.catchUp()
	must(b, w.index.Close())
	plain := make([]float32, 0, size*dims)
	fill(b, w.path(), size, func(i int) []float32 {
		v := model.vector(uint64(i))
		unit(v)
		plain = append(plain, v...)
		return v
	})
	w.index = w.open(opt)
	before := memory()
	start := time.Now()
	query := func(i int) []vector.Match {
		a, err := w.index.NearestNow(b.Context(), store.ForUser("ana"), vector.Query{Text: fmt.Sprint("number ", size+i), Limit: 10})
		must(b, err)
		return a.Matches
	}
	query(0)
	first := time.Since(start)
	held := memory() - before

	var times, scans []time.Duration
	hits := 0
	const queries = 100
	for i := range queries {
		start := time.Now()
		got := query(i)
		times = append(times, time.Since(start))
		if i >= 20 {
			continue
		}
		q := model.vector(uint64(size + i))
		unit(q)
		start = time.Now()
		want := scan(plain, q, 10)
		scans = append(scans, time.Since(start))
		for _, m := range got {
			if slices.Contains(want, int(m.Seq)) {
				hits++
			}
		}
	}
	slices.Sort(times)
	slices.Sort(scans)
	info, err := os.Stat(w.path())
	must(b, err)
	b.Logf("%d messages × %d: search P50 %v, P95 %v; scan of float32 P50 %v; recall@10 %.3f; first search %v; %d MB in memory, %d MB in the file",
		size, dims, times[queries/2], times[queries*95/100], scans[10], float64(hits)/200, first.Round(time.Millisecond), held>>20, info.Size()>>20)
	b.ReportMetric(float64(times[queries*95/100].Microseconds())/1000, "ms/P95")
	b.ReportMetric(float64(scans[10].Microseconds())/1000, "ms/scan")
	b.ReportMetric(float64(hits)/200, "recall@10")
	b.ReportMetric(float64(held>>20), "MB")
	for b.Loop() {
		query(7)
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func unit(v []float32) {
	s := 0.0
	for _, f := range v {
		s += float64(f) * float64(f)
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(s))
	}
}

// fill copies the only message of the index, with the number of the copy as its position
// in the log.
func fill(b *testing.B, path string, size int, vectorOf func(int) []float32) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	must(b, err)
	defer func() { must(b, c.Close()) }()
	run := func(query string, args ...any) { must(b, sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args})) }
	run("BEGIN")
	run("UPDATE doc_1 SET seq = 0")
	for i := 1; i < size; i++ {
		code, scale, num := vector.Quantised(vectorOf(i))
		var packed []byte
		for _, word := range code {
			packed = binary.LittleEndian.AppendUint64(packed, word)
		}
		run("INSERT INTO doc_1 (seq, at, conv, inter, msg, key, role) SELECT ?, at, conv, inter, ?, key, role FROM doc_1 WHERE id = 1", i, fmt.Appendf(nil, "%016d", i))
		run("INSERT INTO code_1 (doc, piece, conv, at, role, hash, code) SELECT ?, 0, conv, at, role, ?, ? FROM code_1 WHERE id = 1", i+1, fmt.Appendf(nil, "%032d", i), packed)
		run("INSERT INTO vec_1 VALUES (?, ?, ?)", i+1, float64(scale), num)
	}
	run("UPDATE part SET upto = ?, gen = gen + 1", size)
	run("COMMIT")
}

// scan returns the positions of the n vectors nearest to a query. The first vector is that
// of the message with the position 1.
func scan(all, q []float32, n int) (out []int) {
	type near struct {
		at  int
		dot float32
	}
	var found []near
	for i := 0; i*len(q) < len(all); i++ {
		v := all[i*len(q) : (i+1)*len(q)]
		var a, b, c, d float32
		for k := 0; k+4 <= len(q); k += 4 {
			a += v[k] * q[k]
			b += v[k+1] * q[k+1]
			c += v[k+2] * q[k+2]
			d += v[k+3] * q[k+3]
		}
		s := a + b + c + d
		if len(found) == n && s <= found[n-1].dot {
			continue
		}
		at, _ := slices.BinarySearchFunc(found, s, func(f near, s float32) int {
			if f.dot > s {
				return -1
			}
			return 1
		})
		found = slices.Insert(found, at, near{i + 1, s})
		found = found[:min(n, len(found))]
	}
	for _, f := range found {
		out = append(out, f.at)
	}
	return out
}
