package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/server/auth"
)

// Times of an event stream.
const (
	beatEvery    = 25 * time.Second // an event keeps proxies from ending it
	recheckEvery = time.Minute      // whether the person is still signed in
	rightsEvery  = 30 * time.Second // which places of the log the person may read, while nothing happens
)

// look is how a source that looks from time to time sees what it shows. It returns all of it, as patches that take
// the place of elements, and after which time it looks again (0: never) even if nothing is reported before.
type look func(ctx context.Context, why cause) (list []patch, again time.Duration, err error)

// cause is why a source looks.
type cause struct{ joined, logged, asked bool }

// subject is something that changes by itself. Its source looks when a page joins, and when something is reported.
type subject struct {
	name  string // with everything that what is shown depends on, besides the person and the language
	look  look
	pause time.Duration // at least between two looks
	asks  bool          // it is reported when the questions change that wait for the person
	// Entries of the log about resources of these types that the person may read are reported; nil: none.
	types []string
}

// anything is reported that is new in the log.
var anything = []string{} // read-only

// lives are what pages follow, by the parameter "of".
func lives() map[string]func(v *visit) subject {
	return map[string]func(v *visit) subject{
		"chat":      (*visit).liveConversations, // and the messages: see followChat
		"chats":     (*visit).liveConversations,
		"approvals": (*visit).liveApprovals,
		"plans":     (*visit).livePlans,
		"plan":      (*visit).livePlan,
		"jobs":      (*visit).liveJobs,
		"job":       (*visit).liveJob,
		"home":      (*visit).liveHome,
		"documents": (*visit).liveDocuments,
	}
}

// live is the event stream of a page: what it shows, and on every page how many questions wait for the person.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	go func() {
		select {
		case <-s.Closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	out := &stream{w: w, rc: http.NewResponseController(w), queue: newQueue()}
	err = v.follow(out)
	switch {
	case err == nil || r.Context().Err() != nil || errors.Is(err, errSlow) || errors.Is(err, errGone):
	case errors.Is(err, errSignedOut):
		out.write(event("", "ended", nil)) //nolint:errcheck // the page has gone
	default:
		s.Logger.Info("a page cannot be kept up to date", "error", err)
		b, _ := json.Marshal(map[string]string{"message": fault.Of(err).Message}) //nolint:errcheck // a map of strings
		out.write(event("", "failed", b))                                         //nolint:errcheck // the page has gone
	}
}

// follow joins the sources of a page and sends what they tell, until the page is closed or one of them ends.
func (v *visit) follow(out *stream) error {
	join := func(name string, run func(v *visit, s *source) error) (*source, func()) {
		return v.hub.join(v.key(name), out.queue, func(ctx context.Context, s *source) error { return run(v.lasting(ctx), s) })
	}
	watch := func(of func(*visit) subject) (leave func()) {
		_, leave = join(of(v).name, func(v *visit, s *source) error { return v.watch(s, of(v)) })
		return leave
	}
	_, leave := v.hub.join("beat", out.queue, beat)
	defer leave()
	_, leave = v.hub.join(v.key(v.session()), out.queue, v.followSession)
	defer leave()
	defer watch((*visit).liveWaiting)()
	of := v.r.URL.Query().Get("of")
	if sub := lives()[of]; sub != nil {
		defer watch(sub)()
	}
	if of == "chat" {
		conv, seq, err := v.chatPosition()
		if err != nil {
			return err
		}
		s, leave := join("messages "+conv.String(), func(v *visit, s *source) error { return v.followChat(s, conv) })
		defer leave()
		select {
		case <-s.ready:
		case <-s.done: // the queue has its error
		case <-v.ctx().Done():
			return nil
		}
		if err := v.catchUp(out, conv, seq); err != nil {
			return err
		}
	}
	return v.sendQueued(out)
}

// sendQueued sends what sources have put into the queue.
func (v *visit) sendQueued(out *stream) error {
	for {
		select {
		case <-v.ctx().Done():
			return nil
		case <-out.queue.wake:
			events, ended, err := out.queue.take()
			if failed := out.write(events...); ended || failed != nil {
				return errors.Join(failed, err)
			}
		}
	}
}

// beat is a source that tells all pages from time to time that it is there, at once: that wakes the machine less
// often.
func beat(ctx context.Context, s *source) error {
	return every(ctx, beatEvery, func() error {
		s.tell(event("", "beat", nil))
		return nil
	})
}

// errSignedOut ends the pages of a session that has ended, or whose person may do something else by now.
var errSignedOut = errors.New("signed out")

// session is the name of a source that ends with the session of the browser.
func (v *visit) session() string {
	name := ""
	if c, err := v.r.Cookie(auth.CookieName(v.r)); err == nil {
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(c.Value)))
	}
	return "session " + name
}

