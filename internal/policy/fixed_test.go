package policy

import (
	"context"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/tool"
)

func TestFixed(t *testing.T) {
	for _, c := range []struct {
		effect   tool.Effect
		attended bool
		want     Verdict
	}{
		{tool.Query, false, Allow},
		{tool.Query, true, Allow},
		{tool.Action, true, Ask},
		{tool.Action, false, Deny},
		{"", true, Deny},
		{"write", true, Deny},
	} {
		for _, labels := range []message.Labels{0, message.Untrusted | message.Private | message.Secret} {
			d, err := Fixed{}.Authorize(context.Background(), Question{
				Tool: tool.Spec{Name: "files.write", Effect: c.effect}, Attended: c.attended, Labels: labels})
			if err != nil || d.Verdict != c.want || d.Reason == "" || d.Rule == "" {
				t.Errorf("%q, attended %v: %+v, %v; want %s", c.effect, c.attended, d, err, c.want)
			}
		}
	}
	own, err := Fixed{}.Authorize(context.Background(), Question{Tool: tool.Spec{Name: "state.put", Effect: tool.Action, Origin: tool.OriginOwn}})
	if err != nil || own.Verdict != Allow {
		t.Errorf("an agent's own notes: %+v, %v", own, err)
	}
	d, _ := Fixed{}.Authorize(context.Background(), Question{Tool: tool.Spec{Name: "files.write", Effect: tool.Action}})
	for _, s := range []string{"files.write", "steward chat", "at a terminal"} {
		if !strings.Contains(d.Reason, s) {
			t.Errorf("%q does not tell what to do: %q is missing", d.Reason, s)
		}
	}
}
