package catalog

import (
	"fmt"
	"time"

	"steward/internal/strict"
)

// claim is a name that an agent or a source claims on a level.
type claim struct {
	name  string
	by    *unit
	file  string
	place strict.Position
	what  string // describes it in the problems of the others
}

// settleNames decides who gets a name that several claim on one level. A unit that is still as it
// was approved keeps its name, and the others are invalid as long as it is there: an unapproved
// unit never takes anything from an approved one. Of several approved units, the one approved
// first keeps the name. If none is approved, all are invalid, and a person has to rename one.
// Called under mu.
func (c *Catalog) settleNames() {
	claims := map[string][]claim{}
	for _, u := range c.units {
		u.clash = nil
		what := fmt.Sprintf("the agent in %s", u.dir)
		if u.kind == KindSource {
			what = fmt.Sprintf("the source %s in %s", u.path, u.file)
		}
		if !u.isBroken() {
			key := u.above + "\x00" + u.name
			claims[key] = append(claims[key], claim{u.name, u, u.file, u.namePlace(), what})
		}
		if u.kind == KindAgent {
			for _, d := range u.decls {
				key := u.path + "\x00" + d.name
				claims[key] = append(claims[key], claim{d.name, u, d.file, d.node.Position, fmt.Sprintf("the source %s of %s", d.name, u.path)})
			}
		}
	}
	for _, key := range sortedKeys(claims) {
		c.settleName(claims[key])
	}
}

func (c *Catalog) settleName(claims []claim) {
	var owner *unit
	var since time.Time
	for _, cl := range claims {
		at, ok := c.approvedAsItIs(cl.by)
		if ok && (owner == nil || at.Before(since) || at.Equal(since) && owner.grant == nil && cl.by.grant != nil) {
			owner, since = cl.by, at
		}
	}
	for i, cl := range claims {
		for j, other := range claims {
			if i != j && cl.by != owner && cl.by != other.by && (owner == nil || other.by == owner) {
				reporter(cl.file, &cl.by.clash)(cl.place, "name_taken", "rename one of the two", "the name %q is also that of %s", cl.name, other.what)
			}
		}
	}
}

// approvedAsItIs reports whether a unit is still what was approved, and since when.
func (c *Catalog) approvedAsItIs(u *unit) (time.Time, bool) {
	rec := c.records[u.path]
	if rec == nil || rec.Status != Approved || rec.Static != u.hash || len(u.problems) > 0 {
		return time.Time{}, false
	}
	return rec.Approved.At, true
}
