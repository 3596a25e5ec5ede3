package window_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

func TestCustom(t *testing.T) {
	var seen []tool.PastCall
	var told []error
	var answer func(call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error)
	ts := files()
	ts["mail.sort"] = optimizing{with("mail.sort", tool.Strategy{Kind: tool.Custom, Tools: []string{"files.list", "mail.sort"}, Cascade: []string{"weather.map"}}),
		func(_ context.Context, call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error) {
			seen = earlier
			return answer(call, earlier)
		}}
	nothing := func(tool.PastCall, []tool.PastCall) ([]tool.Obsolete, error) { return nil, nil }
	answer = nothing
	tr := window.NewTracker(ts.get)
	tr.OnRefused = func(err error) { told = append(told, err) }
	b := newBranch(tr)
	b.does("first", "mail.sort", `{"n": 1}`)
	if seen != nil {
		t.Error("it was asked about nothing")
	}
	b.does("map", "weather.map", `{}`)
	b.does("l1", "files.list", `{"dir":"a"}`)
	b.does("r1", "files.read", `{"path":"a"}`)
	b.does("second", "mail.sort", `{"n": 2}`)
	if len(seen) != 2 || seen[0].Ref != b.ref("first") || string(seen[0].Args) != `{"n": 1}` || seen[1].Name != "files.list" ||
		seen[1].Result.Text() != "content" || seen[1].At != b.at {
		t.Errorf("it was shown %+v", seen)
	}
	own := message.Ref{}
	answer = func(call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error) {
		own = call.Ref
		return []tool.Obsolete{{Ref: b.ref("l1"), Reason: "the list\nchanged"}, {Ref: b.ref("r1")}, {Ref: call.Ref}, {Ref: b.ref("l1")}, {Ref: b.ref("first")}}, nil
	}
	b.n++
	c := b.asks(call{"third", "mail.sort", `{}`})[0]
	got := b.Observe(t.Context(), &message.Message{ID: id.Derive("x"), Role: message.Tool, At: b.at,
		Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 77)
	want(t, "the third", b.told(got), "first map l1")
	if len(got) == 3 && (got[2].Reason != "the list changed" || !strings.Contains(got[0].Reason, "mail.sort was made obsolete by a later mail.sort") ||
		got[0].Call != own || got[0].Strategy != "custom") {
		t.Errorf("%+v", got)
	}
	if len(told) != 1 || !fault.HasCode(told[0], "tidy_refused") || !strings.Contains(told[0].Error(), b.ref("r1").String()) || !strings.Contains(told[0].Error(), own.String()) {
		t.Errorf("told %v", told)
	}
	for name, f := range map[string]func(tool.PastCall, []tool.PastCall) ([]tool.Obsolete, error){
		"error": func(_ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) {
			return []tool.Obsolete{{Ref: e[0].Ref}}, errors.New("broken")
		},
		"panic": func(_ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) { panic("oh") },
		"exit":  func(_ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) { runtime.Goexit(); return nil, nil },
	} {
		told, answer = nil, f
		want(t, name, b.does("n", "mail.sort", `{}`), "")
		if len(told) != 1 || !fault.HasCode(told[0], "tidy_failed") {
			t.Errorf("%s: told %v", name, told)
		}
	}
	// Nothing happens without OnRefused or without an optimizer.
	tr.OnRefused = nil
	want(t, "nobody told", b.does("n", "mail.sort", `{}`), "")
	ts["mail.sort"] = ts["mail.sort"].(optimizing).fake
	b = newBranch(tracking(ts))
	b.does("1", "mail.sort", `{}`)
	want(t, "no optimizer", b.does("2", "mail.sort", `{}`), "")
}

// TestCustomReasons: an optimizer's reason is cut to a limit, and not used if it
// contains a secret.
func TestCustomReasons(t *testing.T) {
	for said, want := range map[string]string{
		"it is old":              "it is old",
		" ":                      "a.b was made obsolete by a later a.b",
		"Bearer abcdefgh":        "a.b was made obsolete by a later a.b",
		strings.Repeat("é", 999): strings.Repeat("é", 148) + "…",
	} {
		ts := tools{"a.b": optimizing{with("a.b", tool.Strategy{Kind: tool.Custom}), func(_ context.Context, _ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) {
			return []tool.Obsolete{{Ref: e[0].Ref, Reason: said}}, nil
		}}}
		b := newBranch(tracking(ts))
		b.does("1", "a.b", `{}`)
		c := b.asks(call{"2", "a.b", `{}`})[0]
		got := b.Observe(t.Context(), &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 5)
		if len(got) != 1 || got[0].Reason != want {
			t.Errorf("%.20q: %+v", said, got)
		}
	}
}

// TestShownIsBounded: an optimizer receives only the newest results, and cannot
// name others.
func TestShownIsBounded(t *testing.T) {
	n, last := 0, message.Ref{}
	ts := tools{"a.b": optimizing{with("a.b", tool.Strategy{Kind: tool.Custom, Tools: []string{"c.d"}}), func(_ context.Context, _ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) {
		n, last = len(e), e[len(e)-1].Ref
		return nil, nil
	}}, "c.d": with("c.d")}
	b := newBranch(tracking(ts))
	for i := range tool.MaxShown {
		b.does("c", "c.d", `{}`)
		b.does(fmt.Sprint(i), "a.b", `{}`)
	}
	b.does("c", "c.d", `{}`)
	b.does("end", "a.b", `{}`)
	b.does("c", "c.d", `{}`)
	b.does("end2", "a.b", `{}`)
	if n != tool.MaxShown || b.refs[last] != "c" {
		t.Errorf("shown %d, the last one %s", n, b.refs[last])
	}
}

// TestSlowOptimizer: an optimizer has a timeout, and is not called again while it
// hangs.
func TestSlowOptimizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		var told []error
		ts := tools{"a.b": optimizing{with("a.b", tool.Strategy{Kind: tool.Custom}), func(ctx context.Context, _ tool.PastCall, e []tool.PastCall) ([]tool.Obsolete, error) {
			if calls.Add(1) == 1 {
				<-release // ignores ctx
			}
			return []tool.Obsolete{{Ref: e[0].Ref}}, nil
		}}}
		tr := window.NewTracker(ts.get)
		tr.OnRefused = func(err error) { told = append(told, err) }
		b := newBranch(tr)
		b.does("1", "a.b", `{}`)
		start := time.Now()
		want(t, "a slow one", b.does("2", "a.b", `{}`), "")
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("it was waited for for %s", d)
		}
		want(t, "one that hangs", b.does("3", "a.b", `{}`), "")
		if calls.Load() != 1 || len(told) != 2 || !strings.Contains(told[0].Error(), "longer than 100ms") || !strings.Contains(told[1].Error(), "hangs") {
			t.Errorf("%d calls, told %v", calls.Load(), told)
		}
		close(release)
		synctest.Wait()
		want(t, "one that has come back", b.does("4", "a.b", `{}`), "1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := b.asks(call{"5", "a.b", `{}`})[0]
		got := b.Observe(ctx, &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 9)
		want(t, "a cancelled one", b.told(got), "")
		synctest.Wait()
	})
}
