package edge_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// TestShortURIs: a URI that is written as resources put accepts it means the same resource wherever one is taken.
func TestShortURIs(t *testing.T) {
	n := edge.Serve(t, edge.Options{})
	n.Must("resources", "put", "cld:home.Lamp.b", "--body", `{"on":true}`)
	n.Must("events", "publish", "cld:home.Lamp.b", "--body", `{"on":false}`)
	n.Must("resources", "put", "cld:home.Lamp.bb", "--body", `{"on":true}`)
	n.Must("resources", "put", "cld:home.Lamp.b", "--body", `{"on":false}`)
	const whole = "cld:identity.User.local/home.Lamp.b"
	watch := func() {
		t.Helper()
		for _, prefix := range []string{"cld:home.Lamp.b", whole} {
			out := n.Must("events", "watch", "--quiet", "--json", "--prefix", prefix, "--from", "start", "--limit", "3")
			if strings.Count(out, `"uri":"`+whole+`"`) != 4 || strings.Count(out, `"published":true`) != 1 || strings.Contains(out, "Lamp.bb") { // each entry and its resource
				t.Errorf("%s: %s", prefix, out)
			}
		}
	}
	watch()
	ws := n.Dial()
	ws.Send(map[string]any{"type": "subscribe", "id": "1", "prefixes": []string{"cld:home.Lamp.b"}, "cursor": "start"})
	for seen := 0; seen < 3; {
		var f struct{ Events []json.RawMessage }
		if frame := ws.Read(); json.Unmarshal(frame.Raw, &f) != nil || frame.Type == "error" {
			t.Fatalf("%s", frame.Raw)
		}
		seen += len(f.Events)
	}
	ws.Close()
	if out := n.Must("resources", "list", "--under", "cld:home.Lamp.b", "--json"); strings.Count(out, whole) != 1 {
		t.Errorf("the list: %s", out)
	}
	if status, out := n.HTTP("GET", "/api/v1/audit/export?under=cld:home.Lamp.b", nil); status != 200 || !strings.Contains(string(out), whole) {
		t.Errorf("the trail: %d %s", status, out)
	}
	n.Stop()
	watch()
	if out := n.Must("audit", "export", "--under", "cld:home.Lamp.b"); !strings.Contains(out, whole) {
		t.Errorf("the trail: %s", out)
	}
}

