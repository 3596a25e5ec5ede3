package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/internal/settings"
	"steward/internal/terminal"
)

func (a *program) serveCommand() *cobra.Command {
	var listen, metrics string
	var wait, inCluster bool
	c := &cobra.Command{
		Use: "serve", Short: "Serve the chat and the APIs over HTTP", GroupID: "talk", Args: cobra.NoArgs,
		Long: "Serve the WebSocket chat at /ws (docs/reference/websocket.md), OpenAI's API at /v1 (docs/reference/openai.md),\n" +
			"Steward's own at /api/v1 (docs/reference/api.md) and over gRPC (docs/reference/rpc.md). Your own programs send\n" +
			"what steward token prints; create keys for other people (steward keys create). The first Ctrl-C\n" +
			"stops Steward gracefully, the second one at once.",
		Example: "  steward serve\n  steward serve --listen 0.0.0.0:7420 --data /srv/steward",
		RunE: func(c *cobra.Command, _ []string) error {
			if listen != "" {
				a.Flags = append(a.Flags, settings.Flag{Key: "listen", Value: listen, Name: "--listen"})
			}
			if metrics != "" {
				a.Flags = append(a.Flags, settings.Flag{Key: "metrics.listen", Value: metrics, Name: "--metrics"})
			}
			if inCluster {
				a.Flags = append(a.Flags, settings.Flag{Key: "cluster.embed", Value: "true", Name: "--cluster"})
			}
			return a.serve(c.Context(), wait)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "`HOST:PORT` to listen on; port 0 picks a free one")
	c.Flags().StringVar(&metrics, "metrics", "", "`HOST:PORT` at which /metrics needs no credential (docs/operations/observe.md)")
	c.Flags().BoolVar(&inCluster, "cluster", false, "be a node of a cluster, with a NATS server in this process (docs/operations/cluster.md)")
	c.Flags().BoolVar(&wait, "wait", false, "if another Steward uses the data folder or the database, wait for its end")
	return c
}

func (a *program) serve(ctx context.Context, wait bool) error {
	a.Serving = true
	app.RespectMemoryLimit(a.Getenv, "/")
	set, err := a.Settings()
	if err != nil {
		return err
	}
	log := a.Logger(set, a.Stderr)
	l, err := a.OpenLocal(ctx, set, log)
	if wait && usedByAnother(err) {
		a.Note("steward: waiting until the Steward that uses the data ends: %v", err)
		l, err = a.openWhenFree(ctx, set, log)
	}
	if err != nil {
		if n, other := app.ReadNotice(set.Data); other == nil && fault.HasCode(err, "data_in_use") {
			return fault.Of(err).WithHint("it serves at %s: use it, stop it, or name another folder with --data", n.URL)
		}
		return a.notStarted(ctx, err)
	}
	s, err := a.Listen(ctx, set, l, set.Listen, log)
	if err != nil {
		return a.notStarted(ctx, err, l.Close())
	}
	observer, err := a.ListenMetrics(set, l, log)
	if err != nil {
		return errors.Join(err, s.Close(), l.Close())
	}
	defer observer.Close() // last: it tells until the end that Steward is closing
	voice, err := a.ListenVoice(ctx, set, l, log)
	if err != nil {
		return a.notStarted(ctx, err, s.Close(), l.Close())
	}
	if err := a.welcome(set, s, l, voice, observer); err != nil {
		return errors.Join(err, voice.Close(), s.Close(), l.Close())
	}
	defer a.reportApprovals(ctx, l)()
	select {
	case <-ctx.Done():
		a.Note("steward: stopping; %s (Ctrl-C stops at once)", goesOn(l))
	case err = <-s.Failed:
	}
	return errors.Join(err, voice.Close(), s.Close(), l.Close())
}

// notStarted returns the error of a server that could not start, joined with those of closing what had been opened.
// If a signal has ended the start, Steward has stopped because it was told to, as it does later, and that is no error.
func (a *program) notStarted(ctx context.Context, err error, closing ...error) error {
	if command.Interrupted(ctx, err) {
		a.Note("steward: stopped while it was starting")
		err = nil
	}
	return errors.Join(append(closing, err)...)
}

// goesOn says what becomes of turns when Steward stops.
func goesOn(l *app.Local) string {
	if l.NodeName() != "" {
		return "other nodes go on with running turns"
	}
	return "running turns are suspended and resume at the next start"
}

// freeAgain is how often serve --wait tries to open the data folder.
const freeAgain = time.Second

// usedByAnother reports whether another Steward has the data folder, or the database of the setting store.
func usedByAnother(err error) bool {
	return fault.HasCode(err, "data_in_use") || fault.HasCode(err, "store_in_use")
}

// openWhenFree opens the data folder once no other Steward uses it.
func (a *program) openWhenFree(ctx context.Context, set *settings.Loaded, log *slog.Logger) (*app.Local, error) {
	for {
		select {
		case <-time.After(freeAgain):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if l, err := a.OpenLocal(ctx, set, log); !usedByAnother(err) {
			return l, err
		}
	}
}

// pageLink returns where the page is: for a person at a terminal, a link that signs in. A log must not have it.
func (a *program) pageLink(s *app.Server, l *app.Local) string {
	if app.IsTerminal(a.Stdout) {
		link, err := l.SignInLink(context.Background(), s.URL)
		if err == nil {
			return link
		}
		a.Note("cannot make a link to the page: %v", err)
	}
	return s.URL + "   (steward link prints a link that signs you in)"
}

// welcome prints where Steward serves and what to do next.
func (a *program) welcome(set *settings.Loaded, s *app.Server, l *app.Local, voice *app.Voice, observer *app.Observer) error {
	if a.JSON {
		return a.PrintJSON(app.Notice{URL: s.URL, PID: os.Getpid(), Version: a.VersionText()})
	}
	model := strings.Join(l.Found.Aliases["default"].Models, ", then ")
	var b strings.Builder
	fmt.Fprintf(&b, "Steward serves at %s\n", s.URL)
	fmt.Fprintf(&b, "  page    %s\n", a.pageLink(s, l))
	if !a.Quiet {
		fmt.Fprintf(&b, "  model   %s\n", model)
		fmt.Fprintf(&b, "  chat    steward chat   (WebSocket: %s/ws)\n", strings.Replace(s.URL, "http", "ws", 1))
		fmt.Fprintf(&b, "  try     curl -s %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
			"            -H \"Authorization: Bearer $(%s)\" \\\n"+
			"            -d '{\"model\":\"default\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello, who are you?\"}]}'\n", s.URL, "cat "+shellWord(auth.TokenFile(set.Data)))
		if auth.BeyondLoopback(set.Listen) {
			b.WriteString("  Other machines reach it, and what they send is not encrypted. Give each person a key:\n" +
				"  steward keys create --user NAME\n")
		}
		if set.Metrics.Listen != "" {
			fmt.Fprintf(&b, "  metrics http://%s/metrics, without a credential\n", observer.Address)
		}
		if name := l.NodeName(); name != "" {
			fmt.Fprintf(&b, "  cluster as the node %s (steward cluster lists all)\n", name)
		}
		if voice.Ollama != "" {
			fmt.Fprintf(&b, "  ollama  http://%s, without a credential, as %s\n", voice.Ollama, set.Ollama.User)
		}
		if voice.Wyoming != "" {
			fmt.Fprintf(&b, "  wyoming tcp://%s, without a credential, as %s\n", voice.Wyoming, set.Wyoming.User)
		}
		if say := l.WaitingAgents(); say != "" {
			b.WriteString("  " + say + "\n")
		}
		if l.Found.OfflineOnly() {
			b.WriteString("  The offline provider answers: rules, not a language model. For a real one: steward setup\n")
		}
	}
	return a.Print(b.String())
}

// shellWord quotes a text as one word of a POSIX shell.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// reportApprovals reports new pending approvals on a terminal until the returned function is
// called.
func (a *program) reportApprovals(ctx context.Context, l *app.Local) (stop func()) {
	if a.JSON || a.Quiet || !app.IsTerminal(a.Stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		if err := reportWaiting(ctx, l, a.Stderr); err != nil {
			l.Log.Warn("pending approvals cannot be reported", "error", err)
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// reportWaiting reports new pending approvals until ctx is done. Those that exist at the
// beginning have been reported already.
func reportWaiting(ctx context.Context, l *app.Local, w io.Writer) error {
	known := map[string]bool{}
	first := true
	for list, err := range terminal.Waiting(ctx, l.Own.Client) {
		if err != nil {
			return err
		}
		for _, x := range list {
			if !known[x.Question()] && !first {
				if _, err := fmt.Fprintf(w, "steward: %s %s: steward agents approve %s\n", command.PlainLine(x.Path), waitsHow(x), command.PlainLine(x.Path)); err != nil {
					return err
				}
			}
			known[x.Question()] = true
		}
		first = false
	}
	return nil
}

func waitsHow(l catalog.Listing) string {
	if n := len(l.Waiting); n > 0 {
		return fmt.Sprintf("offers %s, off until you approve", app.Counted(n, "tool that is new or changed", "tools that are new or changed"))
	}
	if l.Changed {
		return "has changed since its approval, and waits for your approval"
	}
	return "waits for your approval"
}
