package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/settings"
)

func (a *program) setupCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "setup", Short: "Find a model, choose a folder, and try both", GroupID: "talk",
		Long: "Find the keys in the environment, an Ollama and servers of your own, ask which model to use and\n" +
			"which folder Steward may work in, call the model once to see that it works, and write the answers\n" +
			"into your settings file. Enter accepts what is suggested. Nothing is stored before the last question\n" +
			"is answered. A key that you type is not shown, and is stored as a secret, not in the settings.\n" +
			"Then a chat begins.",
		Example: "  steward setup\n  steward setup --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			asks := app.IsTerminal(a.stdin) && app.IsTerminal(a.stdout)
			if !asks && !yes {
				return usage("setup asks questions, but this is not a terminal; --yes accepts what is suggested")
			}
			if err := a.setup(c.Context(), yes, false); err != nil || !asks || yes {
				return err
			}
			return a.chat(c.Context(), "", false)
		},
	}
	yesFlag(c, &yes)
	return c
}

// firstRun reports whether nothing has been set up or stored: the user has no settings file, has
// said nothing on the command line or in a variable of Steward's, and has never used it.
func (a *program) firstRun(set *settings.Loaded) bool {
	if len(set.Files) > 0 {
		return false
	}
	for _, v := range set.Values() {
		if v.Source.Kind == settings.FromFlag || strings.HasPrefix(v.Source.Where, settings.Prefix) {
			return false
		}
	}
	_, err := os.Stat(app.Database(set.Data))
	return errors.Is(err, os.ErrNotExist)
}

// plan is what setup has found out and will write.
type plan struct {
	model    string // provider/model; empty: as Steward finds it
	folder   string // empty: as it is
	topic    string // of ntfy; none: the user is not reached there
	provider string // whose key was typed; empty: none was
	key      string
	before   settings.Provider // the provider, before its key was typed
}

// setup asks, tries and writes. The first time, on the way to a chat, it asks no more than the chat
// needs: a model and a folder.
func (a *program) setup(ctx context.Context, yes, first bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	ask := &prompter{app: a, ctx: ctx, lines: bufio.NewReader(a.stdin), yes: yes}
	a.Note("Set up Steward. Enter accepts the answer in [brackets].\n")
	var p plan
	if err := ask.forModel(set, &p); err != nil {
		return ask.left(err)
	}
	folder, chosen := "~/Steward", set.SourceOf("workspace").Kind != settings.FromDefault
	if chosen {
		folder = cmp.Or(set.Workspace, "off")
	}
	if p.folder, err = ask.valid("Folder in which Steward may read and write (off: none)", folder, folderName, "an absolute path, one that begins with ~/, or off"); err != nil {
		return err
	}
	if chosen && p.folder == folder {
		p.folder = "" // it stays in the settings as it was written
	}
	if first {
		a.Note("steward setup also asks how to reach you on your phone.\n")
		return a.writePlan(set, file, p)
	}
	if p.topic, err = ask.valid("Topic of the app ntfy, to reach you on your phone (none: only here)", cmp.Or(set.Notify.Ntfy.Topic, "none"), topicName, "up to 64 letters, digits, _ and -"); err != nil {
		return err
	}
	return a.writePlan(set, file, p)
}

// writePlan makes the changes. All else in the file stays.
func (a *program) writePlan(set *settings.Loaded, file string, p plan) error {
	var changes []settings.Change
	name := p.provider + "_api_key" // of the secret
	if p.provider != "" {
		changes = append(changes, settings.Change{Key: "providers." + p.provider + ".key", Value: "store:" + name})
	}
	if p.model != "" {
		key := "models.default"
		if set.SourceOf(key+".effort").Kind != settings.FromDefault { // it is written in its long form
			key += ".use"
		}
		changes = append(changes, settings.Change{Key: key, Value: p.model})
	}
	if p.folder != "" {
		changes = append(changes, settings.Change{Key: "workspace", Value: p.folder})
	}
	if p.topic != "" && p.topic != cmp.Or(set.Notify.Ntfy.Topic, "none") {
		topic := p.topic
		if topic == "none" {
			topic = ""
		}
		changes = append(changes, settings.Change{Key: "notify.ntfy.topic", Value: topic})
	}
	if len(changes) == 0 {
		a.Note("Nothing was changed.\n")
		return nil
	}
	if p.provider != "" {
		if err := secret.NewStore(secret.Folder(set.Data)).Set(name, p.key); err != nil {
			return err
		}
		a.Note("✓ the key is stored as the secret %s", name)
	}
	if err := settings.Edit(file, changes...); err != nil {
		return err
	}
	a.Set = nil // read again
	a.Note("✓ written to %s; steward setup changes it\n", file)
	if _, err := app.ReadNotice(set.Data); err == nil {
		a.Note("A running Steward reads it at its next start.")
	}
	return nil
}

// prompter asks questions at the terminal; with yes, it takes every default.
type prompter struct {
	app   *program
	ctx   context.Context
	lines *bufio.Reader
	yes   bool

	advised bool // what a local model needs was said
}

// line asks for a line. Enter takes the default; the end of the input (Ctrl-D) leaves setup.
func (k *prompter) line(what, normal string) (string, error) {
	if k.yes {
		return normal, nil
	}
	fmt.Fprint(k.app.Stderr, k.app.Wrapped(fmt.Sprintf("%s [%s]", what, normal)), " ")
	text, err := k.lines.ReadString('\n')
	if err != nil {
		return "", k.left(err)
	}
	return cmp.Or(strings.TrimSpace(text), normal), nil
}

// hidden asks for a line that is not shown. Enter returns the empty text.
func (k *prompter) hidden(what string) (string, error) {
	f, ok := terminalInput(k.app.stdin)
	if k.yes || !ok {
		return "", nil
	}
	text, err := k.app.readHidden(k.ctx, f, k.app.Wrapped(what))
	return strings.TrimSpace(text), k.left(err)
}

// left turns the end of the input, and Ctrl-C, into the error that says what that means here.
func (k *prompter) left(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, errInterrupted) {
		fmt.Fprintln(k.app.Stderr)
		return fault.New(fault.Cancelled, "interrupted", "setup was interrupted, and nothing is stored").WithHint("run steward setup again")
	}
	return err
}

// The answers that setup takes.
var (
	folderName = regexp.MustCompile(`^(off|~?/.*)$`)
	topicName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// valid asks for a line until it has a certain form.
func (k *prompter) valid(what, normal string, form *regexp.Regexp, wanted string) (string, error) {
	for {
		text, err := k.line(what, normal)
		if err != nil || form.MatchString(text) {
			return text, err
		}
		k.app.Note("Write %s.", wanted)
	}
}
