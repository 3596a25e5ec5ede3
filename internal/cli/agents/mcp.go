package agents

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
	"steward/internal/source/mcp"
	"steward/internal/terminal"
)

func (a *program) mcpCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "mcp", Short: "Add, connect, list, test and remove MCP servers, and be one", GroupID: "keep",
		Long: "Manage the MCP servers whose tools Steward's assistant may use. They are stored in the file mcp.json of\n" +
			"the data folder, in the format that other programs use (mcpServers). A server's tools are used only\n" +
			"after you have approved them, and only as approved. Agents declare servers of their own in their\n" +
			"agent.yaml. steward mcp serve makes Steward an MCP server itself.",
	}, a.addMCP(), a.connectMCP(), a.listMCP(), a.testMCP(), a.removeMCP(), a.serveMCP())
}

// MCPSource is the path under which a server is listed and approved.
func MCPSource(name string) (string, error) { return catalog.SourcePath("mcp", name) }

// mcpFile is the file with the servers of a data folder.
func (a *program) mcpFile() (string, error) {
	set, err := a.Settings()
	if err != nil {
		return "", err
	}
	return filepath.Join(set.Data, "mcp.json"), nil
}

func (a *program) addMCP() *cobra.Command {
	var d mcp.Decl
	var env, headers []string
	var o approvalFlags
	var confined bool
	var folder string
	c := &cobra.Command{
		Use: "add NAME [--] [COMMAND [ARG…]]", Short: "Add a server, review its tools, and approve them",
		Long: "Add a server to mcp.json: a program that speaks MCP over its standard input and output, or with --url\n" +
			"one that is reached over streamable HTTP. It is started, its tools are shown, and you are asked.\n" +
			"Some servers are known by name and need nothing else; you are asked for the secrets that they need:\n" +
			knownNames() + ".\n" +
			"${NAME} in the values of --env and --header is replaced by the environment variable of that name.",
		Example: "  steward mcp add github\n" +
			"  steward mcp add docs -- npx -y @modelcontextprotocol/server-filesystem ~/Documents\n" +
			"  steward mcp add wiki --url https://example.com/mcp --header 'Authorization: Bearer ${WIKI_TOKEN}'",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := toolSettings(o.tools)
			if err != nil {
				return err
			}
			name := args[0]
			if k, ok := mcp.KnownServer(name); ok && len(args) == 1 && d.URL == "" {
				name = k.Name
				d, err = a.knownServer(c.Context(), k, folder)
			} else if (len(args) == 1) == (d.URL == "") {
				err = command.Usage("give a command after the name, or --url; these need neither: %s", knownNames())
			} else {
				if len(args) > 1 {
					d.Command, d.Args = args[1], args[2:]
				}
				d.Env, err = pairs("--env", "=", env)
				if err == nil {
					d.Headers, err = pairs("--header", ":", headers)
				}
			}
			if err != nil {
				return err
			}
			if confined {
				d.Sandbox = &mcp.Sandbox{}
			}
			return a.addServer(c.Context(), name, d, o, set)
		},
	}
	f := c.Flags()
	f.StringVar(&d.URL, "url", "", "`ADDRESS` of a server over streamable HTTP")
	f.StringArrayVar(&env, "env", nil, "environment variable `NAME=VALUE` for the program")
	f.StringArrayVar(&headers, "header", nil, "header `'NAME: VALUE'` to send with each request")
	f.StringVar(&folder, "folder", "", "`FOLDER` for a server that works in one; default: the workspace")
	f.BoolVar(&confined, "sandbox", false, "run the program in a sandbox: no network, no files except its own")
	command.YesFlag(c, &o.yes)
	f.StringArrayVar(&o.tools, "tool", nil, "`NAME=HOW` to use tools: query, action, ask, noask or off; NAME may be a glob")
	return c
}

