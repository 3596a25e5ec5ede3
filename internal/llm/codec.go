package llm

import "steward/internal/message"

// Codec is a vendor's form of a history, both ways.
type Codec interface {
	// Encode writes a history as the vendor's list of messages, a JSON array.
	// It must obey message.CheckView, and all calls have their results.
	Encode(msgs []*message.Message) ([]byte, error)

	// Decode reads a history: a list of messages, or the body of a request. It
	// takes what other programs write, and refuses what would be lost or does
	// not hold together. The codes are history_…; Details["at"] is the place
	// ("messages[3].content[0]").
	Decode(doc []byte) ([]*message.Message, error)

	// Import reads a history of which nothing is known, and goes on where
	// Decode refuses: what is not known is kept as text, and said in Notes.
	Import(doc []byte) (Imported, error)
}

// Imported is a history that was read leniently. It obeys message.CheckHistory
// and has no open calls.
type Imported struct {
	Messages []*message.Message // blocks that nobody wrote so are labelled untrusted
	Nobodys  map[*message.Message]bool
	Notes    []string // one for each thing that became something else
}
