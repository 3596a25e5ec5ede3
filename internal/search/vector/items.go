package vector

import (
	"context"

	"zombiezen.com/go/sqlite"

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
	if err := x.freshenLexical(ctx); err != nil {
		return search.ItemPage{}, err
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

// maxFresh is how many entries of the log a query reads at most before it searches.
const maxFresh = 10_000

// freshenLexical embeds the newest messages before a search, while Follow runs, if that asks
// no model and is quickly done.
func (x *Index) freshenLexical(ctx context.Context) error {
	if m, _ := x.configured(); !m.Lexical || !x.followed.Load() || len(x.embedding) > 0 {
		return nil
	}
	var behind uint64
	err := x.with(ctx, func(d *database) error {
		return d.read(ctx, func(c *sqlite.Conn) (err error) {
			behind, err = x.behind(ctx, c)
			return err
		})
	})
	if err == nil && 0 < behind && behind <= maxFresh {
		if err = x.CatchUp(ctx); err == nil {
			_, err = x.embed(ctx, false)
		}
	}
	return err
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
