package cluster

import (
	"cmp"
	"slices"
	"time"
)

// Holding is a piece that a node holds, or that waits for one.
type Holding struct {
	Piece  Piece
	Node   string   // that holds it; empty: it waits
	Labels []string // that the node must have
}

// Name returns the name of this node.
func (c *Cluster) Name() string { return c.opt.Name }

// Pieces returns the pieces that a node holds, or that wait for one, as far as this node knows, sorted by their names.
func (c *Cluster) Pieces() []Holding {
	var out []Holding
	for _, e := range c.table.list() {
		switch e.State {
		case Held:
			out = append(out, Holding{Piece: e.Piece, Node: e.Holder, Labels: e.Labels})
		case Waiting:
			out = append(out, Holding{Piece: e.Piece, Labels: e.Labels})
		}
	}
	slices.SortFunc(out, func(a, b Holding) int { return cmp.Compare(a.Piece.String(), b.Piece.String()) })
	return out
}

// Ready returns an error if no NATS server can be reached now, or if they have handed out no work for a while, because most
// of them do not run (cluster_unreachable).
func (c *Cluster) Ready() error {
	if !c.nc.IsConnected() {
		return unreachable("this node reaches no NATS server of its cluster")
	}
	if idle := time.Since(c.since) - time.Duration(c.handed.Load()); idle > handsOut {
		return unreachable("the NATS servers have handed out no work for %s", idle.Round(time.Second)).
			WithHint("check that most of the NATS servers run: two of three, three of five")
	}
	return nil
}

// handsOut is how long the servers may hand out no work until the node is not ready. They choose a leader within it.
const handsOut = 20 * time.Second
