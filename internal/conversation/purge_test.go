package conversation_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/conversation"
	"steward/internal/message"
	"steward/internal/record"
)

func TestPurgedSiblingsDoNotHarmABranchThatCanComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		k.turn("one")
		k.edit(conversation.Fork{}, "two")
		second := k.branch().ID
		k.edit(conversation.Fork{}, "three")
		third := k.branch().ID
		want := k.list()
		k.ok(k.e.Switch(t.Context(), anna, k.conv, "main"))
		k.ok(k.e.DeleteBranch(t.Context(), anna, k.conv, second))
		time.Sleep(time.Millisecond) // of the bubble's clock: deletions are stamped in milliseconds
		between := time.Now()
		k.ok(k.e.DeleteBranch(t.Context(), anna, k.conv, third))
		if n, err := k.e.Purge(t.Context(), between); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		k.ok(k.e.UndeleteBranch(t.Context(), anna, k.conv, third))
		k.ok(k.e.Switch(t.Context(), anna, k.conv, third))
		k.expect("what came back", k.list(), want...)
	})
}

func TestEveryTraceOfADeletedMessageIsErased(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	const secret = "Zwetschgenmus"
	m := k.turn("the word is " + secret)
	long := conversation.Window{Tokens: 1000, Count: func(*message.Message) int64 { return 100 },
		Summarize: func(_ context.Context, earlier *message.Message, msgs []*message.Message, _ int64) (string, error) {
			return secret + fmt.Sprint(len(msgs), earlier != nil), nil
		}}
	more := func() {
		for range 8 {
			k.turn("more")
		}
	}
	more()
	k.fit(long)
	old := k.branch().View.Summary
	more()
	k.fit(long) // a summary made of a summary
	if k.branch().View.Summary == old {
		t.Fatal("there is no second summary")
	}
	without, err := k.e.Remove(t.Context(), anna, k.conv, m...)
	k.ok(err)
	more()
	k.fit(long) // a summary on a branch that no longer holds the message
	k.ok(second(k.e.Mark(t.Context(), anna, k.conv, conversation.Verdict{State: record.Deleted, Reason: "it says " + secret}, m...)))
	if n, err := k.e.Purge(t.Context(), time.Now().Add(time.Hour)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for _, b := range []string{"main", without.ID} {
		k.ok(k.e.Switch(t.Context(), anna, k.conv, b))
		k.view()
		for k.e.Unfit(t.Context(), anna, k.conv) == nil {
			k.view()
		}
	}
	k.gone(secret)
}

// gone checks that the store's files do not contain a word.
func (k *talk) gone(words ...string) {
	k.t.Helper()
	for _, name := range []string{k.path, k.path + "-wal"} {
		b, err := os.ReadFile(name)
		k.ok(err)
		for _, w := range words {
			if n := bytes.Count(b, []byte(w)); n > 0 {
				k.t.Errorf("%s holds %q %d times", filepath.Base(name), w, n)
			}
		}
	}
}

func TestNothingOfADeletedBranchStays(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.turn("one")
	k.edit(conversation.Fork{}, "Mirabelle")
	second := k.branch().ID
	k.edit(conversation.Fork{}, "Reineclaude")
	third := k.branch().ID
	k.ok(k.e.Switch(t.Context(), anna, k.conv, "main"))
	for _, b := range []string{second, third} { // the third branch holds messages of the second
		k.ok(k.e.DeleteBranch(t.Context(), anna, k.conv, b))
		n, err := k.e.Purge(t.Context(), time.Now().Add(time.Hour))
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	k.gone("Mirabelle", "Reineclaude")
}
