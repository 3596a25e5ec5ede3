package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/secret"
	"steward/internal/settings"
)

func (a *app) setupCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "setup", Short: "Find a model, choose a folder, and try both", GroupID: "talk",
		Long: "Find the keys in the environment, an Ollama and servers of your own, ask which model to use and\n" +
			"which folder Steward may work in, call the model once to see that it works, and write the answers\n" +
			"into your settings file. Enter takes what is suggested. Nothing is stored before the last question\n" +
			"is answered. A key that you type is not shown, and is stored as a secret, not in the settings.\n" +
			"Then a chat begins.",
		Example: "  steward setup\n  steward setup --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			asks := isTerminal(a.stdin) && isTerminal(a.stdout)
			if !asks && !yes {
				return usage("setup asks questions, but this is not a terminal; --yes takes what is suggested")
			}
			if err := a.setup(c.Context(), yes); err != nil || !asks || yes {
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
func (a *app) firstRun(set *settings.Loaded) bool {
	if len(set.Files) > 0 {
		return false
	}
	for _, v := range set.Values() {
		if v.Source.Kind == settings.FromFlag || strings.HasPrefix(v.Source.Where, settings.Prefix) {
			return false
		}
	}
	_, err := os.Stat(database(set.Data))
	return errors.Is(err, os.ErrNotExist)
}

// plan is what setup has found out and will write.
type plan struct {
	model  string // provider/model; empty: as Steward finds it
	folder string // empty: as it is
	topic  string // of ntfy; none: the user is not reached there
	secret string // name of a secret to store; empty: none
	key    string
}

// setup asks, tries and writes.
func (a *app) setup(ctx context.Context, yes bool) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	file := settings.UserFile(a.environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "there is no place for a settings file: HOME is not set").WithHint("set HOME")
	}
	ask := &prompter{app: a, ctx: ctx, lines: bufio.NewReader(a.stdin), yes: yes}
	a.note("Steward sets itself up. Enter takes what stands in [brackets].\n")
	var p plan
	found, err := a.findModels(ctx, set)
	if err == nil && found.offlineOnly() {
		found, err = ask.forKey(set, &p)
	}
	if err == nil && !found.offlineOnly() {
		err = ask.forModel(found, &p)
	}
	if err != nil {
		return err
	}
	if p.folder, err = ask.valid("Folder in which Steward may read and write (off: none)", "~/Steward", folderName, "an absolute path, one that begins with ~/, or off"); err != nil {
		return err
	}
	if p.topic, err = ask.valid("Topic of the app ntfy, to reach you on your phone (none: only here)", "none", topicName, "up to 64 letters, digits, _ and -"); err != nil {
		return err
	}
	if p.model != "" {
		if err := a.tryModel(ctx, found, p.model); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			e := fault.Of(err)
			a.note("✗ %s does not work: %s\n  %s\n  It is not stored; steward setup tries again.\n", p.model, a.hidden().Mask(withoutRemedy(e)), e.Remedy)
			p.model, p.secret = "", ""
		}
	}
	return a.writePlan(set, file, p)
}

