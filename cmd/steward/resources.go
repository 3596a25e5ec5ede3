package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"steward/internal/tree"
)

func (a *app) resourcesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "resources", Aliases: []string{"resource"}, Short: "See all that exists, and keep things of your own", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Everything is a resource with a URI: conversations and messages, requests, intents, agents, tools, and\n" +
			"what you keep yourself. A URI is cld: and a path of Type.id steps. What you keep has a type of your own\n" +
			"and lies below your own place: cld:home.Note.shopping is short for\n" +
			"cld:identity.User.local/home.Note.shopping. With --space group:NAME it is a group's, and all of its\n" +
			"members have it.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listResources(), a.getResource(), a.putResource(), a.deleteResource(), a.resourceParents(), a.resourceHistory())
	return c
}

// thing is a resource as /api/v1 tells it.
type thing struct {
	URI           string          `json:"uri"`
	Type          string          `json:"type"`
	Space         string          `json:"space"`
	Version       uint64          `json:"version,omitzero"`
	State         string          `json:"state,omitzero"`
	At            time.Time       `json:"at,omitzero"`
	Actor         string          `json:"actor,omitzero"`
	Purpose       string          `json:"purpose,omitzero"`
	Instructions  string          `json:"instructions,omitzero"`
	Applicability string          `json:"applicability,omitzero"`
	Evaluation    string          `json:"evaluation,omitzero"`
	Masked        bool            `json:"masked,omitzero"`
	Body          json.RawMessage `json:"body,omitempty"`
	Text          string          `json:"text,omitzero"`
	Base64        string          `json:"base64,omitzero"`
}

type things struct {
	Resources []thing `json:"resources"`
	Next      string  `json:"next,omitzero"`
}

// withResources runs do with the API of what has the resources.
func (a *app) withResources(ctx context.Context, do func(caller) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	a.idle = true
	b, err := a.open(ctx, set, a.logger(set, a.stderr))
	if err != nil {
		return err
	}
	return errors.Join(do(b), b.Close())
}

// upTo reads pages until there are enough.
func upTo(ctx context.Context, api caller, path string, q url.Values, limit int) (things, error) {
	all := things{Resources: []thing{}}
	for {
		q.Set("limit", strconv.Itoa(min(limit-len(all.Resources), tree.MaxPage)))
		var page things
		if err := api.call(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return all, err
		}
		all.Resources = append(all.Resources, page.Resources...)
		if all.Next = page.Next; page.Next == "" || len(all.Resources) >= limit {
			return all, nil
		}
		q.Set("after", page.Next)
	}
}

func (a *app) listResources() *cobra.Command {
	var under, typ, space, state, since, until, after string
	var limit int
	var bodies bool
	c := &cobra.Command{
		Use: "list", Short: "List resources", Args: cobra.NoArgs,
		Long: "List resources, in the order of the tree; with --since the last changed first.",
		Example: "  steward resources list --type home.Note\n  steward resources list --since 2h\n" +
			"  steward resources list --space group:family",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			q := url.Values{}
			for name, value := range map[string]string{"under": under, "type": typ, "space": space, "state": state, "after": after} {
				if value != "" {
					q.Set(name, value)
				}
			}
			if bodies {
				q.Set("bodies", "true")
			}
			for name, value := range map[string]string{"since": since, "until": until} {
				at, err := ago("--"+name, value, time.Now())
				if err != nil {
					return err
				}
				if !at.IsZero() {
					q.Set(name, at.UTC().Format(time.RFC3339))
				}
			}
			return a.withResources(c.Context(), func(api caller) error {
				all, err := upTo(c.Context(), api, "/resources", q, limit)
				if err != nil {
					return err
				}
				return a.printThings(all, "nothing is there that fits", "--after "+all.Next)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&under, "under", "", "only what lies at or below the `URI`")
	f.StringVar(&typ, "type", "", "only resources of the `TYPE`, such as home.Note or tool.Tool")
	f.StringVar(&space, "space", "", "only those of an `OWNER`: user:NAME, group:NAME or system")
	f.StringVar(&state, "state", "", "only those in the state `WORD`")
	f.StringVar(&since, "since", "", "only what was changed since: a `TIME` ago such as 2h or 3d, or a date")
	f.StringVar(&until, "until", "", "only what was changed before: a `TIME` ago, or a date")
	f.IntVar(&limit, "limit", 100, "list at most `N`")
	f.StringVar(&after, "after", "", "go on at the `CURSOR` of an earlier list")
	f.BoolVar(&bodies, "bodies", false, "with what is in them (with --json)")
	complete(c, "type", words("common.Conversation", "common.Request", "effect.Intent", "agent.Agent", "tool.Tool"))
	complete(c, "space", a.completeSpaces)
	return c
}

// ago reads a duration back from now, or a date.
func ago(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s wants a time ago such as 2h or 3d, or a date such as 2030-01-31, not %q", flag, text)
}

func (a *app) printThings(all things, none, more string) error {
	if a.json {
		return a.printJSON(all)
	}
	if len(all.Resources) == 0 {
		a.note("%s", none)
		return nil
	}
	if _, err := io.WriteString(a.stdout, thingTable(all.Resources, a.width(), time.Now())); err != nil {
		return err
	}
	if all.Next != "" {
		a.note("there is more: %s", more)
	}
	return nil
}

// thingTable writes resources in columns; what describes them takes the room
// that is left.
func thingTable(list []thing, width int, now time.Time) string {
	rows := [][]string{{"URI", "OWNER", "VERSION", "STATE", "CHANGED"}}
	about := []string{"WHAT IT IS FOR"}
	for _, t := range list {
		version := "-"
		if t.Version > 0 {
			version = strconv.FormatUint(t.Version, 10)
		}
		changed := "-"
		if !t.At.IsZero() {
			changed = when(t.At, now)
		}
		rows = append(rows, []string{plainLine(t.URI), t.Space, version, cmp.Or(t.State, "-"), changed})
		about = append(about, plainLine(firstLine(t.Purpose)))
	}
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, s := range r {
			wide[i] = max(wide[i], lipgloss.Width(s))
		}
	}
	var out strings.Builder
	for n, r := range rows {
		line := ""
		for i, s := range r {
			line += fill(s, wide[i]) + "  "
		}
		room := mostGist
		if width > 0 {
			room = max(leastWhat, width-lipgloss.Width(line))
		}
		out.WriteString(strings.TrimRight(line+cell(about[n], room), " ") + "\n")
	}
	return out.String()
}

// when says a time shortly: the hour of today, else the day.
func when(at, now time.Time) string {
	at = at.Local()
	if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return at.Format("15:04:05")
	}
	return at.Format(time.DateOnly)
}

