package sqlite

import (
	"context"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
)

// Verify implements store.Sealer. Besides the chain it checks that the tree shows
// each resource's newest entry, and that missing bodies were erased by a recorded
// erasure. It costs about as much as reading the whole log.
func (s *Store) Verify(ctx context.Context, anchors ...store.Head) (store.Verdict, error) {
	var v *chain.Verifier
	err := s.read(ctx, func(c *conn) error {
		l, err := s.ledger(c, 0)
		if err != nil {
			return err
		}
		defer l.close()
		v = chain.NewVerifier(l, 1)
		if err := v.Verify(anchors, l.tree); err != nil {
			return err
		}
		if v.Flaw == nil {
			return l.orphans(v)
		}
		return l.name(v.Flaw)
	})
	if err != nil {
		return store.Verdict{}, err
	}
	return v.Verdict, nil
}

// Damage runs SQLite's own integrity check over the whole file, including
// indexes, and returns at most 20 lines of findings. No lines means that the file
// is intact. Reading a damaged page may fail with store_broken.
func (s *Store) Damage(ctx context.Context) (found []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		found, err = damage(c)
		return err
	})
	return found, err
}

// name sets the URI of a flaw, if it can be read.
func (l *ledger) name(f *store.Flaw) error {
	if !f.URI.Zero() {
		return nil
	}
	st := l.c.prepare("SELECT key FROM log WHERE seq = ?").argInt(int64(f.Seq))
	_, err := st.first(func() error {
		if uri, err := resource.FromKey(st.view(0)); err == nil {
			f.URI = uri
		}
		return nil
	})
	return err
}

// tree reads the rows of the tree for the verifier.
func (l *ledger) tree(each func(seq uint64, key []byte, fits bool) error) error {
	st := l.c.prepare(`SELECT t.seq, t.key, l.seq IS NOT NULL AND t.key = l.key AND t.version = l.version AND t.space = l.space
			AND t.type = l.type AND t.gone = (l.op & 15 <> 1) AND (t.gone OR t.state IS l.state)
		FROM tree t LEFT JOIN log l ON l.seq = t.seq`)
	return st.each(func() error { return each(uint64(st.int(0)), st.view(1), st.int(2) == 1) })
}

// orphans finds salts whose seal is missing.
func (l *ledger) orphans(v *chain.Verifier) error {
	n, err := l.c.number("SELECT count(*) FROM salt WHERE key NOT NULL AND id NOT IN (SELECT salt FROM seal)")
	if err == nil && n > 0 {
		v.Blame(&store.Flaw{Seq: v.Head.Seq + 1, Through: v.Last, What: "the seals over these entries are missing"})
		return l.name(v.Flaw)
	}
	return err
}
