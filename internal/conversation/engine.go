package conversation

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Engine reads and writes conversations. Safe for concurrent use; of one
// conversation only one Session may be open at a time, which its owner (the
// runtime) sees to.
type Engine struct {
	store store.Store
}

// New returns an engine over the store.
func New(s store.Store) *Engine { return &Engine{store: s} }

// Get returns a conversation. One that is deleted, or lies outside the scope,
// is conversation_not_found.
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

// List returns a page of the scope's conversations, the most recently used first.
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

// Update changes a conversation's own facts by change, which may run more
// than once. Counts and ids are not its business.
func (e *Engine) Update(ctx context.Context, sc store.Scope, conv id.ID, change func(*record.Conversation)) (record.Conversation, error) {
	for {
		c, r, err := e.get(ctx, sc, conv)
		if err != nil {
			return c, err
		}
		change(&c)
		_, err = e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{putConversation(&c, store.If{Version: r.Version})}})
		if !fault.Is(err, fault.Conflict) {
			return c, err
		}
	}
}

// Delete hides a conversation: it is gone for every list and look-up. Its
// entries stay in the log.
func (e *Engine) Delete(ctx context.Context, sc store.Scope, conv id.ID) error {
	_, err := e.Update(ctx, sc, conv, func(c *record.Conversation) { c.Deleted = time.Now().UTC() })
	return err
}

// Entry is a message with its place in the log.
type Entry struct {
	*message.Message
	Interaction id.ID
	Seq         uint64
	Pos         int64
}

// Messages returns a page of a branch's messages in their exact order, or the
// newest first with reverse.
func (e *Engine) Messages(ctx context.Context, sc store.Scope, conv id.ID, after store.Cursor, limit int, reverse bool) ([]Entry, store.Cursor, error) {
	if after == "" {
		if _, _, err := e.get(ctx, sc, conv); err != nil {
			return nil, "", err
		}
	}
	page, err := e.store.Query(ctx, sc, store.Query{List: record.BranchURI(conv, record.MainBranch), After: after, Limit: limit, Reverse: reverse})
	if err != nil {
		return nil, "", err
	}
	out := make([]Entry, 0, len(page.Items))
	for _, it := range page.Items {
		m, err := entry(it)
		if err != nil {
			return nil, "", err
		}
		out = append(out, m)
	}
	return out, page.Next, nil
}

func entry(it store.Item) (Entry, error) {
	m, err := message.Decode(it.Body)
	if err != nil {
		return Entry{}, fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", it.URI, err)
	}
	m.ID, _ = id.Parse(it.URI.ID())
	return Entry{Message: m, Interaction: record.IDOf(it.URI, record.TypeInteraction), Seq: it.Seq, Pos: it.Pos}, nil
}

// Since returns the messages of a branch that were stored after the log
// position seq, in order.
func (e *Engine) Since(ctx context.Context, sc store.Scope, conv id.ID, seq uint64) ([]Entry, error) {
	var newest []Entry
	var after store.Cursor
	for {
		page, next, err := e.Messages(ctx, sc, conv, after, 0, true)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if m.Seq <= seq {
				next = ""
				break
			}
			newest = append(newest, m)
		}
		if next == "" {
			break
		}
		after = next
	}
	for i, j := 0, len(newest)-1; i < j; i, j = i+1, j-1 {
		newest[i], newest[j] = newest[j], newest[i]
	}
	return newest, nil
}

// FindCall returns the message of a conversation that bears a provider's call
// id; the newest one, should the provider have used it twice.
func (e *Engine) FindCall(ctx context.Context, sc store.Scope, conv id.ID, callID string) (Entry, error) {
	return e.find(ctx, sc, conv, store.Term{Name: record.TermCall, Value: callID})
}

// FindMessage returns a message whose id was derived from the client's own.
func (e *Engine) FindMessage(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	return e.find(ctx, sc, conv, store.Term{Name: record.TermMessage, Value: msg.String()})
}

func (e *Engine) find(ctx context.Context, sc store.Scope, conv id.ID, t store.Term) (Entry, error) {
	page, err := e.store.Query(ctx, sc, store.Query{Term: t, Under: record.ConversationURI(conv), Reverse: true, Limit: 1})
	if err != nil {
		return Entry{}, err
	}
	if len(page.Items) == 0 {
		return Entry{}, fault.New(fault.NotFound, "message_not_found", "no message of this conversation has the %s %q", t.Name, t.Value)
	}
	return entry(page.Items[0])
}

// OpenRun is a run that had not ended when it was found.
type OpenRun struct {
	record.Run
	Space        resource.Space
	Conversation id.ID
	Interaction  id.ID
}

// OpenRuns returns the runs at or below a place that have not ended: what is
// to be continued after a crash.
func (e *Engine) OpenRuns(ctx context.Context, sc store.Scope, under resource.URI) ([]OpenRun, error) {
	var out []OpenRun
	for it, err := range store.Items(ctx, e.store, sc, store.Query{State: record.StateRunning, Type: record.TypeRun, Under: under}) {
		if err != nil {
			return nil, err
		}
		r := OpenRun{Space: it.Space}
		if err := record.Decode(it.URI, it.Body, &r.Run); err != nil {
			return nil, err
		}
		r.URI = it.URI
		r.ID, _ = id.Parse(it.URI.ID())
		r.Conversation = record.IDOf(it.URI, record.TypeConversation)
		r.Interaction = record.IDOf(it.URI, record.TypeInteraction)
		out = append(out, r)
	}
	return out, nil
}

// Open loads a conversation for running turns.
func (e *Engine) Open(ctx context.Context, sc store.Scope, conv id.ID) (*Session, error) {
	c, r, err := e.get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, scope: sc, conv: c, version: r.Version, exists: true}
	var msgs []*message.Message
	for it, err := range store.Items(ctx, e.store, sc, store.Query{List: record.BranchURI(conv, record.MainBranch), Limit: store.MaxLimit}) {
		if err != nil {
			return nil, err
		}
		m, err := entry(it)
		if err != nil {
			return nil, err
		}
		if m.Seq > r.Seq { // stored after the counts were last written
			count(&s.conv, m.Message)
		}
		msgs = append(msgs, m.Message)
		s.bytes += len(it.Body)
		s.pos, s.seq = m.Pos, m.Seq
		s.note(m.Message)
	}
	s.transcript = llm.NewTranscript(msgs...)
	return s, nil
}

// Create returns a session of a conversation that does not exist yet; its
// first turn makes it.
func (e *Engine) Create(sc store.Scope, c record.Conversation) *Session {
	return &Session{engine: e, scope: sc, conv: c, transcript: llm.NewTranscript()}
}
