package fts

import (
	"bytes"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// A search reads some hundred docs by their numbers. SQLite prepares a statement with a
// join, or with an order and a limit, again each time that a parameter is bound, which takes
// fifty times as long as the reading. So docs and conversations are read by themselves, and
// the filters are applied here.

// convState is what a search needs to know of a conversation.
type convState struct {
	gone  bool
	agent string
}

// turn is an interaction of a conversation.
type turn struct {
	conv  int64
	inter []byte
}

// read returns the doc of a space that matches a condition, the newest if there are several,
// if the filters admit it.
func (s *searchRun) read(space int64, is string, args ...any) (found *candidate, err error) {
	st, err := s.c.Prepare("SELECT id, seq, at, key, conv, msg, prev, inter, asks, size, stems, gone OR cut, labels FROM " + s.docs(space) + " WHERE " + is)
	if err != nil {
		return nil, err
	}
	var all []*candidate
	err = rows(st, args, func() bool {
		c := &candidate{doc: rowOf(space, st), size: st.ColumnInt(9), stems: blob(st, 10), hidden: st.ColumnBool(11), labels: st.ColumnInt64(12)}
		c.asks = st.ColumnBool(8)
		all = append(all, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if found != nil && found.id > c.id {
			continue
		}
		ok, err := s.admits(c)
		if err != nil {
			return nil, err
		}
		if ok {
			found = c
		}
	}
	return found, nil
}

// admits applies the filters, as the condition of filters does. A message that the query
// names need only be there.
func (s *searchRun) admits(c *candidate) (bool, error) {
	q := s.q
	if !q.Message.Zero() {
		conv, err := s.convOf(c.space, c.conv)
		return !c.hidden && !conv.gone, err
	}
	switch {
	case c.hidden,
		!q.Since.IsZero() && c.at.Before(q.Since),
		!q.Until.IsZero() && !c.at.Before(q.Until),
		c.labels&int64(q.Labels) != int64(q.Labels),
		c.labels&int64(q.Without) != 0:
		return false, nil
	}
	conv, err := s.convOf(c.space, c.conv)
	if err != nil || conv.gone || q.Agent != "" && conv.agent != q.Agent {
		return false, err
	}
	if q.Except.Zero() {
		return true, nil
	}
	out, err := s.left(c.space)
	for _, t := range out {
		if t.conv == c.conv && bytes.Equal(t.inter, c.inter) {
			return false, err
		}
	}
	return err == nil, err
}

// convOf returns a conversation of a space.
func (s *searchRun) convOf(space, n int64) (state convState, err error) {
	at := [2]int64{space, n}
	if state, ok := s.states[at]; ok {
		return state, nil
	}
	state.gone = true
	st, err := s.c.Prepare("SELECT gone, agent FROM " + s.convs(space) + " WHERE id = ?")
	if err == nil {
		err = rows(st, []any{n}, func() bool {
			state = convState{st.ColumnBool(0), st.ColumnText(1)}
			return true
		})
	}
	if err == nil {
		if s.states == nil {
			s.states = map[[2]int64]convState{}
		}
		s.states[at] = state
	}
	return state, err
}

// left returns the interactions of a space that Query.Except leaves out.
func (s *searchRun) left(space int64) (out []turn, err error) {
	if out, ok := s.excepted[space]; ok {
		return out, nil
	}
	st, err := s.c.Prepare("SELECT conv, inter FROM " + s.docs(space) + " WHERE msg = ?")
	if err == nil {
		err = rows(st, []any{s.q.Except[:]}, func() bool {
			out = append(out, turn{st.ColumnInt64(0), blob(st, 1)})
			return true
		})
	}
	if err == nil {
		if s.excepted == nil {
			s.excepted = map[int64][]turn{}
		}
		s.excepted[space] = out
	}
	return out, err
}

// rows runs a statement until row returns false.
func rows(st *sqlite.Stmt, args []any, row func() bool) error {
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			st.BindInt64(i+1, a)
		case int:
			st.BindInt64(i+1, int64(a))
		case string:
			st.BindText(i+1, a)
		case []byte:
			st.BindBytes(i+1, a)
		default:
			return fmt.Errorf("%T is not bound", a)
		}
	}
	for {
		more, err := st.Step()
		if err != nil || !more {
			return err // the statement is reset
		}
		if !row() {
			return st.Reset()
		}
	}
}
