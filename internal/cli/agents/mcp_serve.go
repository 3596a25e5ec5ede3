package agents

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/server/mcp"
)

func (a *program) serveMCP() *cobra.Command {
	var key string
	c := &cobra.Command{Use: "serve", Short: "Be an MCP server over standard input and output, for a desktop client",
		Args: cobra.NoArgs,
		Long: "Offer Steward's tools, agents and resources to a program that starts MCP servers as commands. It uses the\n" +
			"Steward that runs, or opens the data folder and serves it for as long as the client is there. What needs\n" +
			"an approval is asked in the client, if it can ask (docs/guides/mcp.md). Programs that speak MCP over HTTP\n" +
			"need no command: a Steward that runs serves it at /mcp (docs/reference/mcp.md).",
		Example: "  steward mcp serve\n  steward mcp serve --key-env STEWARD_KEY",
		RunE:    func(c *cobra.Command, _ []string) error { return a.bridgeMCP(c.Context(), key) }}
	c.Flags().StringVar(&key, "key-env", "", "`NAME` of the environment variable with the API key to use; default: the token of this machine's user")
	return c
}

// bridgeMCP connects standard input and output to the server at /mcp.
func (a *program) bridgeMCP(ctx context.Context, keyVariable string) (err error) {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	secret := a.Token(set.Data)
	if keyVariable != "" {
		key := a.Getenv(keyVariable)
		if key == "" {
			return fault.New(fault.Invalid, "key_missing", "the environment variable %s is not set", keyVariable).
				WithHint("set it to a key that steward keys create has made")
		}
		secret = func() (string, error) { return key, nil }
	}
	log := a.Logger(set, a.Stderr)
	s, err := a.Connect(ctx, set, command.NeedNode, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.End()) }()
	if s.Local != nil {
		served, err := a.Listen(ctx, set, s.Local, set.Listen, log)
		if err != nil {
			log.Info("MCP is served at a free port", "because", err)
			if served, err = a.Listen(ctx, set, s.Local, "127.0.0.1:0", log); err != nil {
				return err
			}
		}
		defer served.Close()
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	b := mcp.Bridge{In: a.Stdin, Out: a.Stdout, HTTP: &http.Client{Transport: transport}, Server: func() (string, string, error) {
		n, err := app.ReadNotice(set.Data)
		if err != nil {
			return "", "", fault.New(fault.Unavailable, "server_unknown", "no Steward serves %s", set.Data).WithHint("start it with steward serve")
		}
		own, err := secret()
		return n.URL, own, err
	}}
	return b.Run(ctx)
}
