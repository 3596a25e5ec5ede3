package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"steward/internal/resource"
)

// The subjects by which nodes talk to each other.
const (
	subjectNews  = "steward.news"  // to all: an entry
	subjectNodes = "steward.nodes" // to all: which nodes are alive?
	subjectNode  = "steward.node." // to one; then its name, and one of the verbs below
	subjectWord  = "steward.word." // to all: what Tell was given; then the topic
)

const (
	verbPing   = ".ping"
	verbKeep   = ".keep" // do you still hold this piece? Then take over this pointer
	verbDial   = ".dial"
	verbTunnel = ".t." // then the id of a connection
)

func (c *Cluster) subject(node, verb string) string { return subjectNode + token(node) + verb }

// news is an entry on the wire.
type news struct {
	At      resource.URI `json:"at"`
	Version uint64       `json:"version"`
	Seq     uint64       `json:"seq"`
	State   string       `json:"state,omitzero"`
	Record  record       `json:"record"`
}

// tell tells the other nodes at once what they will read in the log later.
func (c *Cluster) tell(e entry) {
	if err := c.nc.Publish(subjectNews, encode(news{At: e.At, Version: e.Version, Seq: e.Seq, State: e.State, Record: e.record})); err != nil {
		c.log.Debug("the other nodes cannot be told", "error", err)
	}
}

// Tell tells all nodes, this one too, something that they may also miss. A topic is a word of lower-case letters.
func (c *Cluster) Tell(topic string, body []byte) {
	if err := c.nc.Publish(subjectWord+topic, body); err != nil {
		c.log.Debug("the other nodes cannot be told", "topic", topic, "error", err)
	}
}

// Hear has do called with what nodes tell about a topic, one call after the other, until the Cluster closes.
func (c *Cluster) Hear(topic string, do func(body []byte)) error {
	if _, err := c.nc.Subscribe(subjectWord+topic, func(m *nats.Msg) { do(m.Data) }); err != nil {
		return unreachable("the other nodes cannot be listened to: %w", err)
	}
	return nil
}

// answer begins to listen to the other nodes.
func (c *Cluster) answer() error {
	for subject, do := range map[string]nats.MsgHandler{
		subjectNews:                             c.onNews,
		subjectNodes:                            c.onPing,
		c.subject(c.opt.Name, verbPing):         c.onPing,
		c.subject(c.opt.Name, verbKeep):         c.onKeep,
		c.subject(c.opt.Name, verbDial):         func(m *nats.Msg) { c.tunnels.onDial(c, m) },
		c.subject(c.opt.Name, verbTunnel) + "*": func(m *nats.Msg) { c.tunnels.onFrame(c, m) },
	} {
		if _, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
			if !c.muted.Load() {
				do(m)
			}
		}); err != nil {
			return unreachable("the other nodes cannot be listened to: %w", err)
		}
	}
	if err := c.nc.FlushTimeout(10 * time.Second); err != nil {
		return unreachable("the NATS servers do not answer: %w", err)
	}
	return nil
}

func (c *Cluster) onNews(m *nats.Msg) {
	var n news
	if json.Unmarshal(m.Data, &n) != nil {
		return
	}
	if p, ok := pieceOf(n.At); ok {
		c.learn(entry{Piece: p, At: n.At, Version: n.Version, Seq: n.Seq, State: n.State, record: n.Record})
	}
}

func (c *Cluster) onPing(m *nats.Msg) { _ = m.Respond(encode(c.self())) }

func (c *Cluster) self() Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Node{Name: c.opt.Name, Version: c.opt.Version, Labels: c.labels, Works: c.started, Pieces: len(c.held), Since: c.since}
}

// Nodes returns the nodes that answer within a second, and this one, sorted by name.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	out := []Node{c.self()}
	err := c.ask(ctx, time.Second, func(n Node) bool {
		if !slices.ContainsFunc(out, func(o Node) bool { return o.Name == n.Name }) {
			out = append(out, n)
		}
		return len(out) < maxNodes
	})
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

const maxNodes = 10_000

