package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Session is an open conversation: what the model is shown of its preferred
// branch, and where the next message goes. It has one user at a time; only
// Transcript's result may be shared.
type Session struct {
	engine     *Engine
	scope      store.Scope
	conv       record.Conversation
	version    uint64 // of the conversation's resource
	exists     bool
	fork       bool // the branch is not stored yet: the next turn makes it
	branch     record.Branch
	branchVer  uint64 // of the branch's resource
	transcript *llm.Transcript
	tracker    *window.Tracker
	marks      map[int64]*marked // of the messages shown, by position
	due        []invalidation    // became obsolete: recorded with the next message
	head       id.ID
	labels     message.Labels
	sources    []string
	pos        int64  // the highest position given out
	seq        uint64 // of the newest message's entry
	broken     error  // set when memory and store may differ: open it anew
	handed     bool   // another agent has it now: Finish records that

	request     id.ID
	actor       string // on whose behalf the turn's tools run
	interaction resource.URI
	run         record.Run
}

// Open loads a conversation for running turns.
func (e *Engine) Open(ctx context.Context, sc store.Scope, conv id.ID) (*Session, error) {
	c, r, err := e.get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, scope: sc, conv: c, version: r.Version, exists: true, pos: c.Last}
	if s.branch, s.branchVer, err = e.branch(ctx, sc, conv, c.BranchID()); err != nil {
		return nil, err
	}
	entries, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	return s, s.recount(ctx, entries, r.Seq)
}

// load reads what the model is shown.
func (s *Session) load(ctx context.Context) ([]Entry, error) {
	entries, marks, err := s.engine.shown(ctx, s.scope, s.conv.ID, &s.branch)
	if err != nil {
		return nil, err
	}
	s.marks, s.due, s.head = marks, nil, id.ID{}
	s.tracker = s.track()
	for _, m := range entries {
		s.head = m.ID
		s.pos, s.seq = max(s.pos, m.Pos), max(s.seq, m.Seq)
		s.follow(ctx, m)
	}
	return entries, s.show(ctx, entries)
}

// recount adds what was stored after the conversation's counts were last
// written: the messages of a turn that a crash interrupted.
func (s *Session) recount(ctx context.Context, entries []Entry, since uint64) error {
	if s.seq <= since {
		return nil
	}
	late := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Seq <= since })
	start := s.branch.Start()
	known := func(e Entry) bool { return e.Seq <= since && !s.branch.PlaceOf(e.Branch, e.Pos).Before(start) }
	if s.branch.View.Start.Pos != 0 && !slices.ContainsFunc(entries, known) { // there may be more before the view
		var err error
		if late, err = s.engine.since(ctx, s.scope, s.conv.ID, &s.branch, since); err != nil {
			return err
		}
	}
	for _, m := range late {
		count(&s.conv, m.Message)
	}
	return nil
}

// Create returns a session of a conversation that does not exist yet; its
// first turn makes it.
func (e *Engine) Create(sc store.Scope, c record.Conversation) *Session {
	s := &Session{engine: e, scope: sc, conv: c, branch: record.Branch{ID: record.MainBranch},
		transcript: llm.NewTranscript()}
	s.tracker = s.track()
	s.letGo()
	return s
}

// Conversation returns the conversation as it stands, the running turn's
// counts included.
func (s *Session) Conversation() record.Conversation { return s.conv }

// HandTo has another agent have the conversation from this turn on: all that
// was said stays. It is durable with the turn's end.
func (s *Session) HandTo(agent string) {
	s.conv.Agent, s.handed = agent, true
	s.tracker.Meet(s.engine.opt.Names(agent)...)
}

// Window returns the conversation's own context window in tokens; 0: the
// model's.
func (s *Session) Window() int { return s.conv.Window }

// Branch returns the branch that the session goes on with.
func (s *Session) Branch() record.Branch { return s.branch }

// Transcript returns what the model is shown.
func (s *Session) Transcript() *llm.Transcript { return s.transcript }

// Labels returns the union of the labels of all that the model is shown.
func (s *Session) Labels() message.Labels { return s.labels }

// Sources returns whose private data the model is shown; see message.Common.
func (s *Session) Sources() []string { return s.sources }

