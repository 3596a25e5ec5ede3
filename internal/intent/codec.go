package intent

import (
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// stored is the JSON form of an Intent.
type stored struct {
	Key       string      `json:"key"`
	Tool      string      `json:"tool"`
	Version   string      `json:"version,omitzero"`
	Args      string      `json:"args"`
	ArgsHash  string      `json:"args_hash"`
	Message   string      `json:"message"`
	Block     int         `json:"block"`
	CallID    string      `json:"call_id,omitzero"`
	User      string      `json:"user,omitzero"`
	Agent     string      `json:"agent,omitzero"`
	Request   string      `json:"request,omitzero"`
	Deferred  bool        `json:"deferred,omitzero"`
	State     State       `json:"state"`
	Reason    string      `json:"reason,omitzero"`
	Created   time.Time   `json:"created,omitzero"`
	Expires   time.Time   `json:"expires,omitzero"`
	Approval  *Approval   `json:"approval,omitzero"`
	DeniedBy  string      `json:"denied_by,omitzero"`
	Attempts  int         `json:"attempts,omitzero"`
	Lineage   []string    `json:"lineage,omitzero"`
	Labels    uint8       `json:"labels,omitzero"`
	Rule      string      `json:"rule,omitzero"`
	Policy    string      `json:"policy,omitzero"`
	Approvers string      `json:"approvers,omitzero"`
	Mask      []string    `json:"mask,omitzero"`
	Cap       int         `json:"cap,omitzero"`
	Fixed     bool        `json:"fixed,omitzero"`
	Open      []string    `json:"open,omitzero"`
	Undoes    string      `json:"undoes,omitzero"`
	Undone    string      `json:"undone,omitzero"`
	Retries   string      `json:"retries,omitzero"`
	Retried   string      `json:"retried,omitzero"`
	Dead      bool        `json:"dead,omitzero"`
	Resolved  *Resolution `json:"resolved,omitzero"`
	Result    string      `json:"result,omitzero"` // JSON in a string, so that its bytes stay as they are
}

// Encode returns the stored form: one JSON object. Text that is not valid
// UTF-8 is refused (Invalid, intent_invalid).
func Encode(in Intent) ([]byte, error) {
	b, err := json.Marshal(stored{
		Key: in.Key, Tool: in.Tool, Version: in.Version, Args: in.Args, ArgsHash: in.ArgsHash,
		Message: in.Call.Message.String(), Block: in.Call.Block, CallID: in.CallID, User: in.User,
		Agent: in.Agent, Request: in.Request.String(), Deferred: in.Deferred, State: in.State,
		Reason: in.Reason, Created: in.Created, Expires: in.Expires, Approval: in.Approval,
		DeniedBy: in.DeniedBy, Attempts: in.Attempts, Result: string(in.Result),
		Lineage: in.Lineage, Labels: uint8(in.Labels), Rule: in.Rule, Policy: in.Policy,
		Approvers: in.Approvers, Mask: in.Mask, Cap: in.Cap, Fixed: in.Fixed, Open: in.Open,
		Undoes: in.Undoes, Undone: in.Undone, Retries: in.Retries, Retried: in.Retried, Dead: in.Dead, Resolved: in.Resolved,
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "intent_invalid", "an intent for %q cannot be recorded: %w", in.Tool, err)
	}
	return b, nil
}

// Decode reads the stored form. It refuses (Internal, intent_broken) what is
// no intent: an unknown state, a broken id, arguments that do not match their
// hash.
func Decode(b []byte) (Intent, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return Intent{}, broken("%w", err)
	}
	msg, err := optionalID(s.Message)
	if err != nil {
		return Intent{}, err
	}
	req, err := optionalID(s.Request)
	if err != nil {
		return Intent{}, err
	}
	if !s.State.Known() {
		return Intent{}, broken("its state is %q", s.State)
	}
	if HashArgs([]byte(s.Args)) != s.ArgsHash {
		return Intent{}, broken("its arguments do not match their hash")
	}
	in := Intent{
		Key: s.Key, Tool: s.Tool, Version: s.Version, Args: s.Args, ArgsHash: s.ArgsHash,
		Call: message.Ref{Message: msg, Block: s.Block}, CallID: s.CallID, User: s.User,
		Agent: s.Agent, Request: req, Deferred: s.Deferred, State: s.State,
		Reason: s.Reason, Created: s.Created, Expires: s.Expires, Approval: s.Approval,
		DeniedBy: s.DeniedBy, Attempts: s.Attempts,
		Lineage: s.Lineage, Labels: message.Labels(s.Labels), Rule: s.Rule, Policy: s.Policy,
		Approvers: s.Approvers, Mask: s.Mask, Cap: s.Cap, Fixed: s.Fixed, Open: s.Open,
		Undoes: s.Undoes, Undone: s.Undone, Retries: s.Retries, Retried: s.Retried, Dead: s.Dead, Resolved: s.Resolved,
	}
	if s.Result != "" {
		in.Result = []byte(s.Result)
	}
	return in, nil
}

func optionalID(s string) (id.ID, error) {
	if s == "" {
		return id.ID{}, nil
	}
	x, ok := id.Parse(s)
	if !ok {
		return id.ID{}, broken("%q is no id", s)
	}
	return x, nil
}

func broken(format string, args ...any) error {
	return fault.New(fault.Internal, "intent_broken", "a recorded intent cannot be read: "+format, args...).
		With("restore the database from a backup, or delete the conversation")
}
