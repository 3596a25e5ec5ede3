package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Limits on what a server may announce.
const (
	maxTools       = 20_000
	maxName        = 1 << 10
	maxDescription = 16 << 10
	maxSchema      = 256 << 10
	maxListing     = 32 << 20 // bytes of all descriptions and schemas
	relistAfter    = time.Second
)

// offer is a tool that a server offers.
type offer struct {
	spec     tool.Spec
	remote   string // its name on the server; empty: one of Steward's own tools over the server
	call     caller // nil: a tool of the server
	identity string
}

// list asks the server for its tools and updates the offers.
func (x *session) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, x.src.listFor)
	defer cancel()
	tools, err := x.tools(ctx)
	if err != nil {
		return err
	}
	offers, refused := x.src.offers(tools, x.client.InitializeResult().Capabilities)
	x.mu.Lock()
	x.offers, x.refuse = offers, refused
	x.mu.Unlock()
	x.listedAt.Store(time.Now().UnixNano())
	x.src.compare(offers)
	return nil
}

// tools returns all pages of the server's tool list.
func (x *session) tools(ctx context.Context) ([]*sdk.Tool, error) {
	if caps := x.client.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil
	}
	var all []*sdk.Tool
	var bad error
	size := 0
	more, err := listed(ctx, x, "listing the tools", func(ctx context.Context) iter.Seq2[*sdk.Tool, error] { return x.client.Tools(ctx, nil) }, func(t *sdk.Tool) bool {
		var n int
		if t, n, bad = trimTool(t); bad != nil {
			return false
		}
		size += n
		all = append(all, t)
		return len(all) <= maxTools && size <= maxListing
	})
	switch {
	case err != nil || bad != nil:
		return nil, errors.Join(err, bad)
	case more:
		return nil, fault.New(fault.Unavailable, "mcp_list_endless", "its list of tools is too long: the limit is %d tools and %d MiB", maxTools, maxListing>>20)
	}
	return all, nil
}

// trimTool returns the parts of a listed tool that are used, with its schema as it was written, and
// their size. The other parts may be of any size.
func trimTool(t *sdk.Tool) (*sdk.Tool, int, error) {
	out := &sdk.Tool{Name: t.Name, Description: t.Description, Meta: sdk.Meta{}}
	for _, key := range []string{metaDedupes, metaStatus, metaTidy} {
		if v, ok := t.Meta[key]; ok {
			out.Meta[key] = v
		}
	}
	if t.Annotations != nil {
		hints := *t.Annotations
		hints.Title = ""
		out.Annotations = &hints
	}
	input, err := json.Marshal(t.InputSchema)
	said, merr := json.Marshal(out.Meta)
	if err = errors.Join(err, merr); err != nil {
		return nil, 0, fault.New(fault.Unavailable, "mcp_answer_invalid", "the schema or the _meta of %.80q cannot be written: %w", t.Name, err)
	}
	out.InputSchema = json.RawMessage(input)
	return out, len(t.Name) + len(t.Description) + len(input) + len(said), nil
}

// justListed reports whether the tools were listed only a moment ago, when the session began.
func (x *session) justListed() bool {
	return time.Since(time.Unix(0, x.listedAt.Load())) < relistAfter
}

// changed records that the tools may have changed. A pending note covers any number of changes.
func (x *session) changed() {
	x.changes.Add(1)
	select {
	case x.nudge <- struct{}{}:
	default:
	}
}

// fresh lists the tools again if they may have changed. No caller continues with an old list
// while a new one is being fetched.
func (x *session) fresh(ctx context.Context) error {
	if x.changes.Load() == x.known.Load() {
		return nil
	}
	select {
	case x.listing <- struct{}{}:
	case <-ctx.Done():
		return timeoutError(ctx, "the MCP server %s did not list its tools in time", x.src.env.Name)
	}
	defer func() { <-x.listing }()
	changes := x.changes.Load()
	if changes == x.known.Load() {
		return nil
	}
	if err := x.list(ctx); err != nil {
		return err
	}
	x.known.Store(changes)
	return nil
}

// relist lists the tools again when the server says that they have changed, at most once per
// relistAfter. A server that announces a change but then cannot list its tools is ended.
func (x *session) relist() {
	for {
		select {
		case <-x.nudge:
		case <-x.calls.Done():
			return
		}
		if err := x.fresh(x.calls); err != nil && x.calls.Err() == nil {
			x.fail(fault.New(fault.Unavailable, "mcp_list_failed", "its tools have changed and cannot be listed: %w", err))
			return
		}
		select {
		case <-time.After(relistAfter):
		case <-x.calls.Done():
			return
		}
	}
}

