//go:build long

package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"steward/test/edge"
	"steward/test/must"
)

// serverVariable names the environment variable with the address of the suite's server.
const serverVariable = "STEWARD_TEST_CONFORMANCE_SERVER"

// TestClient is the client of one scenario: the built program, with a scripted model. It does what a person
// would do: approve the server, connect it when that is asked for, answer questions, and have the tools
// called. The suite judges it.
func TestClient(t *testing.T) {
	url := os.Getenv(serverVariable)
	if url == "" {
		return // TestConformance runs it
	}
	var about struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string
			Arguments map[string]any
		} `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		must.Do(t, json.Unmarshal([]byte(text), &about))
	}
	shown := []string{"STEWARD_TOOLS_SHOWN=1000", "STEWARD_TOOLS_SHOWN_TOKENS=1000000"} // callsOf calls what is shown
	n := edge.New(t, edge.Options{Env: shown, Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		var calls []edge.Call
		for _, c := range about.ToolCalls {
			maps.DeleteFunc(c.Arguments, func(_ string, v any) bool { return v == nil }) // Steward refuses what the schema does not allow
			calls = append(calls, edge.Call{Name: "srv." + c.Name, Args: c.Arguments})
		}
		if calls == nil {
			calls = callsOf(in)
		}
		return edge.Steps(calls...)(in)
	})})
	oauth := map[string]any{"client_metadata": "https://conformance-test.local/client-metadata.json"}
	if about.ClientID != "" {
		oauth = map[string]any{"client_id": about.ClientID, "client_secret": about.ClientSecret}
	}
	b := must.Get(json.Marshal(map[string]any{"mcpServers": map[string]any{"srv": map[string]any{"url": url, "oauth": oauth}}}))
	n.Write(string(b), "data", "mcp.json")
	connects := 0
	connect := func(said string) bool {
		if connects++; !strings.Contains(said, "steward mcp connect srv") || connects > 3 {
			return false
		}
		consent(t, n)
		return true
	}
	approve := func() string {
		r := n.Run("agents", "approve", "mcp:srv", "--yes", "--tool", "srv.*=query,noask")
		return r.Out + r.Err
	}
	said := approve()
	for connect(said) {
		said = approve()
	}
	fmt.Fprintln(os.Stderr, said)
	n.Serve()
	defer n.Stop()
	for {
		a := n.Ask("Do it.", func(edge.Approval) string { return "approve" })
		var said strings.Builder
		for _, r := range a.Results {
			fmt.Fprintf(&said, "%s %s: %s\n", r.Name, r.Status, r.Result)
		}
		fmt.Fprintln(os.Stderr, said.String(), a.Code)
		if !connect(said.String()) {
			return
		}
	}
}

// callsOf has the model call every tool of the server, and Steward's own for resources and prompts.
func callsOf(in edge.Asked) []edge.Call {
	var calls, later []edge.Call
	prompt, uri := listed(in)
	for _, x := range in.Tools {
		name, ok := strings.CutPrefix(x.Function.Name, "srv__")
		var args any = struct{}{}
		switch {
		case !ok:
			continue
		case name == "read_resource":
			later = append(later, edge.Call{Name: "srv." + name, Args: map[string]any{"uri": uri}})
			continue
		case name == "get_prompt":
			later = append(later, edge.Call{Name: "srv." + name, Args: map[string]any{"name": prompt}})
			continue
		case strings.Contains(string(x.Function.Parameters), `"region"`):
			args = map[string]any{"region": "us-west1"}
		case name == "add_numbers":
			args = map[string]any{"a": 5, "b": 3}
		case name == "json_schema_echo":
			for _, y := range in.Tools {
				if y.Function.Name == "srv__json_schema_2020_12_tool" {
					args = map[string]any{"schema": y.Function.Parameters}
				}
			}
		}
		calls = append(calls, edge.Call{Name: "srv." + name, Args: args})
	}
	return append(calls, later...)
}

// listed returns the first prompt and the first resource that the server has listed.
func listed(in edge.Asked) (prompt, uri string) {
	for _, m := range in.Messages {
		var l struct {
			Prompts   []struct{ Name string }
			Resources []struct{ URI string }
		}
		if text := m.Text(); m.Role != "tool" || json.Unmarshal([]byte(text), &l) != nil {
			continue
		}
		for _, p := range l.Prompts {
			prompt = p.Name
		}
		for _, r := range l.Resources {
			uri = r.URI
		}
	}
	return prompt, uri
}

// consent runs steward mcp connect as a person with a browser does.
func consent(t *testing.T, n *edge.Node) {
	cmd := n.Command("mcp", "connect", "srv", "--yes", "--tool", "srv.*=query,noask")
	out := must.Get(cmd.StderrPipe())
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		if !strings.HasPrefix(lines.Text(), "http") {
			continue
		}
		if res, err := http.Get(lines.Text()); err != nil {
			t.Log(err)
		} else {
			res.Body.Close()
		}
	}
	fmt.Fprintln(os.Stderr, cmd.Wait())
}

// TestConformance runs the scenarios of the specification, whatever its version, and none of its extensions.
func TestConformance(t *testing.T) {
	suite := script(t, "conformance/dist/index.js")
	out := must.Get(exec.Command(node(t), suite, "list", "--client").Output())
	var scenarios []string
	for _, m := range regexp.MustCompile(`(?m)^ +- (\S+) \[(\S+)\]`).FindAllStringSubmatch(string(out), -1) {
		if m[2] != "extension" {
			scenarios = append(scenarios, m[1])
		}
	}
	if len(scenarios) < 30 {
		t.Fatalf("the suite has only the scenarios %v", scenarios)
	}
	exe := must.Get(os.Executable())
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				results := t.TempDir()
				cmd := exec.CommandContext(t.Context(), node(t), suite, "client", "--command", exe+" conformance-client", "--scenario", name,
					"--timeout", fmt.Sprint(patience.Milliseconds()), "--output-dir", results)
				cmd.Env = append(os.Environ(), "STEWARD_PROGRAMS_ARE_BUILT=yes")
				out, err := cmd.CombinedOutput()
				late := checks(t, results, out)
				failed := strings.Contains(string(out), "Client exited with code") || strings.Contains(string(out), "Client timed out")
				if err != nil && (late == "" || failed) {
					t.Fatalf("%v\n%s", err, out)
				}
				if late != "" {
					t.Log(late)
				}
				if !strings.Contains(late, "very late") || t.Failed() {
					return
				}
			}
			t.Error("it was very late each time")
		})
	}
}

// checks reads the results of the suite. Every check counts, including warnings, except that a client is
// late: that also depends on the machine, so it is returned. A little late is good enough, but twice the
// time that it was told to wait is not.
func checks(t *testing.T, dir string, out []byte) (late string) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "checks.json" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 1 {
		t.Fatalf("the suite has left %v, %v\n%s", files, err, out)
	}
	b := must.Get(os.ReadFile(files[0]))
	var list []struct {
		ID, Status, Description string
		ErrorMessage            string `json:"errorMessage"`
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) == 0 {
		t.Fatalf("%v\n%s", err, b)
	}
	good := 0
	for _, c := range list {
		switch c.Status {
		case "SUCCESS":
			good++
		case "INFO", "SKIPPED": // what the scenario's version of the protocol does not have
		default:
			if c.ID == "client-sse-retry-timing" && strings.Contains(c.ErrorMessage, " late (") {
				late = c.ErrorMessage
				continue
			}
			t.Errorf("%s %s: %s %s", c.Status, c.ID, c.Description, c.ErrorMessage)
		}
	}
	if good == 0 {
		t.Errorf("nothing was checked\n%s", out)
	}
	return late
}

// The suite has no scenario in which a server asks for the client's model. The project's own server does.
func TestSampling(t *testing.T) {
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if len(in.Tools) == 0 {
			return edge.Reply{Text: "They heard: " + in.User()}
		}
		return edge.Steps(edge.Call{Name: "srv.trigger_sampling_request", Args: map[string]any{"prompt": "Say hello.", "maxTokens": 20}})(in)
	})})
	b := must.Get(json.Marshal(map[string]any{"mcpServers": map[string]any{"srv": map[string]any{
		"command": node(t), "args": []string{script(t, "server-everything/dist/index.js"), "stdio"}, "sampling": true}}}))
	n.Write(string(b), "data", "mcp.json")
	n.Must("agents", "approve", "mcp:srv", "--yes", "--tool", "srv.*=query,noask")
	n.Serve()
	a := n.Ask("Do it.", func(edge.Approval) string { return "approve" })
	if len(a.Asked) != 1 || len(a.Results) != 1 || !strings.Contains(a.Results[0].Result, "They heard: Resource trigger-sampling-request context: Say hello.") {
		t.Errorf("%d %+v %s", len(a.Asked), a.Results, a.Text)
	}
}
