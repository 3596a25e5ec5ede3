package activity

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/message"
)

func (a *program) requestsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "requests", Aliases: []string{"request"}, Short: "Show requests, what they led to, and what is still running", GroupID: "look",
		Long: "What you ask is a request. So is each call of an agent that results from it, and each background task.\n" +
			"A request is closed when everything that it led to is closed. It is named by its id, or by at least the\n" +
			"first 8 characters of it.",
	}, a.listRequests(), a.showRequest(), a.watchRequest(), a.cancelRequest(),
		a.orderTask("resume ID", "Resume a parked turn", "Resume a turn that is parked because Steward crashed twice in a row while it ran. If no Steward is\n"+
			"serving, the turn resumes when one does.", "resumed", (*command.Session).ResumeRequest),
		a.orderTask("pause ID", "Pause a task of a plan", "Pause a task of a plan that is being worked on, and everything below it; resume continues it.", "paused", (*command.Session).PauseTask),
		a.orderTask("retry ID", "Restart a task of a plan", "Restart a task that failed, was skipped or was cancelled, with what was skipped because of it.", "restarted", (*command.Session).RetryTask))
}

func (a *program) listRequests() *cobra.Command {
	var all, everybody bool
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the open requests",
		Long: "List the open requests, newest first; with --all the newest ones, closed or not. Turns that led to no\n" +
			"other request are left out, unless they are parked or wait for their model; steward log lists their\n" +
			"tool calls.",
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := command.ReadList(c.Context(), a.Program, func(s *command.Session) ([]client.Request, error) {
				return s.Requests(c.Context(), all, everybody, limit)
			})
			none := "no request is open"
			if all {
				none = "no requests yet"
			}
			return command.PrintList(a.Program, list, err, none, func(list []client.Request) string { return requestTable(list, everybody, a.Width(), time.Now()) })
		}}
	c.Flags().BoolVar(&all, "all", false, "include closed requests")
	c.Flags().BoolVar(&everybody, "all-users", false, "include the requests of all users")
	command.LimitFlag(c, &limit, 50, "list at most `N`")
	return c
}

func (a *program) showRequest() *cobra.Command {
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show ID", Short: "Show everything that a request led to as a tree", ValidArgsFunction: a.completeRequests(),
		Long: "Show the turn of a request as a tree: its tool calls, the agents that were called and what they did,\n" +
			"and tasks with what their results led to. Each node has its time, tokens and costs, including everything\n" +
			"below it. ID is that of the turn's interaction or of any request below it; last is the newest request."},
		func(ctx context.Context, s *command.Session, args []string) error {
			which, err := newestRequest(ctx, s, args[0])
			if err != nil {
				return err
			}
			tree, err := s.Request(ctx, which)
			return command.PrintValue(a.Program, tree, err, func(tree client.Request) string { return requestTree(&tree, a.Width(), time.Now()) })
		})
}

// newestRequest returns the id that "last" means.
func newestRequest(ctx context.Context, s *command.Session, which string) (string, error) {
	if which != "last" {
		return which, nil
	}
	list, err := s.Requests(ctx, true, false, 1)
	if err == nil && len(list) == 0 {
		err = fault.New(fault.NotFound, "request_not_found", "there is no request yet").WithHint(`start one: steward ask "…"`)
	}
	if err != nil {
		return "", err
	}
	return list[0].ID, nil
}

func (a *program) cancelRequest() *cobra.Command {
	return a.aboutRequest(&cobra.Command{Use: "cancel ID", Short: "Cancel what a request is still doing",
		Long: "Cancel what a request is still doing: a task, or everything that is open below a turn. The caller\n" +
			"is notified. Changes that were already made stay."}, func(ctx context.Context, s *command.Session, which, user string) error {
		if err := s.CancelRequest(ctx, which, user); err != nil {
			return err
		}
		a.Note("cancelled")
		if user != "" {
			return nil
		}
		return awaitOver(ctx, s, which)
	})
}

