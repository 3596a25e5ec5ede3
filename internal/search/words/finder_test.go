package words_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"steward/internal/search/words"
)

// find returns at most n documents, the likeliest first.
func find(f *words.Finder, request string, n int) (docs []int) {
	scores, _ := f.Scores(request)
	for doc, s := range scores {
		if s > 0 {
			docs = append(docs, doc)
		}
	}
	slices.SortStableFunc(docs, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return docs[:min(len(docs), n)]
}

func TestFinder(t *testing.T) {
	t.Parallel()
	names := []string{"github.delete_issue", "github.merge_pull_request", "calendar.add", "timer.set", "weather.forecast"}
	texts := []string{"Deletes an issue of a repository.", "Merges a pull request.", "Adds an event to the calendar.", "Sets a timer.", "Tells the forecast for a place."}
	docs := make([]words.Document, len(names))
	for i := range names {
		docs[i].Fields = []words.Field{{Text: names[i], Weight: 2}, {Text: texts[i], Weight: 1}}
	}
	f := words.NewFinder(docs)
	for request, want := range map[string]int{
		"remove that bug ticket":                       0,
		"please merge my pull request":                 1,
		"put the dentist appointment into my calendar": 2,
		"countdown of ten minutes":                     3,
		"will it rain tomorrow in Graz?":               4,
	} {
		got := find(f, request, 3)
		if len(got) == 0 || got[0] != want {
			t.Errorf("%q: %+v, want %s", request, got, names[want])
		}
	}
	if got := find(f, "zzzz qqqq", 3); len(got) != 0 {
		t.Errorf("nonsense is like %+v", got)
	}
	if got := find(words.NewFinder(nil), "x", 1); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// Documents that differ only in their number are equally similar, however often a finder is made
// of them: their order decides.
func TestFinderBreaksTies(t *testing.T) {
	t.Parallel()
	docs := make([]words.Document, 8)
	for i := range docs {
		docs[i].Fields = []words.Field{{Text: fmt.Sprintf("group.tool%d", i), Weight: 2}, {Text: "It is about weather forecast rain, and says much about it.", Weight: 1}}
	}
	for range 100 {
		for i, m := range find(words.NewFinder(docs), "Will there be rain?", len(docs)) {
			if m != i {
				t.Fatalf("place %d has document %d", i, m)
			}
		}
	}
}
