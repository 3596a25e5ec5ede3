package tidy_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/conversation/worklog"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// request is a request of Anna and what happens to the file before it.
type request struct {
	words    string
	path     string
	old, new string // a manual edit of the file
	tidied   string // the tool that makes a result obsolete before it, if any
}

var script = []request{
	{words: "What is the total in office/ledger.txt?", path: "ledger.txt"},
	{words: "What is the total in office/hours.txt?", path: "hours.txt"},
	{words: "What is the total in office/stock.txt?", path: "stock.txt"},
	{words: "Set item-007 to 950 in office/ledger.txt.", path: "ledger.txt", tidied: "files.write"},
	{words: "What is the total in office/ledger.txt?", path: "ledger.txt"},
	{words: "hours.txt has been changed. What is the total in office/hours.txt?", path: "hours.txt", tidied: "files.read",
		old: "day-001   worked", new: "day-000   planned the new house   12\nday-001   worked"},
	{words: "stock.txt has been changed. What is the total in office/stock.txt?", path: "stock.txt", tidied: "files.read",
		old: "part-050   on", new: "part-051   lent to the neighbours   3\npart-050   on"},
	{words: "hours.txt has been changed. What is the total in office/hours.txt?", path: "hours.txt", tidied: "files.read",
		old: "day-000   planned", new: "day-000   thought about the new house   5\nday-000   planned"},
	{words: "Set part-010 to 4 in office/stock.txt.", path: "stock.txt", tidied: "files.write"},
	{words: "What is the total in office/stock.txt?", path: "stock.txt"},
	{words: "hours.txt has been changed. What is the total in office/hours.txt?", path: "hours.txt", tidied: "files.read",
		old: "day-000   planned the new house   12", new: "day-000   planned the new house   14"},
	{words: "What is the total in office/ledger.txt?", path: "ledger.txt"},
}

// told is one run of the script.
type told struct {
	*office
	answers []string
	shown   []int64
}

// play runs the script and calls after following each request.
func play(t *testing.T, strategies bool, window int, after func(*office)) *told {
	t.Helper()
	r := &told{office: open(t, strategies, window)}
	for i, q := range script {
		if q.old != "" {
			r.edit(q.path, q.old, q.new)
		}
		answer, shown := r.ask(q.words)
		want := fmt.Sprintf("Replaced office/%s: %d bytes.", q.path, len(r.file(q.path)))
		if strings.HasSuffix(q.words, "?") {
			want = r.count(q.path)
		}
		if answer != want {
			t.Fatalf("request %d, %s: %q, but in the file it is %q", i+1, q.words, answer, want)
		}
		r.answers, r.shown = append(r.answers, answer), append(r.shown, shown)
		if after != nil {
			after(r.office)
		}
	}
	return r
}

// count computes the right answer from the file itself.
func (o *office) count(path string) string {
	o.t.Helper()
	sum, n := 0, 0
	for line := range strings.SplitSeq(strings.TrimSpace(o.file(path)), "\n") {
		x := 0
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &x); err != nil {
			o.t.Fatal(err)
		}
		sum, n = sum+x, n+1
	}
	return fmt.Sprintf("%d, in %d entries.", sum, n)
}

func refresh(o *office) {
	_, err := o.Tidy(o.t.Context(), user, o.conv, runtime.TidyRefresh, nil)
	o.must(err)
}

// window is the model's context window in tokens, input and output, for the run
// in which only the window limits the transcript. The whole transcript does not
// fit.
const window = 21600

// TestSession plays a morning in the office three times. The transcript shown
// shrinks by more than half, the answers stay the same, and nothing is lost.
func TestSession(t *testing.T) {
	whole := play(t, false, 0, nil)
	tidy := play(t, true, 0, refresh)
	pressed := play(t, true, window, nil)
	last := len(script) - 1
	for i := range script {
		if whole.answers[i] != tidy.answers[i] || whole.answers[i] != pressed.answers[i] {
			t.Errorf("request %d: %q without tidying, %q with it, %q in a window", i+1, whole.answers[i], tidy.answers[i], pressed.answers[i])
		}
	}
	if 2*tidy.shown[last] >= whole.shown[last] || 3*pressed.shown[last] >= 2*whole.shown[last] {
		t.Errorf("at the end %d tokens are shown without tidying, %d with it, %d in a window", whole.shown[last], tidy.shown[last], pressed.shown[last])
	}
	if whole.model.calls != tidy.model.calls || whole.model.calls != pressed.model.calls {
		t.Errorf("tidying costs calls: %d without it, %d with it, %d in a window", whole.model.calls, tidy.model.calls, pressed.model.calls)
	}
	tidy.keptAll(whole)
	pressed.keptAll(whole)
	if body, _ := pressed.model.shown(); strings.Contains(body, "read on with") {
		t.Error("results were clipped: tidying was not enough")
	}
	inDocument(t, "session", table(whole, tidy, pressed)+"\n```text\n"+tidy.log()+"```\n")
	tidy.rollsBack()
}

