package app

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/secret"
	"steward/internal/settings"
	"steward/internal/tool"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/web"
)

// webTools are the tools for the web.
func (l *Local) webTools(set *settings.Loaded) BuiltIn {
	search := web.Search{Engine: set.Web.Search.Engine, URL: set.Web.Search.URL, Key: l.SecretOf(set.Web.Search.Key)}
	if search.Engine == "mcp" {
		search.Call = l.searchWith(set.Web.Search.Tool)
	}
	return BuiltIn{Name: "web", tools: func() ([]tool.Tool, error) {
		if set.Web.Off {
			return nil, nil
		}
		hosts := set.Web.Hosts
		if u, err := url.Parse(search.URL); err == nil && u.Host != "" {
			hosts = append([]string{hostPort(u)}, hosts...)
		}
		rule, err := egress.Public(hosts...)
		if err != nil {
			return nil, err
		}
		k := domainlocal.NewKit(builtInEnv(set, "web"), "domain:web")
		web.Add(k, web.Options{Transport: l.outside.dialer(rule).Transport(), Reader: l.reader, Search: search})
		return k.Tools()
	}, Health: func(ctx context.Context) domainlocal.Health {
		if set.Web.Off {
			return domainlocal.Health{State: domainlocal.Off, Say: "the tools for the web are turned off", Remedy: "remove web.off from the settings"}
		}
		by := search.Name()
		if search.Call != nil {
			by = set.Web.Search.Tool
			if _, _, err := l.searchTool(by); err != nil {
				return failingHealth(err)
			}
		} else if err := search.Check(ctx); err != nil {
			return failingHealth(err)
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: "pages can be read; searches go to " + by}
	}}
}

// searchWith returns a function that searches with a tool of one of the user's MCP servers.
func (l *Local) searchWith(name string) func(context.Context, tool.Invocation, string) (tool.Result, error) {
	return func(ctx context.Context, in tool.Invocation, query string) (tool.Result, error) {
		t, arg, err := l.searchTool(name)
		if err != nil {
			return tool.Result{}, err
		}
		args, err := json.Marshal(map[string]string{arg: query})
		if err != nil {
			return tool.Result{}, err
		}
		res, err := in.Ask(ctx, t, args)
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Content: res.Content, Failed: res.Status != message.OK, Labels: res.Labels | message.LabelsOf(res.Content), Sources: res.Sources}, nil
	}
}

// searchTool finds a tool of the user's MCP servers, and its argument for what is searched. The servers are not
// known yet when the built-in tools are made.
func (l *Local) searchTool(name string) (t tool.Tool, arg string, err error) {
	var there bool
	if l.Catalog != nil {
		if tools := l.Catalog.Tree().Root.Tools; tools != nil {
			t, there = tools.Get(name)
		}
	}
	if !there || !strings.HasPrefix(t.Spec().Origin, "mcp:") {
		return nil, "", fault.New(fault.NotFound, "search_unknown", "there is no tool %.80q of an approved MCP server of yours", name).
			WithHint("name one in web.search.tool, as SERVER.TOOL; steward mcp list shows the servers")
	}
	for _, arg := range []string{"query", "q", "search_query", "text"} {
		if slices.Contains(t.Spec().Arguments(), arg) {
			return t, arg, nil
		}
	}
	return nil, "", fault.New(fault.Unsupported, "search_unknown", "%s has no argument for a query", name).WithHint("name another tool in web.search.tool")
}

// failingHealth is the health of tools that cannot work because of an error.
func failingHealth(err error) domainlocal.Health {
	e := fault.Of(err)
	return domainlocal.Health{State: domainlocal.Failing, Say: WithoutRemedy(e), Remedy: e.Remedy}
}

// SecretOf returns a function that resolves a secret of the settings, which may be a reference,
// when it is used; nil if there is none.
func (l *Local) SecretOf(s settings.Secret) func(context.Context) (string, error) {
	return secretOf(l.Resolver, s)
}

// secretOf returns what resolves a secret of the settings; nil: it is not set.
func secretOf(resolver *secret.Resolver, s settings.Secret) func(context.Context) (string, error) {
	switch text := s.Reveal(); {
	case text == "":
		return nil
	case !secret.IsReference(text):
		return func(context.Context) (string, error) { return text, nil }
	default:
		return func(ctx context.Context) (string, error) { return resolver.Resolve(ctx, text) }
	}
}

// hostPort returns the host of a URL with its port.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return u.Host + ":" + map[bool]string{true: "80", false: "443"}[u.Scheme == "http"]
}
