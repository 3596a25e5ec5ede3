//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/apis"
	"steward/test/edge"
)

// Turns are told apart by their tokens. The message "run TOKEN look,add" makes the model call ledger.look and then,
// in its next reply, ledger.add, the message "tree TOKEN" makes the planner plan a tree of tasks, and each of its
// tasks is called "task TOOL TOKEN+K". A call has the token of its turn or task, and its number: "TOKEN/0".

// Load is the world of the nodes: the model, and the ledger that counts effects. It notes when something is heard of
// each turn.
type Load struct {
	Pace time.Duration // the longest pause of the model within a reply, and of the ledger

	mu      sync.Mutex
	random  *rand.Rand
	effects map[string]int    // by token of a call
	answers map[string]string // by idempotency key
	turns   map[string]*heard // that were sent, and are not answered yet
	waits   map[string][]time.Duration
	again   map[string]int
	slow    []string
}

// heard is what is known of a turn from outside.
type heard struct {
	node  string    // that asked the model last
	last  time.Time // when something was heard
	fault string    // the fault after which nothing was heard yet
	since time.Time // of the fault
}

// NewLoad returns a Load that draws its pauses from a seed.
func NewLoad(seed uint64, pace time.Duration) *Load {
	return &Load{Pace: pace, random: rand.New(rand.NewPCG(seed, 7)), effects: map[string]int{}, answers: map[string]string{},
		turns: map[string]*heard{}, waits: map[string][]time.Duration{}, again: map[string]int{}}
}

// rest waits for a part of the pace, and reports whether ctx is still open.
func (l *Load) rest(ctx context.Context) bool {
	l.mu.Lock()
	d := time.Duration(l.random.Int64N(int64(l.Pace) + 1))
	l.mu.Unlock()
	pause(ctx, d)
	return ctx.Err() == nil
}

// turnOf returns the token of the turn that another token belongs to.
func turnOf(token string) string {
	if i := strings.IndexAny(token, "+/"); i >= 0 {
		return token[:i]
	}
	return token
}

// sent notes that a turn was sent.
func (l *Load) sent(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns[token] == nil {
		l.turns[token] = &heard{last: time.Now()}
	}
}

// hear notes that something goes on about a turn; node may be empty.
func (l *Load) hear(token, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.turns[turnOf(token)]
	if h == nil {
		return
	}
	before := h.node
	if node != "" {
		h.node = node
	}
	h.last = time.Now()
	if after := h.last.Sub(h.since); h.fault != "" && after > settling {
		if after > slow && len(l.slow) < 1000 {
			l.slow = append(l.slow, fmt.Sprintf("%s %s: %s after %s at %s, asked by %q", h.last.Format("15:04:05.000"), token, after.Round(time.Millisecond), h.fault, before, node))
		}
		l.waits[h.fault] = append(l.waits[h.fault], after)
		h.fault = ""
	}
}

// slow is after how long it is noted which turn went on late.
const slow = 9 * time.Second

// Slow returns which turns went on late.
func (l *Load) Slow() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.slow)
}

// settling is how long after a fault a node may still be heard of that was struck: what it had sent arrives.
const settling = 50 * time.Millisecond

// over notes that a turn was answered.
func (l *Load) over(token string) {
	l.hear(token, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns, token)
}

// Struck notes a fault that concerns a node, or all nodes. Each turn that goes on there has to be heard of again.
func (l *Load) Struck(fault, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, h := range l.turns {
		if node != "" && h.node != node {
			continue
		}
		if h.fault != "" {
			l.again[h.fault]++
		}
		h.fault, h.since = fault, now
	}
}

// Silent returns the turns of which nothing was heard since they were struck.
func (l *Load) Silent() (tokens []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for token, h := range l.turns {
		if h.fault != "" {
			tokens = append(tokens, fmt.Sprintf("%s (%s, %s ago)", token, h.fault, time.Since(h.since).Round(time.Millisecond)))
		}
	}
	slices.Sort(tokens)
	return tokens
}

// Waits returns how long it took until turns went on after each kind of fault, ascending, and how many were struck
// by another fault before.
func (l *Load) Waits() (waits map[string][]time.Duration, again map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits = map[string][]time.Duration{}
	for fault, list := range l.waits {
		waits[fault] = slices.Sorted(slices.Values(list))
	}
	return waits, maps.Clone(l.again)
}

// Effects returns how often the effect of a call happened.
func (l *Load) Effects() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.effects)
}

