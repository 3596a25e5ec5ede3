package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
	"steward/internal/store/transfer"
)

var (
	_ transfer.Reader = (*Store)(nil)
	_ transfer.Target = (*Transfer)(nil)
)

// stream runs read in a snapshot, and yields what it finds. The sequence ends with
// its error, if there is one.
func stream[T any](ctx context.Context, s *Store, read func(l *ledger, each func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := s.snapshot(ctx, func(l *ledger) error {
			return read(l, func(one T) error {
				if !yield(one, nil) {
					return chain.ErrEnough
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, chain.ErrEnough) {
			var none T
			yield(none, err)
		}
	}
}

// Entries implements transfer.Reader.
func (s *Store) Entries(ctx context.Context, after uint64) iter.Seq2[transfer.Entry, error] {
	return stream(ctx, s, func(l *ledger, each func(transfer.Entry) error) error {
		l.after = after
		var p chain.Proof
		for {
			ok, err := l.Entry(&p)
			if err != nil || !ok {
				return err
			}
			if p.Flaw != "" {
				return holed(p.Seq)
			}
			if err := each(transfer.Entry{Entry: p.Entry, Prev: p.Prev, Erased: p.BodySum == nil, Scar: p.Mark}); err != nil {
				return err
			}
		}
	})
}

// nodePage is how many resources are read at a time.
const nodePage = 1000

// Nodes implements transfer.Reader.
func (s *Store) Nodes(ctx context.Context, after []byte) iter.Seq2[transfer.Node, error] {
	after = append([]byte{}, after...) // nil would be NULL
	return stream(ctx, s, func(l *ledger, each func(transfer.Node) error) error {
		after := after
		for {
			rows, err := l.tx.Query(l.ctx, "SELECT key, seq, version, gone, space, type, state, refs FROM tree WHERE key > $1 ORDER BY key LIMIT $2", after, nodePage)
			if err != nil {
				return err
			}
			p := newPlanner(0, 0, when(0))
			var order []resource.URI
			err = eachRow(rows, func(r pgx.Rows) error {
				u, err := p.readNode(r)
				order = append(order, u)
				return err
			})
			if err != nil || len(order) == 0 {
				return err
			}
			for _, u := range order {
				n, err := exported(u, p.nodes[u])
				if err == nil {
					err = each(n)
				}
				if err != nil {
					return err
				}
			}
			after = order[len(order)-1].Key()
		}
	})
}

func exported(u resource.URI, n *node) (transfer.Node, error) {
	out := transfer.Node{URI: u, Seq: n.seq, Version: n.version, Space: resource.Space(n.space), State: n.state, Gone: n.gone, Terms: n.refs.terms}
	for _, p := range n.refs.places {
		list, err := resource.FromKey(p.list)
		if err != nil {
			return out, broken(err)
		}
		out.Places = append(out.Places, store.Place{List: list, Pos: p.pos})
	}
	out.Sort()
	return out, nil
}

// Seals implements transfer.Reader.
func (s *Store) Seals(ctx context.Context, after uint64) iter.Seq2[transfer.Seal, error] {
	return stream(ctx, s, func(l *ledger, each func(transfer.Seal) error) error {
		after := after
		for {
			var page []transfer.Seal
			rows, err := l.tx.Query(l.ctx, "SELECT first, hash, salts, tags FROM seal WHERE first > $1 ORDER BY first LIMIT $2", int64(after), sealPage)
			if err == nil {
				err = eachRow(rows, func(r pgx.Rows) error {
					var x transfer.Seal
					var hash []byte
					err := r.Scan(&x.First, &hash, &x.Salts, &x.Tags)
					copy(x.Hash[:], hash)
					if len(x.Salts) == 0 {
						x.Salts = nil
					}
					page = append(page, x)
					return err
				})
			}
			if err != nil || len(page) == 0 {
				return err
			}
			for _, x := range page {
				if err := each(x); err != nil {
					return err
				}
			}
			after = page[len(page)-1].First
		}
	})
}

// Transfer is a database that is being filled from another store. Until Finish, a
// row in the table transfer keeps it from being opened.
type Transfer struct{ *Store }

// NewTransfer begins or continues to fill a database.
func NewTransfer(ctx context.Context, o Options) (*Transfer, error) {
	s, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	err = s.Claim(ctx)
	if err == nil && o.Owner != "" {
		err = Prepare(ctx, o.Owner, s.config.ConnConfig.User)
	}
	all, wrong := steps()
	err = errors.Join(err, wrong)
	if err == nil {
		err = s.inNode(ctx, func(tx pgx.Tx) error { return checkRole(ctx, tx, len(all)) })
	}
	if err != nil {
		return nil, errors.Join(coded(err), s.Close())
	}
	return &Transfer{s}, nil
}

// inNode runs a transaction that sees all spaces.
func (s *Store) inNode(ctx context.Context, do func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setScope, scopeArgs(everything)...); err != nil {
			return err
		}
		return do(tx)
	})
	return coded(err)
}

// Begin implements transfer.Target.
func (t *Transfer) Begin(ctx context.Context, source string) (at transfer.Progress, err error) {
	err = t.inNode(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, takeLock, int64(logLock)); err != nil {
			return err
		}
		var was string
		err := tx.QueryRow(ctx, "SELECT source FROM transfer").Scan(&was)
		last, _, ending := readEnd(tx.QueryRow(ctx, endOfLog))
		switch {
		case ending != nil:
			return ending
		case last > 0 && errors.Is(err, pgx.ErrNoRows):
			return fault.New(fault.Conflict, "transfer_refused", "the database holds a store already").
				WithHint("name an empty one")
		case errors.Is(err, pgx.ErrNoRows):
			_, err := tx.Exec(ctx, "INSERT INTO transfer (source) VALUES ($1)", source)
			return err
		case err != nil:
			return err
		case was != source:
			return fault.New(fault.Conflict, "transfer_refused", "the database holds the beginning of a copy of something else, or its source has changed since").
				WithHint("drop the database, make an empty one, and begin again")
		}
		return tx.QueryRow(ctx, `SELECT COALESCE((SELECT max(seq) FROM log), 0), (SELECT key FROM tree ORDER BY key DESC LIMIT 1), COALESCE((SELECT max(first) FROM seal), 0)`).
			Scan(&at.Entry, &at.Node, &at.Seal)
	})
	return at, err
}