// findModels finds the models that there are, and says what was found.
func (a *app) findModels(ctx context.Context, set *settings.Loaded) (*supply, error) {
	s, err := a.supply(ctx, set, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	for _, src := range s.sources {
		switch {
		case src.Name() == "offline":
		case src.names.standard == "":
			a.note("✗ %s: %s, but it does not answer, or has no model", src.Name(), src.how)
		default:
			a.note("✓ %s: %s", src.Name(), src.how)
		}
	}
	return s, nil
}

// writePlan makes the changes. All else in the file stays.
func (a *app) writePlan(set *settings.Loaded, file string, p plan) error {
	var changes []settings.Change
	if p.secret != "" {
		provider, _, _ := strings.Cut(p.model, "/")
		changes = append(changes, settings.Change{Key: "providers." + provider + ".key", Value: "store:" + p.secret})
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
	if p.topic != "" && p.topic != "none" {
		changes = append(changes, settings.Change{Key: "notify.ntfy.topic", Value: p.topic})
	}
	if len(changes) == 0 {
		return nil
	}
	if p.secret != "" {
		if err := secret.NewStore(secret.Folder(set.Data)).Set(p.secret, p.key); err != nil {
			return err
		}
		a.note("✓ the key is stored as the secret %s", p.secret)
	}
	if err := settings.Edit(file, changes...); err != nil {
		return err
	}
	a.set = nil // read again
	a.note("✓ written to %s; steward setup changes it\n", file)
	if _, err := readNotice(set.Data); err == nil {
		a.note("A Steward that is running reads it when it is started again.")
	}
	return nil
}

// prompter asks questions at the terminal; with yes, it takes every default.
type prompter struct {
	app   *app
	ctx   context.Context
	lines *bufio.Reader
	yes   bool
}

// line asks for a line. Enter, and the end of the input, take the default.
func (k *prompter) line(what, normal string) (string, error) {
	if k.yes {
		return normal, nil
	}
	fmt.Fprint(k.app.stderr, k.app.wrapped(fmt.Sprintf("%s [%s]", what, normal)), " ")
	text, err := k.lines.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return cmp.Or(strings.TrimSpace(text), normal), nil
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
		k.app.note("Write %s.", wanted)
	}
}

// forModel asks which of the models that were found is the default.
func (k *prompter) forModel(s *supply, p *plan) error {
	models := choices(k.ctx, s)
	p.model = models[0]
	if len(models) == 1 || k.yes {
		k.app.note("The model is %s.\n", p.model)
		return nil
	}
	for i, m := range models {
		k.app.note("  %d  %s", i+1, m)
	}
	for {
		text, err := k.line("Which model? Its number, or any provider/model", "1")
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(models) {
			p.model = models[n-1]
			return nil
		}
		if _, err := s.Resolve(text); err == nil && strings.Contains(text, "/") {
			p.model = text
			return nil
		}
		k.app.note("There is no model %q.", text)
	}
}

// mostChoices is how many models setup lists.
const mostChoices = 9

// choices returns the models to choose from: each provider's default model first, then the others
// of servers on this machine, whose owner chose them.
func choices(ctx context.Context, s *supply) []string {
	var names, more []string
	list := s.List(ctx).Models
	for _, src := range s.sources {
		if src.Name() == "offline" || src.names.standard == "" {
			continue
		}
		names = append(names, src.Name()+"/"+src.names.standard)
		if slices.Contains(settings.Vendors(), src.Name()) && src.Name() != "ollama" {
			continue
		}
		for _, m := range list {
			if m.Provider == src.Name() && !m.Embedder && m.Name != src.names.standard {
				more = append(more, m.Full())
			}
		}
	}
	names = append(names, more...)
	if def := s.aliases[llm.DefaultAlias].Models[0]; !slices.Contains(names, def) {
		names = append([]string{def}, names...)
	}
	return names[:min(len(names), mostChoices)]
}

// keyForms are how the keys of vendors begin, the longer ones first.
var keyForms = []struct{ begins, provider string }{
	{"sk-ant-", "anthropic"}, {"AIza", "gemini"}, {"AQ.", "gemini"}, {"sk-", "openai"},
}

// forKey says what a local model would need, and asks for a key. It returns the models that there
// are with it.
func (k *prompter) forKey(set *settings.Loaded, p *plan) (*supply, error) {
	k.app.note("%s", localAdvice(totalMemory("/proc/meminfo")))
	f, ok := terminalInput(k.app.stdin)
	for ok && !k.yes {
		key, err := k.app.readHidden(k.ctx, f, "A key of OpenAI, Anthropic or Gemini (it is not shown; Enter goes on without)")
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if key = strings.TrimSpace(key); key == "" {
			break
		}
		i := slices.IndexFunc(keyForms, func(f struct{ begins, provider string }) bool { return strings.HasPrefix(key, f.begins) })
		if i < 0 || secret.Check(key) != nil {
			k.app.note("That does not look like a key of any of them.")
			continue
		}
		provider := keyForms[i].provider
		p.secret, p.key = provider+"_api_key", key
		held := set.Providers[provider]
		held.Key = settings.Secret(key)
		set.Providers[provider] = held
		k.app.hide(key, "provider key")
		return k.app.findModels(k.ctx, set)
	}
	k.app.note("Until then the built-in offline provider answers: it calls tools by rules, and understands little.\n")
	return k.app.supply(k.ctx, set, nil, slog.New(slog.DiscardHandler))
}

// localModel is a model that Ollama has, with its download size and the memory that it needs.
type localModel struct {
	name         string
	size, memory float64 // in GB
}

// localModels are good with tools. Sizes: ollama.com/library, of 2026-11. Memory: 8, 16 and 32 GB
// for models of up to 7, 13 and 33 billion parameters, as Ollama's README says.
var localModels = []localModel{{"qwen3:4b", 2.5, 8}, {"gpt-oss:20b", 14, 16}, {"qwen3:30b", 19, 32}}

// fits reports whether a machine with so much memory (in bytes; 0: unknown) can run the model. The
// system keeps some for itself.
func (m localModel) fits(memory uint64) bool {
	return memory == 0 || float64(memory)/1e9 >= m.memory*0.9
}

// fitting returns the largest model that fits, or the smallest if none does.
func fitting(memory uint64) localModel {
	best := localModels[0]
	for _, m := range localModels {
		if m.fits(memory) {
			best = m
		}
	}
	return best
}

// localAdvice says what a local model would need on a machine with so much memory (in bytes; 0:
// unknown).
func localAdvice(memory uint64) string {
	var b strings.Builder
	b.WriteString("No language model was found: no key in the environment, and no Ollama with a model.\n\n")
	has := float64(memory) / 1e9
	rows := [][]string{{"LOCAL MODEL", "DOWNLOAD", "MEMORY", ""}}
	for _, m := range localModels {
		fits := ""
		if !m.fits(memory) {
			fits = fmt.Sprintf("too large for the %.0f GB here", has)
		}
		rows = append(rows, []string{m.name, fmt.Sprintf("%.1f GB", m.size), fmt.Sprintf("%.0f GB", m.memory), fits})
	}
	b.WriteString(columns(rows, 0))
	fmt.Fprintf(&b, "\nTo get one: install Ollama from https://ollama.com/download, then run\n  ollama pull %s\nand steward setup again.\n", fitting(memory).name)
	return b.String()
}

// totalMemory reads the memory of the machine from Linux' /proc/meminfo, in bytes; 0: unknown.
func totalMemory(file string) uint64 {
	b, _ := os.ReadFile(file) // other systems have no such file
	_, total, _ := strings.Cut(string(b), "MemTotal:")
	var kb uint64
	if _, err := fmt.Sscan(total, &kb); err != nil {
		return 0
	}
	return kb << 10
}

// tryTimeout is how long the trial call of a model may take. A local model may have to be loaded
// first.
const tryTimeout = 2 * time.Minute

// tryModel calls a model once, with a tool that it should use.
func (a *app) tryModel(ctx context.Context, s *supply, name string) error {
	a.note("Trying %s …", name)
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	found, err := s.Probe(ctx, name, a.user(), llm.CanTools)
	if err = cmp.Or(err, found.Errs[llm.CanTools]); err != nil {
		return err
	}
	took := found.Took[llm.CanTools].Round(100 * time.Millisecond)
	if found.Can[llm.CanTools] {
		a.note("✓ %s answers and uses tools (%s)\n", name, took)
		return nil
	}
	a.note("! %s answers (%s), but did not use the tool that it was given; tools may not work with it\n", name, took)
	return nil
}
