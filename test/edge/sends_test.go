package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// A reply with thousands of calls: what is stored and shown of it is bounded, and the conversation goes on,
// within a small window too.
func TestAReplyWithThousandsOfCalls(t *testing.T) {
	t.Parallel()
	var many []edge.Call
	for i := range 5000 {
		many = append(many, edge.Call{Name: "math.add", Args: object{"a": i, "b": 1}})
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if tokensOf(in) > 30_000 {
			return edge.Refuse(http.StatusBadRequest, `{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 30000 tokens."}}`)
		}
		if in.User() == "Add a lot." && in.Rounds() == 0 {
			return edge.Reply{Calls: many}
		}
		results := in.Results()
		return edge.Reply{Text: fmt.Sprintf("%d results, the last: %s", len(results), append(results, "none")[max(0, len(results)-1)])}
	})})
	configure(n, "windows: {openai/gpt-test: 30000}\n")
	n.Serve()
	c := n.Dial()
	a := c.Turn(map[string]any{"type": "message", "content": "Add a lot."}, nil)
	if a.Code != "" || !strings.HasPrefix(a.Text, "65 results, the last: [error] Not run: a reply may make at most 64 calls.") {
		t.Errorf("%s %s", a.Code, a.Text)
	}
	if b := c.Turn(map[string]any{"type": "message", "content": "Go on.", "conversation_id": a.Conversation}, nil); b.Code != "" || b.Text != "0 results, the last: none" {
		t.Errorf("%s %s", b.Code, b.Text)
	}
}

// Two plans in one reply: the first is carried out, the second is not begun, and the turn ends.
func TestTwoPlansInOneReply(t *testing.T) {
	t.Parallel()
	plan := func(name string) edge.Call {
		return edge.Call{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
			{"name": name, "purpose": "Add for " + name, "selected_tools": []string{"math.add"}},
			{"name": name + "_too", "purpose": "Add for " + name + " too", "selected_tools": []string{"math.add"}}}}}
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case !strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			return edge.Steps(edge.Call{Name: "math.add", Args: object{"a": 40, "b": 2}})(in)
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{plan("one"), plan("two")}}
		}
		return edge.Reply{Text: strings.Join(in.Results(), "\nAND\n")}
	})})
	out := n.Run("ask", "--agent", "planner", "Add twice, in two plans")
	first, second, both := strings.Cut(out.Out, "\nAND\n")
	if !both || !strings.Contains(first, "42") || strings.Contains(out.Out, "Add for two") || !strings.Contains(second, "Not begun: a reply may carry out one plan") {
		t.Errorf("%+v", out)
	}
}

// rawServer is an MCP server over HTTP whose answers are written as they are, and which keeps the arguments
// of its calls.
type rawServer struct {
	url string

	mu  sync.Mutex
	got []string
}

func newRawServer(t *testing.T, schema, result string) *rawServer {
	s := &rawServer{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments json.RawMessage }
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body := ""
		switch m.Method {
		case "initialize":
			body = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			body = `"result":{"tools":[{"name":"work","description":"It works.","inputSchema":` + schema + `}]}`
		case "tools/call":
			s.mu.Lock()
			s.got = append(s.got, string(m.Params.Arguments))
			s.mu.Unlock()
			body = `"result":` + result
		default:
			body = `"error":{"code":-32601,"message":"not known"}`
		}
		if len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	s.url = h.URL
	return s
}

// calls returns the arguments of the calls so far.
func (s *rawServer) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, " ")
}

// An image as a data URL is an image; what cannot be read is named, and the rest of the result stays.
func TestPartsOfAResultThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, `{"type":"object"}`, `{"content":[{"type":"text","text":"before"},
		{"type":"image","mimeType":"image/png","data":"data:image/png;base64,iVBORw0KGgo="},
		{"type":"image","mimeType":"image/png","data":"%%%"},{"type":"video","data":"x"},
		{"type":"resource","resource":{"uri":"x:/a","mimeType":"application/zip","blob":"%"}},{"type":"text","text":"after"}]}`)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		for _, m := range in.Messages { // the image comes after the result, as a message of its own
			if m.Role == "tool" {
				return edge.Reply{Text: fmt.Sprintf("%s\nan image: %v", m.Text(), strings.Contains(string(in.Body), "data:image/png;base64,iVBORw0KGgo="))}
			}
		}
		return edge.Reply{Calls: []edge.Call{{Name: "raw.work", Args: object{}}}}
	})})
	servers(n, map[string]any{"raw": map[string]any{"url": s.url}})
	n.Must("agents", "approve", "mcp:raw", "--yes", "--tool", "raw.*=query,noask")
	out := n.Run("ask", "Work")
	if !inOrder(out.Out, []string{"before", "The image (image/png) could not be read: its data is not base64", `Content of the unknown kind "video" was left out`, "The contents (application/zip) could not be read", "after", "an image: true"}) || strings.Contains(out.Out, "mcp_") {
		t.Errorf("%+v", out)
	}
}

