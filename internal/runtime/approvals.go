package runtime

import (
	"context"
	"iter"
	"slices"
	"time"

	"steward/internal/effect"
)

// approvalsEvery is the shortest time between two looks at what waits for a user's
// answer. A follower is told of everybody's questions and sees its user's, so with
// many of both, looking costs more than working.
const approvalsEvery = 100 * time.Millisecond

// FollowApprovals yields the questions that wait for a user's answer: the current
// list first, then the list after changes, until ctx is done or the node closes.
func (n *Node) FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error] {
	return func(yield func([]effect.Question, error) bool) {
		life := n.life.Of(user)
		defer n.following(user)()
		var told []string
		for first := true; ; first = false {
			changed, rested := n.Effects.Changed(), time.After(approvalsEvery)
			list, err := n.Effects.Questions(ctx, user)
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
			if !awaitChange(ctx, life, changed, list) {
				return
			}
			select {
			case <-rested:
			case <-ctx.Done():
				return
			case <-life.Done():
				return
			}
		}
	}
}

// awaitChange waits until the list may have changed, which includes the expiry of
// its first question. It returns false if ctx or life has ended.
func awaitChange(ctx, life context.Context, changed <-chan struct{}, list []effect.Question) bool {
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
	case <-life.Done():
		return false
	}
	return true
}