// knownNames lists the servers that need nothing but their name.
func knownNames() string {
	var names []string
	for _, k := range mcp.KnownServers() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// knownServer returns the declaration of a known server. It asks for the secrets that it needs
// and that are not there yet.
func (a *program) knownServer(ctx context.Context, k mcp.Known, folder string) (mcp.Decl, error) {
	set, err := a.Settings()
	if err != nil {
		return mcp.Decl{}, err
	}
	if folder = cmp.Or(folder, set.Workspace); k.Folder {
		if folder == "" {
			return mcp.Decl{}, command.Usage("name a folder with --folder")
		}
		folder = a.Path(folder)
	}
	have := a.Declared(set, slog.New(slog.DiscardHandler))
	for _, name := range slices.Sorted(maps.Keys(k.Secrets)) {
		if _, ok := have("", name); ok {
			continue
		}
		if _, terminal := command.TerminalInput(a.Stdin); !terminal {
			return mcp.Decl{}, fault.New(fault.Invalid, "secret_missing", "%s needs %s: %s", k.Name, name, k.Secrets[name]).
				WithHint("steward secrets set %s", name)
		}
		a.Note("%s needs %s: %s", k.Name, name, k.Secrets[name])
		value, err := a.ReadSecret(ctx, name)
		if err == nil {
			err = secret.NewStore(secret.Folder(set.Data)).Set(name, value)
		}
		if err != nil {
			return mcp.Decl{}, err
		}
	}
	return k.In(folder), nil
}

// pairs reads NAME<sep>VALUE flags.
func pairs(flag, sep string, given []string) (map[string]string, error) {
	out := map[string]string{}
	for _, g := range given {
		name, value, ok := strings.Cut(g, sep)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, command.Usage("%s must be NAME%sVALUE, not %q", flag, sep, g)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}

func (a *program) addServer(ctx context.Context, name string, d mcp.Decl, o approvalFlags, set map[string]catalog.ToolSetting) error {
	path, err := MCPSource(name)
	if err != nil {
		return err
	}
	file, err := a.mcpFile()
	if err != nil {
		return err
	}
	if err := mcp.AddServer(file, name, d); err != nil {
		return err
	}
	a.Note("added to %s", file)
	err = a.With(ctx, command.NeedAgents, func(s *command.Session) error {
		if err := listed(ctx, s, path); err != nil {
			return err
		}
		return a.approveEach(ctx, s, []string{path}, o, set)
	})
	if fault.HasCode(err, "oauth_not_connected") {
		a.Note("it is stored; it is used when you have connected and approved it")
	} else if err != nil {
		a.Note("it is stored but not used: steward mcp test %s tests it, steward agents approve %s approves it, steward mcp remove %s removes it", name, path, name)
	}
	return err
}

// listed waits until a running Steward lists the added server.
func listed(ctx context.Context, s *command.Session, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		list, err := allAgents(ctx, s)
		if err != nil {
			return err
		}
		for _, l := range list {
			if l.Path == path {
				return nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "mcp_not_seen", "the running Steward has not loaded %s", path).
				WithHint("check that it uses the same data folder; steward agents list shows what it has found")
		}
	}
}

func (a *program) listMCP() *cobra.Command {
	return a.APICommand(command.NeedAgents, &cobra.Command{Use: "list", Short: "List the servers, and whether each is approved"},
		func(ctx context.Context, s *command.Session, _ []string) error {
			list, err := allAgents(ctx, s)
			list = slices.DeleteFunc(list, func(l catalog.Listing) bool { return !strings.HasPrefix(l.Path, "mcp:") })
			err = command.PrintList(a.Program, list, err, "there are no MCP servers; steward mcp add NAME -- COMMAND adds one",
				func(list []catalog.Listing) string { return agentTable(list, a.Width()) })
			if err != nil {
				return err
			}
			set, err := a.Settings()
			if err != nil {
				return err
			}
			for name, keys := range SignIns(a.Program, set) {
				if lacks, _ := keys.Lacks(); lacks != "" {
					a.Note("%s: %s; run %s", name, lacks, keys.Connect)
				}
			}
			return nil
		})
}

func (a *program) testMCP() *cobra.Command {
	return a.APICommand(command.NeedAgents, &cobra.Command{Use: "test NAME", Short: "Start or reach a server and show its tools",
		Long: "Start or reach a server and show the tools that it has now, and how each would be approved. This\n" +
			"approves nothing."},
		func(ctx context.Context, s *command.Session, args []string) error {
			path, err := MCPSource(strings.TrimPrefix(args[0], "mcp:"))
			if err != nil {
				return err
			}
			began := time.Now()
			insp, err := inspect(ctx, s, path)
			err = command.PrintValue(a.Program, insp, err, func(insp catalog.Inspection) string { return terminal.Inspected(insp, true) })
			if err == nil && !a.JSON {
				a.Note("%s answered in %s; it is %s", path, time.Since(began).Round(time.Millisecond), terminal.StatusWords(insp.Listing))
			}
			return err
		})
}

func (a *program) removeMCP() *cobra.Command {
	return &cobra.Command{Use: "remove NAME", Short: "Remove a server from mcp.json",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.mcpFile()
			if err == nil {
				err = mcp.RemoveServer(file, strings.TrimPrefix(args[0], "mcp:"))
			}
			if err != nil {
				return err
			}
			return a.Print(args[0] + " is removed\n")
		}}
}

func (a *program) connectMCP() *cobra.Command {
	var device bool
	var o approvalFlags
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
			return a.With(c.Context(), command.NeedAgents, func(s *command.Session) error {
				list, err := allAgents(c.Context(), s)
				if err != nil || slices.ContainsFunc(list, func(l catalog.Listing) bool { return l.Path == path && l.Usable }) {
					return err
				}
				return a.approveEach(c.Context(), s, []string{path}, o, set)
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&device, "device", false, "consent on another device: for machines without a browser")
	command.YesFlag(c, &o.yes)
	f.StringArrayVar(&o.tools, "tool", nil, "`NAME=HOW` to use tools: query, action, ask, noask or off; NAME may be a glob")
	return c
}

// connectServer signs in at a server.
func (a *program) connectServer(ctx context.Context, name string, device bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	d, there := a.MCPServers(set)[name]
	if !there {
		return fault.New(fault.NotFound, "mcp_server_unknown", "there is no MCP server %.80q", name).WithHint("steward mcp list shows the servers")
	}
	opt, env := app.TokensOf(set, a.Resolver(set).Masker), a.MCPEnv(set, name)
	keys, err := d.Resource(env, opt)
	if err != nil {
		return err
	}
	if keys == nil {
		return fault.New(fault.Unsupported, "mcp_no_sign_in", "%s is a program, or has an Authorization header: it needs no sign-in", name)
	}
	ctx, cancel := context.WithTimeout(ctx, command.ConsentTimeout)
	defer cancel()
	if err := app.NeedsSignIn(ctx, d, env, opt, keys, name); err != nil {
		return err
	}
	return keys.Consent(ctx, device, a.ShowConsent)
}

// SignIns returns the servers of MCP at which a person signs in, by name.
func SignIns(p *command.Program, set *settings.Loaded) map[string]*oauth.Resource {
	a := &program{p}
	all := map[string]*oauth.Resource{}
	for name, d := range a.MCPServers(set) {
		if keys, err := d.Resource(a.MCPEnv(set, name), app.TokensOf(set, nil)); err == nil && keys != nil {
			all[name] = keys
		}
	}
	return all
}