// item is where one resource is reached.
func item(path, uri, space string) (string, url.Values) {
	q := url.Values{"uri": {uri}}
	if space != "" {
		q.Set("space", space)
	}
	return path, q
}

func (a *app) getResource() *cobra.Command {
	var space string
	var version uint64
	c := &cobra.Command{
		Use: "get URI", Short: "Show one resource", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeResources,
		RunE: func(c *cobra.Command, args []string) error {
			path, q := item("/resources/item", args[0], space)
			if version > 0 {
				q.Set("version", strconv.FormatUint(version, 10))
			}
			return a.withResources(c.Context(), func(api caller) error {
				var t thing
				if err := api.call(c.Context(), http.MethodGet, path+"?"+q.Encode(), nil, &t); err != nil {
					return err
				}
				return a.printThing(t)
			})
		},
	}
	c.Flags().Uint64Var(&version, "version", 0, "an earlier version, `N`")
	a.spaceFlag(c, &space)
	return c
}

func (a *app) spaceFlag(c *cobra.Command, space *string) {
	c.Flags().StringVar(space, "space", "", "whose it is, where the URI does not say: an `OWNER` such as group:family; else your own")
	complete(c, "space", a.completeSpaces)
}

// printThing writes a resource: what is known of it, then what is in it.
func (a *app) printThing(t thing) error {
	if a.json {
		return a.printJSON(t)
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	line("uri", plainLine(t.URI))
	line("owner", t.Space)
	if t.Version > 0 {
		line("version", fmt.Sprintf("%d, by %s, %s", t.Version, cmp.Or(t.Actor, "nobody known"), t.At.Local().Format(time.DateTime)))
	}
	line("state", t.State)
	if t.Masked {
		line("hidden", "policy does not let all of it be seen")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case len(t.Body) > 0:
		body := jsontext.Value(t.Body)
		if err := body.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(false)); err != nil {
			return err
		}
		b.WriteString("\n" + plainText(string(body)) + "\n")
	case t.Text != "":
		b.WriteString("\n" + plainText(t.Text) + "\n")
	case t.Base64 != "":
		b.WriteString("\n" + t.Base64 + "\n")
	}
	_, err := a.stdout.Write(b.Bytes())
	return err
}