// keptAll compares the messages with those of the run without obsolete results,
// and with the script's list of what made them obsolete.
func (r *told) keptAll(whole *told) {
	r.t.Helper()
	got, want := r.all(), whole.all()
	if len(got) != len(want) {
		r.t.Fatalf("there are %d messages, not %d", len(got), len(want))
	}
	by := map[id.ID][]string{}
	for i := range got {
		if got[i].Role != want[i].Role || got[i].Text() != want[i].Text() {
			r.t.Errorf("message %d differs: %.80q and %.80q", i, got[i].Text(), want[i].Text())
		}
		if c := got[i].Change; c.State != "" && c.State != record.Active {
			if c.State != record.Invalidated || got[i].Result().Name != "files.read" || c.Reason == "" {
				r.t.Errorf("message %d is %+v", i, c)
			}
			by[c.Interaction] = append(by[c.Interaction], c.Tool)
		}
		if !got[i].Shown {
			r.t.Errorf("message %d, %.80q, has fallen out of view: tidying was not enough", i, got[i].Text())
		}
		if c := want[i].Change; c.State != "" && c.State != record.Active {
			r.t.Errorf("without strategies message %d is %+v", i, c)
		}
	}
	n := 0
	for _, m := range got {
		if m.Role != message.User {
			continue
		}
		if tools := strings.Join(by[m.Interaction], " "); tools != script[n].tidied {
			r.t.Errorf("request %d: results were made obsolete by %q, want %q", n+1, tools, script[n].tidied)
		}
		n++
	}
}

// rollsBack undoes what the last reading made obsolete: that result is shown
// again in full, and the next answer is still right. What the first reading
// made obsolete was read again since and stays obsolete.
func (r *told) rollsBack() {
	t := r.t
	t.Helper()
	changes, err := r.Conversations.Audit(t.Context(), store.ForUser(user), r.conv, id.ID{}, "files.read")
	r.must(err)
	n, err := r.Rollback(t.Context(), user, r.conv, changes[0].Interaction, "files.read")
	if r.must(err); n != 0 {
		t.Errorf("%d results came back that were read again since", n)
	}
	c := changes[len(changes)-1]
	text := ""
	for _, m := range r.all() {
		if m.ID == c.Message {
			text = m.Result().Text()
		}
	}
	question := "What is the total in office/stock.txt?"
	answer, before := r.ask(question)
	if r.shows(text) {
		t.Fatal("what is obsolete is shown")
	}
	n, err = r.Rollback(t.Context(), user, r.conv, c.Interaction, "files.read")
	r.must(err)
	again, after := r.ask(question)
	if n != 1 || !r.shows(text) || again != answer || after < before+1000 {
		t.Errorf("%d results were rolled back; %q and %q; %d tokens and %d", n, answer, again, before, after)
	}
}

// shows reports whether the model was shown a tool result.
func (o *office) shows(text string) bool {
	o.t.Helper()
	body, _ := o.model.shown()
	_, outcomes, err := seen([]byte(body))
	o.must(err)
	for _, x := range outcomes {
		if x.result == text {
			return true
		}
	}
	return false
}

func table(whole, tidy, pressed *told) string {
	var b strings.Builder
	b.WriteString("| request | answer | shown without tidying | refreshed after each request | in a window |\n|---|---|---:|---:|---:|\n")
	for i, q := range script {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", q.words, whole.answers[i], whole.shown[i], tidy.shown[i], pressed.shown[i])
	}
	last := len(script) - 1
	less := func(n int64) int64 { return 100 * (whole.shown[last] - n) / whole.shown[last] }
	fmt.Fprintf(&b, "| *less at the end* | | | *%d %%* | *%d %%* |\n", less(tidy.shown[last]), less(pressed.shown[last]))
	return b.String()
}

// log returns the work log of the session, oldest entry first, without what
// differs between runs.
func (o *office) log() string {
	o.t.Helper()
	list, next, err := o.WorkLog(o.t.Context(), user, worklog.Filter{Conversation: o.conv}, "", 0)
	o.must(err)
	if next != "" {
		o.t.Fatal("the work log has another page")
	}
	var out string
	for _, e := range list {
		line := fmt.Sprintf("%-8s %-12s %s", e.Outcome, e.Tool, e.Summary)
		if e.Obsolete {
			line += " (obsolete)"
		}
		out = line + "\n" + out
	}
	return out
}
