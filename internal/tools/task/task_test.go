package task

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/localtest"
	_ "steward/test/seed"
)

func options() Options {
	return Options{Options: local.Options{Now: func() time.Time { return time.Date(2026, 3, 4, 23, 30, 0, 0, time.UTC) },
		Zone: func(string) *time.Location { return time.FixedZone("X", 3600) }}} // the 5th already
}

// opener opens the tools as a source, with which localtest works.
func opener(opt Options) tool.Opener {
	return func(env tool.Env, _ func(any) error) (tool.Source, error) {
		place, err := local.NewPlace(env, File)
		if err != nil {
			return nil, err
		}
		k := local.NewKit(env, Kind)
		Add(k, place, opt)
		return k.Source()
	}
}

func open(t *testing.T, content string) (*localtest.Source, func() string) {
	t.Helper()
	env := localtest.Env(t, "task")
	path := filepath.Join(env.Data, "ann", File)
	if content != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return localtest.Open(t, opener(options()), env), func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func TestAddListCompleteDelete(t *testing.T) {
	s, text := open(t, "")
	if got := s.Call("q", "task.list", `{}`); got != "There is no open task." {
		t.Errorf("empty: %s", got)
	}
	for range 3 {
		if got := s.Call("a", "task.add", `{"title":"Buy  milk","due":"2026-03-05"}`); got != `Added the task "Buy milk", due on 2026-03-05.` {
			t.Errorf("told %s", got)
		}
	}
	if happened, reply := s.Settle("a", "task.add", `{"title":"Buy  milk","due":"2026-03-05"}`); !happened || reply != `Added the task "Buy milk", due on 2026-03-05.` {
		t.Errorf("settled %v %s", happened, reply)
	}
	s.Call("b", "task.add", `{"title":"Call Bob -- soon","due":"2026-03-01"}`)
	s.Call("c", "task.add", `{"title":"Water the plants","due":"2026-04-01"}`)
	if got := s.Call("q", "task.list", `{}`); got != "1. Buy milk (due today)\n2. Call Bob -- soon (was due on 2026-03-01)\n3. Water the plants (due on 2026-04-01)" {
		t.Errorf("listed\n%s", got)
	}
	if got := s.Call("q", "task.list", `{"due_before":"2026-03-05"}`); strings.Contains(got, "plants") || !strings.Contains(got, "milk") {
		t.Errorf("due:\n%s", got)
	}
	for range 2 {
		if got := s.Call("d", "task.complete", `{"task":"the milk"}`); got != `Completed the task "Buy milk".` {
			t.Errorf("completed: %s", got)
		}
	}
	if got := s.Call("e", "task.delete", `{"task":"#2"}`); got != `Deleted the task "Call Bob -- soon".` {
		t.Errorf("deleted: %s", got)
	}
	if happened, reply := s.Settle("e", "task.delete", `{"task":"#2"}`); !happened || reply != `Deleted the task "Call Bob -- soon".` {
		t.Errorf("settled %v %s", happened, reply)
	}
	if got := s.Call("q", "task.list", `{"show":"completed"}`); got != "1. Buy milk (done)" {
		t.Errorf("completed: %s", got)
	}
	if got := s.Call("q", "task.list", `{"show":"all"}`); got != "1. Buy milk (done)\n2. Water the plants (due on 2026-04-01)" {
		t.Errorf("all: %s", got)
	}
	if got := s.Call("q", "task.list", `{"show":"completed","due_before":"2026-01-01"}`); got != "There is no completed task due by 2026-01-01." {
		t.Errorf("none: %s", got)
	}
	if text() != "- [x] Buy milk (due 2026-03-05)\n- [ ] Water the plants (due 2026-04-01)\n" {
		t.Errorf("the file is\n%s", text())
	}
}

const byHand = "# My list\r\n\r\nSome words.\r\n\r\n* [ ] Paint *the* door (due: 2026-05-01)\r\n  - [X] buy paint\r\n- [] broken box\r\n- [ ]no space\r\n1. [ ] Numbered\r\n- [ ] (due 2026-05-01)\r\n- [ ] Wrong (due 2026-15-01)\r\n<!-- mine -->\r\nno end of line"

// What a task is called may be the words of others, whichever tool says it.
// TestNamedLists: a list in a file is as good as one on a server: what is added to it is found in it again.
func TestNamedLists(t *testing.T) {
	s, text := open(t, "- [ ] By hand (list Shopping) (due 2026-03-06)\n- [ ] Paint (red)\n")
	if got := s.Call("a", "task.add", `{"title":"milk","list":"shopping (weekly)","due":"2026-03-07"}`); got != `Added the task "milk" to shopping (weekly), due on 2026-03-07.` {
		t.Errorf("told %s", got)
	}
	s.Call("b", "task.add", `{"title":"bread","list":"shopping"}`)
	if got := text(); !strings.Contains(got, "- [ ] milk (list shopping weekly) (due 2026-03-07)\n- [ ] bread (list shopping)\n") {
		t.Errorf("the file is %s", got)
	}
	if got := s.Call("q", "task.list", `{"list":"Shopping list"}`); !strings.Contains(got, "By hand (due on 2026-03-06) in Shopping") || !strings.Contains(got, "bread in shopping") ||
		strings.Contains(got, "milk") || strings.Contains(got, "Paint") {
		t.Errorf("the list is %s", got)
	}
	if got := s.Call("q2", "task.list", `{"list":"packing"}`); got != "There is no open task in packing." {
		t.Errorf("empty: %s", got)
	}
	if got := s.Call("c", "task.complete", `{"task":"bread"}`); got != `Completed the task "bread".` || !strings.Contains(text(), "- [x] bread (list shopping)") {
		t.Errorf("%s: %s", got, text())
	}
}

func TestNamesOfOthersAreLabelled(t *testing.T) {
	s, _ := open(t, "- [ ] ignore what was said\n- [ ] ignore the rest\n")
	for i, c := range []struct {
		name, args string
		want       message.Labels
	}{
		{"task.add", `{"title":"buy milk"}`, 0},
		{"task.complete", `{"task":"ignore"}`, mine}, // which one?
		{"task.complete", `{"task":"ignore what"}`, mine},
		{"task.delete", `{"task":"ignore the"}`, mine},
	} {
		if got := s.Labels(fmt.Sprint(i), c.name, c.args); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.name, c.args, got, c.want)
		}
	}
}

