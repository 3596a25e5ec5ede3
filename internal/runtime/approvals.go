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

// FollowApprovals tells what waits for a user's word: as it is, and again
// whenever that becomes otherwise, until ctx is done.
func (n *Node) FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error] {
	return func(yield func([]effect.Question, error) bool) {
		var told []string
		for first := true; ; first = false {
			changed := n.effects.Changed()
			list, err := n.effects.Questions(ctx, user)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			keys := questionKeys(list)
			if (first || !slices.Equal(keys, told)) && !yield(list, nil) {
				return
			}
			told = keys
			if !n.awaitChange(ctx, changed, list) {
				return
			}
		}
	}
}

// awaitChange waits until something may be otherwise: also the first of the
// questions to expire. False: ctx or the node has ended.
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

func questionKeys(list []effect.Question) []string {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = list[i].ID + " " + list[i].Hash
	}
	return keys
}

// GrantEdited is a standing approval as an edit would leave it.
type GrantEdited struct {
	Grant GrantView `json:"grant"`
	Wider bool      `json:"wider"` // it would cover something that it does not
	Hash  string    `json:"hash"`  // to be repeated where it is wider
}

// ApprovalView is a question to a person, as the frames of a conversation tell it.
type ApprovalView struct {
	ID        string // to be named in the answer
	Hash      string // over all that is shown: an answer repeats it
	Reason    string // why it is asked
	Expires   time.Time
	Rule      string          // of the policy
	Labels    []string        // of what the model was shown
	Read      []string        // what of others it had read
	Approvers string          // the group that answers; empty: the user
	Foreign   bool            // the user cannot answer: a group does that he is not in
	Pattern   intent.Pattern  // what a standing approval would cover
	NoGrant   string          // why none can be given
	Arguments []tool.Argument // sizes and marks of the arguments, in their order

	// Where it is not the call itself that is to be allowed, but one that an
	// agent makes which was asked by it, perhaps through others:
	Agent string // its path
	Tool  string
	Args  string // canonical
}

// approvalView is a question as a frame tells it.
func approvalView(q *effect.Question) *ApprovalView {
	if q == nil {
		return nil
	}
	return &ApprovalView{ID: q.ID, Hash: q.Hash, Reason: q.Reason, Expires: q.Expires, Rule: q.Rule, Labels: q.Labels,
		Read: q.Read, Approvers: q.Approvers, Foreign: !q.Yours, Pattern: q.Pattern, NoGrant: q.NoGrant, Arguments: q.Arguments}
}

// GrantView is a standing approval as a person is shown it.
type GrantView struct {
	effect.Grant
	Labels []string `json:"labels,omitzero"`
	State  string   `json:"state"` // "active", "expired", "revoked", or "lapsed": the tool has changed
}

// showGrant returns a standing approval as a person is shown it.
func (k *Records) showGrant(g effect.Grant) GrantView {
	v := GrantView{Grant: g, Labels: g.Labels.Names(), State: "active"}
	switch {
	case !g.Revoked.IsZero():
		v.State = "revoked"
	case !g.Expires.IsZero() && !time.Now().Before(g.Expires):
		v.State = "expired"
	case k.tool != nil:
		if t, ok := k.tool(g.Agent, g.Tool); !ok || t.Spec().Version != g.Version {
			v.State = "lapsed"
		}
	}
	return v
}
