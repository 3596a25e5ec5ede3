package events

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// ledger writes conversations into a store, and keeps by itself what an
// observer of everything would have to be told.
type ledger struct {
	store store.Store
	mu    sync.Mutex
	told  []Change
	space map[id.ID]resource.Space // of conversations
	chats []*chat
}

// chat is a conversation as the world knows it.
type chat struct {
	user     string
	conv     record.Conversation
	exists   bool
	inters   []id.ID
	runs     map[id.ID]id.ID // open ones by interaction
	messages []id.ID
	marks    map[id.ID]*record.Mark
	branches map[string]*record.Branch
	pins     map[id.ID]bool
}

func newLedger(st store.Store, users ...string) *ledger {
	w := &ledger{store: st, space: map[id.ID]resource.Space{}}
	for _, u := range users {
		for range 2 {
			c := &chat{user: u, conv: record.Conversation{ID: id.New(), Owner: u}, runs: map[id.ID]id.ID{},
				marks: map[id.ID]*record.Mark{}, branches: map[string]*record.Branch{}, pins: map[id.ID]bool{}}
			w.chats = append(w.chats, c)
			w.space[c.conv.ID] = resource.UserSpace(u)
		}
	}
	return w
}

// draft is a batch and, per change of the store, what it tells.
type draft struct {
	store.Batch
	tells [][]Change
}

func (d *draft) put(u resource.URI, body []byte, tells ...Change) {
	for i := range tells {
		tells[i].URI = u
	}
	d.Changes = append(d.Changes, store.Change{URI: u, Body: body})
	d.tells = append(d.tells, tells)
}

func (d *draft) remove(u resource.URI, tells ...Change) {
	d.put(u, nil, tells...)
	d.Changes[len(d.Changes)-1].Op = store.Delete
}

// commit writes a draft and notes what it tells.
func (w *ledger) commit(ctx context.Context, c *chat, d *draft) error {
	if len(d.Changes) == 0 {
		return nil
	}
	d.Request = id.New()
	w.mu.Lock() // the order of the log
	defer w.mu.Unlock()
	rec, err := w.store.Commit(ctx, store.ForUser(c.user), d.Batch)
	if err != nil {
		return err
	}
	for i, tells := range d.tells {
		for _, t := range tells {
			t.Seq, t.At, t.Actor, t.Request = rec.Seq-uint64(len(d.tells)-1-i), rec.At, c.user, d.Request
			t.Conversation = c.conv.ID
			w.told = append(w.told, t)
		}
	}
	return nil
}

// expected is what an observer with the filter sees of all.
func (w *ledger) expected(t testing.TB, user string, f ChangeFilter) []Change {
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Change
	for i := range w.told {
		c := &w.told[i]
		if w.space[c.Conversation] == resource.UserSpace(user) && f.fits(c) && (len(f.Conversations) == 0 || slices.Contains(f.Conversations, c.Conversation)) {
			out = append(out, *c)
		}
	}
	return out
}

// step is one thing that happens: what, to which chat, and two numbers that
// choose among what there is.
type step struct {
	What, Chat, A, B int
	Join             bool // with the step before it, in one batch, where that is of the same chat
}

const numSteps = 18

var someTools = []string{"file.read", "file.write", "math.add", "weather.now"}

