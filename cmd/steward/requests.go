package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

func (a *app) requestsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "requests", Aliases: []string{"request"}, Short: "See what was asked led to, and what still goes on", GroupID: "look", Args: cobra.NoArgs,
		Long: "What you ask is a request; so is each agent that is asked because of it, and each task that goes on\n" +
			"in the background. A request is closed when all that it led to is. It is named by its id, or by at\n" +
			"least 8 characters of the beginning of it.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listRequests(), a.showRequest(), a.cancelRequest(), a.resumeRequest())
	return c
}

func (a *app) listRequests() *cobra.Command {
	var all, everybody bool
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List the requests that are open", Args: cobra.NoArgs,
		Long: "List the requests that are open, the newest first; with --all the newest ones, closed or not. Turns\n" +
			"that led to no other request are not among them, unless they are parked or wait for their model:\n" +
			"steward log tells what they did.",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			list := []runtime.RequestView{}
			err := a.withRequests(c.Context(), func(st *sqlite.Store, s shelf) (err error) {
				sc := s.scope()
				if everybody {
					sc = store.ForNode(resource.System)
				}
				list, err = runtime.Requests(c.Context(), st, sc, all, limit)
				return err
			})
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(list)
			case len(list) == 0 && all:
				a.note("nothing that was asked led to another request yet")
			case len(list) == 0:
				a.note("no request is open")
			default:
				_, err = a.stdout.Write([]byte(requestTable(list, everybody, a.width(), time.Now())))
			}
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "closed ones too")
	c.Flags().BoolVar(&everybody, "all-users", false, "those of all users")
	c.Flags().IntVar(&limit, "limit", 50, "list at most `N`")
	return c
}

// withRequests runs do over what is stored; where nothing is, it does not.
func (a *app) withRequests(ctx context.Context, do func(*sqlite.Store, shelf) error) error {
	st, err := a.reading(ctx)
	if err != nil || st == nil {
		return err
	}
	return errors.Join(do(st, a.shelf(st)), st.Close())
}

func (a *app) showRequest() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Draw all that a request led to as a tree", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRequests,
		Long: "Draw the turn that a request is for as a tree: its tool calls, the agents that were asked and what\n" +
			"they did, and tasks with what their results opened; with times, tokens and costs of each and all below\n" +
			"it. ID is that of the turn's interaction or of any request below it; last is the newest request.",
		RunE: func(c *cobra.Command, args []string) error {
			price, err := a.pricing()
			if err != nil {
				return err
			}
			var tree *runtime.RequestView
			err = a.withRequests(c.Context(), func(st *sqlite.Store, s shelf) error {
				which, err := newestRequest(c.Context(), st, s, args[0])
				if err != nil {
					return err
				}
				v, err := runtime.RequestTree(c.Context(), st, s.scope(), which, price)
				tree = &v
				return err
			})
			switch {
			case err != nil:
				return err
			case tree == nil:
				return noRequest()
			case a.json:
				return a.printJSON(tree)
			}
			_, err = a.stdout.Write([]byte(requestTree(tree, a.width(), time.Now())))
			return err
		},
	}
}

func noRequest() error {
	return fault.New(fault.NotFound, "request_not_found", "there is no request yet").With(`begin one: steward ask "…"`)
}

// newestRequest returns the id that "last" means.
func newestRequest(ctx context.Context, st *sqlite.Store, s shelf, which string) (string, error) {
	if which != "last" {
		return which, nil
	}
	list, err := runtime.Requests(ctx, st, s.scope(), true, 1)
	if err == nil && len(list) == 0 {
		err = noRequest()
	}
	if err != nil {
		return "", err
	}
	return list[0].ID.String(), nil
}

// pricing is what model calls cost by the settings, for what is not summed up
// yet.
func (a *app) pricing() (func(string, message.Usage) float64, error) {
	set, err := a.settings()
	if err != nil {
		return nil, err
	}
	models, err := llm.New(llm.Config{Prices: prices(set)})
	if err != nil {
		return nil, err
	}
	return func(model string, u message.Usage) float64 {
		p, _ := models.Price(model)
		return p.Cost(u)
	}, nil
}

func (a *app) cancelRequest() *cobra.Command {
	return a.aboutRequest(&cobra.Command{Use: "cancel ID", Short: "End what a request still does",
		Long: "End what a request still does: a task, or all that is open below a turn. Whoever asked is told. What\n" +
			"had been changed by then stays changed."}, http.MethodDelete, "", "cancelled")
}

