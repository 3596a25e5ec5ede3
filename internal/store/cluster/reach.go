package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// Reach returns the node that holds a piece, and whether it is this one. If nobody does, it makes the piece wait
// for a worker, and waits for one. If the holder does not answer, it waits for the node that takes over. The
// Worker must not call it in Take. Errors: no_worker (Unavailable), when none took it in time, with the
// labels that one would need.
func (c *Cluster) Reach(ctx context.Context, p Piece) (node string, here bool, err error) {
	if h := c.holding(p); h != nil && h.serves() {
		return c.opt.Name, true, nil
	}
	within, cancel := context.WithTimeout(ctx, c.reachFor())
	defer cancel()
	for {
		e, changed := c.table.look(p)
		switch h := c.holding(p); {
		case h != nil && h.serves():
			return c.opt.Name, true, nil
		case h != nil:
			// it is being taken or left: that changes
		case e.State == Held && e.Holder != c.opt.Name && c.alive(within, e.Holder):
			return e.Holder, false, nil
		case e.State == "":
			if err := c.Want(within, p); err != nil && within.Err() == nil {
				return "", false, err
			}
		}
		again := time.NewTimer(c.opt.Silence / 5)
		select {
		case <-changed:
		case <-again.C:
		case <-c.ctx.Done():
			again.Stop()
			return "", false, fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
		case <-within.Done():
			again.Stop()
			if errors.Is(ctx.Err(), context.Canceled) {
				return "", false, context.Cause(ctx)
			}
			return "", false, noWorker(p, e, c.needs(p))
		}
		again.Stop()
	}
}

// reachFor bounds Reach. A takeover fits in.
func (c *Cluster) reachFor() time.Duration { return max(15*time.Second, 3*c.opt.Silence) }

func noWorker(p Piece, e entry, labels []string) error {
	if e.State != "" {
		labels = e.Labels
	}
	err := fault.New(fault.Unavailable, "no_worker", "no worker took over %s in time", p)
	hint := "look at the nodes with `steward cluster`: one that works must run, and most of the NATS servers"
	if len(labels) > 0 {
		err = fault.New(fault.Unavailable, "no_worker", "no worker with the labels %s took over %s in time", strings.Join(labels, ", "), p)
		hint = "start a worker that has these labels, or look at the cluster with `steward cluster`"
	}
	return err.WithHint("%s", hint).Detail("labels", labels).Retrying(fault.RetryBackoff, 0)
}

// serves reports whether requests about the piece can be answered here.
func (h *holding) serves() bool {
	select {
	case <-h.ready:
	default:
		return false
	}
	if h.lost.Load() || h.leaving.Load() {
		return false
	}
	h.use()
	return true
}

// Holds reports whether this node holds a piece: from before Take until it begins to leave.
func (c *Cluster) Holds(p Piece) bool {
	h := c.holding(p)
	return h != nil && h.number.Load() > 0 && !h.lost.Load() && !h.leaving.Load()
}

// Want makes a piece wait for a worker if nobody holds it. It does not wait itself.
func (c *Cluster) Want(ctx context.Context, p Piece) error {
	if e, ok := c.table.get(p); ok && e.State != "" {
		return nil
	}
	e, err := c.read(ctx, p)
	cond := store.If{Version: e.Version}
	switch {
	case fault.Is(err, fault.NotFound):
		cond = store.If{Absent: true}
	case err != nil:
		return err
	case e.State != "":
		c.learn(e)
		return nil
	}
	_, err = c.write(ctx, p, Waiting, record{Labels: c.needs(p)}, cond)
	if at, _ := p.URI(); about(err, at) { // another node was faster
		return nil
	}
	return err
}
