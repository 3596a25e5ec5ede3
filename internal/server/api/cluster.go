package api

import (
	"context"

	"steward/client"
	"steward/internal/fault"
)

// cluster lists the nodes of the cluster, and what each of them holds.
func (f *server) cluster(ctx context.Context, c *call, _ struct{}) (client.Cluster, error) {
	if err := admins(c, "only admins see the nodes of the cluster", "ask an admin"); err != nil {
		return client.Cluster{}, err
	}
	if f.Cluster == nil {
		return client.Cluster{}, fault.New(fault.Unsupported, "cluster_off", "this Steward is not part of a cluster").
			WithHint("docs/operations/cluster.md says how to start one")
	}
	return f.Cluster(ctx)
}
