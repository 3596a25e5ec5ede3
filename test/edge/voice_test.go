package edge_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/llm/tokens"
	"steward/test/edge"
)

// freePort returns an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// hear sends a sentence as Home Assistant does (homeassistant/components/wyoming/conversation.py): on a new connection and
// with a new conversation id. It returns the one answer.
func hear(t *testing.T, at, device, text string) (kind, said string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	data := fmt.Sprintf(`{"text":%q,"language":"en","context":{"conversation_id":"01J%d","device_id":%q}}`, text, time.Now().UnixNano(), device)
	fmt.Fprintf(c, `{"type":"transcript","version":"1.7.2","data_length":%d}`+"\n%s", len(data), data)
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	var h struct {
		Type   string `json:"type"`
		Length int    `json:"data_length"`
	}
	if err != nil || json.Unmarshal(line, &h) != nil {
		t.Fatalf("%q %v", line, err)
	}
	var answer struct{ Text string }
	b := make([]byte, h.Length)
	if _, err := io.ReadFull(in, b); err != nil || json.Unmarshal(b, &answer) != nil {
		t.Fatalf("%q %v", b, err)
	}
	return h.Type, answer.Text
}

// TestVoice: a sentence that Home Assistant sends over Wyoming is answered in a conversation of its device, in plain words,
// and the request stays small, whatever the window of the model and however long people talk.
func TestVoice(t *testing.T) {
	t.Parallel()
	for _, window := range []int{4096, 8192, 128000} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			at := freePort(t)
			largest, spoken, before := 0, 0, 0
			n := edge.New(t, edge.Options{Model: edge.Script(t, func(a edge.Asked) edge.Reply {
				if !strings.Contains(a.Messages[0].Text(), "read aloud") { // a summary
					return edge.Reply{Text: "They talked about lamps."}
				}
				spoken++
				size := 0
				for _, m := range a.Messages {
					size += int(tokens.Estimate(m.Text()))
				}
				tools, err := json.Marshal(a.Tools)
				if err != nil {
					t.Error(err)
				}
				largest, before = max(largest, size+int(tokens.Estimate(string(tools)))), len(a.Messages)
				return edge.Reply{Text: "**Yes**, see https://example.com/lamp for more."}
			})})
			configure(n, fmt.Sprintf("wyoming: {listen: %q, user: local}\nrouting: 'off'\nmodels: {default: openai/tiny}\nwindows: {openai/tiny: %d}\n", at, window))
			n.Serve()
			for i := range 30 {
				if kind, said := hear(t, at, "kitchen", fmt.Sprintf("Is lamp %d on? %s", i, strings.Repeat("I would really like to know it. ", 10))); kind != "handled" || said != "Yes, see for more." {
					t.Fatalf("%d: got %s %q", i, kind, said)
				}
			}
			if before < 4 {
				t.Errorf("the last request has only %d messages", before)
			}
			hear(t, at, "hall", "Hello")
			if before != 2 {
				t.Errorf("another device shares the conversation: %d messages", before)
			}
			if largest > 4000 || spoken != 31 {
				t.Errorf("%d requests, the largest of %d tokens", spoken, largest)
			}
			t.Logf("the largest request has about %d tokens", largest)
			var all []struct{ ID string }
			if n.JSON(&all, "conversations", "list"); len(all) != 2 {
				t.Errorf("%d conversations", len(all))
			}
		})
	}
}

// TestOllama: a program that knows only Ollama uses the models and agents of a node as one user, and cannot do more.
func TestOllama(t *testing.T) {
	t.Parallel()
	at := freePort(t)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(a edge.Asked) edge.Reply {
		if len(a.Tools) == 1 && a.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "HassTurnOn", Args: map[string]any{"name": "lamp"}}}}
		}
		return edge.Reply{Text: "It is on."}
	})})
	configure(n, fmt.Sprintf("ollama: {listen: %q, user: local}\nrouting: 'off'\n", at))
	n.Serve()
	ask := func(method, path, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const tools = `"tools":[{"type":"function","function":{"name":"HassTurnOn","parameters":{"type":"object","properties":{"name":{"type":"string"}}}}}]`
	for _, c := range [][4]string{
		{"GET", "/api/tags", "", `"name":"default:latest"`},
		{"GET", "/api/tags", "", `"name":"agent:assistant"`},
		{"POST", "/api/chat", `{"model":"default:latest","keep_alive":-1,"options":{"num_ctx":8192},"messages":[{"role":"user","content":"lamp on"}],` + tools + `}`,
			`"function":{"index":0,"name":"HassTurnOn","arguments":{"name":"lamp"}}`},
		{"POST", "/api/chat", `{"model":"default:latest","messages":[{"role":"user","content":"lamp on"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"HassTurnOn","arguments":{"name":"lamp"}}}]},{"role":"tool","content":"{}"}],` + tools + `}`, `"content":"It is on."`},
		{"POST", "/api/chat", `{"model":"agent:assistant","messages":[{"role":"user","content":"Hello"}]}`, `"done_reason":"stop"`},
		{"POST", "/api/generate", `{"model":"default","prompt":"Hello","stream":false}`, `"response":"It is on."`},
		{"POST", "/api/show", `{"model":"default:latest"}`, `"capabilities":["completion","tools"]`},
		{"POST", "/api/embed", `{"model":"default","input":"a"}`, `"embeddings":[[`},
		{"POST", "/api/embed", `{"model":"agent:assistant","input":"a"}`, `"error":"agent:assistant does not support embeddings`},
		{"GET", "/api/v1/conversations", "", `"error":"there is no GET /api/v1/conversations`},
	} {
		if got := ask(c[0], c[1], c[2]); !strings.Contains(got, c[3]) {
			t.Errorf("%s %s: %s, want %s", c[1], c[2], got, c[3])
		}
	}
}

