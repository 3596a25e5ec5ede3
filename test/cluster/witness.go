//go:build linux

package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/cluster"
)

// writers returns which role wrote each entry of the log.
func (r *Rig) writers(ctx context.Context) (map[uint64]string, error) {
	conn, err := pgx.Connect(ctx, r.Postgres.Super(r.database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT seq, role::text FROM witness.wrote")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[uint64]string{}
	for rows.Next() {
		var seq int64
		var role string
		if err := rows.Scan(&seq, &role); err != nil {
			return nil, err
		}
		out[uint64(seq)] = role
	}
	return out, rows.Err()
}

// Holding is what the log tells of who held the users' spaces.
type Holding struct {
	Entries int            // of users' spaces, without the records of who holds them
	Takes   int            // how often a space was taken
	Moves   int            // how often by another life of a node than before
	Stale   map[string]int // what others than the holder wrote while a space was held, counted by who, what and whom
	Free    map[string]int // what was written while nobody held the space
}

// Holding reads the log of a store, which the nodes do not use any more.
func (r *Rig) Holding(ctx context.Context, st store.Store) (*Holding, error) {
	by, err := r.writers(ctx)
	if err != nil {
		return nil, err
	}
	h := &Holding{Stale: map[string]int{}, Free: map[string]int{}}
	holder, before := map[resource.Space]string{}, map[resource.Space]string{}
	for e, err := range store.Entries(ctx, st, store.ForNode(resource.System), store.LogQuery{Limit: store.MaxLimit}) {
		if err != nil {
			return nil, err
		}
		role := by[e.Seq]
		if role == "" {
			return nil, fmt.Errorf("nobody has seen who wrote entry %d", e.Seq)
		}
		if !strings.HasPrefix(string(e.Space), "user:") {
			continue
		}
		if e.URI.Type() == cluster.TypePiece {
			if e.State != cluster.Held {
				holder[e.Space] = ""
				continue
			}
			h.Takes++
			if b := before[e.Space]; b != "" && b != role {
				h.Moves++
			}
			holder[e.Space], before[e.Space] = role, role
			continue
		}
		h.Entries++
		switch holder[e.Space] {
		case role:
		case "":
			h.Free[fmt.Sprintf("%s %v %s by %s", role, e.Op, e.URI.Type(), e.Actor)]++
		default:
			h.Stale[fmt.Sprintf("%s instead of %s %v %s by %s", role, holder[e.Space], e.Op, e.URI.Type(), e.Actor)]++
		}
	}
	return h, nil
}
