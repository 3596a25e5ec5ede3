package planning

import (
	"testing"

	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/plan"
	"steward/internal/turn"
)

// A tree leaves a tenth of the turn's budget for the answer, and the limits of a task bind everything below it.
func TestATreeHasItsPartOfTheBudget(t *testing.T) {
	whole := llm.NewMeter(llm.Budget{MaxTokens: 1000})
	whole.Add(llm.Spend{Tokens: 100})
	room := reserveForAnswer(whole)
	w := &treeWorker{InnerCall: (*turn.Calls)(nil).Inner(agent.Call{}, room), tasks: map[id.ID]*trackedTask{}}
	top := &plan.Task{ID: id.New(), Draft: plan.Draft{Tokens: 500}}
	free := &plan.Task{ID: id.New(), Parent: top.ID}
	leaf := &plan.Task{ID: id.New(), Parent: free.ID, Draft: plan.Draft{Tokens: 300}}
	beside := &plan.Task{ID: id.New()}
	for _, x := range []*plan.Task{top, free, leaf, leaf, beside} {
		w.track(x)
	}
	left := func(x *plan.Task) int64 { return w.track(x).meter.Left().MaxTokens }
	if left(leaf) != 300 || left(free) != 500 || left(beside) != 810 {
		t.Errorf("%d %d %d", left(leaf), left(free), left(beside))
	}
	w.track(leaf).meter.Add(llm.Spend{Tokens: 290})
	w.track(beside).meter.Add(llm.Spend{Tokens: 400})
	if left(leaf) != 10 || left(free) != 120 || left(top) != 120 || whole.Left().MaxTokens != 210 {
		t.Errorf("%d %d %d %d", left(leaf), left(free), left(top), whole.Left().MaxTokens)
	}
	if reserveForAnswer(nil) != nil || reserveForAnswer(llm.NewMeter(llm.Budget{})).Left() != (llm.Budget{}) {
		t.Error("a budget out of nothing")
	}
}
