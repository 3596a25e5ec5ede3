package memory

import (
	"testing"
	"time"

	"steward/internal/record"
)

// What a statement says of the same thing as another one, the newer first.
func TestRelation(t *testing.T) {
	for _, c := range []struct {
		newer, older string
		want         int
	}{
		{"I live in Graz", "My sister lives in Linz", unrelated},
		{"My sister lives in Graz", "My sister lives in Linz", contradicts},
		{"We moved to Graz last weekend, boxes everywhere.", "We have our flat in Linz.", contradicts},
		{"Our flat is too warm", "I live in Linz", unrelated},
		{"I work as a geologist now", "My employer is Contoso", unrelated},
		{"I work as a geologist now", "My profession is surveyor, so numbers do not scare me", contradicts},
		{"My health insurance is with Donaris since this month", "I am insured with Uniqua", contradicts},
		{"I changed to another dentist: Dr Moreau", "My dentist is Dr Hofer", contradicts},
		{"I have a new phone number: 0660 1112", "My phone number is 0699 4431", contradicts},
		{"I lead the project Lantern now", "I lead the project Comet", contradicts},
		{"I visited Bergen", "I visited Ghent", unrelated},
		{"My sister now lives in Lyon", "My sister is Anna", unrelated},
		{"Wrong digits, my phone number is 0660 1112", "My phone number is 0699 4431", contradicts},
		{"My car is red", "My car is blue", contradicts},
		{"I like tea", "I like coffee", unrelated},
	} {
		of := func(text string) content { return contentOf(&record.Fact{Text: text, Subject: subjectUser}) }
		if got := relation(of(c.newer), of(c.older)); got != c.want {
			t.Errorf("%s / %s: %d, want %d", c.newer, c.older, got, c.want)
		}
	}
}

// What is news of an older statement need not have the words of a question about that.
func TestNews(t *testing.T) {
	for _, c := range []struct {
		newer, older string
		want         bool
	}{
		{"I got a new passport, it expires in March 2028", "My passport is valid until July 2029", true},
		{"I switched from Emacs, my editor is Vim now", "I write code in Emacs", true},
		{"I commute by train now, no longer by tram", "I take the tram to the office", true},
		{"Our standup is at 10:05 now", "The standup was moved to 9:35", true},
		{"Sorry, I wrote that wrong: I live in Bergen", "I live in Ghent", true},
		{"If I lived in Galway, I would swim every day", "I live in Ghent", false},
		{"Wim changed dentists and is happy", "I have been seeing Dr Hofer, the dentist, for years", false},
		{"My sister moved to Lyon", "I live in Ghent", false},
		{"I ride a Canyon bicycle to the office", "I take the tram to the office", false},
	} {
		newer, older := stated(Passage{Text: c.newer, At: time.Unix(2, 0)}), stated(Passage{Text: c.older, At: time.Unix(1, 0)})
		if got := newer.updates(older); got != c.want {
			t.Errorf("%s / %s: %t", c.newer, c.older, got)
		}
		if older.updates(newer) {
			t.Errorf("%s is older than %s", c.older, c.newer)
		}
	}
}

// Passages are the sentences of a message that state something.
func TestStatements(t *testing.T) {
	m := typedMessage{text: "My bank is Nordea. What is on today? I am tired!\nTurn off the light. See you"}
	var got []string
	for _, p := range statements(m, PassageRef{}) {
		if m.text[p.From:p.To] == "" {
			t.Errorf("%+v", p)
		}
		got = append(got, p.Text)
	}
	if len(got) != 2 || got[0] != "My bank is Nordea." || got[1] != "I am tired!" {
		t.Errorf("%q", got)
	}
	r := PassageRef{From: 3, To: 9}
	if back := ParsePassages("Recalled: " + r.String()); len(back) != 0 { // the ids are zero
		t.Errorf("%+v", back)
	}
}
