package conversation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

func (k *talk) mark(state record.Validity, msgs ...id.ID) {
	k.t.Helper()
	k.ok(second(k.e.Mark(k.t.Context(), anna, k.conv, conversation.Verdict{State: state, Reason: "a test"}, msgs...)))
}

// states returns the state of each message of the preferred branch.
func (k *talk) states() string {
	k.t.Helper()
	page, _, err := k.e.Messages(k.t.Context(), anna, k.conv, "", 1000, false)
	k.ok(err)
	var out []string
	for _, m := range page {
		out = append(out, string(m.Change.State[:2]))
	}
	return strings.Join(out, " ")
}

// A change by a tool's call applies to branches that hold the call; a change by a
// person applies to all branches.
func TestMarksAcrossBranches(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	ctx := t.Context()
	read := k.turn("read", "file.read a")
	write := k.turn("write", "file.write a", "file.list x")
	if got := k.states(); got != "ac ac in ac ac ac ac ac ac ac" {
		t.Errorf("states %s", got)
	}
	main := k.view()
	k.expect("the view before the revision", main[:3], "read", "call file.read", "content 1 of file.read a")
	k.ok(second(k.e.Refresh(ctx, anna, k.conv)))
	if v := k.view(); !strings.HasPrefix(v[2], "[obsolete: ") {
		t.Errorf("%q", v)
	}
	// On a sibling without the write, the read is valid.
	aside, err := k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: write[0], Before: true})
	k.ok(err)
	if got := k.states(); got != "ac ac ac ac" {
		t.Errorf("on the sibling: %s", got)
	}
	k.expect("the sibling's view", k.view(), "read", "call file.read", "content 1 of file.read a", "re: read")
	// On a branch that departs after the write, it is not.
	_, err = k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: write[2]})
	k.ok(err)
	if got := k.states(); got != "ac ac in ac ac ac ac" {
		t.Errorf("behind the write: %s", got)
	}
	if v := k.view(); !strings.HasPrefix(v[2], "[obsolete: ") { // the branch inherits the revision
		t.Errorf("%q", v)
	}
	// A write on the sibling makes it obsolete there independently.
	k.ok(k.e.Switch(ctx, anna, k.conv, aside.ID))
	k.turn("write here", "file.write a")
	if got := k.states(); got != "ac ac in ac ac ac ac ac" {
		t.Errorf("on the sibling, after a write: %s", got)
	}
	n, err := k.e.Rollback(ctx, anna, k.conv, k.in[len(k.in)-1], "")
	if n != 1 || err != nil || k.states() != "ac ac ac ac ac ac ac ac" {
		t.Errorf("%d, %v: %s", n, err, k.states())
	}
	k.ok(k.e.Switch(ctx, anna, k.conv, record.MainBranch))
	if got := k.states(); got != "ac ac in ac ac ac ac ac ac ac" { // its own cause remains
		t.Errorf("on main, after the sibling's rollback: %s", got)
	}
	// A person's change applies to all branches and to the whole call.
	k.mark(record.Archived, read[2])
	for _, b := range []string{record.MainBranch, aside.ID} {
		k.ok(k.e.Switch(ctx, anna, k.conv, b))
		if got := k.states(); !strings.HasPrefix(got, "ac ar ar ac") {
			t.Errorf("archived, on %s: %s", b, got)
		}
		if v := strings.Join(k.view(), "\n"); strings.Contains(v, "file.read") {
			t.Errorf("it is shown:\n%s", v)
		}
	}
	k.mark(record.Active, read[1])
	if got := k.states(); got != "ac ac ac ac ac ac ac ac" {
		t.Errorf("active again: %s", got)
	}
	before := k.seq()
	k.mark(record.Active, read[1]) // it has this state already
	if k.seq() != before {
		t.Error("nothing was written down as a change")
	}
	all, err := k.e.Audit(ctx, anna, k.conv, id.ID{}, "")
	k.ok(err)
	byTool, err := k.e.Audit(ctx, anna, k.conv, k.in[1], "file.write")
	k.ok(err)
	if len(all) != 4 || len(byTool) != 1 || byTool[0].Message != read[2] || byTool[0].Actor != "agent:test" || byTool[0].Strategy != "tools" {
		t.Errorf("%d changes, %+v", len(all), byTool)
	}
}

