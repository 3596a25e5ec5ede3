package events

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/store"
	"steward/internal/store/follow"
	_ "steward/test/seed"
	"steward/test/storetest"
)

// Whatever is written, whatever an observer asks for, and however often he
// breaks off and comes back: he is told exactly what the ledger says, in order,
// once, and nothing of others. One observes while it is written, another one
// afterwards.
func TestObserversGetExactlyTheLog(t *testing.T) {
	t.Parallel()
	users := []string{"ana", "eve"}
	steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		num := rapid.IntRange(0, 1<<10)
		return step{What: rapid.IntRange(0, numSteps-1).Draw(r, "what"), Chat: rapid.IntRange(0, 1).Draw(r, "chat"), A: num.Draw(r, "a"), B: num.Draw(r, "b"), Join: rapid.Bool().Draw(r, "join")}
	}), 0, 60)
	rapid.Check(t, func(r *rapid.T) {
		st := storetest.NewModel()
		defer st.Close()
		w := newLedger(st, users...)
		h := observing(st, rapid.SampledFrom([]int{1, 3, 1000}).Draw(r, "queue"), rapid.SampledFrom([]int{1, 7, 100}).Draw(r, "size"))
		defer h.opt.Follow.Close()
		f := ChangeFilter{Tools: rapid.SampledFrom([][]string{nil, nil, {"file.*"}, {"*.now", "math.add"}}).Draw(r, "tools"),
			Kinds: rapid.SampledFrom([][]string{nil, nil, {"message_*"}, {"view_revised", "branch_*"}}).Draw(r, "kinds")}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 2*len(users)-1), 0, 3).Draw(r, "conversations") { // others', too
			f.Conversations = append(f.Conversations, w.chats[i].conv.ID)
		}
		breaks := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "breaks"), 0))
		lists, errs := [][]step{steps.Draw(r, "ana's"), steps.Draw(r, "eve's")}, make([]error, len(users))
		ctx, done := context.WithCancel(t.Context())
		var live []Change
		var cursor Cursor
		var liveErr error
		var writing, watching sync.WaitGroup
		watching.Go(func() { live, cursor, liveErr = observeUntil(ctx, h, f, 0, breaks) })
		for u := range users {
			writing.Go(func() { errs[u] = write(t.Context(), w, w.chats[2*u:2*u+2], lists[u]) })
		}
		writing.Wait()
		done()
		watching.Wait()
		head, err := follow.Head(t.Context(), st)
		if err != nil || liveErr != nil || errs[0] != nil || errs[1] != nil {
			r.Fatal(err, liveErr, errs)
		}
		want := w.expected(t, "ana", f)
		if len(live) > len(want) || len(live) > 0 && !reflect.DeepEqual(live, want[:len(live)]) {
			r.Fatalf("live:\n%s\nwant\n%s", show(live), show(want))
		}
		if at, err := cursor.Position(); cursor != "" && (err != nil || at > head) {
			r.Fatalf("the cursor is %d of %d, %v", at, head, err)
		}
		if head == 0 {
			return
		}
		if all, _, err := observeUntil(t.Context(), h, f, head, breaks); err != nil || len(all)+len(want) > 0 && !reflect.DeepEqual(all, want) {
			r.Fatalf("%v\ngot\n%s\nwant\n%s", err, show(all), show(want))
		}
	})
}

// write commits what steps say, those that join in one batch.
func write(ctx context.Context, w *ledger, chats []*chat, steps []step) error {
	d := &draft{}
	for i, s := range steps {
		chats[s.Chat].add(d, s)
		if i+1 < len(steps) && steps[i+1].Join && steps[i+1].Chat == s.Chat {
			continue
		}
		if err := w.commit(ctx, chats[s.Chat], d); err != nil {
			return err
		}
		d = &draft{}
	}
	return nil
}

// observeUntil observes for ana from the start, breaking off and coming back,
// to a position, or, where that is 0, until ctx is done.
func observeUntil(ctx context.Context, h *Engine, f ChangeFilter, end uint64, r *rand.Rand) (got []Change, cursor Cursor, err error) {
	for ctx.Err() == nil {
		left := 1 + r.IntN(4)
		for b, err := range h.Observe(ctx, store.ForUser("ana"), f, cursor) {
			if err != nil {
				return got, cursor, err
			}
			for _, c := range b.Changes {
				got = append(got, *c)
			}
			cursor = b.Cursor
			if at, err := cursor.Position(); err != nil || end > 0 && at >= end {
				return got, cursor, err
			}
			if left--; left == 0 {
				break
			}
		}
	}
	return got, cursor, nil
}

func show(cs []Change) string {
	s := ""
	for _, c := range cs {
		s += fmt.Sprintf("\n  %+v", c)
	}
	return s
}
