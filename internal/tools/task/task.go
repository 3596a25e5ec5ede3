// Package task lets an agent keep a to-do list: a Markdown file, or to-do lists on servers (CalDAV).
package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// Kind is where the tools come from; File is the name of a list of Steward's own.
const (
	Kind = "domain:task"
	File = "tasks.md"
)

// Task is one thing to do.
type Task struct {
	Number int // its position in the list, from 1
	Title  string
	Done   bool
	Due    string // a date as 2006-01-02, or empty
	List   string // where it is; empty: the only one

	object *dav.Object // on a server
}

// Options configure the source. The zero value works.
type Options struct {
	local.Options
	Accounts dav.Accounts // the lists of users who have one are on a server
}

// store is a user's to-do list: a file, or those on servers.
type store interface {
	// All returns the tasks in the order of the list.
	All(ctx context.Context) ([]Task, error)
	// apply makes a change once for its key. Error code: task_not_found, if the task is no longer as it
	// was listed.
	apply(ctx context.Context, e edit) (string, error)
	local.Changes
}

// Add adds the tools to a kit. place is where a list of Steward's own and what is needed to undo changes
// are kept.
func Add(k *local.Kit, place local.Place, opt Options) { (&service{opt, place}).tools(k) }

// Open returns the tasks of a user's list that are to be done, in the order of the list.
func Open(ctx context.Context, place local.Place, opt Options, user string) ([]Task, error) {
	l, err := (&service{opt, place}).of(ctx, user)
	if err != nil {
		return nil, err
	}
	all, err := l.All(ctx)
	return slices.DeleteFunc(all, func(t Task) bool { return t.Done }), err
}

// service holds the tools over the users' lists.
type service struct {
	Options
	place local.Place
}

// of returns the list of a user.
func (s *service) of(ctx context.Context, user string) (store, error) {
	there, err := s.Accounts.Has(ctx, user)
	if err != nil {
		return nil, tool.NotDone(err)
	}
	path := s.place.For(user)
	if there {
		return &remote{dav.Book{Accounts: s.Accounts, User: user, Media: ical.MIMEType, Notes: path}, s.Location(user), s.Time}, nil
	}
	return inFile(path), nil
}

type addArgs struct {
	Due   string `json:"due,omitzero" jsonschema:"the day by which it must be done" format:"date"`
	Title string `json:"title" jsonschema:"what is to be done" minlen:"1" maxlen:"500"`
	List  string `json:"list,omitzero" jsonschema:"the list, such as shopping, if the user names one" maxlen:"200"`
}

type listArgs struct {
	Before string `json:"due_before,omitzero" jsonschema:"only tasks that are due on this day or before it" format:"date"`
	Show   string `json:"show,omitzero" jsonschema:"which tasks; the open ones unless given" enum:"open,completed,all"`
	List   string `json:"list,omitzero" jsonschema:"only tasks of the list of this name, such as shopping" maxlen:"200"`
}

type oneArgs struct {
	Task string `json:"task" jsonschema:"the task: its title, words of it, or its number in the list" minlen:"1" maxlen:"500"`
}

// mine are the labels of a list and of texts about its tasks: they belong to the user, and a task may come
// from a text of others, such as an e-mail.
const mine = message.Private | message.Untrusted

func (s *service) tools(k *local.Kit) {
	local.Query(k, tool.Spec{Name: "list", Yields: mine, Tidy: local.ReplacesEarlier("show", "due_before", "list"), Sentences: listSentences,
		Description: "Lists the tasks of the to-do list: what is to be done, what is due, what is completed.",
		Log:         tool.LogSpec{Summary: "List the {show|open} tasks"}}, s.list)
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list")}}}
	local.Change(k, tool.Spec{Name: "add", Tidy: stale, Sentences: addSentences,
		Description: "Adds a task to the to-do list: something that is to be done, with the day by which it is due.",
		Log:         tool.LogSpec{Summary: "Add the task {title}[, due {due:time}][, to the list {list}]", Does: changesList, Impact: []string{"title"}},
		Widths:      []tool.Width{{Name: "add any task[ to the list {list}]", Any: []string{"title", "due"}}}}, s.of, s.add, tool.Text)
	k.Wrap(func(l local.Layer) tool.Tool { return adding{l, s} })
	local.Change(k, tool.Spec{Name: "complete", Yields: mine, Tidy: stale, Sentences: completeSentences,
		Description: "Completes a task: marks it as done, checks or ticks it off.",
		Log:         tool.LogSpec{Summary: "Complete the task {task}", Does: changesList, Impact: []string{"task"}},
		Widths:      []tool.Width{{Name: "complete any task", Any: []string{"task"}}}}, s.of, s.on(complete, "Completed the task %q."), tool.Text)
	local.Change(k, tool.Spec{Name: "delete", Yields: mine, Tidy: stale, Sentences: deleteSentences,
		Description: "Deletes a task from the to-do list: it is not to be done any more.",
		Log:         tool.LogSpec{Summary: "Delete the task {task}", Does: changesList, Impact: []string{"task"}},
		Widths:      []tool.Width{{Name: "delete any task", Any: []string{"task"}}}}, s.of, s.on(remove, "Deleted the task %q."), tool.Text)
}

const changesList = "changes your to-do list"

