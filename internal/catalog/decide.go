package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"steward/internal/fault"
	"steward/internal/tool"
)

// announced is what the sources of a unit have said that they offer.
type announced struct {
	specs    []tool.Spec // sorted by name
	items    []Item      // of the unit and of the tools
	hash     string
	refused  []string
	warnings []string // of the sources themselves
}

// Inspect implements Approver.
func (c *Catalog) Inspect(ctx context.Context, path string) (Inspection, error) {
	_, insp, err := c.inspect(ctx, path, true)
	return insp, err
}

// inspect reads a unit anew and learns what its sources announce; unless
// fresh, what they have announced to the last inspection is good enough.
func (c *Catalog) inspect(ctx context.Context, path string, fresh bool) (*unit, Inspection, error) {
	if err := c.Rescan(ctx); err != nil {
		return nil, Inspection{}, err
	}
	c.mu.Lock()
	u, err := c.find(path)
	if err != nil {
		c.mu.Unlock()
		return nil, Inspection{}, err
	}
	said, invalid := u.announced, len(u.faults()) > 0
	c.mu.Unlock()
	if !invalid && (said == nil || fresh) {
		if said, err = c.announce(ctx, u); err != nil {
			return nil, Inspection{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !invalid {
		u.announced = said
		c.heard(u, said)
	}
	return u, c.inspection(u), nil
}

// inspection tells all about a unit. Under mu.
func (c *Catalog) inspection(u *unit) Inspection {
	insp := Inspection{Listing: c.listing(u), Hash: u.hash, Items: u.items}
	var specs []tool.Spec
	var refused, more []string
	if a := u.announced; a != nil {
		insp.Hash, insp.Items = a.hash, a.items
		specs, refused, more = a.specs, a.refused, a.warnings
		insp.Tools = nil
		for _, s := range a.specs {
			insp.Tools = append(insp.Tools, s.Name)
		}
	}
	insp.Listing.Hash = insp.Hash
	if rec := c.records[u.path]; rec != nil && rec.Approved != nil {
		insp.Diff = diffItems(rec.Approved.Items, insp.Items)
	}
	insp.Warnings = c.warnings(u, specs, refused, more)
	return insp
}

// announce asks the sources of a unit what they offer: it starts them.
func (c *Catalog) announce(ctx context.Context, u *unit) (*announced, error) {
	a := &announced{}
	count := map[string]int{}
	ctx, cancel := context.WithTimeout(ctx, c.opt.AnnounceTimeout)
	defer cancel()
	for _, s := range u.sources {
		said, err := announceOne(ctx, s)
		if err != nil {
			e := fault.Of(err)
			say := fault.New(e.Kind, e.Code, "what %s offers cannot be learned: %s", whose(u, s), withoutRemedy(e))
			return nil, say.With("%s", e.Remedy).Retrying(e.Retry, e.After)
		}
		if own, ok := s.src.(interface{ Warnings() []string }); ok {
			a.warnings = append(a.warnings, own.Warnings()...)
		}
		for _, err := range said.Refused {
			a.refused = append(a.refused, visible(err.Error()))
		}
		for _, spec := range said.Specs {
			if why := c.unfit(s, &spec); why != "" {
				a.refused = append(a.refused, visible(why))
				continue
			}
			count[spec.Name]++
			a.specs = append(a.specs, spec)
		}
	}
	a.specs = slices.DeleteFunc(a.specs, func(s tool.Spec) bool {
		if count[s.Name] > 1 {
			a.refused = append(a.refused, fmt.Sprintf("%s: there are %d tools of this name; none of them is used", s.Name, count[s.Name]))
		}
		return count[s.Name] > 1
	})
	slices.SortFunc(a.specs, func(x, y tool.Spec) int { return strings.Compare(x.Name, y.Name) })
	slices.Sort(a.refused)
	a.refused = slices.Compact(a.refused)
	a.items = slices.Clone(u.items)
	for _, s := range a.specs {
		a.items = append(a.items, toolItem(s))
	}
	a.hash = hashItems(u.path, a.items)
	return a, nil
}

// whose names a source with its agent.
func whose(u *unit, s *live) string {
	if u.kind == KindSource {
		return u.path
	}
	return s.name + " of " + u.path
}

func announceOne(ctx context.Context, s *live) (tool.Announcement, error) {
	if !s.usage.acquire() {
		return tool.Announcement{}, fault.New(fault.Conflict, "agent_changed", "it has changed meanwhile").With("look at it again")
	}
	defer s.usage.release()
	return s.src.Announce(ctx)
}

const (
	mostTools       = 4096     // of a source
	mostDescription = 16 << 10 // bytes
)

// unfit says why a tool that a source announces cannot be used, or "".
func (c *Catalog) unfit(s *live, spec *tool.Spec) string {
	if category(spec.Name) != s.name {
		return fmt.Sprintf("%s: the tools of %s are named %s.…", spec.Name, s.name, s.name)
	}
	if len(spec.Description) > mostDescription {
		return fmt.Sprintf("%s: its description has %d bytes; at most %d are taken", spec.Name, len(spec.Description), mostDescription)
	}
	if _, _, err := tool.CheckSpec(*spec); err != nil {
		return fmt.Sprintf("%s: %v", spec.Name, err)
	}
	// Where a tool comes from is not for what is outside to say: policy goes by it.
	if _, domain := cutDomain(s.kind); !domain || spec.Origin == "" {
		spec.Origin = s.kind + ":" + s.name
		if domain {
			spec.Origin = s.kind
		}
	}
	return ""
}

// toolItem is a tool as it is approved.
func toolItem(s tool.Spec) Item {
	var b strings.Builder
	if s.FullName != "" {
		fmt.Fprintf(&b, "name in full: %s\n", s.FullName)
	}
	fmt.Fprintf(&b, "effect: %s\n", s.Effect)
	if s.Asks {
		b.WriteString("asks: before each call\n")
	}
	if s.Async {
		b.WriteString("async: its result comes later\n")
	}
	if s.Foreign() && s.Dedupes {
		b.WriteString("dedupes: it recognises the idempotency key, so that it is called again after a crash\n")
	}
	if s.Status != "" {
		fmt.Fprintf(&b, "status: after a crash, %s is asked whether it was done\n", s.Status)
	}
	for _, st := range s.Tidy {
		if s.Foreign() {
			fmt.Fprintf(&b, "makes obsolete: %s\n", st.Told())
		}
	}
	fmt.Fprintf(&b, "origin: %s\n", s.Origin)
	fmt.Fprintf(&b, "yields: %s\nreach: %s\ntargets: %s\n", cmp.Or(s.Yields.String(), "nothing private, nothing of others"), reachOf(s), targetsOf(s))
	if s.For != nil {
		fmt.Fprintf(&b, "for: %s\n", strings.Join(append(slices.Clone(s.For.Users), s.For.Groups...), ", "))
	}
	if m := s.Metadata.Description(); m != "" {
		fmt.Fprintf(&b, "metadata: %s\n", m)
	}
	fmt.Fprintf(&b, "description: %s\n", strings.TrimSpace(s.Description))
	b.WriteString("input: " + indented(s.Input) + "\n")
	sum := sha256.Sum256([]byte(tool.Fingerprint(s) + b.String()))
	return Item{Name: "tool " + s.Name, Hash: hex.EncodeToString(sum[:]), Text: visible(b.String())}
}

// reachOf says where what a tool is given goes.
func reachOf(s tool.Spec) string {
	switch {
	case !s.Out():
		return "here"
	case s.Host != "":
		return "out, to " + s.Host
	}
	return "out"
}

// targetsOf names the arguments that say to whom or where to.
func targetsOf(s tool.Spec) string {
	switch {
	case s.Targets == nil:
		return "any argument"
	case len(s.Targets) == 0:
		return "none"
	}
	return strings.Join(s.Targets, ", ")
}

// diffItems tells what is otherwise, as one unified diff.
func diffItems(was, now []Item) string {
	old := map[string]Item{}
	for _, it := range was {
		old[it.Name] = it
	}
	var b strings.Builder
	for _, it := range now {
		before, there := old[it.Name]
		delete(old, it.Name)
		if before.Hash != it.Hash {
			b.WriteString(diffOne(it.Name, before, it, there, true))
		}
	}
	for _, it := range was {
		if _, gone := old[it.Name]; gone {
			b.WriteString(diffOne(it.Name, it, Item{}, true, false))
		}
	}
	return b.String()
}

func diffOne(name string, was, now Item, wasThere, isThere bool) string {
	text := func(it Item, there bool) []byte {
		if !there || it.Text == "" {
			return []byte(it.Text)
		}
		if was.Text == now.Text { // it differs where the text does not tell
			return fmt.Appendf(nil, "%sSHA-256 %s\n", ended(it.Text), it.Hash)
		}
		return []byte(ended(it.Text))
	}
	name = visible(name)
	out := diff.Diff("approved "+name, text(was, wasThere), "now "+name, text(now, isThere))
	if out == nil { // an empty file has come or gone
		return fmt.Sprintf("--- approved %s\n+++ now %s\n", name, name)
	}
	return string(out)
}

func ended(text string) string {
	if strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// Approve implements Approver. What is approved is what was read and announced
// under this hash, not what is there a moment later.
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
		return Listing{}, fault.New(fault.Conflict, "agent_changed", "%s is not what was looked at: it is %s now", path, short(insp.Hash)).
			Detail("hash", insp.Hash).With("look at it again: steward agents show %s", path)
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
	next := c.decision(u, by, Approved, "")
	next.Hash, next.Approved = hash, a
	return c.decide(ctx, by, u, next)
}

func short(hash string) string { return hash[:min(12, len(hash))] }

// keepSettings takes over how tools were set before. What made a tool freer was
// said of the tool as it was: of one that is otherwise now, only what makes it
// stricter stays.
func (a *approval) keepSettings(old *approval) {
	for name, s := range old.Settings {
		if a.item("tool "+name) != old.item("tool "+name) {
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

// item returns the hash of what was approved under a name.
func (a *approval) item(name string) string {
	for _, it := range a.Items {
		if it.Name == name {
			return it.Hash
		}
	}
	return ""
}

// set takes settings over, by name or glob: for each tool the most specific
// one. It refuses one that means no tool, and drops old ones of tools that are
// not there any more.
func (a *approval) set(set map[string]ToolSetting) error {
	var names []string
	used := map[string]bool{}
	for _, s := range a.Tools {
		names = append(names, s.Name)
		if _, how, ok := tool.Matched(set, s.Names()...); ok {
			a.Settings[s.Name] = how
		}
		for pattern := range set {
			if _, _, ok := tool.Matched(map[string]bool{pattern: true}, s.Names()...); ok {
				used[pattern] = true
			}
		}
	}
	for _, name := range sortedKeys(set) {
		if err := set[name].check(); err != nil {
			return err
		}
		if e := set[name].Effect; e != "" && e != tool.Query && e != tool.Action {
			return fault.New(fault.Invalid, "tool_effect_invalid", "the effect of a tool is query or action, not %q", clip(string(e)))
		}
		if used[name] {
			continue
		}
		e := fault.New(fault.NotFound, "tool_unknown", "it has no tool %s", clip(visible(name)))
		if near := tool.Near(name, names, 3); len(near) > 0 {
			return e.With("did you mean %s?", strings.Join(near, " or "))
		}
		return e.With("its tools are %s", listed(names))
	}
	maps.DeleteFunc(a.Settings, func(name string, _ ToolSetting) bool { return !slices.Contains(names, name) })
	return nil
}

// check refuses labels and reaches that there are not.
func (t ToolSetting) check() error {
	var yields any
	if t.Yields != nil {
		yields = *t.Yields
	}
	_, err := tool.Declare(yields, string(t.Reach), nil)
	return err
}

// decision begins a record of a decision about a unit as it is now. Under mu.
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

// decide keeps a decision and lets it take effect. Under mu.
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

// Revoke implements Approver. What was never approved cannot be revoked
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
			With("steward agents deny %s says no for good", path)
	}
	const mostReason = 500
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return c.decide(ctx, by, u, c.decision(u, by, s, reason))
}

// sourceChanged is called by a source whose tools may not be those that were
// approved. It returns at once.
func (c *Catalog) sourceChanged(u *unit, s *live) {
	if s.checking.Swap(true) || c.life.Err() != nil {
		return
	}
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		defer s.checking.Store(false)
		c.recheck(u, s)
	}()
}

// recheck compares what the sources of an approved unit announce now with what
// was approved.
func (c *Catalog) recheck(u *unit, s *live) {
	c.mu.Lock()
	status, _ := c.status(u)
	if u.announced = nil; !c.closed {
		c.publish() // what was looked at is not known to be there any more
	}
	c.mu.Unlock()
	if status != Approved {
		return
	}
	said, err := c.announce(c.life, u)
	if err != nil {
		if c.life.Err() == nil {
			c.log.Warn("a source has changed and does not say how", "agent", u.path, "source", s.name, "error", err)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, err := c.find(u.path); err != nil || now != u || c.closed {
		return
	}
	u.announced = said
	c.heard(u, said)
}

// heard lets what the sources of a unit announce take effect. What was
// approved and is the same goes on. What is new or different is off until it
// is approved, and what is not announced any more is not offered. Under mu.
func (c *Catalog) heard(u *unit, said *announced) {
	u.heard = said
	status, _ := c.status(u)
	if status != Approved {
		return
	}
	rec := c.records[u.path]
	d := u.differs(rec)
	news, lost := u.untold(d.Waiting, said), u.untold(d.Gone, said)
	if len(news) > 0 {
		c.log.Warn("tools are off until they are approved: they are new, or not as they were approved",
			"agent", u.path, "tools", listed(news), "remedy", "look at them: steward agents approve "+u.path)
	}
	if len(lost) > 0 {
		c.log.Warn("approved tools are not offered any more", "agent", u.path, "tools", listed(lost))
	}
	// It is kept for the next start, when the sources have said nothing yet:
	// once for each news, however often a source changes its mind.
	if len(news)+len(lost) > 0 || d.same() && !rec.Differs.same() {
		if err := c.keep(c.life, rec, d); err != nil && c.life.Err() == nil {
			c.log.Error("what a source offers otherwise than approved could not be kept", "agent", u.path, "error", err)
		}
	}
	c.publish()
}

// difference is how what is announced differs from what was approved.
type difference struct {
	Hash    string   `json:"hash,omitzero"`    // of what is announced
	Waiting []string `json:"waiting,omitzero"` // tools that are new or different
	Gone    []string `json:"gone,omitzero"`    // tools that are not announced
}

func (d difference) same() bool { return len(d.Waiting)+len(d.Gone) == 0 }

func (d difference) off(name string) bool {
	return slices.Contains(d.Waiting, name) || slices.Contains(d.Gone, name)
}

// differs compares what a unit announced last with what was approved.
func (u *unit) differs(rec *record) difference {
	if u.heard == nil {
		return rec.Differs
	}
	d := difference{Hash: u.heard.hash}
	was := map[string]string{}
	for _, it := range rec.Approved.Items {
		if name, ok := strings.CutPrefix(it.Name, "tool "); ok {
			was[name] = it.Hash
		}
	}
	for _, it := range u.heard.items {
		name, ok := strings.CutPrefix(it.Name, "tool ")
		if ok && was[name] != it.Hash {
			d.Waiting = append(d.Waiting, name)
		}
		delete(was, name)
	}
	d.Gone = sortedKeys(was)
	return d
}

// untold returns those of the tools of which the same was not told before.
func (u *unit) untold(names []string, said *announced) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		key := name
		for _, it := range said.items {
			if it.Name == "tool "+name {
				key += " " + it.Hash
			}
		}
		if u.told[key] {
			return true
		}
		if len(u.told) >= mostTools || u.told == nil {
			u.told = map[string]bool{}
		}
		u.told[key] = true
		return false
	})
}

// indented writes JSON for people: what lies deep, on one line.
func indented(b []byte) string {
	var x any
	if err := json.Unmarshal(b, &x); err != nil {
		return string(b)
	}
	var out strings.Builder
	writeJSON(&out, x, 0)
	return out.String()
}

func writeJSON(out *strings.Builder, x any, depth int) {
	m, ok := x.(map[string]any)
	if !ok || depth > 1 || len(m) == 0 {
		var one strings.Builder
		enc := json.NewEncoder(&one)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			panic(err) // what was decoded from JSON: cannot fail
		}
		out.WriteString(strings.TrimSuffix(one.String(), "\n"))
		return
	}
	pad := strings.Repeat("  ", depth)
	out.WriteString("{\n")
	for i, k := range sortedKeys(m) {
		fmt.Fprintf(out, "%s  %q: ", pad, k)
		writeJSON(out, m[k], depth+1)
		if i < len(m)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString(pad + "}")
}
