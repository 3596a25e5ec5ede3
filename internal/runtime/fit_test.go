package runtime_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/turn"
)

// A turn with many calls needs far more than the window. It is fitted more than
// once while it runs, and completes. Each request fits and is a valid history,
// and is the same after a restart.
func TestFittingDuringATurn(t *testing.T) {
	w := newTight(t, 5000, true)
	w.answered("hello", "ok")
	f, told := w.do("work 18")
	if f.Kind != turn.FrameComplete || f.Stored.Text() != "ok" {
		t.Fatalf("%+v", f)
	}
	if len(told) < 2 {
		t.Errorf("%d notices", len(told))
	}
	for i, msgs := range w.model.asked {
		if w.model.sizes[i] > w.model.takes {
			t.Errorf("request %d has %d tokens", i, w.model.sizes[i])
		}
		if err := message.CheckView(msgs); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	all := w.all()
	if len(all) != 2+2+2*18 {
		t.Errorf("%d messages are stored", len(all))
	}
	for i, m := range all {
		if r := m.Result(); r != nil && !strings.HasPrefix(r.Text(), fmt.Sprintf("result %d: so it goes", i/2-1)) {
			t.Errorf("message %d says %.40q", i, r.Text())
		}
	}
	if b := w.branch(); b.View.Revision < 2 || b.View.Summary == "" || len(b.View.Keep) == 0 {
		t.Errorf("%+v", b.View)
	}
	last := w.model.asked[len(w.model.asked)-1]
	w.reopen()
	w.answered("hello", "ok")
	again := w.model.asked[len(w.model.asked)-1]
	if a, b := encoded(last), encoded(again[:len(last)]); !slices.Equal(a, b) {
		t.Errorf("after a restart the model is shown\n%s\nbefore it was\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
}

// A provider that refuses a request as too long teaches the window: the turn
// succeeds, and later turns are fitted before they are sent.
func TestRefusalTeachesTheWindow(t *testing.T) {
	w := newTight(t, 5000, false)
	for range 2 {
		if f, _ := w.do("work 12"); f.Kind != turn.FrameComplete {
			t.Fatalf("%+v", f.Err)
		}
	}
	n := w.models.Window([]string{"test/m"})
	if n == 0 || int64(n) > w.model.takes+500 {
		t.Errorf("the window is taken for %d", n)
	}
	if w.model.refused == 0 || w.model.refused > 2 {
		t.Errorf("%d requests were refused", w.model.refused)
	}
	// A single message that is too long cannot be fitted.
	f, _ := w.do(strings.Repeat("very long ", 5000))
	if f.Kind != turn.FrameError || f.Err.Code != "context_too_long" {
		t.Errorf("%+v", f)
	}
	ok(t, second(w.Remove(t.Context(), "anna", w.conv, w.all()[len(w.all())-1].ID)))
	w.answered("hello", "ok")
}

// The conversation's own window takes precedence over the model's.
func TestWindowOfTheConversation(t *testing.T) {
	w := newTight(t, 100_000, true)
	w.answered("work 3", "ok")
	if b := w.branch(); b.View.Revision != 0 {
		t.Fatalf("%+v", b.View)
	}
	w.close()
	ok(t, second(w.engine().Update(t.Context(), store.ForUser("anna"), w.conv, func(c *record.Conversation) { c.Window = 3000 })))
	w.open()
	w.answered("hello", "ok")
	if b := w.branch(); b.View.Revision == 0 || w.model.sizes[len(w.model.sizes)-1] > 3000 {
		t.Errorf("%+v, %d tokens", b.View, w.model.sizes[len(w.model.sizes)-1])
	}
}

// The fast model writes the summary. If it cannot be used, a list takes its
// place, and the reason is logged.
func TestSummaries(t *testing.T) {
	gone := fault.New(fault.Unavailable, "provider_error", "gone")
	for name, c := range map[string]struct {
		write  func(string) (*llm.Reply, error)
		want   string
		logged string
	}{
		"written":   {func(m string) (*llm.Reply, error) { return notes("THE NOTES", message.StopEnd) }, "THE NOTES", ""},
		"too long":  {func(string) (*llm.Reply, error) { return notes(strings.Repeat("blah ", 3000), message.StopEnd) }, "- Called data.get", "the summary has"},
		"cut off":   {func(string) (*llm.Reply, error) { return notes("THE NO", message.StopLength) }, "- Called data.get", "was cut off by its length"},
		"empty":     {func(string) (*llm.Reply, error) { return notes(" \n", message.StopEnd) }, "- Called data.get", "answered nothing"},
		"failing":   {func(string) (*llm.Reply, error) { return nil, gone }, "- Called data.get", "gone"},
		"never end": {func(string) (*llm.Reply, error) { return nil, nil }, "- Called data.get", "without its end mark"},
		"none":      {nil, "- Called data.get", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTight(t, 20_000, true)
			w.close()
			w.writes(c.write)
			w.open()
			w.answered("work 16", "ok")
			w.answered("hello", "ok")
			ok(t, second(w.Tidy(t.Context(), "anna", w.conv, runtime.TidyCompact, nil)))
			w.answered("hello again", "ok")
			first := w.model.asked[len(w.model.asked)-1][0]
			if !strings.Contains(first.Text(), c.want) || !strings.HasPrefix(first.Text(), "[Earlier messages are not shown") {
				t.Errorf("the model is shown %q", first.Text())
			}
			if logged := w.log.String(); c.logged == "" && strings.Contains(logged, "summary") || !strings.Contains(logged, c.logged) {
				t.Errorf("logged: %s", logged)
			}
			if c.write == nil {
				return
			}
			if slices.ContainsFunc(w.model.writers, func(agent string) bool { return agent != "assistant" }) {
				t.Errorf("they were written for %q: policy is asked for whom", w.model.writers)
			}
			told := strings.Join(w.model.material, "\n")
			for _, want := range []string{"USER: work 16", `CALL data.get {"n":1}`, "RESULT of data.get (ok): result 1"} {
				if !strings.Contains(told, want) {
					t.Errorf("the material lacks %q", want)
				}
			}
			// Its usage is recorded for the user.
			var used int64
			for u, err := range w.engine().Usage(t.Context(), store.ForNode(resource.System), time.Now().Add(-time.Hour)) {
				ok(t, err)
				if u.Model == "test/fast" && u.User == "anna" {
					used += u.Usage.Input
				}
			}
			if reply, err := c.write(""); err == nil && reply != nil && name != "empty" && used != 70*int64(len(w.model.material)) {
				t.Errorf("%d tokens are counted for %d calls", used, len(w.model.material))
			}
			// The compaction is reverted.
			ok(t, second(w.Tidy(t.Context(), "anna", w.conv, runtime.TidyWhole, nil)))
			w.answered("hello at last", "ok")
			if first := w.model.asked[len(w.model.asked)-1][0]; first.Text() != "work 16" {
				t.Errorf("the model is shown %q", first.Text())
			}
		})
	}
}

// Material that is too long for one call is summarized in several, each
// continuing the notes of the one before. A later summary continues an earlier
// one.
func TestSummaryInSeveralCalls(t *testing.T) {
	w := newTight(t, 40_000, true)
	w.close()
	calls := 0
	w.writes(func(material string) (*llm.Reply, error) {
		calls++
		if strings.Contains(material, "NOTES SO FAR") != (calls > 1) || calls > 1 && !strings.Contains(material, fmt.Sprint("notes ", calls-1)) {
			return nil, errors.New("call " + fmt.Sprint(calls) + " goes on from nothing")
		}
		return notes(fmt.Sprint("notes ", calls), message.StopEnd)
	})
	w.windows["test/fast"] = 6000
	w.open()
	for i := range 3 {
		w.answered("work 15", "ok")
		w.answered("hello", "ok")
		before := calls
		ok(t, second(w.Tidy(t.Context(), "anna", w.conv, runtime.TidyCompact, nil)))
		if calls < before+2 {
			t.Errorf("compaction %d took %d calls", i, calls-before)
		}
	}
	w.answered("hello", "ok")
	first := w.model.asked[len(w.model.asked)-1][0].Text()
	if !strings.HasSuffix(first, fmt.Sprint("notes ", calls)) {
		t.Errorf("%q after %d calls; %s", first, calls, w.log.String())
	}
}

func TestNothingLeftToCompact(t *testing.T) {
	w := newTight(t, 40_000, true)
	w.answered("big 20000", "ok")
	ok(t, w.Pin(t.Context(), "anna", w.conv, true, w.all()[2].ID))
	coded(t, second(w.Tidy(t.Context(), "anna", w.conv, runtime.TidyCompact, nil)), "cannot_compact")
	w.answered("hello", "ok")
}

// The model reads a result that was clipped to its last byte, but no result of
// another conversation.
func TestClippedResultIsReadOn(t *testing.T) {
	w := newTight(t, 14_000, true)
	w.answered("big 24000", "ok")
	w.answered("work 16", "ok")
	if b := w.branch(); b.View.Clip == 0 {
		t.Fatalf("%+v", b.View)
	}
	ok(t, second(w.Tidy(t.Context(), "anna", w.conv, runtime.TidyWhole, nil)))
	w.close()
	whole := ""
	for _, m := range w.all() {
		if r := m.Result(); r != nil && r.Name == "data.big" {
			whole = r.Text()
		}
	}
	w.windows["test/m"], w.model.takes = 8000, 8000
	w.open()
	w.conv = id.ID{}
	w.answered("big 24000", "ok") // by the time of the answer it is clipped already
	w.answered("read on", "ok")
	var parts strings.Builder
	uri := ""
	for _, m := range w.all() {
		r := m.Result()
		switch {
		case r == nil:
		case r.Name == "data.big":
			u := m.URI(w.conv)
			uri = u.String()
		case r.Name == "results.read" && r.Status == message.OK:
			text := r.Text()
			parts.WriteString(text[:strings.LastIndex(text, "\n[Bytes ")])
		}
	}
	if parts.String() != whole {
		t.Errorf("%d bytes were read of %d", parts.Len(), len(whole))
	}
	w.isNotRead(uri, "of another conversation", func() { w.conv = id.ID{} })
}

// isNotRead checks that the model cannot read a result.
func (w *tight) isNotRead(uri, why string, before func()) {
	w.t.Helper()
	conv := w.conv
	before()
	w.answered("hello [… 9 more bytes; read on with results.read uri="+uri+" offset=9]", "ok")
	w.answered("read on", "ok")
	for _, m := range w.all() {
		if r := m.Result(); r != nil && (r.Status == message.OK || !strings.Contains(r.Text(), "there is no result")) {
			w.t.Errorf("a result %s was read: %q", why, r.Text())
		}
	}
	w.conv = conv
}

func TestDeletedResultIsNotReadOn(t *testing.T) {
	w := newTight(t, 40_000, true)
	w.answered("big 5000", "ok")
	big := w.all()[2]
	u := big.URI(w.conv)
	ok(t, second(w.Mark(t.Context(), "anna", w.conv, conversation.Verdict{State: record.Deleted}, big.ID)))
	w.isNotRead(u.String(), "that was deleted", func() {})
	ok(t, w.RunMaintenance(t.Context(), time.Now().Add(1000*time.Hour)))
	w.isNotRead(u.String(), "that was erased", func() {})
	in := record.InteractionURI(w.conv, big.Interaction)
	w.isNotRead(in.String(), "that is none", func() {})
	user := w.all()[0].URI(w.conv)
	w.isNotRead(user.String(), "that is a message of the user", func() {})
}

// What was learned about how a model counts survives a restart. A broken record
// is learned again.
func TestCalibrationIsKept(t *testing.T) {
	w := newTight(t, 100_000, true)
	w.answered("work 3", "ok")
	teach := func() {
		r := &llm.Request{Transcript: llm.NewTranscript(w.model.asked[len(w.model.asked)-1]...)}
		var learned tokens.Calibrator
		for range 20 {
			learned.Learn("test/m", llm.RequestParts(r), 2*llm.EstimateRequest(r))
		}
		if err := w.models.Recall(fmt.Appendf(nil, `{"tokens":%s}`, learned.Save())); err != nil {
			t.Fatal(err)
		}
	}
	teach()
	msg := &message.Message{ID: id.New(), Role: message.User, Blocks: text(strings.Repeat("so it goes. ", 100))}
	learned := w.models.Counter("test/m").Message(msg)
	kind := w.models.Counter("test/m").Kind()
	if err := w.RunMaintenance(t.Context(), time.Now()); err != nil { // once an hour, should nobody close it
		t.Fatal(err)
	}
	kept := func() (n int) {
		page, err := w.store.Log(t.Context(), store.ForNode(resource.System), store.LogQuery{Type: "llm.Calibration"})
		ok(t, err)
		return len(page.Entries)
	}
	if kept() != 1 {
		t.Errorf("kept %d times", kept())
	}
	w.reopen()
	if c := w.models.Counter("test/m"); c.Message(msg) != learned || c.Kind() != kind || kind != "calibrated" {
		t.Errorf("%d tokens, %s; learned were %d, %s", c.Message(msg), c.Kind(), learned, kind)
	}
	w.close()
	if kept() != 1 {
		t.Errorf("nothing new is kept: %d times", kept())
	}
	_, err := w.store.Commit(t.Context(), store.ForNode(resource.System), store.Batch{Changes: []store.Change{{URI: resource.Root("llm.Calibration", "all"), Body: []byte("{")}}})
	ok(t, err)
	w.open()
	if c := w.models.Counter("test/m"); c.Kind() == "calibrated" || !strings.Contains(w.log.String(), "starting over") {
		t.Errorf("%s: %s", c.Kind(), w.log.String())
	}
	w.answered("hello", "ok")
}
