package app

import (
	"context"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/settings"
)

// Settings implements api.Setup.
func (s *setupService) Settings(context.Context) (client.Settings, error) {
	_, set, err := s.fresh()
	if err != nil {
		return client.Settings{}, err
	}
	out := client.Settings{Files: append([]string{}, set.Files...), Notices: append([]string{}, set.Notices...)}
	out.Settings = s.views(set)
	return out, nil
}

// views shows the settings, and which of them wait for the next start.
func (s *setupService) views(set *settings.Loaded) (out []client.Setting) {
	keys := map[string]settings.Key{}
	for k := range settings.Keys() {
		keys[k.Path] = k
	}
	began := map[string]string{}
	for _, v := range s.began.Values() {
		began[v.Key] = v.Value
	}
	for _, v := range set.Values() {
		k := keys[v.Key]
		x := client.Setting{Key: v.Key, Value: v.Value, From: v.Source.String(), Doc: k.Doc, Type: k.Type, Choices: k.Choices, Default: k.Default,
			Right: string(settings.RightOf(v.Key)), AtOnce: settings.AtOnce(v.Key)}
		if _, err := settings.Setting(v.Key, "x"); fault.HasCode(err, "setting_unknown") { // such as a list
			x.Right = ""
		}
		if !ofUser(v.Source) {
			x.Fixed = v.Source.String()
		}
		x.Waits = !x.AtOnce && began[v.Key] != v.Value
		out = append(out, x)
	}
	return out
}

// ofUser reports whether a value comes from the user's file, or would if it were there.
func ofUser(s settings.Source) bool {
	return s.Kind == settings.FromDefault || s.Kind == settings.FromUser
}

// Set implements api.Setup.
func (s *setupService) Set(ctx context.Context, user, key string, value *string) (client.Setting, error) {
	c := settings.Change{Key: key, Unset: true}
	text := ""
	if value != nil {
		text = *value
	}
	checked, err := settings.Setting(key, text)
	if fault.HasCode(err, "setting_unknown") || value != nil && err != nil {
		return client.Setting{}, err
	}
	if value != nil {
		c = checked
	}
	switch right := settings.RightOf(key); {
	case right == settings.ByNobody:
		return client.Setting{}, fault.New(fault.Denied, "setting_guarded", "%s is changed only in the settings file", key).WithHint("edit %s on the machine that Steward runs on, and start Steward again", s.file())
	case right == settings.ByOwner && user != identity.Local:
		return client.Setting{}, fault.New(fault.Denied, "setting_guarded", "only the machine's own user changes %s", key)
	}
	err = s.change(ctx, user, func(_ *App, set *settings.Loaded, file string) error {
		if from := set.SourceOf(key); !ofUser(from) {
			return fault.New(fault.Conflict, "setting_overridden", "%s is set by %s, which counts more than the settings file", key, from).WithHint("change it there")
		}
		return settings.Edit(file, c)
	})
	if err != nil {
		return client.Setting{}, err
	}
	_, set := s.current()
	for _, v := range s.views(set) {
		if v.Key == key {
			return v, nil
		}
	}
	return client.Setting{Key: key, From: string(settings.FromDefault), AtOnce: settings.AtOnce(key)}, nil // of a user who has none any more
}

func (s *setupService) file() string {
	if file := settings.UserFile(s.app.Environ); file != "" {
		return file
	}
	return settings.FileName
}

// Budgets implements api.Setup.
func (s *setupService) Budgets(context.Context) (client.Budgets, func(user string) (client.Budget, bool)) {
	_, set := s.current()
	l := &set.Limits
	now := time.Now().In(zoneOf(set.Profile.TimeZone))
	y, m, d := now.Date()
	out := client.Budgets{Answer: client.Budget{Tokens: l.Tokens, Cost: l.Cost}, Day: client.Budget{Tokens: l.DayTokens, Cost: l.DayCost},
		Begins: time.Date(y, m, d, 0, 0, 0, 0, now.Location()), Ends: time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())}
	own := userBudgets(set)
	return out, func(user string) (client.Budget, bool) {
		if b, there := own[user]; there {
			return client.Budget{Tokens: b.MaxTokens, Cost: b.MaxCost}, true
		}
		return out.Day, false
	}
}
