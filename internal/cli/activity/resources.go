package activity

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
	strictly "steward/internal/strict"
	"steward/internal/tree"
)

func (a *program) resourcesCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "resources", Aliases: []string{"resource"}, Short: "List all resources, and store your own", GroupID: "keep",
		Long: "Everything is a resource with a URI: conversations and messages, requests, intents, agents, tools, and\n" +
			"what you store yourself. A URI is cld: and a path of Type.id steps. What you store has a type of your\n" +
			"own and is below your own place: cld:home.Note.shopping is short for\n" +
			"cld:identity.User.local/home.Note.shopping. With --space group:NAME it belongs to a group, and\n" +
			"all of its members have access.",
	}, a.listResources(), a.getResource(), a.putResource(), a.deleteResource(), a.resourceParents(), a.resourceHistory())
}

func (a *program) listResources() *cobra.Command {
	var q client.ResourceQuery
	var limit int
	c := a.APICommand(command.NeedIdleNode, &cobra.Command{Use: "list", Short: "List resources",
		Long: "List resources, in tree order; with --since, most recently changed first.",
		Example: "  steward resources list --type home.Note\n  steward resources list --since 2h\n" +
			"  steward resources list --space group:family"},
		func(ctx context.Context, s *command.Session, _ []string) error {
			all, err := s.Resources(ctx, q, limit)
			return a.printThings(all, err, "no resource matches", "--after "+all.Next)
		})
	f := c.Flags()
	f.StringVar(&q.Under, "under", "", "only resources at or below the `URI`")
	f.StringVar(&q.Type, "type", "", "only resources of the `TYPE`, such as home.Note or tool.Tool")
	f.StringVar(&q.Space, "space", "", "only resources of an `OWNER`: user:NAME, group:NAME or system")
	f.StringVar(&q.State, "state", "", "only resources in the state `WORD`")
	command.SinceUntil(c, &q.Since, &q.Until, "resources changed")
	command.LimitFlag(c, &limit, 100, "list at most `N`")
	f.StringVar(&q.After, "after", "", "continue an earlier list at its `CURSOR`")
	f.BoolVar(&q.Bodies, "bodies", false, "include their contents (with --json)")
	command.CompleteFlag(c, "type", command.Words("common.Conversation", "common.Request", "effect.Intent", "agent.Agent", "tool.Tool"))
	command.CompleteFlag(c, "space", a.completeSpaces)
	return c
}

func (a *program) printThings(all client.ResourceList, err error, none, more string) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(all)
	}
	err = command.PrintList(a.Program, all.Resources, nil, none, func(list []client.Resource) string { return thingTable(list, a.Width(), time.Now()) })
	if err == nil && all.Next != "" {
		a.Note("there is more: %s", more)
	}
	return err
}

// thingTable formats resources in columns. Their descriptions take the rest of the width.
func thingTable(list []client.Resource, width int, now time.Time) string {
	rows := [][]string{{"URI", "OWNER", "VERSION", "STATE", "CHANGED", "WHAT IT IS FOR"}}
	for _, t := range list {
		version, changed := "-", "-"
		if t.Version > 0 {
			version = strconv.FormatUint(t.Version, 10)
		}
		if !t.At.IsZero() {
			changed = when(t.At, now)
		}
		rows = append(rows, []string{command.PlainLine(t.URI), t.Space, version, cmp.Or(t.State, "-"), changed, command.Cell(command.PlainLine(command.FirstLine(t.Purpose)), command.MaxGist)})
	}
	return command.Columns(rows, width)
}

// when formats a time briefly: the time of day for today, else the date.
func when(at, now time.Time) string {
	at = at.Local()
	if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return at.Format("15:04:05")
	}
	return at.Format(time.DateOnly)
}

