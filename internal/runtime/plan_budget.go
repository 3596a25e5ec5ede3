package runtime

import (
	"steward/internal/id"
	"steward/internal/llm"
)

// meterOf returns the meter that binds a task: its own, below those of the tasks
// above it and that of the tree.
func (w *treeWorker) meterOf(task id.ID) *llm.Meter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chain []*llm.Meter
	for k := w.tasks[task]; k != nil; k = w.tasks[k.Parent] {
		if k.meter != nil {
			chain = append(chain, k.meter)
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
