package edge_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/client"
	"steward/test/edge"
	"steward/test/must"
)

// clustered are nodes of one cluster, on one database.
type clustered struct {
	t     *testing.T
	model http.Handler
	store []string
	nats  string // where the front has its NATS server
}

// newCluster prepares a cluster whose nodes ask one model.
func newCluster(t *testing.T, model http.Handler) *clustered {
	return &clustered{t: t, model: model, store: edge.Postgres(t), nats: freeAddresses(t, 1)[0]}
}

// freeAddresses returns addresses at which nobody listened a moment ago.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// front starts the node with the NATS server. It passes all requests on.
func (c *clustered) front(settings string) *edge.Node {
	n := c.node("cluster: {work: false, clients: '" + c.nats + "'}\n" + settings)
	n.Serve("--cluster")
	return n
}

// node prepares another node.
func (c *clustered) node(settings string) *edge.Node {
	if !strings.Contains(settings, "clients") {
		settings = fmt.Sprintf("cluster: {servers: ['nats://%s'], silence: 1s%s}\n", c.nats, settings)
	} else {
		settings = strings.Replace(settings, "cluster: {", "cluster: {silence: 1s, ", 1)
	}
	return edge.New(c.t, edge.Options{Model: c.model, Settings: settings, Env: c.store})
}

// nodesOf returns what a node says about the cluster.
func nodesOf(n *edge.Node) (out client.Cluster) {
	n.T.Helper()
	n.JSON(&out, "cluster")
	return out
}

// worksOn returns the node that works on something; "": none does.
func worksOn(n *edge.Node, piece string) string {
	n.T.Helper()
	for _, p := range nodesOf(n).Pieces {
		if p.Name == piece {
			return p.Node
		}
	}
	return ""
}

// A turn that is asked at one node is watched at another one, while a third works on it. When that is killed, the
// turn goes on elsewhere, and those who watch reconnect with their cursor.
func TestATurnInACluster(t *testing.T) {
	t.Parallel()
	asked, answers := make(chan string, 10), make(chan string, 10)
	c := newCluster(t, edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			edge.Chunk(w, map[string]any{"content": "It is "}, nil)
			must.Do(t, http.NewResponseController(w).Flush())
			select {
			case asked <- in.User():
			default: // nobody waits for it
			}
			select {
			case text := <-answers:
				edge.Chunk(w, map[string]any{"content": text}, "stop")
				fmt.Fprint(w, "data: [DONE]\n\n")
			case <-r.Context().Done():
			}
		}}
	}))
	voice := freeAddresses(t, 2)
	a := c.front("ollama: {listen: '" + voice[0] + "', user: local}\nwyoming: {listen: '" + voice[1] + "', user: local, hidden: true}\n")
	w := c.node("")
	w.Work()
	a.Until("the worker works for the user", func() bool { return worksOn(a, "user:local") != "" })
	worker := worksOn(a, "user:local")
	if len(nodesOf(a).Nodes) != 2 || worker == nodesOf(a).Node {
		t.Fatalf("%+v", nodesOf(a))
	}

	asks := a.Dial()
	asks.Send(map[string]any{"type": "message", "id": "1", "content": "What is 12 times 12?"})
	conv := asks.Read().Conversation
	<-asked
	b := c.node("")
	b.Serve()
	watches := b.Dial()
	watches.Send(map[string]any{"type": "resume", "conversation_id": conv})
	cursor := ""
	for f := watches.Read(); ; f = watches.Read() {
		if f.Cursor != "" && f.Type != "token" {
			cursor = f.Cursor
		}
		if f.Type == "token" && f.Text == "It is " {
			break
		}
	}

	w.Kill()
	for _, broken := range []*edge.Conn{asks, watches} {
		broken.Ended()
	}
	again := a.Dial() // waits for the node that takes over
	again.Send(map[string]any{"type": "resume", "conversation_id": conv, "cursor": cursor})
	<-asked
	answers <- "144."
	for f := again.Read(); f.Type != "complete"; f = again.Read() {
		if f.Type == "error" {
			t.Fatalf("%s", f.Raw)
		}
	}
	var messages struct {
		Messages []struct{ Role, Text string }
	}
	a.Get("/api/v1/conversations/"+conv+"/messages", &messages)
	if now := worksOn(a, "user:local"); now == worker || now == "" {
		t.Errorf("the dead node %s still has the user: %s", worker, now)
	}
	if len(messages.Messages) != 2 {
		t.Errorf("%+v", messages)
	}

	(&passesOn{t, a, answers, voice[0], voice[1]}).everyProtocol()

	a.Kill() // with the NATS server
	b.Until("a node without a NATS server is not ready", func() bool {
		status, body := b.HTTP(http.MethodGet, "/readyz", nil)
		return status == http.StatusServiceUnavailable && strings.Contains(string(body), "cluster_unreachable")
	})
}

// Work that no node may do waits, and is listed with the labels that are missing. No command works beside the nodes.
func TestAClusterWithoutTheRightNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "Hello."} }))
	n := c.node("cluster: {embed: true, clients: '" + c.nats + "', needs: {'user:local': [gpu]}}\n")
	n.Serve()
	if list := nodesOf(n); len(list.Nodes) != 1 || len(list.Pieces) != 1 || list.Pieces[0].Name != "user:local" || list.Pieces[0].Node != "" || list.Pieces[0].Needs[0] != "gpu" {
		t.Errorf("%+v", list)
	}
	if status, body := n.HTTP(http.MethodGet, "/readyz", nil); status != 200 {
		t.Errorf("%s", body)
	}
	if r := n.Run("doctor"); !strings.Contains(r.Out, "user:local waits for a node with the labels gpu") {
		t.Errorf("%s", r.Out)
	}
	n.Stop()
	if r := n.Run("ask", "Hello"); r.Code == 0 || !strings.Contains(r.Err, "start steward serve") {
		t.Errorf("%+v", r)
	}
	n.Must("conversations", "list")
	if r := edge.New(t, edge.Options{}).Run("worker"); r.Code == 0 || !strings.Contains(r.Err, "cluster.servers") {
		t.Errorf("%+v", r)
	}
	if r := edge.New(t, edge.Options{SQLite: true}).Run("serve", "--cluster"); r.Code == 0 || !strings.Contains(r.Err, "PostgreSQL") {
		t.Errorf("%+v", r)
	}
}

// When a provider asks one node not to call a model for a while, no node calls it.
func TestAPauseHoldsInTheWholeCluster(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := newCluster(t, edge.Script(t, func(edge.Asked) edge.Reply {
		asked.Add(1)
		return edge.Refuse(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`, "Retry-After", "1800")
	}))
	const needs = ", needs: {'user:local': [one], 'user:ann': [two]}"
	a := c.node("cluster: {embed: true, clients: '" + c.nats + "', labels: [one]" + needs + "}\n")
	a.Serve()
	b := c.node(", labels: [two]" + needs)
	b.Work()
	if got := a.Ask("Hello.", nil); got.Code != "rate_limited" || asked.Load() != 1 {
		t.Errorf("%+v after %d calls", got, asked.Load())
	}
	a.Must("users", "add", "ann")
	anns := a.Dial(a.Key("ann"))
	if got := anns.Turn(map[string]any{"content": "Hello."}, nil); got.Code != "rate_limited" || asked.Load() != 1 {
		t.Errorf("at the other node: %+v after %d calls", got, asked.Load())
	}
	if at := worksOn(a, "user:ann"); at == "" || at == worksOn(a, "user:local") {
		t.Errorf("both users are worked on by %q", at)
	}
}