// Head returns the id of the newest message; zero before the first.
func (s *Session) Head() id.ID { return s.head }

// Seq returns the log position of the newest message.
func (s *Session) Seq() uint64 { return s.seq }

// Size estimates the bytes of memory that the session holds.
func (s *Session) Size() int { return s.transcript.Size() }

// Broken returns why the session must not be used any further, or nil.
func (s *Session) Broken() error { return s.broken }

// Interaction returns the URI of the interaction that goes on.
func (s *Session) Interaction() resource.URI { return s.interaction }

// MessageURI returns the URI of a message of the present turn.
func (s *Session) MessageURI(m id.ID) resource.URI {
	return s.interaction.ChildID(record.TypeMessage, m)
}

// Opening is what a turn begins with.
type Opening struct {
	Request     id.ID
	Actor       string // on whose behalf the turn's tools run
	Interaction id.ID
	Origin      string           // of the interaction
	Message     *message.Message // nil: the branch's newest message is to be answered (anew)
	Run         record.Run
}

// Begin opens an interaction with its first message and a run. The message is
// part of the transcript at once; it is durable when commit, which must be
// called exactly once, has returned without an error. commit may overlap
// reading the transcript, and nothing else. Its error code is
// message_exists when the message had been stored before.
func (s *Session) Begin(o Opening) (commit func(context.Context) (uint64, error)) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if s.conv.Title == "" && s.titles(&o) {
		s.conv.Title = titleOf(o.Message)
	}
	s.request, s.actor = o.Request, o.Actor
	s.interaction = record.InteractionURI(s.conv.ID, o.Interaction)
	s.run = o.Run
	s.run.Started = now
	s.run.URI = s.interaction.ChildID(record.TypeRun, o.Run.ID)
	if s.branch.ID != record.MainBranch {
		s.run.Branch = s.branch.ID
	}

	changes := make([]store.Change, 0, 5)
	if !s.exists {
		s.conv.Created, s.conv.Updated = now, now
		changes = append(changes, putConversation(&s.conv, store.If{Absent: true}),
			putBranch(s.conv.ID, &s.branch, store.If{Absent: true}))
	}
	if s.fork {
		changes = append(changes, putConversation(&s.conv, store.If{Version: s.version}),
			putBranch(s.conv.ID, &s.branch, store.If{Absent: true}))
	}
	changes = append(changes,
		store.Change{URI: s.interaction, Body: record.Encode(record.Interaction{Started: now, Origin: o.Origin}), If: store.If{Absent: true}},
		store.Change{URI: s.run.URI, Body: record.Encode(s.run), State: record.StateRunning, If: store.If{Absent: true}})
	if o.Message != nil {
		changes = append(changes, s.stage(o.Message))
	}
	created := !s.exists || s.fork
	return func(ctx context.Context) (uint64, error) {
		rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: o.Request, Changes: changes})
		known := s.version
		for s.fork && fault.Is(err, fault.Conflict) {
			c, version, lost := s.elsewhereChanged(ctx, known)
			if lost != nil {
				break
			}
			known, changes[0] = version, putConversation(&c, store.If{Version: version})
			rec, err = s.engine.store.Commit(ctx, s.scope, store.Batch{Request: o.Request, Changes: changes})
		}
		if err != nil {
			s.broken = err
			if fault.Is(err, fault.Conflict) {
				return 0, fault.New(fault.Conflict, "message_exists", "this message has been stored before: %w", err)
			}
			return 0, err
		}
		if created {
			s.exists, s.fork, s.branchVer = true, false, rec.Versions[1]
			if known == s.version { // else Finish finds out what somebody else has changed
				s.version = rec.Versions[0]
			}
		}
		s.seq = rec.Seq
		return rec.Seq, nil
	}
}

// titles reports whether the conversation gets its title from what a turn
// begins with: from what a person says, or from what an agent is asked, unless
// that is secret.
func (s *Session) titles(o *Opening) bool {
	if o.Message == nil {
		return false
	}
	asked := !s.exists && !s.conv.Asked.Zero() && !message.LabelsOf(o.Message.Blocks).Has(message.Secret)
	return o.Origin == record.OriginUser || asked
}

