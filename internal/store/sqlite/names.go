package sqlite

import (
	"fmt"
	"sync"
)

// Kinds of names. Existing databases contain these numbers.
const (
	spaceName int64 = iota + 1
	actorName
	stateName
	termName
	typeName
)

// noNumber is a number that no name has.
const noNumber = -1

type nameKey struct {
	kind int64
	text string
}

// names maps the words of the name table to their numbers and back. It caches
// only what is committed, and reads the rest from the table.
type names struct {
	mu    sync.RWMutex
	ids   map[nameKey]int64
	texts map[int64]string
}

func newNames() *names {
	return &names{ids: make(map[nameKey]int64), texts: map[int64]string{0: ""}}
}

func (n *names) add(k nameKey, id int64) {
	n.mu.Lock()
	n.ids[k] = id
	n.texts[id] = k.text
	n.mu.Unlock()
}

func (n *names) known(k nameKey) (int64, bool) {
	n.mu.RLock()
	id, ok := n.ids[k]
	n.mu.RUnlock()
	return id, ok
}

// id returns the number of a word, or nobody if it has none.
func (n *names) id(c *conn, kind int64, text string) (int64, error) {
	k := nameKey{kind, text}
	if id, ok := n.known(k); ok {
		return id, nil
	}
	id, err := c.prepare("SELECT id FROM name WHERE kind = ? AND text = ?").argInt(kind).argText(text).number()
	if err != nil || id == 0 {
		return noNumber, err
	}
	n.add(k, id)
	return id, nil
}

// text returns the word with this number; 0 is the empty word.
func (n *names) text(c *conn, id int64) (string, error) {
	n.mu.RLock()
	t, ok := n.texts[id]
	n.mu.RUnlock()
	if ok {
		return t, nil
	}
	s := c.prepare("SELECT kind, text FROM name WHERE id = ?").argInt(id)
	found, err := s.first(func() error {
		t = string(s.view(1))
		n.add(nameKey{s.int(0), t}, id)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("the word %d is missing", id)
	}
	return t, err
}

// allSpaces returns the numbers of all spaces.
func (s *Store) allSpaces(c *conn) ([]any, error) {
	ids, err := c.prepare("SELECT id FROM name WHERE kind = ?").argInt(spaceName).numbers(nil)
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out, err
}
