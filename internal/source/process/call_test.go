package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/test/must"
)

func TestAnswers(t *testing.T) {
	defer noLeak(t, goleak.IgnoreCurrent())
	for behaviour, want := range map[string]string{
		"progress":          "(This is a partial answer: the tool could not do everything.)\nSome of it.\nfound\nThe tool suggests these actions; none of them has been done:\n- look\n- ask again\n- {\"do\":1}",
		"message":           "Sent.",
		"nothing":           "Done.",
		"failure":           "It failed; the tool gave no reason.",
		"lies":              "right",
		"no newline":        "whole",
		"twice":             "first",
		"answers and stays": "here",
		"forks":             "forked",
		"crashes after":     "done",
		"floods after":      "dry",
		"big":               strings.Repeat("y", 3<<20),
	} {
		t.Run(behaviour, func(t *testing.T) {
			length := fmt.Sprintf("85%06d", os.Getpid())
			src := open_(t, testEnv(t), behaving(t, behaviour, "env: {MARK: "+quoted(length)+"}"))
			res, err := only(t, src).Call(t.Context(), invocation(`{}`))
			if err != nil || text(res) != want || res.Failed != (behaviour == "failure") {
				t.Errorf("%.300s (failed: %v), %v", text(res), res.Failed, err)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
			if left := running(length); len(left) > 0 {
				t.Errorf("still running: %v", left)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	defer noLeak(t, goleak.IgnoreCurrent())
	for behaviour, want := range map[string]struct {
		code string
		kind fault.Kind
		says string
	}{
		"error":           {"smtp_unavailable", fault.Unavailable, "no •••"},
		"other shape":     {"validation_error", fault.Invalid, "no such city"},
		"only lies":       {"process_failed", fault.Unavailable, `a result for the request "other"`},
		"half":            {"process_failed", fault.Unavailable, "cut off"},
		"silent":          {"process_failed", fault.Unavailable, "without an answer"},
		"crashes":         {"process_failed", fault.Unavailable, "exit code 3 without an answer; it said: my ••• is gone"},
		"complains":       {"process_failed", fault.Unavailable, "the disk is full"},
		"closes":          {"deadline_exceeded", fault.Timeout, "ended"}, // bubblewrap keeps the output open
		"hangs":           {"deadline_exceeded", fault.Timeout, "ended"},
		"forks and hangs": {"deadline_exceeded", fault.Timeout, "ended"},
		"deaf":            {"deadline_exceeded", fault.Timeout, "ended"},
		"flood":           {"output_too_large", fault.Unavailable, "a line of more than"},
		"floods":          {"process_noise", fault.Unavailable, "too much"},
		"floods status":   {"process_noise", fault.Unavailable, "too much"},
		"memory":          {"memory_exceeded", fault.Unavailable, "128 MiB"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			length := fmt.Sprintf("84%06d", os.Getpid())
			decl := behaving(t, behaviour, "env: {MARK: "+quoted(length)+"}")
			switch behaviour {
			case "memory": // tail buffers input without a newline
				decl = "command: [sh, -c, '{ head -c 250000000 /dev/zero; sleep 60; } | tail']\ndescription: d\nsandbox: {limits: {memory: 134217728}}"
			}
			src := open_(t, testEnv(t), decl)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			in := invocation(`{}`)
			switch {
			case behaviour == "deaf":
				ctx = within(t, 100*time.Millisecond)
			case want.kind == fault.Timeout: // its time is over when it has the request
				in.Progress = func(tool.Progress) { cancel(context.DeadlineExceeded) }
			}
			before := memory()
			res, err := only(t, src).Call(ctx, in)
			f := fault.Of(err)
			if f == nil || f.Code != want.code || f.Kind != want.kind || !strings.Contains(f.Error(), want.says) {
				t.Errorf("%s: %#v", text(res), f)
			}
			if strings.Contains(fmt.Sprint(err), "hunter22") {
				t.Errorf("it tells a secret: %v", err)
			}
			if behaviour != "deaf" && tool.CertainlyNotDone(err) != (behaviour == "other shape") {
				t.Errorf("whether it was done: %v", err)
			}
			if rose := memory() - before; rose > 64<<20 {
				t.Errorf("memory rose by %d MiB", rose>>20)
			}
			if left := running(length); len(left) > 0 {
				t.Errorf("still running: %v", left)
			}
		})
	}
	src := open_(t, testEnv(t), behaving(t, "error", ""))
	defer src.Close()
	_, err := only(t, src).Call(context.Background(), invocation(`{}`))
	if f := fault.Of(err); f.Retry != fault.RetryAfter || f.After != 2*time.Second {
		t.Errorf("how to try again: %#v", f)
	}
}

// memory returns the resident memory of this process.
func memory() int64 {
	runtime.GC()
	b, _ := os.ReadFile("/proc/self/statm")
	var size, resident int64
	fmt.Sscan(string(b), &size, &resident)
	return resident * int64(os.Getpagesize())
}

func TestRequest(t *testing.T) {
	src := open_(t, testEnv(t), behaving(t, "echo", "effect: query"))
	in := invocation(`{"a":[1,"` + strings.Repeat("z", 1<<20) + `"]}`)
	var told []tool.Progress
	in.Progress = func(p tool.Progress) { told = append(told, p) }
	res := must.Get(only(t, src).Call(t.Context(), in))
	var got asked
	must.Do(t, json.Unmarshal([]byte(text(res)), &got))
	if got.Type != "request" || got.ID == "" || got.Parent != in.Request.String() || got.Action != "run" || got.Sender != "agent:lab" ||
		got.Target != "process:box" || got.Trace != in.Trace || got.Time.IsZero() || len(got.Args["a"].([]any)) != 2 ||
		got.Metadata["idempotency_key"] != "k1" || got.Metadata["user"] != "ann" {
		t.Errorf("%.500s", text(res))
	}
	res, err := only(t, src).Call(t.Context(), tool.Invocation{})
	if err != nil || !strings.Contains(text(res), `"sender":"steward"`) || !strings.Contains(text(res), `"parameters":{}`) {
		t.Errorf("%s, %v", text(res), err)
	}
	var mu sync.Mutex
	in = invocation(`{}`)
	in.Progress = func(p tool.Progress) { mu.Lock(); told = append(told, p); mu.Unlock() }
	must.Get(only(t, open_(t, testEnv(t), behaving(t, "progress", ""))).Call(t.Context(), in))
	if want := []tool.Progress{{Message: "acknowledged", Fraction: -1}, {Message: "half with •••", Fraction: 0.5}}; !slices.Equal(told, want) {
		t.Errorf("progress: %+v", told)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PROCESS_TEST_LEAK", "yes")
	var released atomic.Int64
	env := testEnv(t)
	env.Config = []byte(`{"unit":"km"}`)
	env.Services = func(context.Context) ([]string, func(), error) {
		return []string{"STEWARD_SERVICES_URL=http://127.0.0.1:18999/x", "STEWARD_TOKEN=tok-12345"}, func() { released.Add(1) }, nil
	}
	for _, free := range []string{"", "unsandboxed: true\n"} {
		src := open_(t, env, behaving(t, "env", free+"env: {MODE: fast, LOGIN: \"ann:${PASSWORD}\"}"))
		res := must.Get(only(t, src).Call(t.Context(), invocation(`{}`)))
		var vars []string
		if err := json.Unmarshal([]byte(text(res)), &vars); err != nil {
			t.Fatal(err, text(res))
		}
		for _, want := range []string{"MODE=fast", "LOGIN=ann:•••", "PASSWORD=•••", "STEWARD_DATA=" + env.Data, `STEWARD_CONFIG={"unit":"km"}`,
			"STEWARD_SERVICES_URL=http://127.0.0.1:18999/x", "STEWARD_TOKEN=•••"} {
			if !slices.Contains(vars, want) {
				t.Errorf("%s is missing in %v", want, vars)
			}
		}
		if slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "PROCESS_TEST_LEAK") }) {
			t.Errorf("inherited: %v", vars)
		}
		src.Close()
	}
	if n := released.Load(); n != 2 {
		t.Errorf("the services were released %d times", n)
	}
	src := open_(t, env, behaving(t, "keep", ""))
	for _, want := range []string{"Done.", "x", "xx"} { // an empty text is left out
		if res, err := only(t, src).Call(t.Context(), invocation(`{}`)); err != nil || text(res) != want {
			t.Errorf("%q, %v; want %q", text(res), err, want)
		}
	}
}

// A call whose program cannot be started has certainly done nothing.
func TestNotStarted(t *testing.T) {
	env := testEnv(t)
	write := func(name, content string, mode os.FileMode) {
		must.Do(t, os.WriteFile(filepath.Join(env.Dir, name), []byte(content), mode))
	}
	write("plain", "#!/bin/sh\n", 0o644)
	write("garbage", "\x00\x01\x02 garbage garbage garbage", 0o755)
	write("foreign", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16\x00\x01\x00", 0o755)
	write("lost", "#!/nowhere/python9\n", 0o755)
	broken := env
	broken.Services = func(context.Context) ([]string, func(), error) {
		return nil, nil, fault.New(fault.Unavailable, "down", "no services")
	}
	blocked := env
	blocked.Data = filepath.Join(env.Dir, "plain", "x")
	for decl, c := range map[string]struct {
		env  tool.Env
		code string
	}{
		"command: ./plain":                                           {env, "program_not_executable"},
		"command: ./garbage":                                         {env, "program_not_executable"},
		"command: ./foreign":                                         {env, "program_not_executable"},
		"command: ./lost":                                            {env, "program_not_executable"},
		"command: ./lost\nunsandboxed: true":                         {env, "program_not_executable"},
		"command: ./none":                                            {env, "program_not_found"},
		"command: no-such-program-at-all":                            {env, "program_not_found"},
		"command: 'true'\nsecrets: [OTHER]":                          {env, "process_secret_missing"},
		"command: 'true'\nenv: {A: '${OTHER}'}":                      {env, "process_secret_missing"},
		"command: 'true'":                                            {broken, "down"},
		"command: ['true']":                                          {blocked, "sandbox_failed"},
		"command: 'true'\nsandbox: {write: [/nowhere/at/all]}":       {env, "sandbox_path_invalid"},
		"command: 'true'\nsandbox: {read: [none], write: [~/none0]}": {env, "sandbox_path_invalid"},
	} {
		for _, mode := range []string{"once", "serve"} {
			src := open_(t, c.env, decl+"\ndescription: d\nmode: "+mode)
			_, err := only(t, src).Call(t.Context(), invocation(`{}`))
			if !fault.HasCode(err, c.code) || !tool.CertainlyNotDone(err) {
				t.Errorf("%s, %s: %v", decl, mode, err)
			}
		}
	}
}

func TestChanged(t *testing.T) {
	env := testEnv(t)
	changed := 0
	env.Changed = func() { changed++ }
	src := open_(t, env, behaving(t, "message", ""))
	spec := only(t, src).Spec()
	spec.Effect, spec.Delivery, spec.Asks = tool.Query, "", true // as if changed by a person
	if _, err := src.Tool(spec).Call(t.Context(), invocation(`{}`)); err != nil || changed != 0 {
		t.Errorf("%v, changed %d times", err, changed)
	}
	if got := src.Tool(spec).Spec(); got.Effect != tool.Query || !got.Asks {
		t.Errorf("%+v", got)
	}
	spec.Description = "Something else."
	if _, err := src.Tool(spec).Call(t.Context(), invocation(`{}`)); !fault.HasCode(err, "tool_changed") || !fault.Is(err, fault.Denied) || changed != 1 {
		t.Errorf("%v, changed %d times", err, changed)
	}
	src.env.Changed = nil
	spec.Name = "box.other"
	if _, err := src.Tool(spec).Call(t.Context(), invocation(`{}`)); !fault.HasCode(err, "tool_changed") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	for _, mode := range []string{"once", "serve"} {
		mark := fmt.Sprintf("82%06d", os.Getpid())
		src := open_(t, testEnv(t), behaving(t, "hangs", "args: ['"+mark+"']\nmode: "+mode))
		failed := make(chan error)
		go func() {
			_, err := only(t, src).Call(context.Background(), invocation(`{}`))
			failed <- err
		}()
		for len(running(mark)) == 0 {
			<-time.After(5 * time.Millisecond)
		}
		src.Close()
		if err := <-failed; !fault.HasCode(err, "process_closed") {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := only(t, src).Call(context.Background(), invocation(`{}`)); !fault.HasCode(err, "process_closed") || !tool.CertainlyNotDone(err) {
			t.Errorf("%s: called after the end: %v", mode, err)
		}
	}
}

func TestSandboxOfAProgram(t *testing.T) {
	must.Do(t, sandbox.Available())
	env := testEnv(t)
	outside := filepath.Join(t.TempDir(), "outside")
	script := "#!/bin/sh\nread -r line\nid=$(printf %s \"$line\" | sed 's/.*\"request_id\":\"\\([^\"]*\\)\".*/\\1/')\n" +
		"echo x > " + outside + " && said=wrote || said=kept\n" +
		"printf '{\"type\":\"result\",\"request_id\":\"%s\",\"status\":\"success\",\"message\":\"%s\"}\\n' \"$id\" \"$said\"\n"
	must.Do(t, os.WriteFile(filepath.Join(env.Dir, "tool.sh"), []byte(script), 0o755))
	for more, want := range map[string]string{"": "kept", "unsandboxed: true": "wrote", "sandbox: {write: [" + filepath.Dir(outside) + "]}": "wrote",
		"sandbox: {read: [" + filepath.Dir(outside) + "]}": "kept"} {
		src := open_(t, env, "command: ./tool.sh\ndescription: d\n"+more)
		if res, err := only(t, src).Call(t.Context(), invocation(`{}`)); err != nil || text(res) != want {
			t.Errorf("%s: %s, %v", more, text(res), err)
		}
	}
}
