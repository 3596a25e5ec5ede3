//go:build long

package hostile

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deed is what a rogue does in a call, and the expected outcome.
type deed struct {
	do     string
	status string
	code   string // expected in the text of the result
	gone   bool   // no process of it is left soon after the call
}

// maxRise is by how many bytes Steward's memory may rise, whatever a tool
// does.
const maxRise = 64 << 20

// endsIn is how long the processes of an ended program may remain: it must miss
// a ping and then gets time to end.
const endsIn = time.Minute

// timeout returns the timeout of the deed's call. It is short where the timeout
// is expected, but long enough for a call to reach a running server on any
// machine.
func (d deed) timeout() time.Duration {
	if strings.HasSuffix(d.code, "_timeout") {
		return 5 * time.Second
	}
	return patience
}

// servers writes mcp.json.
func (s *steward) servers(list map[string]any) {
	s.t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": list})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(b), "mcp.json")
}

// mcp returns an entry of mcp.json for a rogue. The file behaviour contains its
// mode.
func (s *steward) mcp(name, behaviour string, timeout time.Duration) map[string]any {
	e := map[string]any{"command": s.rogue, "args": []string{"mcp", name}, "timeout": timeout.String()}
	if behaviour != "" {
		e["env"] = map[string]string{"ROGUE_SWITCH": behaviour}
	}
	return e
}

// suffer runs the deeds, those of a group in parallel. Each call gets one
// result, in time and in bounded memory. An ordinary tool and a good server
// keep working, and ended programs leave no processes behind.
func (s *steward) suffer(agent, prefix, good string, groups ...[]deed) {
	s.t.Helper()
	if r := s.do(agent, good, "").one(s.t); r.Status != "ok" || r.Result != "worked" {
		s.t.Fatalf("%+v", r)
	}
	for _, d := range slices.Concat(groups...) { // starts kept programs now, so no deed waits for a start
		eventually(s.t, prefix+d.do+" works", patience, func() bool { return s.do(agent, prefix+d.do+".do", "").one(s.t).Status == "ok" })
	}
	stop := s.watch()
	for _, group := range groups {
		var all sync.WaitGroup
		for _, d := range group {
			all.Go(func() { s.try(agent, prefix, d) })
		}
		all.Go(func() {
			if r := s.do(agent, good, "").one(s.t); r.Status != "ok" || r.Result != "worked" {
				s.t.Errorf("meanwhile a good one: %+v", r)
			}
		})
		all.Wait()
	}
	w := stop()
	median, longest := w.latency()
	s.t.Logf("memory rose by %d MiB; of %d calls of an ordinary tool the middle one took %v, the longest %v", w.rise>>20, len(w.times), median, longest)
	if w.rise > maxRise {
		s.t.Errorf("memory rose by %d MiB", w.rise>>20)
	}
	for _, group := range groups {
		for _, d := range group {
			if d.gone {
				eventually(s.t, "nothing is left of "+prefix+d.do, endsIn, func() bool { return len(s.alive(prefix+d.do)) == 0 })
			}
		}
	}
}

// try makes a rogue do its deed. The source is named after the deed.
func (s *steward) try(agent, prefix string, d deed) {
	name := prefix + d.do
	c := call{name + ".do", map[string]string{"do": d.do}}
	calls := []call{c}
	switch d.do {
	case "killed":
		calls[0].Args = map[string]string{"do": "hang"}
		var killing sync.WaitGroup
		defer killing.Wait()
		killing.Go(func() { s.killInCall(name) })
	case "swap":
		calls = []call{c, {c.Name, map[string]string{"do": d.do, "n": "2"}}}
	case "deaf": // more than fits into a pipe
		calls = nil
		for _, letter := range []string{"x", "y", "z"} {
			calls = append(calls, call{c.Name, map[string]string{"do": d.do, "text": strings.Repeat(letter, 256<<10)}})
		}
	}
	a := s.ask(agent, calls)
	if len(a.Results) != len(calls) || a.Text != "done" {
		s.t.Errorf("%s: %d results: %+v", name, len(a.Results), a)
	}
	for _, r := range a.Results {
		if r.Status != d.status || !strings.Contains(r.Result, d.code) {
			s.t.Errorf("%s: %+v; want %s %s", name, r, d.status, d.code)
		}
	}
}

