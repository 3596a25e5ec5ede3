package runtime

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// recoverRequests continues the requests that were not closed. It runs after
// recover has resumed the runs.
func (n *Node) recoverRequests(ctx context.Context) error {
	found, err := openRequests(ctx, n.opt.Store, store.ForNode(resource.System))
	if err != nil {
		return err
	}
	for i := range found {
		n.leases.note(record.IDOf(found[i].at, record.TypeInteraction))
	}
	queues := map[resource.URI]string{} // interactions with queued actions, and their users
	for i := range found {
		if r := &found[i]; r.Kind != record.RequestCall && r.Wish == record.WishQueued && r.state == record.RequestOpen {
			queues[r.at.Parent()] = userOf(r.space)
		}
	}
	abreast(len(found), func(i int) {
		r := &found[i]
		var err error
		switch user := userOf(r.space); {
		case r.Kind == record.RequestCall:
			n.runs.Go(func() { n.settleCall(n.life, r.Request) })
		case r.Wish == record.WishQueued && r.state == record.RequestOpen: // in queues
		case r.state == record.RequestAnswered && r.quiet():
			err = n.closeDone(ctx, user, r.at)
		case r.Kind == record.RequestTask:
			n.takeUp(user, r)
		default:
			err = n.settleOrphan(ctx, user, r)
		}
		if err != nil {
			n.log.Error("an open request cannot be settled", "request", r.at.String(), "error", err)
		}
	})
	return n.recoverQueues(ctx, queues)
}

// settleOrphan answers a request that has no run left, and closes it if it is
// answered.
func (n *Node) settleOrphan(ctx context.Context, user string, r *storedRequest) error {
	if r.state == record.RequestAnswered {
		return n.closeDone(ctx, user, r.at)
	}
	inter := r.at.Parent()
	if r.Kind == record.RequestAgent {
		inter = record.InteractionURI(r.Conversation, r.Interaction)
	}
	run, found, err := lastRun(ctx, n.opt.Store, store.ForUser(user), inter)
	switch {
	case err != nil:
		return err
	case !found: // it was erased
		run.Outcome, run.Error = string(agent.Failure), codeOrphaned
		n.log.Warn("a request was left behind; nobody goes on with it", "request", r.at.String(), "kind", r.Kind)
	case run.Ended.IsZero():
		return nil // it was resumed, or is when it is asked again
	}
	_, err = n.answerRequest(ctx, user, r.at, run.Outcome, run.Error)
	return err
}

// lastRun returns the newest run of an interaction.
func lastRun(ctx context.Context, st store.Store, sc store.Scope, inter resource.URI) (run record.Run, found bool, err error) {
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: inter, Type: record.TypeRun}) {
		if err != nil {
			return run, false, err
		}
		var r record.Run
		if err := record.Decode(it.URI, it.Body, &r); err != nil {
			return run, false, err
		}
		if r.ID, _ = id.Parse(it.URI.ID()); !found || r.Started.After(run.Started) {
			run, found = r, true
		}
	}
	return run, found, nil
}

// gist sums up all messages below a place.
type gist struct {
	final   *message.Message // the newest one; nil: there is none
	labels  message.Labels
	sources []string
	denied  []string // tools, sorted
	called  []string // tools, sorted
	replies int      // of models
	offline bool     // the offline model wrote one of them
	failed  bool     // a call did
}

func sumUp(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) (s gist, err error) {
	for m, err := range messagesUnder(ctx, st, sc, under) {
		if err != nil {
			return gist{}, err
		}
		s.labels |= message.LabelsOf(m.Blocks)
		s.sources = message.JoinSources(s.sources, message.SourcesOf(m.Blocks))
		if m.Model != "" {
			s.replies++
			s.offline = s.offline || strings.HasPrefix(m.Model, "offline/")
		}
		for _, c := range m.Calls() {
			s.called = message.JoinSources(s.called, []string{c.Name})
		}
		if r := m.Result(); r != nil {
			s.failed = s.failed || r.Status != message.OK && r.Status != message.Accepted && r.Status != message.Queued
			s.denied = message.JoinSources(s.denied, r.Denied)
			if r.Status == message.DeniedCall {
				s.denied = message.JoinSources(s.denied, []string{r.Name})
			}
		}
		if m.Final && (s.final == nil || m.At.After(s.final.At)) {
			s.final = m
		}
	}
	return s, nil
}

// messagesUnder yields the messages stored at or below a place.
func messagesUnder(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) iter.Seq2[*message.Message, error] {
	return func(yield func(*message.Message, error) bool) {
		for it, err := range store.Items(ctx, st, sc, store.Query{Under: under, Type: record.TypeMessage}) {
			var m *message.Message
			if err == nil {
				m, err = record.DecodeMessage(it.URI, it.Body)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// ownWork marks a request that this process is working on. A request without one
// is taken up at the next start.
type ownWork struct {
	request id.ID // of a background call; or of a turn, while its queued actions are executed
	user    string
	conv    id.ID
	cancel  context.CancelCauseFunc
	task    *backgroundCall // nil: it is the queue of a turn
}

// leases holds the requests that are being worked on, each by one owner at a
// time, and what is known in memory about open requests.
type leases struct {
	mu   sync.Mutex
	held map[id.ID]*ownWork
	rows map[id.ID]struct{} // interactions below which requests are recorded

	carrying sync.Mutex // held while a request about an intent is taken up: one at a time
}

// tryLock takes a request. It returns false if somebody holds it.
func (l *leases) tryLock(x *ownWork) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[x.request] != nil {
		return false
	}
	if l.held == nil {
		l.held = map[id.ID]*ownWork{}
	}
	l.held[x.request] = x
	return true
}

func (l *leases) unlock(x *ownWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, x.request)
}

// task returns the background call that works on an id, or nil.
func (l *leases) task(own id.ID) *backgroundCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.held[own]; x != nil {
		return x.task
	}
	return nil
}

func (l *leases) none() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

// cancel cancels a user's work in the given conversations (nil: in all), and
// returns the background calls among it.
func (l *leases) cancel(user string, convs []id.ID, cause error) []*backgroundCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*backgroundCall
	for _, x := range l.held {
		if x.user != user || convs != nil && !slices.Contains(convs, x.conv) {
			continue
		}
		x.cancel(cause)
		if x.task != nil {
			out = append(out, x.task)
		}
	}
	return out
}

// note records that requests exist below an interaction.
func (l *leases) note(inter id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = map[id.ID]struct{}{}
	}
	l.rows[inter] = struct{}{}
}

func (l *leases) noted(inter id.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.rows[inter]
	return ok
}

// forget removes an interaction's note. It reports whether there was one.
func (l *leases) forget(inter id.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.rows[inter]
	delete(l.rows, inter)
	return ok
}
