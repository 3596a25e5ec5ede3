package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/heartbeat"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// sources are where the heartbeat and the reviews look.
func (n *Node) sources() []heartbeat.Source {
	return append([]heartbeat.Source{
		{Name: "unanswered", Look: n.unanswered},
		{Name: "failed work", Look: n.failedWork},
		{Name: "events", Look: n.newEvents},
		{Name: "checks", Look: n.agentChecks},
	}, n.opt.Heartbeat.Sources...)
}

// stretch is the part of the log that a source looks at: the entries after from, up to to.
type stretch struct{ from, to uint64 }

// stretch returns the part of the log that is new for a source.
func (n *Node) stretch(ctx context.Context, w heartbeat.Window, sc store.Scope) (s stretch, err error) {
	if s.to, err = follow.Head(ctx, n.opt.Store); err != nil {
		return s, err
	}
	if w.Seen == "" {
		s.from, err = follow.Before(ctx, n.opt.Store, sc, w.Since)
		return s, err
	}
	s.from, err = strconv.ParseUint(w.Seen, 10, 64)
	return s, err
}

func (s stretch) seen() string { return strconv.FormatUint(s.to, 10) }

// logged calls see for the entries of a type in a part of the log, the oldest first.
func (n *Node) logged(ctx context.Context, sc store.Scope, s stretch, typ string, see func(*resource.Entry) error) error {
	q := store.LogQuery{Since: s.from, Type: typ, Limit: 500}
	for s.from < s.to {
		page, err := n.opt.Store.Log(ctx, sc, q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if e.Seq > s.to {
				return nil
			}
			if e.Op != resource.OpPut || len(e.Body) == 0 {
				continue
			}
			if err := see(e); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		q.After = page.Next
	}
	return nil
}

// unanswered finds messages that got no answer: the last turn of a conversation has failed, waits for a
// model, or is not resumed any more.
func (n *Node) unanswered(ctx context.Context, w heartbeat.Window) (heartbeat.Found, error) {
	sc := store.ForUser(w.User)
	s, err := n.stretch(ctx, w, sc)
	if err != nil {
		return heartbeat.Found{}, err
	}
	last := map[id.ID]*resource.Entry{}
	err = n.logged(ctx, sc, s, record.TypeRun, func(e *resource.Entry) error {
		last[record.IDOf(e.URI, record.TypeConversation)] = e
		return nil
	})
	if err != nil || len(last) == 0 {
		return heartbeat.Found{Seen: s.seen()}, err
	}
	own, err := n.ownConversations(ctx, w)
	if err != nil {
		return heartbeat.Found{}, err
	}
	out := heartbeat.Found{Seen: s.seen()}
	for conv, e := range last {
		if own[conv] {
			continue
		}
		var run record.Run
		if err := record.Decode(e.URI, e.Body, &run); err != nil {
			return out, err
		}
		why := ""
		switch {
		case run.Outcome == "failed" || run.Outcome == "bound":
			why = run.Outcome
			if run.Error != "" {
				why = run.Error
			}
		case !run.Parked.IsZero():
			why = "Steward crashed several times in this turn, which waits to be resumed"
		case run.Waits != "" && run.Ended.IsZero():
			why = "no model is available"
		default:
			continue
		}
		c, found, err := requests.Conversation(ctx, n.opt.Store, sc, conv)
		if err != nil {
			return out, err
		}
		if !found || !c.Asked.Zero() || !c.Deleted.IsZero() {
			continue
		}
		out.Changes = append(out.Changes, heartbeat.Change{At: e.At, URI: record.ConversationURI(conv).String(),
			Text: fmt.Sprintf("the last message of the conversation %q has no answer (%s)", heartbeat.OneLine(c.Title, 100), why)})
	}
	return newest(out), nil
}

// newest orders what was found by time, the newest first.
func newest(f heartbeat.Found) heartbeat.Found {
	slices.SortFunc(f.Changes, func(a, b heartbeat.Change) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(a.URI, b.URI)
	})
	return f
}