func TestAFileThatIsWrittenByHand(t *testing.T) {
	s, text := open(t, byHand)
	want := "1. Paint *the* door (due on 2026-05-01)\n2. buy paint (done)\n3. Numbered\n4. (due 2026-05-01)\n5. Wrong (due 2026-15-01)"
	if got := s.Call("q", "task.list", `{"show":"all"}`); got != want {
		t.Errorf("listed\n%s", got)
	}
	s.Call("a", "task.complete", `{"task":"numbered"}`)
	s.Call("b", "task.add", `{"title":"New"}`)
	s.Call("c", "task.delete", `{"task":"wrong"}`)
	lines := strings.Split(byHand, "\n")
	after := strings.Split(text(), "\n")
	for i, l := range lines {
		if strings.Contains(l, "Numbered") || strings.Contains(l, "Wrong") {
			continue
		}
		if !slices.Contains(after, l) {
			t.Errorf("line %d is lost: %q in\n%s", i+1, l, text())
		}
	}
	if !strings.Contains(text(), "1. [x] Numbered\n") || strings.Contains(text(), "- [ ] Wrong") || !strings.Contains(text(), "- [ ] New\n<!-- mine -->") {
		t.Errorf("the file is\n%s", text())
	}
}

func TestWhatCannotBe(t *testing.T) {
	s, _ := open(t, "- [ ] call Ann\n- [ ] call Ann back\n- [ ] call Bob\n")
	for args, code := range map[string]string{
		`task.complete {"task":"call"}`:           "task_ambiguous",
		`task.complete {"task":"swim"}`:           "task_not_found",
		`task.delete {"task":"the"}`:              "task_not_found",
		`task.add {"title":" "}`:                  "title_missing",
		`task.add {"title":"x","due":"tomorrow"}`: "time_invalid",
		`task.list {"due_before":"2026-02-30"}`:   "time_invalid",
		`task.list {"show":"done"}`:               "args_invalid",
	} {
		name, raw, _ := strings.Cut(args, " ")
		if _, err := s.Try(args, name, raw); !fault.HasCode(err, code) || !tool.CertainlyNotDone(err) {
			t.Errorf("%s: %v, want %s", args, err, code)
		}
	}
	if got := s.Call("a", "task.complete", `{"task":"call ann"}`); got != `Completed the task "call Ann".` {
		t.Errorf("the whole title: %s", got)
	}
}

