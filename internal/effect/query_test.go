package effect

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

func TestUnknownTool(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	c := callOf(nil, `{}`)
	c.Name, c.Near = "math.multipli", []string{"math.add", "math.multiply", "files.read"}
	expect(t, run(t, e, c), message.Failed, `"math.multipli"`, "Did you mean math.multiply")
	c.Name = "zzz"
	expect(t, run(t, e, c), message.Failed, "There are: math.add, math.multiply, files.read")
	c.Near = nil
	expect(t, run(t, e, c), message.Failed, "answer without")
	c.Waits = "mcp:zzz"
	expect(t, run(t, e, c), message.Failed, "zzz waits for the user's approval: steward agents approve mcp:zzz")
	c.Waits = ""
	c.Name = strings.Repeat("é", 500)
	if res := run(t, e, c); len(res.Text()) > 400 {
		t.Errorf("a long name is repeated: %d bytes", len(res.Text()))
	}
}

func TestBadArgumentsAreAnswered(t *testing.T) {
	e := engine(openStore(t), judge(policy.Allow))
	ran := false
	strict, err := tool.New(tool.Spec{Name: "test.typed", Description: "x", Effect: tool.Action},
		func(_ context.Context, _ tool.Invocation, in struct {
			N int `json:"n" max:"3"`
		}) (string, error) {
			ran = true
			return "ran", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	plain := action(func(context.Context, tool.Invocation) (tool.Result, error) { ran = true; return tool.Text(""), nil })
	plain.spec.Input = []byte(`{"type":"object","properties":{"n":{"type":"integer","maximum":3}},"additionalProperties":false,"required":["n"]}`)
	for _, tl := range []tool.Tool{strict, plain} {
		for args, says := range map[string]string{
			`{"n":4}`:         "at most 3",
			`{"N":1}`:         "did you mean n?",
			``:                "n: is missing",
			`{"n":1,"n":2}`:   "occurs twice",
			`{"n":1`:          "not valid JSON",
			"{\"n\":\"\xff\"": "not valid JSON",
			`"x"`:             "expected object",
		} {
			c := callOf(tl, args)
			expect(t, run(t, e, c), message.Failed, says)
			noIntent(t, e.opt.Store, c)
		}
	}
	if ran {
		t.Error("a tool ran with arguments that do not hold")
	}
	plain.spec.Input = []byte(`{`)
	expect(t, run(t, e, callOf(plain, `{}`)), message.Failed, "schema")
}

func TestNoArgumentsForAToolThatNeedsNone(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	for _, args := range []string{"", " \n", "{}"} {
		expect(t, run(t, e, callOf(query(says("ran")), args)), message.OK, "ran")
	}
}

func TestJudgeFailsClosed(t *testing.T) {
	s := openStore(t)
	for name, j := range map[string]judgeFunc{
		"an error": func(context.Context, policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: policy.Allow}, errors.New("broken")
		},
		"no answer": func(context.Context, policy.Question) (policy.Decision, error) { return policy.Decision{}, nil },
		"a word that is none": func(context.Context, policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: "ALLOW"}, nil
		},
		"a no": func(context.Context, policy.Question) (policy.Decision, error) {
			return policy.Decision{Verdict: policy.Deny}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(s, j)
			for _, tl := range []*fake{query(says("ran")), action(says("ran"))} {
				expect(t, run(t, e, callOf(tl, `{}`)), message.DeniedCall, "Denied, nothing was done")
			}
		})
	}
}

func TestJudgeSeesWhatIsExecuted(t *testing.T) {
	s := openStore(t)
	var asked policy.Question
	e := engine(s, judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
		asked = q
		return policy.Decision{Verdict: policy.Allow}, nil
	}))
	var ran string
	c := callOf(action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		ran = string(in.Args)
		return tool.Text("ok"), nil
	}), `{"z":"\u0041", "a": 1e1}`)
	c.Labels = message.Untrusted
	expect(t, run(t, e, c), message.OK)
	if string(asked.Args) != ran || ran != `{"a":10,"z":"A"}` || stateOf(t, s, c).Args != ran {
		t.Errorf("judged %s, ran %s, recorded %s", asked.Args, ran, stateOf(t, s, c).Args)
	}
	if asked.User != "ann" || asked.Agent != "assistant" || asked.Labels != message.Untrusted || !asked.Attended || asked.Tool.Name != "test.action" {
		t.Errorf("%+v", asked)
	}
}

