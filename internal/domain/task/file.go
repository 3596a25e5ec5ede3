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
// ticked when done. The rest of the file does not change. Each change is marked in the same write by a
// comment that Markdown readers do not show.
type file struct{ local.Record }

const (
	maxFile = 4 << 20 // bytes
	maxDone = 200     // comments that are not removed
)

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

const markOpen, markClose = "<!-- steward:", " -->"

// mark returns the comment with a key and the text that was returned.
func mark(key, told string) string {
	return markOpen + keyWord(key) + " " + strings.ReplaceAll(told, "--", "-\u200b-") + markClose + "\n"
}

func keyWord(key string) string { return id.Derive("task", key).String() }

// done returns the text of the change under a key.
func done(data []byte, key string) (string, bool) {
	begin := markOpen + keyWord(key) + " "
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			return strings.ReplaceAll(strings.TrimSuffix(strings.TrimRight(rest, "\r\n"), markClose), "-\u200b-", "--"), true
		}
	}
	return "", false
}

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
	return f.Record.Change(ctx, keys, func(i int, old []byte) ([]byte, local.Former, string, error) {
		lines, was, err := all[i].change(old)
		return marked(lines, all[i].key, all[i].told), was, all[i].told, err
	})
}

// back undoes a change and marks that.
func back(old []byte, was local.Former, under string) ([]byte, string, error) {
	lines, _, at := read(old)
	lines, err := was.Reverse(lines, func(lines []string, before string) []string {
		return slices.Insert(slices.Clone(lines), last(lines, at), before)
	})
	if err != nil {
		return nil, "", err
	}
	said := "The to-do list is as it was before: " + was.What + "."
	return marked(lines, under, said), said, nil
}

// marked returns the lines with a mark at the end.
func marked(lines []string, key, told string) []byte {
	return []byte(strings.Join(forget(append(lines, mark(key, told))), ""))
}

// change makes the change in a file's lines.
func (e edit) change(old []byte) ([]string, local.Former, error) {
	lines, tasks, at := read(old)
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n"
	}
	was := local.Former{What: fmt.Sprintf("the task %q", e.task.Title)}
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

// last returns where a new task is inserted: after the last one, or else before the comments.
func last(lines []string, at []int) int {
	if len(at) > 0 {
		return at[len(at)-1] + 1
	}
	for i, l := range lines {
		if strings.HasPrefix(l, markOpen) {
			return i
		}
	}
	return len(lines)
}

// forget removes the oldest comments if there are too many.
func forget(lines []string) []string {
	extra := -maxDone
	for _, l := range lines {
		if strings.HasPrefix(l, markOpen) {
			extra++
		}
	}
	return slices.DeleteFunc(lines, func(l string) bool {
		if !strings.HasPrefix(l, markOpen) || extra <= 0 {
			return false
		}
		extra--
		return true
	})
}