// ownConversations returns the conversations of jobs, and of the heartbeat in a window.
func (n *Node) ownConversations(ctx context.Context, w heartbeat.Window) (map[id.ID]bool, error) {
	list, err := n.opt.Alarms.Jobs(ctx, w.User)
	if err != nil {
		return nil, err
	}
	own := map[id.ID]bool{}
	for i := range list {
		own[list[i].Conversation] = true
	}
	const most = 400 // days
	for t, days := w.Until.AddDate(0, 0, 1), 0; days < most && t.After(w.Since.AddDate(0, 0, -2)); t, days = t.AddDate(0, 0, -1), days+1 {
		own[heartbeatConversation(w.User, t, w.Zone)] = true
	}
	return own, nil
}

// failedWork finds what went wrong in the background: jobs, calls, tasks of plans, and actions of which
// nobody knows whether they happened.
func (n *Node) failedWork(ctx context.Context, w heartbeat.Window) (heartbeat.Found, error) {
	sc := store.ForUser(w.User)
	s, err := n.stretch(ctx, w, sc)
	if err != nil {
		return heartbeat.Found{}, err
	}
	found := map[resource.URI]heartbeat.Change{} // the newest of each resource; without a text: it is well again
	see := func(e *resource.Entry, bad bool, format string, args ...any) {
		c := heartbeat.Change{At: e.At, URI: e.URI.String()}
		if bad {
			c.Text = fmt.Sprintf(format, args...)
		} else if _, before := found[e.URI]; !before {
			return
		}
		found[e.URI] = c
	}
	names := map[id.ID]string{}
	for typ, read := range map[string]func(*resource.Entry) error{
		record.TypeOccurrence: func(e *resource.Entry) error {
			o, err := record.DecodeOccurrence(e.URI, e.Body)
			bad := o.State == record.OccurrenceFailed || o.State == record.OccurrenceMissed
			if err != nil || !bad {
				return err
			}
			name, err := n.jobNamed(ctx, sc, names, record.IDOf(e.URI, record.TypeJob))
			see(e, name != "", "the job %s %s (%s)", name, o.State, o.Reason)
			return err
		},
		record.TypeRequest: func(e *resource.Entry) error {
			var r record.Request
			if err := record.Decode(e.URI, e.Body, &r); err != nil {
				return err
			}
			see(e, r.Kind == record.RequestTask && r.Error != "", "the background call of %s failed (%s)", r.Tool, r.Error)
			return nil
		},
		requests.TypeTask: func(e *resource.Entry) error {
			var t plan.Task
			if err := record.Decode(e.URI, e.Body, &t); err != nil {
				return err
			}
			see(e, t.State == plan.Failed && t.Parent.Zero(), "the plan %q failed (%s)", heartbeat.OneLine(t.Name, 100), t.Error)
			return nil
		},
		effect.TypeIntent: func(e *resource.Entry) error {
			in, err := intent.Decode(e.Body)
			if err != nil {
				return err
			}
			switch {
			case in.State == intent.Unknown:
				see(e, true, "nobody knows whether the action %s happened", in.Tool)
			case in.State == intent.Expired:
				see(e, true, "a question about the action %s was not answered in time", in.Tool)
			default:
				see(e, in.State == intent.Failed && in.Dead, "the action %s failed (%s)", in.Tool, in.Reason)
			}
			return nil
		},
		record.TypeAlarm: func(e *resource.Entry) error {
			a, err := record.DecodeAlarm(e.URI, e.Body)
			see(e, a.Ended != "" && a.Ended != "over" && a.Ended != "cancelled", "the %s %q could not be told (%s)", a.Kind, heartbeat.OneLine(a.Text, 100), a.Ended)
			return err
		},
	} {
		if err := n.logged(ctx, sc, s, typ, read); err != nil {
			return heartbeat.Found{}, err
		}
	}
	out := heartbeat.Found{Seen: s.seen()}
	for _, c := range found {
		if c.Text != "" {
			out.Changes = append(out.Changes, c)
		}
	}
	return newest(out), nil
}

// jobNamed returns the name of a job; empty for one of Steward's own, or that was removed.
func (n *Node) jobNamed(ctx context.Context, sc store.Scope, known map[id.ID]string, job id.ID) (string, error) {
	if name, ok := known[job]; ok {
		return name, nil
	}
	r, err := n.opt.Store.Get(ctx, sc, record.JobURI(job))
	if requests.IgnoreNotFound(err) != nil {
		return "", err
	}
	if err == nil {
		j, err := record.DecodeJob(r.URI, r.Body)
		if err != nil {
			return "", err
		}
		if j.Kind == "" {
			known[job] = j.Name
			return j.Name, nil
		}
	}
	known[job] = ""
	return "", nil
}

