//go:build long

// Package hostile runs a real Steward with servers and programs that behave
// like hostile and broken ones. Steward survives them, each call has one
// result, and none of their processes is left.
package hostile

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/test/built"
	"steward/test/edge"
)

// roguePath is the built rogue program. Each steward has its own link to it,
// which identifies its processes.
var roguePath string

var worlds atomic.Int64

func TestMain(m *testing.M) {
	var err error
	if roguePath, err = built.Program("steward/test/hostile/rogue"); err != nil {
		panic(err)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait for timeouts more than they compute
		panic(err)
	}
	os.Exit(edge.Main(m))
}

// patience is how long the tests wait for something that must happen. It is
// long enough for any machine.
const patience = 3 * time.Minute

// steward is a node with its model and the rogue program.
type steward struct {
	*edge.Node
	t     *testing.T
	model *model
	rogue string // the rogue program under a name that only this node uses
}

func newSteward(t *testing.T) *steward {
	t.Helper()
	s := &steward{t: t, model: newModel(t)}
	s.rogue = filepath.Join(filepath.Dir(roguePath), fmt.Sprintf("rogue-%d-%d", os.Getpid(), worlds.Add(1)))
	if err := os.Link(roguePath, s.rogue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(s.rogue) })
	cannot := func(edge.Asked) edge.Reply { return edge.Refuse(http.StatusNotImplemented, "{}") } // so that only names count
	s.Node = edge.New(t, edge.Options{Model: edge.ScriptLooking(t, cannot, s.model.reply),
		Env: []string{"STEWARD_TIMEOUTS_SHUTDOWN=" + (2 * patience).String()}})
	s.Write("windows: {openai/gpt-test: 10000000}\n", ".config", "steward", "steward.yaml")
	return s
}

// write writes a file in the data folder.
func (s *steward) write(text string, names ...string) string {
	s.t.Helper()
	return s.Write(text, append([]string{"data"}, names...)...)
}

func (s *steward) serve() {
	s.t.Helper()
	s.Serve()
	s.t.Cleanup(s.end)
}

// end stops Steward. Steward must not wait for hanging processes and must leave
// none of the processes that it started.
func (s *steward) end() {
	s.t.Helper()
	s.Stop()
	if left := s.alive(""); len(left) > 0 {
		s.t.Errorf("when Steward has ended there are still %v", left)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// must runs a command that must succeed and returns all its output.
func (s *steward) must(args ...string) string {
	s.t.Helper()
	r := s.Run(args...)
	if r.Code != 0 {
		s.t.Fatalf("steward %v: exit %d\n%s%s", args, r.Code, r.Out, r.Err)
	}
	return r.Out + r.Err
}

// answer is the outcome of a turn.
type answer struct{ edge.Answer }

// one returns the only result. It may be called from any goroutine.
func (a answer) one(t *testing.T) edge.Frame {
	t.Helper()
	if len(a.Results) != 1 {
		t.Errorf("%d results: %+v", len(a.Results), a)
		return edge.Frame{}
	}
	return a.Results[0]
}

// ask lets the model make calls, round by round, and approves them. It fails
// the test if a call has two results.
func (s *steward) ask(agent string, rounds ...[]call) answer {
	s.t.Helper()
	return s.converse(agent, nil, rounds)
}

// narrowed is ask in a conversation with only some of the tools, since a
// provider accepts a limited number.
func (s *steward) narrowed(tools []string, rounds ...[]call) answer {
	s.t.Helper()
	return s.converse("", tools, rounds)
}

func (s *steward) converse(agent string, tools []string, rounds [][]call) answer {
	s.t.Helper()
	content, err := json.Marshal(rounds)
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.Dial()
	defer c.Close()
	a := answer{c.Turn(map[string]any{"content": string(content), "agent": agent, "tools": tools, "model": "openai/gpt-test"},
		func(edge.Approval) string { return "approve" })}
	seen := map[string]bool{}
	for _, r := range a.Results {
		if seen[r.ID] {
			s.t.Errorf("%s has a second result: %+v", r.Name, r)
		}
		seen[r.ID] = true
	}
	return a
}

// during is ask that calls meanwhile while the model has stopped.
func (s *steward) during(meanwhile func(), agent string, rounds ...[]call) answer {
	s.t.Helper()
	asked := make(chan answer, 1)
	go func() { defer close(asked); asked <- s.ask(agent, rounds...) }()
	select {
	case <-s.model.reach:
	case a := <-asked:
		s.t.Fatalf("the model has not stopped: %+v", a)
	}
	func() {
		defer func() { s.model.let <- struct{}{} }()
		meanwhile()
	}()
	return <-asked
}

// do makes one tool call.
func (s *steward) do(agent, name, do string) answer {
	s.t.Helper()
	return s.ask(agent, []call{{name, map[string]string{"do": do}}})
}
