// Package shell runs commands and programs of the model's own in the sandbox: the workspace is theirs to
// write, the rest of the user's files does not exist for them, and without hosts in the settings there is
// no network.
package shell

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	json "github.com/go-json-experiment/json"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Options say where commands run. Workspace is required.
type Options struct {
	Workspace string         // absolute; made at the first use
	Hosts     []string       // that commands may connect to; none: no network
	Hide      []string       // folders and files that no command may see
	For       *tool.Audience // who may use the tools; nil: everybody
	// Skill returns the folder of a skill as it was approved; NotFound: there is none of that name. nil: there are none.
	Skill  func(ctx context.Context, name string) (folder string, err error)
	Limits sandbox.Limits
	Log    *slog.Logger
}

// skillNames finds the skills whose files a command or a program names: /skills/NAME/….
var skillNames = regexp.MustCompile(`/skills/([a-z0-9-]{1,64})`)

// Limits of a call.
const (
	defaultTimeout = 2 * time.Minute
	maxTimeout     = time.Hour
	background     = 20 * time.Second // a call that takes longer continues in the background
	maxCode        = 256 << 10
)

type shellArgs struct {
	Command string `json:"command" jsonschema:"the command line, for bash" minlen:"1" maxlen:"16384"`
	Folder  string `json:"folder,omitzero" jsonschema:"the folder inside the workspace to run it in; the workspace itself unless given" maxlen:"1024"`
	Timeout int    `json:"timeout,omitzero" jsonschema:"seconds after which it is ended; 120 unless given" min:"1" max:"3600"`
}

type codeArgs struct {
	Language string `json:"language" jsonschema:"the language of the code" enum:"python,javascript"`
	Code     string `json:"code" jsonschema:"the program; print what is to be known" minlen:"1" maxlen:"262144"`
	Folder   string `json:"folder,omitzero" jsonschema:"the folder inside the workspace to run it in; the workspace itself unless given" maxlen:"1024"`
	Timeout  int    `json:"timeout,omitzero" jsonschema:"seconds after which it is ended; 120 unless given" min:"1" max:"3600"`
}

// Tools returns shell.run and code.run. Error codes: those of egress.List.
func Tools(opt Options) ([]tool.Tool, error) {
	network, err := egress.List(opt.Hosts...)
	if err != nil {
		return nil, err
	}
	r := &runner{opt: opt, network: network}
	spec := tool.Spec{Effect: tool.Action, Version: "1", Yields: message.Private | message.Untrusted, Reach: tool.ReachHere, For: opt.For,
		Timeout: maxTimeout, AsyncAfter: background}
	net := "There is no network."
	if len(opt.Hosts) > 0 {
		spec.Reach, net = tool.ReachOut, "It may connect to "+strings.Join(opt.Hosts, ", ")+"."
	}
	shell, code := spec, spec
	shell.Name, shell.Log = "shell.run", tool.LogSpec{Summary: "Run {command}", Does: "runs a command in the sandbox"}
	shell.Description = "Runs a shell command in the workspace, in a sandbox, and returns its output and exit code. A long one continues in the background. " + net
	code.Name, code.Log = "code.run", tool.LogSpec{Summary: "Run {language} code, {code:lines}", Does: "runs a program in the sandbox"}
	code.Description = "Runs a Python or JavaScript program in the workspace, in a sandbox, and returns what it prints. Use it for calculations and to work on files. " + net
	if r.Tool, err = tool.New(shell, r.shell); err != nil {
		return nil, err
	}
	c, err := tool.New(code, r.code)
	return []tool.Tool{r, coder{local.Layer{Tool: c}}}, err
}

// runner is shell.run.
type runner struct {
	local.Layer
	opt     Options
	network egress.Rule
}

// Preview implements tool.Previewer: it names each command of a line that has several, and says whether
// there is anything that the line does not show.
func (r *runner) Preview(_ context.Context, in tool.Invocation) (string, error) {
	var a shellArgs
	if err := json.Unmarshal(in.Args, &a); err != nil {
		return "", fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %w", err)
	}
	list, ok := Commands(a.Command)
	if ok && len(list) == 1 {
		return "", nil
	}
	var b strings.Builder
	if len(list) > 0 {
		b.WriteString("It runs:\n")
	}
	for i, c := range list {
		fmt.Fprintf(&b, "%d. %s\n", i+1, c)
	}
	if !ok {
		b.WriteString("Read it carefully: it may set variables, write to a file, or run what these lines do not show. No standing approval covers it.\n")
	}
	return b.String(), nil
}

