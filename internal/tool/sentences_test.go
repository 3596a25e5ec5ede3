package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/tool"
)

// TestNoApprovalCoversSentences: what was approved stays approved when Steward learns to be asked in other
// words, and no model is shown them.
func TestNoApprovalCoversSentences(t *testing.T) {
	bare := tool.Spec{Name: "lamp.on", Description: "Turns on the lamp.", Effect: tool.Action, Input: []byte(`{"type":"object"}`), Origin: "domain:lamp"}
	said := bare
	said.Sentences = []string{"turn on the lamp"}
	if tool.Fingerprint(bare) != tool.Fingerprint(said) || tool.Identity(bare) != tool.Identity(said) {
		t.Error("sentences change what was approved")
	}
	stored, err := json.Marshal(said)
	if err != nil || strings.Contains(string(stored)+string(tool.OpenAIFunction(said)), "turn on") {
		t.Errorf("sentences are stored or shown: %s, %v", stored, err)
	}
}
