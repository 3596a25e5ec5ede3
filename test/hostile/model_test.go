//go:build long

package hostile

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// call is a tool call for the model to make.
type call struct {
	Name string `json:"name"`
	Args any    `json:"args"`
}

// model makes the calls that the user's message lists as JSON, one list of
// calls for each round. After the last round it says "done". It checks that
// each call has exactly one result.
type model struct {
	t     *testing.T
	after atomic.Int32  // the round at which it stops once, plus one; zero: never
	reach chan struct{} // receives a value when it has stopped
	let   chan struct{} // a value lets it continue

	mu   sync.Mutex
	told []string // the results that it received, in order
}

func newModel(t *testing.T) *model {
	return &model{t: t, reach: make(chan struct{}), let: make(chan struct{})}
}

// pauses makes the model stop once, after the given number of rounds of calls.
func (m *model) pauses(rounds int32) { m.after.Store(rounds + 1) }

func (m *model) reply(in edge.Asked) edge.Reply {
	m.mu.Lock()
	m.told = append(m.told, in.Results()...)
	m.mu.Unlock()
	out := edge.Reply{}
	for _, c := range m.next(in) {
		out.Calls = append(out.Calls, edge.Call(c))
	}
	if len(out.Calls) == 0 {
		return edge.Reply{Text: "done"}
	}
	if m.after.Load() > 0 && m.after.Add(-1) == 0 {
		m.reach <- struct{}{}
		<-m.let
	}
	return out
}

// next returns the next calls. It checks that each earlier call has one result.
func (m *model) next(in edge.Asked) []call {
	results := map[string]int{}
	for _, msg := range in.Messages {
		for _, c := range msg.Calls {
			results[c.ID] += 0
		}
		if msg.Role == "tool" {
			results[msg.CallID]++
		}
	}
	for id, n := range results {
		if n != 1 {
			m.t.Errorf("the call %s has %d results", id, n)
		}
	}
	var rounds [][]call
	if err := json.Unmarshal([]byte(in.User()), &rounds); err != nil {
		m.t.Errorf("%v: %s", err, in.User())
	}
	if in.Rounds() >= len(rounds) {
		return nil
	}
	return rounds[in.Rounds()]
}
