package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// The statements that write a group, each with its rows as arrays.
const (
	insertLog = `INSERT INTO log (seq, at, version, prev, op, space, actor, type, state, request, key, body, mark)
		SELECT r.seq, $1, r.version, r.prev, r.op, r.space, r.actor, r.type, r.state, r.request, r.key, r.body, CASE WHEN r.seq = $13 THEN $14::uuid END
		FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::bytea[], $12::bytea[])
			AS r(seq, version, prev, op, space, actor, type, state, request, key, body)`
	putTree = `INSERT INTO tree (key, seq, version, gone, space, type, state, refs)
		SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::boolean[], $5::text[], $6::text[], $7::text[], $8::bytea[])
		ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, version = excluded.version, gone = excluded.gone,
			space = excluded.space, type = excluded.type, state = excluded.state, refs = excluded.refs`
	deleteTerms = `DELETE FROM term t USING unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) AS r(space, name, value, seq)
		WHERE t.space = r.space AND t.name = r.name AND t.value = r.value AND t.seq = r.seq`
	insertTerms  = `INSERT INTO term (space, name, value, seq) SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[])`
	deletePlaces = `DELETE FROM place p USING unnest($1::bytea[], $2::bigint[], $3::text[]) AS r(list, pos, space)
		WHERE p.list = r.list AND p.pos = r.pos AND p.space = r.space`
	putPlaces = `INSERT INTO place (list, pos, space, seq) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[])
		ON CONFLICT (list, pos, space) DO UPDATE SET seq = excluded.seq`
	insertSpaces = `INSERT INTO space (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`
	insertSilent = `INSERT INTO silent (mark) VALUES ($1)`
	forgetSilent = `DELETE FROM silent WHERE at < now() - interval '1 day'`
)

// columnsOf are rows as arrays.
type (
	termRows struct {
		space, name []string
		value       [][]byte
		seq         []int64
	}
	placeRows struct {
		list  [][]byte
		pos   []int64
		space []string
		seq   []int64
	}
)

func (t *termRows) add(n *node, term store.Term) {
	t.space, t.name, t.value = append(t.space, n.space), append(t.name, term.Name), append(t.value, termKey(term.Value))
	t.seq = append(t.seq, int64(n.seq))
}

func (p *placeRows) add(n *node, at slot) {
	p.list, p.pos, p.space = append(p.list, []byte(at.list)), append(p.pos, at.pos), append(p.space, n.space)
	p.seq = append(p.seq, int64(n.seq))
}

// flush queues the statements that write the group's outcome: the log entries, and
// for each changed resource the difference between its old and new state.
func (p *planner) flush(b *pgx.Batch, mark id.ID) {
	if len(p.entries) > 0 {
		p.flushLog(b, mark)
	}
	if len(p.order) == 0 {
		return
	}
	var oldTerms, newTerms termRows
	var oldPlaces, newPlaces placeRows
	n := len(p.order)
	var (
		keys           = make([][]byte, 0, n)
		seqs, versions = make([]int64, 0, n), make([]int64, 0, n)
		gone           = make([]bool, 0, n)
		spaces, types  = make([]string, 0, n), make([]string, 0, n)
		states         = make([]*string, 0, n)
		encoded        = make([][]byte, 0, n)
	)
	for _, u := range p.order {
		was, now := p.nodes[u], p.group.nodes[u]
		if was == nil {
			was = nowhere
		}
		keys, seqs, versions = append(keys, u.Key()), append(seqs, int64(now.seq)), append(versions, int64(now.version))
		gone, spaces, types = append(gone, now.gone), append(spaces, now.space), append(types, now.typ)
		states, encoded = append(states, some(now.state)), append(encoded, now.refs.encode())
		if was.seq != now.seq {
			for _, t := range was.refs.terms {
				oldTerms.add(was, t)
			}
			for _, t := range now.refs.terms {
				newTerms.add(now, t)
			}
		}
		for _, pl := range was.refs.places {
			if at, ok := now.refs.in(pl.list); !ok || at != pl {
				oldPlaces.add(was, pl)
			}
		}
		for _, pl := range now.refs.places {
			newPlaces.add(now, pl)
		}
	}
	// Deletions go first, to free keys and positions.
	if len(oldTerms.seq) > 0 {
		b.Queue(deleteTerms, oldTerms.space, oldTerms.name, oldTerms.value, oldTerms.seq)
	}
	if len(oldPlaces.seq) > 0 {
		b.Queue(deletePlaces, oldPlaces.list, oldPlaces.pos, oldPlaces.space)
	}
	b.Queue(putTree, keys, seqs, versions, gone, spaces, types, states, encoded)
	if len(newTerms.seq) > 0 {
		b.Queue(insertTerms, newTerms.space, newTerms.name, newTerms.value, newTerms.seq)
	}
	if len(newPlaces.seq) > 0 {
		b.Queue(putPlaces, newPlaces.list, newPlaces.pos, newPlaces.space, newPlaces.seq)
	}
}

func (p *planner) flushLog(b *pgx.Batch, mark id.ID) {
	n := len(p.entries)
	var (
		seqs, versions, prevs = make([]int64, n), make([]int64, n), make([]int64, n)
		ops                   = make([]int16, n)
		spaces, actors, types = make([]string, n), make([]string, n), make([]string, n)
		states                = make([]*string, n)
		requests              = make([][]byte, n)
		keys, bodies          = make([][]byte, n), make([][]byte, n)
	)
	for i := range p.entries {
		e := &p.entries[i]
		seqs[i], versions[i], prevs[i], ops[i] = int64(e.seq), int64(e.version), int64(e.prev), int16(e.op)
		spaces[i], actors[i], types[i], states[i] = e.space, e.actor, e.typ, some(e.state)
		if !e.request.Zero() {
			requests[i] = e.request[:]
		}
		keys[i] = e.change.URI.Key()
		if e.op == resource.OpPut {
			if bodies[i] = e.change.Body; bodies[i] == nil {
				bodies[i] = []byte{} // NULL is an erased body
			}
		}
	}
	b.Queue(insertLog, p.at, seqs, versions, prevs, ops, spaces, actors, types, states, requests, keys, bodies, int64(p.seq), mark[:])
}

// some returns nil for the empty word.
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// asks are what the planner needs to know for a group: resources, and positions.
func (w *writer) asks(group []*pendingCommit) (keys [][]byte, places placeRows, writes []string) {
	uris, seats, spaces := map[resource.URI]struct{}{}, map[seat]struct{}{}, map[string]struct{}{}
	for _, j := range group {
		space := string(j.scope.Write)
		spaces[space] = struct{}{}
		for i := range j.batch.Changes {
			c := &j.batch.Changes[i]
			uris[c.URI] = struct{}{}
			if c.Place != nil && c.Op == store.Put {
				seats[seat{slot{string(c.Place.List.Key()), c.Place.Pos}, space}] = struct{}{}
			}
		}
	}
	for u := range uris {
		keys = append(keys, u.Key())
	}
	for at := range seats {
		places.add(&node{space: at.space}, at.slot)
	}
	return keys, places, slices.Sorted(maps.Keys(spaces))
}
