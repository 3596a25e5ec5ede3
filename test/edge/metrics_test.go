package edge_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/test/edge"
	"steward/test/must"
)

// scrape returns the values of the metrics of a node, by their names with labels, in the text format of Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
func scrape(t testing.TB, address string) map[string]float64 {
	t.Helper()
	resp := must.Get(http.Get(address))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", address, resp.Status)
	}
	out := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			out[line[:at]] = must.Get(strconv.ParseFloat(line[at+1:], 64))
		}
	}
	return out
}

// metricsAt returns where a node with a free address for its metrics serves them.
func metricsAt(t testing.TB, n *edge.Node) string {
	t.Helper()
	var at []string
	n.Until("the log says where the metrics are", func() bool {
		at = regexp.MustCompile(`metrics are served" url=(http://[0-9.:]+)/`).FindStringSubmatch(n.Log())
		return at != nil
	})
	return at[1]
}

// Everything that is counted is counted once: two scrapes with known turns between them differ by exactly these.
func TestMetricsCountExactly(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case in.Rounds() > 0:
			return edge.Reply{Text: strings.Join(in.Results(), "\n"), Input: 100}
		case in.User() == "calculate":
			return edge.Reply{Calls: []edge.Call{{Name: "math.add", Args: map[string]any{"a": 1, "b": 2}}, {Name: "math.add", Args: map[string]any{"a": "x"}}, {Name: "no.such_tool"}}, Input: 100}
		case in.User() == "ask the helper":
			return edge.Reply{Calls: []edge.Call{{Name: "helper.ask", Args: map[string]any{"request": "calculate"}}}, Input: 100}
		case in.User() == "note it":
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "docs/a.txt", "content": "a"}}}, Input: 100}
		}
		return edge.Reply{Text: "hello", Input: 100}
	}), Settings: "metrics: {listen: '127.0.0.1:0'}\nmodels: {default: openai/gpt-5.2}\nrouting: 'off'\nmemory: {read: false}\nfolders: [{name: docs, path: '" + t.TempDir() + "', write: true}]\n"})
	n.Write("name: helper\ndescription: Helps.\ntools: [math.*]\n", "data", "agents", "helper", "agent.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	at := metricsAt(t, n)
	c := n.Dial()
	before := scrape(t, at+"/metrics")
	for _, say := range []string{"hello", "calculate", "ask the helper", "note it"} {
		c.Turn(map[string]any{"content": say}, func(edge.Approval) string { return "approve" })
	}
	var after map[string]float64
	n.Until("the last turn has ended", func() bool { // its answer comes a moment earlier
		after = scrape(t, at+"/metrics")
		return after[`steward_turns_total{outcome="answered"}`] == 5 && after["steward_turns_running"] == 0
	})
	want := map[string]float64{
		`steward_turns_started_total{origin="user"}`:                                      4,
		`steward_turns_started_total{origin="agent"}`:                                     1,
		`steward_turns_total{outcome="answered"}`:                                         5,
		`steward_turn_seconds_count{outcome="answered"}`:                                  5,
		`steward_tool_calls_total{outcome="ok",tool="math.add"}`:                          2,
		`steward_tool_calls_total{outcome="error",tool="math.add"}`:                       2,
		`steward_tool_calls_total{outcome="error",tool="unknown"}`:                        2,
		`steward_tool_calls_total{outcome="ok",tool="agent.ask"}`:                         1,
		`steward_tool_calls_total{outcome="ok",tool="files.write"}`:                       1,
		`steward_intent_transitions_total{state="proposed"}`:                              1,
		`steward_intent_transitions_total{state="awaiting_approval"}`:                     1,
		`steward_intent_transitions_total{state="approved"}`:                              1,
		`steward_intent_transitions_total{state="executing"}`:                             1,
		`steward_intent_transitions_total{state="done"}`:                                  1,
		`steward_model_calls_total{model="gpt-5.2",outcome="answered",provider="openai"}`: 9,
		`steward_model_tokens_total{kind="input",model="gpt-5.2",provider="openai"}`:      900,
		`steward_model_call_seconds_count{model="gpt-5.2",provider="openai"}`:             9,
		`steward_turns_running`:                                                           0,
		`steward_approvals_waiting`:                                                       0,
	}
	for name, n := range want {
		if got := after[name] - before[name]; got != n {
			t.Errorf("%s: %v, want %v", name, got, n)
		}
	}
	for name := range after {
		for _, part := range []string{"steward_turn", "steward_tool", "steward_model", "steward_intent_"} {
			if _, known := want[name]; strings.HasPrefix(name, part) && !known && after[name] != before[name] && !strings.Contains(name, "_bucket{") && !strings.Contains(name, "_sum{") &&
				!strings.Contains(name, `kind="output"`) && !strings.Contains(name, "tool_call_seconds") && !strings.Contains(name, "cost") {
				t.Errorf("%s is counted too: %v", name, after[name]-before[name])
			}
		}
	}
	if got, want := after["steward_store_log_entries"], before["steward_store_log_entries"]; got <= want {
		t.Errorf("the log has %v entries, and had %v", got, want)
	}
	if got := after["steward_store_commits_total{outcome=\"committed\"}"] - before["steward_store_commits_total{outcome=\"committed\"}"]; got != after["steward_store_commit_seconds_count"]-before["steward_store_commit_seconds_count"] || got == 0 {
		t.Errorf("%v commits", got)
	}
}