func (a *program) getResource() *cobra.Command {
	var it client.Item
	c := a.APICommand(command.NeedIdleNode, &cobra.Command{Use: "get URI", Short: "Show one resource", ValidArgsFunction: a.completeResources},
		func(ctx context.Context, s *command.Session, args []string) error {
			it.URI = args[0]
			t, err := s.Resource(ctx, it)
			return command.PrintValue(a.Program, t, err, thingText)
		})
	c.Flags().Uint64Var(&it.Version, "version", 0, "show the earlier version `N`")
	a.spaceFlag(c, &it.Space)
	return c
}

func (a *program) spaceFlag(c *cobra.Command, space *string) {
	c.Flags().StringVar(space, "space", "", "the `OWNER`, such as group:family, if the URI does not name it; by default you")
	command.CompleteFlag(c, "space", a.completeSpaces)
}

// thingText formats a resource: its properties, then its content.
func thingText(t client.Resource) string {
	var rows [][]string
	line := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	line("uri", command.PlainLine(t.URI))
	line("owner", t.Space)
	if t.Version > 0 {
		line("version", fmt.Sprintf("%d, by %s, %s", t.Version, cmp.Or(t.Actor, "unknown"), t.At.Local().Format(time.DateTime)))
	}
	line("state", t.State)
	if t.Masked {
		line("hidden", "policy hides parts of it")
	}
	text := command.Columns(rows, 0)
	switch body := jsontext.Value(t.Body); {
	case len(body) > 0:
		body.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(false)) //nolint:errcheck // it was decoded out of JSON
		text += "\n" + command.PlainText(string(body)) + "\n"
	case t.Text != "":
		text += "\n" + command.PlainText(t.Text) + "\n"
	case t.Base64 != "":
		text += "\n" + t.Base64 + "\n"
	}
	return text
}

func (a *program) putResource() *cobra.Command {
	var it client.Item
	var body, file, state string
	var create bool
	c := &cobra.Command{Use: "put URI", Short: "Store a resource, or a new version of it", ValidArgsFunction: a.completeResources,
		Long: "Store a resource, or a new version of it. Its body is a JSON object, from --body, --file or standard\n" +
			"input. The members purpose, instructions, applicability and evaluation, if present, are texts that\n" +
			"describe it.",
		Example: "  steward resources put cld:home.Note.shopping --body '{\"purpose\":\"What to buy\",\"items\":[\"milk\"]}'\n" +
			"  steward resources put cld:home.Note.rules --space group:family --file rules.json --version 3",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.body(c, body, file)
			if err == nil {
				err = tree.CheckBody(raw)
			}
			if err != nil {
				return err
			}
			it.URI = args[0]
			return a.With(c.Context(), command.NeedIdleNode, func(s *command.Session) error {
				t, err := s.PutResource(c.Context(), it, raw, state, create)
				return a.PrintDone(t, err, "stored %s, version %d", command.PlainLine(t.URI), t.Version)
			})
		}}
	f := c.Flags()
	f.StringVar(&body, "body", "", "the body, a `JSON` object")
	f.StringVar(&file, "file", "", "read the body from `FILE`; - is standard input")
	f.StringVar(&state, "state", "", "its state, a `WORD` such as open")
	f.Uint64Var(&it.Version, "version", 0, "only if it is at version `N`")
	f.BoolVar(&create, "create", false, "only if it does not exist yet")
	c.MarkFlagsMutuallyExclusive("body", "file")
	c.MarkFlagsMutuallyExclusive("version", "create")
	a.spaceFlag(c, &it.Space)
	return c
}

