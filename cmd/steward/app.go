package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/settings"
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

// app is one run of the program, with its connections to the outside world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	dir            string // the current folder; empty: the process's
	version        string
	signals        <-chan os.Signal // nil: none come
	exit           func(int)        // ends the process at once
	serving        bool             // the command is serve
	process        bool             // the process is this program's alone, and so are the logs of libraries

	// Global flags.
	config, data, model string
	agent               string // the agent to talk to
	quiet, json         bool
	agentFolders        []string // besides those of the settings
	alsoPrivate         []string // besides the places of these settings
	mcpFiles            []string

	knockFor, listFor time.Duration // limits of the search for models; zero: knockTimeout, listTimeout

	idle  bool            // do not resume interrupted work
	flags []settings.Flag // the command's flags that are settings
	set   *settings.Loaded

	masker      *secret.Masker         // hides the secrets of this run; see hidden
	credentials map[string]*credential // of providers, whose keys may be replaced while Steward runs
}

// run runs the program and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	a.stdout, a.stderr = screened(a.stdout), screened(a.stderr)
	defer func() {
		for _, w := range []io.Writer{a.stdout, a.stderr} {
			if s, ok := w.(*terminal.Screen); ok {
				s.Flush() //nolint:errcheck // nobody is left to tell
			}
		}
	}()
	if a.stdin != nil {
		a.stdin = &input{ctx: ctx, from: a.stdin}
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
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
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
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
func (a *app) explain(err error, command string) {
	var use usageError
	isUsage := errors.As(err, &use)
	e := fault.Of(err)
	if isUsage {
		e = fault.New(fault.Invalid, "usage", "%s", err.Error()).WithHint("%s --help shows what there is", command)
	}
	if a.json {
		body := map[string]any{"code": e.Code, "kind": e.Kind, "message": a.hidden().Mask(withoutRemedy(e))}
		if e.Remedy != "" {
			body["remedy"] = e.Remedy
		}
		if len(e.Details) > 0 {
			body["details"] = e.Details
		}
		if err := json.NewEncoder(a.stderr).Encode(map[string]any{"error": body}); err != nil {
			fmt.Fprintln(a.stderr, "steward:", err)
		}
		return
	}
	code := ""
	if !isUsage && e.Code != e.Message {
		code = " [" + e.Code + "]"
	}
	if log := a.lines(); log != nil {
		log.Error(withoutRemedy(e), "code", e.Code, "remedy", e.Remedy)
		return
	}
	a.printDimming(a.wrapped(fmt.Sprintf("steward: %s%s", a.hidden().Mask(withoutRemedy(e)), code))+"\n", strings.TrimSpace(code))
	if e.Remedy != "" {
		fmt.Fprintln(a.stderr, a.wrapped("  "+e.Remedy))
	}
}

// printDimming writes a text to standard error. The last occurrence of part is dimmed where a terminal shows
// colours.
func (a *app) printDimming(text, part string) {
	i := strings.LastIndex(text, part)
	if part == "" || i < 0 || !a.colours(a.stderr) {
		fmt.Fprint(a.stderr, text)
		return
	}
	fmt.Fprint(a.stderr, text[:i])
	fmt.Fprintf(fileOf(a.stderr), "\x1b[2m%s\x1b[22m", plainLine(part)) // what is written to stderr is escaped
	fmt.Fprint(a.stderr, text[i+len(part):])
}

// colours reports whether a stream is a terminal that shows colours, and the person wants them.
func (a *app) colours(stream any) bool {
	return isTerminal(stream) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

func withoutRemedy(e *fault.Error) string {
	c := *e
	c.Remedy = ""
	return c.Error()
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
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
			fmt.Fprintln(a.stdout, "steward", a.versionText())
			return nil
		}
		return c.Help()
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "settings `FILE` to use instead of ./steward.yaml")
	f.StringVar(&a.data, "data", "", "data `FOLDER`: the database and everything else that Steward stores")
	f.StringVar(&a.model, "model", "", "`MODEL` to use: provider/model or an alias")
	f.StringArrayVar(&a.agentFolders, "agents", nil, "additional `FOLDER` of agents")
	f.StringArrayVar(&a.mcpFiles, "mcp", nil, "additional JSON `FILE` with mcpServers")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print less on standard error")
	f.BoolVar(&a.json, "json", false, "print JSON, for programs")
	complete(root, "model", a.completeModels)
	root.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"}, &cobra.Group{ID: "keep", Title: "Keep:"}, &cobra.Group{ID: "look", Title: "Look:"})
	root.AddCommand(a.chatCommand(), a.askCommand(), a.planCommand(), a.setupCommand(), a.serveCommand(),
		a.conversationsCommand(), a.messagesCommand(), a.branchCommand(), a.importCommand(), a.searchCommand(), a.agentsCommand(), a.mcpCommand(), a.approvalsCommand(), a.grantsCommand(), a.tokenCommand(), a.keysCommand(), a.secretsCommand(), a.accountsCommand(), a.skillsCommand(), a.usersCommand(), a.groupsCommand(), a.resourcesCommand(),
		a.logCommand(), a.auditCommand(), a.policyCommand(), a.eventsCommand(), a.requestsCommand(), a.plansCommand(), a.routeCommand(), a.intentsCommand(), a.modelsCommand(), a.configCommand(), a.doctorCommand(), a.versionCommand(), a.manCommand(root))
	strict(root)
	return root
}