// killInCall waits until a rogue hangs in a call, checks that an ordinary tool
// still works, and kills the rogue.
func (s *steward) killInCall(name string) {
	var pids []int
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(pids) == 0 && time.Now().Before(deadline); <-tick.C {
		pids = s.inCall(name)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := s.quick(client); err != nil {
		s.t.Errorf("while %s hangs, an ordinary tool: %v", name, err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			s.t.Error(err)
		}
	}
}

func TestHostileServers(t *testing.T) {
	t.Parallel()
	quiet := []deed{
		{do: "die", status: "unavailable", code: "mcp_server_ended", gone: true},
		{do: "killed", status: "unavailable", code: "mcp_server_ended", gone: true},
		{do: "hang", status: "error", code: "_timeout", gone: true},
		{do: "deaf", status: "error", code: "_timeout", gone: true},
		{do: "forks", status: "ok", code: "worked"},
		{do: "forks_hang", status: "error", code: "_timeout", gone: true},
		{do: "forks_die", status: "unavailable", code: "mcp_server_ended", gone: true},
		{do: "wrong_id", status: "error", code: "_timeout"},
		{do: "half", status: "error", code: "_timeout", gone: true}, // its sandbox keeps its output open
		{do: "half_line", status: "error", code: "_timeout"},
		{do: "twice", status: "ok", code: "first"},
		{do: "swap", status: "ok", code: "answer"},
		{do: "close", status: "error", code: "_timeout", gone: true},
	}
	loud := [][]deed{
		{{do: "flood", status: "unavailable", code: "mcp_server_floods", gone: true}},
		{{do: "flood_line", status: "unavailable", code: "mcp_server_floods", gone: true}},
		{{do: "flood_stderr", status: "ok", code: "worked"}},
		{{do: "flood_talk", status: "ok", code: "worked"}},
		{{do: "long", status: "unavailable", code: "mcp_server_floods", gone: true}},
	}
	s := newSteward(t)
	list := map[string]any{"good": s.mcp("good", "", patience)}
	for _, d := range slices.Concat(append(loud, quiet)...) {
		list[d.do] = s.mcp(d.do, "", d.timeout())
	}
	s.servers(list)
	s.must("agents", "approve", "--all", "--yes", "-q")
	s.serve()
	s.suffer("", "", "good.do", append([][]deed{quiet}, loud...)...)
}

// TestServersThatDoNotStart: these servers stop starting after they were
// approved.
func TestServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	s := newSteward(t)
	modes := map[string]string{"hang_start": "error", "hang_list": "error", "exit": "unavailable", "restart": "unavailable"}
	list := map[string]any{"good": s.mcp("good", "", patience)}
	for m := range modes {
		start := patience
		if strings.HasPrefix(m, "hang") {
			start = time.Second // the others exit by themselves, however busy the machine is
		}
		list[m] = s.mcp(m, s.write("", "..", "switches", m), start)
	}
	s.servers(list)
	s.must("agents", "approve", "--all", "--yes", "-q")
	for m := range modes {
		s.write(m, "..", "switches", m)
	}
	s.serve()
	if left := s.alive(""); len(left) > 0 {
		t.Errorf("started at the start: %v", left)
	}
	stop := s.watch()
	for range 2 {
		var all sync.WaitGroup
		for m, status := range modes {
			all.Go(func() {
				r := s.do("", m+".do", "").one(t)
				over := strings.HasPrefix(m, "hang") && strings.Contains(r.Result, "mcp_start_timeout") // the start may time out on a slow machine
				if r.Status != status && !over || !strings.Contains(r.Result, "recoverable: ") {
					t.Errorf("%s: %+v", m, r)
				}
			})
		}
		all.Wait()
		if r := s.do("", "good.do", "").one(t); r.Status != "ok" {
			t.Errorf("%+v", r)
		}
	}
	w := stop()
	median, longest := w.latency()
	t.Logf("of %d calls of an ordinary tool the middle one took %v, the longest %v", len(w.times), median, longest)
	if w.rise > maxRise {
		t.Errorf("memory rose by %d MiB", w.rise>>20)
	}
	// A server that keeps exiting is restarted after increasing pauses, so only
	// a few times by now.
	b, err := os.ReadFile(s.Data("..", "switches", "restart.log"))
	if n := strings.Count(string(b), "\n"); err != nil || n == 0 || n > 8 {
		t.Errorf("started %d times, %v", n, err)
	}
	// The servers can be used again once they behave.
	for m := range modes {
		s.write("", "..", "switches", m)
	}
	eventually(t, "what ends at once works again", patience, func() bool { return s.do("", "exit.do", "").one(t).Status == "ok" })
}

