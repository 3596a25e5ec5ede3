package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/llm"
	"steward/internal/secret"
	"steward/internal/settings"
)

// SetupAnswers are what a person has chosen, at the terminal or in the page. What is empty stays as it is.
type SetupAnswers struct {
	Model    string // provider/model
	Folder   string
	Topic    string // of ntfy; none: the user is not reached there
	Provider string // whose Key was typed; empty: none was
	Key      string
	BaseURL  string // of the Provider
}

// KeySecret is the name of the secret that holds the key of a provider.
func KeySecret(provider string) string { return provider + "_api_key" }

// WriteSetup writes what a person has chosen into a settings file, and the key into a secret. All else in the
// file stays. It reports whether there was anything to write.
func (a *App) WriteSetup(set *settings.Loaded, file string, x SetupAnswers) (bool, error) {
	var changes []settings.Change
	if x.Provider != "" {
		at := "providers." + x.Provider
		if x.Key != "" {
			changes = append(changes, settings.Change{Key: at + ".key", Value: "store:" + KeySecret(x.Provider)})
		}
		if x.BaseURL != "" {
			changes = append(changes, settings.Change{Key: at + ".base_url", Value: x.BaseURL})
		}
		if set.Providers[x.Provider].Off {
			changes = append(changes, settings.Change{Key: at + ".off", Value: "false", Word: true})
		}
	}
	if x.Model != "" {
		key := "models.default"
		if set.SourceOf(key+".effort").Kind != settings.FromDefault { // it is written in its long form
			key += ".use"
		}
		changes = append(changes, settings.Change{Key: key, Value: x.Model})
	}
	if x.Folder != "" {
		changes = append(changes, settings.Change{Key: "workspace", Value: x.Folder})
	}
	if x.Topic != "" && x.Topic != cmp.Or(set.Notify.Ntfy.Topic, "none") {
		topic := x.Topic
		if topic == "none" {
			topic = ""
		}
		changes = append(changes, settings.Change{Key: "notify.ntfy.topic", Value: topic})
	}
	if len(changes) == 0 {
		return false, nil
	}
	if x.Key != "" {
		if err := secret.NewStore(secret.Folder(set.Data)).Set(KeySecret(x.Provider), x.Key); err != nil {
			return false, err
		}
	}
	return true, settings.Edit(file, changes...)
}

// maxChoices is how many models setup lists.
const maxChoices = 9

// Choices returns the models to choose from: each provider's default model first, then the others
// of servers on this machine, whose owner chose them, and of vendors whose default model is bad.
func (s *Supply) Choices(ctx context.Context, bad map[string]bool) []string {
	var names, more []string
	list := s.List(ctx).Models
	for _, src := range s.Sources {
		if IsBuiltIn(src.Name()) || src.Names.Standard == "" || bad[src.Name()] {
			continue
		}
		standard := src.Name() + "/" + src.Names.Standard
		names = append(names, standard)
		if v, _ := Vendors().Named(src.Name()); v.Access == llm.ByKey && !bad[standard] {
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
	if provider, _, _ := strings.Cut(def, "/"); !IsBuiltIn(provider) && !bad[provider] && !slices.Contains(names, def) {
		names = append([]string{def}, names...)
	}
	names = slices.DeleteFunc(names, func(m string) bool { return bad[m] })
	return names[:min(len(names), maxChoices)]
}

// pastedKey finds the key in what people paste: NAME=KEY, with export before it and quotes around it.
var pastedKey = regexp.MustCompile(`^(?:(?:export\s+)?[A-Z0-9_]+\s*=\s*)?["']?([^\s"']+)["']?;?$`)

// KeyOf returns the key in a text, and the provider that it is of.
func KeyOf(text string) (key, provider string) {
	found := pastedKey.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil || secret.Check(found[1]) != nil {
		return "", ""
	}
	longest := ""
	for v := range Vendors().All() {
		for _, begins := range v.KeyPrefixes {
			if strings.HasPrefix(found[1], begins) && len(begins) > len(longest) {
				longest, key, provider = begins, found[1], v.Name
			}
		}
	}
	return key, provider
}

// FitsMemory reports whether a machine with so much memory (in bytes; 0: unknown) can run a model. The
// system keeps some for itself.
func FitsMemory(m llm.StarterModel, memory uint64) bool {
	return memory == 0 || float64(memory)/1e9 >= m.Memory*0.9
}

// LargestFitting returns the largest model that fits, or the smallest if none does.
func LargestFitting(models []llm.StarterModel, memory uint64) llm.StarterModel {
	best := models[0]
	for _, m := range models {
		if FitsMemory(m, memory) {
			best = m
		}
	}
	return best
}

// TotalMemory reads the memory of the machine from Linux' /proc/meminfo, in bytes; 0: unknown.
func TotalMemory(file string) uint64 {
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

// Tried is what a trial call of a model has shown.
type Tried struct {
	Tools bool // it has used the tool that it was given
	Took  time.Duration
}

// Try calls a model once, with a tool that it should use. user is whose budget counts.
func (s *Supply) Try(ctx context.Context, name, user string) (Tried, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	found, err := s.Probe(ctx, name, user, llm.CanTools)
	if err = cmp.Or(err, found.Errs[llm.CanTools]); err != nil {
		return Tried{}, err
	}
	return Tried{found.Can[llm.CanTools], found.Took[llm.CanTools]}, nil
}
