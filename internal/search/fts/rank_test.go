package fts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
)

// best searches in the order search.Best.
func (w *world) best(user, text string) []string {
	return w.find(user, search.Query{Text: text, Order: search.Best})
}

func TestQuestionsInPlainWords(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "mixed")
	for _, s := range []string{
		"The weather was nice on the walk by the river.", "My dentist's surgery closes at noon on Fridays.", "We talked about the garden and its roses.",
		"Die Katzen schlafen auf dem alten Sofa.", "Les voitures de mon frère sont rouges.", "Los gatos de mi hermana comen pescado.", "Мой кот спит на диване.",
		"It was a long day, and the walk was long.",
	} {
		c.say(s)
	}
	for q, want := range map[string]string{
		"When does the dentist close?":                "My [dentist]'s surgery [closes] at noon on Fridays.",
		"dentists closing":                            "My [dentist]'s surgery [closes] at noon on Fridays.",
		"Wo schläft die Katze?":                       "Die [Katzen] schlafen auf dem alten Sofa.",
		"De quelle couleur est la voiture de Paul ?":  "Les [voitures] de mon frère sont rouges.",
		"¿Qué come el gato?":                          "Los [gatos] de mi hermana [comen] pescado.",
		"кот":                                         "Мой [кот] спит на диване.",
		`"garden and its" unknownword`:                "We talked about the [garden and its] roses.",
		"ros* -weather":                               "We talked about the garden and its [roses].",
		"what did we say about rose bushes and fish?": "We [talked] about the garden and its [roses]."[:0] + "We talked about the garden and its [roses].",
	} {
		got := w.best("ana", q)
		if len(got) == 0 || got[0] != want {
			t.Errorf("%s finds first %q, not %q", q, got, want)
		}
	}
	if got := w.best("ana", `"its garden"`); len(got) != 0 {
		t.Errorf("a phrase that nobody wrote finds %q", got)
	}
	if got := w.best("ben", "dentist"); len(got) != 0 {
		t.Errorf("another user finds %q", got)
	}
}

// Neighbours of a hit count, questions count less than answers, and what is newer counts
// more.
func TestWhatStandsAroundAHit(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "car")
	c.say("What colour is my car?")
	c.answer("It is dark blue.")
	for i := range 20 {
		d := w.talk("ana", fmt.Sprint("other ", i))
		d.say("Let us plan the meals of the week.")
		d.answer("Soup, rice and salad would be fine.")
	}
	page := w.search("ana", search.Query{Text: "the colour of the car", Order: search.Best})
	if len(page.Hits) != 2 || page.Hits[1].Text != "It is dark blue." || page.Hits[0].Score != 1 || page.Hits[1].Score <= 0 || page.Hits[1].Score >= 1 {
		t.Errorf("%+v", page.Hits)
	}
	if page := w.search("ana", search.Query{Text: "the colour of the car", Order: search.Best, Threshold: 0.99}); len(page.Hits) != 1 {
		t.Errorf("above the threshold: %+v", page.Hits)
	}
	d := w.talk("ana", "moves")
	d.say("My sister lives in Graz.")
	d.answer("Noted.")
	w.now = w.now.Add(time.Hour)
	d.say("My sister lives in Linz.")
	if got := w.best("ana", "Where does my sister live?"); len(got) < 2 || !strings.Contains(got[0], "Linz") {
		t.Errorf("%q", got)
	}
}

func TestFiltersOfTheBest(t *testing.T) {
	w := newWorld(t)
	c, d := w.talk("ana", "one"), w.talk("ana", "two")
	c.Agent = "cook"
	c.put()
	start := w.now
	c.say("red apples")
	c.answer("green apples")
	d.add(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Labels: message.Untrusted}, Text: "yellow apples"}}})
	for _, x := range []struct {
		q    search.Query
		want string
	}{
		{search.Query{Conversation: c.ID}, "green red"}, {search.Query{Role: message.User}, "red yellow"}, {search.Query{Agent: "cook"}, "green red"},
		{search.Query{Labels: message.Untrusted}, "yellow"}, {search.Query{Without: message.Untrusted}, "green red"},
		{search.Query{Since: start.Add(2 * time.Second)}, "green yellow"}, {search.Query{Until: start.Add(2 * time.Second)}, "red"},
		{search.Query{Conversation: id.New()}, ""}, {search.Query{Agent: "nobody"}, ""},
	} {
		for _, order := range []search.Order{search.Best, search.Newest} {
			x.q.Text, x.q.Order = "apples", order
			got := map[string]bool{}
			for _, s := range w.find("ana", x.q) {
				got[strings.Fields(s)[0]] = true
			}
			want := strings.Fields(x.want)
			if len(got) != len(want) {
				t.Errorf("%+v finds %v", x.q, got)
			}
			for _, word := range want {
				if !got[word] {
					t.Errorf("%+v finds %v", x.q, got)
				}
			}
		}
	}
}