// followSession is a source that ends with the session.
func (v *visit) followSession(ctx context.Context, _ *source) error {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for told := v.ended.told(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-told:
		}
		told = v.ended.told() // before the look, so that nothing told during it is missed
		if err := v.caller.Recheck(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errSignedOut, err)
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

// alive runs a part of a source in a goroutine of its own. A panic there would end Steward for everybody, not only
// the pages of this source.
func alive(log *slog.Logger, run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a stream of the page failed", "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, "stream_failed", "this page cannot be kept up to date").WithHint("load it again")
		}
	}()
	return run()
}

// every does something from time to time, until it fails or ctx ends.
func every(ctx context.Context, pause time.Duration, do func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := do(); err != nil {
				return err
			}
		}
	}
}

// stream is the event stream of one open page.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	queue *queue
}

// errGone ends the stream of a page that is closed.
var errGone = errors.New("the page has gone")

func (s *stream) write(events ...[]byte) error {
	if len(events) == 0 {
		return nil
	}
	var err error
	for _, e := range events {
		if err == nil {
			_, err = s.w.Write(e) // auth.Timeouts bounds how long it takes
		}
	}
	if err == nil {
		err = s.rc.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// key is the key of a source: what is shown depends on the person, what the person may do, and the language.
func (v *visit) key(name string) string {
	c := &v.caller
	return fmt.Sprintf("%q %t %q %q %s %s", c.User, c.Admin, c.Roles, c.Groups, v.lang, name)
}

// lasting is the visit of a source, which no request of a page ends. Each page checks by itself whether its person
// is still signed in and has the same rights.
func (v *visit) lasting(ctx context.Context) *visit {
	out := *v
	out.caller = v.caller.Lasting()
	out.r = (&http.Request{Method: http.MethodGet, URL: v.r.URL, Header: http.Header{}}).WithContext(auth.With(ctx, out.caller))
	return &out
}

// watch is the life of a source that looks.
func (v *visit) watch(s *source, sub subject) error {
	logged, asked := newQueue(), newQueue()
	if sub.types != nil {
		_, leave := v.hub.join(fmt.Sprintf("log %q %q", v.caller.User, sub.types), logged, func(ctx context.Context, s *source) error {
			return v.reportLog(ctx, s, sub.types)
		})
		defer leave()
	}
	if sub.asks {
		_, leave := v.hub.join(fmt.Sprintf("questions %q", v.caller.User), asked, v.reportQuestions)
		defer leave()
	}
	ctx := v.ctx()
	again := time.NewTimer(0)
	defer again.Stop()
	for why := (cause{joined: true}); ; {
		again.Stop()
		select {
		case <-s.joined: // this look is for them
			why.joined = true
		default:
		}
		look, rested := s.begin(), time.After(sub.pause)
		list, wait, err := sub.look(ctx, why)
		if err != nil {
			return err
		}
		s.show(look, list)
		if wait > 0 {
			again.Reset(wait)
		}
		why = cause{}
		select {
		case <-ctx.Done():
			return nil
		case <-s.joined:
			why.joined = true
		case <-logged.wake:
			why.logged = true
		case <-asked.wake:
			why.asked = true
		case <-again.C:
		}
		select {
		case <-rested:
		case <-ctx.Done():
			return nil
		}
		for _, x := range []struct {
			from *queue
			news *bool
		}{{logged, &why.logged}, {asked, &why.asked}} {
			events, ended, err := x.from.take()
			if ended {
				return err
			}
			*x.news = *x.news || len(events) > 0
		}
	}
}

// reportLog is a source that reports that it has begun, and then what is new in the log.
func (v *visit) reportLog(ctx context.Context, s *source, types []string) error {
	first := true
	for b, err := range v.Node.Subscribe(ctx, v.caller.User, events.Filter{Types: types, Recheck: rightsEvery}, events.Now) {
		if err != nil {
			return err
		}
		if first || len(b.Events) > 0 {
			s.report()
		}
		first = false
	}
	return nil
}

// reportQuestions is a source that reports that it has begun, and then that the questions have changed that wait
// for the person. It ends with the node, and so do all pages.
func (v *visit) reportQuestions(ctx context.Context, s *source) error {
	for _, err := range v.Node.FollowApprovals(ctx, v.caller.User) {
		if err != nil {
			return err
		}
		s.report()
	}
	return nil
}

// liveWaiting shows how many questions wait for the person.
func (v *visit) liveWaiting() subject {
	return subject{name: "waiting", asks: true, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		list, err := v.Node.Effects.Questions(ctx, v.caller.User)
		return []patch{v.waiting(list)}, 0, err
	}}
}

// waiting shows how many questions wait.
func (v *visit) waiting(list []effect.Question) patch {
	n, says := 0, ""
	for _, q := range list {
		if q.Yours {
			n++
			says = cmp.Or(q.Summary, q.Tool) // of the last one, for a notification
		}
	}
	return put("waiting", "", Span(ID("waiting"), Class("badge"), Data("count", fmt.Sprint(n)), Data("says", visible(says)), g.If(n == 0, Hidden("")), Aria("label", v.t("{n} waiting", fmt.Sprint(n))), g.Text(fmt.Sprint(n))))
}
