package planning

import (
	"context"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"testing"

	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/turn"
)

// idle is a tool that does nothing.
type idle struct{ name string }

func (i idle) Spec() tool.Spec {
	return tool.Spec{Name: i.name, Effect: tool.Query, Version: "1", Description: "Does nothing.", Reach: tool.ReachHere,
		Input: []byte(`{"type":"object","properties":{"place":{"type":"string"}},"additionalProperties":false}`)}
}

func (idle) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("done"), nil
}

// workerWithTools returns a worker whose assistant has n tools.
func workerWithTools(tb testing.TB, n int) *treeWorker {
	tools := &tool.Registry{}
	for i := range n {
		if err := tools.Add(idle{fmt.Sprintf("idle.t%d", i)}); err != nil {
			tb.Fatal(err)
		}
	}
	plans := &Engine{kits: kits.New(kits.Options{Tools: tools, Log: slog.New(slog.DiscardHandler)}), opt: Options{Tools: tools}}
	if err := plans.kits.Build(agent.Definition{Name: kits.DefaultAgent}); err != nil {
		tb.Fatal(err)
	}
	return &treeWorker{engine: plans, InnerCall: (&turn.Calls{}).Inner(agent.Call{}, nil), at: record.ConversationURI(id.New()).ChildID(record.TypeMessage, id.New()),
		tasks: map[id.ID]*trackedTask{}}
}

// BenchmarkDesign measures how an agent is designed for a task: with 5 tools of the assistant's 60.
func BenchmarkDesign(b *testing.B) {
	w := workerWithTools(b, 60)
	b.ReportAllocs()
	for b.Loop() {
		t := &plan.Task{ID: id.New(), Draft: plan.Draft{Name: "look", Plan: "look, then say what there is", Tools: []string{"idle.t1", "idle.t2", "idle.t30", "idle.t40", "idle.t59"}}}
		if _, err := w.engine.design(t); err != nil {
			b.Fatal(err)
		}
	}
}

// waiting makes trees of 200 tasks that wait, and returns what each task holds of memory, in bytes.
func waiting(tb testing.TB, trees int) float64 {
	d := &plan.Draft{Purpose: "Prepare the village fair"}
	for i := range plan.MaxTasks - 1 {
		d.Subtasks = append(d.Subtasks, plan.Draft{Name: fmt.Sprintf("find_lodging_%d", i), Purpose: "Find lodging for two people near the lake",
			Instructions: "For the second weekend of May, with breakfast, at most 120 euros a night.", Tools: []string{"web.search", "web.read"}})
	}
	if bad := plan.Check(d, plan.World{}); bad != nil {
		tb.Fatal(bad)
	}
	used := func() uint64 {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var held []any
	before := used()
	for range trees {
		w := workerWithTools(tb, 0)
		tasks := plan.Tree(id.New(), d, message.Private)
		for _, t := range tasks {
			w.track(t).version = 1
		}
		held = append(held, w, plan.New(w, tasks, plan.Options{}))
	}
	after := used()
	goruntime.KeepAlive(held)
	return (float64(after) - float64(before)) / float64(trees*plan.MaxTasks)
}

// BenchmarkWaitingTask measures what a task that waits holds of memory.
func BenchmarkWaitingTask(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(waiting(b, 20), "bytes/task")
	}
	b.ReportMetric(0, "ns/op")
}

// A task that waits holds less than 2 KB.
func TestAWaitingTaskIsSmall(t *testing.T) {
	if n := waiting(t, 20); n > 2048 {
		t.Errorf("%.0f bytes", n)
	}
}
