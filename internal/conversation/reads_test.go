package conversation_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

// meter counts the reads and writes of a store.
type meter struct {
	store.Store
	rows, written atomic.Int64
}

func (c *meter) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	c.written.Add(int64(len(b.Changes)))
	return c.Store.Commit(ctx, sc, b)
}

func (c *meter) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	c.rows.Add(1)
	return c.Store.Get(ctx, sc, u)
}

func (c *meter) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	page, err := c.Store.Query(ctx, sc, q)
	c.rows.Add(int64(len(page.Items) + 1))
	return page, err
}

// history writes a conversation as OpenAI's messages, a question, a call, its
// result and an answer in turns.
func history(messages int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := 0; i < messages; i += 4 {
		fmt.Fprintf(&b, `{"role":"user","content":"question %d"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"web__get","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c%d","content":"result %d"},{"role":"assistant","content":"answer %d"},`, i, i, i, i, i)
	}
	return strings.TrimSuffix(b.String(), ",") + "]"
}

// imported returns an engine with a conversation of many messages.
func imported(t *testing.T, messages int) (*meter, *conversation.Engine, id.ID) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	st, tools := &meter{Store: db}, files(t)
	e := conversation.New(st, conversation.Options{Codecs: codecs(), Names: func(string) []string { return tools.Names() },
		Tools: func(_, name string) (tool.Tool, bool) { return tools.Get(name) }})
	for got, err := range e.ImportAll(t.Context(), anna, "anna", strings.NewReader(history(messages)), importexport.Options{}) {
		if err != nil || got.Stored != messages {
			t.Fatalf("%d messages, %v", got.Stored, err)
		}
		return st, e, got.Conversation.ID
	}
	t.Fatal("nothing was imported")
	return nil, nil, id.ID{}
}

// Counts returns the number of messages on each branch, without erased ones.
func TestBranchesAreCounted(t *testing.T) {
	t.Parallel()
	const messages = 400
	_, e, conv := imported(t, messages)
	ctx := t.Context()
	newest, _, err := e.Messages(ctx, anna, conv, "", 40, true)
	must(t, err)
	want := map[string][2]int{record.MainBranch: {messages, messages}}
	for i := range 9 {
		b, err := e.Fork(ctx, anna, conv, conversation.Fork{Message: newest[4*i].ID})
		if err == nil {
			err = e.Switch(ctx, anna, conv, record.MainBranch)
		}
		must(t, err)
		want[b.ID] = [2]int{messages - 4*i, 0}
	}
	inserted, err := e.Insert(ctx, anna, conv, newest[8].ID, say(message.User, "between"))
	must(t, err)
	want[inserted.ID] = [2]int{messages + 1, 1}
	count := func() {
		t.Helper()
		list, err := e.Branches(ctx, anna, conv)
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d branches, %v", len(list), err)
		}
		branches := make([]*record.Branch, len(list))
		for i := range list {
			branches[i] = &list[i]
		}
		all, own, err := e.Counts(ctx, anna, conv, branches)
		must(t, err)
		for i, b := range branches {
			if got := [2]int{all[i], own[i]}; got != want[b.ID] {
				t.Errorf("%s: %d, want %d", b.ID, got, want[b.ID])
			}
		}
	}
	count()
	gone := newest[0].ID // and with it what it stands for
	must(t, second(e.Mark(ctx, anna, conv, conversation.Verdict{State: record.Deleted}, gone)))
	must(t, second(e.Purge(ctx, time.Now().Add(time.Hour))))
	for x, n := range want {
		if n[0] >= messages {
			want[x] = [2]int{n[0] - 1, max(n[1]-1, 0)}
		}
	}
	want[inserted.ID] = [2]int{messages, 1}
	count()
}

