package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/provider/wire"
	"steward/internal/secret"
	"steward/internal/settings"
)

// setupService lets administrators see the settings and choose models while Steward runs. A change is written to
// the user's file, which is then read again: the node has the new models at once (llm.Models.Replace). All other
// settings take effect at the next start.
type setupService struct {
	app    *App
	judge  policy.Authorizer
	log    *slog.Logger
	models *llm.Models // of the node

	engine *conversation.Engine
	start  time.Time        // what was used before is not in the ledger of the day
	began  *settings.Loaded // what is in force, except for models

	mu       sync.Mutex // of changes, one at a time
	now      *Supply
	set      *settings.Loaded
	recalled bool // the ledger has what was used before the start

	signing signIns
}

func newSetup(a *App, set *settings.Loaded, l *Local) *setupService {
	return &setupService{app: a, judge: l.Judge, log: l.Log, models: l.Found.Models, now: l.Found, set: set, engine: l.engine, start: time.Now(), began: set, recalled: limitsDays(set)}
}

// closeSetup ends what the settings have begun.
func (l *Local) closeSetup() error {
	if s, ok := l.setup.(*setupService); ok {
		return s.signing.close()
	}
	return nil
}

// fresh reads the settings from their sources.
func (s *setupService) fresh() (*App, *settings.Loaded, error) {
	s.app.Hidden() // shared with the copy
	again := *s.app
	again.Set, again.credentials = nil, nil
	set, err := again.loadSettings()
	return &again, set, err
}

// current returns the models and settings in force.
func (s *setupService) current() (*Supply, *settings.Loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.set
}

// change changes the user's file and puts the models of the new settings in force. If they cannot be read, the file
// becomes what it was.
func (s *setupService) change(ctx context.Context, user string, do func(a *App, set *settings.Loaded, file string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, set, err := s.fresh()
	if err != nil {
		return err
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Invalid, "settings_unreadable", "%s cannot be read: %w", file, err).WithHint("fix or move the file")
	}
	existed := err == nil
	if err := do(a, set, file); err != nil {
		return err
	}
	err = s.reload(ctx)
	if err != nil {
		undo := os.Remove(file)
		if existed {
			undo = os.WriteFile(file, before, 0o600)
		}
		return errors.Join(err, undo)
	}
	s.log.Info("the settings were changed", "by", user, "file", file)
	return nil
}

// reload puts the models of the settings in force as they are now in their files.
func (s *setupService) reload(ctx context.Context) error {
	a, set, err := s.fresh()
	if err != nil {
		return err
	}
	found, err := a.supplyWith(ctx, set, s.judge, s.log, s.now.ledger)
	if err != nil {
		return err
	}
	if limitsDays(set) && !s.recalled {
		if err := found.recall(ctx, s.engine, s.start); err != nil {
			return err
		}
		s.recalled = true
	}
	s.models.Replace(found.Models)
	s.now, s.set = found, set
	return nil
}

// Providers implements api.Setup.
func (s *setupService) Providers(ctx context.Context) (client.Providers, error) {
	now, set := s.current()
	out := client.Providers{Aliases: map[string][]string{}, Offline: now.OfflineOnly()}
	for name, a := range now.Aliases {
		out.Aliases[name] = a.Models
	}
	list := now.List(ctx)
	view := func(name string) client.Provider {
		held := set.Providers[name]
		p := client.Provider{Name: name, BaseURL: held.BaseURL, Off: held.Off}
		v := Vendors().For(name, held.Dialect)
		p.Title, p.Access = cmp.Or(v.Title, name), string(v.Access)
		if held.Key != "" {
			p.KeyFrom = set.SourceOf("providers." + name + ".key").String()
		}
		return p
	}
	listed := map[string]bool{}
	for _, src := range now.Sources {
		p := view(src.Name())
		listed[p.Name] = true
		p.Connected, p.Found = true, src.How
		if err := list.Errors[p.Name]; err != nil {
			p.Error = s.app.Hidden().Mask(WithoutRemedy(fault.Of(err)))
		}
		if src.Names.Standard != "" {
			p.Models = append(p.Models, p.Name+"/"+src.Names.Standard)
		}
		for _, m := range list.Models {
			if m.Provider == p.Name && !m.Embedder && !slices.Contains(p.Models, m.Full()) && len(p.Models) < maxListed {
				p.Models = append(p.Models, m.Full())
			}
		}
		out.Providers = append(out.Providers, p)
	}
	for v := range Vendors().All() {
		if !listed[v.Name] {
			listed[v.Name] = true
			out.Providers = append(out.Providers, view(v.Name))
		}
	}
	starter := Starter()
	memory := TotalMemory("/proc/meminfo")
	for _, m := range starter.Starter.Models {
		out.Local = append(out.Local, client.LocalModel{Name: m.Name, Download: m.Size, Memory: m.Memory, Fits: FitsMemory(m, memory)})
	}
	out.LocalFrom = starter.Starter.Download
	out.LocalHow = starter.Starter.Pull + " " + LargestFitting(starter.Starter.Models, memory).Name
	return out, nil
}

