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

// Session is a conversation that is open for running turns: the model's view of
// its preferred branch, and the position of the next message. It is not safe for
// concurrent use; only the result of Transcript may be shared.
type Session struct {
	engine     *Engine
	scope      store.Scope
	conv       record.Conversation
	version    uint64 // of the conversation's resource
	exists     bool
	fork       bool // the branch is not stored yet: the next turn stores it
	branch     record.Branch
	branchVer  uint64 // of the branch's resource
	transcript *llm.Transcript
	tracker    *window.Tracker
	marks      map[int64]*marked // of the messages in view, by position
	due        []invalidation    // invalidations to record with the next message
	head       id.ID
	labels     message.Labels
	sources    []string
	pos        int64  // the highest position assigned
	seq        uint64 // of the newest message's entry
	broken     error  // set when memory and store may differ: reopen the session
	handed     bool   // it was handed to another agent: Finish records that

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

// load reads the model's view.
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

// recount adds the messages that were stored after the conversation's counts were
// last written: those of a turn that a crash interrupted.
func (s *Session) recount(ctx context.Context, entries []Entry, since uint64) error {
	if s.seq <= since {
		return nil
	}
	late := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Seq <= since })
	start := s.branch.Start()
	known := func(e Entry) bool { return e.Seq <= since && !s.branch.PlaceOf(e.Branch, e.Pos).Before(start) }
	if s.branch.View.Start.Pos != 0 && !slices.ContainsFunc(entries, known) { // the view may start later
		var err error
		if late, err = s.engine.entriesSince(ctx, s.scope, s.conv.ID, &s.branch, since); err != nil {
			return err
		}
	}
	for _, m := range late {
		count(&s.conv, m.Message)
	}
	return nil
}

// Create returns a session for a conversation that does not exist yet; its first
// turn creates it.
func (e *Engine) Create(sc store.Scope, c record.Conversation) *Session {
	s := &Session{engine: e, scope: sc, conv: c, branch: record.Branch{ID: record.MainBranch},
		transcript: llm.NewTranscript()}
	s.tracker = s.track()
	s.releaseEncoded()
	return s
}

// Conversation returns the conversation's present record, including the counts of
// the running turn.
func (s *Session) Conversation() record.Conversation { return s.conv }

// HandTo assigns the conversation to another agent from this turn on; routed says
// whether routing chose it. All messages stay. The change is durable at the end of
// the turn.
func (s *Session) HandTo(agent string, routed bool) {
	s.conv.Agent, s.conv.Routed, s.handed = agent, routed, true
	s.tracker.LoadRules(s.engine.opt.Names(agent)...)
}

// Window returns the conversation's own context window in tokens; 0: the model's
// window applies.
func (s *Session) Window() int { return s.conv.Window }

// Branch returns the branch that the session continues.
func (s *Session) Branch() record.Branch { return s.branch }

// Transcript returns the model's view.
func (s *Session) Transcript() *llm.Transcript { return s.transcript }

// Shown returns the messages from which the model's view is made, with their states in it, and how many messages of
// the branch it leaves out because they are before its start.
func (s *Session) Shown(ctx context.Context) (list []Entry, before int, err error) {
	list, marks, err := s.engine.shown(ctx, s.scope, s.conv.ID, &s.branch)
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		list[i].Change = marks[list[i].Pos].on(&s.branch, &list[i], true)
	}
	all, _, err := s.engine.Counts(ctx, s.scope, s.conv.ID, []*record.Branch{&s.branch})
	if err != nil {
		return nil, 0, err
	}
	return list, max(all[0]-len(list), 0), nil
}

// Labels returns the union of the labels of everything in the model's view.
func (s *Session) Labels() message.Labels { return s.labels }

// Sources returns the owners of the private data in the model's view; see
// message.Common.
func (s *Session) Sources() []string { return s.sources }

// Head returns the id of the newest message; zero before the first.
func (s *Session) Head() id.ID { return s.head }

// Seq returns the log position of the newest message.
func (s *Session) Seq() uint64 { return s.seq }

// Size estimates the bytes of memory that the session holds.
func (s *Session) Size() int { return s.transcript.Size() }

// Broken returns why the session must not be used any more, or nil.
func (s *Session) Broken() error { return s.broken }

// Interaction returns the URI of the current interaction.
func (s *Session) Interaction() resource.URI { return s.interaction }

// MessageURI returns the URI of a message of the current turn.
func (s *Session) MessageURI(m id.ID) resource.URI {
	return s.interaction.ChildID(record.TypeMessage, m)
}

// Opening describes how a turn begins.
type Opening struct {
	Request     id.ID
	Actor       string // on whose behalf the turn's tools run
	Interaction id.ID
	Origin      string           // of the interaction
	Message     *message.Message // nil: answer the branch's newest message (again)
	Run         record.Run
	Also        []store.Change // committed with all this
}

// Begin opens an interaction with its first message and a run. The message is
// part of the transcript immediately. It is durable once commit has returned
// without an error; the caller must call commit exactly once. While commit runs,
// the transcript may be read, but nothing else may be called. commit returns
// message_exists if the message was stored before.
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
	changes = append(changes, o.Also...)
	changes = append(changes,
		store.Change{URI: s.interaction, Body: record.Encode(record.Interaction{Started: now, Origin: o.Origin}), If: store.If{Absent: true}},
		s.putRun(record.StateRunning, store.If{Absent: true}))
	if o.Message != nil {
		changes = append(changes, s.stage(o.Message))
	}
	created := !s.exists || s.fork
	return func(ctx context.Context) (uint64, error) {
		rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: o.Request, Changes: changes})
		known := s.version
		for s.fork && fault.Is(err, fault.Conflict) {
			c, version, lost := s.reloadConversation(ctx, known)
			if lost != nil {
				break
			}
			known, changes[0] = version, putConversation(&c, store.If{Version: version})
			rec, err = s.engine.store.Commit(ctx, s.scope, store.Batch{Request: o.Request, Changes: changes})
		}
		if err != nil {
			s.broken = err
			if fault.Is(err, fault.Conflict) {
				return 0, fault.New(fault.Conflict, "message_exists", "this message was already stored: %w", err)
			}
			return 0, err
		}
		if created {
			s.exists, s.fork, s.branchVer = true, false, rec.Versions[1]
			if known == s.version { // otherwise Finish finds out what else has changed
				s.version = rec.Versions[0]
			}
		}
		s.seq = rec.Seq
		return rec.Seq, nil
	}
}

