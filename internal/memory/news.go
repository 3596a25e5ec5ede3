package memory

import (
	"context"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
)

// News tells a person what was remembered, taken back or forgotten.
type News struct {
	Did          string // client.MemorySaved, …
	Conversation id.ID  // that it comes from; zero: none
	Facts        []record.Fact
}

// Tell has tell called with what is saved, undone and forgotten from now on. It must not wait.
func (e *Engine) Tell(tell func(user string, n News)) { e.tell.Store(&tell) }

func (e *Engine) news(user, did string, conv id.ID, list ...record.Fact) {
	if tell := e.tell.Load(); tell != nil && len(list) > 0 {
		(*tell)(user, News{Did: did, Conversation: conv, Facts: list})
	}
}

// UndoLast undoes what was remembered last from a conversation, and reports whether the fact is gone. Error codes:
// nothing_remembered, and those of UndoChange.
func (e *Engine) UndoLast(ctx context.Context, user string, conv id.ID, by record.FactAuthor) (f record.Fact, gone bool, err error) {
	all, err := e.all(ctx, user)
	if err != nil {
		return f, false, err
	}
	var last record.FactChange
	for i := range all {
		h := all[i].History[len(all[i].History)-1]
		if saved := h.What == client.FactAdded || h.What == client.FactMerged || h.What == client.FactSuperseded && all[i].Successor.Zero(); saved && conversationOf(h.Source) == conv && h.At.After(last.At) {
			f, last = all[i].Fact, h
		}
	}
	if last.At.IsZero() {
		return f, false, fault.New(fault.NotFound, "nothing_remembered", "nothing was remembered from this conversation that could be undone")
	}
	return e.UndoChange(ctx, user, f.ID.String(), last.By, by)
}

// conversationOf returns the conversation of a message, or zero.
func conversationOf(source string) id.ID {
	at, err := resource.Parse(source)
	if source == "" || err != nil {
		return id.ID{}
	}
	return record.IDOf(at, record.TypeConversation)
}

// SourcesOf returns the messages that a fact and its changes come from, each once.
func SourcesOf(f *record.Fact) (out []resource.URI) {
	seen := map[string]bool{"": true}
	add := func(source string) {
		at, err := resource.Parse(source)
		if !seen[source] && err == nil {
			seen[source] = true
			out = append(out, at)
		}
	}
	add(f.Source)
	for _, h := range f.History {
		add(h.Source)
	}
	return out
}

// Shown returns a fact as a person is told about it: with what its newest change was, of one that is not merely
// recalled. Of one that is forgotten, only the id is told.
func Shown(f *record.Fact, did string) client.FactNews {
	v := client.FactNews{ID: f.ID.String()}
	if did == client.MemoryForgotten {
		return v
	}
	v.Text, v.Subject, v.Type, v.From, v.Foreign, v.Source = f.Text, f.Subject, f.Type, f.From, f.Foreign(), f.Source
	if n := len(f.History); did == client.MemorySaved && n > 0 {
		v.How, v.Change, v.Actor = f.History[n-1].What, f.History[n-1].By.String(), f.History[n-1].Actor
	}
	return v
}

// ShownAt is Shown for a fact as it was recalled: with its text at a revision.
func ShownAt(f *record.Fact, revision int) client.FactNews {
	v := Shown(f, client.MemoryRecalled)
	v.Text, v.From = f.At(revision)
	return v
}
