package llm

import "steward/internal/message"

// Codec converts a history to and from a vendor's format.
type Codec interface {
	// Encode writes a history as the vendor's list of messages, a JSON array. The history must pass
	// message.CheckView, and every call must have its result.
	Encode(msgs []*message.Message) ([]byte, error)

	// Decode reads a history: a list of messages, or the body of a request. It accepts what other
	// programs write, and refuses anything that would be lost or is inconsistent. The codes are
	// history_…; Details["at"] is the place ("messages[3].content[0]").
	Decode(doc []byte) ([]*message.Message, error)

	// Import reads a history of unknown quality. Where Decode refuses, it continues: it keeps what
	// it does not know as text, and says so in Notes.
	Import(doc []byte) (Imported, error)
}

// Imported is a history that was read leniently. It passes message.CheckHistory and has no open
// calls.
type Imported struct {
	Messages []*message.Message // blocks that nobody wrote in this form are labelled untrusted
	Nobodys  map[*message.Message]bool
	Notes    []string // one for each thing that was converted to something else
}
