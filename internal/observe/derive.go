package observe

import (
	"maps"
	"slices"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
)

// decode reads what an entry has put: one of the records, a message, or nil
// where its type is told by the entry alone.
func decode(e resource.Entry) (any, error) {
	var err error
	switch e.URI.Type() {
	case record.TypeConversation:
		c := &record.Conversation{}
		*c, err = record.DecodeConversation(e.URI, e.Body)
		return c, err
	case record.TypeBranch:
		b := &record.Branch{}
		err = record.Decode(e.URI, e.Body, b)
		return b, err
	case record.TypeMark:
		m := &record.Mark{}
		err = record.Decode(e.URI, e.Body, m)
		return m, err
	case record.TypeRun:
		r := &record.Run{}
		err = record.Decode(e.URI, e.Body, r)
		return r, err
	case record.TypeMessage:
		return record.DecodeMessage(e.URI, e.Body)
	}
	return nil, nil
}

// compared reports whether a put of the type is told by what differs from the
// version before.
func compared(typ string) bool {
	return typ == record.TypeConversation || typ == record.TypeBranch || typ == record.TypeMark
}

// told reports whether a type's entries say anything to observers.
func told(typ string) bool {
	switch typ {
	case record.TypeConversation, record.TypeInteraction, record.TypeMessage, record.TypeBranch,
		record.TypeRun, record.TypeMark, record.TypePin:
		return true
	}
	return false
}

// about returns what all changes of an entry have in common.
func about(e resource.Entry) Change {
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

// removed tells of an entry that took a resource away.
func removed(e resource.Entry) []Change {
	c := about(e)
	typ := e.URI.Type()
	switch typ {
	case record.TypePin:
		c.Kind = MessageUnpinned
	case record.TypeConversation:
		c.Kind = ConversationDeleted
	case record.TypeInteraction:
		c.Kind = InteractionChanged
	case record.TypeBranch:
		c.Kind = BranchDeleted
	case record.TypeMessage:
		c.Kind = MessageDeleted
	case record.TypeMark:
		c.Kind = MessageRestored
	default:
		return nil
	}
	if e.Op == resource.OpErase {
		if typ == record.TypeMark || typ == record.TypePin { // goes with its message
			return nil
		}
		c.Kind = Erased
	}
	return []Change{c}
}

// changes tells of an entry that put now; before is what the version before
// it had put, nil where there was none.
func changes(e resource.Entry, now, before any) []Change {
	c := about(e)
	switch now := now.(type) {
	case *record.Conversation:
		old, _ := before.(*record.Conversation)
		return ofConversation(c, now, old)
	case *record.Branch:
		old, _ := before.(*record.Branch)
		return ofBranch(c, now, old)
	case *record.Mark:
		old, _ := before.(*record.Mark)
		return ofMark(c, now, old)
	case *record.Run:
		if now.Ended.IsZero() {
			return nil
		}
		c.Kind, c.Outcome, c.Error = InteractionClosed, now.Outcome, now.Error
	case *message.Message:
		c.Kind, c.Role, c.Tools = MessageAdded, now.Role, toolsOf(now)
		if r := now.Result(); r != nil {
			c.Outcome = string(r.Status)
		}
	default:
		switch {
		case e.URI.Type() == record.TypePin:
			c.Kind = MessagePinned
		case e.Version == 1:
			c.Kind = InteractionOpened
		default:
			c.Kind = InteractionChanged
		}
	}
	return []Change{c}
}

// toolsOf returns the names of the tools that a message calls or answers.
func toolsOf(m *message.Message) []string {
	if r := m.Result(); r != nil {
		return []string{r.Name}
	}
	var names []string
	for _, b := range m.Blocks {
		if call, ok := b.(*message.ToolCall); ok && !slices.Contains(names, call.Name) {
			names = append(names, call.Name)
		}
	}
	return names
}

func ofConversation(c Change, now, old *record.Conversation) []Change {
	if old == nil {
		c.Kind = ConversationCreated
		return []Change{c}
	}
	var out []Change
	add := func(k Kind) { c.Kind = k; out = append(out, c) }
	switch deleted, was := !now.Deleted.IsZero(), !old.Deleted.IsZero(); {
	case deleted && !was:
		add(ConversationDeleted)
	case !deleted && was:
		add(ConversationRestored)
	}
	if now.Title != old.Title || now.Agent != old.Agent || now.Model != old.Model || now.Window != old.Window ||
		!slices.Equal(now.Tools, old.Tools) || !maps.Equal(now.Metadata, old.Metadata) {
		add(ConversationChanged)
	}
	if now.BranchID() != old.BranchID() {
		c.Branch = now.BranchID()
		add(BranchSwitched)
	}
	return out
}

func ofBranch(c Change, now, old *record.Branch) []Change {
	var out []Change
	add := func(k Kind) { c.Kind = k; out = append(out, c) }
	if old == nil {
		if c.Branch != record.MainBranch { // that one comes with the conversation
			add(BranchCreated)
		}
		return out
	}
	switch deleted, was := !now.Deleted.IsZero(), !old.Deleted.IsZero(); {
	case deleted && !was:
		add(BranchDeleted)
	case !deleted && was:
		add(BranchRestored)
	}
	if !samePath(now, old) {
		add(BranchChanged)
	}
	if now.View.Revision != old.View.Revision {
		c.Revision = now.View.Revision
		add(ViewRevised)
	}
	return out
}

// samePath compares what a person sees of branches: not when one was used
// last, nor how it is kept or shown to models.
func samePath(a, b *record.Branch) bool {
	return a.Title == b.Title && a.Parent == b.Parent && a.At == b.At && a.Open == b.Open && slices.Equal(a.Rope, b.Rope)
}

// ofMark tells of the changes that the version before did not have, and of
// those that were undone since.
func ofMark(c Change, now, old *record.Mark) []Change {
	if old == nil {
		old = &record.Mark{}
	}
	var out []Change
	inter := c.Interaction
	for i, x := range now.Changes {
		undone, was := !x.Undone.IsZero(), true
		if i < len(old.Changes) {
			was = !old.Changes[i].Undone.IsZero()
		}
		if undone == was {
			continue
		}
		c.Tools, c.Interaction, c.Reason, c.By, c.State = nil, inter, x.Reason, x.By, ""
		if x.Tool != "" {
			c.Tools = []string{x.Tool}
		}
		if !x.Interaction.Zero() {
			c.Interaction = x.Interaction
		}
		if c.Kind = kindOf(x.State); undone {
			c.Kind, c.State = MessageRestored, x.State
		}
		out = append(out, c)
	}
	return out
}

func kindOf(v record.Validity) Kind {
	switch v {
	case record.Invalidated:
		return MessageInvalidated
	case record.Superseded:
		return MessageSuperseded
	case record.Archived:
		return MessageArchived
	case record.Deleted:
		return MessageDeleted
	}
	return MessageRestored
}
