package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/store"
)

// hider hides one secret.
type hider struct{}

func (hider) Mask(s string) string        { return strings.ReplaceAll(s, "hunter22", "«secret:P»") }
func (h hider) MaskBytes(b []byte) []byte { return []byte(h.Mask(string(b))) }
func (h hider) Found(s string) []string {
	if h.Mask(s) != s {
		return []string{"P"}
	}
	return nil
}

// What a user types is hidden before it is kept or shown to a model, and he is
// told; so are the arguments and the results of tools.
func TestSecretsOfAUserAreHidden(t *testing.T) {
	w := made(t, &world{})
	w.opt.Secrets = hider{}
	w.open()
	content := []message.Block{&message.Text{Text: "say hunter22"}, &message.File{MIME: "text/plain", Name: "a", Data: []byte("hunter22")}, &message.Text{Text: "and more"}}
	acc, err := w.Send(t.Context(), "ada", runtime.Turn{ClientID: "1", Content: content})
	if err != nil || !slices.Equal(acc.Hidden, []string{"P"}) {
		t.Fatalf("%+v, %v", acc, err)
	}
	if content[0].(*message.Text).Text != "say hunter22" {
		t.Error("the caller's message was changed")
	}
	for f, err := range w.Watch(t.Context(), "ada", acc.Conversation, runtime.Cursor{}) {
		ok(t, err)
		if f.Kind == runtime.FrameComplete {
			if got := f.Stored.Text(); !strings.Contains(got, "«secret:P»") {
				t.Errorf("the model was shown %q", got)
			}
			break
		}
	}
	for it, err := range store.Items(t.Context(), w.store, store.ForUser("ada"), store.Query{}) {
		if err != nil || strings.Contains(string(it.Body), "hunter22") {
			t.Errorf("%s: %s, %v", it.URI, it.Body, err)
		}
	}
	if acc, err := w.Send(t.Context(), "ada", runtime.Turn{Conversation: acc.Conversation, Content: []message.Block{&message.Text{Text: "say no secret"}}}); err != nil || acc.Hidden != nil {
		t.Errorf("%+v, %v", acc, err)
	}
	if acc, err := w.Send(t.Context(), "ada", runtime.Turn{Conversation: id.New(), Content: []message.Block{&message.Text{Text: "say hunter22"}}}); err == nil {
		t.Errorf("a conversation that is not there: %+v", acc)
	}
}

// The head of the log is kept elsewhere from time to time, also after it
// could not be, and when the node closes.
func TestAnchors(t *testing.T) {
	w := made(t, &world{})
	var kept atomic.Int64
	often := make(chan struct{}, 100)
	w.opt.AnchorEvery = time.Millisecond
	w.opt.Anchor = func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("it may take for ever")
		}
		kept.Add(1)
		select {
		case often <- struct{}{}:
		default:
		}
		return errors.New("not there")
	}
	w.open()
	for range 3 {
		<-often
	}
	before := kept.Load()
	w.close()
	if kept.Load() <= before {
		t.Error("nothing is kept at the end")
	}
}
