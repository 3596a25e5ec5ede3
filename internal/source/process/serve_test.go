package process

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// served is what the serving program answers.
type served struct {
	Life string
	N    string
}

func serveCall(t *testing.T, src *source, ctx context.Context, args string) (served, error) {
	t.Helper()
	res, err := only(t, src).Call(ctx, invocation(args))
	var s served
	if err == nil {
		err = json.Unmarshal([]byte(text(res)), &s)
	}
	return s, err
}

// current returns the session of the serving program.
func current(t *testing.T, src *source) *session {
	t.Helper()
	x, release, err := src.keeper.Acquire(t.Context())
	must.Do(t, err)
	release()
	return x
}

func TestServe(t *testing.T) {
	defer noLeak(t, goleak.IgnoreCurrent())
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve\ninput: {properties: {n: {type: string}}}"))
	var wg sync.WaitGroup
	lives := make([]string, 20)
	for i := range lives {
		wg.Go(func() {
			s, err := serveCall(t, src, t.Context(), fmt.Sprintf(`{"do":"sleep","ms":%d,"n":"%d"}`, (20-i)*5, i))
			if err != nil || s.N != fmt.Sprint(i) {
				t.Errorf("call %d: %+v, %v", i, s, err)
			}
			lives[i] = s.Life
		})
	}
	wg.Wait()
	for _, l := range lives {
		if l != lives[0] {
			t.Errorf("several processes: %v", lives)
		}
	}
	// A call that hangs ends alone, while others are answered.
	begun, long := make(chan struct{}), make(chan error)
	go func() {
		in := invocation(`{"do":"wait","n":"long"}`)
		in.Progress = func(tool.Progress) { close(begun) }
		_, err := only(t, src).Call(t.Context(), in)
		long <- err
	}()
	<-begun
	if err := hang(t, src); !fault.Is(err, fault.Timeout) || tool.CertainlyNotDone(err) {
		t.Errorf("the call that hangs: %v", err)
	}
	current(t, src).replace() // called by a timer when it has been silent for long
	if s, err := serveCall(t, src, t.Context(), `{"n":"again"}`); err != nil || s.Life != lives[0] {
		t.Errorf("another one: %+v, %v", s, err)
	}
	if s, err := serveCall(t, src, t.Context(), `{"do":"release"}`); err != nil || s.Life != lives[0] {
		t.Errorf("the last one: %+v, %v", s, err)
	}
	if err := <-long; err != nil {
		t.Errorf("the long one: %v", err)
	}
	src.Close()
	if _, err := serveCall(t, src, t.Context(), `{}`); err == nil {
		t.Error("called after the end")
	}
}

// A program that serves many users has no token of its own. Each call has a token for its user, which
// ends with the call.
func TestServeTokens(t *testing.T) {
	type user struct{}
	env := testEnv(t)
	var mu sync.Mutex
	minted, open := 0, 0
	env.Services = func(ctx context.Context) ([]string, func(), error) {
		vars := []string{"STEWARD_SERVICES_URL=http://127.0.0.1:18999/x"}
		who, ok := ctx.Value(user{}).(string)
		if !ok {
			return vars, nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if who == "nobody" {
			return nil, nil, fault.New(fault.Denied, "no_services", "none")
		}
		minted, open = minted+1, open+1
		return append(vars, "STEWARD_TOKEN=tok-"+who), func() { mu.Lock(); open--; mu.Unlock() }, nil
	}
	src := open_(t, env, behaving(t, "serve", "mode: serve\ninput: {type: object}"))
	for who, want := range map[string]string{"ada": "t o k - a d a", "bob": "t o k - b o b"} {
		res, err := only(t, src).Call(context.WithValue(t.Context(), user{}, who), invocation(`{"do":"token"}`))
		if err != nil || text(res) != "http://127.0.0.1:18999/x |"+want+"|•••" {
			t.Errorf("%q, %v", text(res), err)
		}
	}
	_, err := only(t, src).Call(context.WithValue(t.Context(), user{}, "nobody"), invocation(`{}`))
	if !fault.HasCode(err, "no_services") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	if minted != 2 || open != 0 {
		t.Errorf("%d tokens, of which %d are open", minted, open)
	}
}

// An unused program is ended, and started again for the next call.
func TestServeIdle(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve\nidle: 50ms"))
	first := must.Get(serveCall(t, src, t.Context(), `{"n":"1"}`))
	src.runs.count.Wait()
	second, err := serveCall(t, src, t.Context(), `{"n":"2"}`)
	if err != nil || second.N != "2" || second.Life == first.Life {
		t.Errorf("%+v after %+v: %v", second, first, err)
	}
}

func hang(t *testing.T, src *source) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	in := invocation(`{"do":"hang"}`)
	in.Progress = func(tool.Progress) { cancel(context.DeadlineExceeded) }
	_, err := only(t, src).Call(ctx, in)
	return err
}
