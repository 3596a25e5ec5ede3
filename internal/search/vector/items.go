package vector

import (
	"context"

	"steward/internal/fault"
	"steward/internal/llm/tokens"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/store"
)

var _ search.Vectors = (*Index)(nil)

// QueryItems implements search.Vectors. The text of each message is read from the store, in
// the same scope.
func (x *Index) QueryItems(ctx context.Context, sc store.Scope, q search.ItemQuery) (search.ItemPage, error) {
	if err := q.Check(); err != nil {
		return search.ItemPage{}, err
	}
	if q.Limit <= 0 {
		q.Limit = search.DefaultItems
	}
	answer, err := x.Nearest(ctx, sc, Query{Text: q.Text, Vector: q.Vector, Model: q.Model, Conversation: q.Conversation, Role: q.Role,
		Since: q.Since, Until: q.Until, Except: q.Except, Threshold: q.Threshold, Limit: min(q.Limit, search.MaxLimit), pieces: true})
	if err != nil {
		return search.ItemPage{}, err
	}
	out := search.ItemPage{Models: answer.Models, Behind: answer.Behind}
	switch {
	case answer.Semantic:
		out.By = search.BySemantic
	case len(answer.Models) > 0:
		out.By = search.ByLexical
	}
	var total int64
	for i := range answer.Matches {
		item, err := x.item(ctx, sc, &answer.Matches[i])
		if fault.Is(err, fault.NotFound) {
			continue // erased since the index was read
		}
		if err != nil {
			return search.ItemPage{}, err
		}
		if total += item.Tokens; q.MaxTokens > 0 && total > q.MaxTokens {
			break
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// item reads the message of a match.
func (x *Index) item(ctx context.Context, sc store.Scope, m *Match) (search.Item, error) {
	res, err := x.opt.Store.Get(ctx, sc, m.URI)
	if err != nil {
		return search.Item{}, err
	}
	msg, err := record.DecodeMessage(m.URI, res.Body)
	if err != nil {
		return search.Item{}, err
	}
	doc := search.Read(msg)
	out := search.Item{URI: m.URI, Score: min(m.Score, 1), Conversation: record.IDOf(m.URI, record.TypeConversation), Interaction: record.IDOf(m.URI, record.TypeInteraction),
		Message: record.IDOf(m.URI, record.TypeMessage), Seq: m.Seq, Role: msg.Role, At: m.At, Labels: doc.Labels,
		Tokens: tokens.Estimate(doc.Text)}
	if at := places(doc.Text); m.piece < len(at) {
		out.Place = at[m.piece]
		out.Text = search.First(doc.Text[out.Place.From:out.Place.To])
	}
	return out, nil
}
