// Package cli is the command line: a file per group of commands. A command connects to the API
// of the Steward that serves the data folder or, if there is none, opens as much of the folder as
// it needs in this process (session.go), and prints what the API answers.
//
// program is one run of the command line. It embeds app.App, which reads the settings and opens
// nodes; commands are its methods, and program.go puts them into one tree.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/terminal"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // the command line is wrong
	exitBound       = 3   // ask: a limit cut the answer short
	exitInterrupted = 130 // stopped by a signal
)

// program is one run of the program, with its connections to the outside world.
type program struct {
	app.App
	stdin   io.Reader
	stdout  io.Writer
	signals <-chan os.Signal // nil: none come
	exit    func(int)        // ends the process at once
	agent   string           // --agent: the agent to talk to
	json    bool             // --json

	startFor time.Duration // how long a service may take to serve; zero: serviceStartFor
	joinFor  time.Duration // how long another Steward may take to say where it serves; zero: joinPatience
}

// run runs the program and returns its exit code.
func (a *program) run(ctx context.Context, args []string) int {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	a.stdout, a.Stderr = app.Screened(a.stdout), app.Screened(a.Stderr)
	defer func() {
		for _, w := range []io.Writer{a.stdout, a.Stderr} {
			if s, ok := w.(*terminal.Screen); ok {
				s.Flush() //nolint:errcheck // the process ends
			}
		}
	}()
	if a.stdin != nil {
		a.stdin = &app.Input{Ctx: ctx, From: a.stdin}
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.Stderr)
	ran, err := root.ExecuteContextC(ctx)
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	interrupted := errors.Is(context.Cause(ctx), errInterrupted)
	if interrupted && (errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) || fault.Is(err, fault.Internal)) {
		err = fault.New(fault.Cancelled, "interrupted", "interrupted") // in place of the error that it caused
	}
	a.explain(err, ran.CommandPath())
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case interrupted:
		return exitInterrupted
	}
	return exitFailed
}