// body reads the body to store.
func (a *program) body(c *cobra.Command, body, file string) ([]byte, error) {
	if c.Flags().Changed("body") {
		return []byte(body), nil
	}
	in := a.Stdin
	if file == "" && (in == nil || app.IsTerminal(in)) {
		return nil, command.Usage("there is nothing to store: give --body JSON or --file FILE, or pipe it in")
	}
	if file != "" && file != "-" {
		f, err := os.Open(a.Path(file))
		if err != nil {
			return nil, command.Usage("--file: %v", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, tree.MaxBody+1))
	return strictly.Unmarked(b), err
}

func (a *program) deleteResource() *cobra.Command {
	var it client.Item
	var erase bool
	c := a.APICommand(command.NeedIdleNode, &cobra.Command{Use: "delete URI…", Short: "Delete resources of your own", ValidArgsFunction: a.completeResources,
		Long: "Delete resources of your own. Earlier versions stay: steward resources history lists them, and they\n" +
			"can be stored again. With --erase they are gone for good."},
		func(ctx context.Context, s *command.Session, args []string) error {
			if it.Version > 0 && len(args) > 1 {
				return command.Usage("--version is for one resource")
			}
			done := "deleted"
			if erase {
				done = "erased"
			}
			for _, uri := range args {
				it.URI = uri
				if err := s.DeleteResource(ctx, it, erase); err != nil {
					return err
				}
				a.Note("%s %s", done, command.PlainLine(uri))
			}
			return nil
		})
	c.Flags().Uint64Var(&it.Version, "version", 0, "only if it is at version `N`")
	c.Flags().BoolVar(&erase, "erase", false, "erase them for good, with all earlier versions")
	a.spaceFlag(c, &it.Space)
	return c
}

func (a *program) resourceParents() *cobra.Command {
	var space string
	c := a.APICommand(command.NeedIdleNode, &cobra.Command{Use: "parents URI", Short: "Show the resources above one", ValidArgsFunction: a.completeResources},
		func(ctx context.Context, s *command.Session, args []string) error {
			all, err := s.ResourceParents(ctx, client.Item{URI: args[0], Space: space})
			return a.printThings(all, err, "there is nothing above it", "")
		})
	a.spaceFlag(c, &space)
	return c
}

func (a *program) resourceHistory() *cobra.Command {
	var space string
	var limit int
	c := a.APICommand(command.NeedIdleNode, &cobra.Command{Use: "history URI", Short: "List the versions of a resource", ValidArgsFunction: a.completeResources,
		Long: "List the versions of a resource, newest first, also of a deleted one. To show one of them use\n" +
			"steward resources get URI --version N."},
		func(ctx context.Context, s *command.Session, args []string) error {
			all, err := s.ResourceHistory(ctx, client.Item{URI: args[0], Space: space}, limit)
			return command.PrintValue(a.Program, all, err, func(all client.ResourceList) string {
				rows := [][]string{{"VERSION", "STATE", "CHANGED", "BY"}}
				for _, t := range all.Resources {
					rows = append(rows, []string{fmt.Sprint(t.Version), cmp.Or(t.State, "-"), t.At.Local().Format(time.DateTime), cmp.Or(t.Actor, "-")})
				}
				return command.Columns(rows, 0)
			})
		})
	command.LimitFlag(c, &limit, 50, "list at most `N`")
	a.spaceFlag(c, &space)
	return c
}

// completeResources offers the URIs of the user's resources. They are read from the
// database, because opening a node that checks access takes too long.
func (a *program) completeResources(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return command.Offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
		st, err := a.OpenReadOnly(ctx)
		if err != nil || st == nil {
			return nil, err
		}
		defer st.Close()
		const most = 100
		place := resource.Root(identity.TypeUser, a.User())
		page, err := st.Query(ctx, store.ForUser(a.User()), store.Query{Under: place, Limit: most, NoBody: true})
		for _, it := range page.Items {
			if short, ok := strings.CutPrefix(it.URI.String(), place.String()+"/"); ok && !strings.HasPrefix(short, "tree.") {
				out = append(out, resource.Scheme+short)
			}
		}
		return out, err
	})
}

// completeSpaces offers the spaces that the user may write.
func (a *program) completeSpaces(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
	groups, how := command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]string, error) {
		u, err := s.User(ctx, a.User())
		return u.Groups, err
	}, func(g *string) (string, string) { return string(resource.GroupSpace(*g)), "" })(c, args, to)
	return append([]cobra.Completion{string(resource.UserSpace(a.User()))}, groups...), how
}
