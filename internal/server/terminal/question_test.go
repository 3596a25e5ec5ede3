package terminal_test

import (
	"context"

	"steward/internal/effect"
	"steward/internal/pattern"
)

func (n node) Question(ctx context.Context, which string, p pattern.Pattern) (effect.Question, error) {
	return n.Node.Approval(ctx, ada, which, p)
}
