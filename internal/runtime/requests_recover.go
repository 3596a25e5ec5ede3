package runtime

import (
	"context"
	"iter"

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
		r := &found[i]
		var err error
		switch user := userOf(r.space); {
		case r.Kind == record.RequestCall:
			n.runs.Go(func() { n.settleCall(n.life, r.Request) })
		case r.Wish == record.WishQueued && r.state == record.RequestOpen:
			queues[r.at.Parent()] = user
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
	}
	return n.recoverQueues(ctx, queues)
}

// settleOrphan answers a request that has no run left, and closes it if it is
// answered.
func (n *Node) settleOrphan(ctx context.Context, user string, r *storedRequest) error {
	if r.state == record.RequestAnswered {
		return n.closeDone(ctx, user, r.at)
	}
	sc := store.ForUser(user)
	outcome, code := string(agent.Failure), codeOrphaned
	var at []resource.URI
	if !record.IDOf(r.at, record.TypeInteraction).Zero() {
		at = append(at, r.at.Parent()) // the asking run may continue, and ask again
	}
	if r.Kind == record.RequestAgent {
		at = append(at, record.InteractionURI(r.Conversation, r.Interaction))
	}
	for _, inter := range at {
		run, found, err := lastRun(ctx, n.opt.Store, sc, inter)
		switch {
		case err != nil:
			return err
		case found && run.Ended.IsZero():
			return nil // it was resumed
		case found && (r.Kind == record.RequestTurn || inter != r.at.Parent()):
			outcome, code = run.Outcome, run.Error
		}
	}
	if code == codeOrphaned {
		n.log.Warn("a request was left behind; nobody goes on with it", "request", r.at.String(), "kind", r.Kind)
	}
	return n.answerRequest(ctx, user, r.at, outcome, code)
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
}

func sumUp(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) (s gist, err error) {
	for m, err := range messagesUnder(ctx, st, sc, under) {
		if err != nil {
			return gist{}, err
		}
		s.labels |= message.LabelsOf(m.Blocks)
		s.sources = message.JoinSources(s.sources, message.SourcesOf(m.Blocks))
		if r := m.Result(); r != nil {
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
