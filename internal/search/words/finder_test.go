package words_test

import (
	"testing"

	"steward/internal/search/words"
)

func TestFinder(t *testing.T) {
	t.Parallel()
	names := []string{"github.delete_issue", "github.merge_pull_request", "calendar.add", "timer.set", "weather.forecast"}
	texts := []string{"Deletes an issue of a repository.", "Merges a pull request.", "Adds an event to the calendar.", "Sets a timer.", "Tells the forecast for a place."}
	docs := make([][]words.Field, len(names))
	for i := range names {
		docs[i] = []words.Field{{Text: names[i], Weight: 2}, {Text: texts[i], Weight: 1}}
	}
	f := words.NewFinder(docs)
	for request, want := range map[string]int{
		"remove that bug ticket":                       0,
		"please merge my pull request":                 1,
		"put the dentist appointment into my calandar": 2,
		"countdown of ten minutes":                     3,
		"will it rain tomorrow in Graz?":               4,
	} {
		got := f.Find(request, 3)
		if len(got) == 0 || got[0].Doc != want {
			t.Errorf("%q: %+v, want %s", request, got, names[want])
		}
	}
	if got := f.Find("zzzz qqqq", 3); len(got) != 0 {
		t.Errorf("nonsense is like %+v", got)
	}
	if got := words.NewFinder(nil).Find("x", 1); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
