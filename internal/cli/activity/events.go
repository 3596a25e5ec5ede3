package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/settings"
	"steward/internal/store/follow"
)

func (a *program) eventsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "events", Short: "Watch what happens to resources, and publish events", GroupID: "look",
		Long: "Everything that Steward stores is a resource, and each change of one is an event. So is everything that\n" +
			"people, agents and services publish, and each read that the setting audit.reads records.",
	}, a.watchEvents(), a.publishEvent(), a.eraseEvents())
}

func (a *program) eraseEvents() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use: "erase ID…", Short: "Erase published events for good", Args: cobra.MinimumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Erase for good, before the command ends, events that you or agents on your behalf have published. The\n" +
			"log keeps that something was published, and subscribers keep what they have received.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.WithStored(c.Context(), command.NeedIdleNode, func(s *command.Session) error {
				for _, which := range args {
					if err := s.EraseEvent(c.Context(), which, user); err != nil {
						return err
					}
				}
				a.Note("erased %s", app.Plural(len(args), "event"))
				return nil
			})
		},
	}
	c.Flags().StringVar(&user, "of", "", "erase what `USER` has published; for admins")
	command.CompleteFlag(c, "of", a.CompleteUsers())
	return c
}

// eventFlags holds the flags of steward events watch.
type eventFlags struct {
	prefixes, types, sources, what []string
	from                           string
	bodies                         bool
	limit                          int
}

func (a *program) watchEvents() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use: "watch", Short: "Print events as they happen", Args: cobra.NoArgs,
		Long: "Print the events of your resources and those of your groups, in the order of the log, until Ctrl-C:\n" +
			"when, what (put, get or delete; says put means that somebody published it), by whom, and to which\n" +
			"resource. With --json each event is a line, with the cursor from which to continue after it. An event\n" +
			"must match all flags; of several values of one flag it must match any.",
		Example: "  steward events watch --type common.Message\n  steward events watch --prefix cld:common.Conversation.42 --from start --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.events(c.Context(), f) },
	}
	c.Flags().StringArrayVar(&f.prefixes, "prefix", nil, "only what is at or below the resource `URI`")
	c.Flags().StringArrayVar(&f.types, "type", nil, "only resources of the type `TYPE`, or of those that match a prefix such as common.*")
	c.Flags().StringArrayVar(&f.sources, "source", nil, "only events by `SOURCE`: user:NAME, agent:PATH, service:NAME, system, or a prefix such as agent:*")
	c.Flags().StringArrayVar(&f.what, "what", nil, "only events of the kind `WHAT`: put, get or delete")
	c.Flags().StringVar(&f.from, "from", "now", "begin at a `CURSOR`, now, or at the start of the log")
	c.Flags().BoolVar(&f.bodies, "bodies", false, "with --json: include the contents of the resources")
	c.Flags().IntVar(&f.limit, "limit", 0, "end after `N` events")
	command.CompleteFlag(c, "what", command.Words("put", "get", "delete"))
	command.CompleteFlag(c, "from", command.Words("now", "start"))
	return c
}

func (f *eventFlags) filter() (events.Filter, error) {
	out := events.Filter{Types: f.types, Sources: f.sources, Bodies: f.bodies}
	if f.limit < 0 {
		return out, command.Usage("--limit must be 1 or more")
	}
	for _, s := range f.prefixes {
		u, err := resource.Parse(s)
		if err != nil {
			return out, err
		}
		out.Prefixes = append(out.Prefixes, u)
	}
	for _, s := range f.what {
		d, err := detailOf("--what", s)
		if err != nil {
			return out, err
		}
		out.Details = append(out.Details, d)
	}
	return out, nil
}

func detailOf(flag, word string) (events.DetailType, error) {
	switch word {
	case "put":
		return events.Put, nil
	case "get":
		return events.Get, nil
	case "delete":
		return events.Delete, nil
	}
	return "", command.Usage("%s must be put, get or delete, not %q", flag, word)
}

