package memory

import (
	"steward/client"
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
