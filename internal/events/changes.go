package events

import (
	"context"
	"maps"
	"slices"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// changing lists the types whose entries can cause a Change.
var changing = []string{record.TypeConversation, record.TypeInteraction, record.TypeMessage, record.TypeBranch,
	record.TypeRun, record.TypeMark, record.TypePin}

// changes returns the changes that entries cause and that match the filter.
func (e *Engine) changes(ctx context.Context, entries []*follow.Entry, f *ChangeFilter) (out []*Change, err error) {
	var last map[resource.URI]*resource.Entry // the latest entry of each resource so far
	for _, x := range entries {
		list, err := x.Derived(func() (any, error) {
			if last == nil {
				last = map[resource.URI]*resource.Entry{}
			}
			list, err := e.changesOf(ctx, &x.Entry, last[x.URI])
			last[x.URI] = &x.Entry
			return list, err
		})
		if err != nil {
			return nil, err
		}
		for _, c := range list.([]*Change) {
			if f.fits(c) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// changesOf returns the changes that an entry causes. last is an earlier entry of the same
// resource, if one is known. It returns only errors of the store; an entry that cannot be read is
// logged and causes no changes.
func (e *Engine) changesOf(ctx context.Context, x, last *resource.Entry) ([]*Change, error) {
	typ := x.URI.Type()
	switch _, inside := x.URI.Find(record.TypeConversation); {
	case !inside:
		return nil, nil
	case x.Op == resource.OpErase && typ == record.TypeConversation:
		// If the resource still exists, only earlier versions of it were erased.
		_, err := e.store.Get(ctx, store.ForNode(""), x.URI)
		if fault.Is(err, fault.NotFound) {
			return removed(x), nil
		}
		return nil, err
	case x.Op != resource.OpPut:
		return removed(x), nil
	case len(x.Body) == 0: // erased since
		return nil, nil
	}
	before, err := e.before(ctx, x, last)
	if err != nil || before != nil && before.Op == resource.OpPut && len(before.Body) == 0 { // erased, and x with it
		return nil, err
	}
	list, err := changesBy(x, before)
	if err != nil {
		e.opt.Log.Error("cannot derive changes from an entry of the log", "seq", x.Seq, "uri", x.URI, "error", err)
		return nil, nil
	}
	return list, nil
}

// before returns the entry of the version before x. It returns nil if there is none, or if x is of
// a type whose versions are not compared.
func (e *Engine) before(ctx context.Context, x, last *resource.Entry) (*resource.Entry, error) {
	if !needsPrevious(x.URI.Type()) || x.Version <= 1 {
		return nil, nil
	}
	if last != nil && last.Version == x.Version-1 {
		return last, nil
	}
	q := store.LogQuery{Of: x.URI, Reverse: true, Limit: 1}
	q.After = q.Cursor(x.Seq)
	for p, err := range store.Entries(ctx, e.store, store.ForNode(""), q) {
		return &p, err
	}
	return nil, nil
}

// changeBy returns a Change with the members that all changes of an entry share.
func changeBy(e *resource.Entry) Change {
	c := Change{Seq: e.Seq, At: e.At, Actor: e.Actor, Request: e.Request, URI: e.URI,
		Conversation: record.IDOf(e.URI, record.TypeConversation), Interaction: record.IDOf(e.URI, record.TypeInteraction)}
	switch e.URI.Type() {
	case record.TypeMessage, record.TypeMark, record.TypePin:
		c.Message, _ = id.Parse(e.URI.ID())
	case record.TypeBranch:
		c.Branch = e.URI.ID()
	}
	return c
}

// removals maps a type to the kind of change that its removal causes.
var removals = map[string]ChangeKind{
	record.TypePin:          MessageUnpinned,
	record.TypeConversation: ConversationDeleted,
	record.TypeInteraction:  InteractionChanged,
	record.TypeBranch:       BranchDeleted,
	record.TypeMessage:      MessageDeleted,
	record.TypeMark:         MessageRestored,
}

// removed returns the changes of an entry that removed a resource.
func removed(e *resource.Entry) []*Change {
	c, typ := changeBy(e), e.URI.Type()
	if c.Kind = removals[typ]; c.Kind == "" {
		return nil
	}
	if e.Op == resource.OpErase {
		if typ == record.TypeMark || typ == record.TypePin { // removed together with its message
			return nil
		}
		c.Kind = Erased
	}
	return []*Change{&c}
}

// needsPrevious reports whether a put of the type is compared with the version before it to find the
// changes.
func needsPrevious(typ string) bool {
	return typ == record.TypeConversation || typ == record.TypeBranch || typ == record.TypeMark
}

// changesBy returns the changes of an entry that put a resource. before is the entry of the version
// before it, or nil if there is none.
func changesBy(e, before *resource.Entry) ([]*Change, error) {
	c := changeBy(e)
	switch e.URI.Type() {
	case record.TypeConversation:
		now, old, err := decodeBoth[record.Conversation](e, before)
		if err != nil || old == nil {
			c.Kind = ConversationCreated
			if before != nil && before.Op == resource.OpErase && before.At.Equal(e.At) { // its earlier versions were erased
				c.Kind = ConversationChanged
			}
			return []*Change{&c}, err
		}
		return ofConversation(c, now, old), nil
	case record.TypeBranch:
		now, old, err := decodeBoth[record.Branch](e, before)
		return ofBranch(c, now, old), err
	case record.TypeMark:
		now, old, err := decodeBoth[record.Mark](e, before)
		return ofMark(c, now, old), err
	case record.TypeRun:
		now, _, err := decodeBoth[record.Run](e, nil)
		if now.Ended.IsZero() {
			return nil, err
		}
		c.Kind, c.Outcome, c.Error = InteractionClosed, now.Outcome, now.Error
	case record.TypeMessage:
		m, err := record.DecodeMessage(e.URI, e.Body)
		if err != nil {
			return nil, err
		}
		c.Kind, c.Role, c.Tools = MessageAdded, m.Role, toolsOf(m)
		if r := m.Result(); r != nil {
			c.Outcome = string(r.Status)
		}
	case record.TypePin:
		c.Kind = MessagePinned
	default:
		if c.Kind = InteractionChanged; e.Version == 1 {
			c.Kind = InteractionOpened
		}
	}
	return []*Change{&c}, nil
}

// decodeBoth decodes the records of two versions. old is nil if there is no earlier version.
func decodeBoth[T any](e, before *resource.Entry) (now, old *T, err error) {
	now = new(T)
	if err = record.Decode(e.URI, e.Body, now); err == nil && before != nil && before.Op == resource.OpPut {
		old = new(T)
		err = record.Decode(before.URI, before.Body, old)
	}
	return now, old, err
}

// toolsOf returns the names of the tools that a message calls or answers.
func toolsOf(m *message.Message) []string {
	if r := m.Result(); r != nil {
		return []string{r.Name}
	}
	var names []string
	for _, call := range m.Calls() {
		if !slices.Contains(names, call.Name) {
			names = append(names, call.Name)
		}
	}
	return names
}

// several collects changes that share the members of c.
type several struct {
	c   Change
	out []*Change
}

func (s *several) add(when bool, k ChangeKind) {
	if when {
		s.c.Kind = k
		s.out = append(s.out, new(s.c))
	}
}

func ofConversation(c Change, now, old *record.Conversation) []*Change {
	s := several{c: c}
	deleted, was := !now.Deleted.IsZero(), !old.Deleted.IsZero()
	s.add(deleted && !was, ConversationDeleted)
	s.add(!deleted && was, ConversationRestored)
	s.add(now.Title != old.Title || now.Agent != old.Agent || now.Model != old.Model || now.Window != old.Window ||
		!slices.Equal(now.Tools, old.Tools) || !maps.Equal(now.Metadata, old.Metadata), ConversationChanged)
	s.c.Branch = now.BranchID()
	s.add(now.BranchID() != old.BranchID(), BranchSwitched)
	return s.out
}

func ofBranch(c Change, now, old *record.Branch) []*Change {
	s := several{c: c}
	if old == nil {
		s.add(c.Branch != record.MainBranch, BranchCreated) // the main branch is made with the conversation
		return s.out
	}
	deleted, was := !now.Deleted.IsZero(), !old.Deleted.IsZero()
	s.add(deleted && !was, BranchDeleted)
	s.add(!deleted && was, BranchRestored)
	s.add(!samePath(now, old), BranchChanged)
	s.c.Revision = now.View.Revision
	s.add(now.View.Revision != old.View.Revision, ViewRevised)
	return s.out
}

// samePath reports whether two versions of a branch look the same to a person. It ignores when the
// branch was last used, and how it is stored or shown to models.
func samePath(a, b *record.Branch) bool {
	return a.Title == b.Title && a.Parent == b.Parent && a.At == b.At && a.Open == b.Open && slices.Equal(a.Rope, b.Rope)
}

var validities = map[record.Validity]ChangeKind{record.Invalidated: MessageInvalidated, record.Superseded: MessageSuperseded,
	record.Archived: MessageArchived, record.Deleted: MessageDeleted, record.Active: MessageRestored}

// ofMark returns the changes for marks that the previous version did not have, and for those that
// were undone since.
func ofMark(c Change, now, old *record.Mark) (out []*Change) {
	for i, x := range now.Changes {
		undone, was := !x.Undone.IsZero(), true
		if old != nil && i < len(old.Changes) {
			was = !old.Changes[i].Undone.IsZero()
		}
		if undone == was {
			continue
		}
		one := c
		one.Kind, one.Reason, one.By = validities[x.State], x.Reason, x.By
		if x.Tool != "" {
			one.Tools = []string{x.Tool}
		}
		if !x.Interaction.Zero() {
			one.Interaction = x.Interaction
		}
		if undone {
			one.Kind, one.State = MessageRestored, x.State
		}
		out = append(out, &one)
	}
	return out
}
