package vector

import (
	"context"

	"steward/internal/store"
)

// Stored returns a vector as the file holds it.
func Stored(v []float32) []byte {
	q := quantise(v)
	return unsigned(q.num)
}

// NearestNow is Nearest without reading the log first, as while Follow runs.
func (x *Index) NearestNow(ctx context.Context, sc store.Scope, q Query) (Answer, error) {
	x.followed.Store(true)
	return x.Nearest(ctx, sc, q)
}

func Similar(a, b string) float32 {
	p, q := quantise(lexicalVector(a)), quantise(lexicalVector(b))
	return p.dot(q.num, q.scale)
}
