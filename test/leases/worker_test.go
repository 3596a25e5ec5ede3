//go:build long

package leases

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
)

// The environment in which the test binary plays a worker.
const (
	envSocket = "STEWARD_LEASES_SOCKET"
	envName   = "STEWARD_LEASES_NAME"
)

const (
	promise = 400 * time.Millisecond
	steps   = 5 // of a task
)

var ada = store.ForUser("ada")

func task(name string) resource.URI { return resource.Root("test.Task", name) }

// progress is the body of a task: how many steps are done, and whether the next
// one has begun.
type progress struct {
	Done   int
	Begun  bool
	Number uint64 // of the lease under which it was written
}

// play works on tasks until it is killed.
func play(socket, name string) error {
	st, err := dial(socket)
	if err != nil {
		return err
	}
	ctx := context.Background()
	q := lease.New(lease.Options{Store: st, Holder: name, Promise: promise})
	for {
		l, err := q.Take(ctx, ada, resource.URI{})
		if err != nil {
			return err
		}
		err = l.Hold(ctx, func(ctx context.Context) error { return carryOut(ctx, st, l) })
		if err != nil && !isSuspend(err) {
			return fmt.Errorf("%s: %w", l.At(), err)
		}
	}
}

// carryOut takes the steps of a task that are left. Each has an effect outside of
// the store: it is recorded that it begins, then it happens, then that it is done.
func carryOut(ctx context.Context, st remote, l *lease.Lease) error {
	at, fenced := l.At().Parent(), lease.Store(st)
	var p progress
	r, err := st.Get(ctx, ada, at)
	if err == nil {
		err = json.Unmarshal(r.Body, &p)
	}
	if err != nil {
		return err
	}
	save := func() error {
		p.Number = l.Number()
		time.Sleep(rand.N(20 * time.Millisecond))
		// What is being written is written although the lease may be lost by now.
		_, err := fenced.Commit(context.WithoutCancel(ctx), ada, store.Batch{Changes: []store.Change{{URI: at, Body: encoded(p)}}})
		return err
	}
	for p.Done < steps {
		again := p.Begun
		if p.Begun = true; !again {
			if err := save(); err != nil {
				return err
			}
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		if err := st.effect(fmt.Sprintf("%s/%d", at.ID(), p.Done), at.ID(), l.Number(), again); err != nil {
			return err
		}
		p.Done, p.Begun = p.Done+1, false
		if err := save(); err != nil {
			return err
		}
	}
	return l.End(ctx)
}

// effect makes an effect happen. If it may have happened before, the receiver is
// asked first.
func (r remote) effect(key, task string, number uint64, again bool) error {
	var refused bool
	if err := r.c.Call("Outside.Do", &Effect{key, task, number, again}, &refused); err != nil {
		return err
	}
	if refused {
		return request.ErrSuspend
	}
	return nil
}
