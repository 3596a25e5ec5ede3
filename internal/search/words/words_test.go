package words_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/search/words"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"calendar.addEvent":           "calendar add event",
		"set_brightness2":             "set brightness2",
		"An e-mail, Bob's to-do list": "an email bob todo list",
		"read-only SHA-256":           "read only sha 256",
		"don't “stop”":                "don't stop",
		"  ---  '' \xff ":             "",
		"Größe naïve 日本":              "größe naïve 日本",
	} {
		if got := strings.Join(words.Split(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWordsOfOneStem(t *testing.T) {
	for _, same := range [][]string{{"schedule", "schedules", "scheduled", "scheduling"}, {"run", "runs", "running"}, {"city", "cities"}, {"box", "boxes"},
		{"usual", "usually"}, {"note", "notes", "noted"}, {"call", "calling"}} {
		for _, w := range same[1:] {
			if words.Stem(w) != words.Stem(same[0]) {
				t.Errorf("%s: %s, %s: %s", w, words.Stem(w), same[0], words.Stem(same[0]))
			}
		}
	}
	if words.Stem("bus") != "bus" || words.Stem("thing") == words.Stem("th") {
		t.Error(words.Stem("bus"), words.Stem("thing"))
	}
	if !words.Common("the") || !words.Common("x") || words.Common("tree") {
		t.Error("common words")
	}
}

func TestRank(t *testing.T) {
	doc := func(name, text string) []words.Field {
		return []words.Field{{Text: name, Weight: 1}, {Text: text, Weight: 0.5}}
	}
	x := words.NewIndex([][]words.Field{doc("mail.send", "Sends a mail to somebody."), doc("mail.list", "Lists what mail came."), doc("lamp.on", "Turns a lamp on.")})
	query := []words.Term{{Stem: "send", Weight: 1}, {Stem: "mail", Weight: 1}, {Stem: "send", Weight: 1}}
	got := x.Rank(query)
	if len(got) != 2 || got[0].Doc != 0 || got[0].Score < 0.999 || got[1].Doc != 1 || got[1].Score <= 0 || got[1].Score >= got[0].Score {
		t.Errorf("%+v", got)
	}
	if again := x.Rank(query); !slices.Equal(got, again) {
		t.Errorf("%+v, then %+v", got, again)
	}
	if x.Weight(0, "somebody") != 0.5 || x.Weight(2, "mail") != 0 || x.Rarity("mail") >= x.Rarity("lamp") || x.Rarity("unheard") > 1 {
		t.Error(x.Weight(0, "somebody"), x.Weight(2, "mail"), x.Rarity("mail"), x.Rarity("lamp"), x.Rarity("unheard"))
	}
	if len(x.Rank(nil)) != 0 || len(words.NewIndex(nil).Rank(query)) != 0 {
		t.Error("something is like nothing")
	}
}
