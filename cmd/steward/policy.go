package main

import (
	"log/slog"
	"path/filepath"
	"time"

	"steward/internal/policy/rego"
	"steward/internal/settings"
)

// policiesFolder is where the user's own policies lie in a data folder.
func policiesFolder(data string) string { return filepath.Join(data, "policies") }

// policySettings are the settings that policies see.
func policySettings(set *settings.Loaded) map[string]any {
	return map[string]any{"approve": set.Approve}
}

// openPolicies opens the judge over the user's policies.
func (l *local) openPolicies(set *settings.Loaded, log *slog.Logger) error {
	var err error
	l.judge, err = rego.Open(rego.Options{
		Dir: policiesFolder(set.Data), Directory: l.keys, Settings: policySettings(set), Log: log,
		Zone: func(user string) *time.Location {
			p, err := l.briefProfile(set, user)
			if err != nil || p.TimeZone == "" {
				return nil
			}
			return zoneOf(p.TimeZone)
		},
	})
	return err
}

// closePolicies ends what openPolicies began.
func (l *local) closePolicies() error {
	if l.judge == nil {
		return nil
	}
	return l.judge.Close()
}
