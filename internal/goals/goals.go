// Package goals keeps what its users want to achieve: goals, which are long-term objectives, and
// projects, which are medium-term initiatives and may belong to a goal. Both are efforts (record.Effort).
//
// An effort is a resource in its user's space. It has milestones, next actions, and progress notes, and it
// refers to tasks of plans, and to plans, by their URIs. The reference is resolved when the effort is
// shown: how many of the tasks are open, how many are done. An effort begins as active. It can be paused,
// and it ends as completed, dropped or archived. Nothing but a change of its status ends it.
//
// Every change is one call of Change, which applies all of it or nothing, in one commit with the version
// as a precondition. The effort keeps a history of its newest changes, each with the call that made it
// (record.EffortAuthor). A call that is repeated, for example after a crash, finds itself there and changes nothing.
// The last change can be undone: the version before it is stored again. What is erased is gone for good,
// with its earlier versions.
//
// Text comes from people and from what models have read. Secrets in it are masked before it is stored,
// and an effort has the labels of everything that its texts come from. They only ever grow.
//
// Changes says what has become of a user's efforts since a time, and what needs attention: what is
// overdue, what has no next action, and what has stalled. It asks no model and changes nothing, so that
// a review can ask it first.
package goals

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tools/local"
)

// Limits.
const (
	MaxEfforts = 500 // goals of a user, and projects; those that are over count too
	maxTitle   = 200 // characters
	maxText    = 2000
	maxList    = 50  // milestones, next actions, success criteria, tasks
	maxNotes   = 100 // progress notes that an effort keeps; older ones are in its earlier versions
	maxHistory = 100
	maxTries   = 20 // of a change that others come before
	minPrefix  = 8  // characters of an id
)

// Options configure an engine. Store is required.
type Options struct {
	Store store.Store
	Mask  func(string) string              // hides secrets in a text; nil: nothing is hidden
	Now   func() time.Time                 // nil: time.Now
	Zone  func(user string) *time.Location // a user's time zone; nil, or a nil result: UTC
	Tasks Tasks                            // nil: no task can belong to an effort
}

// Tasks knows the tasks of plans.
type Tasks interface {
	// Find returns the URI of what an effort is to refer to: the URI of a task or a plan, or a plan's id.
	Find(ctx context.Context, user, which string) (resource.URI, error)
	// Count says how many of the tasks at and below a URI are open, done and failed. The state of what
	// does not exist is "missing".
	Count(ctx context.Context, user string, at resource.URI) (client.EffortTask, error)
}

// Engine keeps efforts. Safe for concurrent use.
type Engine struct {
	opt   Options
	local local.Options
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.Mask == nil {
		opt.Mask = func(s string) string { return s }
	}
	return &Engine{opt, local.Options{Now: opt.Now, Zone: opt.Zone}}
}

// Create stores an effort, of which c has at least the title. If the call has created one before, that is
// returned. Error codes: effort_invalid, KIND_exists, KINDs_too_many, those of Change, and the store's.
func (e *Engine) Create(ctx context.Context, user, kind string, c client.EffortChange, by record.EffortAuthor) (record.Effort, error) {
	list, err := e.all(ctx, user, kind)
	if err != nil {
		return record.Effort{}, err
	}
	own := id.Derive("goal", kind, user, by.Call.String())
	for _, f := range list {
		if f.ID == own {
			return f, nil
		}
	}
	if len(list) >= MaxEfforts {
		return record.Effort{}, fault.New(fault.Exhausted, kind+"s_too_many", "there are already %d %ss; the limit is %d", len(list), kind, MaxEfforts).
			WithHint("remove some: steward %ss remove", kind)
	}
	now := e.now()
	f := record.Effort{ID: own, Kind: kind, User: user, Status: record.EffortActive, Created: now}
	if c.Title == nil {
		return f, invalid("a %s needs a title", kind)
	}
	what, err := e.apply(ctx, &f, &c, by, now)
	if err != nil {
		return f, err
	}
	for _, g := range list {
		if !g.Over() && strings.EqualFold(g.Title, f.Title) {
			return f, fault.New(fault.Conflict, kind+"_exists", "there is already a %s %q", kind, f.Title).
				WithHint("give it another title, or change the one that exists")
		}
	}
	note(&f, by, now, strings.Join(append([]string{"created"}, what...), "; "))
	err = e.put(ctx, &f, store.If{Absent: true})
	return f, err
}

