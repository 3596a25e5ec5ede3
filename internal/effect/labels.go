package effect

import "steward/internal/message"

// labelled puts labels on a result and all that it holds.
func labelled(res *message.ToolResult, labels message.Labels) {
	res.Labels |= labels
	for _, b := range res.Content {
		b.Base().Labels |= labels
	}
}