// announcement returns what was listed last, sorted by name.
func (x *session) announcement() tool.Announcement {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := tool.Announcement{Refused: slices.Clone(x.refuse)}
	for _, o := range x.offers {
		a.Specs = append(a.Specs, o.spec)
	}
	slices.SortFunc(a.Specs, func(a, b tool.Spec) int { return strings.Compare(a.Name, b.Name) })
	return a
}

func (x *session) offer(name string) *offer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.offers[name]
}

// offers turns the tools that a server lists into tools of Steward, and returns errors for those
// that cannot be.
func (s *source) offers(tools []*sdk.Tool, caps *sdk.ServerCapabilities) (map[string]*offer, []error) {
	var refused []error
	all := s.features(caps)
	for _, t := range tools {
		o, err := s.offerOf(t)
		if err != nil {
			refused = append(refused, err)
		} else if o != nil {
			all = append(all, o)
		}
	}
	named := map[string][]*offer{}
	for _, o := range all {
		named[o.spec.Name] = append(named[o.spec.Name], o)
	}
	s.mu.Lock()
	approved := maps.Clone(s.approved)
	s.mu.Unlock()
	offers := make(map[string]*offer, len(named))
	for name, same := range named {
		if i := slices.IndexFunc(same, func(o *offer) bool { return o.identity == approved[name] }); i >= 0 { // new tools must not take the name from an approved one
			same = same[i : i+1]
		}
		if len(same) == 1 {
			offers[name] = same[0]
			continue
		}
		var theirs []string
		for _, o := range same {
			if o.remote != "" {
				theirs = append(theirs, fmt.Sprintf("%.80q", o.remote))
			} else {
				theirs = append(theirs, "Steward's own")
			}
		}
		theirs = theirs[:min(len(theirs), 5)]
		refused = append(refused, fault.New(fault.Conflict, "mcp_tool_conflict", "%s would be the name of %d tools: %s", name, len(same), strings.Join(theirs, ", ")).
			WithHint("select only one of them under tools").Detail("tool", name))
	}
	for _, p := range s.decl.patterns() {
		if !s.matchesTool(tools, p) {
			what := "tool"
			if tool.IsGlob(p) {
				what = "tools like"
			}
			refused = append(refused, fault.New(fault.NotFound, "mcp_tool_unknown", "the server has no %s %.80q, which its declaration names", what, p).Detail("tool", p))
		}
	}
	for name, o := range offers {
		if o.spec.Status == "" {
			continue
		}
		if ask := offers[o.spec.Status]; ask == nil || ask.spec.Effect != tool.Query {
			delete(offers, name)
			refused = append(refused, fault.New(fault.Invalid, "mcp_status_invalid", "%s names %.80q as its status tool, which is not a query of this server", name, o.spec.Status).
				WithHint("name a tool that only reads, and set its effect to query if the server does not declare it").Detail("tool", name))
		}
	}
	slices.SortFunc(refused, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return offers, refused
}

// offerOf turns a tool of the server into one of Steward. It returns nil for a tool that the
// declaration leaves out.
func (s *source) offerOf(t *sdk.Tool) (*offer, error) {
	if !s.includes(s.names(t.Name)) {
		return nil, nil
	}
	word, err := tool.Word(t.Name)
	if err != nil {
		return nil, err
	}
	input := t.InputSchema.(json.RawMessage) // kept has made it a RawMessage
	if len(t.Name) > maxName || len(t.Description) > maxDescription || len(input) > maxSchema {
		return nil, fault.New(fault.TooLarge, "mcp_tool_too_large", "the tool %.80q has a description of %d bytes and a schema of %d: the limits are %d and %d",
			t.Name, len(t.Description), len(input), maxDescription, maxSchema)
	}
	spec := s.spec(word, cmp.Or(strings.TrimSpace(t.Description), t.Title, "The server does not describe this tool."), input)
	spec.Effect, spec.Asks = effectOfHints(t.Annotations)
	if err := s.declare(&spec, t, s.names(t.Name)); err != nil {
		return nil, err
	}
	o := &offer{spec: spec, remote: t.Name}
	return o, o.completeSpec()
}

// names returns the names by which a declaration may refer to a tool: the server's own, its word,
// and both prefixed with the name of the server.
func (s *source) names(remote string) []string {
	names := []string{remote}
	if word, err := tool.Word(remote); err == nil && word != remote {
		names = append(names, word)
	}
	for _, n := range slices.Clone(names) {
		names = append(names, s.word+"."+n)
	}
	return names
}

// matchesTool reports whether a name or glob of the declaration matches a tool.
func (s *source) matchesTool(tools []*sdk.Tool, pattern string) bool {
	return tool.PatternMatches(pattern, "list_resources", "read_resource", "list_prompts", "get_prompt") ||
		slices.ContainsFunc(tools, func(t *sdk.Tool) bool { return tool.PatternMatches(pattern, s.names(t.Name)...) })
}

// Names in _meta that Steward and a server use for the key of an action, and that a server uses
// to say what its tools make obsolete.
const (
	metaKey     = "steward/idempotency_key" // of a call
	metaDedupes = "steward/dedupes"         // of a tool: true
	metaStatus  = "steward/status_tool"     // of a tool: the name of another one
	metaTidy    = "steward/tidy"            // of a tool: a list of strategies
)

// declare fills in what the server says about a tool in _meta, and then what the person's
// declaration says, which takes precedence.
func (s *source) declare(spec *tool.Spec, t *sdk.Tool, names []string) (err error) {
	s.decl.Effect(spec, names...)
	var said struct {
		Dedupes bool                `json:"steward/dedupes"`
		Status  string              `json:"steward/status_tool"`
		Tidy    []tool.StrategyDecl `json:"steward/tidy"`
	}
	b, err := json.Marshal(t.Meta)
	if err == nil {
		err = json.Unmarshal(b, &said)
	}
	if err != nil {
		return fault.New(fault.Invalid, "mcp_meta_invalid", "the _meta of %.80q is invalid: %w", t.Name, err)
	}
	if err := s.decl.Apply(spec, s.env, said.Tidy, s.isLocalOnly(), names...); err != nil || spec.Effect != tool.Action {
		return err
	}
	if _, status, ok := tool.BestMatch(s.decl.Status, names...); ok {
		said.Status = status
	}
	spec.Dedupes = said.Dedupes || slices.ContainsFunc(s.decl.Dedupes, func(p string) bool { return tool.PatternMatches(p, names...) })
	if said.Status == "" {
		return nil
	}
	word, err := tool.Word(strings.TrimPrefix(said.Status, s.word+"."))
	spec.Status, _ = tool.QualifiedName(s.word, word)
	return err
}

// effectOfHints interprets a server's hints as the specification says: a tool without hints may change
// and destroy things.
func effectOfHints(a *sdk.ToolAnnotations) (e tool.Effect, asks bool) {
	switch {
	case a == nil:
		return tool.Action, true
	case a.ReadOnlyHint:
		return tool.Query, false
	}
	return tool.Action, a.DestructiveHint == nil || *a.DestructiveHint
}

// spec returns the parts of a spec that all tools of the server share.
func (s *source) spec(word, description string, input []byte) tool.Spec {
	name, full := tool.QualifiedName(s.word, word)
	return tool.Spec{Name: name, FullName: full, Description: description, Input: input, Effect: tool.Query,
		Timeout: cmp.Or(s.decl.Timeout, DefaultTimeout), Host: s.host(), Origin: "mcp:" + s.word}
}

// host returns the host of a server at a URL.
func (s *source) host() string {
	u, err := url.Parse(s.decl.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// isLocalOnly reports whether data given to the server cannot leave this machine, because it is a
// program that is confined and has no network. Its own hint that it has no open world counts for
// nothing.
func (s *source) isLocalOnly() bool {
	confined := s.decl.Sandbox != nil || s.env.Dir != "" // an agent's own program is always confined
	return s.decl.URL == "" && !s.decl.Unsandboxed && confined && s.decl.Sandbox.IsLocalOnly()
}

// completeSpec checks the spec and fills in the fields derived from it.
func (o *offer) completeSpec() error {
	spec, _, err := tool.CheckSpec(o.spec)
	if err != nil {
		return err
	}
	spec.Version = tool.Fingerprint(spec)[:12] // includes its effect, as proposed
	o.spec, o.identity = spec, tool.Identity(spec)
	return nil
}

// includes reports whether the declaration includes a tool with these names.
func (s *source) includes(names []string) bool {
	return len(s.decl.Tools) == 0 || slices.ContainsFunc(s.decl.Tools, func(p string) bool { return tool.PatternMatches(p, names...) })
}
