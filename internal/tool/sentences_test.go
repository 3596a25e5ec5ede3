package tool_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

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

// A time stands in a sentence as a person writes it, in their zone, and what is no time as it is.
func TestTimesInSentences(t *testing.T) {
	here := time.FixedZone("here", 3600)
	for _, c := range []struct{ given, known, unknown string }{
		{"2026-11-29T09:00:00+01:00", "Sun 29 Nov 2026 09:00", "Sun 29 Nov 2026 09:00 +01:00"},
		{"2026-11-29T23:00:00Z", "Mon 30 Nov 2026 00:00", "Sun 29 Nov 2026 23:00 UTC"},
		{"2026-11-29T09:00:30-05:30", "Sun 29 Nov 2026 15:30:30", "Sun 29 Nov 2026 09:00:30 -05:30"},
		{"2026-11-29T09:00", "Sun 29 Nov 2026 09:00", "Sun 29 Nov 2026 09:00"},
		{"2026-11-29T09:00:00", "Sun 29 Nov 2026 09:00", "Sun 29 Nov 2026 09:00"},
		{"2026-11-29", "Sun 29 Nov 2026", "Sun 29 Nov 2026"},
		{"2026-11-29T09:00:00.5Z", "2026-11-29T09:00:00.5Z", "2026-11-29T09:00:00.5Z"},
		{"09:00", "09:00", "09:00"},
		{"tomorrow", "tomorrow", "tomorrow"},
	} {
		for _, in := range []struct {
			zone *time.Location
			want string
		}{{here, c.known}, {nil, c.unknown}} {
			s := tool.FillTemplate("At {at:time}", map[string]any{"at": c.given}, in.zone, func(v any) (string, bool) { return v.(string), true })
			if s.Text != "At "+in.want || !slices.Equal(s.Whole, []string{"at"}) {
				t.Errorf("%s: %q, whole %v; want %q", c.given, s.Text, s.Whole, in.want)
			}
		}
	}
}
