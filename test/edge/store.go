package edge

import (
	"strings"

	"steward/internal/store"
	"steward/internal/store/postgres"
	"steward/internal/store/sqlite"
)

// ReadStore opens the store of a node for reading, until the test ends.
func (n *Node) ReadStore() store.Store {
	n.T.Helper()
	for _, v := range n.Env {
		if url, ok := strings.CutPrefix(v, "STEWARD_STORE="); ok {
			st, err := postgres.Open(n.T.Context(), postgres.Options{URL: url, ReadOnly: true})
			return closing(n, st, err)
		}
	}
	st, err := sqlite.Open(n.T.Context(), sqlite.Options{Path: n.Data("steward.db"), ReadOnly: true})
	return closing(n, st, err)
}

func closing[S interface {
	store.Store
	Close() error
}](n *Node, st S, err error) store.Store {
	n.T.Helper()
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() {
		if err := st.Close(); err != nil {
			n.T.Error(err)
		}
	})
	return st
}
