package runtime

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/internal/turn"
)

// Spaces hands out users to the nodes that share a store (Options.Spaces).
//
// A node then works only on the users that it was told to take (TakeUser), until it is told to leave them
// (LeaveUser). No other node works on them meanwhile, so all that the engines keep in memory about a user is right.
// This is kept, and all of it is dropped by LeaveUser:
//
//   - turn: conversations with their sessions, drafts and watchers, turn locks, and which of them are to be packed
//   - work: who works on which request; actions called from outside that are in progress; marks of interactions below
//     which there are requests (package requests)
//   - planning: trees that are worked on, and the words of plans that may be examples
//   - effect: runs that wait for a person
//   - jobs: workers and followers of jobs. Due times stay: every node knows those of all users
//   - runtime: what jobs may do with tools, reminders whose messages are not recorded, the turn of the heartbeat, and
//     alarms of which the user was notified
//   - memory: decoded facts, conversations that rest until they are read, and how many were read today
//   - routing: what the user has taught
//   - llm: what the user has spent today (DayLedger; read again by Options.Today)
//
// What goes on for a user lives in the user's part of the node's lifetime (lifetime.Lifetime.Of). So it ends with
// LeaveUser as with Close, with the cause request.ErrSuspend, and is continued by the next TakeUser as by the next
// Open.
//
// These are not of one user, and stay with each node: how many calls of a tool run at the same time
// (tool.Spec.Concurrency), how many calls of all turns do (Options.Parallel), and what models' counts of tokens are
// corrected by, which nodes add to each other's.
type Spaces interface {
	// Want has a user worked on, by this node or another one, if no node does. It does not wait for that.
	Want(ctx context.Context, user string) error
}

// How often a node that shares its store looks which of its users are to be maintained, and when a user is first.
const (
	keepUsers = time.Minute
	keepFirst = time.Minute
	hungWait  = 10 * time.Second // how long LeaveUser waits for calls of tools that do not end when they are told to
	lookAgain = 5 * time.Second  // after what is due could not be read
)

// keeping is what a node knows about the maintenance of users.
type keeping struct {
	mu       sync.Mutex
	users    map[string]*userKeeping
	follow   map[string]int // followers of approvals, by user
	nextScan time.Time      // of users on whom no node works
}

type userKeeping struct {
	keep, read  time.Time // when to erase and pack next, and when to read for facts
	packedUntil time.Time
}

// elsewhere is the error of what only the node can do that works on a user.
func elsewhere(user string) error {
	return fault.New(fault.Unavailable, "user_elsewhere", "this node does not work on %s", user).
		WithHint("try again: the request is passed on to the node that does").Retrying(fault.RetryBackoff, 0)
}

// openShared starts what a node does that shares its store with others.
func (n *Node) openShared(ctx context.Context) error {
	n.kept.users, n.kept.follow = map[string]*userKeeping{}, map[string]int{}
	if n.opt.Idle {
		return nil
	}
	head, err := follow.Head(ctx, n.opt.Store)
	if err != nil {
		return err
	}
	n.life.Go(func() { n.followOthers(head) })
	n.followLog()
	n.anchorLog()
	n.runScheduler()
	n.life.Go(func() { n.everyMinute(n.keepUsers) })
	n.life.Go(func() { n.everyMinute(n.readUsers) })
	return nil
}

// TakeUser begins to work on a user, on whom no other node works, and continues what goes on. When it returns,
// requests of the user can be answered. crashed says that the node which worked on the user before was not heard of
// any more: runs that were active then count a crash. For one user, TakeUser and LeaveUser are called one after the
// other.
func (n *Node) TakeUser(ctx context.Context, user string, crashed bool) error {
	if n.opt.Today != nil {
		if err := n.opt.Today(ctx, user); err != nil {
			return err
		}
	}
	if err := n.restoreJobTools(ctx, store.ForUser(user)); err != nil {
		return err
	}
	if n.life.Err() != nil {
		return turn.ErrClosed
	}
	if !n.life.Begin(user) {
		return fault.New(fault.Conflict, "user_taken", "this node works on %s already", user)
	}
	err := n.resumeUser(ctx, user, crashed)
	if err != nil {
		n.LeaveUser(user)
	}
	return err
}

// resumeUser continues what goes on for a user.
func (n *Node) resumeUser(ctx context.Context, user string, crashed bool) error {
	if err := n.Work.RecoverUser(ctx, user, crashed); err != nil {
		return err
	}
	if err := n.Work.RecoverRequestsOf(ctx, user); err != nil {
		return err
	}
	if n.opt.Alarms != nil {
		if err := n.opt.Alarms.LoadUser(ctx, user); err != nil {
			return err
		}
	}
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	first := time.Now().Add(keepFirst)
	n.kept.users[user] = &userKeeping{keep: first, read: first}
	return nil
}