// maxListed is how many models of a provider are listed.
const maxListed = 500

var providerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// checked completes what connects a provider.
func checked(in client.Connection) (client.Connection, error) {
	key, recognised := KeyOf(in.Key)
	in.Provider, in.BaseURL = cmp.Or(strings.TrimSpace(in.Provider), recognised), strings.TrimSpace(in.BaseURL)
	switch found := pastedKey.FindStringSubmatch(strings.TrimSpace(in.Key)); {
	case in.Key == "":
	case key != "":
		in.Key = key
	case found == nil:
		return in, fault.New(fault.Invalid, "key_invalid", "that does not look like a key").WithHint("copy it again, without spaces")
	default:
		in.Key = found[1]
	}
	bad := func(code, format string, args ...any) (client.Connection, error) {
		return in, fault.New(fault.Invalid, code, format, args...)
	}
	if in.Key != "" {
		if secret.IsReference(in.Key) { // it could run a program
			return bad("key_invalid", "the key itself is needed, not where it is")
		}
		if err := secret.Check(in.Key); err != nil {
			return in, err
		}
	}
	v, known := Vendors().Named(in.Provider)
	if in.BaseURL != "" {
		if u, err := url.Parse(in.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(in.BaseURL) > 500 {
			return bad("base_url_invalid", "%.100q is not the address of a server; write https://HOST/v1", in.BaseURL)
		}
	}
	switch {
	case in.Provider == "":
		return bad("provider_unknown", "it is not known whose key this is; choose the provider")
	case !providerName.MatchString(in.Provider):
		return bad("provider_name_invalid", "%.40q cannot be the name of a provider; use letters, digits, - and _", in.Provider)
	case v.Access == llm.BuiltIn:
		return bad("provider_unknown", "%s needs no key", v.Title)
	case !known && in.BaseURL == "":
		return bad("base_url_missing", "%s is not a known provider; give the address of its API", in.Provider)
	case in.Key == "" && in.BaseURL == "" && v.Access != llm.ByLocal:
		return bad("key_missing", "%s needs a key", cmp.Or(v.Title, in.Provider))
	}
	if in.Model != "" && !strings.HasPrefix(in.Model, in.Provider+"/") { // a person writes the name that the provider gives it
		in.Model = in.Provider + "/" + in.Model
	}
	return in, nil
}

// Connect implements api.Setup.
func (s *setupService) Connect(ctx context.Context, user string, in client.Connection) (client.Tried, error) {
	in, err := checked(in)
	if err != nil {
		return client.Tried{}, err
	}
	if in.Key != "" {
		s.app.Hide(in.Key, "provider key")
	}
	now, _ := s.current()
	out, err := s.trial(ctx, user, in, now.ledger)
	if err != nil {
		if !in.Unchecked {
			return client.Tried{}, err
		}
		out.Failed = s.app.Hidden().Mask(WithoutRemedy(fault.Of(err)))
	}
	answers := SetupAnswers{Provider: in.Provider, Key: in.Key, BaseURL: in.BaseURL}
	if now.OfflineOnly() && out.Model != "" || in.Model != "" {
		answers.Model, out.Default = out.Model, out.Model != ""
	}
	return out, s.change(ctx, user, func(a *App, set *settings.Loaded, file string) error {
		_, err := a.WriteSetup(set, file, answers)
		return err
	})
}

// trial calls a model of a provider as it would be after a change that is not made yet.
func (s *setupService) trial(ctx context.Context, user string, in client.Connection, ledger *llm.DayLedger) (client.Tried, error) {
	a, set, err := s.fresh()
	if err != nil {
		return client.Tried{}, err
	}
	held := set.Providers[in.Provider]
	v := Vendors().For(in.Provider, held.Dialect)
	held.Off, held.BaseURL = false, cmp.Or(in.BaseURL, held.BaseURL)
	if v.Access != llm.ByKey {
		held.BaseURL = cmp.Or(held.BaseURL, v.BaseURL)
	}
	if in.Key != "" {
		held.Key = settings.Secret(in.Key)
	}
	set.Providers[in.Provider] = held
	found, err := a.supplyWith(ctx, set, s.judge, s.log, ledger)
	if err != nil {
		return client.Tried{}, err
	}
	out := client.Tried{Model: in.Model}
	if i := slices.IndexFunc(found.Sources, func(src Source) bool { return src.Name() == in.Provider }); i >= 0 && out.Model == "" {
		src := found.Sources[i]
		name := src.Names.Standard
		if name == "" {
			infos, err := src.Models(ctx)
			if err != nil {
				return out, s.ofProvider(in.Provider+"/", err)
			}
			infos = slices.DeleteFunc(infos, func(i llm.Info) bool { return i.Embedder })
			if len(infos) == 0 {
				return out, fault.New(fault.Unavailable, "no_models", "%s has no model yet", cmp.Or(v.Title, in.Provider)).WithHint("fetch a model there first")
			}
			name = infos[0].Name
		}
		out.Model = in.Provider + "/" + name
	}
	if out.Model == "" {
		return out, fault.New(fault.Unavailable, "provider_unreachable", "%s does not answer", cmp.Or(v.Title, in.Provider)).WithHint("start it, or check its address")
	}
	tried, err := found.Try(ctx, out.Model, user)
	out.Tools, out.Took = tried.Tools, tried.Took
	return out, s.ofProvider(out.Model, err)
}

// ofProvider is an error of a provider as an answer to an administrator: that the provider refuses the key does not
// mean that Steward refuses the caller.
func (s *setupService) ofProvider(model string, err error) error {
	if err == nil {
		return nil
	}
	e := fault.Of(err)
	provider, _, _ := strings.Cut(model, "/")
	said := s.app.Hidden().Mask(strings.TrimPrefix(WithoutRemedy(e), provider+": "))
	if e.Code == wire.CodeAuth {
		return fault.New(fault.Invalid, "key_refused", "%s refuses the key: %s", Vendors().For(provider, "").Title, said).WithHint("check that the key is complete and still valid")
	}
	if e.Kind == fault.Unauthentic || e.Kind == fault.Internal {
		return fault.New(fault.Unavailable, "model_failed", "%s does not work: %s", model, said)
	}
	return err
}

// Disconnect implements api.Setup.
func (s *setupService) Disconnect(ctx context.Context, user, provider string) error {
	now, _ := s.current()
	if v, _ := Vendors().Named(provider); v.Access == llm.BuiltIn || !has(now.Sources, provider) || !providerName.MatchString(provider) {
		return fault.New(fault.NotFound, "provider_not_found", "no provider %.40q is connected", provider)
	}
	return s.change(ctx, user, func(_ *App, set *settings.Loaded, file string) error {
		changes := []settings.Change{{Key: "providers." + provider + ".off", Value: "true", Word: true}}
		def := "models.default"
		if set.SourceOf(def+".effort").Kind != settings.FromDefault {
			def += ".use"
		}
		if use := set.Models[llm.DefaultAlias].Use; len(use) == 1 && strings.HasPrefix(use[0], provider+"/") {
			i := slices.IndexFunc(now.Sources, func(src Source) bool { return src.Name() != provider && src.Names.Standard != "" })
			changes = append(changes, settings.Change{Key: def, Value: now.Sources[i].Name() + "/" + now.Sources[i].Names.Standard})
		}
		if err := settings.Edit(file, changes...); err != nil {
			return err
		}
		err := secret.NewStore(secret.Folder(set.Data)).Remove(KeySecret(provider))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

// Try implements api.Setup.
func (s *setupService) Try(ctx context.Context, user, model string) (client.Tried, error) {
	now, _ := s.current()
	r, err := now.Resolve(model)
	if err != nil {
		return client.Tried{}, err
	}
	tried, err := now.Try(ctx, r.Models[0], user)
	return client.Tried{Model: r.Models[0], Tools: tried.Tools, Took: tried.Took}, s.ofProvider(r.Models[0], err)
}

// Use implements api.Setup.
func (s *setupService) Use(ctx context.Context, user, model string) error {
	now, _ := s.current()
	if _, err := now.Resolve(model); err != nil || !strings.Contains(model, "/") {
		return cmp.Or(err, error(fault.New(fault.Invalid, "model_not_found", "%.80q is not of the form provider/model", model)))
	}
	return s.change(ctx, user, func(a *App, set *settings.Loaded, file string) error {
		if from := set.SourceOf("models.default.use"); from.Kind != settings.FromDefault && from.Kind != settings.FromUser {
			return fault.New(fault.Conflict, "setting_overridden", "the default model is set by %s", from).WithHint("change it there")
		}
		_, err := a.WriteSetup(set, file, SetupAnswers{Model: model})
		return err
	})
}

// Find implements api.Setup.
func (s *setupService) Find(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reload(ctx)
}

// AddChannel implements api.Setup.
func (s *setupService) AddChannel(ctx context.Context, user string, in client.NewChannel) (out client.ChannelAccount, err error) {
	in.Name = cmp.Or(in.Name, in.Kind)
	switch {
	case !slices.Contains(ChannelKinds(), in.Kind):
		return out, fault.New(fault.Invalid, "channel_kind_unknown", "there is no kind of channel %.40q", in.Kind).WithHint("use %s", strings.Join(ChannelKinds(), ", "))
	case !providerName.MatchString(in.Name):
		return out, fault.New(fault.Invalid, "channel_name_invalid", "%.40q cannot be the name of a channel", in.Name).WithHint("use lower-case letters, digits, - and _")
	case secret.IsReference(in.Token):
		return out, fault.New(fault.Invalid, "token_invalid", "the token itself is needed, not where it is")
	}
	err = s.change(ctx, user, func(a *App, set *settings.Loaded, file string) error {
		if old, there := set.Channels[in.Name]; there && !old.Off {
			return fault.New(fault.Conflict, "channel_exists", "the settings already have a channel %s", in.Name).WithHint("choose another name, or remove it first")
		}
		out.Account, err = a.AddChannel(ctx, set, file, NewChannel{Name: in.Name, Kind: in.Kind, Token: in.Token, BaseURL: in.BaseURL, Settings: in.Settings, Unchecked: in.Unchecked})
		return s.ofService(in.Name, err)
	})
	return out, err
}

// ofService is an error of a service as an answer to an administrator, as ofProvider is.
func (s *setupService) ofService(name string, err error) error {
	if e := fault.Of(err); err != nil && (e.Kind == fault.Unauthentic || e.Kind == fault.Internal) {
		return fault.New(fault.Invalid, "channel_failed", "%s does not work: %s", name, s.app.Hidden().Mask(WithoutRemedy(e))).WithHint("check the token")
	}
	return err
}

// TestChannel implements api.Setup.
func (s *setupService) TestChannel(ctx context.Context, name string) (out client.ChannelAccount, err error) {
	a, set, err := s.fresh()
	if err != nil {
		return out, err
	}
	x, there := set.Channels[name]
	if !there {
		return out, fault.New(fault.NotFound, "channel_unknown", "the settings have no channel %.80q", name)
	}
	out.Account, err = a.CheckChannel(ctx, set, name, x)
	return out, s.ofService(name, err)
}

// RemoveChannel implements api.Setup.
func (s *setupService) RemoveChannel(ctx context.Context, user, name string) error {
	return s.change(ctx, user, func(_ *App, set *settings.Loaded, file string) error {
		x, there := set.Channels[name]
		if !there {
			return fault.New(fault.NotFound, "channel_unknown", "the settings have no channel %.80q", name)
		}
		return RemoveChannel(set, file, name, x)
	})
}
