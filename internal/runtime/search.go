package runtime

import (
	"context"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tool"
)

// Search finds messages in what the user and the assistant have said. Error
// codes: search_off, and those of search.Index.
func (n *Node) Search(ctx context.Context, user string, q search.Query) (search.Page, error) {
	if n.opt.Search == nil {
		return search.Page{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search")
	}
	return n.opt.Search.Search(ctx, store.ForUser(user), q)
}

// addSearch gives the agents the tool by which they search.
func (n *Node) addSearch() error {
	if n.opt.Search == nil {
		return nil
	}
	t, err := search.NewTool(n.opt.Search, func(in tool.Invocation) store.Scope { return store.ForUser(in.User) })
	if err != nil {
		return err
	}
	return n.opt.Tools.Add(t)
}

// followLog keeps the search near the log for as long as the node lives.
func (n *Node) followLog() {
	if n.opt.Search == nil {
		return
	}
	n.runs.Go(func() { n.opt.Search.Follow(n.life) })
}
