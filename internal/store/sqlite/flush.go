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
	insertPlace = "INSERT INTO place (list, pos, space, seq) VALUES (?, ?, ?, ?)"
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
	s, err := p.c.prepare(insertLog)
	if err != nil {
		return err
	}
	s.argInt(int64(e.seq)).argInt(p.at).argInt(e.space).argInt(e.actor).argInt(int64(e.op)).argInt(e.typ).
		argInt(int64(e.version)).argInt(int64(e.prev)).argID(e.state)
	if e.request == nil {
		s.argNull()
	} else {
		s.argBlob(e.request)
	}
	s.argBlob(e.change.URI.Key())
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
		s, err := p.c.prepare(sql)
		if err != nil {
			return err
		}
		if err := s.argInt(int64(newest)).run(); err != nil {
			return err
		}
	}
	return nil
}

// scars has the audit chain keep the salted hashes of bodies that go.
func (p *planner) scars(newest uint64) error {
	s, err := p.c.prepare(eraseScars)
	if err != nil {
		return err
	}
	defer s.reset()
	s.argInt(int64(newest))
	r := rows{s: p.seal.s, st: s}
	for {
		ok, err := s.step()
		if err != nil || !ok {
			return err
		}
		body, err := r.body(2, s.int(1))
		if err == nil {
			err = p.seal.scar(uint64(s.int(0)), sha256.Sum256(body))
		}
		if err != nil {
			return err
		}
	}
}

func (p *planner) removeRefs(was, now *node) error {
	if was.seq != now.seq {
		for _, t := range was.refs.terms {
			s, err := p.c.prepare(deleteTerm)
			if err != nil {
				return err
			}
			if err := s.argInt(was.space).argInt(t.name).argText(t.value).argInt(int64(was.seq)).run(); err != nil {
				return err
			}
		}
	}
	for _, pl := range was.refs.places {
		if at, ok := now.refs.in(pl.list); ok && at == pl {
			continue
		}
		s, err := p.c.prepare(deletePlace)
		if err != nil {
			return err
		}
		if err := s.argInt(pl.list).argInt(pl.pos).argInt(was.space).run(); err != nil {
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
	s, err := p.c.prepare(sql)
	if err != nil {
		return err
	}
	s.argInt(int64(now.seq)).argInt(int64(now.version))
	if sql != renewTree {
		gone := int64(0)
		if now.gone {
			gone = 1
		}
		s.argInt(now.space).argInt(now.typ).argInt(gone).argID(now.state)
		if p.buf = now.refs.encode(p.buf[:0]); len(p.buf) == 0 {
			s.argNull()
		} else {
			s.argBlob(p.buf)
		}
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
		s, err := p.c.prepare(insertTerm)
		if err != nil {
			return err
		}
		if err := s.argInt(now.space).argInt(t.name).argText(t.value).argInt(int64(now.seq)).run(); err != nil {
			return err
		}
	}
	for _, pl := range now.refs.places {
		var s *stmt
		var err error
		if at, ok := was.refs.in(pl.list); ok && at == pl {
			if s, err = p.c.prepare(updatePlace); err == nil {
				err = s.argInt(int64(now.seq)).argInt(pl.list).argInt(pl.pos).argInt(now.space).run()
			}
		} else if s, err = p.c.prepare(insertPlace); err == nil {
			err = s.argInt(pl.list).argInt(pl.pos).argInt(now.space).argInt(int64(now.seq)).run()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
