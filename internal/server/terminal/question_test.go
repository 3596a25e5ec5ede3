package terminal_test

import (
	"context"

	"steward/internal/effect"
	"steward/internal/intent"
)

func (n node) Question(ctx context.Context, which string, p intent.Pattern) (effect.Question, error) {
	return n.Node.Approval(ctx, ada, which, p)
}
