package node

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/settings"
)

// FirstRun reports whether nothing has been set up or stored: the user has no settings file, has
// said nothing on the command line or in a variable of Steward's, and has never used it.
func FirstRun(set *settings.Loaded) bool {
	if len(set.Files) > 0 {
		return false
	}
	for _, v := range set.Values() {
		if v.Source.Kind == settings.FromFlag || strings.HasPrefix(v.Source.Where, settings.Prefix) {
			return false
		}
	}
	return !app.HasStore(set)
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

// Setup asks for a model and a folder, tries both, and writes the answers into the settings. With yes
// it takes what is suggested; first is true on the way to the first chat.
func Setup(ctx context.Context, p *command.Program, yes, first bool) error {
	return (&program{p}).setup(ctx, yes, first)
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
	ask := &prompter{app: a, ctx: ctx, lines: bufio.NewReader(a.Stdin), yes: yes}
	a.Note("Set up Steward. Enter accepts the answer in [brackets].\n")
	var p plan
	if err := ask.chooseModel(set, &p); err != nil {
		return ask.inputEnded(err)
	}
	folder, chosen := "~/Steward", set.SourceOf("workspace").Kind != settings.FromDefault
	if chosen {
		folder = cmp.Or(set.Workspace, "off")
	}
	if p.folder, err = ask.askValid("Folder in which Steward may read and write (off: none)", folder, folderName, "an absolute path, one that begins with ~/, or off"); err != nil {
		return err
	}
	if chosen && p.folder == folder {
		p.folder = "" // it stays in the settings as it was written
	}
	if first {
		a.Note("steward setup also asks how to reach you on your phone, and whether to run all the time.\n")
		return a.writePlan(set, file, p)
	}
	if p.topic, err = ask.askValid("Topic of the app ntfy, to reach you on your phone (none: only here)", cmp.Or(set.Notify.Ntfy.Topic, "none"), topicName, "up to 64 letters, digits, _ and -"); err != nil {
		return err
	}
	always, err := ask.forService()
	if err != nil {
		return err
	}
	if err := a.writePlan(set, file, p); err != nil || !always {
		return err
	}
	if err := a.startService(ctx, false); err != nil { // the rest is set up
		a.Explain(err, "steward service install")
	}
	return nil
}

// forService asks whether Steward is to run from login on. It does not ask where that is impossible, or
// has been answered.
func (k *prompter) forService() (bool, error) {
	if k.yes {
		return false, nil
	}
	m, err := k.app.ServiceManager()
	if err != nil || m.Ready(k.ctx) != nil {
		return false, nil
	}
	if text, err := m.Text(); err != nil || text != "" {
		return false, nil
	}
	answer, err := k.line("Keep Steward running from login on, so that reminders reach you while no chat is open? y or n", "n")
	return strings.HasPrefix(strings.ToLower(answer), "y"), err
}

// writePlan makes the changes. All else in the file stays.
func (a *program) writePlan(set *settings.Loaded, file string, p plan) error {
	changed, err := a.WriteSetup(set, file, app.SetupAnswers{Model: p.model, Folder: p.folder, Topic: p.topic, Provider: p.provider, Key: p.key})
	if err != nil {
		return err
	}
	if !changed {
		a.Note("Nothing was changed.\n")
		return nil
	}
	if p.provider != "" {
		a.Note("✓ the key is stored as the secret %s", app.KeySecret(p.provider))
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
		return "", k.inputEnded(err)
	}
	return cmp.Or(strings.TrimSpace(text), normal), nil
}

// hidden asks for a line that is not shown. Enter returns the empty text.
func (k *prompter) hidden(what string) (string, error) {
	f, ok := command.TerminalInput(k.app.Stdin)
	if k.yes || !ok {
		return "", nil
	}
	text, err := k.app.ReadHidden(k.ctx, f, k.app.Wrapped(what))
	return strings.TrimSpace(text), k.inputEnded(err)
}

// inputEnded turns the end of the input, and Ctrl-C, into the error that says what that means here.
func (k *prompter) inputEnded(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, command.ErrInterrupted) {
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

// askValid asks for a line until it has a certain form.
func (k *prompter) askValid(what, normal string, form *regexp.Regexp, wanted string) (string, error) {
	for {
		text, err := k.line(what, normal)
		if err != nil || form.MatchString(text) {
			return text, err
		}
		k.app.Note("Write %s.", wanted)
	}
}

// chooseModel finds the models that there are, and asks for one until one works or the person continues
// without. A key is asked for if there is no model, and again if the vendor refuses it.
func (k *prompter) chooseModel(set *settings.Loaded, p *plan) error {
	bad := map[string]bool{} // models that do not work, and providers of which none does
	found, err := k.app.findModels(k.ctx, set)
	for err == nil {
		models := found.Choices(k.ctx, bad)
		if len(models) == 0 {
			var typed bool
			if typed, err = k.askKey(set, found, p, len(bad) > 0); err != nil {
				break
			}
			found, err = k.app.Supply(k.ctx, set, nil, slog.New(slog.DiscardHandler))
			if err == nil && !typed {
				k.withoutModel(found, p)
				return nil
			}
			delete(bad, p.provider)
			continue
		}
		var model string
		if model, err = k.choose(found, models); err != nil {
			break
		}
		var works bool
		if works, err = k.testModel(set, found, model, p, bad); works {
			p.model = model
			return nil
		}
	}
	return err
}

// findModels finds the models that there are, and says what was found.
func (a *program) findModels(ctx context.Context, set *settings.Loaded) (*app.Supply, error) {
	s, err := a.Supply(ctx, set, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	for _, src := range s.Sources {
		switch {
		case app.IsBuiltIn(src.Name()):
		case src.Names.Standard != "":
			a.Note("✓ %s: %s", src.Name(), src.How)
		case runs(ctx, src):
			a.Note("✗ %s: %s, but it has no model yet", src.Name(), src.How)
		default:
			a.Note("✗ %s: %s, but it does not answer", src.Name(), src.How)
		}
	}
	return s, nil
}

// runs reports whether a server answers.
func runs(ctx context.Context, src app.Source) bool {
	ctx, cancel := context.WithTimeout(ctx, app.ListTimeout)
	defer cancel()
	_, err := src.Models(ctx)
	return err == nil
}

// choose asks which of the models is the default. It does not ask if there is only one.
func (k *prompter) choose(s *app.Supply, models []string) (string, error) {
	if len(models) == 1 || k.yes {
		return models[0], nil
	}
	for i, m := range models {
		k.app.Note("  %d  %s", i+1, m)
	}
	for {
		text, err := k.line("Which model? Its number, or any provider/model", "1")
		if err != nil {
			return "", err
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(models) {
			return models[n-1], nil
		}
		if _, err := s.Resolve(text); err == nil && strings.Contains(text, "/") {
			return text, nil
		}
		k.app.Note("There is no model %q.", text)
	}
}

// testModel calls a model, and says what came of it. A key that was refused is forgotten. If it failed
// for another reason, such as a network that is down, the person may take the model nevertheless.
func (k *prompter) testModel(set *settings.Loaded, s *app.Supply, model string, p *plan, bad map[string]bool) (bool, error) {
	err := k.app.tryModel(k.ctx, s, model)
	switch {
	case k.ctx.Err() != nil:
		return false, context.Cause(k.ctx)
	case err == nil:
		return true, nil
	}
	provider, _, _ := strings.Cut(model, "/")
	e := fault.Of(err)
	said := k.app.Hidden().Mask(strings.TrimPrefix(app.WithoutRemedy(e), provider+": "))
	refused := e.Code == wire.CodeAuth
	if refused {
		k.app.Note("✗ %s was refused by %s: %s", keyName(set, provider, p), titleOf(provider), said)
	} else {
		k.app.Note("✗ %s does not work: %s", model, said)
		if e.Remedy != "" {
			k.app.Note("  %s", e.Remedy)
		}
		answer, err := k.line("Use it anyway? y or n", "n")
		if err != nil || strings.HasPrefix(strings.ToLower(answer), "y") {
			return err == nil, err
		}
	}
	k.app.Note("")
	if e.Code == wire.CodeNoModel {
		bad[model] = true
		return false, nil
	}
	bad[provider] = true
	if p.provider == provider {
		set.Providers[provider] = p.before
		p.provider, p.key = "", ""
	}
	return false, nil
}

// titleOf returns the name of a provider as people know it.
func titleOf(provider string) string { return app.Vendors().For(provider, "").Title }

// keyName says which key it is that a provider was asked with.
func keyName(set *settings.Loaded, provider string, p *plan) string {
	key := "providers." + provider + ".key"
	switch s := set.SourceOf(key); {
	case p.provider == provider, s.Where == "":
		return "The key"
	default:
		return "The key in " + s.Where
	}
}

// withoutModel continues with the offline provider. It becomes the model of the settings only if
// Steward would otherwise take one that does not work.
func (k *prompter) withoutModel(s *app.Supply, p *plan) {
	k.app.Note("Without a model the built-in offline provider answers: it calls tools by rules, and understands little.\n")
	if !s.OfflineOnly() {
		i := slices.IndexFunc(s.Sources, func(src app.Source) bool { return app.IsBuiltIn(src.Name()) })
		p.model = s.Sources[i].Name() + "/" + s.Sources[i].Names.Standard
	}
}

// askKey says what a local model would need, and asks for a key. failed says whether a model was
// tried before. typed is false if the person continues without a key.
func (k *prompter) askKey(set *settings.Loaded, s *app.Supply, p *plan, failed bool) (typed bool, err error) {
	if !k.advised {
		local := app.Starter()
		if !failed {
			k.app.Note("No language model was found: no key in the environment, and no %s with a model.\n", local.Title)
		}
		running := slices.ContainsFunc(s.Sources, func(src app.Source) bool { return src.Name() == local.Name && runs(k.ctx, src) })
		k.app.Note("%s", localAdvice(local, app.TotalMemory("/proc/meminfo"), running))
		k.advised = true
	}
	k.app.Note("Or paste a key of %s.", app.AnyOf(app.Vendors().All(), func(v llm.Vendor) string {
		if len(v.KeyPrefixes) > 0 {
			return v.Title
		}
		return ""
	}))
	for {
		text, err := k.hidden("Key (hidden; Enter continues without)")
		if err != nil || text == "" {
			return false, err
		}
		key, provider := app.KeyOf(text)
		if provider == "" {
			k.app.Note("That does not look like a key of any of them. For another provider set its variable, such as MISTRAL_API_KEY, and run steward setup again.")
			continue
		}
		held := set.Providers[provider]
		if held.Off {
			k.app.Note("%s is turned off in your settings: remove providers.%s.off first.", titleOf(provider), provider)
			continue
		}
		p.provider, p.key, p.before = provider, key, held
		held.Key = settings.Secret(key)
		if v, _ := app.Vendors().Named(provider); v.Access != llm.ByKey {
			held.BaseURL = cmp.Or(held.BaseURL, v.BaseURL)
		}
		set.Providers[provider] = held
		k.app.Hide(key, "provider key")
		return true, nil
	}
}

// localAdvice says what a local model of a vendor would need on a machine with so much memory (in bytes;
// 0: unknown). running says whether its server runs.
func localAdvice(v llm.Vendor, memory uint64, running bool) string {
	var b strings.Builder
	has := float64(memory) / 1e9
	rows := [][]string{{"LOCAL MODEL", "DOWNLOAD", "MEMORY", ""}}
	for _, m := range v.Starter.Models {
		large := ""
		if !app.FitsMemory(m, memory) {
			large = fmt.Sprintf("too large for the %.0f GB here", has)
		}
		rows = append(rows, []string{m.Name, fmt.Sprintf("%.1f GB", m.Size), fmt.Sprintf("%.0f GB", m.Memory), large})
	}
	b.WriteString(command.Columns(rows, 0))
	first := "install " + v.Title + " from " + v.Starter.Download + ", then "
	if running {
		first = ""
	}
	fmt.Fprintf(&b, "\nTo get one: %srun\n  %s %s\nand steward setup again.\n", first, v.Starter.Pull, app.LargestFitting(v.Starter.Models, memory).Name)
	return b.String()
}

// tryModel calls a model once, with a tool that it should use.
func (a *program) tryModel(ctx context.Context, s *app.Supply, name string) error {
	a.Note("Trying %s …", name)
	tried, err := s.Try(ctx, name, a.User())
	if err != nil {
		return err
	}
	took := tried.Took.Round(100 * time.Millisecond)
	if tried.Tools {
		a.Note("✓ %s answers and uses tools (%s)\n", name, took)
		return nil
	}
	a.Note("! %s answers (%s), but did not use the tool that it was given; tools may not work with it\n", name, took)
	return nil
}