func TestToolErrors(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	for _, c := range []struct {
		err    error
		status message.Status
		says   string
	}{
		{errors.New("plain"), message.Failed, "plain"},
		{fmt.Errorf("outer: %w", fault.New(fault.Invalid, "x", "inner").WithHint("mend it")), message.Failed, "outer: inner (mend it)"},
		{fault.New(fault.Unavailable, "x", "gone"), message.Unavailable, "gone"},
		{errors.New("bad \xff text"), message.Failed, "bad \uFFFD text"},
	} {
		q := query(func(context.Context, tool.Invocation) (tool.Result, error) { return tool.Text("not this"), c.err })
		q.spec.Yields = message.Untrusted
		res := run(t, e, callOf(q, `{}`))
		expect(t, res, c.status, c.says)
		if b := res.Content[0].Base(); b.Origin != "tool:test.query" || b.Labels != message.Untrusted {
			t.Errorf("a tool's error claims to be %+v", b)
		}
	}
	failing := query(gives(tool.Result{Content: tool.Text("no such row").Content, Failed: true}))
	expect(t, run(t, e, callOf(failing, `{}`)), message.Failed, "no such row")
	expect(t, run(t, e, callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) { return tool.Result{}, nil }), `{}`)),
		message.OK, "(no output)")
}

func TestPanicsAreAnswered(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	expect(t, run(t, e, callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) { panic("oh no") }), `{}`)),
		message.Failed, "panicked: oh no")
	expect(t, run(t, e, callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) {
		runtime.Goexit()
		return tool.Result{}, nil
	}), `{}`)),
		message.Failed, "exited its goroutine")
}

func TestToolTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), policy.Fixed{})
		polite := query(func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		began := time.Now()
		expect(t, run(t, e, callOf(polite, `{}`)), message.Failed, "did not answer within 30s")
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("a polite tool ended after %s", d)
		}
		late := query(func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return tool.Text("late, but there"), nil
		})
		expect(t, run(t, e, callOf(late, `{}`)), message.OK, "late, but there")

		stuck := make(chan struct{})
		hanging := query(func(context.Context, tool.Invocation) (tool.Result, error) {
			<-stuck
			return tool.Text("never seen"), nil
		})
		hanging.spec.Timeout = 5 * time.Second
		began = time.Now()
		expect(t, run(t, e, callOf(hanging, `{}`)), message.Failed, "did not answer within 5s")
		if d := time.Since(began); d != 7*time.Second {
			t.Errorf("a hanging tool was left after %s", d)
		}
		if n := e.leaked.Load(); n != 1 {
			t.Errorf("%d hanging", n)
		}
		close(stuck)
		synctest.Wait()
		if n := e.leaked.Load(); n != 0 {
			t.Errorf("%d hanging after all have returned", n)
		}
	})
}

func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), policy.Fixed{})
		var now, most atomic.Int32
		q := query(func(context.Context, tool.Invocation) (tool.Result, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return tool.Text("ok"), nil
		})
		q.spec.Concurrency = 2
		var wg sync.WaitGroup
		began := time.Now()
		for range 6 {
			wg.Go(func() { expect(t, run(t, e, callOf(q, `{}`)), message.OK) })
		}
		wg.Wait()
		if most.Load() != 2 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at once, %s", most.Load(), time.Since(began))
		}
	})
}

func TestHangingCallsDoNotHangOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), judge(policy.Allow))
		stuck := make(chan struct{})
		for _, tl := range []*fake{query(nil), action(nil)} {
			tl.call = func(context.Context, tool.Invocation) (tool.Result, error) { <-stuck; return tool.Text("ok"), nil }
			tl.spec.Concurrency, tl.spec.Timeout = 1, time.Second
			first, err := e.Run(context.Background(), callOf(tl, `{}`))
			if err != nil || first.Status == message.OK {
				t.Fatal(describe(first), err)
			}
			c := callOf(tl, `{}`)
			expect(t, run(t, e, c), message.Unavailable, "is busy")
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second/2, func() { cancel(request.ErrStop) })
			res, err := e.Run(ctx, callOf(tl, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, res, message.Interrupted)
		}
		close(stuck)
		synctest.Wait()
	})
}