// add adds a step to a draft; what makes no sense yet adds nothing.
func (c *chat) add(d *draft, s step) {
	if !c.exists {
		c.exists = true
		c.conv.Title = "first"
		d.put(record.ConversationURI(c.conv.ID), record.Encode(c.conv), Change{Kind: ConversationCreated})
		c.branches[record.MainBranch] = &record.Branch{ID: record.MainBranch}
		d.put(record.BranchURI(c.conv.ID, record.MainBranch), []byte("{}"))
	}
	switch s.What {
	case 0, 1, 2:
		c.addMessage(d, s)
	case 3:
		x := id.New()
		c.inters, c.runs[x] = append(c.inters, x), id.New()
		u := record.InteractionURI(c.conv.ID, x)
		d.put(u, record.Encode(record.Interaction{Origin: "user"}), Change{Kind: InteractionOpened, Interaction: x})
		d.put(u.ChildID(record.TypeRun, c.runs[x]), record.Encode(record.Run{Agent: "a"}))
	case 4:
		if x, ok := pick(c.inters, s.A); ok && !c.runs[x].Zero() {
			d.put(record.InteractionURI(c.conv.ID, x).ChildID(record.TypeRun, c.runs[x]),
				record.Encode(record.Run{Agent: "a", Ended: time.Unix(1, 0), Outcome: "failed", Error: "odd"}),
				Change{Kind: InteractionClosed, Interaction: x, Outcome: "failed", Error: "odd"})
			delete(c.runs, x)
		}
	case 5:
		if x, ok := pick(c.inters, s.A); ok {
			d.put(record.InteractionURI(c.conv.ID, x), record.Encode(record.Interaction{Into: id.New()}), Change{Kind: InteractionChanged, Interaction: x})
		}
	case 6, 7, 8, 9:
		c.mark(d, s)
	case 10:
		if m, ok := pick(c.messages, s.A); ok {
			if c.pins[m] = !c.pins[m]; c.pins[m] {
				d.put(record.PinURI(c.conv.ID, m), record.Encode(record.Pin{By: "x"}), Change{Kind: MessagePinned, Message: m})
			} else {
				d.remove(record.PinURI(c.conv.ID, m), Change{Kind: MessageUnpinned, Message: m})
			}
		}
	case 11:
		name := fmt.Sprintf("b%d", len(c.branches))
		b := &record.Branch{ID: name, Parent: record.MainBranch, At: 3, View: record.View{Revision: 2}}
		c.branches[name] = b
		c.putBranch(d, b, Change{Kind: BranchCreated})
	case 12, 13:
		c.changeBranch(d, s)
	case 14, 15, 16:
		c.changeConversation(d, s)
	default: // what tells observers nothing
		d.put(resource.Root("llm.Usage", id.New().String()), []byte(`{"model":"m"}`))
		c.conv.Messages++
		c.conv.Updated = time.Unix(int64(c.conv.Messages), 0).UTC()
		d.put(record.ConversationURI(c.conv.ID), record.Encode(c.conv))
	}
}

func pick[T any](from []T, n int) (x T, ok bool) {
	if len(from) == 0 {
		return x, false
	}
	return from[n%len(from)], true
}

func (c *chat) addMessage(d *draft, s step) {
	x, ok := pick(c.inters, s.A)
	if !ok {
		return
	}
	m, tell := &message.Message{}, Change{Kind: MessageAdded, Interaction: x, Message: id.New()}
	switch s.B % 3 {
	case 0:
		m.Role, m.Blocks = message.User, []message.Block{&message.Text{Text: "hello"}}
	case 1:
		m.Role, tell.Tools = message.Assistant, someTools[:2]
		for _, t := range []string{someTools[0], someTools[1], someTools[0]} {
			m.Blocks = append(m.Blocks, &message.ToolCall{Name: t, Args: []byte("{}")})
		}
	case 2:
		name, _ := pick(someTools, s.A)
		m.Role, tell.Tools, tell.Outcome = message.Tool, []string{name}, "error"
		m.Blocks = []message.Block{&message.ToolResult{Name: name, Status: message.Failed}}
	}
	tell.Role = m.Role
	c.messages = append(c.messages, tell.Message)
	d.put(record.InteractionURI(c.conv.ID, x).ChildID(record.TypeMessage, tell.Message), message.Append(nil, m), tell)
}

