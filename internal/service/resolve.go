package service

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"steward/internal/fault"
)

// Binding is one service of an agent with its resolved source. The source is
// never Parent, regardless of the number of levels in between.
type Binding struct {
	Config
	Source  Source // Local or Remote
	Owner   string // the path of the agent whose service it is
	Offered bool   // to the level below
}

// Bindings are all services of an agent.
type Bindings map[Name]Binding

// Root returns the bindings of the root level: the node's own, all offered.
func Root() Bindings {
	b := Bindings{}
	for _, n := range Names() {
		b[n] = Binding{Source: Local, Offered: true}
	}
	return b
}

// Resolve binds an agent's services; above holds the bindings of the parent
// level. It reports all faults at once, joined. Error codes, all Invalid:
// service_unknown, service_invalid, service_not_offered.
func Resolve(path string, own Configs, above Bindings) (Bindings, []error) {
	var wrong []error
	for _, n := range slices.Sorted(maps.Keys(own)) {
		if !slices.Contains(Names(), n) {
			wrong = append(wrong, fault.New(fault.Invalid, "service_unknown", "there is no service %q", n).
				WithHint("the services are llm, db, logging, state and user").Detail("service", string(n)))
		}
	}
	out := Bindings{}
	for _, n := range Names() {
		b, err := bind(path, n, own[n], above[n])
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out[n] = b
	}
	return out, wrong
}

func bind(path string, n Name, c Config, above Binding) (Binding, error) {
	bad := func(code, remedy, format string, args ...any) (Binding, error) {
		return Binding{}, fault.New(fault.Invalid, code, "the service "+string(n)+" of "+path+" "+format, args...).
			WithHint("%s", remedy).Detail("service", string(n))
	}
	b := Binding{Config: c, Source: c.Source, Owner: path, Offered: c.Offering == Serve}
	switch {
	case c.Offering != "" && c.Offering != None && c.Offering != Serve:
		return bad("service_invalid", "write none or serve", "has the invalid offering %q", c.Offering)
	case c.Fallback != "" && (c.Fallback != Local || c.Source != Remote):
		return bad("service_invalid", "only a remote service can fall back, to local", "has the invalid fallback %q", c.Fallback)
	case c.Source != Remote && (c.URL != "" || c.Key != ""):
		return bad("service_invalid", "set source: remote, or leave url and key out", "has a url or key but is not remote")
	case c.Level != "" && !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Level):
		return bad("service_invalid", "write debug, info, warn or error", "has the invalid level %q", c.Level)
	}
	switch c.Source {
	case "", Local:
		b.Source = Local
	case Remote:
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(c.URL, " \n") {
			return bad("service_invalid", "set url to the http or https address of the service", "is remote, and its url is %q", c.URL)
		}
	case Parent:
		if !above.Offered {
			return bad("service_not_offered", "set offering: serve for it in the agent above, or another source here",
				"is taken from the level above, which does not offer it")
		}
		b.Source, b.Owner, b.Fallback, b.URL, b.Key = above.Source, above.Owner, above.Fallback, above.URL, above.Key
		b.Model = cmp.Or(c.Model, above.Model)
		b.Level = cmp.Or(c.Level, above.Level)
		b.Temperature = cmp.Or(b.Temperature, above.Temperature)
		if b.MaxTokens == 0 || above.MaxTokens != 0 && above.MaxTokens < b.MaxTokens {
			b.MaxTokens = above.MaxTokens
		}
	default:
		return bad("service_invalid", "write local, remote or parent", "has the invalid source %q", c.Source)
	}
	return b, nil
}