// orderTask makes a command that gives an order about a request.
func (a *program) orderTask(use, short, long, done string, do func(s *command.Session, ctx context.Context, which, user string) error) *cobra.Command {
	return a.aboutRequest(&cobra.Command{Use: use, Short: short, Long: long}, func(ctx context.Context, s *command.Session, which, user string) error {
		err := do(s, ctx, which, user)
		if err == nil {
			a.Note("%s", done)
		}
		return err
	})
}

// aboutRequest makes a command that changes a request, possibly another user's.
func (a *program) aboutRequest(c *cobra.Command, do func(ctx context.Context, s *command.Session, which, user string) error) *cobra.Command {
	user := c.Flags().String("user", "", "the `NAME` of the user whose request it is; by default you")
	c.ValidArgsFunction = a.completeRequests()
	return a.StoredCommand(command.NeedNode, c, func(ctx context.Context, s *command.Session, args []string) error { return do(ctx, s, args[0], *user) })
}

// awaitOver waits a while for a cancelled request to end before this process does.
func awaitOver(ctx context.Context, s *command.Session, which string) error {
	return awaitRequest(ctx, s, which, 5*time.Second, func(r *client.Request) bool { return r.State == RequestClosed })
}

// awaitRequest waits for a limited time until a request of this process is in the desired state.
// The next start completes what is left.
func awaitRequest(ctx context.Context, s *command.Session, which string, long time.Duration, done func(*client.Request) bool) error {
	if s.Local == nil {
		return nil
	}
	for end := time.Now().Add(long); time.Now().Before(end); {
		tree, err := s.Request(ctx, which)
		if err != nil || done(&tree) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// completeRequests offers the newest requests.
func (a *program) completeRequests() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Request, error) {
		return s.Requests(ctx, true, false, 30)
	},
		func(r *client.Request) (string, string) { return RequestRef(r.ID), requestWhat(r) })
}

// Kinds, states and statuses of a request in the API.
const (
	requestTurn, requestAgent, RequestTask, requestTool = "turn", "agent", "task", "tool"
	requestPlanned                                      = "plan_task" // a task of a plan

	requestOpen, requestAnswered, RequestClosed = "open", "answered", "closed"

	requestParked, requestWaiting = "parked", "waiting for its model"

	WishQueued = "queued"
)

// RequestRef shortens an id to its beginning, which is enough to find the request.
func RequestRef(x string) string { return x[:min(len(x), 13)] }

// requestMark returns a symbol for the state of a request.
func requestMark(v *client.Request) string {
	outcome := v.Outcome
	if v.Kind == requestTool || v.Kind == requestAgent && outcome == "" {
		outcome = v.Status
	}
	switch {
	case v.Kind == requestPlanned && v.Status == "pending":
		return "·"
	case v.State != RequestClosed && v.Outcome == "" || v.State == requestAnswered && v.Error == "":
		return "…"
	case outcome == "answered", outcome == string(message.OK):
		return "✓"
	case outcome == string(message.UnknownEnd), outcome == string(message.Accepted), outcome == string(message.Queued), outcome == "":
		return "?"
	}
	return "✗"
}

// requestWhat describes a request on one line.
func requestWhat(v *client.Request) string {
	var s string
	switch v.Kind {
	case requestTurn:
		switch s = v.Title; {
		case strings.HasPrefix(v.Origin, "tool:"), strings.HasPrefix(v.Origin, "agent:"), strings.HasPrefix(v.Origin, "intent:"):
			s = "« " + v.Agent + " is notified"
		case s == "":
			s = "a turn of " + v.Agent
		}
	case requestAgent:
		s = "agent " + v.Agent
		if v.Title != "" {
			s += ": " + v.Title
		}
	case requestPlanned:
		if s = v.Title; v.Agent != "" {
			s += " → " + v.Agent
		}
	case RequestTask:
		switch s = "task " + v.Tool; v.Wish {
		case WishQueued:
			s = "queued " + v.Tool
		case "retry", "undo", "resolve":
			s = "the user's " + v.Wish + " of " + v.Tool
		}
	default:
		if s = v.Tool; v.Title != "" {
			s += ": " + v.Title
		}
	}
	if state := requestState(v); state != "" {
		s += " (" + state + ")"
	}
	return s
}

