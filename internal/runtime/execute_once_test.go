package runtime_test

import (
	"context"
	"reflect"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/work"
)

func TestExternalActionIsDoneOnce(t *testing.T) {
	o := newOuter(t, allows{})
	if got := o.must("ledger.add", `{"what":"one"}`, "a"); got != "ok: added one" {
		t.Error(got)
	}
	for range 2 {
		if got := o.must("ledger__add", `{ "what": "one" }`, "a"); got != "recorded ok: added one" {
			t.Error(got)
		}
		o.drop = "ledger.add" // what is recorded is told without the tool, too
		o.reopen()
	}
	o.drop = ""
	o.reopen()
	for _, c := range []work.Execution{
		{Tool: "ledger.add", Args: []byte(`{"what":"two"}`)}, {Tool: "ledger.slow", Args: []byte(`{"what":"one"}`)}, {Tool: "math.twice", Args: []byte(`{"n":1}`)},
	} {
		c.ClientID = "a"
		if _, err := o.ExecuteTool(t.Context(), "anna", c); !fault.HasCode(err, "call_id_used") || !fault.Is(err, fault.Conflict) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	x, err := o.ExecuteTool(t.Context(), "bert", work.Execution{Tool: "ledger.add", Args: []byte(`{"what":"one"}`), ClientID: "a"})
	if err != nil || x.Recorded {
		t.Errorf("bert's own: %+v, %v", x, err)
	}
	if x, err = o.do("ledger.add", `{"what":"three"}`, ""); err != nil {
		t.Fatal(err)
	}
	if got := o.must("ledger.add", `{"what":"three"}`, x.ClientID); got != "recorded ok: added three" {
		t.Errorf("by the id that it was given: %s", got)
	}
	if got := o.ledger.list(); got != "one,one,three" {
		t.Error(got)
	}
	for _, r := range o.requests() {
		if r.Kind != record.RequestCall || r.Agent != kits.DefaultAgent || r.Tool != "ledger.add" || r.CallID == "" ||
			r.User == "" || !strings.HasPrefix(r.Args, `{"what":`) || r.Outcome != "ok" || r.Closed.IsZero() {
			t.Errorf("%+v", r)
		}
	}
}

func TestExternalActionContinuesWithoutItsCaller(t *testing.T) {
	o := newOuter(t, allows{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	e := work.Execution{Tool: "ledger.slow", Args: []byte(`{"what":"one"}`), ClientID: "a"}
	go func() {
		_, err := o.ExecuteTool(ctx, "anna", e)
		ended <- err
	}()
	<-o.begun
	cancel()
	if err := <-ended; !fault.HasCode(err, "call_goes_on") || !fault.Is(err, fault.Cancelled) || fault.Of(err).Details["id"] != "a" || !fault.Of(err).Recoverable() {
		t.Errorf("the caller is told %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := o.ExecuteTool(late, "anna", e); !fault.Is(err, fault.Timeout) {
		t.Errorf("who does not wait long is told %v", err)
	}
	o.listed(record.RequestOpen)
	close(o.goOn)
	if got := o.must("ledger.slow", `{"what":"one"}`, "a"); got != "recorded ok: added one at last" {
		t.Error(got)
	}
	if got := o.ledger.list(); got != "one" {
		t.Error(got)
	}
	o.listed(requests.Closed)
}

// listed checks that anna's only call from outside is listed like other requests
// and cannot be cancelled.
func (o *outer) listed(state string) {
	o.t.Helper()
	ctx := o.t.Context()
	list, err := o.Requests(ctx, "anna", true, 10)
	if err != nil || len(list) != 1 || list[0].Kind != record.RequestCall || list[0].Tool != "ledger.slow" {
		o.t.Fatalf("%+v, %v", list, err)
	}
	which := list[0].ID
	if one, err := o.RequestTree(ctx, "anna", which); err != nil || !reflect.DeepEqual(one, list[0]) {
		o.t.Errorf("%+v, %v", one, err)
	}
	coded(o.t, second(o.RequestTree(ctx, "bert", which)), "request_not_found") // to bert
	code := map[string]string{record.RequestOpen: "request_begun", requests.Closed: "request_closed"}[state]
	if err := o.CancelRequest(ctx, "anna", which); !fault.HasCode(err, code) {
		o.t.Errorf("cancelled: %v", err)
	}
}

func TestConcurrentCallsWithOneID(t *testing.T) {
	o := newOuter(t, allows{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			x, err := o.do("ledger.add", `{"what":"one"}`, "a")
			if err != nil || x.Result.Status != message.OK {
				t.Errorf("%+v, %v", x.Result, err)
			}
		})
	}
	wg.Wait()
	if got := o.ledger.list(); got != "one" {
		t.Errorf("done: %s", got)
	}
}

func TestAQueryEndsWithItsCaller(t *testing.T) {
	o := newOuter(t, policy.Fixed{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-o.begun; cancel() }()
	if _, err := o.ExecuteTool(ctx, "anna", work.Execution{Tool: "text.wait"}); !fault.Is(err, fault.Cancelled) {
		t.Errorf("the caller is told %v", err)
	}
}

func TestClosingEndsCalls(t *testing.T) {
	o := newOuter(t, allows{})
	for _, name := range []string{"text.wait", "ledger.slow"} {
		ended := make(chan error, 1)
		go func() {
			args := "{}"
			if name == "ledger.slow" {
				args = `{"what":"one"}`
			}
			_, err := o.do(name, args, "a")
			ended <- err
		}()
		<-o.begun
		o.reopen()
		if err := <-ended; !fault.HasCode(err, "closing") {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	// It may have been done. The next start says so and does not repeat it.
	if got := o.must("ledger.slow", `{"what":"one"}`, "a"); !strings.HasPrefix(got, "recorded unknown: ") || o.ledger.list() != "" {
		t.Errorf("%s; %q was done", got, o.ledger.list())
	}
	ctx := context.Background()
	ok(t, o.Close(ctx))
	for _, name := range []string{"text.wait", "ledger.all"} {
		if _, err := o.do(name, "{}", "b"); !fault.HasCode(err, "closing") {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

// The store fails at each commit of a call in turn. After the next start the
// call is settled, whether or not the caller asks again, the outcome is true,
// and nothing is done twice.
func TestCrashAtEachCommitOfAnExternalCall(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		for crash := 1; ; crash++ {
			o := newOuter(t, allows{})
			fail, _ := after(crash - 1)
			o.faulty.set(fail)
			if _, err := o.do("ledger.add", `{"what":"one"}`, "a"); err == nil {
				if crash < 5 {
					t.Fatalf("only %d commits", crash)
				}
				break
			}
			before := o.ledger.list()
			o.reopen()
			if wait {
				o.settled()
				if got := o.ledger.list(); got != before {
					t.Errorf("crash %d: the next start did %q", crash, got)
				}
			}
			got := strings.TrimPrefix(o.must("ledger.add", `{"what":"one"}`, "a"), "recorded ")
			o.settled()
			done := o.ledger.list()
			switch {
			case got == "ok: added one" && done == "one":
			case got == "interrupted: Stopped before it was done." && done == "":
			case strings.HasPrefix(got, "unknown: ") && (done == "" || done == "one"):
			default:
				t.Errorf("crash %d: %q was done, and it is told %q", crash, done, got)
			}
			if again := o.must("ledger.add", `{"what":"one"}`, "a"); again != "recorded "+got || o.ledger.list() != done {
				t.Errorf("crash %d: first %q, then %q; %q was done", crash, got, again, o.ledger.list())
			}
		}
	}
}

func TestInterruptedCallWaitsForItsTool(t *testing.T) {
	o := newOuter(t, allows{})
	go func() { <-o.begun; o.faulty.set(func(store.Batch) error { return errCrash }); close(o.goOn) }()
	if _, err := o.do("ledger.slow", `{"what":"one"}`, "a"); err == nil {
		t.Fatal("it was recorded by a dead store")
	}
	o.drop = "ledger.slow"
	o.reopen()
	coded(t, second(o.do("ledger.slow", `{"what":"one"}`, "a")), "tool_unknown") // without the tool
	if got := o.requests(); len(got) != 1 || !got[0].Closed.IsZero() {
		t.Errorf("closed without its tool: %+v", got)
	}
	o.drop = ""
	o.reopen()
	if got := o.must("ledger.slow", `{"what":"one"}`, "a"); !strings.HasPrefix(got, "recorded unknown: ") {
		t.Error(got)
	}
}

// A caller that repeatedly asks for the outcome of a long action adds no work,
// and gets the outcome in the end.
func TestPollingAddsNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newStill(t), newBench()
		w.judge, w.more = allows{}, b.tools(t)
		w.open()
		e := work.Execution{Tool: "slow.change", Args: []byte(`{"what":"flour"}`), ClientID: "a"}
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
		waits := aside(func() (work.Executed, error) { return w.ExecuteTool(t.Context(), "anna", e) })
		close(b.gate)
		if !waits.over() || waits.err != nil || waits.v.Result.Text() != "did flour" || !waits.v.Recorded {
			t.Errorf("%+v, %v", waits.v, waits.err)
		}
		if x, err := w.ExecuteTool(t.Context(), "anna", e); err != nil || x.Result.Text() != "did flour" || b.count("flour") != 1 {
			t.Errorf("%+v, %v; done %d times", x, err, b.count("flour"))
		}
		e.Args = []byte(`{"what":"rye"}`)
		coded(t, second(w.ExecuteTool(t.Context(), "anna", e)), "call_id_used")
	})
}
