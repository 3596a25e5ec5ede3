package sqlite

import (
	"crypto/sha256"

	"steward/internal/resource"
)

const (
	insertLog = `INSERT INTO log (seq, at, space, actor, op, type, version, prev, state, request, key, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertTree  = "INSERT INTO tree (seq, version, space, type, gone, state, refs, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	updateTree  = "UPDATE tree SET seq = ?, version = ?, space = ?, type = ?, gone = ?, state = ?, refs = ? WHERE key = ?"
	renewTree   = "UPDATE tree SET seq = ?, version = ? WHERE key = ?" // does not touch the index of states
	deleteTerm  = "DELETE FROM term WHERE space = ? AND name = ? AND value = ? AND seq = ?"
	insertTerm  = "INSERT INTO term (space, name, value, seq) VALUES (?, ?, ?, ?)"
	deletePlace = "DELETE FROM place WHERE list = ? AND pos = ? AND space = ?"
	insertPlace = "INSERT INTO place (seq, list, pos, space) VALUES (?, ?, ?, ?)"
	updatePlace = "UPDATE place SET seq = ? WHERE list = ? AND pos = ? AND space = ?"

	// The versions of a resource from one entry back, up to an erasure: the
	// versions before an erasure were emptied by it.
	versions = `WITH RECURSIVE v(seq, op, prev) AS (
		SELECT seq, op, prev FROM log WHERE seq = ?
		UNION ALL SELECT l.seq, l.op, l.prev FROM v CROSS JOIN log l ON l.seq = v.prev WHERE v.op <> 3) `
	eraseScars = versions + `SELECT l.seq, l.op, l.body FROM v CROSS JOIN log l ON l.seq = v.seq WHERE l.body IS NOT NULL`
	eraseApart = versions + `UPDATE pack SET body = NULL
		WHERE id IN (SELECT l.body FROM v CROSS JOIN log l ON l.seq = v.seq WHERE v.op & 32)`
	eraseLog = versions + `UPDATE log SET op = op & 15, body = NULL
		WHERE seq IN (SELECT seq FROM v) AND body IS NOT NULL`
)

// flush writes the group's outcome: the log entries, and for each changed
// resource the difference between its old and new state.
func (p *planner) flush() error {
	for i := range p.entries {
		if err := p.writeEntry(&p.entries[i]); err != nil {
			return err
		}
	}
	if err := p.packAll(); err != nil {
		return err
	}
	if err := p.sealUp(); err != nil {
		return err
	}
	// Deletions go first, to free keys and positions.
	for _, c := range p.changed {
		if err := p.removeRefs(c.was, c.now); err != nil {
			return err
		}
	}
	for _, c := range p.changed {
		if err := p.writeNode(c.uri, c.was, c.now); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) writeEntry(e *entry) error {
	s := p.c.prepare(insertLog).
		argInt(int64(e.seq), p.at, e.space, e.actor, int64(e.op), e.typ, int64(e.version), int64(e.prev)).
		argID(e.state).argSome(e.request).argBlob(e.change.URI.Key())
	if e.op == resource.OpPut {
		s.argBlob(e.change.Body)
	} else {
		s.argNull()
	}
	if err := s.run(); err != nil {
		return err
	}
	if err := p.addToChain(e); err != nil || e.op != resource.OpErase {
		return err
	}
	return p.erase(e.prev)
}

// erase permanently removes the bodies of a resource's versions from the log.
// With secure_delete, SQLite overwrites freed space with zeros, in pages that
// stay in use and in those on the free list. At first that only affects new pages
// in the write-ahead log. The old pages remain in the database file, and recent
// bodies in earlier parts of the write-ahead log, until a checkpoint. So scrub
// runs a checkpoint and truncates the write-ahead log before the erasure is
// acknowledged. Blocks that the file system has freed and earlier copies of the
// database are out of reach.
//
// There is no second copy in the file. SQLite can leave one behind when it moves
// rows between pages to make room. But the rows of the log and of the table pack
// are only appended and never grow.
func (p *planner) erase(newest uint64) error {
	p.erased = true
	if err := p.scars(newest); err != nil {
		return err
	}
	for _, sql := range []string{eraseApart, eraseLog} {
		if err := p.c.prepare(sql).argInt(int64(newest)).run(); err != nil {
			return err
		}
	}
	return nil
}

// scars makes the audit chain keep the salted hashes of erased bodies.
func (p *planner) scars(newest uint64) error {
	s := p.c.prepare(eraseScars).argInt(int64(newest))
	r := rows{s: p.s, st: s}
	return s.each(func() error {
		body, err := r.body(2, s.int(1))
		if err != nil {
			return err
		}
		return p.seal.scar(uint64(s.int(0)), sha256.Sum256(body))
	})
}

func (p *planner) removeRefs(was, now *node) error {
	if was.seq != now.seq {
		for _, t := range was.refs.terms {
			if err := p.c.prepare(deleteTerm).argInt(was.space, t.name).argText(t.value).argInt(int64(was.seq)).run(); err != nil {
				return err
			}
		}
	}
	for _, pl := range was.refs.places {
		if at, ok := now.refs.in(pl.list); ok && at == pl {
			continue
		}
		if err := p.c.prepare(deletePlace).argInt(pl.list, pl.pos, was.space).run(); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) writeNode(u resource.URI, was, now *node) error {
	sql := updateTree
	switch {
	case was.version == 0:
		sql = insertTree
	case was.gone == now.gone && was.state == now.state && was.refs.same(now.refs):
		sql = renewTree
	}
	s := p.c.prepare(sql).argInt(int64(now.seq), int64(now.version))
	if sql != renewTree {
		gone := int64(0)
		if now.gone {
			gone = 1
		}
		p.buf = now.refs.encode(p.buf[:0])
		s.argInt(now.space, now.typ, gone).argID(now.state).argSome(p.buf)
	}
	if err := s.argBlob(u.Key()).run(); err != nil {
		return err
	}
	return p.writeRefs(was, now)
}

func (p *planner) writeRefs(was, now *node) error {
	if was.seq == now.seq {
		return nil // only removed from a list
	}
	for _, t := range now.refs.terms {
		if err := p.c.prepare(insertTerm).argInt(now.space, t.name).argText(t.value).argInt(int64(now.seq)).run(); err != nil {
			return err
		}
	}
	for _, pl := range now.refs.places {
		sql := insertPlace
		if at, ok := was.refs.in(pl.list); ok && at == pl {
			sql = updatePlace
		}
		if err := p.c.prepare(sql).argInt(int64(now.seq), pl.list, pl.pos, now.space).run(); err != nil {
			return err
		}
	}
	return nil
}
