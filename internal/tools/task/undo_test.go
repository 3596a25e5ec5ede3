package task

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/localtest"
)

func TestChangesAreTakenBack(t *testing.T) {
	s, text := open(t, "# Mine\n\n- [ ] Call Ann\n- [ ] Buy milk (due 2026-03-05)\nnotes\n")
	undo := func(name, args string) (string, error) { return s.Undo(s.Invocation(name, name, args), name) }
	for name, args := range map[string]string{"task.add": `{"title":"Tea"}`, "task.complete": `{"task":"milk"}`, "task.delete": `{"task":"milk"}`} {
		before := text()
		if _, err := undo(name, args); !fault.HasCode(err, "undo_unknown") {
			t.Errorf("%s before it was done: %v", name, err)
		}
		s.Call(name, name, args)
		if text() == before {
			t.Fatalf("%s changed nothing", name)
		}
		reply, err := undo(name, args)
		if err != nil || text() != before {
			t.Errorf("%s taken back: %q %v\n%s", name, reply, err, text())
		}
		if again, err := undo(name, args); err != nil || again != reply || text() != before {
			t.Errorf("%s taken back twice: %q %v", name, again, err)
		}
	}
	s.Call("x", "task.add", `{"title":"Rare"}`)
	s.Call("y", "task.complete", `{"task":"Rare"}`)
	tl, _ := s.Registry.Get("task.add")
	u, _ := tool.UndoerOf(tl)
	if _, err := u.Undo(t.Context(), s.Invocation("x", "task.add", `{"title":"Rare"}`), tool.Result{}); !fault.HasCode(err, "changed_since") || !tool.CertainlyNotDone(err) {
		t.Errorf("changed since: %v", err)
	}
}

func TestSeveralAreAddedAtOnce(t *testing.T) {
	s, text := open(t, "")
	tl, _ := s.Registry.Get("task.add")
	b, ok := tool.BatcherOf(tl)
	if !ok {
		t.Fatal("it takes one at a time")
	}
	var ins []tool.Invocation
	for i := range 20 {
		ins = append(ins, s.Invocation(fmt.Sprint(i), "task.add", fmt.Sprintf(`{"title":"Thing %d"}`, i)))
	}
	ins = append(ins, s.Invocation("bad", "task.add", `{"title":"Bad","due":"soon"}`))
	var wg sync.WaitGroup
	for range 3 { // again and at the same time, as after a crash
		wg.Go(func() {
			out := b.CallAll(t.Context(), ins)
			for i, o := range out[:20] {
				if o.Err != nil || localtest.TextOf(o.Result) != fmt.Sprintf("Added the task %q.", fmt.Sprintf("Thing %d", i)) {
					t.Errorf("%d: %v", i, o)
				}
			}
			if !fault.HasCode(out[20].Err, "time_invalid") || !tool.CertainlyNotDone(out[20].Err) {
				t.Errorf("%v", out[20].Err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(text(), "- [ ] Thing"); n != 20 || strings.Contains(text(), "Bad") {
		t.Errorf("%d tasks:\n%s", n, text())
	}
	if strings.Index(text(), "Thing 3") > strings.Index(text(), "Thing 4") {
		t.Error("out of order")
	}
}
