package runtime_test

import (
	"context"
	"testing"
	"time"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/tool"
)

// A run that cannot go on after a restart leaves nothing behind that a later
// turn would do again: what its calls had begun is settled when it is given up.
func TestWhatARunHadBegunThatIsGivenUp(t *testing.T) {
	w := made(t, &world{judge: allows{}})
	began := make(chan struct{}, 9)
	send := newTool(tool.Spec{Name: "mail.send", Description: "It sends.", Effect: tool.Action, Timeout: time.Hour},
		func(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
			began <- struct{}{}
			<-ctx.Done() // it is sent, and the answer is not heard of
			return "", ctx.Err()
		})
	g := &grove{}
	g.plant(agentOf("post", send))
	w.opt.Catalog = g
	w.open()
	acc := w.sent(runtime.Turn{Agent: "post", Content: text(`call mail.send {}`), Attended: true})
	<-began
	w.close()
	g.plant()
	w.open()
	w.atRest(acc.Conversation)
	list := w.intents(runtime.IntentFilter{})
	if len(list) != 1 || list[0].State != intent.Unknown || !list[0].Dead {
		t.Errorf("after it was given up: %+v", list)
	}
	w.close()
	g.plant(agentOf("post", send))
	w.open()
	ok(t, second(w.Send(t.Context(), "anna", runtime.Turn{Conversation: acc.Conversation, Agent: "post", Content: text("say hello"), Attended: true})))
	w.atRest(acc.Conversation)
	if res := w.results(acc.Conversation); len(res) != 1 || res[0].Status != message.UnknownEnd {
		t.Errorf("%+v", res)
	}
	if len(began) > 0 {
		t.Error("it was sent again")
	}
	if list := w.intents(runtime.IntentFilter{}); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}