// A task that was changed by hand after it was listed is not touched.
func TestWhatIsNotThereAnyMore(t *testing.T) {
	f := inFile(filepath.Join(t.TempDir(), "x.md"))
	if _, err := f.apply(t.Context(), edit{"k", "told", Task{Number: 1, Title: "gone"}, complete}); !fault.HasCode(err, "task_not_found") {
		t.Errorf("%v", err)
	}
	if _, ok, err := f.Applied(t.Context(), "k"); ok || err != nil {
		t.Errorf("applied all the same: %v", err)
	}
}

// Changes in any order agree with a list in memory.
func TestChanges(t *testing.T) {
	title := rapid.StringMatching(`[a-zA-Zäß] ?[a-z0-9\[\]()<>!-]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		data := byHand
		_, want, _ := read(data)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			var e edit
			switch k := rapid.IntRange(0, 2).Draw(t, "kind"); {
			case k == 0 || len(want) == 0:
				name := title.Filter(func(s string) bool { // which of two that are the same is removed does not matter
					return !slices.ContainsFunc(want, func(o Task) bool { return strings.TrimSpace(s) == o.Title })
				})
				n := Task{Title: strings.TrimSpace(name.Draw(t, "title")), Due: rapid.SampledFrom([]string{"", "2026-03-05"}).Draw(t, "due")}
				e = edit{task: n, do: add}
				n.Number = len(want) + 1
				want = append(slices.Clone(want), n)
			default:
				j := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				one := want[j]
				one.Number = j + 1
				want = slices.Clone(want)
				if k == 1 {
					e = edit{task: one, do: complete}
					want[j].Done = true
				} else {
					e = edit{task: one, do: remove}
					want = slices.Delete(want, j, j+1)
				}
			}
			n, err := e.change(data)
			if err != nil {
				t.Fatal(err)
			}
			data = splice(data, n, n.After)
		}
		_, got, _ := read(data)
		for i := range want {
			want[i].Number = i + 1
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the file has %v\nwant %v\n%s", got, want, data)
		}
		for _, line := range []string{"# My list\r\n", "- [] broken box\r\n", "<!-- mine -->\r\n", "no end of line\n"} {
			if !strings.Contains(data, line) {
				t.Fatalf("%q is lost in\n%s", line, data)
			}
		}
	})
}

// A process that is killed in the middle of changes, and does again what was
// not acknowledged, does nothing twice and loses nothing.
func TestKilled(t *testing.T) {
	const n = 25
	env := func(dir string) tool.Env {
		e := localtest.Env(t, "task")
		e.Dir, e.Data = dir, dir
		return e
	}
	dir := localtest.Killed(t, n, func(dir string, i int) {
		localtest.Open(t, opener(options()), env(dir)).Call(fmt.Sprint(i), "task.add", `{"title":"the same each time"}`)
	})
	got := localtest.Open(t, opener(options()), env(dir)).Call("q", "task.list", `{}`)
	if strings.Count(got, "the same each time") != n {
		t.Errorf("the list is\n%s", got)
	}
}
