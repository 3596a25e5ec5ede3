package runtime

import (
	"steward/internal/agent/plan"
	"steward/internal/id"
	"steward/internal/llm"
)

// bound is what a task may use, with everything below it.
type bound struct {
	parent id.ID
	meter  *llm.Meter // nil: what its parent may use
}

// bind notes the limits of a task. The caller holds w.mu, or is alone.
func (w *treeWorker) bind(t *plan.Task) {
	if w.bounds == nil {
		w.bounds = map[id.ID]bound{}
	}
	if _, known := w.bounds[t.ID]; known {
		return
	}
	b := bound{parent: t.Parent}
	if l := (llm.Budget{MaxTokens: t.Limits.Tokens, MaxCost: t.Limits.Cost}); l != (llm.Budget{}) {
		b.meter = llm.NewMeter(l)
	}
	w.bounds[t.ID] = b
}

// meterOf returns the meter that binds a task: its own, below those of the tasks
// above it and that of the tree.
func (w *treeWorker) meterOf(task id.ID) *llm.Meter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chain []*llm.Meter
	for b, ok := w.bounds[task]; ok; b, ok = w.bounds[b.parent] {
		if b.meter != nil {
			chain = append(chain, b.meter)
		}
	}
	if w.under != nil {
		chain = append(chain, w.under)
	}
	for i := 1; i < len(chain); i++ {
		chain[i-1].Under(chain[i])
	}
	if len(chain) == 0 {
		return nil
	}
	return chain[0]
}

// reserving returns a meter below that of the turn that leaves a tenth of what
// the turn may still use, with which the answer is written in the end.
func reserving(turn *llm.Meter) *llm.Meter {
	if turn == nil {
		return nil
	}
	left := turn.Left()
	m := llm.NewMeter(llm.Budget{MaxTokens: left.MaxTokens - left.MaxTokens/10, MaxCost: left.MaxCost * 0.9})
	m.Under(turn)
	return m
}