// Cascades, parallel calls, and calls that failed.
func TestWhatCallsMakeObsolete(t *testing.T) {
	k := newTalk(t)
	s := k.session()
	k.begin(s, "do")
	k.call(s, "file.read a", "file.read b", "file.list x")
	k.call(s, "file.write a")
	k.call(s, "file.read b", "file.read b") // of parallel calls, the later one remains valid
	k.end(s, "done")
	k.expect("what became", strings.Fields(k.states()), strings.Fields("ac ac in in in ac ac ac in ac ac")...)
	// The change is recorded in the same commit as the message that causes it.
	changes, err := k.e.Audit(t.Context(), anna, k.conv, id.ID{}, "")
	k.ok(err)
	for _, c := range changes {
		u := record.MarkURI(k.conv, c.Message)
		for en, err := range store.Entries(t.Context(), k.db, anna, store.LogQuery{Of: u}) {
			k.ok(err)
			page, err := k.db.Log(t.Context(), anna, store.LogQuery{Since: en.Seq - 4, Limit: 4})
			k.ok(err)
			same := func(o int) bool {
				return page.Entries[o].URI.Type() == record.TypeMessage && page.Entries[o].At.Equal(en.At)
			}
			if !same(0) && !same(1) && !same(2) {
				t.Errorf("the change of %s stands alone in the log", c.Message)
			}
		}
	}
}

// What an action returned stays, whatever comes next, and so does what a tool returned that is not there any
// more: the model could do it again. Tools are named by names that there are, and by globs.
func TestMakingRoomKeepsActions(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("work", "file.write a", "gone.add b", "file.list c")
	for _, tools := range [][]string{{"wbe.get"}, {"web.get", "file.raed"}, {"web.[get"}} {
		if n, err := k.e.Optimize(ctx, anna, k.conv, tools); n != 0 || !fault.HasCode(err, "tool_unknown") && !fault.HasCode(err, "tool_pattern_invalid") {
			t.Errorf("%v: %d, %v", tools, n, err)
		}
	}
	if n, err := k.e.Optimize(ctx, anna, k.conv, []string{"file.*"}); n != 0 || err != nil { // all of what is left are files
		t.Errorf("%d, %v", n, err)
	}
	before := k.view()
	n, err := k.e.Optimize(ctx, anna, k.conv, []string{"web.*"})
	v := k.view()
	if n != 1 || err != nil || v[2] != before[2] || v[4] != before[4] || !strings.HasPrefix(v[6], "[left out to make room") {
		t.Errorf("%d left, %v\n%s", n, err, strings.Join(v, "\n"))
	}
}

func TestOptimizeAndRestore(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("work", "file.read a", "web.get x", "file.list y", "web.get z")
	pinned := k.all[8] // the second page
	k.ok(k.e.Pin(ctx, anna, k.conv, true, pinned))
	before := k.view()
	n, err := k.e.Optimize(ctx, anna, k.conv, []string{"file.write"}) // its rules name reading and listing
	v := k.view()
	if n != 1 || err != nil || !strings.HasPrefix(v[4], "[left out to make room; read it with results.read uri=") || v[8] != before[8] || v[2] != before[2] {
		t.Fatalf("%d left, %v\n%s", n, err, strings.Join(v, "\n"))
	}
	if n, err := k.e.Optimize(ctx, anna, k.conv, []string{"web.get"}); n != 2 || err != nil {
		t.Errorf("%d left, %v", n, err)
	}
	if n, err := k.e.Rollback(ctx, anna, k.conv, k.in[0], ""); n != 0 || err != nil {
		t.Errorf("a rollback takes back what no tool did: %d, %v", n, err)
	}
	if n, err := k.e.Restore(ctx, anna, k.conv); n != 3 || err != nil {
		t.Errorf("%d restored, %v", n, err)
	}
	k.expect("the view", k.view(), before...)
	if n, err := k.e.Restore(ctx, anna, k.conv); n != 0 || err != nil {
		t.Errorf("%d restored again, %v", n, err)
	}
	k.turn("on", "file.write a") // later calls work as before
	if got := k.states(); got[6:8] != "in" {
		t.Errorf("%s", got)
	}
}