// adding is todo.add, which makes several calls at once.
type adding struct {
	local.Layer
	s *service
}

func (s *service) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	if err := checkDate(a.Before); err != nil {
		return "", err
	}
	l, err := s.of(ctx, in.User)
	if err != nil {
		return "", err
	}
	all, err := l.All(ctx)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(t Task) bool {
		return a.Show != "all" && t.Done != (a.Show == "completed") || a.List != "" && !sameList(t.List, a.List) || a.Before != "" && (t.Due == "" || t.Due > a.Before)
	})
	if len(all) == 0 {
		which := map[string]string{"": "open task", "open": "open task", "completed": "completed task", "all": "task"}[a.Show]
		if a.List != "" {
			which += " in " + a.List
		}
		if a.Before != "" {
			which += " due by " + a.Before
		}
		return "There is no " + which + ".", nil
	}
	return local.List(all, maxShown, s.shown(in.User)), nil
}

const maxShown = 300 // tasks of a list

// shown returns what shows a task on a line.
func (s *service) shown(user string) func(Task) string {
	today := s.Time().In(s.Location(user)).Format(time.DateOnly)
	return func(t Task) string { return t.shown(today) }
}

func (t Task) shown(today string) string {
	out := fmt.Sprintf("%d. %s", t.Number, t.Title)
	switch {
	case t.Done:
		out += " (done)"
	case t.Due != "" && t.Due < today:
		out += " (was due on " + t.Due + ")"
	case t.Due == today:
		out += " (due today)"
	case t.Due != "":
		out += " (due on " + t.Due + ")"
	}
	if t.List != "" {
		out += " in " + t.List
	}
	return out
}

// sameList reports whether two names mean the same list: "shopping" is "Shopping list".
func sameList(a, b string) bool {
	bare := func(s string) string { return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), " list") }
	return bare(a) == bare(b)
}

func checkDate(date string) error {
	_, err := local.ParseDay(date, time.Now())
	return err
}

func (s *service) add(ctx context.Context, in tool.Invocation, a addArgs, l store) (string, error) {
	e, err := a.edit(local.Key(in))
	if err != nil {
		return "", err
	}
	return l.apply(ctx, e)
}

func (a addArgs) edit(key string) (edit, error) {
	title := strings.Join(strings.Fields(a.Title), " ")
	if title == "" {
		return edit{}, fault.New(fault.Invalid, "title_missing", "the task has no title").WithHint("give it a title")
	}
	if err := checkDate(a.Due); err != nil {
		return edit{}, err
	}
	list := strings.Join(strings.Fields(a.List), " ")
	reply := fmt.Sprintf("Added the task %q", title)
	if list != "" {
		reply += " to " + list
	}
	if a.Due != "" {
		reply += ", due on " + a.Due
	}
	return edit{key: key, reply: reply + ".", task: Task{Title: title, Due: a.Due, List: list}, do: add}, nil
}

// CallAll implements tool.Batcher: it adds several tasks, in one write if they are in a file. An error in one
// of them does not affect the others.
func (a adding) CallAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	out := make([]tool.Outcome, len(ins))
	st, err := a.s.of(ctx, ins[0].User)
	f, inFile := st.(*file)
	var all []edit
	var at []int // where each is in out
	for i, in := range ins {
		var args addArgs
		e, bad := edit{}, cmp.Or(err, json.Unmarshal(in.Args, &args))
		if bad == nil {
			e, bad = args.edit(local.Key(in))
		}
		switch {
		case bad != nil:
			out[i].Err = tool.NotDone(bad)
		case inFile:
			all, at = append(all, e), append(at, i)
		default:
			reply, err := st.apply(ctx, e)
			out[i] = tool.Outcome{Result: tool.Text(reply), Err: err}
		}
	}
	if len(all) == 0 {
		return out
	}
	reply, err := f.applyAll(ctx, all)
	for n, i := range at {
		out[i] = tool.Outcome{Result: tool.Text(reply[n]), Err: err}
	}
	return out
}

// on returns what edits the task that the words refer to.
func (s *service) on(do editing, reply string) func(context.Context, tool.Invocation, oneArgs, store) (string, error) {
	return func(ctx context.Context, in tool.Invocation, a oneArgs, l store) (string, error) {
		all, err := l.All(ctx)
		if err != nil {
			return "", tool.NotDone(err)
		}
		t, err := local.ExactlyOne("task", a.Task, find(all, a.Task), s.shown(in.User))
		if err != nil {
			return "", err
		}
		return l.apply(ctx, edit{local.Key(in), fmt.Sprintf(reply, t.Title), t, do})
	}
}

// find returns the tasks with a number, with a title, or with all the words. Open tasks take precedence.
func find(all []Task, words string) []Task {
	words = strings.TrimSpace(words)
	return local.FirstMatches(all, func(t Task) bool { return !t.Done },
		func(t Task) bool { return fmt.Sprint(t.Number) == strings.TrimPrefix(words, "#") },
		func(t Task) bool { return strings.EqualFold(t.Title, words) },
		func(t Task) bool { return t.has(words) })
}

// has reports whether all the words begin words of the title.
func (t Task) has(query string) bool {
	return local.HasWords(t.Title, query, "the", "my", "task", "a", "to")
}