func (a *app) resumeRequest() *cobra.Command {
	return a.aboutRequest(&cobra.Command{Use: "resume ID", Short: "Go on with a turn that is parked",
		Long: "Go on with a turn that is parked: Steward crashed twice in a row while it ran. Where no Steward\n" +
			"serves, it goes on when one does."}, http.MethodPost, "/resume", "resumed")
}

// aboutRequest makes a command that decides about a request, perhaps another
// user's, by the API's method and what follows the request's path.
func (a *app) aboutRequest(c *cobra.Command, method, step, done string) *cobra.Command {
	user := c.Flags().String("user", "", "whose request it is: `NAME`; yours unless given")
	c.Args, c.ValidArgsFunction = cobra.ExactArgs(1), a.completeRequests
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.opened(c.Context(), func(b backend) error {
			path, query := "/requests/"+url.PathEscape(args[0]), ""
			if *user != "" {
				query = "?user=" + url.QueryEscape(*user)
			}
			if err := b.call(c.Context(), method, path+step+query, nil, nil); err != nil {
				return err
			}
			a.note("%s", done)
			if method != http.MethodDelete || *user != "" {
				return nil
			}
			return a.awaitOver(c.Context(), b, path)
		})
	}
	return c
}

// awaitOver gives what was cancelled a while to end, so that it does before
// this process does.
func (a *app) awaitOver(ctx context.Context, b backend, path string) error {
	if _, here := b.(*local); !here {
		return nil
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		var tree runtime.RequestView
		if err := b.call(ctx, http.MethodGet, path, nil, &tree); err != nil || tree.State == runtime.RequestClosed {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// completeRequests offers the newest requests.
func (a *app) completeRequests(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		var out []cobra.Completion
		err := a.withRequests(ctx, func(st *sqlite.Store, s shelf) error {
			list, err := runtime.Requests(ctx, st, s.scope(), true, 30)
			for i := range list {
				out = append(out, cobra.CompletionWithDesc(requestRef(list[i].ID), plainLine(requestWhat(&list[i]))))
			}
			return err
		})
		return out, err
	})
}

// requestRef is the beginning of an id: enough to find it by.
func requestRef(x id.ID) string {
	s := x.String()
	return s[:min(len(s), 13)]
}

// requestMark is a sign for how a request stands.
func requestMark(v *runtime.RequestView) string {
	outcome := v.Outcome
	if v.Kind == runtime.RequestTool || v.Kind == record.RequestAgent && outcome == "" {
		outcome = v.Status
	}
	switch {
	case v.State != runtime.RequestClosed && v.Outcome == "" || v.State == record.RequestAnswered && v.Error == "":
		return "…"
	case outcome == "answered", outcome == string(message.OK):
		return "✓"
	case outcome == string(message.UnknownEnd), outcome == string(message.Accepted), outcome == string(message.Queued), outcome == "":
		return "?"
	}
	return "✗"
}

// requestWhat says what a request is, on one line.
func requestWhat(v *runtime.RequestView) string {
	var s string
	switch v.Kind {
	case record.RequestTurn:
		switch s = v.Title; {
		case strings.HasPrefix(v.Origin, "tool:"), strings.HasPrefix(v.Origin, "agent:"), strings.HasPrefix(v.Origin, "intent:"):
			s = "« " + v.Agent + " is told"
		case s == "":
			s = "a turn of " + v.Agent
		}
	case record.RequestAgent:
		s = "agent " + v.Agent
		if v.Title != "" {
			s += ": " + v.Title
		}
	case record.RequestTask:
		switch s = "task " + v.Tool; v.Wish {
		case record.WishQueued:
			s = "queued " + v.Tool
		case record.WishRetry, record.WishUndo, record.WishResolve:
			s = "the user's " + v.Wish + " of " + v.Tool
		}
	default:
		s = v.Tool
	}
	if state := requestState(v); state != "" {
		s += " (" + state + ")"
	}
	return s
}

// requestState is what there is to say about how it stands, beside its mark.
func requestState(v *runtime.RequestView) string {
	var parts []string
	add := func(s string) {
		if s = strings.ReplaceAll(s, "_", " "); s != "" && !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	switch {
	case v.Kind == record.RequestTask && v.State == record.RequestOpen:
		add(v.Status)
		if v.Progress > 0 {
			add(fmt.Sprintf("%d%%", int(v.Progress*100)))
		}
		add(v.Message)
	case v.Status == runtime.RequestParked, v.Status == runtime.RequestWaiting:
		add(v.Status)
		add(v.Message)
	case v.State == record.RequestOpen:
		add("runs")
	case v.State == record.RequestAnswered:
		add("answered, waits for what it led to")
	}
	if v.Intent != "" && v.Intent != "done" {
		add(v.Intent)
	}
	if v.State == runtime.RequestClosed || v.Error != "" {
		if v.Outcome != "" && v.Outcome != "answered" && v.Outcome != string(message.OK) {
			add(v.Outcome)
		} else if v.Kind == runtime.RequestTool && v.Status != string(message.OK) {
			add(v.Status)
		}
		add(v.Error)
		if v.Message != "" && requestMark(v) != "✓" && v.State == runtime.RequestClosed {
			add(v.Message)
		}
	}
	return strings.Join(parts, ", ")
}

// requestTable lists requests, one a line, and perhaps whose they are.
func requestTable(list []runtime.RequestView, users bool, width int, now time.Time) string {
	type row struct{ kind, took, id, what string }
	rows := make([]row, len(list))
	var kind, took int
	for i := range list {
		v := &list[i]
		rows[i] = row{v.Started.Local().Format("01-02 15:04"), tookOf(v, now), requestRef(v.ID), plainLine(requestWhat(v))}
		if users {
			rows[i].what = plainLine(v.User) + ": " + rows[i].what
		}
		kind, took = max(kind, len(rows[i].kind)), max(took, lipgloss.Width(rows[i].took))
	}
	var b strings.Builder
	for i, r := range rows {
		line := fmt.Sprintf("%s  %s  %s  %s  %s", fill(r.kind, kind), requestMark(&list[i]), r.id,
			strings.Repeat(" ", took-lipgloss.Width(r.took))+r.took, r.what)
		if width > 0 {
			line = cell(line, width)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// tookOf is how long it took, or has taken until now.
func tookOf(v *runtime.RequestView, now time.Time) string {
	d := v.Took(now)
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

// requestTree draws a request and all below it.
func requestTree(v *runtime.RequestView, width int, now time.Time) string {
	type row struct{ what, took, tokens, cost string }
	var rows []row
	var draw func(v *runtime.RequestView, head, tail string)
	draw = func(v *runtime.RequestView, head, tail string) {
		r := row{what: head + requestMark(v) + " " + plainLine(requestWhat(v)), took: tookOf(v, now)}
		if n := v.Usage.Input + v.Usage.Output; n > 0 {
			r.tokens = fmt.Sprint(n)
		}
		if v.Cost > 0 {
			r.cost = fmt.Sprintf("$%.4f", v.Cost)
		}
		rows = append(rows, r)
		for i := range v.Below {
			if i < len(v.Below)-1 {
				draw(&v.Below[i], tail+"├─ ", tail+"│  ")
			} else {
				draw(&v.Below[i], tail+"└─ ", tail+"   ")
			}
		}
	}
	draw(v, "", "")
	var what, took, tokens, cost int
	rows = append([]row{{"", "time", "tokens", "cost"}}, rows...)
	for _, r := range rows {
		what, took = max(what, lipgloss.Width(r.what)), max(took, lipgloss.Width(r.took))
		tokens, cost = max(tokens, lipgloss.Width(r.tokens)), max(cost, lipgloss.Width(r.cost))
	}
	numbers := took + tokens + cost + 6
	if width > 0 {
		what = max(20, min(what, width-numbers))
	}
	what = min(what, 110)
	right := func(s string, n int) string { return strings.Repeat(" ", max(0, n-lipgloss.Width(s))) + s }
	var b strings.Builder
	fmt.Fprintf(&b, "request      %s\nconversation %s\nbegan        %s\n\n", v.ID, v.Conversation, v.Started.Local().Format("2006-01-02 15:04:05"))
	for _, r := range rows {
		line := fill(cell(r.what, what), what) + "  " + right(r.took, took) + "  " + right(r.tokens, tokens) + "  " + right(r.cost, cost)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (r reader) Requests(ctx context.Context, user string, all bool, limit int) ([]runtime.RequestView, error) {
	return runtime.Requests(ctx, r.store, shelf{user: user}.scope(), all, limit)
}

func (r reader) RequestTree(ctx context.Context, user, which string) (runtime.RequestView, error) {
	return runtime.RequestTree(ctx, r.store, shelf{user: user}.scope(), which, nil)
}
