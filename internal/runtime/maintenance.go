package runtime

import (
	"context"
	"errors"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// Default retention times; Options override them.
const (
	keepDeleted = 30 * 24 * time.Hour // deleted resources can be restored
	packAfter   = 30 * 24 * time.Hour // an unused conversation keeps the form in which it was written
	keepEvery   = time.Hour
)

// maintain erases and packs, a minute after the start and then every hour.
func (n *Node) maintain() {
	next := time.NewTimer(time.Minute)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-n.life.Done():
			return
		}
		if err := n.RunMaintenance(n.life, time.Now()); err != nil && n.life.Err() == nil {
			n.log.Error("what was deleted could not be erased, or what is old packed", "error", err)
		}
		next.Reset(keepEvery)
	}
}

// RunMaintenance erases for good what was deleted long enough before now, and packs
// conversations that are unused and messages that are no longer shown to a model.
// The node calls it every hour. Where several nodes share the store, it is about the users of this one.
func (n *Node) RunMaintenance(ctx context.Context, now time.Time) error {
	if n.opt.Spaces != nil {
		var err error
		for _, user := range n.life.Users() {
			err = errors.Join(err, n.MaintainUser(ctx, user, now))
		}
		return err
	}
	if n.opt.KeepDeleted >= 0 {
		erased, err := n.Conversations.Purge(ctx, now.Add(-orDefault(n.opt.KeepDeleted, keepDeleted)))
		if erased > 0 {
			n.log.Info("erased for good what was deleted", "resources", erased)
		}
		if err != nil {
			return err
		}
		if err := n.dropErased(ctx, "", erased); err != nil {
			return err
		}
	}
	if err := n.packRevised(ctx, ""); err != nil {
		return err
	}
	if err := n.Turns.SaveCalibration(ctx); err != nil {
		return err
	}
	n.packing.Lock()
	defer n.packing.Unlock()
	return n.packUnused(ctx, store.ForNode(resource.System), now.Add(-orDefault(n.opt.PackAfter, packAfter)), &n.packedUntil)
}

// Erase erases for good what a user deleted from a conversation: the named
// branches and messages, or all of it if none is named. When it returns without
// an error, no file of the data folder holds the text any more.
func (n *Node) Erase(ctx context.Context, user string, conv id.ID, names ...string) error {
	erased, err := n.Conversations.Erase(ctx, store.ForUser(user), conv, names...)
	if err != nil {
		return err
	}
	return n.dropErased(ctx, user, erased)
}

// EraseMessages is Erase for messages, and for what was deleted together with
// them, such as a call and its results.
func (n *Node) EraseMessages(ctx context.Context, user string, conv id.ID, msgs ...id.ID) error {
	erased, err := n.Conversations.EraseMessages(ctx, store.ForUser(user), conv, msgs...)
	if err != nil {
		return err
	}
	return n.dropErased(ctx, user, erased)
}

// eraseAtOnce is Erase if deleted resources are not kept at all.
func (n *Node) eraseAtOnce(ctx context.Context, user string, conv id.ID, names ...string) error {
	if n.opt.KeepDeleted <= 0 || n.opt.KeepDeleted >= time.Second {
		return nil // kept for a while, or for ever
	}
	return n.Erase(ctx, user, conv, names...)
}

// dropErased makes the projections of the log drop what was erased.
func (n *Node) dropErased(ctx context.Context, user string, erased int) error {
	if erased > 0 {
		n.Planning.Examples.Forget(user)
	}
	if erased == 0 {
		return nil
	}
	var err error
	if n.opt.Memory != nil {
		err = n.opt.Memory.ForgetErased(ctx, user)
	}
	if n.opt.Erased != nil {
		err = errors.Join(err, n.opt.Erased(ctx, user))
	}
	return err
}

func orDefault(d, std time.Duration) time.Duration {
	if d == 0 {
		return std
	}
	return d
}

// packRevised packs the messages that have left the context window in
// conversations of a user ("": of all) that are not in use. A conversation that comes into use meanwhile
// is packed the next time.
func (n *Node) packRevised(ctx context.Context, user string) error {
	for _, k := range n.Turns.IdleToPack() {
		if user != "" && k.User != user {
			continue
		}
		n.Turns.UnmarkToPack(k) // first, because more messages may leave as soon as it is packed
		packed, err := n.pack(ctx, k, false)
		if err != nil || !packed {
			n.Turns.MarkToPack(k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pack packs a conversation: all of it if whole is set, otherwise the messages
// that have left the context window. It returns false if a turn is running. A
// conversation that is gone counts as packed.
func (n *Node) pack(ctx context.Context, k turn.Key, whole bool) (bool, error) {
	packed, err := n.Turns.IfIdle(k.User, k.ID, func(sc store.Scope) error {
		_, err := n.Conversations.Pack(ctx, sc, k.ID, whole)
		return err
	})
	return packed, requests.IgnoreNotFound(err)
}

// packUnused packs the conversations in the spaces of a scope that were last used before a time. Those that an earlier
// pass has packed, up to done, are left out.
func (n *Node) packUnused(ctx context.Context, sc store.Scope, before time.Time, done *time.Time) error {
	began, complete := time.Now(), true
	q := store.Query{Term: store.Term{Name: record.TermRecent}, Type: record.TypeConversation}
	for it, err := range store.Items(ctx, n.opt.Store, sc, q) {
		if err != nil {
			return err
		}
		if it.At.After(before) {
			break // the rest was used later
		}
		user, ok := strings.CutPrefix(string(it.Space), "user:")
		if !ok || !it.At.After(*done) {
			continue
		}
		packed, err := n.packAll(ctx, user, record.IDOf(it.URI, record.TypeConversation))
		if err != nil {
			return err
		}
		complete = complete && packed
	}
	if complete {
		*done = before
		if began.Before(before) {
			*done = began
		}
	}
	return nil
}

// packAll packs a conversation and those that agents hold on its behalf. It reports whether it has packed all of
// them: busy ones are skipped, and the next pass finds them again.
func (n *Node) packAll(ctx context.Context, user string, conv id.ID) (all bool, err error) {
	below, err := n.Conversations.Children(ctx, store.ForUser(user), conv)
	if err != nil {
		return false, err
	}
	all = true
	for _, c := range append(below, conv) {
		packed, err := n.pack(ctx, turn.Key{User: user, ID: c}, true)
		if err != nil {
			return false, err
		}
		all = all && packed
	}
	return all, nil
}

// anchorEvery is how often the head of the log is kept elsewhere, unless
// Options say otherwise.
const anchorEvery = time.Hour

// anchorLog stores the head of the log elsewhere, periodically and when the node
// closes.
func (n *Node) anchorLog() {
	if n.opt.Anchor == nil {
		return
	}
	n.life.Go(func() {
		tick := time.NewTicker(orDefault(n.opt.AnchorEvery, anchorEvery))
		defer tick.Stop()
		for open := true; open; {
			select {
			case <-tick.C:
			case <-n.life.Done():
				open = false
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(n.life), time.Minute)
			if err := n.opt.Anchor(ctx); err != nil {
				n.log.Error("the head of the log could not be kept", "error", err)
			}
			cancel()
		}
	})
}
