//go:build long

package conversation_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
)

// Wherever a crash interrupts an operation, it returns an error, the conversation is
// in the state before or after it, and a retry completes it.
func TestCrashesEverywhere(t *testing.T) {
	t.Parallel()
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			before := p.state()
			p.ok(op.do(t.Context(), p, p.e, anna))
			done := p.state()
			if op.reads != (before == done) && op.name != "pack" && op.name != "copy" && op.name != "merge" && op.name != "undelete the branch" && op.name != "purge" {
				t.Errorf("it reads only: %v; before\n%s\nafterwards\n%s", op.reads, before, done)
			}
			for n := 0; ; n++ {
				p := newPlace(t)
				p.st.crash(n)
				err := op.do(t.Context(), p, p.e, anna)
				p.st.crash(-1)
				if err == nil {
					if n == 0 {
						t.Fatal("it asks nothing of the store")
					}
					break // no more calls of the store
				}
				if !errors.Is(err, errCrash) {
					t.Fatalf("at call %d: %v", n, err)
				}
				if now := p.state(); now != before && now != done && !op.parts {
					t.Fatalf("after a crash at call %d it is\n%s\nbefore it was\n%s", n, now, before)
				}
				if op.once { // it may be partly or completely done
					continue
				}
				p.ok(op.do(t.Context(), p, p.e, anna))
				if now := p.state(); now != done {
					t.Fatalf("done again after a crash at call %d it is\n%s\nand should be\n%s", n, now, done)
				}
			}
		})
	}
}

// Operations near the end of a long conversation read only a few pages of it,
// whatever its source.
func TestALongConversationIsNotReadForOneOfItsMessages(t *testing.T) {
	t.Parallel()
	const messages, most = 20_000, 8000 // rows: a page of them, and the messages of one millisecond of the import
	st, e, first := imported(t, messages)
	ctx := t.Context()
	copied, err := e.CopyBranch(ctx, anna, first, record.MainBranch)
	must(t, err)
	var file bytes.Buffer
	must(t, e.ExportAs(ctx, anna, first, conversation.ExportOptions{Format: "json"}, &file))
	var again id.ID
	for got, err := range e.ImportAll(ctx, anna, "anna", &file, importexport.Options{}) {
		if again = got.Conversation.ID; err != nil {
			t.Fatal(err)
		}
	}
	for name, conv := range map[string]id.ID{"imported": first, "copied": copied, "imported from an export": again} {
		newest, _, err := e.Messages(ctx, anna, conv, "", 40, true)
		must(t, err)
		at := newest[4].ID // an answer
		switchBack := func() error { return e.Switch(ctx, anna, conv, record.MainBranch) }
		for what, do := range map[string]func() error{
			"find": func() error { _, err := e.Find(ctx, anna, conv, at); return err },
			"mark": func() error {
				return second(e.Mark(ctx, anna, conv, conversation.Verdict{State: record.Archived}, newest[8].ID))
			},
			"pin":    func() error { return e.Pin(ctx, anna, conv, true, at) },
			"insert": func() error { _, err := e.Insert(ctx, anna, conv, at, say(message.User, "between")); return err },
			"remove": func() error { _, err := e.Remove(ctx, anna, conv, newest[12].ID); return err },
			"fork":   func() error { _, err := e.Fork(ctx, anna, conv, conversation.Fork{Message: at}); return err },
			"siblings": func() error {
				list, err := e.Siblings(ctx, anna, conv, at)
				if err == nil && !slices.ContainsFunc(list, func(s conversation.Sibling) bool { return s.Message == at }) {
					err = fmt.Errorf("it is not its own sibling: %v", list)
				}
				return err
			},
		} {
			before := st.rows.Load()
			if err := do(); err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if n := st.rows.Load() - before; n > most {
				t.Errorf("%s, %s: %d rows are read", name, what, n)
			}
			must(t, switchBack())
		}
	}
	if _, err := e.Find(ctx, anna, first, id.New()); !fault.HasCode(err, "message_not_found") {
		t.Error(err)
	}
}