func TestPagesOfTheBest(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "many")
	for range 25 {
		c.say("same word")
	}
	q := search.Query{Text: "word", Order: search.Best, Limit: 10}
	seen := map[id.ID]bool{}
	for {
		page := w.search("ana", q)
		for _, h := range page.Hits {
			seen[h.Message] = true
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if len(seen) != 25 {
		t.Errorf("%d hits", len(seen))
	}
}

func TestOneMessageAmongItsNeighbours(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "x")
	c.say("one")
	two := c.say("two")
	c.say("three")
	page := w.search("ana", search.Query{Message: two, Around: 2, Order: search.Best})
	if len(page.Hits) != 1 || page.Hits[0].Text != "two" || len(page.Hits[0].Before) != 1 || page.Hits[0].After[0].Text != "three" {
		t.Errorf("%+v", page)
	}
	if page := w.search("ben", search.Query{Message: two, Order: search.Best}); len(page.Hits) != 0 {
		t.Errorf("another user sees %+v", page)
	}
}

// A search for one user reads no list of words of another one: SQLite reports each table
// that a statement may read.
func TestASearchReadsItsOwnersWordsOnly(t *testing.T) {
	w := newWorld(t)
	w.talk("ana", "hers").say("an olive")
	w.talk("ben", "his").say("another olive")
	var read []string
	ix := w.another(fts.Options{Watch: func(c *sqlite.Conn) error {
		return c.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
			if strings.HasPrefix(a.Table(), "fts_") {
				read = append(read, a.Table())
			}
			return sqlite.AuthResultOK
		}))
	}})
	defer ix.Close() //nolint:errcheck // nothing is left to write
	must(t, ix.CatchUp(t.Context()))
	for _, order := range []search.Order{search.Best, search.Newest} {
		read = nil
		page, err := ix.Search(t.Context(), store.ForUser("ben"), search.Query{Text: "olive", Order: order})
		if err != nil || len(page.Hits) != 1 || page.Hits[0].Text != "another olive" {
			t.Errorf("%+v %v", page, err)
		}
		for _, table := range read {
			if !strings.HasPrefix(table, "fts_2") {
				t.Errorf("%s reads %s", order, table)
			}
		}
		if len(read) == 0 {
			t.Error("the test sees nothing of what is read")
		}
	}
}

// The file of the version before this one is searched until the new one is complete.
func TestTheVersionBefore(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "fruit")
	c.say("an early medlar")
	for range 20 {
		var changes []store.Change
		for range 500 {
			changes = append(changes, c.change(&message.Message{Role: message.User, Blocks: text("some words")}))
		}
		c.commit("ana", changes...)
	}
	late := c.say("a late medlar")
	must(t, w.index.Close())
	writeOld(t, w, c.uri(late).Key(), c.ID, late)
	w.index = w.another(fts.Options{})
	w.index.Followed(true)
	for _, order := range []search.Order{search.Best, search.Newest} {
		page := w.search("ana", search.Query{Text: "medlar late", Order: order})
		found := false
		for _, h := range page.Hits {
			found = found || h.Message == late
		}
		if page.Behind == 0 || !found {
			t.Errorf("%s: %d behind, %+v", order, page.Behind, page.Hits)
		}
		if page := w.search("ben", search.Query{Text: "medlar", Order: order}); len(page.Hits) != 0 {
			t.Errorf("another user finds %+v", page.Hits)
		}
		if order == search.Best { // the next search would complete the new file
			if _, err := os.Stat(w.path() + ".old"); err != nil {
				t.Error(err)
			}
		}
	}
	must(t, w.index.CatchUp(t.Context()))
	if old, err := filepath.Glob(w.path() + ".old*"); err != nil || len(old) != 0 {
		t.Errorf("%v %v", old, err)
	}
	w.expect("ana", "medlar", "a late [medlar]", "an early [medlar]")
}

// writeOld writes a file of version 1 with one message, as that version did.
func writeOld(t *testing.T, w *world, key []byte, conv, msg id.ID) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.path() + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	c, err := sqlite.OpenConn(w.path(), sqlite.OpenReadWrite, sqlite.OpenCreate)
	must(t, err)
	must(t, c.Close())
	tamper(t, w.path(), fmt.Sprintf(`
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL DEFAULT '',
	seq INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0, key BLOB NOT NULL DEFAULT x'', erase INTEGER NOT NULL DEFAULT 0);
INSERT INTO state (id) VALUES (1);
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE tool (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE conv (id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE, gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE TABLE doc (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL, space INTEGER NOT NULL, conv INTEGER NOT NULL,
	inter BLOB NOT NULL, msg BLOB NOT NULL, prev BLOB NOT NULL, key BLOB NOT NULL, gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX doc_msg ON doc (conv, msg);
CREATE INDEX doc_prev ON doc (conv, prev);
CREATE VIRTUAL TABLE fts USING fts5 (facets, body, content='', contentless_delete=1, tokenize='ascii');
INSERT INTO space VALUES (1, 'user:ana'), (2, 'user:ben');
INSERT INTO conv VALUES (1, x'%x', 0, 0);
INSERT INTO doc VALUES (121205500000000, 1, 1893875045000000, 1, 1, zeroblob(16), x'%x', zeroblob(16), x'%x', 0, 0);
INSERT INTO fts (rowid, facets, body) VALUES (121205500000000, 's1 c1 ruser', 'a late medlar ');
PRAGMA user_version = 1;`, conv[:], msg[:], key))
}
