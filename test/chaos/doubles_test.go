//go:build long

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"steward/test/edge"
)

// These are the phases of a turn, as seen from outside Steward.
const (
	sending   = "message sent, not acknowledged"
	asked     = "acknowledged, model asked"
	streaming = "first reply streaming"
	calling   = "call made, not yet asked for approval or run"
	awaiting  = "awaiting a person"
	executing = "effect in flight"
	resulting = "effect done, model not yet asked again"
	answering = "answer streaming"
	settled   = "answered"
)

// board records the phase of each conversation.
type board struct {
	trees *pulse
	mu    sync.Mutex
	phase map[string]string // by conversation
}

// set records the phase of a turn. The conversation is the first part of its
// token.
func (b *board) set(token, phase string) {
	conversation, _, _ := strings.Cut(token, "-")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase[conversation] = phase
}

// count adds the phases of all conversations to the tally.
func (b *board) count(tally map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.phase {
		tally[p]++
	}
}

// model calls the tools that the user's message names and then slowly repeats
// their results.
type model struct {
	board *board
	pace  func() time.Duration
}

func (m *model) reply(in edge.Asked) edge.Reply {
	return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		m.stream(in, &sse{w: w, r: r, pace: m.pace})
	}}
}

func (m *model) stream(in edge.Asked, s *sse) {
	said, isTask := strings.CutPrefix(in.User(), "task ")
	if isTask {
		said, _, _ = strings.Cut(said, "\n")
	}
	tools, token, _ := strings.Cut(said, " ") // "TOOL[,TOOL…] TOKEN"
	if strings.Contains(token, " ") {         // not from the user: it reports the result of a queued action
		if s.chunk(map[string]any{"content": "Noted."}, nil) {
			s.end("stop")
		}
		return
	}
	if isTask || tools == tree {
		m.board.trees.heard(token)
	}
	results := in.Results()
	if len(results) == 0 {
		m.board.set(token, asked)
	} else {
		m.board.set(token, answering)
	}
	if !s.wait() {
		return
	}
	if len(results) > 0 {
		for i, r := range results { // an answer longer than the time between kills would never end
			words := strings.Fields(r)
			results[i] = strings.Join(words[:min(len(words), 4)], " ")
		}
		for _, word := range strings.SplitAfter("The ledger says: "+strings.Join(results, "; "), " ") {
			if !s.chunk(map[string]any{"content": word}, nil) {
				return
			}
		}
		s.end("stop")
		return
	}
	m.board.set(token, streaming)
	for n, name := range strings.Split(tools, ",") {
		name = strings.ReplaceAll(name, ".", "__")
		args := fmt.Sprintf(`{"token":"%s/%d"}`, token, n)
		if name == tree {
			plan, _ := json.Marshal(planOf(token))
			name, args = "plan__start", string(plan)
		}
		for _, part := range []map[string]any{
			{"index": n, "id": fmt.Sprintf("call_%s_%d", token, n), "type": "function", "function": map[string]any{"name": name, "arguments": ""}},
			{"index": n, "function": map[string]any{"arguments": args[:7]}},
			{"index": n, "function": map[string]any{"arguments": args[7:]}},
		} {
			if !s.chunk(map[string]any{"tool_calls": []any{part}}, nil) {
				return
			}
		}
	}
	m.board.set(token, calling)
	s.end("tool_calls")
}

type sse struct {
	w    http.ResponseWriter
	r    *http.Request
	pace func() time.Duration
}

func (s *sse) wait() bool {
	select {
	case <-time.After(s.pace()):
		return true
	case <-s.r.Context().Done():
		return false
	}
}

func (s *sse) chunk(delta map[string]any, finish any) bool {
	edge.Chunk(s.w, delta, finish)
	s.w.(http.Flusher).Flush()
	return s.wait()
}

func (s *sse) end(finish string) {
	if s.chunk(map[string]any{}, finish) {
		fmt.Fprint(s.w, "data: [DONE]\n\n")
	}
}

// ledger counts effects. It outlives every Steward.
type ledger struct {
	board *board
	pace  func() time.Duration

	mu      sync.Mutex
	effects map[string]int         // number of effects by token
	keys    map[string]string      // answer by idempotency key
	denied  map[string]string      // by idempotency key: the process that was told last that it did not happen
	busy    map[string]*sync.Mutex // by idempotency key: serialises requests with the same key
}

func newLedger(b *board, pace func() time.Duration) *ledger {
	return &ledger{board: b, pace: pace, effects: map[string]int{}, keys: map[string]string{}, denied: map[string]string{}, busy: map[string]*sync.Mutex{}}
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Key, Token string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	turn, _, _ := strings.Cut(in.Token, "/")
	if strings.Contains(turn, "+") {
		l.board.trees.heard(turn)
	}
	if r.URL.Path == "/look" {
		l.board.set(turn, executing)
		<-time.After(l.pace())
		l.board.set(turn, resulting)
		fmt.Fprintf(w, "looked for %s", in.Token)
		return
	}
	one := l.lock(in.Key)
	one.Lock()
	defer one.Unlock()
	var answer bytes.Buffer
	switch r.URL.Path {
	case "/happened":
		l.mu.Lock()
		if l.keys[in.Key] == "" {
			l.denied[in.Key] = r.Header.Get("From")
		}
		answer.WriteString(l.keys[in.Key])
		l.mu.Unlock()
	case "/add", "/add-once":
		if l.late(in.Key, r.Header.Get("From")) {
			http.Error(w, "it was said not to have happened", http.StatusConflict)
			return
		}
		l.board.set(turn, executing)
		<-time.After(l.pace()) // the request has arrived; its sender may die now
		answer.WriteString(l.write(in.Key, in.Token, r.URL.Path == "/add-once"))
		l.board.set(turn, resulting)
		<-time.After(l.pace()) // the effect has happened; the sender does not know yet
	}
	w.Write(answer.Bytes())
}

// late reports whether a request comes after another process was told that it did not
// happen. Its sender is dead, and the ledger had not read it yet.
func (l *ledger) late(key, process string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.denied[key]
	return asked != "" && asked != process
}

func (l *ledger) lock(key string) *sync.Mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[key] == nil {
		l.busy[key] = &sync.Mutex{}
	}
	return l.busy[key]
}

func (l *ledger) write(key, token string, once bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if said, ok := l.keys[key]; ok && once {
		return said
	}
	l.effects[token]++
	l.keys[key] = "wrote " + token
	return l.keys[key]
}

// pacer returns a function that draws random waits from a seed. It is safe for
// concurrent use.
func pacer(seed uint64, most time.Duration) func() time.Duration {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(most)))
	}
}
