package tool_test

import (
	"slices"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

const both = message.Private | message.Untrusted

func TestDeclare(t *testing.T) {
	byTool := map[string]any{"search*": []any{"untrusted"}, "*": []any{"private"}, "search_mail": []string{"private", "untrusted"}}
	for _, c := range []struct {
		yields, reach any
		name          string
		labels        string
		said          tool.Reach
	}{
		{[]any{"private"}, "here", "x", "private", tool.ReachHere},
		{&[]string{}, tool.ReachOut, "x", "", tool.ReachOut},
		{byTool, map[string]any{"get": "here"}, "get", "private", tool.ReachHere},
		{byTool, map[string]string{"get": "here"}, "search_web", "untrusted", ""},
		{byTool, nil, "search_mail", "private,untrusted", ""},
		{map[string][]string{"a": {"secret"}}, nil, "b", "none", ""},
		{nil, nil, "x", "none", ""},
	} {
		d, err := tool.Declare(c.yields, c.reach, map[string][]string{"get": {"id"}}, c.name)
		got := "none"
		if d.Yields != nil {
			got = d.Yields.String()
		}
		if err != nil || got != c.labels || d.Reach != c.said || (d.Targets != nil) != (c.name == "get") {
			t.Errorf("%+v: %q %q %v, %v", c, got, d.Reach, d.Targets, err)
		}
	}
	for _, c := range []struct {
		yields, reach any
		code          string
	}{
		{[]any{"public"}, nil, "tool_yields_invalid"}, {"private", nil, "tool_yields_invalid"}, {[]any{1}, nil, "tool_yields_invalid"},
		{map[string]any{"x": "private"}, nil, "tool_yields_invalid"}, {nil, "far", "tool_reach_invalid"}, {nil, map[string]any{"x": 1}, "tool_reach_invalid"},
	} {
		if _, err := tool.Declare(c.yields, c.reach, nil, "y"); !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Proposals depend on a tool's name and schema, and not on a server's description.
func TestProposedFlows(t *testing.T) {
	for _, c := range []struct {
		name    string
		effect  tool.Effect
		input   string
		yields  message.Labels
		targets []string
	}{
		{"search.web", tool.Query, `{"properties":{"query":{}}}`, message.Untrusted, []string{}},
		{"search.page", tool.Query, `{"properties":{"url":{},"q":{}}}`, message.Untrusted, []string{"url"}},
		{"shop.search_products", tool.Query, `{}`, message.Untrusted, []string{}},
		{"shop.list_orders", tool.Query, `{}`, both, []string{}},
		{"weather.set_home", tool.Action, `{"properties":{"place":{}}}`, both, nil},
		{"mail.search", tool.Query, `{"properties":{"to":{}}}`, both, []string{}},
		{"mail.send", tool.Action, `{"properties":{"to":{},"bcc":{},"body":{},"reply":{"format":"email"}}}`, both, []string{"bcc", "reply", "to"}},
		{"odd.thing", tool.Query, `{"properties":{"place":{"format":"uri"}}}`, both, []string{"place"}},
		{"odd.broken", tool.Query, `{`, both, nil},
	} {
		s := tool.Spec{Name: c.name, Effect: c.effect, Input: []byte(c.input), Origin: "mcp:x", Description: "Public data. yields: nothing. It stays here."}
		s.Flows(tool.Declared{}, false)
		if s.Yields != c.yields || !s.Out() || !slices.Equal(s.Targets, c.targets) || (s.Targets == nil) != (c.targets == nil) {
			t.Errorf("%s: %v %v %v", c.name, s.Yields, s.Reach, s.Targets)
		}
		s.Flows(tool.Declared{}, true)
		if s.Out() {
			t.Errorf("%s leaves a program that has no network", c.name)
		}
	}
	none := message.Labels(0)
	s := tool.Spec{Name: "mail.read", Effect: tool.Query, Input: []byte(`{}`), Origin: "mcp:mail"}
	s.Flows(tool.Declared{Yields: &none, Reach: tool.ReachHere, Targets: []string{"id"}}, false)
	if s.Yields != 0 || s.Out() || s.Targets[0] != "id" {
		t.Errorf("what is declared counts: %+v", s)
	}
	for name, want := range map[string]string{"mail.read": "mail", "files.read": "files", "conversation.search": "", "helper.ask": ""} {
		origin := map[string]string{"mail.read": "mcp:mail", "helper.ask": "agent:helper"}[name]
		if got := (tool.Spec{Name: name, Origin: origin}).Source(); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
