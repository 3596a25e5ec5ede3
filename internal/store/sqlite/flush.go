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
	renewTree   = "UPDATE tree SET seq = ?, version = ? WHERE key = ?" // leaves the index of states alone
	deleteTerm  = "DELETE FROM term WHERE space = ? AND name = ? AND value = ? AND seq = ?"
	insertTerm  = "INSERT INTO term (space, name, value, seq) VALUES (?, ?, ?, ?)"
	deletePlace = "DELETE FROM place WHERE list = ? AND pos = ? AND space = ?"
	insertPlace = "INSERT INTO place (seq, list, pos, space) VALUES (?, ?, ?, ?)"
	updatePlace = "UPDATE place SET seq = ? WHERE list = ? AND pos = ? AND space = ?"

	// The versions of a resource from one entry back, up to an erasure, whose
	// own were emptied by it.
	versions = `WITH RECURSIVE v(seq, op, prev) AS (
		SELECT seq, op, prev FROM log WHERE seq = ?
		UNION ALL SELECT l.seq, l.op, l.prev FROM v CROSS JOIN log l ON l.seq = v.prev WHERE v.op <> 3) `
	eraseScars = versions + `SELECT l.seq, l.op, l.body FROM v CROSS JOIN log l ON l.seq = v.seq WHERE l.body IS NOT NULL`
	eraseApart = versions + `UPDATE pack SET body = NULL
		WHERE id IN (SELECT l.body FROM v CROSS JOIN log l ON l.seq = v.seq WHERE v.op & 32)`
	eraseLog = versions + `UPDATE log SET op = op & 15, body = NULL
		WHERE seq IN (SELECT seq FROM v) AND body IS NOT NULL`
)

// flush writes what the group became: the log's entries, and for each changed
// resource the step from what it was to what it is.
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
	// All that goes makes room before anything comes.
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
	if err := p.takeUp(e); err != nil || e.op != resource.OpErase {
		return err
	}
	return p.erase(e.prev)
}

// erase takes the bodies of a resource's versions out of the log, for good:
// secure_delete has SQLite overwrite with zeros what becomes free, in pages
// that stay in use and in those that go to the list of free ones. That is so
// in the write-ahead log's new pages at first; the old ones stand in the
// database file, and in the log's earlier part if the bodies came lately,
// until a checkpoint. So scrub makes one before the erasure is acknowledged,
// and cuts the log off. What is out of reach: blocks that the file system
// freed, and copies of the database that were made before.
//
// No second copy lies about in the file. SQLite can leave one behind where
// it moves rows between pages to make room; but the rows of the log and of
// the table pack are only appended, and never come to need more room.
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

// scars has the audit chain keep the salted hashes of bodies that go.
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
		return nil // only taken out of a list
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
