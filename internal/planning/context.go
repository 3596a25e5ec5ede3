package planning

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
)

// The bounds of what the agent of a task learns of the tree around it, in bytes.
const (
	maxOutputs = 32 << 10 // of the tasks before it
	maxPurpose = 1 << 10  // of each task above it
	maxTree    = 32 << 10 // of the whole tree, for the answer to a task's question
)

// ancestors returns the tasks that a task is a part of, the nearest first, and the
// outputs of the tasks that these come after.
func (w *treeWorker) ancestors(t *plan.Task) (above, before []*plan.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := w.tasks[t.Parent]; p != nil; p = w.tasks[p.Parent] {
		above = append(above, p.Task)
		for _, x := range p.After {
			if b := w.tasks[x]; b != nil {
				before = append(before, b.Task)
			}
		}
	}
	return above, before
}

// purposesOf lists the purposes of the tasks that a task is a part of. They are marked as
// data, so that no agent takes them for what it is to do.
func purposesOf(above []*plan.Task) string {
	var lines []string
	for _, p := range above {
		if p.Purpose != "" {
			lines = append(lines, "- "+strings.ToValidUTF8(p.Purpose[:min(len(p.Purpose), maxPurpose)], ""))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n\n" + llm.Fenced("what this is a part of, of which others do the rest", strings.Join(lines, "\n"))
}

// outputs returns the outputs of tasks, as far as there is room for them.
func outputs(before []*plan.Task) string {
	var b strings.Builder
	for i, x := range before {
		text := "\n\n" + llm.Fenced("the output of the task "+x.Name, x.Output.Summary)
		if x.Output.Whole > 0 {
			text += fmt.Sprintf("\nThat is the beginning of %d bytes. If you have the tool %s, read on with it: task %q, offset %d.", x.Output.Whole, readTaskTool, x.ID.String(), len(x.Output.Summary)-len("…"))
		}
		if b.Len()+len(text) > maxOutputs {
			fmt.Fprintf(&b, "\n\nThe outputs of %d more tasks are left out.", len(before)-i)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// maxEarlier bounds what an agent learns of earlier attempts at its task, in bytes.
const maxEarlier = 8 << 10

// earlierAttempt returns what the last attempt at a task had called, so that the next one
// does not do it again, and the labels of what it had read.
func (w *treeWorker) earlierAttempt(ctx context.Context, t *plan.Task) (string, message.Labels, error) {
	if t.Attempt == 0 {
		return "", 0, nil
	}
	ref := taskCall(t, t.Attempt-1)
	conv := record.AskedConversation(ref)
	var b strings.Builder
	for m, err := range requests.MessagesUnder(ctx, w.engine.store, store.ForUser(w.Conversation.User), record.ConversationURI(conv)) {
		if err != nil {
			return "", 0, err
		}
		for _, c := range m.Calls() {
			fmt.Fprintf(&b, "called %s %s\n", c.Name, c.Args)
		}
		if r := m.Result(); r != nil {
			fmt.Fprintf(&b, "%s %s: %s\n", r.Name, r.Status, llm.Line(r.Text()))
		}
	}
	if b.Len() == 0 {
		return "", 0, nil
	}
	text := b.String()
	return "\n\nIt was begun before. Do not do again what was done then.\n" + llm.Fenced("what was called then", strings.ToValidUTF8(text[:min(len(text), maxEarlier)], "")),
		w.engine.work.GistOf(ctx, w.Conversation.User, conv).Labels, nil
}

// assignment returns what the agent is asked: the task, what it is a part of, and
// what came before it.
func assignment(t *plan.Task, above, before []*plan.Task) string {
	var b strings.Builder
	for _, part := range []struct{ head, text string }{{"", t.Purpose}, {"", t.Instructions}, {"It is done well if: ", t.Evaluation}} {
		if text := strings.TrimSpace(part.text); text != "" {
			b.WriteString(part.head + text + "\n")
		}
	}
	if t.Rounds > 0 && t.Verdict != "" {
		b.WriteString("\nYour last answer fell short:\n" + llm.Fenced("what was said of it", t.Verdict) + "\n")
	}
	if t.Told != "" {
		b.WriteString("\nSomething has failed since this was planned. " + llm.Fenced("what you have to mind now", t.Told) + "\n")
	}
	return strings.TrimSpace(b.String()) + purposesOf(above) + outputs(before)
}