// TestHostilePrograms does the same with sandboxed programs in an agent's
// folder, with one process for each call or one for all.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	quiet := []deed{
		{do: "die", status: "unavailable", code: "process_failed", gone: true},
		{do: "killed", status: "unavailable", code: "process_failed", gone: true},
		{do: "hang", status: "error", code: "_timeout", gone: true},
		{do: "deaf", status: "error", code: "_timeout", gone: true},
		{do: "forks", status: "ok", code: "worked"},
		{do: "forks_hang", status: "error", code: "_timeout", gone: true},
		{do: "forks_die", status: "unavailable", code: "process_failed", gone: true},
		{do: "half", status: "error", code: "_timeout", gone: true},
		{do: "twice", status: "ok", code: "first"},
		{do: "close", status: "error", code: "_timeout", gone: true},
	}
	loud := [][]deed{
		{{do: "flood", status: "unavailable", code: "process_noise", gone: true}},
		{{do: "flood_line", status: "unavailable", code: "output_too_large", gone: true}},
		{{do: "flood_stderr", status: "ok", code: "worked"}},
		{{do: "flood_talk", status: "unavailable", code: "process_noise", gone: true}},
		{{do: "long", status: "unavailable", code: "output_too_large", gone: true}},
	}
	// A program that ends with its input has not answered. A kept program may
	// still answer.
	more := map[string][]deed{
		"once": {{do: "wrong_id", status: "unavailable", code: "process_failed", gone: true}, {do: "half_line", status: "unavailable", code: "process_failed", gone: true}},
		"serve": {{do: "wrong_id", status: "error", code: "_timeout"}, {do: "half_line", status: "error", code: "_timeout"},
			{do: "swap", status: "ok", code: "answer"}},
	}
	for mode, some := range more {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSteward(t)
			groups := [][]deed{slices.Concat(quiet, some)}
			for _, group := range loud {
				groups = append(groups, slices.Clone(group))
			}
			for _, group := range groups {
				for i := range group { // a process for a single call does not outlive it for long
					group[i].gone = group[i].gone || mode == "once"
				}
			}
			s.programs(mode, groups)
			s.must("agents", "approve", "rogues", "--yes", "-q")
			s.serve()
			s.suffer("rogues", "", "good.do", groups...)
		})
	}
}

// programs writes an agent with a program for each deed.
func (s *steward) programs(mode string, groups [][]deed) {
	s.t.Helper()
	yaml := "name: rogues\ndescription: Has programs that misbehave.\nprocess:\n"
	for _, group := range append(slices.Clone(groups), []deed{{do: "good"}}) {
		for _, d := range group {
			yaml += "  " + d.do + ": {command: [" + s.rogue + ", envelope, " + d.do + "], mode: " + mode +
				", tools: [{name: do, description: Does what do says., effect: query, timeout: " + d.timeout().String() + ", input: {type: object}}]}\n"
		}
	}
	s.write(yaml, filepath.Join("agents", "rogues", "agent.yaml"))
}
