package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The types of what is remembered.
const (
	TypeFact    = "memory.Fact"
	TypeReading = "memory.Reading" // how far a conversation has been read for facts

	// TypeForgotten marks a message that a forgotten fact came from. It is recalled no more, and the mark
	// holds nothing but its id.
	TypeForgotten = "memory.Forgotten"
)

// OriginMemory is the origin of the messages that name recalled facts. Such a message names each fact and
// its revision, and never contains its text: a fact that is forgotten leaves no copy in conversations.
const OriginMemory = "hook:memory"

// The types of facts.
const (
	FactPlain       = "fact"        // about the user
	FactPreference  = "preference"  // what the user likes or wants
	FactPerson      = "person"      // about somebody else
	FactPlace       = "place"       // about a place
	FactEvent       = "event"       // what has happened, or will
	FactInstruction = "instruction" // a standing instruction of the user
)

// Fact is something that is remembered for a user.
type Fact struct {
	ID         id.ID          `json:"id"`
	User       string         `json:"user"`
	Subject    string         `json:"subject"` // whom or what it is about; "user" is the user
	Text       string         `json:"text"`
	Type       string         `json:"type"`
	Importance float64        `json:"importance"`          // 0 to 1
	Source     string         `json:"source,omitzero"`     // the URI of the message that it comes from
	From       time.Time      `json:"valid_from"`          // since when it is true
	Until      time.Time      `json:"valid_to,omitzero"`   // until when it was true; zero: it is still true
	Created    time.Time      `json:"created"`             // when it was saved
	Changed    time.Time      `json:"changed"`             // the last change
	Labels     message.Labels `json:"labels,omitzero"`     // of everything that it comes from
	Sources    []string       `json:"sources,omitempty"`   // whose private data that was
	Trusted    time.Time      `json:"trusted,omitzero"`    // when a person decided that foreign text is true; it is no longer a quotation
	Successor  id.ID          `json:"successor,omitzero"`  // the fact that has superseded it
	Supersedes []id.ID        `json:"supersedes,omitzero"` // the facts that it has superseded
	Revision   int            `json:"revision"`            // counts the changes of what a conversation shows of it
	Earlier    []FactText     `json:"earlier,omitempty"`   // what it was before, the newest last
	History    []FactChange   `json:"history,omitempty"`   // its newest changes, the newest last
}

// FactText is what a conversation showed of a fact at an earlier revision.
type FactText struct {
	Revision int       `json:"revision"`
	Text     string    `json:"text"`
	From     time.Time `json:"valid_from"`
	Subject  string    `json:"subject,omitzero"` // "": as the fact has it now, likewise below
	Type     string    `json:"type,omitzero"`
	Source   string    `json:"source,omitzero"`
}

// FactChange is one change of a fact. It never repeats the text of the fact.
type FactChange struct {
	By    id.ID     `json:"by"` // the call that made it; the same call changes nothing again
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	What  string    `json:"what"` // "added", "merged", "superseded", "edited", "trusted", "undone"
	// Source is the URI of the message that the change comes from.
	Source string `json:"source,omitzero"`
}

// FactAuthor says who makes a change of a fact.
type FactAuthor struct {
	Call    id.ID          // the same call changes nothing again
	Actor   string         // "user", "agent:PATH", "program", "extraction"
	Source  string         // the URI of the message that the text comes from
	At      time.Time      // when it was said; zero: now
	Labels  message.Labels // of everything that the text comes from
	Sources []string       // whose private data that was
}

// Foreign reports whether a fact comes from text of others and no person has decided that it is true. It is
// a quotation then, and never an instruction.
func (f *Fact) Foreign() bool { return f.Labels.Has(message.Untrusted) && f.Trusted.IsZero() }

// Current reports whether a fact is true at a time.
func (f *Fact) Current(at time.Time) bool {
	return !f.From.After(at) && (f.Until.IsZero() || f.Until.After(at))
}

// EffectiveLabels are the labels that whatever shows the fact has.
func (f *Fact) EffectiveLabels() message.Labels {
	l := f.Labels | message.Private
	if !f.Trusted.IsZero() {
		l &^= message.Untrusted
	}
	return l
}

// At returns the text of a revision, and since when it was true.
func (f *Fact) At(revision int) (string, time.Time) {
	was := f.As(revision)
	return was.Text, was.From
}

// As returns the fact as conversations show it that have recalled the revision, whatever has changed since: with
// its text, time, subject, type and source.
func (f *Fact) As(revision int) Fact {
	was := *f
	for _, t := range f.Earlier {
		if t.Revision == revision {
			was.Text, was.From = t.Text, t.From
			if t.Type != "" {
				was.Subject, was.Type, was.Source = t.Subject, t.Type, t.Source
			}
		}
	}
	return was
}

// URI returns the URI of the fact.
func (f *Fact) URI() resource.URI { return FactURI(f.ID) }

// FactURI returns the URI of a fact.
func FactURI(fact id.ID) resource.URI { return resource.URI{}.ChildID(TypeFact, fact) }

// ForgottenURI returns the URI of the mark of a message.
func ForgottenURI(msg id.ID) resource.URI { return resource.URI{}.ChildID(TypeForgotten, msg) }

// ReadingURI returns the URI of the reading of a conversation.
func ReadingURI(conv id.ID) resource.URI { return resource.URI{}.ChildID(TypeReading, conv) }

// Reading says how far a conversation has been read for facts.
type Reading struct {
	User         string    `json:"user,omitzero"`
	Conversation id.ID     `json:"conversation"`
	Last         id.ID     `json:"last"` // the last message that was read
	At           time.Time `json:"at"`
	Day          string    `json:"day"`   // the day of At, in UTC
	Facts        int       `json:"facts"` // how many the reading has saved

	// Due is set while a conversation waits to be read, such as one that was imported: the time of its
	// newest message.
	Due time.Time `json:"due,omitzero"`
}

// DecodeFact reads a stored fact (error code store_broken).
func DecodeFact(at resource.URI, body []byte) (f Fact, err error) {
	err = Decode(at, body, &f)
	return f, err
}
