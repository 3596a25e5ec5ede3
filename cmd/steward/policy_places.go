package main

import (
	"net/netip"
	"net/url"
	"strings"

	"steward/internal/settings"
)

// places returns what says of a model ("provider/model") whether what it is
// sent stays on this machine and its own network. Who is not known is not
// there.
func places(set *settings.Loaded) func(model string) bool {
	local := map[string]bool{"offline": true, "ollama": true}
	for name, p := range set.Providers {
		switch {
		case p.Place != "":
			local[name] = p.Place == "local"
		case p.BaseURL != "":
			local[name] = near(p.BaseURL)
		}
	}
	return func(model string) bool {
		provider, name, _ := strings.Cut(model, "/")
		if set.Providers[provider].Place == "" && lent(provider, name) {
			return false
		}
		return local[provider]
	}
}

// lent reports whether a model of Ollama is one that only passes on what it is
// sent, to run it in the cloud (https://docs.ollama.com/cloud).
func lent(provider, model string) bool {
	return provider == "ollama" && (strings.HasSuffix(model, "-cloud") || strings.HasSuffix(model, ":cloud"))
}

// near reports whether an address is this machine's or of a network at home:
// by its number, or by a name that only such have.
func near(base string) bool {
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
