//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/bench/process"
	"steward/test/cluster"
)

const (
	tokenEvery = 20 * time.Millisecond
	mark       = "zq" // begins each token, before its number
	markEnd    = ';'  // ends it: a frame may end within a token
)

// stream answers the message "stream" with tokens at a constant pace.
type stream struct {
	mu     sync.Mutex
	tokens int // zero: it answers nothing
	sent   []time.Time
}

func (s *stream) answer(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	n := s.tokens
	s.mu.Unlock()
	if n == 0 {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Contains(body, []byte("please stream")) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	pace := time.NewTicker(tokenEvery)
	defer pace.Stop()
	for i := range n {
		<-pace.C
		s.mu.Lock()
		s.sent = append(s.sent, time.Now())
		s.mu.Unlock()
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{"content":" %s%d%c"},"finish_reason":null}]}`+"\n\n", mark, i, markEnd)
		flush.Flush() //nolint:errcheck // the next write tells
	}
	fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	return true
}

// openSockets opens many WebSockets over some nodes, each of which follows a conversation of its user.
func (b *bench) openSockets(ctx context.Context) (err error) {
	w, err := b.open(ctx, cluster.Options{Nodes: b.among})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	keys, err := w.keys(ctx, b.people)
	if err != nil {
		return err
	}
	conversations := make([]string, b.people)
	for i, key := range keys {
		t, err := dial(ctx, w.Nodes[i%len(w.Nodes)], key)
		if err != nil {
			return err
		}
		if _, err := t.turn(ctx); err != nil {
			return err
		}
		conversations[i] = t.id
		t.close()
	}
	time.Sleep(5 * time.Second)
	memory := func() (mb float64) {
		for _, n := range w.Nodes {
			mb += process.RSS(n.PID())
		}
		return mb
	}
	before, natsBefore := memory(), process.RSS(w.nats.Process.Pid)
	began := time.Now()
	watchers := make([]*watcher, b.sockets)
	next := make(chan int)
	errs := make(chan error, 16)
	for range 16 {
		go func() {
			var failed error
			for i := range next {
				if failed == nil {
					watchers[i], failed = watch(ctx, w.Nodes[i%len(w.Nodes)], keys[i%b.people], conversations[i%b.people])
				}
			}
			errs <- failed
		}()
	}
	for i := range watchers {
		next <- i
	}
	close(next)
	for range 16 {
		err = errors.Join(err, <-errs)
	}
	defer func() {
		for _, x := range watchers {
			if x != nil {
				x.close()
			}
		}
	}()
	if err != nil {
		return err
	}
	opened := time.Since(began)
	time.Sleep(5 * time.Second)
	after, natsAfter := memory(), process.RSS(w.nats.Process.Pid)
	fmt.Printf("\n%d WebSockets over %d nodes, of %d users; each follows a conversation of its user. Opened in %.0f s.\n\n", b.sockets, len(w.Nodes), b.people, opened.Seconds())
	fmt.Printf("- Memory (RSS) of the nodes together: %.0f MB before, %.0f MB with them, %.1f KB for each; of the NATS servers: %.0f MB and %.0f MB.\n",
		before, after, (after-before)*1024/float64(b.sockets), natsBefore, natsAfter)
	rest := 30 * time.Second
	if b.sockets < 100 {
		rest = time.Second
	}
	spent := func(do func() error) (u use, took time.Duration, err error) {
		from, err := w.used(ctx)
		if err != nil {
			return u, 0, err
		}
		began := time.Now()
		if err := do(); err != nil {
			return u, 0, err
		}
		took = time.Since(began)
		to, err := w.used(ctx)
		return to.minus(from), took, err
	}
	u, took, err := spent(func() error { time.Sleep(rest); return nil })
	if err != nil {
		return err
	}
	tell := func(what string) {
		s := took.Seconds() / 100
		fmt.Printf("- CPU %s, of a core: nodes %.1f %%, PostgreSQL %.1f %%, NATS %.1f %%, clients %.1f %%.\n", what, u.nodes/s, u.postgres/s, u.nats/s, u.driver/s)
	}
	tell("while all are idle")
	return b.oneStreams(ctx, w, keys[0], conversations[0], watchers, spent, func(x use, d time.Duration, what string) { u, took = x, d; tell(what) })
}

// oneStreams has one conversation answer, which some of the connections to each of the nodes follow.
func (b *bench) oneStreams(ctx context.Context, w *world, key, conversation string, watchers []*watcher,
	spent func(func() error) (use, time.Duration, error), tell func(use, time.Duration, string)) error {
	b.model.stream.mu.Lock()
	b.model.stream.tokens = b.tokens
	b.model.stream.mu.Unlock()
	t, err := dial(ctx, w.Nodes[0], key)
	if err != nil {
		return err
	}
	defer t.close()
	t.id = conversation
	u, took, err := spent(func() error {
		err := t.write(ctx, map[string]any{"type": "message", "conversation_id": conversation, "content": "Now please stream."})
		for err == nil {
			var b []byte
			if _, b, err = t.ws.Read(ctx); err == nil && bytes.HasPrefix(b, []byte(`{"type":"complete"`)) {
				return nil
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	holder, _ := b.model.last.Load().(string)
	var here, there []time.Duration
	watching := 0
	for i, x := range watchers {
		if i%b.people != 0 {
			continue
		}
		watching++
		list := x.delays(&b.model.stream)
		if w.Nodes[i%len(w.Nodes)].Name == holder {
			here = append(here, list...)
		} else {
			there = append(there, list...)
		}
	}
	slices.Sort(here)
	slices.Sort(there)
	tell(u, took, fmt.Sprintf("while one conversation with %d watchers streams %d tokens a second", watching, int(time.Second/tokenEvery)))
	fmt.Printf("- From a token at the provider to the watcher: at the holder %.1f ms (p50) and %.1f ms (p99), at the other nodes %.1f ms and %.1f ms.\n",
		at(here, 0.5), at(here, 0.99), at(there, 0.5), at(there, 0.99))
	return nil
}

// watcher is a connection that follows a conversation and notes when it saw which token last.
type watcher struct {
	*talk
	mu   sync.Mutex
	seen []sight
}

type sight struct {
	token int
	at    time.Time
}

func watch(ctx context.Context, n *cluster.Node, key, conversation string) (*watcher, error) {
	t, err := dial(ctx, n, key)
	if err != nil {
		return nil, err
	}
	if err := t.write(ctx, map[string]any{"type": "resume", "id": "r", "conversation_id": conversation}); err != nil {
		t.close()
		return nil, err
	}
	x := &watcher{talk: t}
	for {
		_, b, err := t.ws.Read(ctx)
		if err == nil && bytes.HasPrefix(b, []byte(`{"type":"error"`)) {
			err = fmt.Errorf("the server says %s", b)
		}
		if err != nil {
			t.close()
			return nil, err
		}
		if bytes.HasPrefix(b, []byte(`{"type":"ok"`)) {
			break
		}
	}
	go x.read(ctx)
	return x, nil
}

func (x *watcher) read(ctx context.Context) {
	for {
		_, b, err := x.ws.Read(ctx)
		if err != nil {
			return
		}
		var f struct{ Type, Text string }
		if json.Unmarshal(b, &f) != nil || f.Type != "token" {
			continue
		}
		text := f.Text[:strings.LastIndexByte(f.Text, markEnd)+1]
		i := strings.LastIndex(text, mark)
		var n int
		if i < 0 {
			continue
		}
		if _, err := fmt.Sscanf(text[i:], mark+"%d", &n); err == nil {
			x.mu.Lock()
			x.seen = append(x.seen, sight{n, time.Now()})
			x.mu.Unlock()
		}
	}
}

// delays returns how long tokens were on the way that ended a frame.
func (x *watcher) delays(s *stream) (out []time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range x.seen {
		if v.token < len(s.sent) {
			out = append(out, v.at.Sub(s.sent[v.token]))
		}
	}
	return out
}
