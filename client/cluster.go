package client

import (
	"context"
	"time"
)

// Cluster is the nodes that work on one store.
type Cluster struct {
	Node   string         `json:"node"` // that was asked
	Nodes  []ClusterNode  `json:"nodes"`
	Pieces []ClusterPiece `json:"pieces"`
	More   bool           `json:"more,omitempty"` // not all pieces are listed
}

// ClusterNode is a node that is alive.
type ClusterNode struct {
	Name    string    `json:"name"`
	Version string    `json:"version"` // of Steward, which all nodes should have
	Labels  []string  `json:"labels,omitempty"`
	Works   bool      `json:"works"` // it takes pieces
	Pieces  int       `json:"pieces"`
	Since   time.Time `json:"since"`
}

// ClusterPiece is what one node at a time works on: user:NAME, channels or home.
type ClusterPiece struct {
	Name  string   `json:"name"`
	Node  string   `json:"node,omitempty"`  // that works on it; empty: it waits for one
	Needs []string `json:"needs,omitempty"` // labels that the node must have
}

// Cluster returns the nodes of the cluster, and what each of them works on.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return ask[Cluster](ctx, c, "GET /cluster", nil, nil)
}
