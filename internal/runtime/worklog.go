package runtime

import (
	"context"

	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/worklog"
)

// WorkLog returns a page of the tool calls that were made for a user, the
// newest first; see worklog.Engine.Log.
func (n *Node) WorkLog(ctx context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error) {
	return n.told().Log(ctx, store.ForUser(user), f, after, limit)
}

// WorkLogEntry returns one of them with its messages; see worklog.Engine.Show.
func (n *Node) WorkLogEntry(ctx context.Context, user, ref string) (worklog.Entry, []*message.Message, error) {
	return n.told().Show(ctx, store.ForUser(user), ref)
}

func (n *Node) told() *worklog.Engine {
	return worklog.New(n.opt.Store, func(name string) (tool.Spec, bool) {
		t, ok := n.opt.Tools.Get(name)
		if !ok {
			return tool.Spec{}, false
		}
		return t.Spec(), true
	})
}
