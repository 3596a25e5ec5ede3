package node

import (
	"strings"
	"testing"

	"steward/client"
)

func TestWhatIsWrongWithACluster(t *testing.T) {
	a, b := client.ClusterNode{Name: "a", Version: "1.2.0"}, client.ClusterNode{Name: "b", Version: "1.2.0"}
	older := client.ClusterNode{Name: "c", Version: "1.1.0"}
	at := func(name, node string, needs ...string) client.ClusterPiece {
		return client.ClusterPiece{Name: name, Node: node, Needs: needs}
	}
	for _, tt := range []struct {
		name  string
		list  client.Cluster
		wants []string
	}{
		{"one node", client.Cluster{Nodes: []client.ClusterNode{a}, Pieces: []client.ClusterPiece{at("user:local", "a")}}, []string{"1 node, which works on 1 space or duty"}},
		{"two nodes", client.Cluster{Nodes: []client.ClusterNode{a, b}, Pieces: []client.ClusterPiece{at("user:local", "a"), at("home", "b", "x")}}, []string{"2 nodes, which work on 2 spaces and duties"}},
		{"labels that no node has", client.Cluster{Nodes: []client.ClusterNode{a}, Pieces: []client.ClusterPiece{at("user:ann", "", "gpu", "home"), at("user:bob", "", "gpu")}},
			[]string{"user:ann waits for a node with the labels gpu, home"}},
		{"nobody works", client.Cluster{Nodes: []client.ClusterNode{a}, Pieces: []client.ClusterPiece{at("user:local", "")}}, []string{"user:local waits for a node"}},
		{"other NATS servers, and another version", client.Cluster{Nodes: []client.ClusterNode{a, older}, Pieces: []client.ClusterPiece{at("user:local", "z")}},
			[]string{"different versions of Steward: 1.1.0, 1.2.0", "user:local is with the node z, which does not answer"}},
	} {
		got := clusterFindings(tt.list)
		for i, c := range got {
			if len(got) != len(tt.wants) || !strings.Contains(c.Say, tt.wants[i]) || (c.Status == good) != (c.Remedy == "") {
				t.Errorf("%s: %+v", tt.name, got)
			}
		}
	}
	table := clusterTable(client.Cluster{Node: "a", Nodes: []client.ClusterNode{a, older}, Pieces: []client.ClusterPiece{at("home", "", "home-network")}})
	for _, want := range []string{"NODE", "VERSION", "a (asked)", "1.1.0", "waits", "home-network"} {
		if !strings.Contains(table, want) {
			t.Errorf("%s lacks %s", table, want)
		}
	}
}
