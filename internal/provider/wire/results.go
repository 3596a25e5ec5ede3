package wire

import (
	"cmp"
	"slices"

	"steward/internal/message"
)

// ResultsInCallOrder returns the group's results. Those of one message are in the order of its
// calls, for vendors that match calls without ids to results by position.
func ResultsInCallOrder(group []*message.Message) []*message.ToolResult {
	var out []*message.ToolResult
	for _, m := range group {
		if r := m.Result(); r != nil {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *message.ToolResult) int {
		if a.Call.Message != b.Call.Message {
			return 0
		}
		return cmp.Compare(a.Call.Block, b.Call.Block)
	})
	return out
}
