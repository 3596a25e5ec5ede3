package intent

import (
	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// stored is the JSON form of an Intent.
type stored struct {
	Intent
	Message id.ID  `json:"message"`
	Block   int    `json:"block"`
	Result  string `json:"result,omitzero"` // JSON in a string, so that its bytes are kept exactly
}

// Encode returns the stored form: one JSON object. Text that is not valid
// UTF-8 is refused (Invalid, intent_invalid).
func Encode(in Intent) ([]byte, error) {
	b, err := json.Marshal(stored{Intent: in, Message: in.Call.Message, Block: in.Call.Block, Result: string(in.Result)})
	if err != nil {
		return nil, fault.New(fault.Invalid, "intent_invalid", "cannot record an intent for %q: %w", in.Tool, err)
	}
	return b, nil
}

// Decode decodes the stored form. It refuses anything that is not a valid intent
// (Internal, intent_broken): an unknown state, an invalid id, or arguments that do not
// match their hash.
func Decode(b []byte) (Intent, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return Intent{}, broken("%w", err)
	}
	in := s.Intent
	if !in.State.Known() {
		return Intent{}, broken("its state is %q", in.State)
	}
	if HashArgs([]byte(in.Args)) != in.ArgsHash {
		return Intent{}, broken("its arguments do not match their hash")
	}
	in.Call = message.Ref{Message: s.Message, Block: s.Block}
	if s.Result != "" {
		in.Result = []byte(s.Result)
	}
	return in, nil
}

func broken(format string, args ...any) error {
	return fault.New(fault.Internal, "intent_broken", "cannot read a recorded intent: "+format, args...).
		WithHint("restore the database from a backup, or delete the conversation")
}
