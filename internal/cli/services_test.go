package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/cli/command"
)

// errand is a request to the programs of these tests: a call of their services, or a
// connection to an address.
type errand struct {
	Method, Path, Body string
	Dial               string
}

// done is the result of an errand. The token is encoded, so that it is not masked.
type done struct {
	Status int
	Body   string
	URL    string
	Token  string
	Error  string
}

// do runs the errand, with the call's token if there is one.
func (e errand) do(token string) done {
	out := done{URL: os.Getenv("STEWARD_SERVICES_URL")}
	if token == "" {
		token = os.Getenv("STEWARD_TOKEN")
	}
	out.Token = base64.StdEncoding.EncodeToString([]byte(token))
	if e.Dial != "" {
		c, err := net.DialTimeout("tcp", e.Dial, 5*time.Second)
		if err == nil {
			err = c.Close()
		}
		return out.failed(err)
	}
	status, body, err := serviceCall(e.Method, out.URL+e.Path, token, "", e.Body)
	out.Status, out.Body = status, body
	return out.failed(err)
}

func (d done) failed(err error) done {
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

func serviceCall(method, url, token, agent, body string) (int, string, error) {
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	if agent != "" {
		req.Header.Set("Steward-Agent", agent)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// clerk is the program clerk: it runs errands that arrive in envelopes, until its
// input ends.
func clerk() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var req struct {
			RequestID  string `json:"request_id"`
			Parameters errand
			Metadata   struct{ Token string }
		}
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		b, err := json.Marshal(map[string]any{"type": "result", "request_id": req.RequestID, "status": "success", "data": req.Parameters.do(req.Metadata.Token)})
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(string(b))
	}
}

// desk is a clerk that speaks MCP.
func desk() {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "run", Description: "Does errands.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var e errand
			if err := json.Unmarshal(r.Params.Arguments, &e); err != nil {
				return nil, err
			}
			token, _ := r.Params.Meta["steward/token"].(string)
			b, err := json.Marshal(e.do(token))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}, err
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// office is a serving Steward with an agent whose programs run errands.
type office struct {
	t    *testing.T
	env  []string
	r    *command.Session
	keys map[string]string // the users' keys
}

// newOffice starts an office whose agent has the given services.
func newOffice(t *testing.T, env []string, services string) *office {
	t.Helper()
	path := map[string]string{}
	for _, name := range []string{"clerk", "desk"} {
		var err error
		if path[name], err = exec.LookPath(name); err != nil {
			t.Fatal(err)
		}
	}
	tool := "tools: [{name: run, description: Does errands., effect: query, yields: [], input: {type: object}}]"
	writeAgent(t, filepath.Join(homeOf(env), ".local/share/steward/agents"), "office/agent.yaml", fmt.Sprintf(`name: office
description: Does errands.
secrets: [FAR_KEY]
services: %s
process:
  once: {command: %[2]q, %[4]s}
  kept: {command: %[2]q, mode: serve, %[4]s}
mcp:
  desk: {command: %[3]q}
`, services, path["clerk"], path["desk"], tool))
	if code, out, errs := in(t, "", env, "agents", "approve", "office", "--yes"); code != command.ExitOK {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	_, r := serveFor(t, env)
	o := &office{t: t, env: env, r: r, keys: map[string]string{}}
	for _, user := range []string{"ada", "bob"} {
		key, err := r.CreateKey(t.Context(), user, "test", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		o.keys[user] = key.Secret
	}
	return o
}

// call calls a tool of the agent's as a user, and returns the text of its
// result.
func (o *office) call(user, tool string, args any) string {
	o.t.Helper()
	a, err := json.Marshal(args)
	if err != nil {
		o.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"agent": "office", "function": map[string]any{"name": tool, "arguments": string(a)}})
	if err != nil {
		o.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.r.URL()+"/tool.Tool/ExecuteTool", bytes.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+o.keys[user])
	res, err := o.r.HTTP().Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct{ Content, Status, Code, Message string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.Status != "CALL_STATUS_OK" {
		o.t.Fatalf("%s: %+v, %v", tool, out, err)
	}
	return out.Content
}

// errand makes a program run an errand for a user.
func (o *office) errand(user, program string, e errand) done {
	o.t.Helper()
	var d done
	text := o.call(user, program+".run", e)
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		o.t.Fatalf("%s: %v: %s", program, err, text)
	}
	return d
}

func (o *office) wants(user, program string, e errand, status int, body string) done {
	o.t.Helper()
	d := o.errand(user, program, e)
	if d.Error != "" || d.Status != status || !strings.Contains(d.Body, body) {
		o.t.Errorf("%s for %s: %s %s: %+v; want %d %q", program, user, e.Method, e.Path, d, status, body)
	}
	return d
}

// TestProgramsReachTheServicesOfTheirAgent: programs in the sandbox, which have no
// network, reach them for the calling user and for the duration of the call.
func TestProgramsReachTheServicesOfTheirAgent(t *testing.T) {
	v := newVendor(t)
	o := newOffice(t, v.env(t), "{state: {tools: true, offering: serve}, llm: {offering: serve}, user: {offering: none}}")
	for _, program := range []string{"once", "kept", "desk"} {
		key := "/state/" + program
		d := o.wants("ada", program, errand{Method: "PUT", Path: key, Body: `{"of":"ada"}`}, http.StatusNoContent, "")
		o.wants("ada", program, errand{Method: "GET", Path: key}, http.StatusOK, `{"of":"ada"}`)
		o.wants("bob", program, errand{Method: "GET", Path: key}, http.StatusNotFound, "")
		o.wants("bob", program, errand{Method: "PUT", Path: key, Body: `"bob's"`}, http.StatusNoContent, "")
		o.wants("ada", program, errand{Method: "GET", Path: key}, http.StatusOK, `{"of":"ada"}`)
		o.wants("bob", program, errand{Method: "GET", Path: "/state?prefix="}, http.StatusOK, `"keys":[`)

		o.wants("ada", program, errand{Method: "GET", Path: "/user"}, http.StatusForbidden, "service_not_offered")
		o.wants("ada", program, errand{Method: "POST", Path: "/llm/chat/completions", Body: `{"model":"evil","messages":[{"role":"user","content":"hello"}]}`}, http.StatusOK, "You said: hello")

		// No other address can be reached.
		for _, at := range []string{strings.TrimPrefix(o.r.URL(), "http://"), strings.TrimPrefix(v.url, "http://"), "192.0.2.1:80"} {
			if d := o.errand("ada", program, errand{Dial: at}); d.Error == "" {
				t.Errorf("%s reaches %s", program, at)
			}
		}
		token, err := base64.StdEncoding.DecodeString(d.Token)
		if err != nil || len(token) < 20 {
			t.Fatalf("%s: no token: %q, %v", program, token, err)
		}
		stops(t, func() (int, error) {
			status, _, err := serviceCall("GET", d.URL+key, string(token), "", "")
			return status, err
		})
		if status, _, err := serviceCall("GET", d.URL+key, "sts_made_up", "", ""); status != http.StatusUnauthorized {
			t.Errorf("%d %v", status, err)
		}
	}
	// The agent's built-in tools see the same state.
	if text := o.call("ada", "state.get", map[string]string{"key": "once"}); !strings.Contains(text, "ada") {
		t.Error(text)
	}
}

// stops waits until a token is invalid, which it is once its program has ended.
func stops(t *testing.T, call func() (int, error)) {
	t.Helper()
	for {
		status, err := call()
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusUnauthorized {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestAProgramsModelIsItsAgents: if the agent's model is at a URL, the program's
// requests go there.
func TestAProgramsModelIsItsAgents(t *testing.T) {
	near, v := newVendor(t), newVendor(t)
	var asked []string
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("Authorization")+" "+string(b))
		r.Body = io.NopCloser(bytes.NewReader(b))
		r.URL.Path = "/v1" + r.URL.Path
		v.chat(w, r)
	}))
	defer far.Close()
	o := newOffice(t, append(near.env(t), "FAR_KEY=the-far-key"),
		fmt.Sprintf("{llm: {source: remote, offering: serve, url: %q, key: FAR_KEY, model: far-1, fallback: local}}", far.URL))
	ask := errand{Method: "POST", Path: "/llm/chat/completions",
		Body: `{"model":"evil","metadata":{"conversation_id":"x"},"stream":true,"messages":[{"role":"user","content":"hello"}]}`}
	o.wants("ada", "once", ask, http.StatusOK, "hello")
	if len(asked) != 1 || !strings.HasPrefix(asked[0], "Bearer the-far-key {") || !strings.Contains(asked[0], `"model":"far-1"`) {
		t.Errorf("%q", asked)
	}
	far.Close()
	o.wants("ada", "once", ask, http.StatusOK, "hello")
}

// TestAgentsWhoseProgramsAreServedNothing: they get no address and no token, and can
// connect to nothing.
func TestAgentsWhoseProgramsAreServedNothing(t *testing.T) {
	o := newOffice(t, user(t), "{state: {tools: true, source: local}}")
	for _, program := range []string{"once", "kept", "desk"} {
		if d := o.errand("ada", program, errand{Dial: strings.TrimPrefix(o.r.URL(), "http://")}); d.URL != "" || d.Token != "" || d.Error == "" {
			t.Errorf("%s: %+v", program, d)
		}
	}
}

// TestAnAgentsModelAtAURL: the server may be any that speaks OpenAI's protocol. While
// it cannot be reached, the node's own model answers if the agent allows that.
func TestAnAgentsModelAtAURL(t *testing.T) {
	v := newVendor(t)
	var keys []string
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Authorization"))
		r.URL.Path = "/v1" + r.URL.Path
		v.chat(w, r)
	}))
	defer far.Close()
	env := user(t, "FAR_KEY=the-far-key")
	dir := filepath.Join(homeOf(env), ".local/share/steward/agents")
	for name, fallback := range map[string]string{"remote": "", "hybrid": ", fallback: local"} {
		writeAgent(t, dir, name+"/agent.yaml", fmt.Sprintf("name: %s\ndescription: Talks.\nsecrets: [FAR_KEY]\nservices: {llm: {source: remote, url: %q, key: FAR_KEY, model: far-1%s}}\n", name, far.URL, fallback))
	}
	if code, out, errs := in(t, "", env, "agents", "approve", "--all", "--yes"); code != command.ExitOK {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	for _, name := range []string{"remote", "hybrid"} {
		if code, out, errs := in(t, "", env, "ask", "-q", "--agent", name, "hello"); code != command.ExitOK || out != "You said: hello\n" {
			t.Errorf("%s: %d %q %s", name, code, out, errs)
		}
	}
	for _, k := range keys {
		if k != "Bearer the-far-key" {
			t.Errorf("the key is %q", k)
		}
	}
	if len(keys) != 2 {
		t.Errorf("it was asked %d times", len(keys))
	}
	far.Close()
	if code, out, errs := in(t, "", env, "ask", "-q", "--agent", "remote", "hello"); code == command.ExitOK || !strings.Contains(errs, "service") {
		t.Errorf("%d %q %s", code, out, errs)
	}
	if code, out, errs := in(t, "", env, "ask", "-q", "--agent", "hybrid", "Who are you?"); code != command.ExitOK || !strings.Contains(out, "built-in offline model") {
		t.Errorf("%d %q %s", code, out, errs)
	}
}

