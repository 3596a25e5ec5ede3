package shell

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"mvdan.cc/sh/v3/syntax"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/test/must"
	_ "steward/test/seed"
)

func TestMain(m *testing.M) {
	if code, mine := sandbox.Inside(os.Args); mine {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // separated by " | "
		ok   bool
	}{
		{`git status`, "git status", true},
		{`git status; rm -rf /`, "git status | rm -rf /", true},
		{`git status && rm -rf / || ls`, "git status | rm -rf / | ls", true},
		{`git log | head -5 |& wc -l`, "git log | head -5 | wc -l", true},
		{"git status\nrm x", "git status | rm x", true},
		{`git status & rm x`, "git status | rm x", true},
		{`(cd x; { rm y; })`, "cd x | rm y", true},
		{`if a; then b; elif c; then d; else e; fi`, "a | b | c | d | e", true},
		{`while true; do rm x; done`, "true | rm x", true},
		{`! git status`, "git status", true},
		{`git status 2>&1 >/dev/null </dev/null`, "git status", true},
		{`"git" 'sta'"tus"`, "git status", true},
		{`git commit -m "a; rm -rf /"`, "git commit -m 'a; rm -rf /'", true},
		{`git" status"`, "'git status'", true},
		{`git log $(rm x)`, "rm x | git log $(rm x)", true},
		{"git log `rm x`", "rm x | git log $(rm x)", true},
		{`git log "a $(rm x) b"`, `rm x | git log "a $(rm x) b"`, true},
		{`git show $HEAD "${X}" *.go`, `git show $HEAD "${X}" *.go`, true},
		{`echo a # rm x`, "echo a", true}, {`make2 x`, "make2 x", true},

		{``, "", false}, {`# only a comment`, "", false}, {`git 'status`, "", false}, {`git status )`, "", false},
		{`$X status`, `$X status`, false}, {`"$(echo rm)" x`, `echo rm | "$(echo rm)" x`, false}, {`g\it x`, `g\it x`, false}, {`{rm,-rf,x}`, `{rm,-rf,x}`, false},
		{`X=1 git status`, "git status", false}, {`PATH=/evil; git status`, "git status", false}, {`export PATH=/evil`, "", false},
		{`git() { rm x; }; git status`, "git status", false}, {`eval "rm x"`, "eval 'rm x'", false}, {`. ./x`, ". ./x", false}, {`/usr/bin/env rm x`, "/usr/bin/env rm x", false},
		{`bash -c 'rm x'`, "bash -c 'rm x'", false}, {`echo x | sh`, "echo x | sh", false}, {`find . | xargs rm`, "find . | xargs rm", false},
		{`git log > ~/.bashrc`, "git log", false}, {`git log >> x`, "git log", false}, {`git log &> x`, "git log", false}, {`cat < /etc/passwd`, "cat", false},
		{"python3 <<END\nimport os\nEND", "python3", false}, {`cat <<< x`, "cat", false}, {`> x`, "", false}, {`git status {x}>y`, "git status", false},
		{`git log <(rm x)`, "git log <(rm x)", false}, {`git log ${x:=y}`, "git log ${x:=y}", false}, {`git log ${x@P}`, "git log ${x@P}", false}, {`git log ${!x}`, "git log ${!x}", false},
		{`git log $((x=1))`, "git log $((x = 1))", false}, {`git log $'\x41'`, `git log $'\x41'`, false}, {`for PATH in x; do git status; done`, "", false},
		{`case x in x) rm y;; esac`, "", false}, {`[[ -e x ]]`, "", false}, {`((x=1))`, "", false}, {`let x=1`, "", false}, {`time rm x`, "", false}, {`coproc rm x`, "", false},
	} {
		list, ok := Commands(c.line)
		if got := strings.Join(list, " | "); ok != c.ok || got != c.want && (c.ok || c.want != "") {
			t.Errorf("%s: %q, %v", c.line, got, ok)
		}
	}
}

// What the analysis says is a command is one, and it says the same again.
func FuzzCommands(f *testing.F) {
	for _, s := range []string{"git status; rm x", "a $(b) | c 2>&1", `"a"'b'\c`, "if a; then b; fi", "a <<E\nE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		list, ok := Commands(line)
		if !ok {
			return
		}
		for _, c := range list {
			file, err := syntax.NewParser().Parse(strings.NewReader(c), "")
			if err != nil || len(file.Stmts) != 1 {
				t.Fatalf("%q has the part %q, which is no command: %v", line, c, err)
			}
			if _, isCall := file.Stmts[0].Cmd.(*syntax.CallExpr); !isCall {
				t.Fatalf("%q has the part %q, which is no simple command", line, c)
			}
		}
	})
}

