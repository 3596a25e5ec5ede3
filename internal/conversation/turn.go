package conversation

import (
	"context"
	"slices"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Turn reads the messages of an interaction as they were recorded, in the order
// in which they were written, whatever has become of them since.
func (e *Engine) Turn(ctx context.Context, sc store.Scope, conv, inter id.ID) ([]*message.Message, error) {
	var list []Entry
	q := store.Query{Under: record.InteractionURI(conv, inter), Type: record.TypeMessage}
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return nil, err
		}
		m, err := entry("", it)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Entry) int { return int(int64(a.Seq) - int64(b.Seq)) })
	out := make([]*message.Message, len(list))
	for i := range list {
		out[i] = list[i].Message
	}
	return out, nil
}
