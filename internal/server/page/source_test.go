package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"steward/internal/server/auth"
	_ "steward/test/seed"
)

// shownScreen is what a browser shows: the elements by their ids.
type shownScreen map[string]string

// take applies the events that have come.
func (s shownScreen) take(t testing.TB, q *queue) (ended bool, err error) {
	t.Helper()
	events, ended, err := q.take()
	for _, e := range events {
		_, data, _ := strings.Cut(string(e), "data: ")
		var list []patch
		if err := json.Unmarshal([]byte(data), &list); err != nil {
			t.Fatal(err, string(e))
		}
		for _, p := range list {
			s[p.ID] = p.HTML
		}
	}
	return ended, err
}

// watching returns the life of a source that looks at a subject.
func watching(sub subject) func(context.Context, *source) error {
	v := &visit{server: &server{}, r: httptest.NewRequest("GET", "/live", nil), lang: "en"}
	return func(ctx context.Context, s *source) error { return v.lasting(ctx).watch(s, sub) }
}

// Whenever pages join and leave and things change: every page shows what is so soon after, nobody looks while there
// are no pages, and nothing runs any more once the last has left.
func TestPagesShowWhatIsSo(t *testing.T) {
	before := goleak.IgnoreCurrent()
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const pause, again = time.Second, 10 * time.Second
			var mu sync.Mutex // of the next three
			facts, looks, running := map[string]string{}, 0, 0
			locked := func(do func()) {
				mu.Lock()
				defer mu.Unlock()
				do()
			}
			life := watching(subject{pause: pause, look: func(ctx context.Context, _ cause) (list []patch, wait time.Duration, err error) {
				locked(func() {
					looks++
					for i := range 4 {
						if x, ok := facts[strconv.Itoa(i)]; ok {
							list = append(list, patch{ID: strconv.Itoa(i), HTML: x})
						}
					}
				})
				return list, again, nil
			}})
			h := &hub{log: slog.New(slog.DiscardHandler)}
			type open struct {
				queue *queue
				shown shownScreen
				leave func()
			}
			var pages []*open
			for range rapid.IntRange(1, 20).Draw(r, "steps") {
				switch step := rapid.IntRange(0, 3).Draw(r, "step"); {
				case step == 0:
					p := &open{queue: newQueue(), shown: shownScreen{}}
					_, p.leave = h.join("key", p.queue, func(ctx context.Context, s *source) error {
						locked(func() { running++ })
						defer locked(func() { running-- })
						return life(ctx, s)
					})
					pages = append(pages, p)
				case step == 1 && len(pages) > 0:
					i := rapid.IntRange(0, len(pages)-1).Draw(r, "page")
					pages[i].leave()
					pages = append(pages[:i], pages[i+1:]...)
				case step == 2:
					fact, value := strconv.Itoa(rapid.IntRange(0, 3).Draw(r, "fact")), rapid.StringMatching(`[a-c]`).Draw(r, "value")
					locked(func() { facts[fact] = value })
				default:
					time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(r, "ms")) * time.Millisecond)
				}
			}
			time.Sleep(again + 2*pause)
			synctest.Wait()
			for _, p := range pages {
				if ended, err := p.shown.take(t, p.queue); ended || err != nil || !maps.Equal(p.shown, facts) {
					r.Errorf("a page shows %v, not %v (%t, %v)", p.shown, facts, ended, err)
				}
			}
			locked(func() {
				if want := min(1, len(pages)); running != want || len(h.all) != want {
					r.Errorf("%d sources run (%d) for %d pages", running, len(h.all), len(pages))
				}
			})
			for _, p := range pages {
				p.leave()
			}
			var seen int
			locked(func() { seen = looks })
			time.Sleep(time.Hour)
			locked(func() {
				if looks != seen || running != 0 || len(h.all) != 0 {
					r.Errorf("without a page: %d more looks, %d sources run", looks-seen, running)
				}
			})
		})
	})
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// A page that joins is sent everything, by a look that begins afterwards; the others only what has changed.
func TestALatePageIsSentEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value atomic.Value
		value.Store("old")
		var looks atomic.Int32
		h, first, late := &hub{log: slog.New(slog.DiscardHandler)}, newQueue(), newQueue()
		life := watching(subject{pause: time.Second, look: func(context.Context, cause) ([]patch, time.Duration, error) {
			looks.Add(1)
			seen := value.Load().(string)
			time.Sleep(100 * time.Millisecond)
			return []patch{{ID: "list", HTML: seen, shape: "one"}, {ID: "list-1", HTML: seen, within: true}}, 0, nil
		}})
		_, leave := h.join("key", first, life)
		defer leave()
		time.Sleep(10 * time.Second)
		one, two := shownScreen{}, shownScreen{}
		one.take(t, first)
		if looks.Load() != 1 || one["list"] != "old" || len(one) != 1 {
			t.Errorf("after %d looks it shows %v", looks.Load(), one)
		}

		_, leave = h.join("key", late, life)
		defer leave()
		time.Sleep(50 * time.Millisecond) // within the look
		value.Store("new")
		later := newQueue()
		_, leave = h.join("key", later, life)
		defer leave()
		time.Sleep(60 * time.Millisecond)
		if two.take(t, late); two["list"] != "old" {
			t.Errorf("the late page shows %v", two)
		}
		if two.take(t, later); len(two) != 1 {
			t.Error("a page has what was seen before it joined")
		}
		time.Sleep(10 * time.Second)
		clear(one)
		clear(two)
		one.take(t, first)
		two.take(t, later)
		if one["list-1"] != "new" || len(one) != 1 || two["list"] != "new" || len(two) != 1 || looks.Load() != 3 {
			t.Errorf("after %d looks they show %v and %v", looks.Load(), one, two)
		}
	})
}

