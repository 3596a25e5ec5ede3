package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy/rego"
)

// Content goes only to the models that policy allows.
func TestModelGate(t *testing.T) {
	dir := t.TempDir()
	rules := "package steward\n\n" + `stays_local contains "private"

deny contains "not by this agent" if {
	input.point == "model"
	input.agent == "gossip"
}

ask contains "a person would have to say" if {
	input.point == "model"
	input.model.name == "odd"
}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "house.rego"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := rego.Open(rego.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Settings: map[string]any{"approve": "actions"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	local := func(model string) bool { return strings.HasPrefix(model, "ollama/") }
	gate := ModelGate(j, local)
	for _, c := range []struct {
		model string
		r     llm.Request
		says  string
	}{
		{"openai/gpt", llm.Request{User: "anna"}, ""},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Untrusted}, ""},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Private}, "what is private stays here"},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Secret}, "what is secret stays here"},
		{"ollama/llama", llm.Request{User: "anna", Labels: message.Private | message.Secret}, ""},
		{"ollama/llama", llm.Request{User: "anna", Agent: "gossip"}, "not by this agent"},
		{"ollama/llama", llm.Request{User: "anna", Agent: "poet", Lineage: []string{"gossip"}}, "not by this agent"},
		{"ollama/odd", llm.Request{User: "anna"}, "a person would have to say"},
	} {
		err := gate(t.Context(), c.model, &c.r)
		if c.says == "" && err == nil {
			continue
		}
		if c.says == "" || !fault.HasCode(err, "model_not_allowed") || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "steward policy show") {
			t.Errorf("%s %+v: %v", c.model, c.r, err)
		}
	}
}