// titles reports whether the turn's first message gives the conversation its
// title. It does if a person wrote it, or if it is an agent's request to another
// agent and not secret.
func (s *Session) titles(o *Opening) bool {
	if o.Message == nil {
		return false
	}
	asked := !s.exists && !s.conv.Asked.Zero() && !message.LabelsOf(o.Message.Blocks).Has(message.Secret)
	return o.Origin == record.OriginUser || asked
}

// reloadConversation reads the conversation after another writer has changed it
// since a version, and adds the branch that the session creates. It does not
// modify the session.
func (s *Session) reloadConversation(ctx context.Context, since uint64) (record.Conversation, uint64, error) {
	c, r, err := s.engine.get(ctx, s.scope, s.conv.ID)
	if err == nil && r.Version == since {
		err = fault.New(fault.Conflict, "conflict", "the conflict is not in the conversation")
	}
	if c.Title == "" {
		c.Title = s.conv.Title
	}
	c.Branch, c.Last = s.conv.Branch, s.conv.Last
	return c, r.Version, err
}

// Resume continues a run that had not ended.
func (s *Session) Resume(r OpenRun, request id.ID, actor string) {
	s.request, s.actor = request, actor
	s.run = r.Run
	s.interaction = record.InteractionURI(s.conv.ID, r.Interaction)
}

// Note changes the run's record and stores it.
func (s *Session) Note(ctx context.Context, change func(*record.Run)) error {
	if s.broken != nil {
		return s.broken
	}
	change(&s.run)
	_, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: []store.Change{s.stillRuns()}})
	if err != nil {
		s.broken = err
	}
	return err
}

// stillRuns returns the change that stores the run as still running.
func (s *Session) stillRuns() store.Change {
	return s.putRun(record.StateRunning, store.If{States: []string{record.StateRunning}})
}

// putRun returns the change that stores the run in a state.
func (s *Session) putRun(state string, cond store.If) store.Change {
	ch := store.Change{URI: s.run.URI, Body: record.Encode(s.run), State: state, If: cond}
	if name := s.run.Term(); name != "" {
		ch.Terms = []store.Term{{Name: name}}
	}
	return ch
}

// Run returns the run's record.
func (s *Session) Run() record.Run { return s.run }

// stage adds a message to memory and returns the change that stores it. It sets
// At, so that times are in the order of the messages.
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

// Append stores messages in order, adds them to the model's view, and records the
// results that they make obsolete. It returns the log position of each message.
// After an error of the store the session is broken.
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
	if s.run.Waits != "" { // the run continues
		s.run.Waits = ""
		changes = append(changes, s.stillRuns())
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

// Finish ends the run with its outcome and its last message, if there is one, in
// one commit with what also returns, if it is not nil. It returns the message's log
// position.
func (s *Session) Finish(ctx context.Context, final *message.Message, outcome, code string, also func() ([]store.Change, error)) (uint64, error) {
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
	changes = append(changes, s.invalidated(now)...) // results that became too old in a turn without calls
	s.run.Ended, s.run.Outcome, s.run.Error, s.run.Waits, s.run.Parked = now, outcome, code, "", time.Time{}
	s.conv.Updated = now
	changes = append(changes,
		s.putRun("", store.If{States: []string{record.StateRunning}}),
		putConversation(&s.conv, store.If{Version: s.version}))
	own := len(changes)
	for {
		all := changes
		if also != nil {
			more, err := also()
			if err != nil {
				s.broken = err
				return 0, err
			}
			all = append(changes[:own:own], more...)
		}
		rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: all})
		if fault.Is(err, fault.Conflict) && fault.Of(err).Details["uri"] != s.run.URI.String() && s.adopt(ctx) == nil {
			changes[own-1] = putConversation(&s.conv, store.If{Version: s.version})
			continue
		}
		if err != nil {
			s.broken = err
			return 0, err
		}
		s.version, s.handed = rec.Versions[own-1], false
		if final == nil {
			return 0, nil
		}
		s.seq = rec.Seq - uint64(len(all)-1)
		return s.seq, nil
	}
}

// adopt takes over another writer's change of the conversation during the turn
// (of its title, say), but keeps the session's counts.
func (s *Session) adopt(ctx context.Context) error {
	r, err := s.engine.store.Get(ctx, s.scope, record.ConversationURI(s.conv.ID))
	if err != nil {
		return err
	}
	c, err := record.DecodeConversation(r.URI, r.Body)
	if err != nil {
		return err
	}
	c.Tokens, c.ToolCalls, c.Messages, c.Updated = s.conv.Tokens, s.conv.ToolCalls, s.conv.Messages, s.conv.Updated
	c.Branch, c.Last = s.conv.Branch, s.conv.Last // nobody else changes these during a turn
	if s.handed {
		c.Agent, c.Routed = s.conv.Agent, s.conv.Routed
	}
	s.conv, s.version = c, r.Version
	return nil
}
