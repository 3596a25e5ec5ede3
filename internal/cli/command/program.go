// Package command has what the commands of Steward share. The packages beside it have the commands
// themselves, and internal/cli joins them into one tree.
//
// # One run
//
// A Program is one run of the command line. It embeds app.App, which reads the settings and opens nodes, and
// adds the streams and the flag --json. A package of commands embeds a Program in a type of its own, named
// program, and makes its commands methods of that type. Nothing is kept between runs, and there is no state
// outside of the Program.
//
// # The session
//
// Nearly every command talks to the HTTP API, through a Session. If a Steward serves the data folder, the
// session is a connection to it. If none does, the session calls the same handlers in this process, over as
// much of the folder as the command needs. A command says how much that is with a Need: the database
// read-only, the database, the agents, or a node. So a command is written once, and does the same with and
// without a server.
//
// With opens a session, runs a function and closes the session. WithStored also refuses a folder in which
// nothing is stored. APICommand and StoredCommand make a command of such a function; ListCommand makes one
// that lists. Connect is for commands that keep a session open for long, such as a chat. Only one process has
// a data folder open for changes: a command that finds it in use joins the Steward that uses it, and waits
// briefly until that one has written down its address.
//
// # Output
//
// A command prints its result to standard output: JSON with --json, otherwise text. PrintList, PrintValue and
// PrintDone make that choice. Notes and progress go to standard error with Note, which --quiet silences. Table,
// Columns and Fields lay text out within the width of the terminal. Text from messages, tools and models goes
// through PlainLine or Indented first, because it may contain control characters.
//
// # Errors and exit codes
//
// A command returns its error, and the root prints it with Explain: what happened, what to do next, and the
// code. Usage makes an error in the command line, which ends the program with ExitUsage. An ExitCode is for a
// command that has already said what went wrong. Deleting asks first, with ConfirmDelete; without a terminal
// it requires --yes.
//
// # Flags and completions
//
// Group makes a command with subcommands. The number of arguments follows from the Use line of a command,
// which Strict checks for the whole tree. Offers completes with what the API lists; what several packages
// complete (conversations, users, tools, models) is in complete.go. Completion opens the database read-only
// if that is enough, and gives up after a few seconds, because a person waits at the prompt.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/terminal"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2   // the command line is wrong
	ExitBound       = 3   // ask: a limit cut the answer short
	ExitInterrupted = 130 // stopped by a signal
)

// Program is one run of the command line, with its connections to the outside world. Commands are methods of
// types that embed it.
type Program struct {
	app.App
	Stdin  io.Reader
	Stdout io.Writer
	JSON   bool // --json

	JoinFor time.Duration // how long another Steward may take to say where it serves; zero: joinPatience
}

// ExitCode is an error that has already been printed.
type ExitCode int

func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// UsageError is an error in the command line.
type UsageError struct{ error }

// Unwrap returns the error itself.
func (u UsageError) Unwrap() error { return u.error }

// Usage returns an error in the command line.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrInterrupted is the cause of a context that a signal has cancelled.
var ErrInterrupted = errors.New("interrupted")

// Interrupted reports whether an error is there because a signal has cancelled the context of a command.
func Interrupted(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), ErrInterrupted) &&
		(errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) || fault.Is(err, fault.Internal))
}

// Explain prints the error of a command: what happened, what to do next, and its code.
func (a *Program) Explain(err error, command string) {
	var use UsageError
	isUsage := errors.As(err, &use)
	e := fault.Of(err)
	if isUsage {
		e = fault.New(fault.Invalid, "usage", "%s", err.Error()).WithHint("%s --help shows the usage", command)
	}
	if a.JSON {
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
func (a *Program) printDimming(text, part string) {
	i := strings.LastIndex(text, part)
	if part == "" || i < 0 || !a.Colours(a.Stderr) {
		fmt.Fprint(a.Stderr, text)
		return
	}
	fmt.Fprint(a.Stderr, text[:i])
	fmt.Fprintf(app.FileOf(a.Stderr), "\x1b[2m%s\x1b[22m", PlainLine(part)) // what is written to stderr is escaped
	fmt.Fprint(a.Stderr, text[i+len(part):])
}

// Colours reports whether a stream is a terminal that shows colours, and the person wants them.
func (a *Program) Colours(stream any) bool {
	return app.IsTerminal(stream) && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// PrintJSON prints a value as JSON.
func (a *Program) PrintJSON(v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.Print(a.JSONText(b.String()))
}

// JSONText returns a JSON text for standard output. On a terminal, invisible characters
// are escaped.
func (a *Program) JSONText(text string) string {
	if app.IsTerminal(a.Stdout) {
		return terminal.EscapedJSON(text)
	}
	return text
}
