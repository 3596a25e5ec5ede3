package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	beatEvery    = 25 * time.Second // a comment keeps proxies from ending it
	recheckEvery = time.Minute      // whether the person is still signed in
	writeWithin  = 30 * time.Second
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
	if r.Context().Err() == nil && err != nil && !errors.Is(err, errSlow) && !errors.Is(err, errGone) {
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
	beat, check := time.NewTicker(beatEvery), time.NewTicker(recheckEvery)
	defer beat.Stop()
	defer check.Stop()
	for {
		var events [][]byte
		select {
		case <-v.ctx().Done():
			return nil
		case <-out.queue.wake:
			var ended bool
			var err error
			if events, ended, err = out.queue.take(); ended {
				return errors.Join(out.write(events...), err)
			}
		case <-beat.C:
			events = [][]byte{event("", "beat", nil)}
		case <-check.C:
			if v.caller.Recheck(v.ctx()) != nil {
				return out.write(event("", "ended", nil))
			}
		}
		if err := out.write(events...); err != nil {
			return err
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
	err := s.rc.SetWriteDeadline(time.Now().Add(writeWithin))
	for _, e := range events {
		if err == nil {
			_, err = s.w.Write(e)
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
	for b, err := range v.Node.Subscribe(ctx, v.caller.User, events.Filter{Types: types}, events.Now) {
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
	n := 0
	for _, q := range list {
		if q.Yours {
			n++
		}
	}
	return put("waiting", "", Span(ID("waiting"), Class("badge"), Data("count", fmt.Sprint(n)), g.If(n == 0, Hidden("")), Aria("label", v.t("{n} waiting", fmt.Sprint(n))), g.Text(fmt.Sprint(n))))
}
