package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"steward/internal/fault"
	"steward/internal/service"
	"steward/internal/tool"
)

// announced is what the sources of a unit have announced.
type announced struct {
	specs    []tool.Spec // sorted by name
	items    []Item      // of the unit and of the tools
	hash     string
	refused  []string
	warnings []string  // from the sources themselves
	proposal *proposal // for their data; nil: none was made yet
}

// Inspect implements Approver.
func (c *Catalog) Inspect(ctx context.Context, path string) (Inspection, error) {
	_, insp, err := c.inspect(ctx, path, true)
	return insp, err
}

// inspect reads a unit again and has its sources announce their tools. Unless fresh is set, the
// announcement of the last inspection is reused.
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
	was, invalid := u.announced, len(u.faults()) > 0
	var proposed *proposal
	if was != nil {
		proposed = was.proposal
	}
	c.mu.Unlock()
	said := was
	if !invalid && (said == nil || fresh) {
		if said, err = c.announce(ctx, u); err != nil {
			return nil, Inspection{}, err
		}
	}
	if !invalid && (proposed == nil || was.hash != said.hash) {
		proposed = c.reviewTools(ctx, said.specs)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !invalid {
		said.proposal = proposed
		u.announced = said
		c.applyAnnouncement(u, said)
	}
	return u, c.inspection(u), nil
}

// inspection describes everything about a unit. Called under mu.
func (c *Catalog) inspection(u *unit) Inspection {
	insp := Inspection{Listing: c.listing(u), Hash: u.hash, Items: u.items}
	var specs []tool.Spec
	var refused, more []string
	if a := u.announced; a != nil {
		insp.Hash, insp.Items = a.hash, a.items
		specs, refused, more = a.specs, a.refused, a.warnings
		if a.proposal != nil && slices.ContainsFunc(a.specs, tool.Spec.Foreign) {
			insp.Data = a.proposal.how
		}
		insp.Tools = nil
		for _, s := range a.specs {
			insp.Tools = append(insp.Tools, s.Name)
		}
	}
	insp.Listing.Hash = insp.Hash
	if rec := c.records[u.path]; rec != nil && rec.Approved != nil {
		insp.Diff = diffItems(rec.Approved.Items, insp.Items)
	}
	if old := c.renamedFrom(u, insp.Items); old != "" {
		more = append(slices.Clone(more), fmt.Sprintf("it has the content of %s, which no longer exists: if you renamed it, its stored data (state, database and STEWARD_DATA) stays under the old name; rename it back to keep using that data", old))
	}
	insp.Warnings = c.warnings(u, specs, refused, more)
	return insp
}

// announce starts the sources of a unit and asks for their tools.
func (c *Catalog) announce(ctx context.Context, u *unit) (*announced, error) {
	a := &announced{}
	count := map[string]int{}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	for _, s := range u.sources {
		said, err := announceOne(ctx, s)
		if err != nil {
			e := fault.Of(err)
			say := fault.New(e.Kind, e.Code, "cannot list the tools of %s: %s", sourceLabel(u, s), withoutRemedy(e))
			return nil, say.WithHint("%s", e.Remedy).Retrying(e.Retry, e.After)
		}
		if own, ok := s.src.(interface{ Warnings() []string }); ok {
			a.warnings = append(a.warnings, own.Warnings()...)
		}
		for _, err := range said.Refused {
			a.refused = append(a.refused, visible(err.Error()))
		}
		for _, spec := range said.Specs {
			if why := c.unusableReason(s, &spec); why != "" {
				a.refused = append(a.refused, visible(why))
				continue
			}
			count[spec.Name]++
			a.specs = append(a.specs, spec)
		}
	}
	a.warnings = append(a.warnings, missingPackages(ctx, u)...)
	a.specs = slices.DeleteFunc(a.specs, func(s tool.Spec) bool {
		if count[s.Name] > 1 {
			a.refused = append(a.refused, fmt.Sprintf("%s: %d tools have this name; none of them is used", s.Name, count[s.Name]))
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

// sourceLabel returns the name of a source with that of its agent.
func sourceLabel(u *unit, s *liveSource) string {
	if u.kind == KindSource {
		return u.path
	}
	return s.name + " of " + u.path
}

func announceOne(ctx context.Context, s *liveSource) (tool.Announcement, error) {
	if !s.usage.acquire() {
		return tool.Announcement{}, fault.New(fault.Conflict, "agent_changed", "it has changed in the meantime").WithHint("inspect it again")
	}
	defer s.usage.release()
	return s.src.Announce(ctx)
}

const (
	maxTools        = 4096     // of a source
	maxDescription  = 16 << 10 // bytes
	announceTimeout = time.Minute
)

// unusableReason returns why an announced tool cannot be used, or "".
func (c *Catalog) unusableReason(s *liveSource, spec *tool.Spec) string {
	if sourceOf(*spec) != s.name {
		return fmt.Sprintf("%s: the tools of %s are named %s.…", spec.Name, s.name, s.name)
	}
	if len(spec.Description) > maxDescription {
		return fmt.Sprintf("%s: its description has %d bytes; the limit is %d", spec.Name, len(spec.Description), maxDescription)
	}
	if _, _, err := tool.CheckSpec(*spec); err != nil {
		return fmt.Sprintf("%s: %v", spec.Name, err)
	}
	// Policies rely on the origin, so a source from outside must not choose it.
	if spec.Origin = s.kind + ":" + s.name; s.kind == string(service.State) || s.kind == string(service.DB) {
		spec.Origin = tool.OriginOwn
	}
	return ""
}

// toolItem returns a tool as an item of an approval. The hash covers this text, so changing its
// format would invalidate all approvals.
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
			fmt.Fprintf(&b, "makes obsolete: %s\n", st.Description())
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

// reachOf describes where a tool's arguments go.
func reachOf(s tool.Spec) string {
	switch {
	case !s.Out():
		return "here"
	case s.Host != "":
		return "out, to " + s.Host
	}
	return "out"
}

// targetsOf lists the arguments that name recipients or destinations.
func targetsOf(s tool.Spec) string {
	switch {
	case s.Targets == nil:
		return "any argument"
	case len(s.Targets) == 0:
		return "none"
	}
	return strings.Join(s.Targets, ", ")
}

// diffItems returns the differences between two lists of items as one unified diff.
func diffItems(was, now []Item) string {
	old := map[string]Item{}
	for _, it := range was {
		old[it.Name] = it
	}
	var b strings.Builder
	for _, it := range now {
		if before := old[it.Name]; before.Hash != it.Hash {
			b.WriteString(diffOne(before, it))
		}
		delete(old, it.Name)
	}
	for _, it := range was {
		if _, gone := old[it.Name]; gone {
			b.WriteString(diffOne(it, Item{}))
		}
	}
	return b.String()
}

func diffOne(was, now Item) string {
	text := func(it Item) []byte {
		switch {
		case it.Text == "":
			return nil
		case was.Text == now.Text: // only the hashes differ
			return fmt.Appendf(nil, "%sSHA-256 %s\n", ended(it.Text), it.Hash)
		}
		return []byte(ended(it.Text))
	}
	name := visible(cmp.Or(now.Name, was.Name))
	out := diff.Diff("approved "+name, text(was), "now "+name, text(now))
	if out == nil { // an empty file was added or removed
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

// indented writes JSON for people, with deep levels on one line.
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
			panic(err) // it was decoded from JSON: cannot fail
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
