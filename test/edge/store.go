package edge

import (
	"strings"

	"steward/internal/store"
	"steward/internal/store/postgres"
	"steward/internal/store/sqlite"
)

// Store is the store of a node.
type Store interface {
	store.Store
	Close() error
}

// OpenStore opens the store of a node: for reading, or, while the node is not
// served, for writing too.
func (n *Node) OpenStore(readOnly bool) Store {
	n.T.Helper()
	var st Store
	var err error
	if url := n.variable("STEWARD_STORE"); url != "" {
		st, err = postgres.Open(n.T.Context(), postgres.Options{URL: url, ReadOnly: readOnly})
	} else {
		st, err = sqlite.Open(n.T.Context(), sqlite.Options{Path: n.Data("steward.db"), ReadOnly: readOnly})
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return st
}

// ReadStore opens the store of a node for reading, until the test ends.
func (n *Node) ReadStore() store.Store {
	n.T.Helper()
	st := n.OpenStore(true)
	n.T.Cleanup(func() {
		if err := st.Close(); err != nil {
			n.T.Error(err)
		}
	})
	return st
}

// variable returns the value of a variable of the node's environment.
func (n *Node) variable(name string) (value string) {
	for _, v := range n.Env {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}
