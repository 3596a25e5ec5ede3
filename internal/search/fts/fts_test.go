package fts_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/store"
)

func TestNewestFirstWithHighlightsAndNeighbours(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "Trip to Rome")
	first := c.say("When does the train to Rome leave?")
	call := c.add(&message.Message{Role: message.Assistant, Stop: message.StopTools, Blocks: []message.Block{
		&message.ToolCall{CallID: "1", Name: "files.read", Args: []byte(`{"path":"notes/trains.txt"}`)}}})
	result := c.add(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
		Call: message.Ref{Message: call}, CallID: "1", Name: "files.read", Status: message.OK, Content: text("Train 9042 leaves at 7:35.")}}})
	last := c.answer("The train leaves at 7:35.")
	w.expect("ana", "train", "The [train] leaves at 7:35.", "[Train] 9042 leaves at 7:35.", "When does the [train] to Rome leave?")
	w.expect("ana", "TRAINS", "files.read path: notes/[trains].txt")
	w.expect("ana", "leaves train", "The [train] [leaves] at 7:35.", "[Train] 9042 [leaves] at 7:35.")
	w.expect("ana", `"train leaves"`, "The [train leaves] at 7:35.")
	w.expect("ana", "train -9042 -rome", "The [train] leaves at 7:35.")
	w.expect("ana", "rom* OR 9042", "[Train] 9042 leaves at 7:35."[:0]+"Train [9042] leaves at 7:35.", "When does the train to [Rome] leave?")
	w.expect("ana", "files.read", "[files.read] path: notes/trains.txt")
	w.expect("ana", "plane")

	page := w.search("ana", search.Query{Text: "9042", Around: 2})
	h := page.Hits[0]
	if h.Message != result || h.Conversation != c.ID || h.Title != "Trip to Rome" || h.Interaction != c.inter || h.Role != message.Tool ||
		h.Tool != "files.read" || h.URI != c.uri(result) || h.Seq == 0 || h.At.IsZero() || page.Next != "" {
		t.Errorf("%+v", h)
	}
	var around []id.ID
	for _, l := range slices.Concat(h.Before, h.After) {
		around = append(around, l.Message)
	}
	if !slices.Equal(around, []id.ID{first, call, last}) || h.Before[1].Text != "files.read path: notes/trains.txt" || h.After[0].Role != message.Assistant {
		t.Errorf("neighbours %+v %+v", h.Before, h.After)
	}
}

func TestNarrowing(t *testing.T) {
	w := newWorld(t)
	c, d := w.talk("ana", "one"), w.talk("ana", "two")
	start := w.now
	mine := c.say("red apples")
	c.answer("green apples")
	d.say("yellow apples")
	d.add(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
		Call: message.Ref{Message: mine}, Name: "shop.list", Status: message.OK, Content: text("blue apples")}}})
	for _, x := range []struct {
		q    search.Query
		want string
	}{
		{search.Query{Conversation: c.ID}, "green red"},
		{search.Query{Conversation: id.New()}, ""},
		{search.Query{Role: message.User}, "yellow red"},
		{search.Query{Role: "no\" OR \"such"}, ""},
		{search.Query{Tool: "shop.list"}, "blue"},
		{search.Query{Tool: "no.such"}, ""},
		{search.Query{Since: start.Add(3 * time.Second)}, "blue yellow"},
		{search.Query{Until: start.Add(3 * time.Second)}, "green red"},
		{search.Query{Since: start.Add(2 * time.Second), Until: start.Add(4 * time.Second)}, "yellow green"},
		{search.Query{Except: mine}, "blue yellow"},
		{search.Query{Limit: 1}, "blue"},
	} {
		x.q.Text = "apples"
		var got []string
		for _, s := range w.find("ana", x.q) {
			got = append(got, strings.Fields(s)[0])
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%+v finds %q", x.q, got)
		}
	}
}

