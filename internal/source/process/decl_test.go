package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

func TestAnnounce(t *testing.T) {
	src := open_(t, testEnv(t), `
command: [python3, main.py]
tools:
  - name: today
    description: The weather today.
    input: {properties: {city: {type: string}}, required: [city]}
    effect: query
    timeout: 5s
    yields: []
  - name: set_alarm
    description: Sets an alarm.
    asks: true
    async: true
    dedupes: true
    yields: [private, untrusted]
  - {name: later, description: Takes long., async_after: 2s}
`)
	a, err := src.Announce(context.Background())
	if err != nil || len(a.Specs) != 3 || len(a.Refused) != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	today, alarm, later := a.Specs[0], a.Specs[1], a.Specs[2]
	if today.Name != "box.today" || today.Effect != tool.Query || today.Timeout != 5*time.Second || today.Yields != 0 || today.Origin != "process:box" ||
		string(today.Input) != `{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}` {
		t.Errorf("%+v, %s", today, today.Input)
	}
	if alarm.Effect != tool.Action || !alarm.Asks || !alarm.Async || !alarm.Dedupes || alarm.Yields != message.Private|message.Untrusted ||
		string(alarm.Input) != `{"type":"object"}` {
		t.Errorf("%+v", alarm)
	}
	if later.AsyncAfter != 2*time.Second || later.Yields != message.Private|message.Untrusted || later.Out() {
		t.Errorf("%+v", later)
	}
	one := only(t, open_(t, testEnv(t), "command: 'true'\ndescription: One.\neffect: query\nasync_after: 1m\n")).Spec()
	if two := only(t, open_(t, testEnv(t), "command: 'true'\ndescription: One.\naction: count_words")).Spec(); two.Name != "box.count_words" {
		t.Errorf("%+v", two)
	}
	if one.Name != "box.run" || one.Description != "One." || one.Effect != tool.Query || one.AsyncAfter != time.Minute {
		t.Errorf("%+v", one)
	}
}

