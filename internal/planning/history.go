package planning

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/conversation/worklog"
	"steward/internal/store"
)

// maxRecentCalls bounds how many of the newest calls the planner's prompt lists.
const maxRecentCalls = 12

// recentCalls returns, for the planner's prompt, what was done for the user last, with its outcomes. It has only
// the names of tools: what they were given and have returned may be labelled, and no label would
// show in the prompt. The last exchanges of the conversation are before the planner anyway.
func (e *Engine) recentCalls(ctx context.Context, user string) (string, error) {
	entries, _, err := e.requests.WorkLog(user).Log(ctx, store.ForUser(user), worklog.Filter{}, "", maxRecentCalls)
	if err != nil || len(entries) == 0 {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n\nWhat was done for the user last, the newest first (times in UTC):")
	for _, entry := range entries {
		fmt.Fprintf(&b, "\n%s %s: %s", entry.At.UTC().Format("2006-01-02 15:04"), entry.Tool, entry.Outcome)
	}
	return b.String(), nil
}

// HistoryPrompt implements turn.Plans: it returns, for the planner's prompt, similar plans that succeeded, and
// what was done for the user last.
func (e *Engine) HistoryPrompt(ctx context.Context, user, request string) (string, error) {
	plans, err := e.examplePlans(ctx, user, request)
	if err != nil {
		return "", err
	}
	recent, err := e.recentCalls(ctx, user)
	return plans + recent, err
}
