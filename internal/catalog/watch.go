package catalog

import (
	"slices"

	"steward/internal/catalog/watch"
)

// watch looks after the folders until Close.
func (c *Catalog) watch() {
	f := watch.Follower{
		What:  "the folders of agents",
		Paths: slices.Concat(c.opt.Folders, c.opt.Servers), // mcp.json lies beside the database, which changes all the time
		Dirs: func() []string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.dirs
		},
		Changed: func() {
			if err := c.Rescan(c.life); err != nil {
				c.log.Debug("changes in the folders of agents are not noticed", "error", err) // it is closing
			}
		},
		Noted: func() { c.noted.Add(1) },
		Again: c.kick, Quiet: c.opt.Quiet, Poll: c.opt.Poll, Log: c.log,
	}
	c.work.Go(func() { f.Run(c.life) })
}
