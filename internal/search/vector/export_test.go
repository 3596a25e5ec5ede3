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

// Followed makes searches not read the log first, as while Follow runs.
func (x *Index) Followed() { x.followed.Store(true) }

// Quantised returns a vector as the file holds it.
func Quantised(v []float32) (code []uint64, scale float32, num []byte) {
	q := quantise(v)
	return q.code, q.scale, unsigned(q.num)
}

// EmbedDue embeds as while Follow runs: in the spaces that the log had something about.
func (x *Index) EmbedDue(ctx context.Context) error {
	_, err := x.embed(ctx, false)
	return err
}