func (r *runner) shell(ctx context.Context, in tool.Invocation, a shellArgs) (tool.Result, error) {
	// Both streams go one way, in the order in which they are written.
	return r.run(ctx, in, a.Folder, a.Timeout, a.Command, "", "bash", "--noprofile", "--norc", "-c", `exec 2>&1; eval "$1"`, "shell", a.Command)
}

func (r *runner) code(ctx context.Context, in tool.Invocation, a codeArgs) (tool.Result, error) {
	program := map[string]string{"python": "python3", "javascript": "node"}[a.Language]
	return r.run(ctx, in, a.Folder, a.Timeout, a.Code, a.Code, "sh", "-c", `exec "$0" - 2>&1`, program)
}

// skills returns what is shown to a text that names files of skills: the approved copies, read-only, by
// where they are found. It refuses a skill whose files are not what was approved.
func (r *runner) skills(ctx context.Context, text string) (map[string]string, error) {
	shown := map[string]string{}
	for _, m := range skillNames.FindAllStringSubmatch(text, -1) {
		if r.opt.Skill == nil || shown[m[0]] != "" {
			continue
		}
		folder, err := r.opt.Skill(ctx, m[1])
		switch {
		case fault.Is(err, fault.NotFound): // some other folder is called so
		case err != nil:
			return nil, tool.NotDone(err)
		default:
			shown[m[0]] = folder
		}
	}
	return shown, nil
}

// folder returns the absolute path of a folder of the workspace, which it makes if need be.
func (r *runner) folder(name string) (string, error) {
	if err := os.MkdirAll(r.opt.Workspace, 0o755); err != nil {
		return "", fault.New(fault.Unavailable, "workspace_unavailable", "the workspace cannot be created: %w", err).WithHint("make sure that Steward may write there, or set workspace")
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "workspace/"), "./")
	if name == "" || name == "workspace" {
		name = "."
	}
	root, err := os.OpenRoot(r.opt.Workspace)
	if err != nil {
		return "", fault.New(fault.Unavailable, "workspace_unavailable", "the workspace cannot be opened: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name) // it refuses links that lead out
	if err != nil || !info.IsDir() {
		return "", fault.New(fault.Invalid, "folder_invalid", "the workspace has no folder %q", name).WithHint("name a folder inside the workspace, or none")
	}
	return filepath.Join(r.opt.Workspace, name), nil
}

// run runs a program in the sandbox to its end, and shows it the skills that a text names.
func (r *runner) run(ctx context.Context, in tool.Invocation, folder string, seconds int, text, input, program string, args ...string) (tool.Result, error) {
	skills, err := r.skills(ctx, text)
	if err != nil {
		return tool.Result{}, err
	}
	dir, err := r.folder(folder)
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	limit := defaultTimeout
	if seconds > 0 {
		limit = time.Duration(seconds) * time.Second
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	p, err := sandbox.Start(ctx, sandbox.Command{Path: program, Args: args, Dir: dir, Name: "shell", Log: r.opt.Log,
		Network: r.network, Write: []string{r.opt.Workspace}, Instead: skills, Hide: r.opt.Hide, Limits: r.opt.Limits})
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		// A program that ends before it has read everything says so by its exit code.
		_, _ = p.Stdin.Write([]byte(input))
		_ = p.Stdin.Close()
	}()
	out := output{report: in.Report, now: time.Now}
	out.drain(p.Stdout)
	err = p.Wait()
	<-fed
	return result(ctx, limit, out.String(), err)
}

// result returns the output and how the program ended. The effects of a failed program remain, so the
// output of a program that was stopped or ended is a result, which says so.
func result(ctx context.Context, limit time.Duration, text string, err error) (tool.Result, error) {
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	if err == nil {
		return tool.Text(text + "\n[exit code 0]"), nil
	}
	f := fault.Of(err)
	if code, ok := f.Details["exit_code"]; ok && f.Code == "program_failed" {
		return tool.Text(fmt.Sprintf("%s\n[exit code %v]", text, code)), nil
	}
	if ctx.Err() == context.DeadlineExceeded {
		f = fault.New(fault.Timeout, "command_timeout", "it was stopped after %v", limit)
	}
	out := tool.Text(fmt.Sprintf("%s\n[It did not end by itself: %s]", text, f.Message))
	if out.Failed = true; ctx.Err() == context.Canceled {
		out = tool.Text(text + "\n[It was stopped.]")
		out.Stopped = true
	}
	return out, nil
}