func TestStoppedQuery(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	for cause, wantErr := range map[error]error{request.ErrStop: nil, request.ErrSuspend: request.ErrSuspend} {
		ctx, cancel := context.WithCancelCause(context.Background())
		q := query(func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			cancel(cause)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		for range 2 { // stopped while it ran, and before it began
			res, err := e.Run(ctx, callOf(q, `{}`))
			if !errors.Is(err, wantErr) {
				t.Errorf("%v: %v", cause, err)
			}
			expect(t, res, message.Interrupted, "Stopped")
		}
	}
}

func TestLongResultsAreCutAndReadOn(t *testing.T) {
	_, e := open(t, policy.Fixed{})
	long := strings.Repeat("añ€😀\n", 20000) // 11 bytes each
	q := query(func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{Content: []message.Block{
			&message.Text{Text: long}, &message.Image{MIME: "image/png", Data: []byte{1}}, &message.Text{Text: "the end", Common: message.Common{Labels: message.Secret}}}}, nil
	})
	q.spec.Yields = message.Untrusted
	c := callOf(q, `{}`)
	res := run(t, e, c)
	expect(t, res, message.OK, "Cut after", "results.read")
	if len(res.Content) != 2 || !utf8.ValidString(res.Text()) || len(res.Text()) > tool.DefaultResultCap+500 {
		t.Fatalf("%d blocks, %d bytes", len(res.Content), len(res.Text()))
	}
	if res.Rest == "" || res.Content[0].Base().Labels != message.Untrusted|message.Secret {
		t.Errorf("rest %q, labels %v", res.Rest, res.Content[0].Base().Labels)
	}

	shown, _, _ := strings.Cut(res.Text(), "\n[Cut after")
	whole, offset := shown, len(shown)
	for offset < len(long)+len("\nthe end") {
		rc := callOf(e.ReadTool(), fmt.Sprintf(`{"uri":%q,"offset":%d,"limit":29999}`, res.Rest, offset))
		page := run(t, e, rc)
		expect(t, page, message.OK)
		if page.Content[0].Base().Labels != message.Untrusted|message.Secret {
			t.Errorf("what is read on has the labels %v", page.Content[0].Base().Labels)
		}
		part, note, _ := strings.Cut(page.Text(), "\n[Bytes ")
		whole += part
		var from, to, of int
		if _, err := fmt.Sscanf(note, "%d to %d of %d.", &from, &to, &of); err != nil || from != offset || to != from+len(part) || of != len(long)+8 {
			t.Fatalf("%q: %v", note, err)
		}
		offset = to
	}
	if whole != long+"\nthe end" {
		t.Error("the pages do not give the whole")
	}
}

func TestReadToolRefuses(t *testing.T) {
	s, e := open(t, policy.Fixed{})
	q := query(says(strings.Repeat("x€", 30000)))
	q.spec.ResultCap = 10
	c := callOf(q, `{}`)
	rest := run(t, e, c).Rest
	read := func(change func(*Call), args string) *message.ToolResult {
		rc := callOf(e.ReadTool(), args)
		if change != nil {
			change(&rc)
		}
		return run(t, e, rc)
	}
	here := fmt.Sprintf(`{"uri":%q}`, rest)
	expect(t, read(nil, here), message.OK, "Bytes 0 to 16384")
	expect(t, read(nil, fmt.Sprintf(`{"uri":%q,"offset":2,"limit":1}`, rest)), message.OK, "€", "Bytes 1 to 4")
	expect(t, read(nil, fmt.Sprintf(`{"uri":%q,"offset":119999}`, rest)), message.OK, "Bytes 119997 to 120000 of 120000.]")
	expect(t, read(nil, fmt.Sprintf(`{"uri":%q,"offset":120000}`, rest)), message.Failed, "has 120000 bytes")
	expect(t, read(nil, fmt.Sprintf(`{"uri":%q,"offset":-1}`, rest)), message.Failed, "at least 0")
	for name, res := range map[string]*message.ToolResult{
		"another conversation": read(func(c *Call) { c.Request.Conversation = resource.Root("common.Conversation", "c2") }, here),
		"no conversation":      read(func(c *Call) { c.Request.Conversation = resource.URI{} }, here),
		"another user":         read(func(c *Call) { c.Scope, c.Request.User = store.ForUser("bob"), "bob" }, here),
		"no uri":               read(nil, `{"uri":"x"}`),
		"another resource":     read(nil, fmt.Sprintf(`{"uri":%q}`, c.Message)),
		"what is not there":    read(nil, fmt.Sprintf(`{"uri":%q}`, c.Message.Child("tool.Overflow", "99"))),
	} {
		if res.Status != message.Failed || !strings.Contains(res.Text(), "there is no result") {
			t.Errorf("%s: %s", name, describe(res))
		}
	}
	// Called outside the engine it reads with the user's own scope.
	in := tool.Invocation{Args: []byte(here), User: "ann", Conversation: conversation}
	if _, err := e.ReadTool().Call(context.Background(), in); err != nil {
		t.Error(err)
	}
	in.User = "bob"
	if _, err := e.ReadTool().Call(context.Background(), in); !fault.HasCode(err, "result_not_found") {
		t.Error(err)
	}
	put(t, s, store.Change{URI: c.Message.Child("tool.Overflow", "7"), Body: []byte("junk")})
	expect(t, read(nil, fmt.Sprintf(`{"uri":%q}`, c.Message.Child("tool.Overflow", "7"))), message.Failed, "cannot be read")
}