// TestListAssistants: each of the four texts of an agent is in its own field.
func TestListAssistants(t *testing.T) {
	n := edge.New(t, edge.Options{})
	n.Write("name: lamps\ndescription: Switches lamps.\nmetadata:\n  purpose: Light\n  instructions: Ask which\n  applicability: At night\n  evaluation: It is bright\n", "data", "agents", "lamps", "agent.yaml")
	n.Write("name: doors\ndescription: Opens doors.\n", "data", "agents", "doors", "agent.yaml")
	n.Serve()
	n.Must("agents", "approve", "--all", "--yes")
	status, answer := n.HTTP("POST", "/assistant.Assistant/ListAssistants", object{})
	var got struct {
		Assistants []struct {
			Path string
			Meta struct{ URI, Purpose, Instructions, Applicability, Evaluation string }
		}
	}
	if status != 200 || json.Unmarshal(answer, &got) != nil {
		t.Fatalf("%d: %s", status, answer)
	}
	seen := 0
	for _, a := range got.Assistants {
		m := a.Meta
		switch a.Path {
		case "lamps":
			seen++
			if m.Purpose != "Light" || m.Instructions != "Ask which" || m.Applicability != "At night" || m.Evaluation != "It is bright" || m.URI != "cld:agent.Agent.lamps" {
				t.Errorf("%+v", a)
			}
		case "doors":
			seen++
			if m.Purpose != "Opens doors." || m.Instructions != "" {
				t.Errorf("%+v", a)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%s", answer)
	}
}

// TestReplacedKeys: a provider's key that is replaced while Steward runs is used, wherever it comes from.
func TestReplacedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		settings string
		refuses  bool // the former key
	}{
		"file":           {"providers: {openai: {key: 'file:KEYFILE'}}\n", false},
		"key_file":       {"providers: {openai: {key_file: KEYFILE}}\n", false},
		"store":          {"providers: {openai: {key: 'store:VENDOR'}}\n", false},
		"command":        {"providers: {openai: {key: 'command:cat KEYFILE'}}\n", true},
		"file, refused":  {"providers: {openai: {key: 'file:KEYFILE'}}\n", true},
		"store, refused": {"providers: {openai: {key: 'store:VENDOR'}}\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var takes, last atomic.Value
			script := edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "hello"} })
			n := edge.New(t, edge.Options{Model: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				last.Store(r.Header.Get("Authorization"))
				if key := takes.Load(); c.refuses && r.Header.Get("Authorization") != key {
					w.WriteHeader(http.StatusUnauthorized)
					io.WriteString(w, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`) //nolint:errcheck // the caller may be gone
					return
				}
				script.ServeHTTP(w, r)
			})})
			n.Env = slices.DeleteFunc(n.Env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_API_KEY=") })
			replace := func(key string) {
				t.Helper()
				takes.Store("Bearer " + key)
				n.Write(key+"\n", "vendor.key")
				n.RunIn(key, "secrets", "set", "VENDOR")
			}
			replace("sk-first-first")
			n.Write(strings.ReplaceAll(c.settings, "KEYFILE", n.Dir+"/vendor.key"), ".config", "steward", "steward.yaml")
			n.Serve()
			ask := func(key string) {
				t.Helper()
				if out := n.Must("ask", "-q", "Hi"); !strings.Contains(out, "hello") || last.Load() != "Bearer "+key {
					t.Errorf("%s: %s, %v", key, out, last.Load())
				}
			}
			ask("sk-first-first")
			replace("sk-second-second")
			ask("sk-second-second")
		})
	}
}

// TestLogLines: what libraries log has the format of the log.
func TestLogLines(t *testing.T) {
	n := edge.Serve(t, edge.Options{Settings: "log: {format: json, level: debug}\n", Model: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// An answer that nobody asked for follows on the same connection: the standard library logs that.
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 500 Broken\r\n\r\nunasked") //nolint:errcheck // the caller may be gone
		rw.Flush()                                                                                                                           //nolint:errcheck
		c.Close()                                                                                                                            //nolint:errcheck
	})})
	n.Run("ask", "-q", "Hi")
	n.Until("the library logs", func() bool { return strings.Contains(n.Log(), "Unsolicited response") })
	n.Stop()
	for line := range strings.Lines(n.Log()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q", line)
		}
	}
}

// TestConvertThereAndBack: a conversation comes back from another form as it was, or the notes say what is not.
func TestConvertThereAndBack(t *testing.T) {
	n := edge.Serve(t, edge.Options{})
	type answer struct {
		System   string
		Messages json.RawMessage
		Notes    []string
	}
	convert := func(doc []byte, from, to string) (raw []byte, a answer) {
		t.Helper()
		status, raw := n.HTTP("POST", "/api/v1/convert?from="+from+"&to="+to, json.RawMessage(doc))
		if status != 200 || json.Unmarshal(raw, &a) != nil {
			t.Fatalf("%d: %s", status, raw)
		}
		return raw, a
	}
	raw, there := convert([]byte(`{"messages":[{"role":"system","content":"Be brief."},{"role":"user","name":"ann","content":"Look"},
		{"role":"assistant","tool_calls":[{"id":"call_9","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_9","content":"seen"}]}`), "openai", "anthropic")
	if there.System != "Be brief." || strings.Contains(string(there.Messages), "brief") || strings.Count(string(there.Messages), `"call_9"`) != 2 || !strings.Contains(strings.Join(there.Notes, "|"), `"name" of a message`) {
		t.Errorf("%s", raw)
	}
	if raw, back := convert(raw, "anthropic", "openai"); !strings.Contains(string(back.Messages), `{"role":"system","content":"Be brief."}`) || strings.Count(string(back.Messages), `"call_9"`) != 2 || len(back.Notes) > 0 {
		t.Errorf("%s", raw)
	}
	raw, _ = convert([]byte(`{"system_instruction":{"parts":[{"text":"Be brief."}]},"contents":[{"parts":[{"text":"Look"}]}]}`), "gemini", "openai")
	if !strings.Contains(string(raw), `{"role":"system","content":"Be brief."},{"role":"user","content":"Look"}`) {
		t.Errorf("%s", raw)
	}
}