// mark changes a message's validity once or twice, or undoes or redoes changes.
func (c *chat) mark(d *draft, s step) {
	msg, ok := pick(c.messages, s.A)
	if !ok {
		return
	}
	k := c.marks[msg]
	if k == nil {
		k = &record.Mark{Pos: 1, Branch: record.MainBranch}
		c.marks[msg] = k
	}
	k.Changes = slices.Clone(k.Changes)
	var tells []Change
	add := func(state record.Validity, kind ChangeKind, tool string, by id.ID) {
		x := record.Change{State: state, Tool: tool, Reason: "because", By: by, Branch: "main", Pos: int64(s.B)}
		x.Interaction, _ = pick(c.inters, s.B)
		tell := Change{Kind: kind, Message: msg, Interaction: x.Interaction, Reason: "because", By: by}
		if tool != "" {
			tell.Tools = []string{tool}
		}
		k.Changes, tells = append(k.Changes, x), append(tells, tell)
	}
	flip := func(i int) {
		x := &k.Changes[i]
		tell := Change{Kind: validities[x.State], Message: msg, Interaction: x.Interaction, Reason: x.Reason, By: x.By}
		if x.Tool != "" {
			tell.Tools = []string{x.Tool}
		}
		if x.Undone.IsZero() {
			x.Undone, tell.Kind, tell.State = time.Unix(5, 0), MessageRestored, x.State
		} else {
			x.Undone = time.Time{}
		}
		tells = append(tells, tell)
	}
	switch s.B % 7 {
	case 0:
		add(record.Invalidated, MessageInvalidated, "file.write", id.ID{})
	case 1:
		add(record.Superseded, MessageSuperseded, "", id.New())
	case 2:
		add(record.Archived, MessageArchived, "", id.ID{})
		add(record.Active, MessageRestored, "", id.ID{})
	case 3:
		add(record.Deleted, MessageDeleted, "", id.ID{})
	case 4, 5:
		for i := range k.Changes {
			if s.A>>i&1 == 1 {
				flip(i)
			}
		}
	case 6: // made and undone at once: nobody has seen it
		k.Changes = append(k.Changes, record.Change{State: record.Archived, Undone: time.Unix(6, 0)})
	}
	d.put(record.MarkURI(c.conv.ID, msg), record.Encode(k), tells...)
}

func (c *chat) putBranch(d *draft, b *record.Branch, tells ...Change) {
	for i := range tells {
		tells[i].Branch = b.ID
	}
	d.put(record.BranchURI(c.conv.ID, b.ID), record.Encode(b), tells...)
}

func (c *chat) changeBranch(d *draft, s step) {
	b := c.branches[fmt.Sprintf("b%d", s.A%8)]
	if b == nil {
		b = c.branches[record.MainBranch]
	}
	var tells []Change
	if s.B&1 != 0 {
		b.View.Revision++
		b.View.Clip = s.A
		tells = append(tells, Change{Kind: ViewRevised, Revision: b.View.Revision})
	}
	if s.B&2 != 0 {
		b.Rope = append(slices.Clone(b.Rope), record.Span{Branch: "x", To: 3})
		b.Title += "x"
		tells = append([]Change{{Kind: BranchChanged}}, tells...)
	}
	if s.B&4 != 0 {
		kind := BranchDeleted
		if b.Deleted.IsZero() {
			b.Deleted = time.Unix(9, 0)
		} else {
			b.Deleted, kind = time.Time{}, BranchRestored
		}
		tells = append([]Change{{Kind: kind}}, tells...)
	}
	b.Used = time.Unix(int64(s.A), 0)
	c.putBranch(d, b, tells...)
}

func (c *chat) changeConversation(d *draft, s step) {
	var tells []Change
	if s.B&1 != 0 {
		kind := ConversationDeleted
		if c.conv.Deleted.IsZero() {
			c.conv.Deleted = time.Unix(9, 0)
		} else {
			c.conv.Deleted, kind = time.Time{}, ConversationRestored
		}
		tells = append(tells, Change{Kind: kind})
	}
	if s.B&2 != 0 {
		switch s.A % 3 {
		case 0:
			c.conv.Title += "x"
		case 1:
			c.conv.Tools = append(slices.Clone(c.conv.Tools), "math.*")
		default:
			c.conv.Metadata = map[string]string{"n": fmt.Sprint(len(c.conv.Metadata["n"]), c.conv.Title, c.conv.Metadata["n"])}
		}
		tells = append(tells, Change{Kind: ConversationChanged})
	}
	if s.B&4 != 0 {
		if c.conv.BranchID() == record.MainBranch {
			c.conv.Branch = "b1"
		} else {
			c.conv.Branch = ""
		}
		tells = append(tells, Change{Kind: BranchSwitched, Branch: c.conv.BranchID()})
	}
	d.put(record.ConversationURI(c.conv.ID), record.Encode(c.conv), tells...)
}