// Arguments that can only mean one thing cost no round. What a person is asked about, what the server gets and
// what is recorded is the corrected value.
func TestArgumentsAreCorrected(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, `{"type":"object","properties":{"n":{"type":"integer"},"on":{"type":"boolean"},"unit":{"enum":["metric","imperial"]},
		"tags":{"type":"array","items":{"type":"string"}},"in":{"type":"object","properties":{"max":{"type":"integer"},"note":{"type":"string"}}},"note":{"type":"string"}},"required":["n"]}`,
		`{"content":[{"type":"text","text":"worked"}]}`)
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "raw.work",
		Args: `{"n":"5","on":"true","unit":" Metric","tags":"one","in":"{\"max\":\"7\",\"note\":null}","note":null}`}))})
	servers(n, map[string]any{"raw": map[string]any{"url": s.url, "log": object{"work": object{"summary": "Do work number {n}", "impact": []string{"n"}}}}})
	n.Must("agents", "approve", "mcp:raw", "--yes", "--tool", "raw.*=action")
	n.Serve()
	const want = `{"in":{"max":7},"n":5,"on":true,"tags":["one"],"unit":"metric"}`
	a := n.Dial().Turn(map[string]any{"type": "message", "content": "Work"}, func(edge.Approval) string { return "approve" })
	asked := ""
	for _, f := range a.Frames {
		if f.Approval != nil {
			asked = string(f.Args)
		}
	}
	if len(a.Asked) != 1 || asked != want || s.calls() != want || a.Text != "worked" {
		t.Errorf("asked %s, the server got %s, answer %q %s", asked, s.calls(), a.Text, a.Code)
	}
	if log := n.Must("log"); !strings.Contains(log, "Do work number 5") {
		t.Errorf("the work log does not use the declared words: %s", log)
	}
	if log := n.Must("intents", "list", "--json"); strings.Contains(log, `"5"`) {
		t.Errorf("what was written is recorded as what was done: %s", log)
	}
}

// With tools.expired: at_once, a result that is too old leaves what the model is shown at the next request; otherwise
// it stays until room is needed.
func TestExpiredResultsLeaveAtOnce(t *testing.T) {
	t.Parallel()
	for setting, stays := range map[string]bool{"tools: {expired: at_once}\n": false, "tools: {expired: under_pressure}\n": true} {
		s := newRawServer(t, `{"type":"object"}`, `{"content":[{"type":"text","text":"21 degrees"}]}`)
		n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
			if in.User() == "How warm is it?" && in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: "raw.work", Args: object{}}}}
			}
			for _, m := range in.Messages {
				if m.Role == "tool" {
					return edge.Reply{Text: "shown: " + m.Text()}
				}
			}
			return edge.Reply{Text: "nothing is shown"}
		})})
		configure(n, setting)
		servers(n, map[string]any{"raw": map[string]any{"url": s.url, "tidy": object{"work": []object{{"by": "age", "max_age": "1ns"}}}}})
		n.Must("agents", "approve", "mcp:raw", "--yes", "--tool", "raw.*=query,noask")
		n.Serve()
		c := n.Dial()
		a := c.Turn(map[string]any{"type": "message", "content": "How warm is it?"}, nil)
		for range 2 {
			b := c.Turn(map[string]any{"type": "message", "content": "And now?", "conversation_id": a.Conversation}, nil)
			if b.Code != "" || strings.Contains(b.Text, "21 degrees") != stays || !strings.HasPrefix(b.Text, "shown: ") {
				t.Errorf("%s: %s %s", setting, b.Code, b.Text)
			}
		}
		n.Stop()
	}
}