func TestErrorCodes(t *testing.T) {
	k := newTalk(t)
	ctx, none := t.Context(), id.New()
	_, err := k.e.Fork(ctx, anna, none, conversation.Fork{})
	k.code(err, "conversation_not_found")
	one := k.turn("one", "file.read a")
	user, call, result, answer := one[0], one[1], one[2], one[3]
	verdict := func(s record.Validity, by id.ID) conversation.Verdict { return conversation.Verdict{State: s, By: by} }
	bad := say(message.User, "")
	bad.Blocks = nil
	calls := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: "a.b", Args: []byte("{}")}}}
	for code, errs := range map[string][]error{
		"validity_unknown":  {second(k.e.Mark(ctx, anna, k.conv, verdict("lost", id.ID{}), user))},
		"message_not_found": {second(k.e.Mark(ctx, anna, k.conv, verdict(record.Archived, id.ID{}), none)), second(k.e.Mark(ctx, anna, k.conv, verdict(record.Superseded, none), user)), k.e.Pin(ctx, anna, k.conv, true, none), second(k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: none})), second(k.e.Remove(ctx, anna, k.conv, none)), second(k.e.OpenFork(ctx, anna, k.conv, conversation.Fork{Message: none})), second(k.e.OpenAgain(ctx, anna, k.conv, none)), second(k.e.Siblings(ctx, anna, k.conv, none)), second(k.e.Insert(ctx, anna, k.conv, none, say(message.User, "x"))), second(k.e.Find(ctx, anna, k.conv, id.Derive("message", "none")))},
		"splits_call":       {second(k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: call})), second(k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: result, Before: true})), second(k.e.OpenFork(ctx, anna, k.conv, conversation.Fork{Message: call})), second(k.e.Insert(ctx, anna, k.conv, call, say(message.User, "x")))},
		"insert_call":       {second(k.e.Insert(ctx, anna, k.conv, user, calls))},
		"branch_not_found": {k.e.Switch(ctx, anna, k.conv, "none"), k.e.Title(ctx, anna, k.conv, "none", "x"), k.e.DeleteBranch(ctx, anna, k.conv, "none"),
			k.e.UndeleteBranch(ctx, anna, k.conv, "none"), second(k.e.CopyBranch(ctx, anna, k.conv, "none"))},
		"branch_last":           {k.e.DeleteBranch(ctx, anna, k.conv, record.MainBranch)},
		"nothing_to_undo":       {k.e.Unfit(ctx, anna, k.conv)},
		"merge_self":            {k.e.Merge(ctx, anna, k.conv, k.in[0], k.in[0])},
		"interaction_not_found": {k.e.Merge(ctx, anna, k.conv, k.in[0], none), k.e.Merge(ctx, anna, k.conv, none, k.in[0]), second(k.e.Interaction(ctx, anna, k.conv, none))},
		"cursor_invalid":        {third(k.e.Messages(ctx, anna, k.conv, "7.x", 0, false)), third(k.e.Messages(ctx, anna, k.conv, "x", 0, false)), third(k.e.Messages(ctx, anna, k.conv, "0.nonsense", 0, false))},
	} {
		for i, err := range errs {
			if !fault.HasCode(err, code) {
				t.Errorf("%s, number %d: %v", code, i+1, err)
			}
		}
	}
	if _, err := k.e.Insert(ctx, anna, k.conv, user, bad); err == nil {
		t.Error("a message without a block was inserted")
	}
	k.ok(second(k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: call, Before: true})))
	k.expect("before the call", k.list(), "one")
	k.ok(second(k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: result}))) // of another branch
	k.expect("behind the result", k.list(), "one", "call file.read", "content 1 of file.read a")
	k.ok(k.e.Switch(ctx, anna, k.conv, record.MainBranch))
	// Without a question, there is nothing to answer again.
	_, err = k.e.Remove(ctx, anna, k.conv, user)
	k.ok(err)
	_, err = k.e.OpenAgain(ctx, anna, k.conv, answer)
	k.code(err, "nothing_asked")
	empty, err := k.e.Remove(ctx, anna, k.conv, call, answer)
	k.ok(err)
	k.expect("the empty branch", k.list())
	_, err = k.e.Insert(ctx, anna, k.conv, id.ID{}, say(message.User, "x"))
	k.code(err, "conversation_empty")
	_, err = k.e.Fork(ctx, anna, k.conv, conversation.Fork{})
	k.ok(err)
	k.turn("begin")
	k.expect("a branch of an empty one", k.list(), "begin", "re: begin")
	k.ok(k.e.Switch(ctx, anna, k.conv, empty.ID))
	_, err = k.e.Insert(ctx, anna, k.conv, answer, say(message.User, "x"))
	k.code(err, "message_not_found") // it is not on this branch
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestMergedInteractions(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("one", "file.read a")
	k.turn("two", "file.read a", "web.get x")
	k.turn("three")
	a, b, c := k.in[0], k.in[1], k.in[2]
	k.ok(k.e.Merge(ctx, anna, k.conv, b, c))
	k.ok(k.e.Merge(ctx, anna, k.conv, a, b))
	for _, m := range [][2]id.ID{{b, a}, {a, c}, {c, a}} {
		k.code(k.e.Merge(ctx, anna, k.conv, m[0], m[1]), "merged_already")
	}
	in, err := k.e.Interaction(ctx, anna, k.conv, a)
	k.ok(err)
	var said []string
	for _, m := range in.Entries {
		said = append(said, brief(m.Message))
	}
	k.expect("the merged interaction", said, k.list()...)
	if active(in) != len(in.Entries)-1 || in.Tools["file.read"] != 2 || in.Tools["web.get"] != 1 || in.State != record.Active || in.Stopped.IsZero() || in.Outcome != "answered" {
		t.Errorf("%+v", in)
	}
	part, err := k.e.Interaction(ctx, anna, k.conv, b)
	k.ok(err)
	if part.Into != a || len(part.Entries) != 6 || len(part.Changes) != 1 || part.Changes[0].Tool != "file.read" {
		t.Errorf("%+v", part)
	}
	// If all results are obsolete, so is the interaction, and it names the cause.
	k.mark(record.Archived, k.all[len(k.all)-2], k.all[len(k.all)-1])
	whole, err := k.e.Interaction(ctx, anna, k.conv, c)
	k.ok(err)
	if whole.State != record.Archived || whole.By != "anna" || active(whole) != 0 {
		t.Errorf("%+v", whole)
	}
	s := k.session()
	k.begin(s, "running")
	running, err := k.e.Interaction(ctx, anna, k.conv, k.in[3])
	if err != nil || !running.Stopped.IsZero() {
		t.Errorf("%+v, %v", running, err)
	}
}