// loadSettings loads the settings from all their sources.
func (a *app) loadSettings() (*settings.Loaded, error) {
	flags := a.flags
	if a.data != "" {
		flags = append(flags, settings.Flag{Key: "data", Value: a.data, Name: "--data"})
	}
	if a.model != "" && a.model != "default" {
		flags = append(flags, settings.Flag{Key: "models.default.use", Value: a.model, Name: "--model"})
	}
	return settings.Load(settings.Options{File: a.config, Dir: a.dir, Environ: a.environ, Flags: flags})
}

// settings loads the settings, once.
func (a *app) settings() (*settings.Loaded, error) {
	if a.set != nil {
		return a.set, nil
	}
	set, err := a.loadSettings()
	if err != nil {
		return nil, err
	}
	if set.Data == "" {
		return nil, fault.New(fault.Invalid, "data_unknown", "the data folder is unknown: HOME is not set").
			WithHint("name a folder with --data")
	}
	a.set = set
	for _, n := range set.Notices {
		a.note("steward: %s", n)
	}
	a.learn(set)
	return set, nil
}

// private returns the places of Steward's own, which no tool and no program sees. It makes the folder of
// the settings first: what is missing cannot be kept from a program, which could make it.
func (a *app) private(set *settings.Loaded) []string {
	if dir := set.Folder(); dir != "" {
		_ = os.MkdirAll(dir, 0o700) // where Steward may not make it, a program of the same user may not either
	}
	return append(set.Private(), a.alsoPrivate...)
}

// lines returns the log of a Steward that serves with a log for programs, to which everything that
// would be printed on standard error goes; else nil.
func (a *app) lines() *slog.Logger {
	if a.serving && a.set != nil && a.set.Log.Format == "json" {
		return a.logger(a.set, a.stderr)
	}
	return nil
}

// note prints a line for the user, unless --quiet is given.
func (a *app) note(format string, args ...any) {
	if log := a.lines(); log != nil {
		log.Info(strings.TrimPrefix(fmt.Sprintf(format, args...), "steward: "))
	} else if !a.quiet {
		fmt.Fprintln(a.stderr, a.wrapped(fmt.Sprintf(format, args...)))
	}
}

// wrapped breaks the lines of a text between words where standard error is a terminal.
func (a *app) wrapped(text string) string {
	if w := widthOf(a.stderr); w > 0 {
		return ansi.Wordwrap(text, w, "")
	}
	return text
}

// wrapping writes to standard error. Each write is a number of lines, which are broken between words
// where it is a terminal.
type wrapping struct{ app *app }

func (w wrapping) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.app.stderr, w.app.wrapped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// logger returns a logger for w with the level and format of the settings. A chat
// passes a file or io.Discard, to keep log lines off its screen.
func (a *app) logger(set *settings.Loaded, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(set.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	if a.quiet {
		level = max(level, slog.LevelWarn)
	}
	opt := &slog.HandlerOptions{Level: level}
	w = hiding{w, a.hidden()}
	var h slog.Handler = slog.NewTextHandler(w, opt)
	if set.Log.Format == "json" {
		h = slog.NewJSONHandler(w, opt)
	}
	return a.collecting(slog.New(h))
}

// collecting makes a log that of the whole process: what the libraries log goes through it, too, so that
// every line has its format and no secrets. It returns the log.
func (a *app) collecting(log *slog.Logger) *slog.Logger {
	if a.process {
		slog.SetDefault(log) // also for package log of the standard library
		collectLogs(log)
	}
	return log
}

// plainLogger prints warnings and errors for the user, one line each. To get the log
// itself, set its level to debug or its format to json.
func (a *app) plainLogger(set *settings.Loaded) *slog.Logger {
	if set.Log.Format == "json" || strings.EqualFold(set.Log.Level, "debug") {
		return a.logger(set, a.stderr)
	}
	return a.collecting(slog.New(plainLog{app: a}))
}

// plainLog is a slog.Handler that writes warnings and errors as notes.
type plainLog struct {
	app   *app
	attrs string
}

func (p plainLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (p plainLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(at slog.Attr) bool {
		b.WriteString(", " + at.Key + " " + at.Value.String())
		return true
	})
	p.app.note("steward: %s", p.app.hidden().Mask(r.Message+p.attrs+b.String()))
	return nil
}

func (p plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, at := range attrs {
		p.attrs += ", " + at.Key + " " + at.Value.String()
	}
	return p
}

func (p plainLog) WithGroup(string) slog.Handler { return p }

// user returns the user that the commands act for. Whoever can read the data folder is
// the local user.
func (a *app) user() string { return identity.Local }

// printJSON prints a value as JSON.
func (a *app) printJSON(v any) error {
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
func (a *app) jsonText(text string) string {
	if isTerminal(a.stdout) {
		return terminal.EscapedJSON(text)
	}
	return text
}

// getenv returns a variable of the app's own environment.
func (a *app) getenv(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