// Change changes an effort: all of c, or nothing. which is its id, at least the first 8 characters of that,
// its title, or words of it. If the call has changed it before, it is returned as it is. Error codes:
// KIND_not_found, KIND_ambiguous, effort_invalid, milestone_not_found, action_not_found, those of
// Tasks, and the store's.
func (e *Engine) Change(ctx context.Context, user, kind, which string, c client.EffortChange, by record.EffortAuthor) (record.Effort, error) {
	f, err := e.Get(ctx, user, kind, which)
	if err != nil {
		return f, err
	}
	for try := 1; ; try++ {
		f, version, err := e.read(ctx, user, f.Kind, f.ID)
		if err != nil || changedBy(&f, by.Call) != nil {
			return f, err
		}
		now := e.now()
		what, err := e.apply(ctx, &f, &c, by, now)
		if err != nil {
			return f, err
		}
		if len(what) == 0 {
			return f, invalid("nothing is to be changed")
		}
		note(&f, by, now, strings.Join(what, "; "))
		err = e.put(ctx, &f, store.If{Version: version})
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return f, err
		}
	}
}

// List returns a user's efforts of a kind, those that are not over first, the more important and the more
// urgent ones first. status is a status, "open" for active and paused ones, or empty for all. Error code:
// status_invalid.
func (e *Engine) List(ctx context.Context, user, kind, status string) ([]record.Effort, error) {
	if status != "" && status != "open" && !slices.Contains(statuses(kind), status) {
		return nil, badStatus(kind, status, "open")
	}
	list, err := e.all(ctx, user, kind)
	list = slices.DeleteFunc(list, func(f record.Effort) bool {
		return status == "open" && f.Over() || status != "" && status != "open" && f.Status != status
	})
	return list, err
}

// Get returns an effort of a kind; empty: of any. which is as for Change. Error codes: KIND_not_found,
// KIND_ambiguous.
func (e *Engine) Get(ctx context.Context, user, kind, which string) (record.Effort, error) {
	which = strings.TrimSpace(which)
	list, err := e.all(ctx, user, kind)
	if err != nil {
		return record.Effort{}, err
	}
	open := func(f record.Effort) bool { return !f.Over() }
	found := local.FirstMatches(list, open,
		func(f record.Effort) bool { return f.ID.String() == which || f.URI().String() == which },
		func(f record.Effort) bool { return strings.EqualFold(f.Title, which) },
		func(f record.Effort) bool { return len(which) >= minPrefix && strings.HasPrefix(f.ID.String(), which) },
		func(f record.Effort) bool { return len(which) >= minPrefix && strings.HasSuffix(f.ID.String(), which) },
		func(f record.Effort) bool { return local.HasWords(f.Title, which) })
	f, err := local.ExactlyOne(cmp.Or(kind, record.KindGoal), which, found, func(f record.Effort) string { return f.Title + " (" + f.ID.String() + ")" })
	if fault.Is(err, fault.NotFound) && kind == "" {
		return f, fault.New(fault.NotFound, "goal_not_found", "there is no goal and no project %.100q", which).WithHint("check the title, or list them")
	}
	return f, err
}

// ChangedBy returns the effort that a call has created or changed, and what it changed. Error code:
// not_found.
func (e *Engine) ChangedBy(ctx context.Context, user string, call id.ID) (record.Effort, record.EffortChange, error) {
	list, err := e.all(ctx, user, "")
	for i := range list {
		if c := changedBy(&list[i], call); c != nil {
			return list[i], *c, err
		}
	}
	return record.Effort{}, record.EffortChange{}, cmp.Or(err, error(fault.New(fault.NotFound, "not_found", "this call has changed no goal and no project")))
}

