package runtime_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/runtime"
)

// Who asks again and again what became of an action that takes long leaves
// nothing behind each time, and is told in the end.
func TestAskingAgainAddsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newStill(t), newBench()
		w.judge, w.more = allows{}, b.tools(t)
		w.open()
		e := runtime.Execution{Tool: "slow.change", Args: []byte(`{"what":"flour"}`), ClientID: "a"}
		poll := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := w.ExecuteTool(ctx, "anna", e); !fault.HasCode(err, "call_goes_on") || !fault.Is(err, fault.Timeout) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		poll()
		before := goruntime.NumGoroutine()
		const polls = 20 // of a second each: less than the tool may take
		for range polls {
			poll()
		}
		if n := goruntime.NumGoroutine() - before; n > polls/2 { // the language has some of its own
			t.Errorf("%d goroutines more", n)
		}
		waits := aside(func() (runtime.Executed, error) { return w.ExecuteTool(t.Context(), "anna", e) })
		close(b.gate)
		if !waits.over() || waits.err != nil || waits.v.Result.Text() != "did flour" || !waits.v.Recorded {
			t.Errorf("%+v, %v", waits.v, waits.err)
		}
		if x, err := w.ExecuteTool(t.Context(), "anna", e); err != nil || x.Result.Text() != "did flour" || b.count("flour") != 1 {
			t.Errorf("%+v, %v; done %d times", x, err, b.count("flour"))
		}
		e.Args = []byte(`{"what":"rye"}`)
		if _, err := w.ExecuteTool(t.Context(), "anna", e); !fault.HasCode(err, "call_id_used") {
			t.Error(err)
		}
	})
}