func TestCopies(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	ctx := t.Context()
	k.turn("one", "file.read a")
	two := k.turn("two", "file.read a")
	k.turn("gone")
	k.mark(record.Deleted, k.all[len(k.all)-2], k.all[len(k.all)-1])
	k.ok(k.e.Pin(ctx, anna, k.conv, true, two[0]))
	for range 180 { // more than a batch
		k.turn("more")
	}
	k.edit(conversation.Fork{Message: two[3]}, "edited")
	branch := k.branch().ID
	list, view := k.list(), k.view()
	other, err := k.e.CopyBranch(ctx, anna, k.conv, branch)
	k.ok(err)
	longer, err := k.e.CopyBranch(ctx, anna, k.conv, record.MainBranch)
	k.ok(err)
	from := k.conv
	k.conv = other
	k.expect("the copy", k.list(), list...)
	if v := k.view(); len(v) != len(view) || !strings.HasPrefix(v[2], "[obsolete: ") { // as of the newest revision
		t.Errorf("%q, and was %q", v, view)
	}
	page, _, err := k.e.Messages(ctx, anna, other, "", 0, false)
	k.ok(err)
	if !page[4].Pinned || page[4].ID != two[0] || page[4].Interaction != k.in[1] {
		t.Errorf("%+v", page[4])
	}
	if m, err := k.e.Find(ctx, anna, other, two[2]); err != nil || m.Text() == "" {
		t.Error(m, err)
	}
	if in, err := k.e.Interaction(ctx, anna, other, k.in[1]); err != nil || len(in.Entries) != 4 {
		t.Errorf("%+v, %v", in, err)
	}
	c, err := k.e.Get(ctx, anna, other)
	if err != nil || c.Messages != 6 || c.ToolCalls != 2 || c.Owner != "anna" || c.Title != "one" || c.BranchID() != record.MainBranch {
		t.Errorf("%+v, %v", c, err)
	}
	k.turn("on") // it can be continued like any other
	k.conv = from
	k.expect("the original", k.list(), list...)
	k.conv = longer
	if l := k.list(); len(l) != 8+360 || slices.Contains(l, "gone") {
		t.Errorf("%d messages", len(l))
	}
}