// LeaveUser suspends all that goes on for a user, and drops what is kept in memory about the user. It returns when
// nothing is done for the user any more. It may be that nothing can be committed any more, because another node works
// on the user already.
func (n *Node) LeaveUser(user string) {
	n.life.Leave(user, request.ErrSuspend)
	if n.Effects.AwaitHung(user, hungWait) {
		n.log.Warn("calls of tools still run for a user on whom this node does not work any more", "user", user)
	}
	n.reader.Drop(user)
	n.Turns.Drop(user)
	n.Records.Engine.Drop(user)
	n.Planning.Drop(user)
	n.Routing.Drop(user)
	n.opt.Memory.Drop(user)
	n.jobTools.drop(user)
	n.reminders.dropUser(user)
	n.beats.Delete(user)
	n.notified.Range(func(occurrence, of any) bool {
		if of == user {
			n.notified.Delete(occurrence)
		}
		return true
	})
	n.kept.mu.Lock()
	delete(n.kept.users, user)
	n.kept.mu.Unlock()
	if n.opt.Alarms == nil || n.life.Err() != nil {
		return
	}
	n.life.Go(func() { n.remindUser(user) })
}

// remindUser reads what is due for a user whom this node has left, who may not be worked on elsewhere: what was begun here
// and has not ended is due again.
func (n *Node) remindUser(user string) {
	for !n.life.Has(user) {
		err := n.opt.Alarms.LoadUser(n.life, user)
		if err == nil || !fault.Pause(n.life, lookAgain) {
			return
		}
		n.log.Warn("cannot read what is due for a user later", "user", user, "error", err)
	}
}

// IdleUser reports whether nothing goes on for a user, so that the user can be left: no run, no request, no call in
// the background, no watcher, nothing that is due soon, and nothing that waits for the user's next event.
func (n *Node) IdleUser(user string) bool {
	if n.life.Busy(user) || n.Turns.InUse(user) || n.reminders.followed(user) || n.reader.Rests(user) {
		return false
	}
	if n.opt.Alarms != nil && n.opt.Alarms.DueBy(user, n.opt.Alarms.Now().Add(2*keepUsers)) {
		return false
	}
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	return n.kept.follow[user] == 0
}

// Left returns a channel that is closed when this node leaves a user: connections of the user are closed then, and
// made again to the node that works on the user. It is nil if the node does not share its store.
func (n *Node) Left(user string) <-chan struct{} { return n.life.Left(user) }

// following counts a follower of a user's approvals, until the returned function is called.
func (n *Node) following(user string) (over func()) {
	if n.opt.Spaces == nil {
		return func() {}
	}
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	n.kept.follow[user]++
	return func() {
		n.kept.mu.Lock()
		defer n.kept.mu.Unlock()
		if n.kept.follow[user]--; n.kept.follow[user] == 0 {
			delete(n.kept.follow, user)
		}
	}
}

// scheduled returns the users for the scheduler; nil: all.
func (n *Node) scheduled() jobs.Spaces {
	if n.opt.Spaces == nil {
		return nil
	}
	return scheduledSpaces{n}
}

type scheduledSpaces struct{ n *Node }

// Enter implements jobs.Spaces.
func (s scheduledSpaces) Enter(ctx context.Context, user string) (context.Context, func(), bool) {
	return s.n.life.Stay(ctx, user)
}

// Want implements jobs.Spaces.
func (s scheduledSpaces) Want(ctx context.Context, user string) error {
	return s.n.opt.Spaces.Want(ctx, user)
}

// followOthers learns from the log what other nodes change, until the node closes: due times, and questions to
// people.
func (n *Node) followOthers(after uint64) {
	for n.life.Err() == nil {
		head, err := n.opt.Store.Wait(n.life, after)
		if err == nil {
			for en, failed := range store.Entries(n.life, n.opt.Store, store.ForNode(""), store.LogQuery{Since: after}) {
				if err = failed; err != nil {
					break
				}
				n.told(&en)
				after = en.Seq
			}
		}
		if err == nil {
			after = max(after, head)
			continue
		}
		if n.life.Err() != nil || fault.HasCode(err, "store_closed") {
			return
		}
		n.log.Warn("cannot follow what other nodes do", "error", err)
		fault.Pause(n.life, time.Second)
	}
}

// decided is a catalog that learns what other nodes decide about agents.
type decided interface {
	Told(ctx context.Context, at resource.URI, version uint64) error
}

