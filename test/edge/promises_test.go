package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/test/edge"
)

// sums is a model that calculates once and then answers. Each reply uses 105
// tokens.
func sums(in edge.Asked) edge.Reply {
	r := edge.Steps(edge.Call{Name: "math.evaluate", Args: map[string]any{"expression": "6*7"}})(in)
	r.Input = 100
	return r
}

func TestUnknownFiltersAreRefused(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	for path, code := range map[string]string{
		"/log?outcom=failure": "parameter_unknown", "/log?outcome=done": "outcome_unknown", "/log?branches=some": "branches_invalid",
		"/intents?stat=done": "parameter_unknown", "/intents?state=over": "state_invalid",
		"/search?q=a&mode=magic": "mode_unknown", "/search?q=a&role=king": "role_unknown",
		"/conversations?limit=1&limit=2": "parameter_repeated", "/agents?all=true": "parameter_unknown",
		"/resources?bodies=perhaps": "bodies_invalid", "/requests?all=yes+please": "all_invalid",
	} {
		status, b := n.HTTP(http.MethodGet, "/api/v1"+path, nil)
		if status != http.StatusBadRequest || !strings.Contains(string(b), `"code":"`+code+`"`) {
			t.Errorf("%s: %d %s, want %s", path, status, b, code)
		}
	}
	for _, args := range [][]string{{"log", "--outcome", "done"}, {"intents", "list", "--state", "over"}, {"search", "a", "--role", "king"},
		{"messages", "list", "--state", "gone"}, {"conversations", "export", "last", "--format", "xml"}, {"events", "watch", "--what", "nod"},
		{"events", "watch", "--from", "never"}, {"import", "--format", "xml", "steward.yaml"}, {"users", "add", "ann", "--role", "king"},
		{"policy", "explain", "math.add", "--point", "nowhere"}, {"policy", "explain", "math.add", "--effect", "magic"},
		{"audit", "export", "--since", "soon"}, {"resources", "list", "--since", "soon"}} {
		if r := n.Run(args...); r.Code == 0 || r.Out != "" || strings.Contains(r.Err, "unknown flag") {
			t.Errorf("steward %v: exit %d, %s%s", args, r.Code, r.Out, r.Err)
		}
	}
	n.Stop()
	if r := n.Run("log", "--outcome", "done"); r.Code == 0 {
		t.Errorf("without a server: %s%s", r.Out, r.Err)
	}
}

func TestAMessageIsFoundByTheProvidersCallID(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, sums)})
	conv := n.Ask("6*7?", nil).Conversation
	var found struct {
		Messages []struct {
			Conversation string `json:"conversation_id"`
			Role         string
			Blocks       []struct {
				CallID string `json:"call_id"`
			}
		}
	}
	n.Get("/api/v1/messages?call=call_2_0", &found)
	if m := found.Messages; len(m) != 2 || m[0].Conversation != conv || m[0].Role != "assistant" || m[0].Blocks[0].CallID != "call_2_0" ||
		m[1].Conversation != conv || m[1].Role != "tool" || m[1].Blocks[0].CallID != "call_2_0" {
		t.Fatalf("%+v", found)
	}
	if out := n.Must("messages", "show", "--call", "call_2_0"); !strings.Contains(out, "math.evaluate") || !strings.Contains(out, "42") || !strings.Contains(out, conv) {
		t.Error(out)
	}
	n.Get("/api/v1/messages?call=none", &found)
	if r := n.Run("messages", "show", "--call", "none"); len(found.Messages) != 0 || r.Code != 1 || !strings.Contains(r.Err, "call_not_found") {
		t.Errorf("%+v, %+v", found, r)
	}
	n.HTTP(http.MethodDelete, "/api/v1/conversations/"+conv, nil)
	if n.Get("/api/v1/messages?call=call_2_0", &found); len(found.Messages) != 0 {
		t.Errorf("it is deleted, and found: %+v", found)
	}
}

func TestUsageIsThatOfTheWholeTurn(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.User() == "ask" && len(in.Results()) == 0 {
			return edge.Reply{Input: 100, Calls: []edge.Call{{Name: "second.ask", Args: map[string]any{"request": "6*7?"}}}}
		}
		return sums(in)
	})})
	n.Write("name: second\ndescription: Reckons.\ntools: [math.evaluate]\n", "data", "agents", "second", "agent.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	for words, replies := range map[string]int{"6*7?": 2, "ask": 4} {
		want := fmt.Sprintf(`"usage":{"input":%d,"output":%d}`, 100*replies, 5*replies)
		end := n.Ask(words, nil)
		if last := end.Frames[len(end.Frames)-1]; last.Type != "complete" || !strings.Contains(string(last.Raw), want) {
			t.Errorf("%s: complete says %s, want %s", words, last.Raw, want)
		}
		var told struct{ Usage struct{ Input, Output int } }
		if out := n.Must("ask", "--json", words); json.Unmarshal([]byte(out), &told) != nil || told.Usage.Input != 100*replies || told.Usage.Output != 5*replies {
			t.Errorf("%s: ask says %+v", words, told)
		}
		if _, b := n.HTTP(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "agent:assistant", "messages": user(words)}); !strings.Contains(string(b),
			fmt.Sprintf(`"total_tokens":%d`, 105*replies)) {
			t.Errorf("%s: the OpenAI server says %s", words, b)
		}
		var list struct {
			Messages []struct {
				Usage struct{ Input int }
				Turn  struct{ Input int } `json:"turn_usage"`
			}
		}
		n.Get("/api/v1/conversations/"+end.Conversation+"/messages?limit=1&reverse=true", &list)
		if m := list.Messages[0]; m.Usage.Input != 100 || m.Turn.Input != 100*replies {
			t.Errorf("%s: the stored answer says %+v", words, m)
		}
	}
}

func TestMarkAndRefreshReportTheirChanges(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, sums)})
	conv := n.Ask("6*7?", nil).Conversation
	var list struct{ Messages []struct{ ID string } }
	n.Get("/api/v1/conversations/"+conv+"/messages", &list)
	call := list.Messages[1].ID
	says := func(path string, body map[string]any, want string) {
		t.Helper()
		if status, b := n.HTTP(http.MethodPost, "/api/v1/conversations/"+conv+path, body); status != http.StatusOK || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s %v: %d %s, want %s", path, body, status, b, want)
		}
	}
	says("/tidy", map[string]any{"how": "refresh"}, `{"changed":0}`)
	archive := map[string]any{"messages": []string{call}, "state": "archived"}
	says("/messages/mark", archive, `{"changed":2}`) // the call and its result
	says("/messages/mark", archive, `{"changed":0}`)
	for _, c := range []struct{ args, want string }{
		{"messages restore " + call, "active again: "}, {"messages restore " + call, "nothing has changed"},
		{"messages archive " + call, "1 other message with them"}, {"messages archive " + call, "nothing has changed"},
		{"conversations refresh", "nothing has changed"},
	} {
		if r := n.Run(strings.Fields(c.args)...); r.Code != 0 || !strings.Contains(r.Err, c.want) || strings.Contains(c.want, "nothing") != strings.Contains(r.Err, "nothing") {
			t.Errorf("steward %s: %+v, want %q", c.args, r, c.want)
		}
	}
}
