package auth

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
)

// Answer is a person's answer to an approval request, as programs send it.
type Answer struct {
	Hash     string         `json:"hash"` // of the question as it was shown
	Reason   string         `json:"reason,omitzero"`
	Standing string         `json:"standing,omitzero"` // once (also where it is left out), conversation or always
	Pattern  intent.Pattern `json:"pattern,omitzero"`  // of a standing approval, as it was shown; left out: as it was proposed
	Until    string         `json:"until,omitzero"`    // of a standing approval: RFC 3339; left out or never: for ever
	Args     jsontext.Value `json:"args,omitzero"`     // arguments to use instead of those asked about
}

// Verdict returns the caller's answer as a verdict. A service cannot approve (approval_unattended,
// Denied), because no person has looked at the request.
func (a Answer) Verdict(c Caller, question string, approve bool) (effect.Decision, error) {
	v := effect.Decision{ID: question, Hash: a.Hash, Approve: approve, Reason: a.Reason,
		Standing: effect.Standing(a.Standing), Pattern: a.Pattern, Args: a.Args}
	if v.Standing == "once" {
		v.Standing = effect.Once
	}
	if a.Args.Kind() == 'n' { // null: there are none
		v.Args = nil
	}
	if !approve && (v.Standing != effect.Once || v.Pattern != nil || a.Until != "" || v.Args != nil) {
		return v, fault.New(fault.Invalid, "approval_invalid", "a denial takes only a reason").WithHint("leave the other members out")
	}
	if approve && !c.Attended() {
		return v, unattended()
	}
	until, err := Until(a.Until)
	if until != nil {
		v.Until = *until
	}
	return v, err
}

func unattended() error {
	return fault.New(fault.Denied, "approval_unattended", "service accounts cannot approve").
		WithHint("have a person answer with their own key")
}

// Until parses the end of a standing approval: "" is nil, "never" the zero time.
func Until(s string) (*time.Time, error) {
	switch s {
	case "":
		return nil, nil
	case "never":
		return &time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, fault.New(fault.Invalid, "member_invalid", "%.80q is not a time", s).Detail("member", "/until").
			WithHint("send a time in RFC 3339, such as 2030-01-02T15:04:05Z, or never")
	}
	return &t, nil
}

// GrantChange is a change of a standing approval, as programs send it. Members that are left out
// stay as they are.
type GrantChange struct {
	Pattern  intent.Pattern `json:"pattern"`
	Until    string         `json:"until"`           // RFC 3339, or never
	Standing string         `json:"standing"`        // conversation or always
	Labels   *[]string      `json:"labels,omitzero"` // what may have been read before: private, untrusted
	Hash     string         `json:"hash"`            // of the change as it was shown; required if it covers more
}

// Edit returns the change as an edit by the caller.
func (g GrantChange) Edit(c Caller) (effect.GrantEdit, error) {
	if !c.Attended() {
		return effect.GrantEdit{}, unattended()
	}
	until, err := Until(g.Until)
	ed := effect.GrantEdit{Pattern: g.Pattern, Until: until, Standing: effect.Standing(g.Standing), Hash: g.Hash}
	if g.Labels != nil && err == nil {
		var l message.Labels
		l, err = message.ParseLabels(strings.Join(*g.Labels, ","))
		ed.Labels = &l
	}
	return ed, err
}
