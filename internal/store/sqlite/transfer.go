package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
	"steward/internal/store/transfer"
)

var (
	_ transfer.Reader = (*Store)(nil)
	_ transfer.Target = (*Transfer)(nil)
)

// stream runs read with a connection, and yields what it finds. The sequence ends
// with its error, if there is one.
func stream[T any](ctx context.Context, s *Store, read func(c *conn, each func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := s.read(ctx, func(c *conn) error {
			return read(c, func(one T) error {
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
	return stream(ctx, s, func(c *conn, each func(transfer.Entry) error) error {
		st := c.prepare(proofColumns + "WHERE l.seq > ? ORDER BY l.seq").argInt(int64(after))
		r := rows{s: s, st: st}
		return st.each(func() error {
			var e transfer.Entry
			if err := r.entry(&e.Entry); err != nil {
				return err
			}
			e.Prev, e.Erased = uint64(st.int(10)), e.Op == resource.OpPut && st.null(7)
			if e.Erased {
				p := chain.Proof{Sealed: store.Sealed{Entry: e.Entry}}
				if err := readScar(c, &p); err != nil {
					return err
				}
				e.Scar = p.Mark
			}
			return each(e)
		})
	})
}

// Nodes implements transfer.Reader.
func (s *Store) Nodes(ctx context.Context, after []byte) iter.Seq2[transfer.Node, error] {
	return stream(ctx, s, func(c *conn, each func(transfer.Node) error) error {
		lists := make(map[int64]resource.URI)
		st := c.prepare("SELECT key, seq, version, space, gone, state, refs FROM tree WHERE key > ? ORDER BY key").argBlob(after)
		r := rows{s: s, st: st}
		return st.each(func() (err error) {
			n := transfer.Node{Seq: uint64(st.int(1)), Version: uint64(st.int(2)), Gone: st.int(4) != 0}
			if n.URI, err = r.uri(0); err != nil {
				return err
			}
			space, err := r.text(st.int(3))
			if err != nil {
				return err
			}
			n.Space = resource.Space(space)
			if n.State, err = r.text(st.int(5)); err != nil {
				return err
			}
			all, err := decodeRefs(st.view(6))
			if err != nil {
				return err
			}
			for _, t := range all.terms {
				name, err := r.text(t.name)
				if err != nil {
					return err
				}
				n.Terms = append(n.Terms, store.Term{Name: name, Value: t.value})
			}
			for _, p := range all.places {
				list, err := listURI(c, lists, p.list)
				if err != nil {
					return err
				}
				n.Places = append(n.Places, store.Place{List: list, Pos: p.pos})
			}
			n.Sort()
			return each(n)
		})
	})
}

// listURI returns the resource that a list belongs to.
func listURI(c *conn, known map[int64]resource.URI, list int64) (resource.URI, error) {
	if u, ok := known[list]; ok {
		return u, nil
	}
	var u resource.URI
	st := c.prepare("SELECT key FROM list WHERE id = ?").argInt(list)
	found, err := st.first(func() (err error) {
		u, err = resource.FromKey(st.view(0))
		return err
	})
	if err == nil && !found {
		err = errRefs
	}
	known[list] = u
	return u, err
}

// Seals implements transfer.Reader.
func (s *Store) Seals(ctx context.Context, after uint64) iter.Seq2[transfer.Seal, error] {
	return stream(ctx, s, func(c *conn, each func(transfer.Seal) error) error {
		st := c.prepare("SELECT l.first, l.hash, s.key, l.tags FROM seal l LEFT JOIN salt s ON s.id = l.salt WHERE l.first > ? ORDER BY l.first").argInt(int64(after))
		return st.each(func() error {
			x := transfer.Seal{First: uint64(st.int(0)), Salts: st.bytes(2), Tags: st.bytes(3)}
			copy(x.Hash[:], st.view(1))
			return each(x)
		})
	})
}

// Transfer is a database that is being filled from another store. Until Finish, it
// is a file beside the one that it becomes.
type Transfer struct {
	*Store
	c    *conn
	p    *planner
	goal string // the database that it becomes
	lock *FileLock
}

// NewTransfer begins or continues to fill the database at a path, which must not
// exist yet (transfer_refused).
func NewTransfer(path string) (*Transfer, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Conflict, "transfer_refused", "there is a database at %s already", path).
			WithHint("move it away, or name another data folder")
	}
	lock, err := TakeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	t := &Transfer{goal: path, lock: lock}
	if err := t.open(); err != nil {
		return nil, errors.Join(coded(path, err), t.Close())
	}
	return t, nil
}

func (t *Transfer) open() error {
	steps, err := schema()
	if err != nil {
		return err
	}
	s := &Store{path: t.goal + ".part", log: slog.New(slog.DiscardHandler), names: newNames(), window: scanWindow}
	s.codec = sync.OnceValues(func() (*codec, error) { return newCodec(maxBlob) })
	s.readers = newPool(1, s.openReader)
	t.Store = s
	version, err := s.schemaVersion(len(steps))
	if err != nil {
		return err
	}
	if t.c, err = openConn(s.path, sqlite3.OpenReadWrite); err != nil {
		return err
	}
	if err := s.prepareWriter(t.c, version, steps); err != nil {
		return err
	}
	s.writer = nil // it has not been started, and nothing is committed through it
	t.p = newPlanner(t.c, s)
	return t.c.exec("CREATE TABLE IF NOT EXISTS transfer (source BLOB NOT NULL)")
}

// Close ends the transfer as far as it has come.
func (t *Transfer) Close() error {
	var err error
	if t.Store != nil {
		err = t.readers.close()
	}
	if t.c != nil {
		err = errors.Join(err, t.c.close())
	}
	return errors.Join(err, t.lock.Release())
}

// Begin implements transfer.Target.
func (t *Transfer) Begin(_ context.Context, source string) (at transfer.Progress, err error) {
	was := ""
	st := t.c.prepare("SELECT source FROM transfer")
	found, err := st.first(func() error {
		was = string(st.view(0))
		return nil
	})
	switch {
	case err != nil:
		return at, err
	case !found:
		return at, t.c.prepare("INSERT INTO transfer (source) VALUES (?)").argText(source).run()
	case was != source:
		return at, fault.New(fault.Conflict, "transfer_refused", "%s is the beginning of a copy of something else, or its source has changed since", t.path).
			WithHint("remove it, and begin again")
	}
	entry, err := t.c.number("SELECT max(seq) FROM log")
	if err != nil {
		return at, err
	}
	seal, err := t.c.number("SELECT max(first) FROM seal")
	at.Entry, at.Seal = uint64(entry), uint64(seal)
	last := t.c.prepare("SELECT max(key) FROM tree")
	_, err2 := last.first(func() error {
		at.Node = last.bytes(0)
		return nil
	})
	return at, errors.Join(err, err2)
}

// page writes a page in one transaction.
func (t *Transfer) page(write func() error) error {
	err := t.c.exec("BEGIN IMMEDIATE")
	if err == nil {
		err = write()
	}
	if err == nil {
		err = t.c.exec("COMMIT")
	}
	if err != nil {
		if t.c.inTransaction() {
			err = errors.Join(err, t.c.exec("ROLLBACK"))
		}
		return coded(t.path, err)
	}
	for k, id := range t.p.newNames {
		t.names.add(k, id)
	}
	clear(t.p.newNames)
	return nil
}

// PutEntries implements transfer.Target.
func (t *Transfer) PutEntries(_ context.Context, page []transfer.Entry) error {
	return t.page(func() error {
		for i := range page {
			if err := t.putEntry(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *Transfer) putEntry(e *transfer.Entry) error {
	var ids [4]int64
	for i, w := range []nameKey{{spaceName, string(e.Space)}, {actorName, e.Actor}, {typeName, e.URI.Type()}, {stateName, e.State}} {
		if w.kind == stateName && w.text == "" {
			continue
		}
		var err error
		if ids[i], err = t.p.intern(w.kind, w.text); err != nil {
			return err
		}
	}
	var request []byte
	if !e.Request.Zero() {
		request = e.Request[:]
	}
	st := t.c.prepare(insertLog).
		argInt(int64(e.Seq), e.At.UnixMicro(), ids[0], ids[1], int64(e.Op), ids[2], int64(e.Version), int64(e.Prev)).
		argID(ids[3]).argSome(request).argBlob(e.URI.Key())
	if e.Op == resource.OpPut && !e.Erased {
		st.argBlob(e.Body)
	} else {
		st.argNull()
	}
	if err := st.run(); err != nil || e.Scar == (store.Hash{}) {
		return err
	}
	return t.c.prepare(insertScar).argInt(int64(e.Seq)).argBlob(e.Scar[:]).run()
}

// PutNodes implements transfer.Target.
func (t *Transfer) PutNodes(_ context.Context, page []transfer.Node) error {
	return t.page(func() error {
		for i := range page {
			if err := t.putNode(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *Transfer) putNode(x *transfer.Node) (err error) {
	n := &node{seq: x.Seq, version: x.Version, gone: x.Gone}
	if n.space, err = t.p.intern(spaceName, string(x.Space)); err != nil {
		return err
	}
	if n.typ, err = t.p.intern(typeName, x.URI.Type()); err != nil {
		return err
	}
	if x.State != "" {
		if n.state, err = t.p.intern(stateName, x.State); err != nil {
			return err
		}
	}
	if n.refs.terms, err = t.p.terms(x.Terms); err != nil {
		return err
	}
	for _, p := range x.Places {
		l, err := t.p.list(p.List, true)
		if err != nil {
			return err
		}
		n.refs.places = append(n.refs.places, slot{l.id, p.Pos})
	}
	return t.p.writeNode(x.URI, &node{}, n)
}

// PutSeals implements transfer.Target.
func (t *Transfer) PutSeals(_ context.Context, page []transfer.Seal) error {
	return t.page(func() error {
		for _, x := range page {
			row, err := t.c.prepare(insertSalt).argBlob(x.Salts).number()
			if err == nil {
				err = t.c.prepare(insertSeal).argInt(int64(x.First)).argBlob(x.Hash[:]).argInt(row).argBlob(x.Tags).run()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements transfer.Target: the file takes its place.
func (t *Transfer) Finish(context.Context) error {
	if err := t.c.exec("DROP TABLE transfer; PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return coded(t.path, err)
	}
	err := errors.Join(t.readers.close(), t.c.close())
	t.c, t.readers = nil, newPool(0, nil)
	if err == nil {
		err = os.Rename(t.path, t.goal)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(t.goal))
	}
	return coded(t.path, err)
}
