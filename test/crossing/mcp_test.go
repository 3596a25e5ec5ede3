package crossing

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// viaMCP is the method of a step that is a request over MCP: its path is the method of the protocol, its body the
// parameters.
const viaMCP = "MCP"

func overMCP(method, params string) step { return step{method: viaMCP, path: method, body: params} }

// mcp makes a request in a session of its own.
func (w *world) mcp(user string, s step) answer {
	w.T.Helper()
	session := ""
	post := func(method, more string) string {
		r, err := http.NewRequest(http.MethodPost, w.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","method":"`+method+`"`+more+`}`))
		if err != nil {
			w.T.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + w.secrets[user], "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			w.T.Fatal(err)
		}
		defer res.Body.Close()
		if session == "" {
			session = res.Header.Get("Mcp-Session-Id")
		}
		var last string
		lines := bufio.NewScanner(res.Body)
		for lines.Buffer(nil, 64<<20); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				last = text
			}
		}
		return last
	}
	post("initialize", `,"id":1,"params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"crossing","version":"1"}}`)
	post("notifications/initialized", "")
	body := post(s.path, `,"id":2,"params":`+s.body)
	var e struct {
		Error *struct {
			Code int
			Data struct{ Code string }
		}
		Result struct {
			IsError bool
			Meta    map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		w.T.Fatalf("%s: %q: %v", s, body, err)
	}
	a := answer{body: body}
	switch {
	case e.Error != nil && e.Error.Data.Code != "":
		a.code = e.Error.Data.Code
	case e.Error != nil:
		a.code = fmt.Sprint(e.Error.Code)
	case e.Result.IsError:
		a.code = fmt.Sprint(e.Result.Meta["steward/error"])
	}
	return a
}

func mcpMethods() []entry {
	return []entry{
		{route: "tools/list", want: own, calls: to(overMCP("tools/list", `{}`)), open: "the tools are the node's"},
		{route: "tools/call", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{overMCP("tools/call", `{"name":"conversation__search","arguments":{"query":"`+bait+`"}}`),
				overMCP("tools/call", `{"name":"ask_assistant","arguments":{"message":"go on","conversation":"`+x.Conv+`"}}`)}
		}},
		{route: "resources/list", want: own, calls: to(overMCP("resources/list", `{}`))},
		{route: "resources/read", want: []string{"-32602"}, calls: func(x things) []step {
			return []step{overMCP("resources/read", `{"uri":"`+x.Note+`"}`), overMCP("resources/read", `{"uri":"cld:common.Conversation.`+x.Conv+`"}`)}
		}, shared: func(x things) []step { return []step{overMCP("resources/read", `{"uri":"`+x.Shared+`"}`)} }},
		{route: "resources/templates/list", want: own, calls: to(overMCP("resources/templates/list", `{}`)), open: "the templates are the same for everybody"},
		{route: "resources/subscribe", want: own, calls: func(x things) []step { return []step{overMCP("resources/subscribe", `{"uri":"`+x.Note+`"}`)} },
			open: "it answers nothing, and what it reports later is event.Event.Subscribe's"},
		{route: "resources/unsubscribe", want: own, calls: func(x things) []step { return []step{overMCP("resources/unsubscribe", `{"uri":"`+x.Note+`"}`)} },
			open: "it answers nothing"},
		{route: "prompts/list", want: own, calls: to(overMCP("prompts/list", `{}`)), open: "the agents are the node's"},
		{route: "prompts/get", want: own, calls: to(overMCP("prompts/get", `{"name":"ask_assistant","arguments":{"message":"Hello"}}`)), open: "it contains what is sent"},
		{route: "completion/complete", want: own, calls: to(overMCP("completion/complete", `{"ref":{"type":"ref/resource","uri":"cld:home.Note.{name}"},"argument":{"name":"name","value":""}}`))},
	}
}