func (a *app) putResource() *cobra.Command {
	var space, body, file, state string
	var version uint64
	var create bool
	c := &cobra.Command{
		Use: "put URI", Short: "Keep a resource, or replace it by a new version", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeResources,
		Long: "Keep a resource, or replace it by a new version. Its body is a JSON object, from --body, --file or the\n" +
			"standard input. The members purpose, instructions, applicability and evaluation, if there, are texts\n" +
			"that describe it.",
		Example: "  steward resources put cld:home.Note.shopping --body '{\"purpose\":\"What to buy\",\"items\":[\"milk\"]}'\n" +
			"  steward resources put cld:home.Note.rules --space group:family --file rules.json --version 3",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.body(c, body, file)
			if err != nil {
				return err
			}
			if err := tree.CheckBody(raw); err != nil {
				return err
			}
			path, q := item("/resources/item", args[0], space)
			for name, value := range map[string]string{"state": state, "create": map[bool]string{true: "true"}[create]} {
				if value != "" {
					q.Set(name, value)
				}
			}
			if version > 0 {
				q.Set("version", strconv.FormatUint(version, 10))
			}
			return a.withResources(c.Context(), func(api caller) error {
				var t thing
				if err := api.call(c.Context(), http.MethodPut, path+"?"+q.Encode(), json.RawMessage(raw), &t); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(t)
				}
				a.note("kept %s, version %d", plainLine(t.URI), t.Version)
				return nil
			})
		},
	}
	f := c.Flags()
	f.StringVar(&body, "body", "", "what to keep: a `JSON` object")
	f.StringVar(&file, "file", "", "the `FILE` that has it; - is the standard input")
	f.StringVar(&state, "state", "", "a `WORD` for how far it is, such as open")
	f.Uint64Var(&version, "version", 0, "only if it is at version `N` now")
	f.BoolVar(&create, "create", false, "only if it is not there yet")
	c.MarkFlagsMutuallyExclusive("body", "file")
	c.MarkFlagsMutuallyExclusive("version", "create")
	a.spaceFlag(c, &space)
	return c
}

// body reads what is to be kept.
func (a *app) body(c *cobra.Command, body, file string) ([]byte, error) {
	if c.Flags().Changed("body") {
		return []byte(body), nil
	}
	in := a.stdin
	if file == "" && (in == nil || isTerminal(in)) {
		return nil, usage("there is nothing to keep: give --body JSON or --file FILE, or pipe it in")
	}
	if file != "" && file != "-" {
		f, err := os.Open(a.path(file))
		if err != nil {
			return nil, usage("--file: %v", err)
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, tree.MaxBody+1))
}

func (a *app) deleteResource() *cobra.Command {
	var space string
	var version uint64
	var erase bool
	c := &cobra.Command{
		Use: "delete URI…", Short: "Delete resources of your own", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeResources,
		Long: "Delete resources of your own. Earlier versions stay, and can be seen by steward resources history and\n" +
			"put again; with --erase they are gone for good.",
		RunE: func(c *cobra.Command, args []string) error {
			if version > 0 && len(args) > 1 {
				return usage("--version is for one resource")
			}
			return a.withResources(c.Context(), func(api caller) error {
				for _, uri := range args {
					path, q := item("/resources/item", uri, space)
					if version > 0 {
						q.Set("version", strconv.FormatUint(version, 10))
					}
					done := "deleted"
					if erase {
						q.Set("erase", "true")
						done = "erased"
					}
					if err := api.call(c.Context(), http.MethodDelete, path+"?"+q.Encode(), nil, nil); err != nil {
						return err
					}
					a.note("%s %s", done, plainLine(uri))
				}
				return nil
			})
		},
	}
	c.Flags().Uint64Var(&version, "version", 0, "only if it is at version `N` now")
	c.Flags().BoolVar(&erase, "erase", false, "for good, with all earlier versions")
	a.spaceFlag(c, &space)
	return c
}

func (a *app) resourceParents() *cobra.Command {
	var space string
	c := &cobra.Command{
		Use: "parents URI", Short: "Show the resources above one", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeResources,
		RunE: func(c *cobra.Command, args []string) error {
			path, q := item("/resources/parents", args[0], space)
			return a.withResources(c.Context(), func(api caller) error {
				var all things
				if err := api.call(c.Context(), http.MethodGet, path+"?"+q.Encode(), nil, &all); err != nil {
					return err
				}
				return a.printThings(all, "nothing is there above it", "")
			})
		},
	}
	a.spaceFlag(c, &space)
	return c
}

func (a *app) resourceHistory() *cobra.Command {
	var space string
	var limit int
	c := &cobra.Command{
		Use: "history URI", Short: "List the versions of a resource", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeResources,
		Long: "List the versions of a resource, the newest first, also of one that was deleted. One of them is shown by\n" +
			"steward resources get URI --version N.",
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			path, q := item("/resources/history", args[0], space)
			return a.withResources(c.Context(), func(api caller) error {
				all, err := upTo(c.Context(), api, path, q, limit)
				if err != nil || a.json {
					return errors.Join(err, a.jsonUnless(err, all))
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "VERSION\tSTATE\tCHANGED\tBY")
				for _, t := range all.Resources {
					fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", t.Version, cmp.Or(t.State, "-"), t.At.Local().Format(time.DateTime), cmp.Or(t.Actor, "-"))
				}
				return w.Flush()
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "list at most `N`")
	a.spaceFlag(c, &space)
	return c
}

// jsonUnless writes a value for programs where nothing went wrong.
func (a *app) jsonUnless(err error, v any) error {
	if err != nil {
		return nil
	}
	return a.printJSON(v)
}
