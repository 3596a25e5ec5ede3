package task

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tools/local"
)

// file is a user's to-do list: a Markdown file whose task lines are "- [ ] Buy milk (list shopping) (due
// 2026-03-29)", ticked when done. The rest of the file does not change.
type file struct{ local.Record }

const maxFile = 4 << 20 // bytes

func inFile(path string) *file {
	return &file{local.Record{Name: "to-do list", Path: path, Max: maxFile, Part: part, Splice: splice}}
}

// taskLine is a line with a box: its beginning, the mark, the text.
var taskLine = regexp.MustCompile(`^(\s*(?:[-*+]|\d+[.)])\s+\[)([ xX])(\]\s+)(\S.*)$`)

// dueMark is a due date at the end of a task.
var dueMark = regexp.MustCompile(`\s*\(due:? (\d{4}-\d{2}-\d{2})\)\s*$`)

// listMark is the name of a list at the end of a task, before its due date.
var listMark = regexp.MustCompile(`\s*\(list ([^()]{1,200})\)\s*$`)

// read returns the file's lines, its tasks, and the index of each task's line.
func read(text string) (lines []string, tasks []Task, at []int) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		lines = append(lines, line)
		m := taskLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		t := Task{Number: len(tasks) + 1, Done: m[2] != " ", Title: strings.ToValidUTF8(strings.TrimSpace(m[4]), "�")}
		if due := dueMark.FindStringSubmatchIndex(t.Title); due != nil && due[0] > 0 && checkDate(t.Title[due[2]:due[3]]) == nil {
			t.Title, t.Due = t.Title[:due[0]], t.Title[due[2]:due[3]]
		}
		if list := listMark.FindStringSubmatchIndex(t.Title); list != nil && list[0] > 0 {
			t.Title, t.List = t.Title[:list[0]], t.Title[list[2]:list[3]]
		}
		tasks = append(tasks, t)
		at = append(at, len(lines)-1)
	}
	return lines, tasks, at
}

// All returns the tasks in the order of the list.
func (f *file) All(context.Context) ([]Task, error) {
	text, err := f.Read()
	_, tasks, _ := read(text)
	return tasks, err
}

func (t Task) line() string {
	out := "- [ ] " + t.Title
	if list := strings.NewReplacer("(", "", ")", "").Replace(t.List); list != "" {
		out += " (list " + list + ")"
	}
	if t.Due != "" {
		out += " (due " + t.Due + ")"
	}
	return out + "\n"
}

func keyID(key string) string { return id.Derive("task", key).String() }

// edit is a change of one task, with its key and the text that is returned for it.
type edit struct {
	key, reply string
	task       Task
	do         editing
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
	reply, err := f.applyAll(ctx, []edit{e})
	return reply[0], err
}

// applyAll makes several changes, all or none.
func (f *file) applyAll(ctx context.Context, all []edit) ([]string, error) {
	keys := make([]string, len(all))
	for i, e := range all {
		keys[i] = e.key
	}
	return f.Change(ctx, keys, func(i int, text string) (local.Note, error) { return all[i].change(text) })
}

// part returns the lines that a change is about: those of its task, and others like them, done or not.
func part(text string, n local.Note) string {
	var b strings.Builder
	lines, _, _ := read(text)
	for _, line := range lines {
		if isOf(n, line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func isOf(n local.Note, line string) bool {
	open := func(line string) string { return taskLine.ReplaceAllString(strings.TrimRight(line, "\r\n"), "$1 $3$4") }
	for l := range strings.Lines(n.Before + n.After) {
		if open(l) == open(line) {
			return true
		}
	}
	return false
}

// splice puts lines in the place of those that a change is about. More of them follow the last task.
func splice(text string, n local.Note, now string) string {
	fresh := slices.Collect(strings.Lines(now))
	var out []string
	end := -1 // after the last task
	lines, _, at := read(text)
	for i, line := range lines {
		if isOf(n, line) && len(fresh) > 0 {
			line, fresh = fresh[0], fresh[1:]
		} else if isOf(n, line) {
			line = ""
		}
		out = append(out, line)
		if slices.Contains(at, i) {
			end = len(out)
		}
	}
	if end < 0 {
		end = len(out)
	}
	return strings.Join(slices.Insert(out, end, fresh...), "")
}

// change returns the note of the change in a file.
func (e edit) change(text string) (n local.Note, err error) {
	lines, tasks, at := read(text)
	n.What, n.Reply = fmt.Sprintf("the task %q", e.task.Title), e.reply
	if e.do == add {
		n.After = e.task.line()
		n.Before = part(text, n)
		n.After = n.Before + n.After
		return n, nil
	}
	i := slices.Index(tasks, e.task)
	if i < 0 { // it may have another number if the file was changed since it was listed
		i = slices.IndexFunc(tasks, func(t Task) bool {
			return t.Title == e.task.Title && t.Due == e.task.Due && t.List == e.task.List && t.Done == e.task.Done
		})
	}
	if i < 0 {
		return n, fault.New(fault.NotFound, "task_not_found", "the task %.100q is no longer in the list", e.task.Title).WithHint("list the tasks")
	}
	old, now := lines[at[i]], ""
	if e.do == complete {
		now = taskLine.ReplaceAllString(strings.TrimRight(old, "\r\n"), "${1}x${3}${4}") + "\n"
	}
	n.Before, n.After = old, now
	was := part(text, n)
	lines[at[i]] = now
	n.Before, n.After = was, part(strings.Join(lines, ""), n)
	return n, nil
}