// What somebody writes is in no label: neither a tool that a model makes up, nor a model that does not exist.
func TestMetricsHaveNobodysText(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Model == "gpt-5.2" && in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "canary.tool"}}}
		}
		if in.Model != "gpt-5.2" {
			return edge.Refuse(http.StatusNotFound, `{"error":{"message":"no such model"}}`)
		}
		return edge.Reply{Text: "canary"}
	}), Settings: "metrics: {listen: '127.0.0.1:0'}\nmodels: {default: openai/gpt-5.2}\nrouting: 'off'\n"})
	n.Serve()
	at := metricsAt(t, n)
	c := n.Dial()
	c.Turn(map[string]any{"content": "canary of a message"}, nil)
	c.Turn(map[string]any{"content": "hello", "model": "openai/canary-model"}, nil)
	all := scrape(t, at+"/metrics")
	for name := range all {
		if strings.Contains(name, "canary") {
			t.Errorf("%s has a text", name)
		}
	}
	if all[`steward_model_calls_total{model="other",outcome="not_found",provider="other"}`] == 0 {
		t.Errorf("the failed call is missing: %v", slices.Sorted(maps.Keys(all)))
	}
}

// At the address of the server, the metrics and the profiles are for admins; a key that is limited to the metrics
// opens these and nothing else.
func TestWhoMayObserve(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	n.Must("users", "add", "ann")
	n.Must("users", "add", "boss", "--role", "admin")
	limited := strings.TrimSpace(n.Must("keys", "create", "--user", "ann", "--only", "metrics"))
	for _, c := range []struct {
		path, who, key string
		want           int
	}{
		{"/metrics", "nobody", "-", 401}, {"/metrics", "ann", n.Key("ann"), 403}, {"/metrics", "an admin", n.Key("boss"), 200}, {"/metrics", "the local user", n.Token(), 200}, {"/metrics", "a limited key", limited, 200},
		{"/debug/pprof/heap", "nobody", "-", 401}, {"/debug/pprof/heap", "ann", n.Key("ann"), 403}, {"/debug/pprof/heap", "an admin", n.Key("boss"), 200}, {"/debug/pprof/heap", "a limited key", limited, 401},
		{"/api/v1/conversations", "a limited key", limited, 401}, {"/api/v1/log-level", "ann", n.Key("ann"), 403}, {"/api/v1/log-level", "an admin", n.Key("boss"), 200},
	} {
		r := must.Get(http.NewRequest(http.MethodGet, n.URL+c.path, nil))
		if c.key != "-" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		resp := must.Get(http.DefaultClient.Do(r))
		b := must.Get(io.ReadAll(resp.Body))
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s reads %s: %d %.200s, want %d", c.who, c.path, resp.StatusCode, b, c.want)
		}
	}
}

