package terminal_test

import (
	"context"

	"steward/internal/effect"
)

func (n node) Question(ctx context.Context, which string, p effect.Pattern) (effect.Question, error) {
	return n.Node.Approval(ctx, ada, which, p)
}
