package app

import (
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/llm"
	"steward/internal/policy/rego"
	"steward/internal/settings"
)

// Places returns a function that reports whether requests to a model ("provider/model") stay
// on this machine and its own network. For unknown providers it returns false.
func Places(set *settings.Loaded) func(model string) bool {
	local := map[string]bool{}
	for v := range Vendors().All() {
		local[v.Name] = v.Access == llm.BuiltIn || v.Access == llm.ByLocal
	}
	for name, p := range set.Providers {
		switch {
		case p.Place != "":
			local[name] = p.Place == "local"
		case p.BaseURL != "":
			local[name] = isPrivateHost(p.BaseURL)
		}
	}
	return func(model string) bool {
		provider, name, _ := strings.Cut(model, "/")
		if v, _ := Vendors().Named(provider); set.Providers[provider].Place == "" && v.Elsewhere != nil && v.Elsewhere(name) {
			return false
		}
		return local[provider]
	}
}

// isPrivateHost reports whether an address belongs to this machine or a private network, judging by
// its IP address or by a name that only these have.
func isPrivateHost(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || !proxied(u) && (ip.IsPrivate() || ip.IsLinkLocalUnicast())
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if host == "" || proxied(u) {
		return false
	}
	for _, end := range []string{".local", ".lan", ".internal", ".home.arpa"} {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return !strings.Contains(host, ".")
}

// PoliciesFolder is the folder of the user's own policies in a data folder.
func PoliciesFolder(data string) string { return filepath.Join(data, "policies") }

// PolicySettings are the settings that policies see.
func PolicySettings(set *settings.Loaded) map[string]any {
	return map[string]any{"approve": set.Approve}
}

// OpenPolicies opens the authorizer over the user's policies.
func (l *Local) OpenPolicies(set *settings.Loaded, log *slog.Logger) error {
	var err error
	l.Judge, err = rego.Open(rego.Options{
		Dir: PoliciesFolder(set.Data), Directory: l.Keys, Settings: PolicySettings(set), Log: log, Poll: l.outside.Poll,
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

// ClosePolicies closes the authorizer, if it is open.
func (l *Local) ClosePolicies() error {
	if l.Judge == nil {
		return nil
	}
	return l.Judge.Close()
}
