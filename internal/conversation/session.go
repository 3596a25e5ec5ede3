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

// Session is an open conversation: what the model is shown, and where the
// next message goes. It has one user at a time; only Transcript's result may
// be shared.
type Session struct {
	engine     *Engine
	scope      store.Scope
	conv       record.Conversation
	version    uint64 // of the conversation's resource
	exists     bool
	transcript *llm.Transcript
	head       id.ID
	labels     message.Labels
	pos        int64  // of the newest message
	seq        uint64 // of the newest message's entry
	bytes      int    // of the messages' stored forms
	broken     error  // set when memory and store may differ: open it anew

	request     id.ID
	interaction resource.URI
	run         record.Run
}

// Conversation returns the conversation as it stands, the running turn's
// counts included.
func (s *Session) Conversation() record.Conversation { return s.conv }

// Transcript returns what the model is shown.
func (s *Session) Transcript() *llm.Transcript { return s.transcript }

// Labels returns the union of the labels of all that the model is shown.
func (s *Session) Labels() message.Labels { return s.labels }

// Head returns the id of the newest message; zero before the first.
func (s *Session) Head() id.ID { return s.head }

// Seq returns the log position of the newest message.
func (s *Session) Seq() uint64 { return s.seq }

// Size estimates the bytes of memory that the session holds.
func (s *Session) Size() int { return 3*s.bytes + s.transcript.Size() }

// Broken returns why the session must not be used any further, or nil.
func (s *Session) Broken() error { return s.broken }

// MessageURI returns the URI of a message of the present turn.
func (s *Session) MessageURI(m id.ID) resource.URI {
	return s.interaction.ChildID(record.TypeMessage, m)
}

// note keeps what is remembered of each message.
func (s *Session) note(m *message.Message) {
	s.head = m.ID
	s.labels |= message.LabelsOf(m.Blocks)
}

// Opening is what a turn begins with.
type Opening struct {
	Request     id.ID
	Interaction id.ID
	Origin      string // of the interaction
	Message     *message.Message
	Run         record.Run
}

// Begin opens an interaction with its first message and a run. The message is
// part of the transcript at once; it is durable when commit, which must be
// called exactly once, has returned without an error. commit may overlap
// reading the transcript, and nothing else. Its error code is
// message_exists when the message had been stored before.
func (s *Session) Begin(o Opening) (commit func(context.Context) (uint64, error)) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if s.conv.Title == "" && o.Origin == record.OriginUser {
		s.conv.Title = titleOf(o.Message)
	}
	s.request = o.Request
	s.interaction = record.ConversationURI(s.conv.ID).ChildID(record.TypeInteraction, o.Interaction)
	s.run = o.Run
	s.run.Started = now
	s.run.URI = s.interaction.ChildID(record.TypeRun, o.Run.ID)

	changes := make([]store.Change, 0, 5)
	if !s.exists {
		s.conv.Created, s.conv.Updated = now, now
		changes = append(changes, putConversation(&s.conv, store.If{Absent: true}),
			store.Change{URI: record.BranchURI(s.conv.ID, record.MainBranch), Body: []byte("{}"), If: store.If{Absent: true}})
	}
	changes = append(changes,
		store.Change{URI: s.interaction, Body: record.Encode(record.Interaction{Started: now, Origin: o.Origin}), If: store.If{Absent: true}},
		store.Change{URI: s.run.URI, Body: record.Encode(s.run), State: record.StateRunning, If: store.If{Absent: true}},
		s.stage(o.Message))
	created := !s.exists
	return func(ctx context.Context) (uint64, error) {
		rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: o.Request, Changes: changes})
		if err != nil {
			s.broken = err
			if fault.Is(err, fault.Conflict) {
				return 0, fault.New(fault.Conflict, "message_exists", "this message has been stored before: %w", err)
			}
			return 0, err
		}
		if created {
			s.exists, s.version = true, rec.Versions[0]
		}
		s.seq = rec.Seq
		return rec.Seq, nil
	}
}

