// Package task lets an agent keep a to-do list, which is a Markdown file.
package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:task"

// Task is one thing to do.
type Task struct {
	Number int // its position in the list, from 1
	Title  string
	Done   bool
	Due    string // a date as 2006-01-02, or empty
}

// Options configure the source. The zero value works.
type Options = local.Options

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Declared `yaml:",inline"`
	File           string `yaml:"file"` // a Markdown file
}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		place, err := local.NewPlace(env, d.File, "tasks.md")
		if err != nil {
			return nil, err
		}
		k := local.NewKit(env, Kind)
		if err := k.Deliver(d.Declared, d.File); err != nil {
			return nil, err
		}
		s := &service{Options: opt, place: place}
		return s.source(k)
	}
}

// service holds the tools over the users' lists.
type service struct {
	Options
	place local.Place
}

// of returns the list of a user.
func (s *service) of(user string) *file {
	return &file{local.Record{Path: s.place.For(user), Max: maxFile, Done: done, Back: back}}
}

type addArgs struct {
	Due   string `json:"due,omitzero" jsonschema:"the day by which it must be done" format:"date"`
	Title string `json:"title" jsonschema:"what is to be done" minlen:"1" maxlen:"500"`
}

type listArgs struct {
	Before string `json:"due_before,omitzero" jsonschema:"only tasks that are due on this day or before it" format:"date"`
	Show   string `json:"show,omitzero" jsonschema:"which tasks; the open ones unless given" enum:"open,completed,all"`
}

type oneArgs struct {
	Task string `json:"task" jsonschema:"the task: its title, words of it, or its number in the list" minlen:"1" maxlen:"500"`
}

// mine are the labels of a list and of texts about its tasks: they belong to the user, and a task may come
// from a text of others, such as an e-mail.
const mine = message.Private | message.Untrusted

func (s *service) source(k *local.Kit) (tool.Source, error) {
	local.Query(k, tool.Spec{Name: "list", Yields: mine, Tidy: local.Again("show", "due_before"),
		Description: "Lists the tasks of the to-do list: what is to be done, what is due, what is completed.",
		Log:         tool.LogSpec{Summary: "List the {show|open} tasks"}}, s.list)
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list")}}}
	settle := local.Settled(s.of)
	local.Action(k, tool.Spec{Name: "add", Tidy: stale,
		Description: "Adds a task to the to-do list: something that is to be done, with the day by which it is due.",
		Log:         tool.LogSpec{Summary: "Add the task {title}", Impact: []string{"title"}}}, s.add, settle)
	local.Action(k, tool.Spec{Name: "complete", Yields: mine, Tidy: stale,
		Description: "Completes a task: marks it as done, checks or ticks it off.",
		Log:         tool.LogSpec{Summary: "Complete the task {task}", Impact: []string{"task"}}}, s.complete, settle)
	local.Action(k, tool.Spec{Name: "delete", Yields: mine, Tidy: stale,
		Description: "Deletes a task from the to-do list: it is not to be done any more.",
		Log:         tool.LogSpec{Summary: "Delete the task {task}", Impact: []string{"task"}}}, s.delete, settle)
	for _, name := range []string{"add", "complete", "delete"} {
		local.Undo(k, name, s.of)
	}
	k.Batch("add", s.addAll)
	return k.Source()
}

func (s *service) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	if err := checkDate(a.Before); err != nil {
		return "", err
	}
	all, err := s.of(in.User).All(ctx)
	if err != nil {
		return "", err
	}
	today := s.today(in.User)
	var out []string
	for _, t := range all {
		if a.Show != "all" && t.Done != (a.Show == "completed") || a.Before != "" && (t.Due == "" || t.Due > a.Before) {
			continue
		}
		out = append(out, t.shown(today))
	}
	if len(out) == 0 {
		which := map[string]string{"": "open task", "open": "open task", "completed": "completed task", "all": "task"}[a.Show]
		if a.Before != "" {
			which += " due by " + a.Before
		}
		return "There is no " + which + ".", nil
	}
	return strings.Join(out, "\n"), nil
}

func (s *service) today(user string) string {
	return s.Time().In(s.Location(user)).Format(time.DateOnly)
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
	return out
}