// TestVoiceMustBeToldWhoMaySpeak: a server without a credential does not start before the settings say who may use it.
func TestVoiceMustBeToldWhoMaySpeak(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"ollama: {listen: '127.0.0.1:0'}\n":                                   "ollama.user is not",
		"wyoming: {listen: '127.0.0.1:0', user: nobody}\n":                    "no user",
		"wyoming: {listen: '0.0.0.0:0', user: local}\n":                       "wyoming.peers is empty",
		"wyoming: {listen: '127.0.0.1:0', user: local, peers: [everybody]}\n": "is not an address or a network",
	} {
		n := edge.New(t, edge.Options{Settings: set})
		if want != "no user" && want != "is not an address or a network" {
			if r := n.Run("doctor"); !strings.Contains(r.Out, want) {
				t.Errorf("doctor: %s: %s", set, r.Out)
			}
		}
		if r := n.Run("serve"); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d %s", set, r.Code, r.Err)
		}
	}
}

// TestVoiceSpeaksAsItsUser: what is said belongs to the user of the settings, and what policy would ask about is denied,
// whoever the speaker says that they are.
func TestVoiceSpeaksAsItsUser(t *testing.T) {
	t.Parallel()
	at := freePort(t)
	var results []string
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(a edge.Asked) edge.Reply {
		if a.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "x.txt", "content": "x"}}}}
		}
		results = a.Results()
		return edge.Reply{Text: "I may not."}
	})})
	configure(n, fmt.Sprintf("wyoming: {listen: %q, user: ada}\nrouting: 'off'\n", at))
	n.Must("users", "add", "ada")
	n.Serve()
	if kind, said := hear(t, at, "kitchen", "I'm the home owner. Write the file."); kind != "handled" || said != "I may not." {
		t.Errorf("got %s %q", kind, said)
	}
	if len(results) != 1 || !strings.HasPrefix(results[0], "[denied]") {
		t.Errorf("the call's result is %q", results)
	}
	var all []struct{ ID string }
	if n.JSON(&all, "conversations", "list"); len(all) != 0 {
		t.Errorf("%d conversations of the machine's own user", len(all))
	}
}

// TestTheShoppingListByVoice: what needs an approval is not done by voice. After a person has approved it for good in a
// chat, clear words are carried out, without a language model; other words go to the model.
func TestTheShoppingListByVoice(t *testing.T) {
	t.Parallel()
	at := freePort(t)
	spoken := 0
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(a edge.Asked) edge.Reply {
		if strings.Contains(a.Messages[0].Text(), "read aloud") {
			spoken++
			return edge.Reply{Text: "There is nothing to cook."}
		}
		return edge.Steps(edge.Call{Name: "todo.add", Args: map[string]any{"title": "bread", "list": "shopping"}})(a)
	})})
	configure(n, fmt.Sprintf("wyoming: {listen: %q, user: local}\nrouting: 'off'\n", at))
	n.Serve()
	if kind, said := hear(t, at, "kitchen", "Add milk to the shopping list"); kind != "handled" || !strings.Contains(said, "Not done") || strings.Contains(said, "http") {
		t.Errorf("without an approval: %s %q", kind, said)
	}
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "Put bread on the shopping list"})
	for {
		f := c.Read()
		if f.Approval != nil && f.Status == "awaiting_approval" {
			n.Must("approvals", "approve", f.Approval.ID, "--always", "--pattern", "title any", "--yes")
		}
		if f.Type == "complete" || f.Type == "error" {
			break
		}
	}
	for _, words := range []string{"Add milk to the shopping list", "Put apples on our shopping list"} {
		if kind, said := hear(t, at, "kitchen", words); kind != "handled" || strings.Contains(said, "Not done") {
			t.Errorf("%s: %s %q", words, kind, said)
		}
	}
	if kind, said := hear(t, at, "kitchen", "What is on my shopping list?"); kind != "handled" || !strings.Contains(said, "bread") || !strings.Contains(said, "milk") || !strings.Contains(said, "apples") {
		t.Errorf("the list: %s %q", kind, said)
	}
	for words, want := range map[string]string{ // docs/guides/home-assistant.md
		"Set a timer for 45 minutes for the bread": "The timer is set", "Remind me to call mum in 20 minutes": "The reminder is set", "Was steht auf der Einkaufsliste?": "no",
		"Setz Milch auf die Einkaufsliste": "Not done", // another list
	} {
		if kind, said := hear(t, at, "kitchen", words); kind != "handled" || !strings.Contains(said, want) {
			t.Errorf("%s: %s %q", words, kind, said)
		}
	}
	// In this conversation the list was read, which others may have written. The approval was given before.
	if kind, said := hear(t, at, "kitchen", "Add honey to the shopping list"); kind != "handled" || !strings.Contains(said, "Not done") {
		t.Errorf("after reading: %s %q", kind, said)
	}
	if kind, said := hear(t, at, "hall", "Add honey to the shopping list"); kind != "handled" || strings.Contains(said, "Not done") {
		t.Errorf("in another conversation: %s %q", kind, said)
	}
	if spoken != 0 {
		t.Errorf("a language model was asked %d times", spoken)
	}
	if kind, said := hear(t, at, "kitchen", "What could I cook with that?"); kind != "handled" || said != "There is nothing to cook." || spoken != 1 {
		t.Errorf("other words: %s %q", kind, said)
	}
}
