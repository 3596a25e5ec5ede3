package runtime_test

import (
	"testing"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
)

// An agent that was asked labels whoever asked it with all that it read, also
// where it answers nothing, fails, runs into a limit or is stopped.
func TestLabelsComeWithTheCallNotWithTheAnswer(t *testing.T) {
	const both = message.Private | message.Untrusted
	w, g := newLevels(t)
	bounded := agentOf("bounded", query("mail.read", "then nothing", both))
	bounded.Limits.Iterations = 1
	g.plant(bounded, agentOf("silent", query("mail.read", "then nothing", both)), agentOf("failing", query("mail.read", "then fail", both)),
		agentOf("hanging", query("mail.read", "then hang", both)), agentOf("above"), agentOf("above/silent", query("mail.read", "then nothing", both)))
	for _, name := range []string{"silent", "failing", "bounded"} {
		conv, _ := w.turn(id.ID{}, ask(name, "call mail.read {}"))
		if res := w.results(conv)[0]; !message.LabelsOf([]message.Block{res}).Has(both) {
			t.Errorf("%s answers %q with the labels %v", name, res.Text(), res.Labels)
		}
	}
	conv, _ := w.turn(id.ID{}, ask("above", ask("silent", "call mail.read {}")))
	if res := w.results(conv)[0]; !res.Labels.Has(both) {
		t.Errorf("two levels up the labels are %v", res.Labels)
	}

	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, ask("hanging", "call mail.read {}"))
	<-w.model.begun
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	if res := w.results(acc.Conversation)[0]; res.Status != message.Interrupted || !res.Labels.Has(both) {
		t.Errorf("stopped: %s with the labels %v", res.Status, res.Labels)
	}
}