func checkDate(date string) error {
	_, err := local.Day(date, time.Now())
	return err
}

func (s *service) add(ctx context.Context, in tool.Invocation, a addArgs) (string, error) {
	e, err := a.edit(local.Key(in))
	if err != nil {
		return "", err
	}
	return s.of(in.User).apply(ctx, e)
}

func (a addArgs) edit(key string) (edit, error) {
	title := strings.Join(strings.Fields(a.Title), " ")
	if title == "" {
		return edit{}, fault.New(fault.Invalid, "title_missing", "the task has no title").WithHint("say what is to be done")
	}
	if err := checkDate(a.Due); err != nil {
		return edit{}, err
	}
	told := fmt.Sprintf("Added the task %q.", title)
	if a.Due != "" {
		told = fmt.Sprintf("Added the task %q, due on %s.", title, a.Due)
	}
	return edit{key: key, told: told, task: Task{Title: title, Due: a.Due}, do: add}, nil
}

// addAll adds several tasks. An error in one of them does not affect the others.
func (s *service) addAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	out := make([]tool.Outcome, len(ins))
	var all []edit
	var at []int // where each is in out
	for i, in := range ins {
		var a addArgs
		var e edit
		err := json.Unmarshal(in.Args, &a)
		if err == nil {
			e, err = a.edit(local.Key(in))
		}
		if err != nil {
			out[i].Err = tool.NotDone(err)
			continue
		}
		all, at = append(all, e), append(at, i)
	}
	told, err := s.of(ins[0].User).applyAll(ctx, all)
	for n, i := range at {
		if out[i].Err = err; err == nil {
			out[i].Result = tool.Text(told[n])
		}
	}
	return out
}

func (s *service) complete(ctx context.Context, in tool.Invocation, a oneArgs) (string, error) {
	return s.on(ctx, in, a.Task, "Completed the task %q.", complete)
}

func (s *service) delete(ctx context.Context, in tool.Invocation, a oneArgs) (string, error) {
	return s.on(ctx, in, a.Task, "Deleted the task %q.", remove)
}

// on edits the task that the words refer to.
func (s *service) on(ctx context.Context, in tool.Invocation, words, told string, do editing) (string, error) {
	l := s.of(in.User)
	if told, ok, err := l.Applied(ctx, local.Key(in)); err != nil || ok {
		return told, err
	}
	all, err := l.All(ctx)
	if err != nil {
		return "", tool.NotDone(err)
	}
	t, err := find(all, words, s.today(in.User))
	if err != nil {
		return "", err
	}
	return l.apply(ctx, edit{local.Key(in), fmt.Sprintf(told, t.Title), *t, do})
}

// find returns the task with a number, with a title, or with all the words. If there are several, open
// tasks take precedence. Error codes: task_not_found, task_ambiguous.
func find(all []Task, words, today string) (*Task, error) {
	words = strings.TrimSpace(words)
	for _, match := range []func(Task) bool{
		func(t Task) bool { return fmt.Sprint(t.Number) == strings.TrimPrefix(words, "#") },
		func(t Task) bool { return strings.EqualFold(t.Title, words) },
		func(t Task) bool { return t.has(words) },
	} {
		var found, open []Task
		for _, t := range all {
			if match(t) {
				found = append(found, t)
				if !t.Done {
					open = append(open, t)
				}
			}
		}
		if len(open) > 0 {
			found = open
		}
		switch {
		case len(found) == 1:
			return &found[0], nil
		case len(found) > 1:
			var list []string
			for _, t := range found[:min(len(found), 10)] {
				list = append(list, t.shown(today))
			}
			return nil, fault.New(fault.Conflict, "task_ambiguous", "several tasks are called like %.100q", words).
				WithHint("say which, by its number: %s", strings.Join(list, "; "))
		}
	}
	return nil, fault.New(fault.NotFound, "task_not_found", "there is no task %.100q", words).WithHint("list the tasks")
}

// has reports whether all the words begin words of the title.
func (t Task) has(query string) bool {
	return local.HasWords(t.Title, query, "the", "my", "task", "a", "to")
}
