package runtime

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"steward/internal/id"
)

// Reminder is an alarm that has gone off. Its message may not be recorded yet, because a turn of
// its conversation waits for a person.
type Reminder struct {
	Conversation id.ID
	Message      id.ID // the message that tells it in the conversation, now or later
	Text         string
	At           time.Time // when it went off
}

// maxReminders is how many reminders are kept for a follower that does not take them.
const maxReminders = 500

// reminders passes on reminders to their users at once. The zero value is ready to use.
type reminders struct {
	mu        sync.Mutex
	due       []dueReminder // whose messages are not recorded yet, in order
	followers map[*reminderFollower]struct{}
}

type dueReminder struct {
	user string
	Reminder
}

type reminderFollower struct {
	user  string
	queue []Reminder
	wake  chan struct{} // holds a token when there is something in the queue
}

// add passes on a reminder, unless it is due already, and returns it as it is due.
func (r *reminders) add(user string, new Reminder) Reminder {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.due {
		if d.Message == new.Message {
			return d.Reminder
		}
	}
	r.due = append(r.due, dueReminder{user, new})
	for f := range r.followers {
		if f.user == user {
			f.put(new)
		}
	}
	return new
}

// put queues a reminder. The caller holds reminders.mu.
func (f *reminderFollower) put(r Reminder) {
	if f.queue = append(f.queue, r); len(f.queue) > maxReminders {
		f.queue = f.queue[1:]
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// drop forgets a reminder whose message is recorded, or never will be.
func (r *reminders) drop(msg id.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = slices.DeleteFunc(r.due, func(d dueReminder) bool { return d.Message == msg })
}

// dropUser forgets the reminders of a user.
func (r *reminders) dropUser(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = slices.DeleteFunc(r.due, func(d dueReminder) bool { return d.user == user })
}

// followed reports whether anybody follows the reminders of a user.
func (r *reminders) followed(user string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.followers {
		if f.user == user {
			return true
		}
	}
	return false
}

// join returns a follower that has queued what is due.
func (r *reminders) join(user string) *reminderFollower {
	f := &reminderFollower{user: user, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.due {
		if d.user == user {
			f.put(d.Reminder)
		}
	}
	if r.followers == nil {
		r.followers = map[*reminderFollower]struct{}{}
	}
	r.followers[f] = struct{}{}
	return f
}

func (r *reminders) leave(f *reminderFollower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followers, f)
}

func (r *reminders) take(f *reminderFollower) []Reminder {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := f.queue
	f.queue = nil
	return out
}

// FollowReminders yields the user's alarms as they go off, in whichever conversation they are told,
// until ctx is done or the node closes. It begins with those whose messages are not recorded yet.
func (n *Node) FollowReminders(ctx context.Context, user string) iter.Seq[Reminder] {
	return func(yield func(Reminder) bool) {
		life := n.life.Of(user)
		f := n.reminders.join(user)
		defer n.reminders.leave(f)
		for {
			select {
			case <-f.wake:
			case <-ctx.Done():
				return
			case <-life.Done():
				return
			}
			for _, r := range n.reminders.take(f) {
				if !yield(r) {
					return
				}
			}
		}
	}
}