// elsewhereChanged returns a conversation as somebody else has changed it since
// a version, with the branch that the session makes. It leaves the session as
// it is.
func (s *Session) elsewhereChanged(ctx context.Context, since uint64) (record.Conversation, uint64, error) {
	c, r, err := s.engine.get(ctx, s.scope, s.conv.ID)
	if err == nil && r.Version == since {
		err = fault.New(fault.Conflict, "conflict", "it is not the conversation that stood in the way")
	}
	if c.Title == "" {
		c.Title = s.conv.Title
	}
	c.Branch, c.Last = s.conv.Branch, s.conv.Last
	return c, r.Version, err
}

// Resume takes up a run that had not ended.
func (s *Session) Resume(r OpenRun, request id.ID, actor string) {
	s.request, s.actor = request, actor
	s.run = r.Run
	s.interaction = record.InteractionURI(s.conv.ID, r.Interaction)
}

// Note records a change of the run's own facts.
func (s *Session) Note(ctx context.Context, change func(*record.Run)) error {
	if s.broken != nil {
		return s.broken
	}
	change(&s.run)
	_, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: []store.Change{s.putRun()}})
	if err != nil {
		s.broken = err
	}
	return err
}

// putRun returns the change that records the run, which goes on.
func (s *Session) putRun() store.Change {
	return store.Change{URI: s.run.URI, Body: record.Encode(s.run), State: record.StateRunning, If: store.If{States: []string{record.StateRunning}}}
}

// Run returns the run as it is recorded.
func (s *Session) Run() record.Run { return s.run }

// stage adds a message to memory and returns the change that stores it. At is
// set here, so that times follow the order.
func (s *Session) stage(m *message.Message) store.Change {
	m.Prev = s.head
	if m.At.IsZero() {
		m.At = time.Now().UTC().Truncate(time.Microsecond)
	}
	s.head = m.ID
	s.labels |= message.LabelsOf(m.Blocks)
	s.sources = message.JoinSources(s.sources, message.SourcesOf(m.Blocks))
	s.pos++
	count(&s.conv, m)
	u := s.MessageURI(m.ID)
	shown := m
	if s.branch.View.Clip > 0 && m.Role == message.Tool {
		shown = window.One(window.Item{Message: m, Pos: s.pos, URI: u.String()}, s.branch.View.Clip)
	}
	s.transcript.Append(shown)
	ch := putMessage(u, m, &store.Place{List: record.BranchURI(s.conv.ID, s.branch.ID), Pos: s.pos})
	return ch
}

// putMessage returns the change that stores a message.
func putMessage(u resource.URI, m *message.Message, at *store.Place) store.Change {
	stored := *m
	stored.ID = id.ID{} // the URI has it
	ch := store.Change{URI: u, Body: message.Append(make([]byte, 0, 512), &stored), If: store.If{Absent: true}, Place: at}
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
// shown, together with what they make obsolete. It returns the log position
// of each. After an error the session is broken.
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
		s.follow(ctx, Entry{Message: m, Interaction: record.IDOf(s.interaction, record.TypeInteraction), Branch: s.branch.ID, Pos: s.pos})
	}
	changes = append(changes, s.invalidated(time.Now().UTC())...)
	if s.run.Waits != "" { // it goes on
		s.run.Waits = ""
		changes = append(changes, s.putRun())
	}
	rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: changes})
	if err != nil {
		s.broken = err
		return nil, err
	}
	first := rec.Seq - uint64(len(changes)) + 1
	seqs := make([]uint64, len(msgs))
	for i := range seqs {
		seqs[i] = first + uint64(i)
	}
	s.seq = seqs[len(seqs)-1]
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
	changes = append(changes, s.invalidated(now)...) // what grew too old in a turn without calls
	s.run.Ended, s.run.Outcome, s.run.Error, s.run.Waits, s.run.Parked = now, outcome, code, "", time.Time{}
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
		s.version, s.handed = rec.Versions[len(rec.Versions)-1], false
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
	c.Branch, c.Last = s.conv.Branch, s.conv.Last // nobody else moves it while a turn runs
	if s.handed {
		c.Agent = s.conv.Agent
	}
	s.conv, s.version = c, r.Version
	return nil
}
