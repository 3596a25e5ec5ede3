package process

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/fault"
	"steward/internal/tool"
)

// served is what the serving program answers.
type served struct {
	Pid int
	N   string
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

func TestServe(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve\ninput: {properties: {n: {type: string}}}"))
	var wg sync.WaitGroup
	pids := make([]int, 20)
	for i := range pids {
		wg.Go(func() {
			s, err := serveCall(t, src, within(t, 20*time.Second), fmt.Sprintf(`{"do":"sleep","ms":%d,"n":"%d"}`, (20-i)*5, i))
			if err != nil || s.N != fmt.Sprint(i) {
				t.Errorf("call %d: %+v, %v", i, s, err)
			}
			pids[i] = s.Pid
		})
	}
	wg.Wait()
	for _, pid := range pids {
		if pid != pids[0] {
			t.Errorf("several processes: %v", pids)
		}
	}
	// A call that hangs ends alone, while others are answered.
	long := make(chan error)
	go func() {
		_, err := serveCall(t, src, within(t, 20*time.Second), `{"do":"sleep","ms":3500,"n":"long"}`)
		long <- err
	}()
	if _, err := serveCall(t, src, within(t, 300*time.Millisecond), `{"do":"hang","n":"x"}`); !fault.Is(err, fault.Timeout) || tool.Certain(err) {
		t.Errorf("the call that hangs: %v", err)
	}
	if s, err := serveCall(t, src, within(t, 20*time.Second), `{"n":"again"}`); err != nil || s.Pid != pids[0] {
		t.Errorf("another one: %+v, %v", s, err)
	}
	if err := <-long; err != nil {
		t.Errorf("the long one: %v", err)
	}
	src.Close()
	if _, err := serveCall(t, src, within(t, time.Second), `{}`); err == nil {
		t.Error("called after the end")
	}
}

// A program that hangs is ended, and the next call gets a new one.
// A program that serves many users has no token of its own: each call brings
// one, for its user, which ends with it.
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
		res, err := only(t, src).Call(context.WithValue(within(t, 20*time.Second), user{}, who), invocation(`{"do":"token"}`))
		if err != nil || text(res) != "http://127.0.0.1:18999/x |"+want+"|•••" {
			t.Errorf("%q, %v", text(res), err)
		}
	}
	_, err := only(t, src).Call(context.WithValue(within(t, 20*time.Second), user{}, "nobody"), invocation(`{}`))
	if !fault.HasCode(err, "no_services") || !tool.Certain(err) {
		t.Error(err)
	}
	if minted != 2 || open != 0 {
		t.Errorf("%d tokens, of which %d are open", minted, open)
	}
}

func TestServeHangs(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve"))
	if _, err := serveCall(t, src, within(t, 500*time.Millisecond), `{"do":"hang"}`); !fault.Is(err, fault.Timeout) {
		t.Fatal(err)
	}
	src.server.mu.Lock()
	hung := src.server.cur
	src.server.mu.Unlock()
	select {
	case <-hung.done:
	case <-time.After(10 * time.Second):
		t.Error("it is not ended")
	}
	if !fault.HasCode(hung.err, "process_hangs") {
		t.Error(hung.err)
	}
	if _, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"1"}`); err != nil {
		t.Error(err)
	}
	// One that is called before it is ended is replaced at once.
	if _, err := serveCall(t, src, within(t, 300*time.Millisecond), `{"do":"hang"}`); !fault.Is(err, fault.Timeout) {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"1"}`); err != nil || time.Since(began) > silentFor {
		t.Error(err, time.Since(began))
	}
}

// A program that keeps ending is started again, but not without a pause.
func TestServeCrashes(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve"))
	codes := map[string]int{}
	for range 4 {
		_, err := serveCall(t, src, within(t, 10*time.Second), `{"do":"crash"}`)
		f := fault.Of(err)
		codes[f.Code]++
		if f.Code == "process_restarting" && (!tool.Certain(err) || f.Retry != fault.RetryAfter || f.After <= 0) {
			t.Errorf("%#v", f)
		}
		if f.Code == "process_failed" && tool.Certain(err) {
			t.Errorf("%#v", f)
		}
		src.tasks.Wait()
	}
	if codes["process_failed"] != 2 || codes["process_restarting"] != 2 {
		t.Errorf("%v", codes)
	}
	src.server.mu.Lock()
	src.server.next = time.Time{} // the pause is over
	src.server.mu.Unlock()
	if _, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"1"}`); err != nil {
		t.Error(err)
	}
	if _, err := serveCall(t, src, within(t, 10*time.Second), `{"do":"crash"}`); !fault.HasCode(err, "process_failed") {
		t.Error(err)
	}
	src.tasks.Wait()
	if _, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"1"}`); err != nil { // it had answered: no pause
		t.Error(err)
	}
}

// A program that nobody calls is ended, and started again for the next call.
func TestServeIdle(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "serve", "mode: serve\nidle: 50ms"))
	first, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"1"}`)
	if err != nil {
		t.Fatal(err)
	}
	src.tasks.Wait()
	src.server.mu.Lock()
	if src.server.cur != nil || src.server.failures != 0 {
		t.Errorf("%+v", src.server.cur)
	}
	src.server.mu.Unlock()
	second, err := serveCall(t, src, within(t, 10*time.Second), `{"n":"2"}`)
	if err != nil || second.N != "2" {
		t.Errorf("%+v after %+v: %v", second, first, err)
	}
}

// A program that does not read holds up nobody beyond their own deadlines.
func TestServeDeaf(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "deaf", "mode: serve"))
	big := `{"x":"` + strings.Repeat("x", 200<<10) + `"}`
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := serveCall(t, src, within(t, 500*time.Millisecond), big); !fault.Is(err, fault.Timeout) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