// inward are the types whose changes are Steward's own work, and no news.
var inward = []string{"common.", "agent.", "llm.", "jobs.", "effect.", "plan.", "event."}

// maxEvents bounds the events that are read in one look.
const maxEvents = 5000

// newEvents finds the events that the user may read: what was published, and what others than the user
// have changed.
func (n *Node) newEvents(ctx context.Context, w heartbeat.Window) (heartbeat.Found, error) {
	s, err := n.stretch(ctx, w, store.ForNode(""))
	if err != nil || s.from >= s.to {
		return heartbeat.Found{Seen: s.seen()}, err
	}
	out, read := heartbeat.Found{Seen: s.seen()}, 0
	for b, err := range n.events.Subscribe(ctx, events.Caller{User: w.User}, events.Filter{Bodies: true}, follow.Behind(s.from)) {
		if err != nil {
			return out, err
		}
		for i := range b.Events {
			e := &b.Events[i]
			if read++; e.Seq > s.to || len(e.Resources) == 0 || !isNews(e, w.User) {
				continue
			}
			about := &e.Resources[0]
			text := fmt.Sprintf("%s %s by %s", strings.ToLower(strings.TrimPrefix(string(e.Detail), "RESOURCE_")), about.Type, e.Source)
			if len(about.Body) > 0 && json.Valid(about.Body) {
				text += ": " + string(about.Body)
			}
			out.Changes = append(out.Changes, heartbeat.Change{At: e.Time, URI: about.URI.String(), Text: text})
		}
		at, err := b.Cursor.Position()
		if err != nil || at >= s.to {
			break
		}
		if read >= maxEvents { // the rest is for the next look
			out.Seen = strconv.FormatUint(at, 10)
			break
		}
	}
	return newest(out), ctx.Err()
}

// isNews reports whether an event is worth looking at.
func isNews(e *events.Event, user string) bool {
	if e.Detail == events.Get {
		return false
	}
	if e.Published {
		return !ownNotice(&e.Resources[0])
	}
	other := e.Source != "user:"+user && e.Source != "system" && !strings.HasPrefix(e.Source, "agent:")
	return other && !slices.ContainsFunc(inward, func(p string) bool { return strings.HasPrefix(e.Resources[0].Type, p) })
}

// ownNotice reports whether an event is about an e-mail by which Steward itself has notified the user. A
// heartbeat that told of it would lead to the next one.
func ownNotice(r *events.Resource) bool {
	var mail struct {
		Notice bool `json:"notice"`
	}
	return r.Type == "mail.Message" && json.Unmarshal(r.Body, &mail) == nil && mail.Notice
}

// maxChecks bounds the checks of all agents together.
const maxChecks = 100

// agentChecks runs the checks of agents, and finds those whose results have changed. A check that is new, or
// cannot run for the user, has not changed.
func (n *Node) agentChecks(ctx context.Context, w heartbeat.Window) (heartbeat.Found, error) {
	before := map[string]string{}
	if w.Seen != "" {
		if err := json.Unmarshal([]byte(w.Seen), &before); err != nil {
			return heartbeat.Found{}, err
		}
	}
	if n.opt.Catalog == nil {
		return heartbeat.Found{}, nil
	}
	var out heartbeat.Found
	after := map[string]string{}
	tree := n.opt.Catalog.Tree()
	for _, path := range slices.Sorted(maps.Keys(tree.ByPath)) {
		for _, c := range tree.ByPath[path].Checks {
			if len(after) >= maxChecks {
				break
			}
			name := path + ": " + c.Name
			part, err := n.check(ctx, w.User, path, record.Check{Tool: c.Query, Args: string(c.Args), Pointer: c.Part})
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			old, known := before[name]
			if err != nil {
				n.log.Debug("a check of an agent did not work", "check", name, "user", w.User, "error", err)
				if known {
					after[name] = old
				}
				continue
			}
			if after[name] = hashed(part)[:16]; known && old != after[name] {
				out.Changes = append(out.Changes, heartbeat.Change{At: w.Until, Text: "the check " + name + " has changed: " + part})
			}
		}
	}
	if len(after) > 0 {
		out.Seen = string(record.Encode(after))
	}
	return out, nil
}