// loadLog is insertLog with a time for each entry.
const loadLog = `INSERT INTO log (seq, at, version, prev, op, space, actor, type, state, request, key, body)
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::bytea[], $12::bytea[])`

// page writes a page in one transaction.
func (t *Transfer) page(ctx context.Context, spaces map[string]bool, queue func(b *pgx.Batch)) error {
	return t.inNode(ctx, func(tx pgx.Tx) error {
		names := make([]string, 0, len(spaces))
		for s := range spaces {
			names = append(names, s)
		}
		if _, err := tx.Exec(ctx, setWrites, names); err != nil {
			return err
		}
		var b pgx.Batch
		queue(&b)
		return tx.SendBatch(ctx, &b).Close()
	})
}

// PutEntries implements transfer.Target.
func (t *Transfer) PutEntries(ctx context.Context, page []transfer.Entry) error {
	n := len(page)
	var (
		seqs, ats, versions, prevs = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		ops                        = make([]int16, n)
		spaces, actors, types      = make([]string, n), make([]string, n), make([]string, n)
		states                     = make([]*string, n)
		requests, keys, bodies     = make([][]byte, n), make([][]byte, n), make([][]byte, n)
		scarred, all               = []transfer.Entry{}, map[string]bool{}
	)
	for i := range page {
		e := &page[i]
		if !isText(string(e.Space)) || !isText(e.Actor) || !isText(e.State) || len(e.URI.Key()) > maxKey {
			return unfit(e.URI, "an entry of the log")
		}
		seqs[i], ats[i], versions[i], prevs[i], ops[i] = int64(e.Seq), e.At.UnixMicro(), int64(e.Version), int64(e.Prev), int16(e.Op)
		spaces[i], actors[i], types[i], states[i] = string(e.Space), e.Actor, e.URI.Type(), some(e.State)
		all[spaces[i]] = true
		if !e.Request.Zero() {
			requests[i] = e.Request[:]
		}
		keys[i] = e.URI.Key()
		if e.Op == resource.OpPut && !e.Erased {
			if bodies[i] = e.Body; bodies[i] == nil {
				bodies[i] = []byte{}
			}
		}
		if e.Scar != (store.Hash{}) {
			scarred = append(scarred, *e)
		}
	}
	return t.page(ctx, all, func(b *pgx.Batch) {
		b.Queue(loadLog, seqs, ats, versions, prevs, ops, spaces, actors, types, states, requests, keys, bodies)
		b.Queue(insertSpaces, spaces)
		for _, e := range scarred {
			b.Queue(insertScar, int64(e.Seq), e.Scar[:])
		}
	})
}

// PutNodes implements transfer.Target.
func (t *Transfer) PutNodes(ctx context.Context, page []transfer.Node) error {
	p, all := newPlanner(0, 0, when(0)), map[string]bool{}
	for i := range page {
		x := &page[i]
		n := &node{seq: x.Seq, version: x.Version, space: string(x.Space), typ: x.URI.Type(), state: x.State, gone: x.Gone, refs: refs{terms: sorted(x.Terms)}}
		for _, pl := range x.Places {
			n.refs.places = append(n.refs.places, slot{string(pl.List.Key()), pl.Pos})
		}
		p.order, p.group.nodes[x.URI] = append(p.order, x.URI), n
		all[n.space] = true
	}
	return t.page(ctx, all, func(b *pgx.Batch) { p.flush(b, id.ID{}) })
}

// PutSeals implements transfer.Target.
func (t *Transfer) PutSeals(ctx context.Context, page []transfer.Seal) error {
	return t.page(ctx, nil, func(b *pgx.Batch) {
		for i := range page {
			x := &page[i]
			salts := x.Salts
			if salts == nil {
				salts = []byte{}
			}
			b.Queue(writeSeal, int64(x.First), x.Hash[:], salts, x.Tags)
		}
	})
}

// Finish implements transfer.Target.
func (t *Transfer) Finish(ctx context.Context) error {
	return t.inNode(ctx, func(tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue("UPDATE sealed SET seq = COALESCE((SELECT s.first + length(s.tags) / 2 - 1 FROM seal s ORDER BY s.first DESC LIMIT 1), 0)")
		b.Queue("DELETE FROM transfer")
		return tx.SendBatch(ctx, &b).Close()
	})
}