// told learns from an entry of the log.
func (n *Node) told(en *resource.Entry) {
	switch en.URI.Type() {
	case record.TypeAlarm, record.TypeJob, record.TypeOccurrence:
		if n.opt.Alarms != nil {
			n.opt.Alarms.Told(en)
		}
	case catalog.TypeAgent, catalog.TypeSource:
		if c, ok := n.opt.Catalog.(decided); ok && en.Space == resource.System {
			if err := c.Told(n.life, en.URI, en.Version); err != nil && n.life.Err() == nil {
				n.log.Error("what another node has decided about an agent is not in effect here", "agent", en.URI.String(), "error", err)
			}
		}
	case effect.TypeIntent:
		n.Effects.Told(en.URI, !n.life.Has(requests.UserOf(en.Space)))
	}
}

// everyMinute calls do every minute until the node closes.
func (n *Node) everyMinute(do func(now time.Time)) {
	tick := time.NewTicker(keepUsers)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do(time.Now())
		case <-n.life.Done():
			return
		}
	}
}

// dueUsers returns the users for whom when has come, sorted.
func (n *Node) dueUsers(now time.Time, when func(*userKeeping) time.Time) []string {
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for user := range maps.Keys(n.kept.users) {
			if !when(n.kept.users[user]).After(now) && !yield(user) {
				return
			}
		}
	})
}

// setKept changes what is known about the maintenance of a user, if this node still works on the user.
func (n *Node) setKept(user string, do func(*userKeeping)) {
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	if k := n.kept.users[user]; k != nil {
		do(k)
	}
}

// keepUsers erases and packs for the users of this node, each once an hour.
func (n *Node) keepUsers(now time.Time) {
	for _, user := range n.dueUsers(now, func(k *userKeeping) time.Time { return k.keep }) {
		if err := n.MaintainUser(n.life, user, now); err != nil && n.life.Of(user).Err() == nil {
			n.log.Error("what was deleted could not be erased, or what is old packed", "user", user, "error", err)
		}
		n.setKept(user, func(k *userKeeping) { k.keep = now.Add(keepEvery) })
	}
	if now.Before(n.kept.nextScan) {
		return
	}
	n.kept.nextScan = now.Add(keepEvery)
	if err := n.wantErasing(n.life, now); err != nil && n.life.Err() == nil {
		n.log.Error("cannot find out whose deleted data is to be erased", "error", err)
	}
	if err := n.Turns.SaveCalibration(n.life); err != nil && n.life.Err() == nil {
		n.log.Warn("cannot store how models count tokens", "error", err)
	}
}

// MaintainUser is RunMaintenance for one user, on whom this node works.
func (n *Node) MaintainUser(ctx context.Context, user string, now time.Time) error {
	ctx, leave, ok := n.life.Stay(ctx, user)
	if !ok {
		return elsewhere(user)
	}
	defer leave()
	if n.opt.KeepDeleted >= 0 {
		erased, err := n.Conversations.PurgeUser(ctx, user, now.Add(-orDefault(n.opt.KeepDeleted, keepDeleted)))
		if err != nil {
			return err
		}
		if err := n.dropErased(ctx, user, erased); err != nil {
			return err
		}
	}
	if err := n.packRevised(ctx, user); err != nil {
		return err
	}
	var packed time.Time
	n.setKept(user, func(k *userKeeping) { packed = k.packedUntil })
	err := n.packUnused(ctx, store.ForUser(user), now.Add(-orDefault(n.opt.PackAfter, packAfter)), &packed)
	n.setKept(user, func(k *userKeeping) { k.packedUntil = packed })
	return err
}

// wantErasing asks for a node for each user whose deleted data is to be erased and on whom no node may work.
func (n *Node) wantErasing(ctx context.Context, now time.Time) error {
	if n.opt.KeepDeleted < 0 {
		return nil
	}
	before := now.Add(-orDefault(n.opt.KeepDeleted, keepDeleted))
	wanted := map[string]bool{}
	for it, err := range store.Items(ctx, n.opt.Store, store.ForNode(""), store.Query{State: record.StateDeleted, NoBody: true}) {
		if err != nil {
			return err
		}
		user, ok := strings.CutPrefix(string(it.Space), "user:")
		if !ok || wanted[user] || it.At.After(before) || n.life.Has(user) {
			continue
		}
		wanted[user] = true
		if err := n.opt.Spaces.Want(ctx, user); err != nil {
			return err
		}
	}
	return nil
}

// readUsers reads for facts what waits of the users of this node.
func (n *Node) readUsers(now time.Time) {
	if n.reader == nil {
		return
	}
	for _, user := range n.dueUsers(now, func(k *userKeeping) time.Time { return k.read }) {
		ctx, leave, ok := n.life.Stay(n.life, user)
		if !ok {
			continue
		}
		next := cmp.Or(n.reader.ReadDue(ctx, user), keepEvery)
		leave()
		n.setKept(user, func(k *userKeeping) { k.read = now.Add(next) })
	}
}