// events prints events until the context ends or the limit is reached. They come from the
// Steward that serves the data folder or, if there is none or it ends, from the folder.
func (a *program) events(ctx context.Context, f eventFlags) error {
	filter, err := f.filter()
	if err != nil {
		return err
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	w := &eventPrinter{app: a.Program, left: f.limit, cursor: events.Cursor(f.from), width: a.Width()}
	err = a.eventsServed(ctx, set, filter, w)
	if w.over || ctx.Err() != nil || !fault.Is(err, fault.Unavailable) {
		return w.end(ctx, err)
	}
	return w.end(ctx, a.eventsKept(ctx, set, filter, w))
}

// eventsServed prints events of the Steward that serves the data folder. If there is none, it
// returns an error of the kind Unavailable.
func (a *program) eventsServed(ctx context.Context, set *settings.Loaded, f events.Filter, w *eventPrinter) error {
	s, err := a.Join(set)
	if err != nil {
		return fault.New(fault.Unavailable, "server_unknown", "no Steward serves this data folder: %w", err)
	}
	return errors.Join(w.printBatches(subscribe(ctx, s, f, w.cursor)), s.End())
}

// eventsKept prints events from the data folder, including new ones.
func (a *program) eventsKept(ctx context.Context, set *settings.Loaded, f events.Filter, w *eventPrinter) error {
	st, err := a.OpenReadOnly(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return fault.New(fault.NotFound, "nothing_kept", "nothing has happened yet: there is no data in %s", set.Data).
			WithHint(`begin: steward ask "…", or steward serve`)
	}
	return errors.Join(a.eventsIn(ctx, st, set, f, w), st.Close())
}

func (a *program) eventsIn(ctx context.Context, st app.Store, set *settings.Loaded, f events.Filter, w *eventPrinter) error {
	log := a.Logger(set, a.Stderr)
	l := &app.Local{Store: st, Keys: identity.New(st), Log: log, User: a.User()}
	if err := l.OpenPolicies(set, log); err != nil {
		return err
	}
	follower := follow.New(follow.Options{Store: st, About: events.About})
	defer follower.Close()
	e, err := events.New(events.Options{Follow: follower, Authorizer: l.Judge, Directory: l.Keys, Log: log})
	if err == nil {
		err = w.printBatches(e.Subscribe(ctx, events.Caller{User: l.User}, f, w.cursor))
	}
	return errors.Join(err, l.ClosePolicies())
}

// eventPrinter prints events and keeps the cursor after the last one.
type eventPrinter struct {
	app     *command.Program
	width   int // of the terminal; 0: none
	left    int // the number of events to print; 0: unlimited
	over    bool
	cursor  events.Cursor
	day     string
	printed int
}

func (w *eventPrinter) printBatches(batches iter.Seq2[events.Batch, error]) error {
	for b, err := range batches {
		if err != nil {
			return err
		}
		for i := range b.Events {
			if err := w.event(&b.Events[i]); err != nil {
				return err
			}
			w.cursor = b.Events[i].Cursor()
			if w.printed++; w.printed == w.left {
				w.over = true
				return nil
			}
		}
		w.cursor = b.Cursor
	}
	return nil
}

// end prints where to continue.
func (w *eventPrinter) end(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		w.app.Note("continue with --from %s", w.cursor)
	}
	if ctx.Err() != nil {
		return nil // interrupting is the normal end
	}
	return err
}

func (w *eventPrinter) event(x *events.Event) error {
	if w.app.JSON {
		line, err := json.Marshal(struct {
			*events.Event
			Cursor events.Cursor `json:"cursor"`
		}{x, x.Cursor()})
		if err == nil {
			_, err = fmt.Fprintln(w.app.Stdout, w.app.JSONText(string(line)))
		}
		return err
	}
	at := x.Time.Local()
	if day := command.DayOf(at, time.Now()); day != w.day {
		if w.day != "" {
			day = "\n" + day
		}
		w.day = strings.TrimPrefix(day, "\n")
		if _, err := fmt.Fprintln(w.app.Stdout, day); err != nil {
			return err
		}
	}
	for i := range x.Resources {
		if _, err := fmt.Fprintln(w.app.Stdout, w.line(x, &x.Resources[i], at)); err != nil {
			return err
		}
	}
	return nil
}

// line formats one resource of an event: when, what, by whom, and which. On a terminal, ids
// are short.
func (w *eventPrinter) line(x *events.Event, r *events.Resource, at time.Time) string {
	what := strings.ToLower(strings.TrimPrefix(string(x.Detail), "RESOURCE_"))
	if x.Published {
		what = "says " + what
	}
	name := r.URI.String()
	if w.width > 0 {
		name = shortURI(r.URI)
	}
	if r.State != "" {
		name += "  (" + r.State + ")"
	}
	line := fmt.Sprintf("%s  %s  %s  ", at.Format("15:04:05"), command.Fill(what, 11), command.Fill(command.PlainLine(x.Source), 16))
	name = command.PlainLine(name)
	if w.width > 0 {
		name = command.Cell(name, max(command.MinWhat, w.width-lipgloss.Width(line)))
	}
	return line + name
}

