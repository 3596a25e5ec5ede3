package runtime_test

import (
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

func TestSearching(t *testing.T) {
	t.Parallel()
	w := made(t, &world{memory: storetest.NewModel()}).open()
	if _, err := w.Search(t.Context(), "anna", search.Query{Text: "x"}); !fault.HasCode(err, "search_off") {
		t.Error(err)
	}
	has := func(list []tool.Spec) bool {
		for _, s := range list {
			if s.Name == search.ToolName {
				return true
			}
		}
		return false
	}
	if has(w.Tools("")) {
		t.Error("there is a tool for nothing")
	}
	w.close()

	ix := fts.New(fts.Options{Path: filepath.Join(w.dir, "search.db"), Store: w.memory})
	w.opt = runtime.Options{Search: ix}
	w.open()
	if !has(w.Tools("")) {
		t.Error("the tool is missing")
	}
	earlier, _ := w.turn(id.ID{}, "say the train leaves at noon")
	_, frames := w.turn(id.ID{}, `call conversation.search {"query":"train"}`)
	got := said(frames)
	for _, want := range []string{"ok: 1. ", "the **train** leaves at noon", "say the **train** leaves", "2. "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if strings.Contains(got, "3. ") || strings.Contains(got, "query") {
		t.Errorf("the search finds itself: %q", got)
	}
	page, err := w.Search(t.Context(), "anna", search.Query{Text: "noon", Conversation: earlier})
	if err != nil || len(page.Hits) != 2 || page.Hits[0].Conversation != earlier {
		t.Errorf("%+v %v", page, err)
	}
	if page, err := w.Search(t.Context(), "ben", search.Query{Text: "noon", Conversation: earlier}); err != nil || len(page.Hits) != 0 {
		t.Errorf("%+v %v", page, err)
	}
	ok(t, w.Delete(t.Context(), "anna", earlier))
	if page, err := w.Search(t.Context(), "anna", search.Query{Text: "noon", Conversation: earlier}); err != nil || len(page.Hits) != 0 {
		t.Errorf("deleted, and found: %+v %v", page, err)
	}
	w.close()
	if err := ix.Close(); err != nil {
		t.Error(err)
	}
}