func TestResultsThatCannotBeHeld(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	result := func(blocks ...message.Block) *message.ToolResult {
		return run(t, e, callOf(query(gives(tool.Result{Content: blocks})), `{}`))
	}
	expect(t, result(&message.ToolCall{Name: "x"}, &message.Text{Text: "and this"}), message.OK, "cannot hold", "and this")
	expect(t, result(nil), message.OK, "cannot hold")
	expect(t, result(&message.Image{Data: []byte{1}}), message.OK, "cannot hold") // no media type
	expect(t, result(&message.File{MIME: "a/b", Name: "x", Data: make([]byte, maxData+1)}), message.OK, "at most 8 MB")
	expect(t, result(&message.Text{Text: "bad \xff"}), message.OK, "bad \uFFFD")
	res := result(&message.File{MIME: "a/b", Name: "x", Data: []byte{1}})
	expect(t, res, message.OK)
	if res.Content[0].Base().Origin != "tool:test.query" {
		t.Error("a file has no origin")
	}
}

func TestHugeResultIsKeptUpToALimit(t *testing.T) {
	s, e := open(t, policy.Fixed{})
	res := run(t, e, callOf(query(says(strings.Repeat("y", maxRest+100))), `{}`))
	expect(t, res, message.OK, "Cut after")
	u, err := resource.Parse(res.Rest)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(context.Background(), store.ForUser("ann"), u)
	if err != nil || len(r.Body) > maxRest+200 || !strings.HasSuffix(string(r.Body), "[The rest was not stored.]") {
		t.Errorf("%d bytes, %v", len(r.Body), err)
	}
}

func TestRestThatCannotBeKept(t *testing.T) {
	m := &mortal{Store: openStore(t), left: 1}
	e := engine(m, policy.Fixed{})
	res := run(t, e, callOf(query(says(strings.Repeat("y", 40000))), `{}`))
	expect(t, res, message.OK, "could not be stored")
	if res.Rest != "" {
		t.Error("the result names a rest that is not there")
	}
}

func TestSharedBlocksStayAsTheyAre(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	shared := &message.Text{Text: "same"}
	q := query(gives(tool.Result{Content: []message.Block{shared}}))
	q.spec.Yields = message.Private
	run(t, e, callOf(q, `{}`))
	if shared.Origin != "" || shared.Labels != 0 {
		t.Errorf("the tool's own block was changed: %+v", shared)
	}
}

// What a tool waits for may learn that the node closes before its call does:
// that is no result, and the next start continues.
func TestAQueryThatIsPutAsideFirst(t *testing.T) {
	for name, v := range map[string]policy.Verdict{"allowed": policy.Allow, "asked about": policy.Ask} {
		t.Run(name, func(t *testing.T) {
			e := engine(openStore(t), judge(v))
			closing := true
			c := callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) {
				if closing {
					return tool.Result{}, fmt.Errorf("asking: %w", request.ErrSuspend)
				}
				return tool.Text("there"), nil
			}), `{}`)
			if v == policy.Ask {
				answering(t, e, &c, true)
			}
			if res, err := e.Run(t.Context(), c); !errors.Is(err, request.ErrSuspend) {
				t.Fatalf("%s, %v", describe(res), err)
			}
			closing = false
			expect(t, run(t, e, c), message.OK, "there")
		})
	}
}

// A call that does not end when its run is suspended is waited for on behalf of its user, for a while.
func TestHungCallsOfAUserAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), policy.Fixed{})
		stuck := make(chan struct{})
		c := callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) {
			<-stuck
			return tool.Text("never seen"), nil
		}), `{}`)
		ctx, cancel := context.WithCancelCause(request.With(t.Context(), request.Context{User: "anna"}))
		time.AfterFunc(time.Second, func() { cancel(request.ErrSuspend) })
		if res, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) {
			t.Errorf("%v, %v", res, err)
		}
		if e.AwaitHung("ben", time.Hour) || !e.AwaitHung("anna", time.Minute) {
			t.Error("the call of anna's is not known to run")
		}
		time.AfterFunc(time.Second, func() { close(stuck) })
		if began := time.Now(); e.AwaitHung("anna", time.Minute) || time.Since(began) != time.Second {
			t.Errorf("it was waited for %s", time.Since(began))
		}
	})
}
