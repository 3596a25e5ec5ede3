package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// The types of the catalog's resources, in the system's space. An agent's resource is below that of
// the agent above it, and its tools are below its own.
const (
	TypeAgent  = "agent.Agent"
	TypeSource = "tool.Source"
	TypeTool   = "tool.Tool"
)

// record is a decision about an agent or a source: the body of its resource. Each decision is a
// version of it.
type record struct {
	Path        string          `json:"path"`
	Kind        string          `json:"kind"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Version     string          `json:"version,omitzero"`
	Config      json.RawMessage `json:"config,omitempty"`
	Status      Status          `json:"status"`
	Hash        string          `json:"hash"`   // of the content that was decided on
	Static      string          `json:"static"` // of the part that is known without starting anything
	By          string          `json:"by"`
	At          time.Time       `json:"at"`
	Reason      string          `json:"reason,omitzero"`
	Approved    *approval       `json:"approved,omitzero"` // the last one, even if it is no longer in force
	Differs     difference      `json:"differs,omitzero"`  // between the last announcement and the approval
	Listed      []string        `json:"listed,omitempty"`  // tools that have a resource

	version uint64
}

// approval is the approved content of a unit.
type approval struct {
	Hash     string                 `json:"hash"`
	By       string                 `json:"by"`
	At       time.Time              `json:"at"`
	Items    []Item                 `json:"items"`
	Tools    []storedSpec           `json:"tools,omitempty"`
	Settings map[string]ToolSetting `json:"settings,omitempty"`
}

// storedSpec is a tool's spec as announced. Its schema is stored as the original text, because a
// fingerprint covers the bytes.
type storedSpec struct {
	tool.Spec
	Input string
}

// specs returns the tools that may be used, with the person's settings.
func (a *approval) specs() []tool.Spec {
	var out []tool.Spec
	for _, s := range a.Tools {
		if set := a.Settings[s.Name]; !set.Off {
			s.Spec.Input = []byte(s.Input)
			out = append(out, set.apply(s.Spec))
		}
	}
	return out
}

// apply changes a tool as the person has set it.
func (t ToolSetting) apply(s tool.Spec) tool.Spec {
	switch t.Effect {
	case tool.Query:
		s.Effect, s.Delivery = tool.Query, ""
	case tool.Action:
		if s.Effect != tool.Action && len(s.Targets) == 0 {
			s.Targets = nil // any argument of an action may lead somewhere
		}
		s.Effect = tool.Action
	}
	if t.Asks != nil {
		s.Asks = *t.Asks
	}
	if t.Yields != nil {
		if l, err := message.ParseLabels(strings.Join(*t.Yields, ",")); err == nil { // check has validated it
			s.Yields = l
		}
	}
	if t.Reach != "" {
		s.Reach = t.Reach
	}
	if t.Targets != nil {
		s.Targets = append([]string{}, *t.Targets...)
	}
	return s
}

func (a *approval) names() []string {
	var out []string
	for _, s := range a.specs() {
		out = append(out, s.Name)
	}
	return out
}

// uriOf returns the URI of the record of a path.
func uriOf(kind, path string) resource.URI {
	if kind == KindSource {
		return resource.Root(TypeSource, path)
	}
	var u resource.URI
	for name := range strings.SplitSeq(path, "/") {
		u = u.Child(TypeAgent, name)
	}
	return u
}

// readRecords reads all decisions.
func readRecords(ctx context.Context, st store.Store) (map[string]*record, error) {
	out := map[string]*record{}
	for _, typ := range []string{TypeAgent, TypeSource} {
		for it, err := range store.Items(ctx, st, store.ForNode(resource.System), store.Query{Type: typ}) {
			if err != nil {
				return nil, err
			}
			if it.Space != resource.System {
				continue
			}
			r := &record{version: it.Version}
			if err := json.Unmarshal(it.Body, r); err != nil {
				return nil, fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", it.URI, err).
					WithHint("run steward doctor, and restore the data folder from a backup if it reports damage")
			}
			if uriOf(r.Kind, r.Path) == it.URI && (r.Status != Approved || r.Approved != nil) {
				out[r.Path] = r
			}
		}
	}
	return out, nil
}

// Told learns from the log that a resource in the system's space has changed: decisions that another node over the same
// store has made are in effect here too. Its own are known already.
func (c *Catalog) Told(ctx context.Context, at resource.URI, version uint64) error {
	if typ := at.Type(); typ != TypeAgent && typ != TypeSource {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if r.version == version && uriOf(r.Kind, r.Path) == at {
			return nil
		}
	}
	fresh, err := readRecords(ctx, c.opt.Store)
	if err != nil || c.closed {
		return err
	}
	c.records = fresh
	c.scan()
	return nil
}

// saveDifference stores the difference between announcement and approval with the last decision. Called under
// mu.
func (c *Catalog) saveDifference(ctx context.Context, rec *record, d difference) error {
	next := *rec
	next.Differs = d
	return c.commit(ctx, "system", &next, store.Batch{})
}

// save stores a decision with the tools that it allows. Called under mu.
func (c *Catalog) save(ctx context.Context, actor string, r *record) error {
	old := c.records[r.Path]
	uri := uriOf(r.Kind, r.Path)
	var b store.Batch
	if r.Listed = nil; r.Status == Approved {
		r.Listed = r.Approved.names()
		for _, s := range r.Approved.specs() {
			b.Changes = append(b.Changes, store.Change{URI: uri.Child(TypeTool, s.Name), Body: toolBody(s)})
		}
	}
	if old != nil {
		for _, name := range old.Listed {
			if !slices.Contains(r.Listed, name) {
				b.Changes = append(b.Changes, store.Change{Op: store.Delete, URI: uri.Child(TypeTool, name)})
			}
		}
	}
	return c.commit(ctx, actor, r, b)
}

// commit stores a record together with other changes. Called under mu.
func (c *Catalog) commit(ctx context.Context, actor string, r *record, b store.Batch) error {
	old := c.records[r.Path]
	body, err := json.Marshal(r)
	if err != nil {
		return fault.New(fault.Internal, "approval_unwritable", "the decision about %s cannot be written: %w", r.Path, err)
	}
	cond := store.If{Absent: true}
	if old != nil {
		cond = store.If{Version: old.version}
	}
	b.Changes = append(b.Changes, store.Change{URI: uriOf(r.Kind, r.Path), Body: body, If: cond})
	sc := store.Scope{Actor: actor, Read: []resource.Space{resource.System}, Write: resource.System}
	rc, err := c.opt.Store.Commit(ctx, sc, b)
	if err != nil {
		return err
	}
	r.version = rc.Versions[len(rc.Versions)-1]
	c.records[r.Path] = r
	return nil
}

// toolBody returns the body of a tool's resource: the function in OpenAI's form, for planners and
// other programs, and Steward's own facts about it.
func toolBody(s tool.Spec) []byte {
	b, err := json.Marshal(struct {
		OpenAI  json.RawMessage `json:"openai"`
		Name    string          `json:"name"`
		Effect  tool.Effect     `json:"effect"`
		Asks    bool            `json:"asks,omitzero"`
		Origin  string          `json:"origin"`
		Version string          `json:"version,omitzero"`
	}{tool.OpenAIFunction(s), s.Name, s.Effect, s.Asks, s.Origin, s.Version})
	if err != nil {
		panic(err) // plain values and JSON that was checked: cannot fail
	}
	return b
}
