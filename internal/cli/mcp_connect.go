package cli

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
	"steward/internal/source/mcp"
	"steward/internal/tool"
)

func (a *program) connectMCP() *cobra.Command {
	var device bool
	var o approving
	c := &cobra.Command{
		Use: "connect NAME", Short: "Sign in at a server that asks for it, with OAuth", Args: cobra.ExactArgs(1),
		Long: "Sign in at a server over streamable HTTP. You consent in a browser on this machine, or on another\n" +
			"device. Steward stores the token as a secret, refreshes it, and sends it to this server only. Run it\n" +
			"again when the server wants more rights than you have given. A server that is not approved yet is\n" +
			"shown next, as with steward mcp add.",
		Example: "  steward mcp connect linear\n  steward mcp connect wiki --device",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := toolSettings(o.tools)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(args[0], "mcp:")
			if err := a.connectServer(c.Context(), name, device); err != nil {
				return err
			}
			a.Note("connected; a running Steward uses the token from its next call on")
			path, err := MCPSource(name)
			if err != nil {
				return err
			}
			return a.with(c.Context(), toManage, func(s *session) error {
				list, err := s.agents(c.Context())
				if err != nil || slices.ContainsFunc(list, func(l catalog.Listing) bool { return l.Path == path && l.Usable }) {
					return err
				}
				return a.approveEach(c.Context(), s, []string{path}, o, set)
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&device, "device", false, "consent on another device: for machines without a browser")
	yesFlag(c, &o.yes)
	f.StringArrayVar(&o.tools, "tool", nil, "`NAME=HOW` to use tools: query, action, ask, noask or off; NAME may be a glob")
	return c
}

// connectServer signs in at a server.
func (a *program) connectServer(ctx context.Context, name string, device bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	d, there := a.mcpServers(set)[name]
	if !there {
		return fault.New(fault.NotFound, "mcp_server_unknown", "there is no MCP server %.80q", name).WithHint("steward mcp list shows the servers")
	}
	opt, env := app.TokensOf(set, a.Resolver(set).Masker), a.mcpEnv(set, name)
	keys, err := d.Resource(env, opt)
	if err != nil {
		return err
	}
	if keys == nil {
		return fault.New(fault.Unsupported, "mcp_no_sign_in", "%s is a program, or has an Authorization header: it needs no sign-in", name)
	}
	ctx, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	source, err := mcp.Opener(opt)(env, func(into any) error { *into.(*mcp.Decl) = d; return nil })
	if err != nil {
		return err
	}
	_, err = source.Announce(ctx) // so that the server says what sign-in it requires
	source.Close()                //nolint:errcheck // it was only asked
	lacks, connected := keys.Lacks()
	switch {
	case err != nil && !strings.HasPrefix(fault.Of(err).Code, "oauth_"):
		return err
	case err == nil && lacks == "" && !connected:
		return fault.New(fault.Unsupported, "mcp_no_sign_in", "%s requires no sign-in: it can be used as it is", name)
	}
	return keys.Consent(ctx, device, a.showConsent)
}

// mcpServers returns the user's own servers by name.
func (a *program) mcpServers(set *settings.Loaded) map[string]mcp.Decl {
	files := append([]string{filepath.Join(set.Data, "mcp.json")}, set.MCP...)
	for _, file := range a.MCPFiles {
		files = append(files, a.Path(file))
	}
	return mcp.Declared(files...)
}

func (a *program) mcpEnv(set *settings.Loaded, name string) tool.Env {
	log := slog.New(slog.DiscardHandler)
	have := a.Declared(set, log)
	return tool.Env{Name: name, Secret: func(name string) (string, bool) { return have("", name) }, Log: log}
}

// mcpKeys returns the servers that can be signed in at, by name.
func (a *program) mcpKeys(set *settings.Loaded) map[string]*oauth.Resource {
	all := map[string]*oauth.Resource{}
	for name, d := range a.mcpServers(set) {
		if keys, err := d.Resource(a.mcpEnv(set, name), app.TokensOf(set, nil)); err == nil && keys != nil {
			all[name] = keys
		}
	}
	return all
}

// checkMCP reports which servers a person has to sign in at.
func (a *program) checkMCP(set *settings.Loaded) []check {
	all := a.mcpKeys(set)
	var checks []check
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch lacks, connected := all[name].Lacks(); {
		case lacks != "":
			checks = append(checks, ill("mcp", warn, fmt.Sprintf("%s is not connected: %s", name, lacks), all[name].Connect))
		case connected:
			checks = append(checks, fine("mcp", "%s is connected", name))
		}
	}
	return checks
}
