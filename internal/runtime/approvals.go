package runtime

import (
	"context"
	"iter"
	"slices"
	"time"

	"steward/internal/effect"
	"steward/internal/intent"
	"steward/internal/tool"
)

// Verdict is a person's answer to a question.
type Verdict = effect.Decision

// approvalsEvery is the shortest time between two looks at what waits for a user's
// answer. A follower is told of everybody's questions and sees its user's, so with
// many of both, looking costs more than working.
const approvalsEvery = 100 * time.Millisecond

// FollowApprovals yields the questions that wait for a user's answer: the current
// list first, then the list after changes, until ctx is done or the node closes.
func (n *Node) FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error] {
	return func(yield func([]effect.Question, error) bool) {
		var told []string
		for first := true; ; first = false {
			changed, rested := n.effects.Changed(), time.After(approvalsEvery)
			list, err := n.effects.Questions(ctx, user)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			var keys []string
			for i := range list {
				keys = append(keys, list[i].ID+" "+list[i].Hash)
			}
			if (first || !slices.Equal(keys, told)) && !yield(list, nil) {
				return
			}
			told = keys
			if !n.awaitChange(ctx, changed, list) {
				return
			}
			select {
			case <-rested:
			case <-ctx.Done():
				return
			case <-n.life.Done():
				return
			}
		}
	}
}

// awaitChange waits until the list may have changed, which includes the expiry of
// its first question. It returns false if ctx or the node has ended.
func (n *Node) awaitChange(ctx context.Context, changed <-chan struct{}, list []effect.Question) bool {
	var expired <-chan time.Time
	if len(list) > 0 {
		first := slices.MinFunc(list, func(a, b effect.Question) int { return a.Expires.Compare(b.Expires) })
		t := time.NewTimer(time.Until(first.Expires))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-changed:
	case <-expired:
	case <-ctx.Done():
		return false
	case <-n.life.Done():
		return false
	}
	return true
}

// GrantEdited is a standing approval as an edit would change it.
type GrantEdited struct {
	Grant GrantView `json:"grant"`
	Wider bool      `json:"wider"` // it would cover something that it does not cover now
	Hash  string    `json:"hash"`  // must be repeated to confirm a wider grant
}

// ApprovalView is a question to a person, as a conversation's frames carry it.
type ApprovalView struct {
	ID        string          `json:"id"`   // an answer names it
	Hash      string          `json:"hash"` // over everything that is shown; an answer repeats it
	Reason    string          `json:"reason,omitzero"`
	Expires   time.Time       `json:"expires,omitzero"`
	Rule      string          `json:"rule,omitzero"`      // of the policy
	Labels    []string        `json:"labels,omitempty"`   // labels of what the model was shown
	Read      []string        `json:"read,omitempty"`     // untrusted sources that the model had read in this turn
	Approvers string          `json:"approvers,omitzero"` // the group that answers; empty: the user
	Foreign   bool            `json:"foreign,omitzero"`   // the user cannot answer, only a group that the user is not in
	Preview   string          `json:"preview,omitzero"`   // what would change
	Pattern   intent.Pattern  `json:"pattern,omitzero"`   // what a standing approval would cover
	NoGrant   string          `json:"no_grant,omitzero"`  // why none can be given
	Arguments []tool.Argument `json:"arguments,omitempty"`

	Summary string         `json:"summary,omitzero"` // what the call does, in a sentence
	Why     string         `json:"why,omitzero"`     // why it is asked about
	Values  []effect.Value `json:"values,omitempty"` // arguments that neither Summary nor Preview shows
	More    int            `json:"more,omitzero"`    // how many others there are
	Widths  []effect.Width `json:"widths,omitempty"` // what a standing approval is offered for

	// Set if the call to be allowed is not this one, but one made by an agent
	// that this call asked, perhaps through others:
	Agent string `json:"agent,omitzero"` // path of that agent
	Tool  string `json:"tool,omitzero"`
	Args  string `json:"-"` // canonical
}

// approvalView converts a question for a frame. It returns nil for nil.
func approvalView(q *effect.Question) *ApprovalView {
	if q == nil {
		return nil
	}
	return &ApprovalView{ID: q.ID, Hash: q.Hash, Reason: q.Reason, Expires: q.Expires, Rule: q.Rule, Labels: q.Labels,
		Read: q.Read, Approvers: q.Approvers, Foreign: !q.Yours, Preview: q.Preview, Pattern: q.Pattern, NoGrant: q.NoGrant, Arguments: q.Arguments,
		Summary: q.Summary, Why: q.Why, Values: q.Values, More: q.More, Widths: q.Widths}
}

// GrantView is a standing approval as it is shown to a person.
type GrantView struct {
	effect.Grant
	Labels []string `json:"labels,omitzero"`
	State  string   `json:"state"` // "active", "expired", "revoked", or "lapsed": the tool has changed
}

// showGrant returns a standing approval as it is shown to a person.
func (k *Records) showGrant(g effect.Grant) GrantView {
	v := GrantView{Grant: g, Labels: g.Labels.Names(), State: "active"}
	switch {
	case !g.Revoked.IsZero():
		v.State = "revoked"
	case !g.Expires.IsZero() && !time.Now().Before(g.Expires):
		v.State = "expired"
	case k.parts.Tool != nil:
		if t, ok := k.parts.Tool(g.Agent, g.Tool); !ok || t.Spec().Version != g.Version {
			v.State = "lapsed"
		}
	}
	return v
}