// exitCode is an error that has already been printed.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is an error in the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that the first signal cancels, for a graceful end. The
// second signal ends the process at once.
func (a *program) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-a.signals:
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-a.signals:
			a.exit(exitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

// explain prints the error of a command: what happened, what to do next, and its code.
func (a *program) explain(err error, command string) {
	var use usageError
	isUsage := errors.As(err, &use)
	e := fault.Of(err)
	if isUsage {
		e = fault.New(fault.Invalid, "usage", "%s", err.Error()).WithHint("%s --help shows the usage", command)
	}
	if a.json {
		body := map[string]any{"code": e.Code, "kind": e.Kind, "message": a.Hidden().Mask(app.WithoutRemedy(e))}
		if e.Remedy != "" {
			body["remedy"] = e.Remedy
		}
		if len(e.Details) > 0 {
			body["details"] = e.Details
		}
		if err := json.NewEncoder(a.Stderr).Encode(map[string]any{"error": body}); err != nil {
			fmt.Fprintln(a.Stderr, "steward:", err)
		}
		return
	}
	code := ""
	if !isUsage && e.Code != e.Message {
		code = " [" + e.Code + "]"
	}
	if log := a.Lines(); log != nil {
		log.Error(app.WithoutRemedy(e), "code", e.Code, "remedy", e.Remedy)
		return
	}
	a.printDimming(a.Wrapped(fmt.Sprintf("steward: %s%s", a.Hidden().Mask(app.WithoutRemedy(e)), code))+"\n", strings.TrimSpace(code))
	if e.Remedy != "" {
		fmt.Fprintln(a.Stderr, a.Wrapped("  "+e.Remedy))
	}
}

// printDimming writes a text to standard error. The last occurrence of part is dimmed where a terminal shows
// colours.
func (a *program) printDimming(text, part string) {
	i := strings.LastIndex(text, part)
	if part == "" || i < 0 || !a.colours(a.Stderr) {
		fmt.Fprint(a.Stderr, text)
		return
	}
	fmt.Fprint(a.Stderr, text[:i])
	fmt.Fprintf(app.FileOf(a.Stderr), "\x1b[2m%s\x1b[22m", plainLine(part)) // what is written to stderr is escaped
	fmt.Fprint(a.Stderr, text[i+len(part):])
}

// colours reports whether a stream is a terminal that shows colours, and the person wants them.
func (a *program) colours(stream any) bool {
	return app.IsTerminal(stream) && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// command builds the tree of commands.
func (a *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "steward",
		Short: "A self-hosted agent runtime",
		Long: "Steward gives language models tools, keeps every conversation durably, and does nothing\n" +
			"in the outside world that you have not allowed. Without an API key or a local model it\n" +
			"answers with its offline provider.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				return usage("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
			}
			return usage("there is no command %q", args[0])
		},
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		DisableAutoGenTag:          true,
	}
	// Cobra's own flag executes a template. Templates make the linker keep every
	// method of every type, a tenth of the binary.
	version := root.Flags().BoolP("version", "v", false, "version for steward")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			fmt.Fprintln(a.stdout, "steward", a.VersionText())
			return nil
		}
		return c.Help()
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := root.PersistentFlags()
	f.StringVar(&a.Config, "config", "", "settings `FILE` to use instead of ./steward.yaml")
	f.StringVar(&a.Data, "data", "", "data `FOLDER`: the database and everything else that Steward stores")
	f.StringVar(&a.Model, "model", "", "`MODEL` to use: provider/model or an alias")
	f.StringArrayVar(&a.AgentFolders, "agents", nil, "additional `FOLDER` of agents")
	f.StringArrayVar(&a.MCPFiles, "mcp", nil, "additional JSON `FILE` with mcpServers")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print less on standard error")
	f.BoolVar(&a.json, "json", false, "print JSON, for programs")
	complete(root, "model", a.completeModels)
	root.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"}, &cobra.Group{ID: "keep", Title: "Keep:"}, &cobra.Group{ID: "look", Title: "Look:"})
	root.AddCommand(a.chatCommand(), a.askCommand(), a.planCommand(), a.setupCommand(), a.serveCommand(), a.serviceCommand(),
		a.conversationsCommand(), a.messagesCommand(), a.branchCommand(), a.importCommand(), a.searchCommand(), a.agentsCommand(), a.mcpCommand(), a.approvalsCommand(), a.grantsCommand(), a.tokenCommand(), a.keysCommand(), a.secretsCommand(), a.accountsCommand(), a.channelsCommand(), a.pairCommand(), a.unpairCommand(), a.skillsCommand(), a.usersCommand(), a.groupsCommand(), a.resourcesCommand(),
		a.logCommand(), a.auditCommand(), a.policyCommand(), a.eventsCommand(), a.requestsCommand(), a.plansCommand(), a.routeCommand(), a.intentsCommand(), a.modelsCommand(), a.configCommand(), a.doctorCommand(), a.versionCommand(), a.manCommand(root))
	strict(root)
	return root
}

// printJSON prints a value as JSON.
func (a *program) printJSON(v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.print(a.jsonText(b.String()))
}

// jsonText returns a JSON text for standard output. On a terminal, invisible characters
// are escaped.
func (a *program) jsonText(text string) string {
	if app.IsTerminal(a.stdout) {
		return terminal.EscapedJSON(text)
	}
	return text
}

// Main runs the program with the arguments and streams of the process, and ends the process.
// version is the version that the linker set.
func Main(version string) {
	if code, mine := sandbox.Inside(os.Args); mine { // started by Steward itself, around a confined program
		os.Exit(code)
	}
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine { // started to read a document
		os.Exit(code)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	a := &program{stdin: os.Stdin, stdout: os.Stdout, signals: signals, exit: os.Exit, App: app.App{Stderr: os.Stderr, Environ: os.Environ(), Version: version, Process: true}}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