// TestAnAgentsStateAtAnotherSteward: the state is stored there for the user of the
// key, separate from that of its own agents.
func TestAnAgentsStateAtAnotherSteward(t *testing.T) {
	there := newOffice(t, user(t), "{state: {tools: true, offering: serve}}")
	there.wants("ada", "once", errand{Method: "PUT", Path: "/state/x", Body: `"its own"`}, http.StatusNoContent, "")
	here := newOffice(t, user(t, "FAR_KEY="+there.keys["ada"]),
		fmt.Sprintf("{state: {tools: true, source: remote, offering: serve, url: %q, key: FAR_KEY}}", there.r.URL()+"/services/v1"))
	here.wants("ada", "once", errand{Method: "GET", Path: "/state/x"}, http.StatusNotFound, "")
	here.wants("ada", "once", errand{Method: "PUT", Path: "/state/x", Body: `"from afar"`}, http.StatusNoContent, "")
	here.wants("ada", "desk", errand{Method: "GET", Path: "/state/x"}, http.StatusOK, `"from afar"`)
	there.wants("ada", "once", errand{Method: "GET", Path: "/state/x"}, http.StatusOK, `"its own"`)
	// The state is stored at the other Steward, for the user of the key.
	get := func(user, agent string) (int, string) {
		t.Helper()
		status, body, err := serviceCall("GET", there.r.URL()+"/services/v1/state/x", there.keys[user], agent, "")
		if err != nil {
			t.Fatal(err)
		}
		return status, body
	}
	if status, body := get("ada", "office"); status != http.StatusOK || body != `"from afar"` {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("bob", "office"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
	for _, agent := range []string{"", "../office", "remote/office", "Office"} {
		if status, body := get("ada", agent); agent != "remote/office" && (status != http.StatusBadRequest || !strings.Contains(body, "agent_invalid")) ||
			agent == "remote/office" && status != http.StatusNotFound {
			t.Errorf("%q: %d %s", agent, status, body)
		}
	}
	if text := here.call("ada", "state.list", map[string]string{}); !strings.Contains(text, "x") {
		t.Error(text)
	}
}