// requestState describes the state of a request, beyond its mark.
func requestState(v *client.Request) string {
	var parts []string
	add := func(s string) {
		if s = strings.ReplaceAll(s, "_", " "); s != "" && !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	switch {
	case v.Kind == RequestTask && v.State == requestOpen:
		add(v.Status)
		if v.Progress > 0 {
			add(fmt.Sprintf("%d%%", int(v.Progress*100)))
		}
		add(v.Message)
	case v.Kind == requestPlanned && v.State == requestOpen:
		add(v.Status)
	case v.Status == requestParked, v.Status == requestWaiting:
		add(v.Status)
		add(v.Message)
	case v.State == requestOpen && v.Outcome == "": // with an outcome it is only not closed yet
		add("runs")
	case v.State == requestAnswered:
		add("answered, waits for requests below it")
	}
	if v.Intent != "" && v.Intent != "done" {
		add(v.Intent)
	}
	if v.State == RequestClosed || v.Error != "" {
		if v.Outcome != "" && v.Outcome != "answered" && v.Outcome != string(message.OK) {
			add(v.Outcome)
		} else if v.Kind == requestTool && v.Status != string(message.OK) {
			add(v.Status)
		}
		add(v.Error)
		if v.Message != "" && requestMark(v) != "✓" && v.State == RequestClosed {
			add(v.Message)
		}
	}
	return strings.Join(parts, ", ")
}

// requestTable formats requests, one per line, and perhaps their users.
func requestTable(list []client.Request, users bool, width int, now time.Time) string {
	rows := make([][]string, len(list))
	for i := range list {
		v := &list[i]
		what := command.PlainLine(requestWhat(v))
		if users {
			what = command.PlainLine(v.User) + ": " + what
		}
		rows[i] = []string{v.Started.Local().Format("01-02 15:04"), requestMark(v), RequestRef(v.ID), tookOf(v, now), what}
	}
	lines, _ := command.Table([]command.Column{{}, {}, {}, {Right: true}, {Least: command.MinWhat}}, rows, width)
	return strings.Join(lines, "\n") + "\n"
}

// tookOf returns how long a request took, or has taken until now.
func tookOf(v *client.Request, now time.Time) string {
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

// requestTree formats a request and everything below it.
func requestTree(v *client.Request, width int, now time.Time) string {
	rows := [][]string{{"", "time", "tokens", "cost"}}
	var draw func(v *client.Request, head, tail string)
	draw = func(v *client.Request, head, tail string) {
		row := []string{head + requestMark(v) + " " + command.PlainLine(requestWhat(v)), tookOf(v, now), "", ""}
		if n := v.Usage.Input + v.Usage.Output; n > 0 {
			row[2] = fmt.Sprint(n)
		}
		if v.Cost > 0 {
			row[3] = fmt.Sprintf("$%.4f", v.Cost)
		}
		rows = append(rows, row)
		for i := range v.Below {
			if i < len(v.Below)-1 {
				draw(&v.Below[i], tail+"├─ ", tail+"│  ")
			} else {
				draw(&v.Below[i], tail+"└─ ", tail+"   ")
			}
		}
	}
	draw(v, "", "")
	for _, r := range rows {
		r[0] = command.Cell(r[0], 110)
	}
	lines, _ := command.Table([]command.Column{{Least: command.MinWhat}, {Right: true}, {Right: true}, {Right: true}}, rows, width)
	return command.Fields(13, [][2]string{{"request", v.ID}, {"conversation", v.Conversation}, {"began", v.Started.Local().Format(time.DateTime)}}) +
		"\n" + strings.Join(lines, "\n") + "\n"
}

func (a *program) watchRequest() *cobra.Command {
	return &cobra.Command{Use: "watch ID", Short: "Follow everything that a request leads to until it ends", ValidArgsFunction: a.completeRequests(),
		Long: "Follow a request until it and everything that it led to has ended, or until Ctrl-C, which ends only the\n" +
			"watching. Each change of a task is a line; with --json it is the task as JSON, with the id of the one that\n" +
			"it belongs to. The command survives restarts of the Steward that serves. ID is as for steward requests show.\n\n" +
			"Exit codes: 0 answered, 1 failed, stopped or parked, 3 cut short by a limit, 130 interrupted.",
		RunE: func(c *cobra.Command, args []string) error { return a.watch(c.Context(), args[0]) },
	}
}

// The pauses of a watch.
const (
	watchRest    = 500 * time.Millisecond // between two looks at the tree
	watchRetries = 20                     // looks in a row that may fail
)

func (a *program) watch(ctx context.Context, which string) error {
	w := &requestWatch{Program: a.Program, which: which, printed: map[string]string{}}
	for {
		err := a.WithStored(ctx, command.NeedReadOnly, func(s *command.Session) error { return w.follow(ctx, s) })
		switch w.failed++; {
		case err == nil:
			return w.outcome()
		case w.failed > watchRetries || !fault.Is(err, fault.Unavailable):
			return err
		}
		if err := waitForNextPoll(ctx); err != nil {
			return err
		}
	}
}

// waitForNextPoll waits until the next look.
func waitForNextPoll(ctx context.Context) error {
	select {
	case <-time.After(watchRest):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requestWatch shows a request while it changes.
type requestWatch struct {
	*command.Program
	which   string
	tree    client.Request
	failed  int               // how many looks in a row have failed
	printed map[string]string // the last line about each node
}

// follow prints what is new in the tree, until it ends.
func (w *requestWatch) follow(ctx context.Context, s *command.Session) error {
	for first := true; ; first = false {
		own, err := newestRequest(ctx, s, w.which)
		if err != nil {
			return err
		}
		if w.tree, err = s.Request(ctx, own); err != nil {
			return err
		}
		w.which, w.failed = w.tree.ID, 0
		if first && s.IsLocal() && !w.over() {
			w.Note("no Steward serves this data folder now; the request continues when one does")
		}
		if err := w.printChanges(&w.tree, ""); err != nil || w.over() {
			return err
		}
		if err := waitForNextPoll(ctx); err != nil {
			return err
		}
	}
}

// over reports whether nothing is left to watch. A parked turn waits for its user.
func (w *requestWatch) over() bool {
	return w.tree.State == RequestClosed || w.tree.Status == requestParked
}

// outcome returns the end of the request as an exit code.
func (w *requestWatch) outcome() error {
	switch {
	case w.tree.Status == requestParked:
		w.Note("it is parked: steward requests resume %s, or cancel", RequestRef(w.tree.ID))
	case w.tree.Outcome == "answered":
		return nil
	case w.tree.Outcome == "bound":
		return command.ExitCode(command.ExitBound)
	}
	return command.ExitCode(command.ExitFailed)
}

// printChanges prints a line for each node below above that has changed.
func (w *requestWatch) printChanges(v *client.Request, above string) error {
	own := cmp.Or(v.ID, v.Call)
	line := requestMark(v) + " " + command.PlainLine(requestWhat(v))
	if w.printed[own] != line {
		w.printed[own] = line
		if v.Cost > 0 {
			line += fmt.Sprintf("  $%.4f", v.Cost)
		}
		line = time.Now().Format("15:04:05") + "  " + line + "  " + tookOf(v, time.Now())
		if w.JSON {
			node := *v
			node.Below, node.Parent = nil, above
			b, err := json.Marshal(node)
			if err != nil {
				return err
			}
			line = w.JSONText(string(b))
		}
		if err := w.Print(line + "\n"); err != nil {
			return err
		}
	}
	for i := range v.Below {
		if err := w.printChanges(&v.Below[i], own); err != nil {
			return err
		}
	}
	return nil
}
