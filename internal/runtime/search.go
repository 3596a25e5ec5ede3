package runtime

import (
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tool"
)

// addSearch adds the tool with which agents search.
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

// followLog makes the search index follow the log for as long as the node lives.
func (n *Node) followLog() {
	if n.opt.Search == nil {
		return
	}
	n.runs.Go(func() { n.opt.Search.Follow(n.life) })
}
