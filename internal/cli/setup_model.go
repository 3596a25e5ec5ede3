package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/secret"
	"steward/internal/settings"
)

// forModel finds the models that there are, and asks for one until one works or the person continues
// without. A key is asked for if there is no model, and again if the vendor refuses it.
func (k *prompter) forModel(set *settings.Loaded, p *plan) error {
	bad := map[string]bool{} // models that do not work, and providers of which none does
	found, err := k.app.findModels(k.ctx, set)
	for err == nil {
		models := choices(k.ctx, found, bad)
		if len(models) == 0 {
			var typed bool
			if typed, err = k.forKey(set, found, p, len(bad) > 0); err != nil {
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
		if works, err = k.tried(set, found, model, p, bad); works {
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

// tried calls a model, and says what came of it. A key that was refused is forgotten. If it failed
// for another reason, such as a network that is down, the person may take the model nevertheless.
func (k *prompter) tried(set *settings.Loaded, s *app.Supply, model string, p *plan, bad map[string]bool) (bool, error) {
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

// mostChoices is how many models setup lists.
const mostChoices = 9

// choices returns the models to choose from: each provider's default model first, then the others
// of servers on this machine, whose owner chose them, and of vendors whose default model is bad.
func choices(ctx context.Context, s *app.Supply, bad map[string]bool) []string {
	var names, more []string
	list := s.List(ctx).Models
	for _, src := range s.Sources {
		if app.IsBuiltIn(src.Name()) || src.Names.Standard == "" || bad[src.Name()] {
			continue
		}
		standard := src.Name() + "/" + src.Names.Standard
		names = append(names, standard)
		if v, _ := app.Vendors().Named(src.Name()); v.Access == llm.ByKey && !bad[standard] {
			continue
		}
		for _, m := range list {
			if m.Provider == src.Name() && !m.Embedder && m.Name != src.Names.Standard {
				more = append(more, m.Full())
			}
		}
	}
	names = append(names, more...)
	def := s.Aliases[llm.DefaultAlias].Models[0]
	if provider, _, _ := strings.Cut(def, "/"); !app.IsBuiltIn(provider) && !bad[provider] && !slices.Contains(names, def) {
		names = append([]string{def}, names...)
	}
	names = slices.DeleteFunc(names, func(m string) bool { return bad[m] })
	return names[:min(len(names), mostChoices)]
}

// pastedKey finds the key in what people paste: NAME=KEY, with export before it and quotes around it.
var pastedKey = regexp.MustCompile(`^(?:(?:export\s+)?[A-Z0-9_]+\s*=\s*)?["']?([^\s"']+)["']?;?$`)

// providerOf returns the key in a text, and the provider that it is of.
func providerOf(text string) (key, provider string) {
	found := pastedKey.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil || secret.Check(found[1]) != nil {
		return "", ""
	}
	longest := ""
	for v := range app.Vendors().All() {
		for _, begins := range v.KeyPrefixes {
			if strings.HasPrefix(found[1], begins) && len(begins) > len(longest) {
				longest, key, provider = begins, found[1], v.Name
			}
		}
	}
	return key, provider
}

// forKey says what a local model would need, and asks for a key. failed says whether a model was
// tried before. typed is false if the person continues without a key.
func (k *prompter) forKey(set *settings.Loaded, s *app.Supply, p *plan, failed bool) (typed bool, err error) {
	if !k.advised {
		local := app.Starter()
		if !failed {
			k.app.Note("No language model was found: no key in the environment, and no %s with a model.\n", local.Title)
		}
		running := slices.ContainsFunc(s.Sources, func(src app.Source) bool { return src.Name() == local.Name && runs(k.ctx, src) })
		k.app.Note("%s", localAdvice(local, totalMemory("/proc/meminfo"), running))
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
		key, provider := providerOf(text)
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

// fits reports whether a machine with so much memory (in bytes; 0: unknown) can run a model. The
// system keeps some for itself.
func fits(m llm.StarterModel, memory uint64) bool {
	return memory == 0 || float64(memory)/1e9 >= m.Memory*0.9
}

// fitting returns the largest model that fits, or the smallest if none does.
func fitting(models []llm.StarterModel, memory uint64) llm.StarterModel {
	best := models[0]
	for _, m := range models {
		if fits(m, memory) {
			best = m
		}
	}
	return best
}

// localAdvice says what a local model of a vendor would need on a machine with so much memory (in bytes;
// 0: unknown). running says whether its server runs.
func localAdvice(v llm.Vendor, memory uint64, running bool) string {
	var b strings.Builder
	has := float64(memory) / 1e9
	rows := [][]string{{"LOCAL MODEL", "DOWNLOAD", "MEMORY", ""}}
	for _, m := range v.Starter.Models {
		large := ""
		if !fits(m, memory) {
			large = fmt.Sprintf("too large for the %.0f GB here", has)
		}
		rows = append(rows, []string{m.Name, fmt.Sprintf("%.1f GB", m.Size), fmt.Sprintf("%.0f GB", m.Memory), large})
	}
	b.WriteString(columns(rows, 0))
	first := "install " + v.Title + " from " + v.Starter.Download + ", then "
	if running {
		first = ""
	}
	fmt.Fprintf(&b, "\nTo get one: %srun\n  %s %s\nand steward setup again.\n", first, v.Starter.Pull, fitting(v.Starter.Models, memory).Name)
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
func (a *program) tryModel(ctx context.Context, s *app.Supply, name string) error {
	a.Note("Trying %s …", name)
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	found, err := s.Probe(ctx, name, a.User(), llm.CanTools)
	if err = cmp.Or(err, found.Errs[llm.CanTools]); err != nil {
		return err
	}
	took := found.Took[llm.CanTools].Round(100 * time.Millisecond)
	if found.Can[llm.CanTools] {
		a.Note("✓ %s answers and uses tools (%s)\n", name, took)
		return nil
	}
	a.Note("! %s answers (%s), but did not use the tool that it was given; tools may not work with it\n", name, took)
	return nil
}
