package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/internal/effect"
	"steward/internal/fault"
)

// Times of an event stream.
const (
	beatEvery    = 25 * time.Second // a comment keeps proxies from ending it
	recheckEvery = time.Minute      // whether the person is still signed in
	writeWithin  = 30 * time.Second
)

// stream is the event stream of one open page. Safe for concurrent use.
type stream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

// send sends patches. With an id, a stream that begins again after a break goes on after this event.
func (s *stream) send(id string, patches ...patch) error {
	b, err := json.Marshal(patches)
	if err != nil {
		return err
	}
	return s.event(id, "patch", string(b))
}

func (s *stream) event(id, name, data string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	if _, err := fmt.Fprintf(s.w, "%s%sdata: %s\n\n", id, name, data); err != nil {
		return err
	}
	return s.rc.Flush()
}

// lives are what pages follow, by the parameter "of".
func (s *server) lives() map[string]func(v *visit, ctx context.Context, out *stream) error {
	return map[string]func(v *visit, ctx context.Context, out *stream) error{
		"chat":      (*visit).liveChat,
		"approvals": (*visit).liveApprovals,
		"chats": func(v *visit, ctx context.Context, out *stream) error {
			return v.liveConversations(ctx, out, v.r.URL.Query().Get("conversation"))
		},
		"plans":     (*visit).livePlans,
		"plan":      (*visit).livePlan,
		"jobs":      (*visit).liveJobs,
		"job":       (*visit).liveJob,
		"home":      (*visit).liveHome,
		"documents": (*visit).liveDocuments,
	}
}

// live is the event stream of a page: what it follows, and on every page how many questions wait for the person.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	follow := s.lives()[r.URL.Query().Get("of")]
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	work.Go(func() { cancel(s.alive(func() error { return v.liveWaiting(ctx, out) })) })
	if follow != nil {
		work.Go(func() {
			err := s.alive(func() error { return follow(v, ctx, out) })
			if err != nil && ctx.Err() == nil {
				s.Logger.Info("a page cannot be kept up to date", "error", err)
				b, _ := json.Marshal(map[string]string{"message": fault.Of(err).Message}) //nolint:errcheck // a map of strings
				cancel(out.event("", "failed", string(b)))
				return
			}
		})
	}
	still := func() error {
		err := v.caller.Recheck(ctx)
		if err != nil {
			err = fmt.Errorf("%w; %w", err, out.event("", "ended", ""))
		}
		return err
	}
	beat, check := time.NewTicker(beatEvery), time.NewTicker(recheckEvery)
	defer beat.Stop()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			err = out.event("", "beat", "")
		case <-check.C:
			err = still()
		case <-s.ended.told():
			err = still()
		}
		if err != nil {
			return
		}
	}
}

// ended tells all streams that sessions may have ended, so that they look at once. The zero value is ready. Safe for
// concurrent use.
type ended struct {
	mu sync.Mutex
	ch chan struct{}
}

// told returns a channel that is closed at the next tell.
func (e *ended) told() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ch == nil {
		e.ch = make(chan struct{})
	}
	return e.ch
}

func (e *ended) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ch != nil {
		close(e.ch)
		e.ch = nil
	}
}

// endsSessions reports whether an action can end sessions. Those that end otherwise, for example by a command, end
// their streams within recheckEvery.
func endsSessions(pattern string) bool {
	name, _ := strings.CutPrefix(pattern, "POST /do/")
	return slices.Contains([]string{"sign-out", "session-end", "user-lock", "user-save", "user-remove", "group-join", "group-leave", "group-remove"}, name)
}

// alive runs a part of a stream in a goroutine of its own. A panic there would end Steward for everybody, not only
// this stream, as one in a handler does.
func (s *server) alive(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("a stream of the page failed", "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, "stream_failed", "this page cannot be kept up to date").WithHint("load it again")
		}
	}()
	return run()
}

// liveWaiting follows how many questions wait for the person.
func (v *visit) liveWaiting(ctx context.Context, out *stream) error {
	for list, err := range v.Node.FollowApprovals(ctx, v.caller.User) {
		if err != nil {
			return err
		}
		if err := out.send("", v.waiting(list)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// waiting shows how many questions wait.
func (v *visit) waiting(list []effect.Question) patch {
	n := 0
	says := ""
	for _, q := range list {
		if q.Yours {
			n++
			says = cmp.Or(q.Summary, q.Tool) // of the last one, for a notification
		}
	}
	return put("waiting", "", Span(ID("waiting"), Class("badge"), Data("count", fmt.Sprint(n)), Data("says", visible(says)), g.If(n == 0, Hidden("")), Aria("label", v.t("{n} waiting", fmt.Sprint(n))), g.Text(fmt.Sprint(n))))
}
