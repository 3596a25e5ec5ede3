package vector_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/test/storetest"

	"steward/internal/lifetime/telemetry"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search/vector"
	"steward/internal/store"
)

var errNone = errors.New("no such model")

func TestLexical(t *testing.T) {
	w := newWorld(t, vector.Options{})
	c := w.talk("ana", "x")
	c.say("my car is blue")
	c.say("the soup needs more salt")
	c.say("we planted tulips")
	w.talk("ben", "y").say("his automobile is red")
	w.expect("ana", "automobile", "my car is blue")
	w.expect("ana", "planting", "we planted tulips")
	w.expect("ben", "car", "his automobile is red")
	w.expect("eve", "car")
	a, err := w.index.Nearest(t.Context(), store.ForUser("ana"), vector.Query{Text: "car"})
	if err != nil || a.Semantic || a.Behind != 0 || !slices.Equal(a.Models, []string{vector.LexicalName}) {
		t.Errorf("%+v %v", a, err)
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t, vector.Options{})
	c, d := w.talk("ana", "x"), w.talk("ana", "y")
	first := c.say("an apple a day")
	from := w.now
	d.say("apple pie")
	for _, q := range []struct {
		q    vector.Query
		want string
	}{
		{vector.Query{Conversation: c.ID}, "an apple a day"},
		{vector.Query{Conversation: d.ID}, "apple pie"},
		{vector.Query{Since: from.Add(time.Millisecond)}, "apple pie"},
		{vector.Query{Until: from.Add(time.Millisecond)}, "an apple a day"},
		{vector.Query{Except: first}, "apple pie"},
		{vector.Query{Role: message.Assistant}, ""},
		{vector.Query{Threshold: 0.999}, ""},
	} {
		q.q.Text = "apple"
		if got := strings.Join(w.nearest("ana", q.q), "|"); got != q.want {
			t.Errorf("%+v finds %q", q.q, got)
		}
	}
	for _, q := range []vector.Query{{}, {Text: strings.Repeat("x", 9000)}, {Vector: make([]float32, 7)}} {
		if _, err := w.index.Nearest(t.Context(), store.ForUser("ana"), q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// What a person deletes is not found, and what is erased leaves no vector.
func TestDeletedAndErased(t *testing.T) {
	w := newWorld(t, vector.Options{})
	c := w.talk("ana", "x")
	one, two := c.say("a red apple"), c.say("a green apple")
	d := w.talk("ana", "y")
	d.say("a brown pear")
	w.expect("ana", "red apple", "a red apple", "a green apple", "a brown pear")
	mark := func(undone bool) {
		change := record.Change{State: record.Deleted, At: w.now}
		if undone {
			change.Undone = w.now
		}
		c.commit("ana", store.Change{URI: record.MarkURI(c.ID, one), Body: record.Encode(record.Mark{Branch: record.MainBranch, Changes: []record.Change{change}})})
	}
	mark(false)
	w.expect("ana", "red apple", "a green apple")
	mark(true)
	w.expect("ana", "red apple", "a red apple")
	c.Deleted = w.now
	c.put()
	if got := w.nearest("ana", vector.Query{Text: "red apple"}); !slices.Equal(got, []string{"a brown pear"}) {
		t.Errorf("%q", got)
	}
	c.Conversation.Deleted = record.Conversation{}.Deleted
	c.put()
	w.expect("ana", "red apple", "a red apple")

	w.commit("ana", store.Change{Op: store.Erase, URI: c.uri(two)})
	w.expect("ana", "green apple", "a red apple")
	w.catchUp()
	if n := w.census()[0]; n.Messages != 2 || n.Vectors != 2 {
		t.Errorf("%+v", n)
	}
	w.commit("ana", store.Change{Op: store.Erase, URI: c.uri(one)}, store.Change{Op: store.Erase, URI: record.ConversationURI(c.ID)})
	w.catchUp()
	if n := w.census()[0]; n.Messages != 1 || n.Vectors != 1 {
		t.Errorf("%+v", n)
	}
}

// Once CatchUp has returned, the file contains neither the vector nor the hash of erased
// text.
func TestErasedForGood(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "x")
	for i := range 300 {
		c.say(fmt.Sprintf("common words and word%d", i))
	}
	gone := c.say("the quartet plays")
	w.catchUp()
	v, err := d.Embed(t.Context(), []string{"the quartet plays"})
	must(t, err)
	num := vector.Stored(v.Values[0])
	hash := sha256.Sum256([]byte("the quartet plays"))
	holds := func(b []byte) bool {
		for _, p := range []string{w.path(), w.path() + "-wal"} {
			file, err := os.ReadFile(p)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if bytes.Contains(file, b) {
				return true
			}
		}
		return false
	}
	if !holds(num) || !holds(hash[:]) {
		t.Fatal("the test looks for what is never there")
	}
	w.commit("ana", store.Change{Op: store.Erase, URI: c.uri(gone)})
	must(t, w.index.CatchUp(t.Context()))
	if holds(num) || holds(hash[:]) {
		t.Errorf("the erased message has left a trace: its vector %v, its hash %v", holds(num), holds(hash[:]))
	}
	w.expect("ana", "word7", "common words and word7")
}

// Secret blocks are embedded nowhere, private ones only where policy allows, and equal
// texts of an owner once.
func TestWhatIsSent(t *testing.T) {
	d := &double{name: "cloud/e", dims: 64}
	refuse := true
	opt := vector.Options{Model: only(d), Allow: func(_ context.Context, model string, r *llm.Request) error {
		if refuse && r.Labels.Has(message.Private) {
			return llm.NotAllowed(model, "what is private stays here")
		}
		if r.User != "ana" && r.User != "ben" {
			t.Errorf("the user is %q", r.User)
		}
		return nil
	}}
	w := newWorld(t, opt)
	c := w.talk("ana", "x")
	c.say("an open word")
	c.say("an open word")
	c.add(&message.Text{Text: "visible part"}, &message.Text{Common: message.Common{Labels: message.Secret}, Text: "the password hunter2"})
	c.add(&message.Text{Common: message.Common{Labels: message.Private}, Text: "my diary"})
	w.talk("ben", "y").say("an open word")
	w.catchUp()
	if got := d.sent(); !slices.Equal(got, []string{"an open word", "visible part", "an open word"}) {
		t.Errorf("sent: %q", got)
	}
	if n := w.census()[0]; n.Messages != 4 || n.Vectors != 3 || n.Held != 1 {
		t.Errorf("%+v", n)
	}
	if _, err := w.index.Nearest(t.Context(), store.ForUser("ana"), vector.Query{Text: "diary", Labels: message.Private}); !fault.HasCode(err, "model_not_allowed") {
		t.Errorf("a private query: %v", err)
	}
	refuse = false
	must(t, w.index.Embed(t.Context()))
	w.expect("ana", "my diary", "my diary")
	if n := w.census()[0]; n.Vectors != 4 || n.Held != 0 {
		t.Errorf("%+v", n)
	}
}

// An index that reads a large log makes progress with each batch, not only at the end.
func TestEachBatchIsProgress(t *testing.T) {
	w := newWorld(t, vector.Options{})
	c := w.talk("ana", "x")
	for range 9 {
		c.say("elder")
	}
	storetest.Progress(t, w.store, func(ctx context.Context, st store.Store, lag *telemetry.Follower) error {
		ix := vector.New(vector.Options{Path: w.path(), Store: st, Lag: lag})
		return errors.Join(ix.CatchUp(ctx), ix.Close())
	})
}