// Of five thousand messages, some are created long before they are stored, some are
// on branches, and some have ids derived from clients' ids: Find finds each.
func TestFindAmongMany(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	ctx := t.Context()
	s := k.session()
	k.begin(s, "begin")
	queued := say(message.User, "queued") // it waits for its turn
	derived := say(message.User, "derived")
	derived.ID = id.Derive("message", "x")
	derived.At = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC) // a clock that is wrong
	var ids []id.ID
	for i := range 50 {
		var batch []*message.Message
		for j := range 100 {
			m := say(message.User, fmt.Sprint(i*100+j))
			ids = append(ids, m.ID)
			batch = append(batch, m)
		}
		switch i {
		case 30:
			batch = append(batch, queued)
		case 40:
			batch = append(batch, derived)
		}
		_, err := s.Append(ctx, batch...)
		k.ok(err)
	}
	k.end(s, "end")
	look := func(x id.ID, text string) {
		t.Helper()
		if m, err := k.e.Find(ctx, anna, k.conv, x); err != nil || m.Text() != text || m.ID != x || m.Branch == "" || m.Interaction != k.in[0] {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	for i := 0; i < len(ids); i += 97 {
		look(ids[i], fmt.Sprint(i))
	}
	look(queued.ID, "queued")
	look(derived.ID, "derived")
	_, err := k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: ids[100]})
	k.ok(err)
	k.ok(k.e.DeleteBranch(ctx, anna, k.conv, record.MainBranch))
	look(ids[50], "50") // in the deleted branch's list, and on the other branch
	if _, err := k.e.Find(ctx, anna, k.conv, id.New()); !fault.HasCode(err, "message_not_found") {
		t.Error(err)
	}
}

// Packed messages read as before, also from another process, and new messages can be
// appended.
func TestPackThenRead(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	ctx := t.Context()
	for range 30 {
		k.turn(strings.Repeat("long and dull ", 200), "web.get x")
	}
	k.fit(counting(3000))
	list, view := k.list(), k.view()
	n, err := k.e.Pack(ctx, anna, k.conv, false)
	if err != nil || n == 0 || n >= len(list) {
		t.Fatal(n, err)
	}
	b := k.branch()
	if b.Packed.Pos == 0 || b.View.Start.Pos < b.Packed.Pos {
		t.Errorf("packed to %v, shown from %v", b.Packed, b.View.Start)
	}
	all, err := k.e.Pack(ctx, anna, k.conv, true)
	if err != nil || n+all != len(list) {
		t.Errorf("%d and %d of %d, %v", n, all, len(list), err)
	}
	k.ok(k.db.(*sqlite.Store).Close())
	k.open()
	k.expect("what is packed", k.list(), list...)
	k.expect("the view", k.view(), view...)
	k.turn("on")
	if n, err := k.e.Pack(ctx, anna, k.conv, true); n != 2 || err != nil {
		t.Errorf("%d packed, %v", n, err)
	}
	k.ok(k.e.Unfit(ctx, anna, k.conv))
	if v := k.view(); len(v) != len(list)+2 {
		t.Errorf("%d of %d are shown", len(v), len(list)+2)
	}
}

// A summary covers the messages of people, models and tools, not the texts that
// Steward inserted.
func TestWhatADigestIsMadeOf(t *testing.T) {
	k := newTalk(t)
	s := k.session()
	k.begin(s, "the beginning")
	for range 12 {
		k.call(s, "web.get x")
	}
	goOn := say(message.User, "go on where you stopped")
	goOn.Blocks[0].Base().Origin = "system"
	_, err := s.Append(t.Context(), goOn)
	k.ok(err)
	k.end(s, "the middle")
	for range 6 {
		k.turn("later")
	}
	k.fit(counting(1500))
	k.fit(counting(900))
	v := k.view()
	if !strings.Contains(v[0], "- Called web.get") || !strings.Contains(v[0], "- The assistant: the middle") {
		t.Errorf("%s", v[0])
	}
	for _, no := range []string{"begins with", "not shown.]", "go on where"} {
		if strings.Contains(v[0], no) {
			t.Errorf("the summary says %q:\n%s", no, v[0])
		}
	}
	var material []*message.Message
	w := counting(800)
	w.Summarize = func(_ context.Context, _ *message.Message, msgs []*message.Message, _ int64) (string, error) {
		material = msgs
		return "s", nil
	}
	k.turn("again", "web.get a", "web.get b", "web.get c")
	k.turn("again")
	k.fit(w)
	for _, m := range material {
		if strings.HasPrefix(m.Text(), "[") {
			t.Errorf("the model is given %q to summarise", m.Text())
		}
	}
}

// active counts the active messages of an interaction.
func active(in conversation.Interaction) (n int) {
	for _, e := range in.Entries {
		if e.Change.State == record.Active {
			n++
		}
	}
	return n
}
