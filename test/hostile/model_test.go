package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/test/apis"
)

// call is a call that the model is to make.
type call struct {
	Name string `json:"name"`
	Args any    `json:"args"`
}

// model speaks OpenAI's protocol: it calls what the user's message names, a
// list of calls as JSON, and says that it has when there are results. It sees
// to it that each call has one. Where the message names several lists, they
// are called one after the other.
type model struct {
	t     *testing.T
	url   string
	after atomic.Int32  // how many rounds of calls are made before it stops once; zero: never
	reach chan struct{} // gets a token when it has stopped
	let   chan struct{} // and it goes on with one of this

	mu   sync.Mutex
	told []string // the results that it was told, in their order
}

// pauses has the model stop once, after some rounds of calls.
func (m *model) pauses(rounds int32) { m.after.Store(rounds + 1) }

func newModel(t *testing.T) *model {
	m := &model{t: t, reach: make(chan struct{}), let: make(chan struct{})}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

type chatMessage struct {
	Role    string
	Content string
	Calls   []struct{ ID string } `json:"tool_calls"`
	Call    string                `json:"tool_call_id"`
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1,"context_length":10000000}]}`)
		return
	}
	var in struct{ Messages []chatMessage }
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was stopped
	}
	if err := errors.Join(apis.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
		m.t.Errorf("%v: %s", err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if bytes.Contains(body, []byte(`"name":"look_at_tools"`)) { // it cannot: what names derive counts
		http.Error(w, "{}", http.StatusNotImplemented)
		return
	}
	last := len(in.Messages)
	for last > 0 && in.Messages[last-1].Role == "tool" {
		last--
	}
	m.mu.Lock()
	for _, msg := range in.Messages[last:] {
		m.told = append(m.told, msg.Content)
	}
	m.mu.Unlock()
	calls := m.next(in.Messages)
	if len(calls) > 0 && m.after.Load() > 0 && m.after.Add(-1) == 0 {
		m.reach <- struct{}{}
		<-m.let
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(delta map[string]any, finish any) {
		b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
		if err != nil {
			m.t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	finish := "stop"
	for i, c := range calls {
		args, err := json.Marshal(c.Args)
		if err != nil {
			m.t.Error(err)
		}
		say(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", len(in.Messages), i), "type": "function",
			"function": map[string]any{"name": strings.ReplaceAll(c.Name, ".", "__"), "arguments": string(args)}}}}, nil)
		finish = "tool_calls"
	}
	if len(calls) == 0 {
		say(map[string]any{"content": "done"}, nil)
	}
	say(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// next returns the calls to make now, and sees that those before have one
// result each.
func (m *model) next(list []chatMessage) []call {
	var rounds [][]call
	round, results := 0, map[string]int{}
	for _, msg := range list {
		switch msg.Role {
		case "user":
			rounds, round = nil, 0
			if err := json.Unmarshal([]byte(msg.Content), &rounds); err != nil {
				m.t.Errorf("%v: %s", err, msg.Content)
			}
		case "assistant":
			round++
			for _, c := range msg.Calls {
				results[c.ID] += 0
			}
		case "tool":
			results[msg.Call]++
		}
	}
	for id, n := range results {
		if n != 1 {
			m.t.Errorf("the call %s has %d results", id, n)
		}
	}
	if round >= len(rounds) {
		return nil
	}
	return rounds[round]
}