func kit(t *testing.T) (workspace string, run func(name, args string) (string, error)) {
	t.Helper()
	base := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(base, "secret.txt"), []byte("the secret"), 0o600))
	workspace = filepath.Join(base, "work")
	reg := &tool.Registry{}
	for _, tl := range must.Get(Tools(Options{Workspace: workspace, Skill: skillIn(base)})) {
		must.Do(t, reg.Add(tl))
	}
	return workspace, func(name, args string) (string, error) {
		tl, _ := reg.Get(name)
		res, err := tl.Call(t.Context(), tool.Invocation{Args: []byte(args), Key: "k", User: "ann"})
		if err != nil {
			return "", err
		}
		return res.Content[0].(*message.Text).Text, nil
	}
}

// skillIn finds the skill "sums" in a folder, and one that was changed.
func skillIn(base string) func(context.Context, string) (string, error) {
	return func(_ context.Context, name string) (string, error) {
		switch name {
		case "sums":
			return filepath.Join(base, "skills", "sums"), nil
		case "changed":
			return "", fault.New(fault.Conflict, "skill_changed", "it has changed")
		}
		return "", fault.New(fault.NotFound, "skill_not_found", "there is none")
	}
}

// A command finds the files of an approved skill that it names, and cannot change them.
func TestSkillsRun(t *testing.T) {
	workspace, run := kit(t)
	if sandbox.Available() != nil {
		return // TestRun asserts what happens then
	}
	files := filepath.Join(filepath.Dir(workspace), "skills", "sums")
	must.Do(t, os.MkdirAll(filepath.Join(files, "scripts"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(files, "scripts", "add.sh"), []byte("echo $(($1 + $2))\n"), 0o600))
	must.Do(t, os.MkdirAll(filepath.Join(workspace, "skills", "other"), 0o700))
	for command, want := range map[string]string{
		"sh /skills/sums/scripts/add.sh 40 2":       "42\n[exit code 0]",
		"echo x > /skills/sums/scripts/add.sh":      "Read-only file system",
		"rm -r /skills/sums":                        "Read-only file system",
		"ls /skills":                                "No such file",
		"cd \"$PWD/skills/other\" && basename $PWD": "other\n[exit code 0]",
	} {
		if got, err := run("shell.run", string(must.Get(json.Marshal(map[string]string{"command": command})))); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
	if got, err := run("code.run", `{"language":"python","code":"import subprocess\nprint(subprocess.run(['sh','/skills/sums/scripts/add.sh','1','2'],capture_output=True,text=True).stdout)"}`); err != nil || !strings.Contains(got, "3\n") && !strings.Contains(got, "not found") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := run("shell.run", `{"command":"sh /skills/changed/x.sh"}`); !fault.HasCode(err, "skill_changed") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	workspace, run := kit(t)
	if err := sandbox.Available(); err != nil {
		if _, got := run("shell.run", `{"command":"true"}`); !fault.HasCode(got, "sandbox_unavailable") || !tool.CertainlyNotDone(got) {
			t.Errorf("%v", got)
		}
		return
	}
	must.Do(t, os.MkdirAll(filepath.Join(workspace, "sub"), 0o755))
	for _, c := range []struct{ name, args, want string }{
		{"shell.run", `{"command":"echo out; echo err >&2; echo more"}`, "out\nerr\nmore\n[exit code 0]"},
		{"shell.run", `{"command":"exit 3"}`, "(no output)\n[exit code 3]"},
		{"shell.run", `{"command":"echo 'unfinished"}`, "[exit code "},
		{"shell.run", `{"command":"basename $PWD; echo hi > made","folder":"sub"}`, "sub\n[exit code 0]"},
		{"shell.run", `{"command":"cat ../secret.txt"}`, "No such file"},
		{"shell.run", `{"command":"cat"}`, "(no output)\n[exit code 0]"},
		{"shell.run", `{"command":"(exec 3<>/dev/tcp/127.0.0.1/22) || echo unreachable"}`, "unreachable"},
		{"shell.run", `{"command":"echo begun; sleep 600","timeout":1}`, "begun\n[It did not end by itself: it was stopped after 1s]"},
		{"shell.run", `{"command":"printf '\\033[2Jx\\007'"}`, "[2Jx\n[exit code 0]"},
		{"shell.run", `{"command":"head -c 3000000 /dev/zero | tr '\\0' 'x\\n'; echo; seq 100000"}`, "bytes left out"},
	} {
		got, err := run(c.name, c.args)
		if err != nil || !strings.Contains(got, c.want) || len(got) > maxHead+maxTail+200 {
			t.Errorf("%s: %.300q (%d), %v", c.args, got, len(got), err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(workspace, "sub", "made")); err != nil || string(b) != "hi\n" {
		t.Errorf("%q, %v", b, err)
	}
	must.Do(t, os.Symlink("..", filepath.Join(workspace, "up")))
	for _, folder := range []string{"..", "/etc", "none", "sub/made", "up", "sub/../.."} {
		_, err := run("shell.run", `{"command":"pwd","folder":"`+folder+`"}`)
		if !fault.HasCode(err, "folder_invalid") || !tool.CertainlyNotDone(err) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	// python3 and node may be missing in the sandbox; the answer then says so.
	for _, c := range []struct{ args, want string }{{`{"language":"python","code":"print(6*7)"}`, "42\n[exit code 0]"}, {`{"language":"javascript","code":"console.log(6*7)"}`, "42\n[exit code 0]"}} {
		if got, err := run("code.run", c.args); err != nil || !strings.Contains(got, c.want) && !strings.Contains(got, "not found") {
			t.Errorf("%s: %q, %v", c.args, got, err)
		}
	}
	if _, err := run("code.run", `{"language":"cobol","code":"x"}`); !fault.HasCode(err, "args_invalid") {
		t.Error(err)
	}
}

func TestPreview(t *testing.T) {
	r := &runner{}
	for line, want := range map[string]string{
		"git status":     "",
		"git log | head": "It runs:\n1. git log\n2. head\n",
		"eval x":         "It runs:\n1. eval x\nRead it carefully: it may set variables, write to a file, or run what these lines do not show. No standing approval covers it.\n",
	} {
		got, err := r.Preview(t.Context(), tool.Invocation{Args: must.Get(json.Marshal(map[string]string{"command": line}))})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

func TestOutputIsReportedAndBounded(t *testing.T) {
	var said []string
	now := time.Unix(100, 0)
	o := output{report: func(p tool.Progress) { said = append(said, p.Message) }, now: func() time.Time { return now }}
	for i := range 5 {
		o.add([]byte(strings.Repeat("x", 10000) + "\nline " + string(rune('a'+i)) + "\n"))
		now = now.Add(500 * time.Millisecond)
	}
	if strings.Join(said, ",") != "line a,line c,line e" {
		t.Errorf("%q", said)
	}
	if got := o.String(); len(got) > maxHead+maxTail+100 || !strings.HasSuffix(got, "line e") || !strings.Contains(got, "bytes left out") {
		t.Errorf("%d", len(got))
	}
}

// The result of a command that did not end by itself is no success.
func TestTheResultSaysHowACommandEnded(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	late, end := context.WithDeadline(t.Context(), time.Time{})
	defer end()
	killed := fault.New(fault.Cancelled, "program_killed", "the program was ended")
	code := fault.New(fault.Invalid, "program_failed", "it failed").Detail("exit_code", 3)
	for _, c := range []struct {
		ctx             context.Context
		err             error
		want            string
		failed, stopped bool
	}{
		{t.Context(), nil, "begun\n[exit code 0]", false, false},
		{t.Context(), code, "begun\n[exit code 3]", false, false},
		{stopped, killed, "begun\n[It was stopped.]", false, true},
		{late, killed, "begun\n[It did not end by itself: it was stopped after 1s]", true, false},
		{t.Context(), killed, "begun\n[It did not end by itself: the program was ended]", true, false},
	} {
		res, err := result(c.ctx, time.Second, "begun", c.err)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Content[0].(*message.Text).Text; got != c.want || res.Failed != c.failed || res.Stopped != c.stopped {
			t.Errorf("%q, failed %v, stopped %v: want %+v", got, res.Failed, res.Stopped, c)
		}
	}
}
