//go:build long

package edge_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/test/edge"
)

// A request of a user for whom no node may work fails in time, and says which labels are missing.
func TestARequestThatNoNodeMayAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "Hello."} }))
	n := c.node("cluster: {clients: '" + c.nats + "', needs: {'user:local': [gpu]}}\n")
	n.Serve("--cluster")
	status, body := n.HTTP(http.MethodGet, "/api/v1/conversations", nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body), `"no_worker"`) || !strings.Contains(string(body), "gpu") {
		t.Errorf("%d %s", status, body)
	}
}

// Three nodes with a server each go on when one of them is killed. When two are, the last one says that it is not ready.
func TestThreeNodesWithServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "Hello."} }))
	addresses := freeAddresses(t, 3)
	var nodes []*edge.Node
	ready := make(chan struct{})
	for i, a := range addresses {
		peers := append(append([]string{}, addresses[:i]...), addresses[i+1:]...)
		n := edge.New(t, edge.Options{Model: c.model, Env: c.store,
			Settings: "cluster: {embed: true, silence: 1s, listen: '" + a + "', peers: ['" + strings.Join(peers, "', '") + "'], secret: 0123456789abcdef0123456789abcdef}\n"})
		nodes = append(nodes, n)
		go func() { n.Serve(); ready <- struct{}{} }() // the first one waits for the second
	}
	for range nodes {
		<-ready
	}
	if got := nodes[0].Ask("Hi", nil); got.Text != "Hello." {
		t.Fatalf("%+v", got)
	}
	holder := worksOn(nodes[0], "user:local")
	for i, n := range nodes {
		if nodesOf(n).Node != holder {
			continue
		}
		n.Kill()
		nodes = append(nodes[:i], nodes[i+1:]...)
		break
	}
	for _, n := range nodes {
		if got := n.Ask("Hi again", nil); got.Text != "Hello." {
			t.Errorf("%+v", got)
		}
	}
	nodes[0].Kill()
	last := nodes[1]
	last.Until("the last node is not ready", func() bool {
		status, body := last.HTTP(http.MethodGet, "/readyz", nil)
		return status == http.StatusServiceUnavailable && strings.Contains(string(body), "cluster_unreachable")
	})
	if r := last.Run("doctor"); !strings.Contains(r.Out, "warn  cluster    user:local") {
		t.Errorf("%s", r.Out)
	}
}