// Ledger returns an MCP server whose tools write tokens: add recognises idempotency keys, blind does not, and look
// only reads.
func (l *Load) Ledger() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "ledger", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"token":{"type":"string"}},"required":["token"]}`)
	tool := func(t *sdk.Tool, answer func(key, token string) string) {
		t.Description, t.InputSchema = "Write a token to the ledger ("+t.Name+").", schema
		s.AddTool(t, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ Token string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			key, _ := r.Params.Meta["steward/idempotency_key"].(string)
			l.hear(in.Token, "")
			ctx = context.WithoutCancel(ctx)
			l.rest(ctx) // the request has arrived; its sender may die now
			text := answer(key, in.Token)
			l.rest(ctx) // the effect has happened; the sender does not know yet
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		})
	}
	tool(&sdk.Tool{Name: "look", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_, token string) string { return "looked for " + token })
	tool(&sdk.Tool{Name: "blind"}, func(_, token string) string { return l.write("", token) })
	tool(&sdk.Tool{Name: "add", Meta: sdk.Meta{"steward/dedupes": true}}, l.write)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func (l *Load) write(key, token string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if said := l.answers[key]; key != "" && said != "" {
		return said
	}
	l.effects[token]++
	if key != "" {
		l.answers[key] = "wrote " + token
	}
	return "wrote " + token
}

// Model returns a fake OpenAI server (https://platform.openai.com/docs/api-reference/chat/streaming). The first
// element of a request's path names the node.
func (l *Load) Model() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch rest {
		case "v1/models":
			io.WriteString(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1}]}`) //nolint:errcheck // the next request tells
		case "v1/embeddings":
			io.WriteString(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,0]}],"model":"gpt-test","usage":{"prompt_tokens":1,"total_tokens":1}}`) //nolint:errcheck // the same
		case "v1/chat/completions":
			var asked edge.Asked
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(body, &asked)
			}
			if err == nil {
				err = apis.CheckOpenAI(body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			l.reply(r.Context(), w, node, asked, strings.Contains(string(body), `"name":"choose_agent"`))
		default:
			http.NotFound(w, r)
		}
	})
}

// reply answers one request of a node.
func (l *Load) reply(ctx context.Context, w http.ResponseWriter, node string, in edge.Asked, chooses bool) {
	chunk := func(delta map[string]any, finish any) bool {
		edge.Chunk(w, delta, finish)
		w.(http.Flusher).Flush()
		return l.rest(ctx)
	}
	say := func(text string) {
		for _, word := range strings.SplitAfter(text, " ") {
			if !chunk(map[string]any{"content": word}, nil) {
				return
			}
		}
		if chunk(map[string]any{}, "stop") {
			io.WriteString(w, "data: [DONE]\n\n") //nolint:errcheck // the caller may be gone
		}
	}
	call := func(name, args string) {
		first := map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", len(in.Messages)), "type": "function", "function": map[string]any{"name": name, "arguments": ""}}
		if chunk(map[string]any{"tool_calls": []any{first}}, nil) &&
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "function": map[string]any{"arguments": args}}}}, nil) && chunk(map[string]any{}, "tool_calls") {
			io.WriteString(w, "data: [DONE]\n\n") //nolint:errcheck // the caller may be gone
		}
	}
	said, _, _ := strings.Cut(in.User(), "\n")
	words := strings.Fields(said)
	switch {
	case chooses:
		say(`{"agent":"assistant","confidence":1,"candidate":""}`)
	case len(words) >= 2 && words[0] == "tree":
		l.hear(words[1], node)
		if in.Rounds() == 0 {
			plan, _ := json.Marshal(planOf(words[1])) //nolint:errcheck // plain maps
			call("plan__start", string(plan))
			return
		}
		say("done " + words[1])
	case len(words) == 3 && (words[0] == "task" || words[0] == "run"):
		token, tools := words[1], strings.Split(words[2], ",")
		l.hear(token, node)
		if n := in.Rounds(); n < len(tools) {
			call("ledger__"+tools[n], fmt.Sprintf(`{"token":"%s/%d"}`, token, n))
			return
		}
		say("done " + token)
	default:
		say("Noted.")
	}
}

// leaves are the tools that the tasks of a tree call. The tree has three levels.
var leaves = []string{"add", "add", "look", "add", "add"}

// TreeTasks is how many tasks a tree has.
const TreeTasks = 8

// planOf returns the plan that the planner's model makes.
func planOf(token string) map[string]any {
	leaf := func(k int, after ...string) map[string]any {
		return map[string]any{"name": fmt.Sprint("leaf-", k), "purpose": fmt.Sprintf("task %s+%d %s", token, k, leaves[k]), "selected_tools": []string{"ledger." + leaves[k]},
			"after": append([]string{}, after...)}
	}
	part := func(name string, subtasks ...map[string]any) map[string]any {
		return map[string]any{"name": name, "purpose": name, "subtasks": subtasks}
	}
	return map[string]any{"analysis": "-", "plan": "-", "confidence": 1, "subtasks": []map[string]any{
		part("left", leaf(0), leaf(1, "leaf-0")), part("right", leaf(2), leaf(3)), leaf(4, "left", "right")}}
}

// toolsOf draws the tools that a turn calls, one after the other.
func toolsOf(token string, calls int) []string {
	h := fnv.New64a()
	io.WriteString(h, token) //nolint:errcheck // it cannot fail
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	out := make([]string, calls)
	for i := range out {
		out[i] = []string{"add", "add", "add", "add", "add", "add", "look", "blind"}[r.IntN(8)]
	}
	return out
}

// Leaves returns the tools that the tasks of a tree call.
func Leaves() []string { return slices.Clone(leaves) }