// Resume takes up a run that had not ended.
func (s *Session) Resume(r OpenRun, request id.ID) {
	s.request = request
	s.run = r.Run
	s.interaction = record.ConversationURI(s.conv.ID).ChildID(record.TypeInteraction, r.Interaction)
}

// stage adds a message to memory and returns the change that stores it. At is
// set here, so that times follow the order.
func (s *Session) stage(m *message.Message) store.Change {
	m.Prev = s.head
	if m.At.IsZero() {
		m.At = time.Now().UTC().Truncate(time.Microsecond)
	}
	s.note(m)
	s.pos++
	count(&s.conv, m)
	s.transcript.Append(m)
	stored := *m
	stored.ID = id.ID{} // the URI has it
	body := message.Append(make([]byte, 0, 512), &stored)
	s.bytes += len(body)
	ch := store.Change{
		URI:   s.MessageURI(m.ID),
		Body:  body,
		If:    store.If{Absent: true},
		Place: &store.Place{List: record.BranchURI(s.conv.ID, record.MainBranch), Pos: s.pos},
	}
	if m.ID.Derived() {
		ch.Terms = []store.Term{{Name: record.TermMessage, Value: m.ID.String()}}
	}
	if m.Role == message.Assistant {
		for _, b := range m.Blocks {
			if c, ok := b.(*message.ToolCall); ok && c.CallID != "" {
				ch.Terms = append(ch.Terms, store.Term{Name: record.TermCall, Value: c.CallID})
			}
		}
	}
	return ch
}

// Append makes messages durable, in order, and part of what the model is
// shown. It returns the log position of each. After an error the session is
// broken.
func (s *Session) Append(ctx context.Context, msgs ...*message.Message) ([]uint64, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	changes := make([]store.Change, len(msgs))
	for i, m := range msgs {
		if err := message.Validate(m); err != nil {
			return nil, err
		}
		changes[i] = s.stage(m)
	}
	rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: changes})
	if err != nil {
		s.broken = err
		return nil, err
	}
	s.seq = rec.Seq
	seqs := make([]uint64, len(msgs))
	for i := range seqs {
		seqs[i] = rec.Seq - uint64(len(msgs)-1-i)
	}
	return seqs, nil
}

// Finish ends the run with its outcome and, if there is one, its last
// message, in one commit. It returns the message's log position.
func (s *Session) Finish(ctx context.Context, final *message.Message, outcome, code string) (uint64, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	var changes []store.Change
	if final != nil {
		if err := message.Validate(final); err != nil {
			return 0, err
		}
		changes = append(changes, s.stage(final))
	}
	s.run.Ended, s.run.Outcome, s.run.Error = now, outcome, code
	s.conv.Updated = now
	changes = append(changes,
		store.Change{URI: s.run.URI, Body: record.Encode(s.run), If: store.If{States: []string{record.StateRunning}}},
		putConversation(&s.conv, store.If{Version: s.version}))
	for {
		rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: changes})
		if fault.Is(err, fault.Conflict) && s.adopt(ctx) == nil {
			changes[len(changes)-1] = putConversation(&s.conv, store.If{Version: s.version})
			continue
		}
		if err != nil {
			s.broken = err
			return 0, err
		}
		s.version = rec.Versions[len(rec.Versions)-1]
		if final == nil {
			return 0, nil
		}
		s.seq = rec.Seq - uint64(len(changes)-1)
		return s.seq, nil
	}
}

// adopt takes over what somebody else has changed in the conversation's own
// facts (its title, say) while the turn ran; the counts stay ours. It fails
// when that was not what stood in the way.
func (s *Session) adopt(ctx context.Context) error {
	r, err := s.engine.store.Get(ctx, s.scope, record.ConversationURI(s.conv.ID))
	if err != nil {
		return err
	}
	if r.Version == s.version {
		return fault.New(fault.Conflict, "run_ended", "the run has ended elsewhere")
	}
	c, err := record.DecodeConversation(r.URI, r.Body)
	if err != nil {
		return err
	}
	c.Tokens, c.ToolCalls, c.Messages, c.Updated = s.conv.Tokens, s.conv.ToolCalls, s.conv.Messages, s.conv.Updated
	s.conv, s.version = c, r.Version
	return nil
}