func TestScripts(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "scripts")
	for _, s := range []string{
		"我昨天在北京大学看了一只猫。", "東京タワーへ行きました。第3章", "오늘 서울에서 친구를 만났다", "ผมชอบภาษาไทยมาก",
		"Ёлка стоит в лесу", "Η Αθήνα είναι όμορφη πόλις", "השָׁלוֹם לכולם", "كِتَاب جديد", "El niño comió Straße Łódź", "हिन्दी में लिखा है", "party 🎉👍🏽 time",
	} {
		c.say(s)
	}
	for query, want := range map[string]string{
		"北京":         "我昨天在[北京]大学看了一只猫。",
		"京大学":        "我昨天在北[京大学]看了一只猫。",
		"猫":          "我昨天在北京大学看了一只[猫]。",
		"昨":          "我[昨]天在北京大学看了一只猫。",
		"京北":         "",
		"タワー":        "東京[タワー]へ行きました。第3章",
		"ﾀﾜｰ":        "東京[タワー]へ行きました。第3章",
		"第3章":        "東京タワーへ行きました。[第3章]",
		"서울":         "오늘 [서울]에서 친구를 만났다",
		"친구":         "오늘 서울에서 [친구]를 만났다",
		"ภาษา":       "ผมชอบ[ภาษา]ไทยมาก",
		"ไทย":        "ผมชอบภาษา[ไทย]มาก",
		"елка":       "[Ёлка] стоит в лесу",
		"ЛЕСУ":       "Ёлка стоит в [лесу]",
		"αθηνα":      "Η [Αθήνα] είναι όμορφη πόλις",
		"ΠΟΛΙΣ":      "Η Αθήνα είναι όμορφη [πόλις]",
		"כולם":       "",
		"לכולם":      "השָׁלוֹם [לכולם]",
		"השלום":      "[השָׁלוֹם] לכולם",
		"كتاب":       "[كِتَاب] جديد",
		"nino comio": "El [niño] [comió] Straße Łódź",
		"strasse":    "El niño comió [Straße] Łódź",
		"lodz":       "El niño comió Straße [Łódź]",
		"हिन्दी":     "[हिन्दी] में लिखा है",
		"🎉":          "party [🎉]👍🏽 time",
		"👍":          "party 🎉[👍🏽] time",
	} {
		got := strings.Join(w.find("ana", search.Query{Text: query}), "\n")
		if got != want {
			t.Errorf("%s finds %q, not %q", query, got, want)
		}
	}
}

func TestSecretsAndSearchesAreNotFound(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "keys")
	secret := message.Common{Labels: message.Secret}
	ask := c.add(&message.Message{Role: message.Assistant, Stop: message.StopTools, Blocks: []message.Block{
		&message.Text{Text: "open words"}, &message.Text{Common: secret, Text: "hidden words"}, &message.Reasoning{Text: "thought words"},
		&message.ToolCall{Common: secret, CallID: "1", Name: "vault.put", Args: []byte(`{"key":"hunter2 words"}`)},
		&message.ToolCall{CallID: "2", Name: search.ToolName, Args: []byte(`{"query":"words"}`)}}})
	c.add(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: message.Ref{Message: ask, Block: 3}, CallID: "1",
		Name: "vault.get", Status: message.OK, Content: []message.Block{&message.Text{Common: secret, Text: "sesame words"}, &message.Text{Text: "shown words"}}}}})
	c.add(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: message.Ref{Message: ask, Block: 4}, CallID: "2",
		Name: search.ToolName, Status: message.OK, Content: text("found words")}}})
	c.add(&message.Message{Role: message.System, Blocks: text("system words")})
	w.expect("ana", "words", "shown [words]", "open [words]")
	for _, q := range []string{"hidden", "hunter2", "sesame", "thought", "found", "system", "vault.put"} {
		w.expect("ana", q)
	}
}