// Undo undoes what a call has changed, unless the effort was changed since: what the call has created is
// erased. by is the call that undoes it; repeated, it changes nothing. Error codes: not_found (also if
// what was created is erased already), changed_since.
func (e *Engine) Undo(ctx context.Context, user string, call, by id.ID) (record.Effort, error) {
	if f, _, err := e.ChangedBy(ctx, user, by); !fault.Is(err, fault.NotFound) {
		return f, err
	}
	f, _, err := e.ChangedBy(ctx, user, call)
	if err != nil {
		return f, err
	}
	page, err := e.opt.Store.Log(ctx, store.ForUser(user), store.LogQuery{Of: f.URI(), Reverse: true, Limit: 2})
	if err != nil || len(page.Entries) == 0 {
		return f, err
	}
	newest := page.Entries[0]
	if f, err = record.DecodeEffort(newest.URI, newest.Body); err != nil {
		return f, err
	}
	last := f.History[len(f.History)-1]
	if last.By != call {
		return f, local.ChangedSince("the " + f.Kind + " " + f.Title)
	}
	at := store.If{Version: newest.Version}
	if len(page.Entries) < 2 { // the call has created it
		return f, e.commit(ctx, user, store.Change{Op: store.Erase, URI: f.URI(), If: at})
	}
	before, err := record.DecodeEffort(newest.URI, page.Entries[1].Body)
	if err != nil {
		return f, err
	}
	before.Labels, before.Sources, before.History = f.Labels, f.Sources, f.History
	note(&before, record.EffortAuthor{Call: by, Actor: "user"}, e.now(), "undone: "+last.What)
	return before, e.put(ctx, &before, at)
}

// Remove erases an effort and its earlier versions. The projects of a goal stay, without it.
func (e *Engine) Remove(ctx context.Context, user, kind, which string) (record.Effort, error) {
	f, err := e.Get(ctx, user, kind, which)
	if err != nil {
		return f, err
	}
	return f, e.commit(ctx, user, store.Change{Op: store.Erase, URI: f.URI()})
}

func (e *Engine) now() time.Time { return e.local.Time().UTC().Truncate(time.Millisecond) }

// all returns the efforts of a kind; empty: of all, goals first.
func (e *Engine) all(ctx context.Context, user, kind string) (out []record.Effort, err error) {
	if kind == "" {
		goals, err := e.all(ctx, user, record.KindGoal)
		if err != nil {
			return nil, err
		}
		projects, err := e.all(ctx, user, record.KindProject)
		return append(goals, projects...), err
	}
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: record.EffortType(kind), Limit: store.DefaultLimit}) {
		if err != nil {
			return nil, err
		}
		f, err := record.DecodeEffort(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b record.Effort) int {
		late := func(f record.Effort) string { return cmp.Or(f.Due, "9999") }
		return cmp.Or(rank(a.Status)-rank(b.Status), cmp.Compare(b.Importance, a.Importance), cmp.Compare(late(a), late(b)), cmp.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title)))
	})
	return out, nil
}

func rank(status string) int {
	return slices.Index([]string{record.EffortActive, record.EffortPaused, record.EffortCompleted, record.EffortDropped, record.EffortArchived}, status)
}

func (e *Engine) read(ctx context.Context, user, kind string, effort id.ID) (record.Effort, uint64, error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), record.EffortURI(kind, effort))
	if err != nil {
		return record.Effort{}, 0, err
	}
	f, err := record.DecodeEffort(r.URI, r.Body)
	return f, r.Version, err
}

func (e *Engine) put(ctx context.Context, f *record.Effort, cond store.If) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ch := store.Change{URI: f.URI(), Body: b, If: cond}
	if !f.Over() {
		ch.State = f.Status
	}
	return e.commit(ctx, f.User, ch)
}

func (e *Engine) commit(ctx context.Context, user string, ch store.Change) error {
	_, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: []store.Change{ch}})
	return err
}

// note adds a change to the history of an effort.
func note(f *record.Effort, by record.EffortAuthor, now time.Time, what string) {
	f.Changed = now
	f.Labels |= by.Labels
	for _, s := range by.Sources {
		if !slices.Contains(f.Sources, s) {
			f.Sources = append(f.Sources, s)
		}
	}
	f.History = append(f.History, record.EffortChange{By: by.Call, At: now, Actor: cmp.Or(by.Actor, "user"), What: local.Line(what, 300)})
	f.History = f.History[max(0, len(f.History)-maxHistory):]
}

func changedBy(f *record.Effort, call id.ID) *record.EffortChange {
	for i := range f.History {
		if f.History[i].By == call {
			return &f.History[i]
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "effort_invalid", format, args...)
}

// statuses returns the statuses that an effort of a kind can have.
func statuses(kind string) []string {
	all := []string{record.EffortActive, record.EffortPaused, record.EffortCompleted, record.EffortDropped}
	if kind != record.KindGoal {
		all = append(all, record.EffortArchived)
	}
	return all
}

func badStatus(kind, status string, more ...string) error {
	return fault.New(fault.Invalid, "status_invalid", "a %s cannot be %.40q", cmp.Or(kind, record.KindGoal), status).
		WithHint("use one of: %s", strings.Join(append(statuses(kind), more...), ", "))
}
