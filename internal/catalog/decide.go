package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

// Approve implements Approver. It approves the content and the announcement with this hash, even if
// the files change a moment later.
func (c *Catalog) Approve(ctx context.Context, by, path, hash string, set map[string]ToolSetting) (Listing, error) {
	u, insp, err := c.inspect(ctx, path, false)
	if err != nil {
		return Listing{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(u.faults()) > 0 {
		return Listing{}, invalidAgent(u)
	}
	now, err := c.find(path)
	if err != nil {
		return Listing{}, err
	}
	said := u.announced
	if now != u || said == nil || hash != said.hash {
		return Listing{}, fault.New(fault.Conflict, "agent_changed", "%s has changed since it was inspected: its hash is %s now", path, short(insp.Hash)).
			Detail("hash", insp.Hash).WithHint("inspect it again: steward agents show %s", path)
	}
	if c.opt.Snapshots != "" && u.runs() {
		if _, err := c.snapshotOf(u); err != nil {
			return Listing{}, err
		}
	}
	a := &approval{Hash: hash, By: by, At: time.Now().UTC(), Items: said.items, Settings: map[string]ToolSetting{}}
	for _, s := range said.specs {
		a.Tools = append(a.Tools, storedSpec{s, string(s.Input)})
	}
	rec := c.records[path]
	if rec != nil && rec.Approved != nil {
		a.keepSettings(rec.Approved)
	}
	if err := a.set(set); err != nil {
		return Listing{}, err
	}
	if said.proposal != nil {
		a.accept(said.proposal)
	}
	next := c.decision(u, by, Approved, "")
	next.Hash, next.Approved = hash, a
	return c.decide(ctx, by, u, next)
}

func short(hash string) string { return hash[:min(12, len(hash))] }

// keepSettings carries over the earlier settings of tools. A setting that made a tool less
// restricted applied to the tool as it was then: if the tool has changed, only the settings that
// make it stricter are kept.
func (a *approval) keepSettings(old *approval) {
	for name, s := range old.Settings {
		if hashIn(a.Items, "tool "+name) != hashIn(old.Items, "tool "+name) {
			if s.Effect == tool.Query {
				s.Effect = ""
			}
			if s.Asks != nil && !*s.Asks {
				s.Asks = nil
			}
			s.Yields, s.Reach, s.Targets = nil, "", nil
		}
		if s != (ToolSetting{}) {
			a.Settings[name] = s
		}
	}
}

// hashIn returns the hash of the item with a name, or "".
func hashIn(items []Item, name string) string {
	for _, it := range items {
		if it.Name == name {
			return it.Hash
		}
	}
	return ""
}

// set applies settings by name or glob: for each tool the most specific one. It refuses a setting
// that matches no tool, and drops old ones of tools that no longer exist.
func (a *approval) set(set map[string]ToolSetting) error {
	var names []string
	used := map[string]bool{}
	for _, s := range a.Tools {
		names = append(names, s.Name)
		if _, how, ok := tool.BestMatch(set, s.Names()...); ok {
			a.Settings[s.Name] = how
		}
		for pattern := range set {
			used[pattern] = used[pattern] || tool.PatternMatches(pattern, s.Names()...)
		}
	}
	for _, name := range sortedKeys(set) {
		if err := set[name].check(); err != nil {
			return err
		}
		if used[name] {
			continue
		}
		e := fault.New(fault.NotFound, "tool_unknown", "it has no tool %s", strict.Clip(visible(name)))
		if near := tool.SimilarNames(name, names, 3); len(near) > 0 {
			return e.WithHint("did you mean %s?", strings.Join(near, " or "))
		}
		return e.WithHint("its tools are %s", listed(names))
	}
	maps.DeleteFunc(a.Settings, func(name string, _ ToolSetting) bool { return !slices.Contains(names, name) })
	return nil
}

// check refuses unknown effects, labels and reaches.
func (t ToolSetting) check() error {
	if e := t.Effect; e != "" && e != tool.Query && e != tool.Action {
		return fault.New(fault.Invalid, "tool_effect_invalid", "the effect of a tool is query or action, not %q", strict.Clip(string(e)))
	}
	var yields any
	if t.Yields != nil {
		yields = *t.Yields
	}
	_, err := tool.Declare(yields, string(t.Reach), nil)
	return err
}

// decision begins a record of a decision about a unit as it is now. Called under mu.
func (c *Catalog) decision(u *unit, by string, s Status, reason string) *record {
	r := &record{Path: u.path, Kind: u.kind, Name: u.name, Status: s, Hash: u.hash, Static: u.hash,
		By: by, At: time.Now().UTC(), Reason: reason}
	if u.announced != nil {
		r.Hash = u.announced.hash
	}
	if u.def != nil {
		r.Description, r.Version, r.Config = u.def.Description, u.def.definition.Version, u.def.Config
	}
	if old := c.records[u.path]; old != nil {
		r.Approved = old.Approved
	}
	return r
}

// decide stores a decision and puts it into effect. Called under mu.
func (c *Catalog) decide(ctx context.Context, by string, u *unit, r *record) (Listing, error) {
	if c.closed {
		return Listing{}, errClosed()
	}
	if err := c.save(ctx, by, r); err != nil {
		return Listing{}, err
	}
	c.log.Info("agent "+string(r.Status), "agent", r.Path, "by", by, "hash", short(r.Hash), "reason", r.Reason)
	c.settleNames()
	c.publish()
	return c.listing(u), nil
}

// Deny implements Approver.
func (c *Catalog) Deny(ctx context.Context, by, path, reason string) (Listing, error) {
	return c.refuse(ctx, by, path, reason, Denied)
}

// Revoke implements Approver. A unit that was never approved cannot be revoked
// (agent_not_approved, Conflict).
func (c *Catalog) Revoke(ctx context.Context, by, path, reason string) (Listing, error) {
	return c.refuse(ctx, by, path, reason, Revoked)
}

func (c *Catalog) refuse(ctx context.Context, by, path, reason string, s Status) (Listing, error) {
	if err := c.Rescan(ctx); err != nil {
		return Listing{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.find(path)
	if err != nil {
		return Listing{}, err
	}
	if rec := c.records[path]; s == Revoked && (rec == nil || rec.Approved == nil) {
		return Listing{}, fault.New(fault.Conflict, "agent_not_approved", "%s was never approved", path).
			WithHint("to deny it permanently, run steward agents deny %s", path)
	}
	const maxReason = 500
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return c.decide(ctx, by, u, c.decision(u, by, s, reason))
}

// sourceChanged is called by a source whose tools may differ from the approved ones. It returns
// at once.
func (c *Catalog) sourceChanged(u *unit, s *liveSource) {
	if s.changes.Add(1) > 1 || c.life.Err() != nil {
		return // the running comparison will be repeated
	}
	c.work.Go(func() {
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Minute) {
			seen := s.changes.Load()
			c.recheck(u, s)
			if s.changes.CompareAndSwap(seen, 0) {
				return
			}
			select { // rate limit for a source that keeps changing its tools
			case <-c.life.Done():
				return
			case <-time.After(pause):
			}
		}
	})
}

// recheck compares what the sources of an approved unit announce now with what was approved.
func (c *Catalog) recheck(u *unit, s *liveSource) {
	c.mu.Lock()
	status, _ := c.status(u)
	if u.announced = nil; !c.closed {
		c.publish() // what was checked before may no longer exist
	}
	c.mu.Unlock()
	if status != Approved {
		return
	}
	said, err := c.announce(c.life, u)
	if err != nil {
		if c.life.Err() == nil {
			c.log.Warn("a source has changed, and its tools could not be listed", "agent", u.path, "source", s.name, "error", err)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, err := c.find(u.path); err != nil || now != u || c.closed {
		return
	}
	u.announced = said
	c.applyAnnouncement(u, said)
}

// applyAnnouncement applies the announcement of a unit's sources. Approved tools that are unchanged
// stay available. New or different ones are disabled until they are approved, and tools that are no
// longer announced are not offered. Called under mu.
func (c *Catalog) applyAnnouncement(u *unit, said *announced) {
	u.lastAnnounced = said
	status, _ := c.status(u)
	if status != Approved {
		return
	}
	rec := c.records[u.path]
	d := u.differs(rec)
	news, lost := u.notYetLogged(d.Waiting, said), u.notYetLogged(d.Gone, said)
	if len(news) > 0 {
		c.log.Warn("tools are disabled until they are approved: they are new or have changed",
			"agent", u.path, "tools", listed(news), "remedy", "review them: steward agents approve "+u.path)
	}
	if len(lost) > 0 {
		c.log.Warn("approved tools are no longer offered", "agent", u.path, "tools", listed(lost))
	}
	// The difference is stored for the next start, when the sources have announced nothing yet.
	// It is stored once per change, however often a source goes back and forth.
	if len(news)+len(lost) > 0 || d.same() && !rec.Differs.same() {
		if err := c.saveDifference(c.life, rec, d); err != nil && c.life.Err() == nil {
			c.log.Error("the changed tools of a source could not be stored", "agent", u.path, "error", err)
		}
	}
	c.publish()
}

// difference says how what is announced differs from what was approved.
type difference struct {
	Hash    string   `json:"hash,omitzero"`    // of what is announced
	Waiting []string `json:"waiting,omitzero"` // tools that are new or different
	Gone    []string `json:"gone,omitzero"`    // tools that are no longer announced
}

func (d difference) same() bool { return len(d.Waiting)+len(d.Gone) == 0 }

func (d difference) off(name string) bool {
	return slices.Contains(d.Waiting, name) || slices.Contains(d.Gone, name)
}

// differs compares the last announcement of a unit with what was approved.
func (u *unit) differs(rec *record) difference {
	if u.lastAnnounced == nil {
		return rec.Differs
	}
	d := difference{Hash: u.lastAnnounced.hash}
	was := map[string]string{}
	for _, it := range rec.Approved.Items {
		if name, ok := strings.CutPrefix(it.Name, "tool "); ok {
			was[name] = it.Hash
		}
	}
	for _, it := range u.lastAnnounced.items {
		name, ok := strings.CutPrefix(it.Name, "tool ")
		if ok && was[name] != it.Hash {
			d.Waiting = append(d.Waiting, name)
		}
		delete(was, name)
	}
	d.Gone = sortedKeys(was)
	return d
}

// notYetLogged returns the tools that were not already logged in this form.
func (u *unit) notYetLogged(names []string, said *announced) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		key := name + " " + hashIn(said.items, "tool "+name)
		if u.logged[key] {
			return true
		}
		if len(u.logged) >= maxTools || u.logged == nil {
			u.logged = map[string]bool{}
		}
		u.logged[key] = true
		return false
	})
}