// shortURI formats a URI for a person: the last step first, and only the ends of UUIDs.
func shortURI(u resource.URI) string {
	steps := u.Elements()
	out := make([]string, 0, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		name := steps[i].ID
		if x, ok := id.Parse(name); ok {
			name = command.ShortID(x)
		}
		out = append(out, steps[i].Type+" "+name)
	}
	return strings.Join(out, ", ")
}

func (a *program) publishEvent() *cobra.Command {
	var what, body, own, space, at string
	c := &cobra.Command{
		Use: "publish URI…", Short: "Publish an event about resources", Args: cobra.MinimumNArgs(1),
		Long: "Append an event to the log, under your own source: subscribers see that the resources were put,\n" +
			"read or deleted. Steward need not store the resources. The same --id again is the same event.",
		Example: "  steward events publish cld:home.Lamp.kitchen --body '{\"on\": true}'",
		RunE: func(c *cobra.Command, args []string) error {
			x, err := publication(args, what, body, at)
			if err != nil {
				return err
			}
			x.ID, x.Space = own, resource.Space(space)
			return a.publish(c.Context(), x)
		},
	}
	c.Flags().StringVar(&what, "what", "put", "`WHAT` happened: put, get or delete")
	c.Flags().StringVar(&body, "body", "", "the new content of the resource, as `JSON`")
	c.Flags().StringVar(&own, "id", "", "your own `ID` for the event")
	c.Flags().StringVar(&space, "space", "", "publish to the members of a group: `group:NAME`")
	c.Flags().StringVar(&at, "time", "", "when it happened: a `TIME` in RFC 3339; by default now")
	command.CompleteFlag(c, "what", command.Words("put", "get", "delete"))
	return c
}

func publication(uris []string, what, body, at string) (x events.Publication, err error) {
	if x.Detail, err = detailOf("--what", what); err != nil {
		return x, err
	}
	if at != "" {
		if x.Time, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return x, command.Usage("--time must be in RFC 3339 format, such as 2030-01-31T12:00:00Z, not %q", at)
		}
	}
	if body != "" && len(uris) > 1 {
		return x, command.Usage("--body needs exactly one resource, not %d", len(uris))
	}
	if body != "" && !json.Valid([]byte(body)) {
		return x, fault.New(fault.Invalid, "event_invalid", "the event cannot be published: its body is not valid JSON").WithHint("write --body as JSON: '{\"on\": true}'")
	}
	for _, s := range uris {
		u, err := resource.Parse(s)
		if err != nil {
			return x, err
		}
		x.Resources = append(x.Resources, events.Resource{URI: u, Body: json.RawMessage(body)})
	}
	return x, nil
}

func (a *program) publish(ctx context.Context, x events.Publication) error {
	var done events.Published
	err := a.With(ctx, command.NeedIdleNode, func(s *command.Session) error {
		return s.Call(ctx, "POST /events", nil, x, &done)
	})
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(done)
	case done.Duplicate:
		a.Note("it was published before")
	}
	_, err = fmt.Fprintln(a.Stdout, done.ID)
	return err
}

// subscribe yields the events of the Steward that serves, over its WebSocket.
func subscribe(ctx context.Context, s *command.Session, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return func(yield func(events.Batch, error) bool) {
		if err := receiveEvents(ctx, s, f, from, yield); err != nil && ctx.Err() == nil {
			yield(events.Batch{}, err)
		}
	}
}

// eventsFrame is a frame with events, or an error.
type eventsFrame struct {
	Type   string         `json:"type"`
	Events []events.Event `json:"events"`
	Cursor events.Cursor  `json:"cursor"`
}

// receiveEvents passes events on until yield wants no more.
func receiveEvents(ctx context.Context, s *command.Session, f events.Filter, from events.Cursor, yield func(events.Batch, error) bool) error {
	c, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ask := map[string]any{"type": "subscribe", "id": "1", "sources": f.Sources, "types": f.Types, "prefixes": f.Prefixes,
		"detail_types": f.Details, "bodies": f.Bodies, "cursor": from}
	for name, v := range ask { // leave out what is not set
		if b, err := json.Marshal(v); err == nil && string(b) == "null" {
			delete(ask, name)
		}
	}
	if err := c.Send(ctx, ask); err != nil {
		return err
	}
	for {
		var in eventsFrame
		switch err := c.Receive(ctx, &in); {
		case err != nil:
			return err
		case in.Type == "events" && !yield(events.Batch{Events: in.Events, Cursor: in.Cursor}, nil):
			return nil
		}
	}
}
