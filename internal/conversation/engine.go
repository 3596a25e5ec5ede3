package conversation

import (
	"context"
	"log/slog"
	"slices"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Options configure an Engine. The zero value suffices for reading.
type Options struct {
	// Tools finds a tool by the agent that calls it (empty if the conversation
	// names none) and its name. The tool's strategies say which earlier results
	// its calls make obsolete. nil: none are.
	Tools func(agent, name string) (tool.Tool, bool)
	// Names returns the names of an agent's tools. May be nil.
	Names func(agent string) []string
	// Key returns the key that signs exports, so that a later import can trust
	// them. nil: exports are not signed, and none is trusted.
	Key func() ([]byte, error)
	// Codecs are the vendors' message formats for export and import
	// (importexport.Vendors). nil: none.
	Codecs map[string]llm.Codec
	Log    *slog.Logger // nil: slog.Default()
}

// Engine reads and writes conversations. It is safe for concurrent use, with two
// limits that the owner (the runtime) must ensure: each conversation has at most
// one open Session, and its branches and marks are not changed while a turn runs.
type Engine struct {
	store store.Store
	opt   Options
}

// New returns an engine over the store.
func New(s store.Store, opt Options) *Engine {
	if opt.Tools == nil {
		opt.Tools = func(string, string) (tool.Tool, bool) { return nil, false }
	}
	if opt.Names == nil {
		opt.Names = func(string) []string { return nil }
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Engine{store: s, opt: opt}
}

// seal returns the signer and verifier of exports for the space that a scope
// writes.
func (e *Engine) seal(sc store.Scope) (importexport.Seal, error) {
	if e.opt.Key == nil {
		return nil, nil
	}
	key, err := e.opt.Key()
	if err != nil {
		return nil, err
	}
	return importexport.NewSeal(key, string(sc.Write)), nil
}

// Get returns a conversation. If it is deleted or outside the scope, the error is
// conversation_not_found.
func (e *Engine) Get(ctx context.Context, sc store.Scope, conv id.ID) (record.Conversation, error) {
	c, _, err := e.get(ctx, sc, conv)
	return c, err
}

func (e *Engine) get(ctx context.Context, sc store.Scope, conv id.ID) (record.Conversation, resource.Resource, error) {
	r, err := e.store.Get(ctx, sc, record.ConversationURI(conv))
	if fault.Is(err, fault.NotFound) {
		return record.Conversation{}, r, notFound(conv)
	}
	if err != nil {
		return record.Conversation{}, r, err
	}
	c, err := record.DecodeConversation(r.URI, r.Body)
	if err == nil && !c.Deleted.IsZero() {
		return record.Conversation{}, r, notFound(conv)
	}
	return c, r, err
}

// List returns a page of the scope's conversations, most recently used first.
func (e *Engine) List(ctx context.Context, sc store.Scope, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error) {
	page, err := e.store.Query(ctx, sc, store.Query{
		Term: store.Term{Name: record.TermRecent}, Type: record.TypeConversation, Reverse: true, After: after, Limit: limit,
	})
	if err != nil {
		return nil, "", err
	}
	out := make([]record.Conversation, 0, len(page.Items))
	for _, it := range page.Items {
		c, err := record.DecodeConversation(it.Resource.URI, it.Resource.Body)
		if err != nil {
			return nil, "", err
		}
		out = append(out, c)
	}
	return out, page.Next, nil
}

// Update applies change to a conversation's record and stores it. change may run
// more than once, and must not modify counts and ids.
func (e *Engine) Update(ctx context.Context, sc store.Scope, conv id.ID, change func(*record.Conversation)) (record.Conversation, error) {
	var c record.Conversation
	err := e.commit(ctx, sc, func() (_ []store.Change, err error) {
		var r resource.Resource
		if c, r, err = e.get(ctx, sc, conv); err != nil {
			return nil, err
		}
		change(&c)
		return []store.Change{putConversation(&c, store.If{Version: r.Version})}, nil
	})
	return c, err
}

// Since returns the messages of the preferred branch that were stored after
// the log position seq, in order.
func (e *Engine) Since(ctx context.Context, sc store.Scope, conv id.ID, seq uint64) ([]Entry, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	return e.entriesSince(ctx, sc, conv, &b, seq)
}

func (e *Engine) entriesSince(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, seq uint64) ([]Entry, error) {
	var newest []Entry
	for m, err := range e.walk(ctx, sc, conv, b, 0, true) {
		if err != nil {
			return nil, err
		}
		if m.Seq <= seq {
			break
		}
		newest = append(newest, m)
	}
	slices.Reverse(newest)
	return newest, nil
}

// Called is a message that contains a call with a provider's id, or its result.
type Called struct {
	Entry
	Conversation id.ID
}

// maxCalled is the maximum number of messages that FindCall examines.
const maxCalled = 100

// FindCall returns the messages that make a call with a provider's id, in all
// conversations, newest first, each followed by those with the call's results. There
// can be several, since some providers reuse ids. Deleted messages and conversations
// are skipped.
func (e *Engine) FindCall(ctx context.Context, sc store.Scope, callID string) ([]Called, error) {
	page, err := e.store.Query(ctx, sc, store.Query{Term: store.Term{Name: record.TermCall, Value: callID}, Reverse: true, Limit: maxCalled, NoBody: true})
	if err != nil {
		return nil, err
	}
	var out []Called
	for _, it := range page.Items {
		conv := record.IDOf(it.URI, record.TypeConversation)
		m, err := e.placed(ctx, sc, conv, record.IDOf(it.URI, record.TypeMessage))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Change.State == record.Deleted {
			continue
		}
		out = append(out, Called{m, conv})
		if out, err = e.results(ctx, sc, conv, m, callID, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// results appends the messages with the results of a message's calls of an id. They stand in the same
// interaction.
func (e *Engine) results(ctx context.Context, sc store.Scope, conv id.ID, of Entry, callID string, out []Called) ([]Called, error) {
	calls := map[message.Ref]bool{}
	for _, c := range of.Calls() {
		calls[c.Ref] = calls[c.Ref] || c.CallID == callID
	}
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: record.InteractionURI(conv, of.Interaction), Type: record.TypeMessage}) {
		if err != nil {
			return nil, err
		}
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		if r := m.Result(); r == nil || !calls[r.Call] {
			continue
		}
		found, err := e.placed(ctx, sc, conv, m.ID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found.Change.State != record.Deleted {
			out = append(out, Called{found, conv})
		}
	}
	return out, nil
}

// placed finds a message and its state on the preferred branch.
func (e *Engine) placed(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return Entry{}, err
	}
	m, err := e.Find(ctx, sc, conv, msg)
	if err != nil {
		return Entry{}, err
	}
	b, _, err := e.branch(ctx, sc, conv, c.BranchID())
	one := []Entry{m}
	if err == nil {
		err = e.markStates(ctx, sc, conv, &b, one)
	}
	return one[0], err
}

// FindMessage returns a message whose id was derived from the client's own.
func (e *Engine) FindMessage(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	t := store.Term{Name: record.TermMessage, Value: msg.String()}
	page, err := e.store.Query(ctx, sc, store.Query{Term: t, Under: record.ConversationURI(conv), Reverse: true, Limit: 1})
	if err != nil {
		return Entry{}, err
	}
	if len(page.Items) == 0 {
		return Entry{}, fault.New(fault.NotFound, "message_not_found", "no message of this conversation has the %s %q", t.Name, t.Value)
	}
	return entry("", page.Items[0])
}

// OpenRun is a run that had not ended when it was found.
type OpenRun struct {
	record.Run
	Space        resource.Space
	Conversation id.ID
	Interaction  id.ID
}

// OpenRuns returns the runs at or below a URI that have not ended: those to
// continue after a crash.
func (e *Engine) OpenRuns(ctx context.Context, sc store.Scope, under resource.URI) ([]OpenRun, error) {
	var out []OpenRun
	for it, err := range records[record.Run](ctx, e, sc, store.Query{State: record.StateRunning, Type: record.TypeRun, Under: under}) {
		if err != nil {
			return nil, err
		}
		r := OpenRun{Run: it.Record, Space: it.Space}
		r.URI = it.URI
		r.ID, _ = id.Parse(it.URI.ID())
		r.Conversation = record.IDOf(it.URI, record.TypeConversation)
		r.Interaction = record.IDOf(it.URI, record.TypeInteraction)
		out = append(out, r)
	}
	return out, nil
}