// The level of the log changes while Steward runs: of everything, or of what one agent leads to. Lines about a
// request have its id and its agent.
func TestTheLevelOfTheLogChanges(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply { return edge.Reply{Text: "hello"} }),
		Settings: "models: {default: openai/gpt-5.2}\nrouting: 'off'\nlog: {format: json}\nmemory: {read: false}\n"})
	n.Write("name: helper\ndescription: Helps.\n", "data", "agents", "helper", "agent.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	c := n.Dial()
	lines := func(agent string) int { return endsOf(n.Log(), agent) }
	c.Turn(map[string]any{"content": "hello"}, nil)
	n.Must("log", "level", "debug", "--agent", "helper")
	c.Turn(map[string]any{"content": "hello"}, nil)
	c.Turn(map[string]any{"content": "hello", "agent": "helper"}, nil)
	n.Until("the end of the helper's turn is in the log", func() bool { return lines("helper") == 1 })
	if a := lines("assistant"); a != 0 {
		t.Errorf("%d lines of the assistant at the level info\n%s", a, n.Log())
	}
	n.Must("log", "level", "reset", "--agent", "helper")
	n.Must("log", "level", "debug")
	d := n.Dial()
	d.Turn(map[string]any{"content": "hello"}, nil)
	n.Until("the end of the assistant's turn is in the log", func() bool { return lines("assistant") == 1 })
	if out := n.Must("log", "level"); out != "debug (settings: info)\n" {
		t.Errorf("the level is told as %q", out)
	}
	n.Must("log", "level", "reset")
	d.Turn(map[string]any{"content": "hello"}, nil)
	n.Must("log", "level", "debug")
	d.Turn(map[string]any{"content": "hello"}, nil) // after the end of the turn before
	n.Until("the end of the last turn is in the log", func() bool { return lines("assistant") >= 2 })
	if a, h := lines("assistant"), lines("helper"); a != 2 || h != 1 {
		t.Errorf("%d lines of the assistant, %d of the helper\n%s", a, h, n.Log())
	}
	if r := n.Run("log", "level", "loud"); r.Code == 0 || !strings.Contains(r.Err, "log_level_invalid") {
		t.Errorf("%+v", r)
	}
}

// endsOf returns how many ends of turns of an agent a log has, each with a request.
func endsOf(log, agent string) (n int) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"turn ended"`) && strings.Contains(line, fmt.Sprintf(`"agent":%q`, agent)) && strings.Contains(line, `"request":"0`) {
			n++
		}
	}
	return n
}

// readyz returns what a node says about being ready.
func readyz(t testing.TB, address string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Get(address + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body)))
}

// When Steward is stopped, it says so for a while, at both addresses, before it ends.
func TestReadyzWhileClosing(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Settings: "metrics: {listen: '127.0.0.1:0'}\ntimeouts: {drain: 5s}\n"})
	n.Serve()
	at := metricsAt(t, n)
	for _, address := range []string{n.URL, at} {
		if status, text := readyz(t, address); status != 200 {
			t.Errorf("%s: %d %s", address, status, text)
		}
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); n.Stop() }()
	n.Until("it is closing", func() bool { status, _ := readyz(t, n.URL); return status == 503 })
	for _, address := range []string{n.URL, at} {
		if status, text := readyz(t, address); status != 503 || text != `{"code":"closing","reasons":[{"code":"closing"}],"status":"unavailable"}`+"\n" {
			t.Errorf("%s: %d %s", address, status, text)
		}
	}
	resp := must.Get(http.Get(at + "/healthz"))
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("it is alive: %s", resp.Status)
	}
	<-stopped
}