// A page that does not read is closed; the others get everything.
func TestASlowPageIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, slow, quick := &hub{log: slog.New(slog.DiscardHandler)}, newQueue(), newQueue()
		turn := make(chan struct{})
		life := func(ctx context.Context, s *source) error {
			for i := 0; ; i++ {
				select {
				case <-turn:
					s.tell(patchEvent("", []patch{{ID: "n", HTML: strconv.Itoa(i)}}))
				case <-ctx.Done():
					return nil
				}
			}
		}
		for _, q := range []*queue{slow, quick} {
			_, leave := h.join("key", q, life)
			defer leave()
		}
		shown := shownScreen{}
		for range maxQueued + 10 {
			turn <- struct{}{}
			synctest.Wait()
			if ended, err := shown.take(t, quick); ended || err != nil {
				t.Fatal(ended, err)
			}
		}
		if shown["n"] != strconv.Itoa(maxQueued+9) {
			t.Error(shown)
		}
		if events, ended, err := slow.take(); len(events) != 0 || !ended || !errors.Is(err, errSlow) {
			t.Error(len(events), ended, err)
		}
		big := newQueue()
		big.put(make([]byte, maxQueueSize+1)) // one event always fits
		if _, ended, err := big.take(); ended || err != nil {
			t.Error(ended, err)
		}
		big.put(make([]byte, maxQueueSize))
		big.put(make([]byte, 1))
		if _, ended, err := big.take(); !ended || !errors.Is(err, errSlow) {
			t.Error(ended, err)
		}
	})
}

// When a source fails, its pages get what it had told them, and then end. The next page begins a new one.
func TestAFailureEndsThePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, q, failure := &hub{log: slog.New(slog.DiscardHandler)}, newQueue(), errors.New("it has failed")
		_, leave := h.join("key", q, func(_ context.Context, s *source) error {
			time.Sleep(time.Second)
			s.tell(patchEvent("", []patch{{ID: "x", HTML: "last"}}))
			return failure
		})
		time.Sleep(2 * time.Second)
		shown := shownScreen{}
		if ended, err := shown.take(t, q); !ended || !errors.Is(err, failure) || shown["x"] != "last" {
			t.Error(ended, err, shown)
		}
		again, began := newQueue(), false
		_, leaveAgain := h.join("key", again, func(ctx context.Context, s *source) error {
			began = true
			<-ctx.Done()
			return nil
		})
		leave()
		synctest.Wait()
		if !began || len(h.all) != 1 {
			t.Error("the page that came later has the source that failed")
		}
		leaveAgain()
	})
}

// What one person may see is in no source of another, nor in that of the same person with other rights or in
// another language.
func TestPeopleHaveSourcesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []auth.Caller{{User: "ana"}, {User: "ana", Admin: true}, {User: "ana", Roles: []string{"guest"}}, {User: "ana", Groups: []string{"guest"}}, {User: "eve"},
		{User: `ana" false [] [] en x`}, {User: "ana", Groups: []string{"a", "b"}}, {User: "ana", Groups: []string{"a b"}}} {
		for _, lang := range []string{"en", "de"} {
			v := &visit{caller: c, lang: lang}
			key := v.key("plans")
			if other, known := seen[key]; known {
				t.Errorf("%+v in %s has the source of %s", c, lang, other)
			}
			seen[key] = fmt.Sprintf("%+v in %s", c, lang)
		}
	}
}

// A page ends when its session does, which is checked once for all pages of the session.
func TestPagesEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{log: slog.New(slog.DiscardHandler)}
		var signedOut atomic.Bool
		var checks atomic.Int32
		life := func(ctx context.Context, _ *source) error {
			return every(ctx, recheckEvery, func() error {
				if checks.Add(1); signedOut.Load() {
					return errSignedOut
				}
				return nil
			})
		}
		var pages []*queue
		for range 5 {
			q := newQueue()
			_, leave := h.join("session", q, life)
			defer leave()
			pages = append(pages, q)
		}
		time.Sleep(recheckEvery + time.Second)
		signedOut.Store(true)
		time.Sleep(recheckEvery)
		for _, q := range pages {
			if _, ended, err := q.take(); !ended || !errors.Is(err, errSignedOut) {
				t.Error(ended, err)
			}
		}
		if checks.Load() != 2 {
			t.Errorf("%d checks", checks.Load())
		}
	})
}