// ask asks all nodes who they are, and hands on the answers that come in time, until each returns false.
func (c *Cluster) ask(ctx context.Context, within time.Duration, each func(Node) bool) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
		err = c.nc.PublishRequest(subjectNodes, inbox, nil)
	}
	if err != nil {
		return unreachable("the other nodes cannot be asked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return unreachable("the other nodes cannot be asked: %w", err)
			}
			return nil
		}
		var n Node
		if json.Unmarshal(m.Data, &n) == nil && n.Name != "" && !each(n) {
			return nil
		}
	}
}

// lives remembers which nodes were heard of lately.
type lives struct {
	mu     sync.Mutex
	heard  map[string]time.Time
	missed map[string]time.Time // when a node did not answer, and has not since
	others time.Time            // when any other node answered last
	asking chan struct{}        // closed when that is known; nil: nobody asks
}

func (l *lives) init() { l.heard, l.missed = map[string]time.Time{}, map[string]time.Time{} }

// alive reports whether a node answers, or did so lately.
func (c *Cluster) alive(ctx context.Context, node string) bool {
	l := &c.lives
	l.mu.Lock()
	recent := time.Since(l.heard[node]) < c.opt.Silence/2
	l.mu.Unlock()
	if recent || node == c.opt.Name {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	if _, err := c.nc.RequestWithContext(ctx, c.subject(node, verbPing), nil); err != nil {
		l.silent(node)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heard) > maxNodes {
		clear(l.heard)
	}
	l.heard[node] = time.Now()
	delete(l.missed, node)
	return true
}

// patience is how long a node may take to answer another one.
func (c *Cluster) patience() time.Duration { return min(time.Second, c.opt.Silence/5) }

// hearsOthers reports whether any other node answers. Then this one is not cut off: whoever gets a pointer of this node
// asks it first whether it still holds the piece.
func (c *Cluster) hearsOthers() bool {
	l := &c.lives
	l.mu.Lock()
	if time.Since(l.others) < c.opt.Silence/6 {
		l.mu.Unlock()
		return true
	}
	if asking := l.asking; asking != nil { // for another piece
		l.mu.Unlock()
		<-asking
		l.mu.Lock()
		defer l.mu.Unlock()
		return time.Since(l.others) < c.opt.Silence/6
	}
	done := make(chan struct{})
	defer close(done)
	l.asking = done
	l.mu.Unlock()
	sent, ok := time.Now(), false
	_ = c.ask(c.ctx, c.patience(), func(n Node) bool {
		ok = n.Name != c.opt.Name
		return !ok
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking = nil; ok {
		l.others = sent
	}
	return ok
}

// silent takes note that a node did not answer.
func (l *lives) silent(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, node)
	if len(l.missed) > maxNodes {
		clear(l.missed)
	}
	l.missed[node] = time.Now()
}

// keep asks whether a node still holds a piece. It does if it takes over the pointer.
type keep struct {
	At      resource.URI `json:"at"`
	Seq     uint64       `json:"seq"` // of the pointer
	Subject string       `json:"subject"`
	Message uint64       `json:"message"` // its number in the stream
}

func (c *Cluster) onKeep(m *nats.Msg) {
	var k keep
	answer := "no"
	if json.Unmarshal(m.Data, &k) == nil {
		if p, ok := pieceOf(k.At); ok {
			if h := c.holding(p); h != nil && h.adopt(k.Seq, ticket{k.Subject, k.Message}) {
				answer = "yes"
			}
		}
	}
	_ = m.Respond([]byte(answer))
}

// keeps asks the holder of a piece whether it still holds it. silent: it does not answer.
func (c *Cluster) keeps(ctx context.Context, e entry, t ticket) (yes, silent bool) {
	c.lives.mu.Lock()
	missed := time.Since(c.lives.missed[e.Holder]) < c.patience()
	c.lives.mu.Unlock()
	if missed { // Reach has just waited for it
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, c.subject(e.Holder, verbKeep), encode(keep{At: e.At, Seq: e.pointer(), Subject: t.subject, Message: t.message}))
	return err == nil && string(m.Data) == "yes", err != nil
}
