package task

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/id"
)

// file is a user's to-do list: a Markdown file whose task lines are "- [ ] Buy milk (due 2026-03-29)",
// ticked when done. The rest of the file does not change.
type file struct{ local.Record }

const maxFile = 4 << 20 // bytes

// taskLine is a line with a box: its beginning, the mark, the text.
var taskLine = regexp.MustCompile(`^(\s*(?:[-*+]|\d+[.)])\s+\[)([ xX])(\]\s+)(\S.*)$`)

// dueMark is a due date at the end of a task.
var dueMark = regexp.MustCompile(`\s*\(due:? (\d{4}-\d{2}-\d{2})\)\s*$`)

// read returns the file's lines, its tasks, and the index of each task's line.
func read(data []byte) (lines []string, tasks []Task, at []int) {
	for line := range strings.Lines(string(data)) {
		lines = append(lines, line)
		m := taskLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		t := Task{Number: len(tasks) + 1, Done: m[2] != " ", Title: strings.ToValidUTF8(strings.TrimSpace(m[4]), "�")}
		if due := dueMark.FindStringSubmatchIndex(t.Title); due != nil && due[0] > 0 && checkDate(t.Title[due[2]:due[3]]) == nil {
			t.Title, t.Due = t.Title[:due[0]], t.Title[due[2]:due[3]]
		}
		tasks = append(tasks, t)
		at = append(at, len(lines)-1)
	}
	return lines, tasks, at
}

// All returns the tasks in the order of the list.
func (f *file) All(context.Context) ([]Task, error) {
	data, err := local.ReadFile(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	_, tasks, _ := read(data)
	return tasks, nil
}

func (t Task) line() string {
	out := "- [ ] " + t.Title
	if t.Due != "" {
		out += " (due " + t.Due + ")"
	}
	return out + "\n"
}

func keyWord(key string) string { return id.Derive("task", key).String() }

// edit is a change of one task, with its key and the text that is returned for it.
type edit struct {
	key, told string
	task      Task
	do        editing
}

// editing says what is done with a task.
type editing int

const (
	add editing = iota
	complete
	remove
)

// apply makes a change once for its key. Error code: task_not_found, if the task is no longer as it was
// listed.
func (f *file) apply(ctx context.Context, e edit) (string, error) {
	told, err := f.applyAll(ctx, []edit{e})
	return told[0], err
}

// applyAll makes several changes, all or none.
func (f *file) applyAll(ctx context.Context, all []edit) ([]string, error) {
	keys := make([]string, len(all))
	for i, e := range all {
		keys[i] = e.key
	}
	return f.Record.Change(ctx, keys, func(i int, old []byte) ([]byte, local.Note, error) {
		lines, n, err := all[i].change(old)
		return []byte(strings.Join(lines, "")), n, err
	})
}

// back undoes a change.
func back(old []byte, n local.Note) ([]byte, error) {
	lines, _, at := read(old)
	i := slices.Index(lines, n.After)
	switch {
	case n.After == "":
		lines = slices.Insert(lines, last(lines, at), n.Before)
	case i < 0:
		return nil, local.ChangedSince(n.What)
	case n.Before == "":
		lines = slices.Delete(lines, i, i+1)
	default:
		lines[i] = n.Before
	}
	return []byte(strings.Join(lines, "")), nil
}

// change makes the change in a file's lines.
func (e edit) change(old []byte) ([]string, local.Note, error) {
	lines, tasks, at := read(old)
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n"
	}
	was := local.Note{What: fmt.Sprintf("the task %q", e.task.Title), Told: e.told}
	if e.do == add {
		was.After = e.task.line()
		return slices.Insert(lines, last(lines, at), was.After), was, nil
	}
	i := slices.Index(tasks, e.task)
	if i < 0 { // it may have another number if the file was changed since it was listed
		i = slices.IndexFunc(tasks, func(t Task) bool { return t.Title == e.task.Title && t.Due == e.task.Due && t.Done == e.task.Done })
	}
	if i < 0 {
		return nil, was, fault.New(fault.NotFound, "task_not_found", "the task %.100q is not in the list any more", e.task.Title).WithHint("list the tasks")
	}
	was.Before = lines[at[i]]
	if e.do == remove {
		return slices.Delete(lines, at[i], at[i]+1), was, nil
	}
	lines[at[i]] = taskLine.ReplaceAllString(strings.TrimRight(lines[at[i]], "\r\n"), "${1}x${3}${4}") + "\n"
	was.After = lines[at[i]]
	return lines, was, nil
}

// last returns where a new task is inserted: after the last one, or else at the end.
func last(lines []string, at []int) int {
	if len(at) > 0 {
		return at[len(at)-1] + 1
	}
	return len(lines)
}
