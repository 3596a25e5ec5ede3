package search

import (
	"fmt"
	"time"

	"steward/internal/store"
)

// Seal returns the cursor after a place in q's answer.
func (q *Query) Seal(place int64) Cursor {
	return Cursor(q.mark().Seal(store.Position{Num: place}))
}

// Place decodes q.After; ok is false if it is empty. If it is damaged or belongs to
// another query, the error code is cursor_invalid.
func (q *Query) Place() (place int64, ok bool, err error) {
	p, ok, err := q.mark().Open(store.Cursor(q.After))
	if len(p.Key) > 0 {
		return 0, false, store.BadCursor("it is damaged")
	}
	return p.Num, ok, err
}

// mark distinguishes this query's cursors from those of others.
func (q *Query) mark() store.Mark {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	return store.NewMark('s', q.Text, q.Conversation.String(), string(q.Role), q.Tool, q.Except.String(), at(q.Since), at(q.Until),
		string(q.Ordered()), string(q.Mode), q.Agent, fmt.Sprint(q.Labels, q.Without, q.Threshold))
}