func TestBadDeclarations(t *testing.T) {
	const one = "\ndescription: d"
	for decl, want := range map[string]string{
		"description: d":                                                            "no command",
		"command: ''" + one:                                                         "no command",
		"command: [a, 1]" + one:                                                     "quote arguments",
		"command: {a: b}" + one:                                                     "no command",
		"command: a":                                                                "no tools",
		"command: a\nprotocol: mcp" + one:                                           "put it under mcp:",
		"command: a\nprotocol: grpc" + one:                                          "protocol",
		"command: a\nmode: twice" + one:                                             "once",
		"command: a\nidle: 5s" + one:                                                "mode: serve",
		"command: a\nmode: serve\nidle: -5s" + one:                                  "negative",
		"command: a\ntimeout: -5s" + one:                                            "negative",
		"command: a\ninput: text" + one:                                             "not an object",
		"command: a\ninput: {type: string}" + one:                                   "object",
		"command: a\neffect: both" + one:                                            "effect",
		"command: a\nyields: [odd]" + one:                                           "odd",
		"command: a\nenv: {'A B': c}" + one:                                         "variable",
		"command: a\nsecrets: [A=B]" + one:                                          "variable",
		"command: \"a\\0b\"" + one:                                                  "character",
		"command: ../a" + one:                                                       "outside the agent's folder",
		"command: ./../../a" + one:                                                  "outside the agent's folder",
		"command: a\nsandbox: {read: [../x]}" + one:                                 "outside the agent's folder",
		"command: a\nunsandboxed: true\nsandbox: {network: true}" + one:             "exclude each other",
		"command: a\ndescription: d\ntools: [{name: x, description: d}]":            "outside it",
		"command: a\ntools: [{name: X, description: d}]":                            "is not a tool name",
		"command: a\ntools: [{name: a__b, description: d}]":                         "is not a tool name",
		"command: a\ntools: [{name: x}]":                                            "description",
		"command: a\ntools: [{name: x, description: d}, {name: x, description: e}]": "two tools",
		"command: a\nspeed: 5" + one:                                                "speed",
	} {
		src, err := Open(testEnv(t), decoder(decl))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", decl, src, err, want)
		}
	}
	env := testEnv(t)
	env.Dir = ""
	if _, err := Open(env, decoder("command: ./a"+one)); !fault.HasCode(err, "process_declaration_invalid") {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	env := testEnv(t)
	for _, name := range []string{"main.py", "lib/a.py", "lib/b.py", "run.sh"} {
		path := filepath.Join(env.Dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	}
	other := filepath.Join(t.TempDir(), "tool")
	for decl, want := range map[string][]string{
		"command: ./run.sh":                                        {env.Dir + "/run.sh"},
		"command: [python3, main.py, --fast, lib]":                 {env.Dir + "/main.py"},
		"command: /usr/bin/env\nargs: [./run.sh]":                  {env.Dir + "/run.sh"},
		"command: " + other:                                        {other},
		"command: [sh, " + env.Dir + "/main.py, /etc/passwd]":      {env.Dir + "/main.py"},
		"command: ./run.sh\nfiles: ['lib/*.py', none.py, ../away]": {env.Dir + "/lib/a.py", env.Dir + "/lib/b.py", env.Dir + "/none.py", env.Dir + "/run.sh"},
		"command: ~/bin/x":                                         {must.Get(os.UserHomeDir()) + "/bin/x"},
	} {
		if got := open_(t, env, decl+"\ndescription: d").Files(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", decl, got, want)
		}
	}
	t.Chdir(filepath.Dir(env.Dir))
	near := env
	near.Dir = filepath.Base(env.Dir)
	if got := open_(t, near, "command: ./run.sh\ndescription: d").Files(); !slices.Equal(got, []string{env.Dir + "/run.sh"}) {
		t.Errorf("from a relative folder: %v", got)
	}
	free := env
	free.Dir = ""
	if got := open_(t, free, "command: [sh, main.py]\ndescription: d").Files(); len(got) != 0 {
		t.Error(got)
	}
}

func TestHooks(t *testing.T) {
	env := testEnv(t)
	script := func(name, body string) string {
		must.Do(t, os.WriteFile(filepath.Join(env.Dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
		return "command: ./" + name + "\n"
	}
	text := "shorter"
	ev := tool.HookEvent{On: tool.BeforeTool, Agent: "lab", User: "ann", Request: "r", Tool: "files.read", Args: []byte(`{"path":"x"}`)}
	for name, c := range map[string]struct {
		body, more string
		want       tool.HookAnswer
		code       string
	}{
		"lets be":       {"cat >/dev/null", "", tool.HookAnswer{}, ""},
		"does not read": {"exit 0", "", tool.HookAnswer{}, ""},
		"refuses":       {`grep -q '"on":"before_tool".*"tool":"files.read"' && echo '{"refuse":"no"}'`, "", tool.HookAnswer{Refuse: "no"}, ""},
		"narrows":       {`echo '{"args":{"path":"y"},"note":"n","text":"shorter"}'`, "", tool.HookAnswer{Args: []byte(`{"path":"y"}`), Note: "n", Text: &text}, ""},
		"concerns":      {`echo '{"refuse":"no"}'`, "tools: ['files.*']", tool.HookAnswer{Refuse: "no"}, ""},
		"concerns not":  {`echo '{"refuse":"no"}'`, "tools: ['mail.*', files.write]", tool.HookAnswer{}, ""},
		"has a secret":  {`echo "{\"note\":\"${#PASSWORD}\"}"`, "secrets: [PASSWORD]", tool.HookAnswer{Note: "8"}, ""},
		"crashes":       {"echo oh $PASSWORD >&2; exit 1", "secrets: [PASSWORD]", tool.HookAnswer{}, "hook_failed"},
		"babbles":       {"echo hello", "", tool.HookAnswer{}, "hook_failed"},
		"allows":        {`echo '{"allow":true}'`, "", tool.HookAnswer{}, "hook_failed"},
		"says it twice": {`echo '{"refuse":"","refuse":"x"}'`, "", tool.HookAnswer{}, "hook_failed"},
		"two answers":   {`echo '{}{"refuse":"x"}'`, "", tool.HookAnswer{}, "hook_failed"},
		"floods":        {"head -c 2000000 /dev/zero", "", tool.HookAnswer{}, "hook_failed"},
		"hangs":         {"sleep 60 & sleep 60", "timeout: 1s", tool.HookAnswer{}, "hook_failed"},
		"is in need":    {"", "secrets: [OTHER]", tool.HookAnswer{}, "process_secret_missing"},
		"is not there":  {"", "args: []\nfiles: []\nsandbox: {read: [/nowhere]}", tool.HookAnswer{}, "sandbox_path_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			file := strings.ReplaceAll(name, " ", "_")
			if !strings.Contains(c.more, "timeout") {
				c.more += "\ntimeout: " + ample.String()
			}
			h := must.Get(OpenHook(env, decoder(script(file, c.body)+c.more)))
			defer h.Close()
			got, err := h.Fire(t.Context(), ev)
			if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) || strings.Contains(fmt.Sprint(err), "hunter22") {
				t.Errorf("%v", err)
			}
			if fmt.Sprintf("%s %s %s", got.Refuse, got.Note, got.Args) != fmt.Sprintf("%s %s %s", c.want.Refuse, c.want.Note, c.want.Args) ||
				(got.Text == nil) != (c.want.Text == nil) || got.Text != nil && *got.Text != text {
				t.Errorf("%+v", got)
			}
			if got := h.Files(); !slices.Equal(got, []string{filepath.Join(env.Dir, file)}) {
				t.Errorf("files: %v", got)
			}
		})
	}
	for decl, want := range map[string]string{"timeout: 1s": "command", "command: a\ntimeout: -1s": "negative", "command: a\ntools: ['[']": "pattern",
		"command: ../a": "folder", "command: a\nmode: serve": "mode"} {
		if _, err := OpenHook(env, decoder(decl)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", decl, err)
		}
	}
	h := must.Get(OpenHook(env, decoder(script("slow", "sleep 600")+"timeout: "+ample.String())))
	fired := make(chan error, 1)
	go func() {
		_, err := h.Fire(t.Context(), ev)
		fired <- err
	}()
	slow := filepath.Join(env.Dir, "slow")
	for len(running(slow)) == 0 {
		select {
		case err := <-fired:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	h.Close()
	if left := running(slow); len(left) > 0 {
		t.Errorf("it runs on after the end: %v", left)
	}
	if err := <-fired; !fault.HasCode(err, "hook_failed") {
		t.Error(err)
	}
	if _, err := h.Fire(t.Context(), ev); err == nil {
		t.Error("fired after the end")
	}
}

// Scripts that lie outside of the agent's folder are pinned, wherever the command names them, and code is looked
// for beside them.
func TestScriptsElsewhereArePinned(t *testing.T) {
	env, other := testEnv(t), must.Get(filepath.EvalSymlinks(t.TempDir()))
	script, data := filepath.Join(other, "x.py"), filepath.Join(other, "data.csv")
	must.Do(t, os.WriteFile(script, nil, 0o644))
	must.Do(t, os.WriteFile(data, nil, 0o644))
	src := open_(t, env, fmt.Sprintf("command: [python3, %q, %q]\ndescription: One.\nunsandboxed: true\n", script, data))
	folders := src.Code().Folders
	if got := src.Files(); !slices.Equal(got, []string{script}) || !slices.Equal(folders, []string{other}) {
		t.Errorf("%q %q", got, folders)
	}
}