func TestDeletedMessages(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "notes")
	x := c.say("first pear")
	y := c.say("second pear")
	z := c.say("third pear")
	del := record.Change{State: record.Deleted, At: w.now}
	undone := del
	undone.Undone = w.now
	c.mark(y, record.Change{State: record.Archived}, del)
	w.expect("ana", "pear", "third [pear]", "first [pear]")
	if h := w.search("ana", search.Query{Text: "third", Around: 1}).Hits[0]; len(h.Before) != 1 || h.Before[0].Message != x {
		t.Errorf("a deleted neighbour: %+v", h.Before)
	}
	c.mark(y, record.Change{State: record.Archived}, undone)
	w.expect("ana", "pear", "third [pear]", "second [pear]", "first [pear]")
	c.mark(y, del, record.Change{State: record.Invalidated})
	w.expect("ana", "second")
	c.commit("ana", store.Change{Op: store.Delete, URI: c.uri(z)})
	w.expect("ana", "pear", "first [pear]")
	c.mark(x, del)
	c.commit("ana", store.Change{Op: store.Delete, URI: record.MarkURI(c.ID, x)})
	w.expect("ana", "first", "[first] pear")
}

func TestWhatAgentsAskEachOther(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "notes")
	c.say("a plum")
	w.expect("ana", "plum", "a [plum]")
	c.Asked = record.RequestURI(id.New(), id.New(), id.New())
	c.put()
	w.expect("ana", "plum")
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "many")
	var want []id.ID
	for range 25 {
		want = append(want, c.say("same word"))
	}
	slices.Reverse(want)
	q := search.Query{Text: "word", Limit: 10}
	var got []id.ID
	for {
		page := w.search("ana", q)
		for _, h := range page.Hits {
			got = append(got, h.Message)
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
		c.say("one more word") // pages stay where they are
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d hits", len(got))
	}
	other := q
	other.Text = "same"
	q.Order = search.Newest
	for _, q := range []search.Query{other, {Text: "word", After: "!"}, {Text: "word", After: "AAAA"}, {Text: "word", After: q.After + "AAAAAAAAAAAAAAAA"}} {
		if _, err := w.index.Search(context.Background(), store.ForUser("ana"), q); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("%q: %v", q.After, err)
		}
	}
}

// Imported messages are ordered by their own times, and messages of the same time
// keep their order.
func TestOrderIsOfTime(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "imported")
	c.say("new fig")
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	var changes []store.Change
	for range 200 {
		changes = append(changes, c.change(&message.Message{Role: message.User, Blocks: text("old fig"), At: old}))
	}
	c.commit("ana", changes...)
	c.commit("ana", c.change(&message.Message{Role: message.User, Blocks: text("ancient fig"), At: time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)}))
	hits := w.search("ana", search.Query{Text: "fig", Limit: 100}).Hits
	if len(hits) != 100 || hits[0].Text != "new fig" {
		t.Fatalf("%d %+v", len(hits), hits[0])
	}
	for i := 2; i < len(hits); i++ {
		if hits[i].Seq != hits[i-1].Seq-1 {
			t.Fatalf("%d after %d", hits[i].Seq, hits[i-1].Seq)
		}
	}
	if got := w.find("ana", search.Query{Text: "fig", Until: old}); len(got) != 1 || got[0] != "ancient [fig]" {
		t.Errorf("%q", got)
	}
	if got := w.search("ana", search.Query{Text: "fig", Since: old, Until: old.Add(time.Microsecond), Limit: 100}).Hits; len(got) != 100 {
		t.Errorf("%d", len(got))
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	for query, code := range map[string]string{
		"": "search_empty", " ?! … ": "search_empty", "-not": "search_empty", strings.Repeat("x ", 3000): "search_too_long", strings.Repeat("x ", 65): "search_too_long",
	} {
		if _, err := w.index.Search(context.Background(), store.ForUser("ana"), search.Query{Text: query}); !fault.HasCode(err, code) {
			t.Errorf("%.10q: %v", query, err)
		}
	}
	if _, err := w.index.Search(context.Background(), store.Scope{}, search.Query{Text: "x"}); !fault.HasCode(err, "scope_missing") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.index.Search(ctx, store.ForUser("ana"), search.Query{Text: "x"}); !fault.Is(err, fault.Cancelled) {
		t.Error(err)
	}
}