// Making room writes one record, however many results leave the view. A person's
// later change of one of them applies, on copies too.
func TestMakingRoomIsOneRecord(t *testing.T) {
	t.Parallel()
	const messages = 1000
	st, e, conv := imported(t, messages)
	ctx := t.Context()
	before := st.written.Load()
	if n, err := e.Optimize(ctx, anna, conv, []string{"file.write"}); n != messages/4 || err != nil {
		t.Fatalf("%d results left, %v", n, err)
	}
	if n := st.written.Load() - before; n > 2 { // the branch, and a check of the conversation
		t.Errorf("%d entries are written", n)
	}
	newest, _, err := e.Messages(ctx, anna, conv, "", 8, true)
	must(t, err)
	wanted, left := newest[1], newest[5]
	must(t, second(e.Mark(ctx, anna, conv, conversation.Verdict{State: record.Active}, wanted.ID)))
	copied, err := e.CopyBranch(ctx, anna, conv, record.MainBranch)
	must(t, err)
	for name, x := range map[string]id.ID{"the conversation": conv, "its copy": copied} {
		for _, m := range []struct {
			id   id.ID
			want record.Validity
		}{{wanted.ID, record.Active}, {left.ID, record.Invalidated}} {
			list, _, err := e.Messages(ctx, anna, x, "", 8, true)
			i := slices.IndexFunc(list, func(en conversation.Entry) bool { return en.ID == m.id })
			if err != nil || i < 0 || list[i].Change.State != m.want {
				t.Errorf("%s: %v: %v", name, m, err)
			}
		}
		s, err := e.Open(ctx, anna, x)
		must(t, err)
		shown := s.Transcript().Messages()
		for i, want := range map[int]string{2: "result ", 6: "[left out to make room"} {
			r := shown[len(shown)-i].Result()
			if r == nil || !strings.HasPrefix(r.Text(), want) {
				t.Errorf("%s shows %v, want %q", name, r, want)
			}
		}
		if list, err := e.Audit(ctx, anna, x, id.ID{}, ""); err != nil || len(list) != 2 || !strings.HasPrefix(list[0].Reason, fmt.Sprint(messages/4, " results")) {
			t.Errorf("%s: changes %v, %v", name, list, err)
		}
		if n, err := e.Restore(ctx, anna, x); n != messages/4 || err != nil {
			t.Errorf("%s: %d restored, %v", name, n, err)
		}
		if s, err = e.Open(ctx, anna, x); err != nil || !strings.HasPrefix(s.Transcript().Messages()[len(shown)-6].Result().Text(), "result ") {
			t.Errorf("%s: nothing came back, %v", name, err)
		}
	}
}

// TestReadingAtAMessage: from any message of the branch, reading on and reading back give the rest of the branch,
// and a message of another branch names that one.
func TestReadingAtAMessage(t *testing.T) {
	_, e, conv := imported(t, 40)
	read := func(r conversation.Reading) (ids []id.ID) {
		t.Helper()
		list, _, err := e.Read(t.Context(), anna, conv, r)
		must(t, err)
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		return ids
	}
	all := read(conversation.Reading{Limit: 100})
	check := func(at int) {
		t.Helper()
		back := slices.Clone(all[:at+1])
		slices.Reverse(back)
		if got := read(conversation.Reading{At: all[at], Limit: 100}); !slices.Equal(got, all[at:]) {
			t.Errorf("from message %d on there are %d", at, len(got))
		}
		if got := read(conversation.Reading{At: all[at], Limit: 100, Reverse: true}); !slices.Equal(got, back) {
			t.Errorf("back from message %d there are %d", at, len(got))
		}
	}
	for at := range all {
		check(at)
	}
	if got := read(conversation.Reading{At: all[8], Limit: 3, Reverse: true}); !slices.Equal(got, []id.ID{all[8], all[7], all[6]}) {
		t.Error(got)
	}
	left := all[30]
	first, err := e.Branches(t.Context(), anna, conv)
	must(t, err)
	b, err := e.Fork(t.Context(), anna, conv, conversation.Fork{Message: all[19]})
	must(t, err)
	must(t, e.Switch(t.Context(), anna, conv, b.ID))
	if all = read(conversation.Reading{Limit: 100}); len(all) != 20 {
		t.Fatalf("the branch has %d messages", len(all))
	}
	check(3)
	check(19)
	_, _, err = e.Read(t.Context(), anna, conv, conversation.Reading{At: left})
	if f := fault.Of(err); f.Code != "on_other_branch" || f.Details["branch"] != first[0].ID {
		t.Errorf("%v %v", err, f.Details)
	}
}
