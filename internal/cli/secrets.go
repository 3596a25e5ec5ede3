package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/secret"
	strictly "steward/internal/strict"
)

func (a *program) secretsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "secrets", Aliases: []string{"secret"}, Short: "Store passwords and keys", GroupID: "keep",
		Long: "Store passwords and keys, each in a file of the data folder that only you can read. Settings\n" +
			"refer to one as store:NAME; an agent gets those that it declares, by name. In everything that\n" +
			"Steward records, logs, shows or sends to a model, «secret:NAME» replaces them.",
	}, a.setSecret(), a.listSecrets(), a.removeSecret())
}

func (a *program) secrets() (*secret.Store, error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	return secret.NewStore(secret.Folder(set.Data)), nil
}

func (a *program) setSecret() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME", Short: "Store or change a secret", ValidArgsFunction: a.completeSecrets,
		Long: "Store or change a secret. You are prompted for it without echo, or it is read from standard input.\n" +
			"A running Steward masks it almost at once, and passes it to the programs that it starts from then on; for\n" +
			"model providers it takes effect when Steward restarts.",
		Example: "  steward secrets set SMTP_PASSWORD\n  pass show mail | steward secrets set SMTP_PASSWORD",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			value, err := a.readSecret(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := s.Set(args[0], value); err != nil {
				return err
			}
			a.Note("stored; settings refer to it as store:%s", args[0])
			return nil
		},
	}
}

// readSecret asks for a secret, or reads it from standard input.
func (a *program) readSecret(ctx context.Context, name string) (string, error) {
	if f, ok := terminalInput(a.stdin); ok {
		return a.readHidden(ctx, f, name)
	}
	if a.stdin == nil {
		return "", usage("there is no secret on standard input")
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, secret.MaxLength+2))
	if err != nil {
		return "", fault.New(fault.Unavailable, "input_unreadable", "standard input cannot be read: %w", err).WithHint("pipe the secret in")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(strictly.Unmarked(b)), "\n"), "\r"), nil
}

func (a *program) listSecrets() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the names of the secrets",
		RunE: func(*cobra.Command, []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			list, err := s.List()
			return printList(a, list, err, "there are no secrets", func(list []secret.Info) string {
				rows := [][]string{{"NAME", "CHANGED"}}
				for _, one := range list {
					rows = append(rows, []string{one.Name, one.Changed.Local().Format(time.DateTime)})
				}
				return columns(rows, 0)
			})
		},
	}
}

func (a *program) removeSecret() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Aliases: []string{"rm"}, Short: "Delete secrets", ValidArgsFunction: a.completeSecrets,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := s.Remove(name); err != nil {
					return err
				}
				a.Note("removed %s", name)
			}
			return nil
		},
	}
}

// completeSecrets offers the names of secrets.
func (a *program) completeSecrets(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := a.secrets()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := s.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// readHidden asks for a line without echo. If the command is interrupted, it returns at
// once and turns the echo on again.
func (a *program) readHidden(ctx context.Context, f *os.File, what string) (string, error) {
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	defer term.Restore(fd, before) //nolint:errcheck // the terminal is gone
	if err := echoOff(fd); err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	fmt.Fprintf(a.Stderr, "%s: ", what)
	defer fmt.Fprintln(a.Stderr)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		b, err := term.ReadPassword(fd)
		read <- line{b, err}
	}()
	select {
	case l := <-read:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// echoOff stops a terminal from showing what is typed. It is called before the prompt appears,
// because nothing that is typed from then on may be shown.
func echoOff(fd int) error {
	t, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	t.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, setTermios, t)
}

// terminalInput returns the terminal at which a person can be asked.
func terminalInput(stdin any) (*os.File, bool) {
	return app.FileOf(stdin), app.IsTerminal(stdin)
}
