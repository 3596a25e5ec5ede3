// Package cli is the command line: one run of the program, and the tree of its commands.
//
// The commands are in the packages below, by subject, with a file per group of commands:
//
//   - talk: chat, ask, plan, route, approvals, grants, jobs, setup
//   - conversations: conversations, messages, branch, search, import
//   - agents: agents, mcp, skills
//   - activity: log, requests, plans, intents, events, audit, resources
//   - access: users, groups, token, keys, secrets, policy
//   - node: serve, service, accounts, home, models, config, doctor
//
// Each has a function Commands, which returns its commands. Package command has what they share: the session
// with a Steward or with its data folder, output, flags and completions. A command connects to the API of the
// Steward that serves the data folder or, if there is none, opens as much of the folder as it needs in this
// process, and prints what the API answers.
//
// Main makes a program of the arguments and streams of the process. run builds the tree, has cobra find and
// run the command, prints its error, and turns it into an exit code. The first signal cancels the context of
// the command, which then ends gracefully; the second ends the process. What is written to a terminal goes
// through a screen that makes control characters visible.
//
// The help shows the commands in three groups (Talk, Keep, Look), by what a person does with them. The
// packages follow what the commands have in common in their code; they need not be the same.
//
// The tests here run the whole program, in this process or in one of its own (testdata/script). Tests of one
// command's parts are beside it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/access"
	"steward/internal/cli/activity"
	"steward/internal/cli/agents"
	"steward/internal/cli/command"
	"steward/internal/cli/conversations"
	"steward/internal/cli/documents"
	"steward/internal/cli/node"
	"steward/internal/cli/talk"
	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/terminal"
)

// program is one run of the program, with its connections to the outside world.
type program struct {
	command.Program
	signals <-chan os.Signal // nil: none come
	exit    func(int)        // ends the process at once
}

// run runs the program and returns its exit code.
func (a *program) run(ctx context.Context, args []string) int {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	a.Stdout, a.Stderr = app.Screened(a.Stdout), app.Screened(a.Stderr)
	defer func() {
		for _, w := range []io.Writer{a.Stdout, a.Stderr} {
			if s, ok := w.(*terminal.Screen); ok {
				s.Flush() //nolint:errcheck // the process ends
			}
		}
	}()
	if a.Stdin != nil {
		a.Stdin = &app.Input{Ctx: ctx, From: a.Stdin}
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	ran, err := root.ExecuteContextC(ctx)
	var code command.ExitCode
	switch {
	case err == nil:
		return command.ExitOK
	case errors.As(err, &code):
		return int(code)
	}
	if command.Interrupted(ctx, err) {
		err = fault.New(fault.Cancelled, "interrupted", "interrupted") // in place of the error that it caused
	}
	a.Explain(err, ran.CommandPath())
	var usage command.UsageError
	switch {
	case errors.As(err, &usage):
		return command.ExitUsage
	case errors.Is(context.Cause(ctx), command.ErrInterrupted):
		return command.ExitInterrupted
	}
	return command.ExitFailed
}

// interruptible returns a context that the first signal cancels, for a graceful end. The
// second signal ends the process at once.
func (a *program) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-a.signals:
			cancel(command.ErrInterrupted)
		case <-done:
			return
		}
		select {
		case <-a.signals:
			a.exit(command.ExitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
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
				return command.Usage("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
			}
			return command.Usage("there is no command %q", args[0])
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
			fmt.Fprintln(a.Stdout, "steward", a.VersionText())
			return nil
		}
		return c.Help()
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.Usage("%w", err) })
	f := root.PersistentFlags()
	f.StringVar(&a.Config, "config", "", "settings `FILE` to use instead of ./steward.yaml")
	f.StringVar(&a.Data, "data", "", "data `FOLDER`: the database and everything else that Steward stores")
	f.StringVar(&a.Model, "model", "", "`MODEL` to use: provider/model or an alias")
	f.StringArrayVar(&a.AgentFolders, "agents", nil, "additional `FOLDER` of agents")
	f.StringArrayVar(&a.MCPFiles, "mcp", nil, "additional JSON `FILE` with mcpServers")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print less on standard error")
	f.BoolVar(&a.JSON, "json", false, "print JSON, for programs")
	command.CompleteFlag(root, "model", a.CompleteModels)
	root.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"}, &cobra.Group{ID: "keep", Title: "Keep:"}, &cobra.Group{ID: "look", Title: "Look:"})
	p := &a.Program
	for _, commands := range [][]*cobra.Command{talk.Commands(p), conversations.Commands(p), documents.Commands(p), agents.Commands(p), activity.Commands(p), access.Commands(p), node.Commands(p)} {
		root.AddCommand(commands...)
	}
	root.AddCommand(a.versionCommand(), a.manCommand(root))
	command.Strict(root)
	return root
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
	a := &program{signals: signals, exit: os.Exit, Program: command.Program{Stdin: os.Stdin, Stdout: os.Stdout,
		App: app.App{Stderr: os.Stderr, Environ: os.Environ(), Version: version, Process: true}}}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
