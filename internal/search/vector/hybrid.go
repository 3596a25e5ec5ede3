package vector

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/store"
)

var _ search.Index = (*Hybrid)(nil)

// Hybrid is a search.Index that finds messages by their words and by their vectors, and
// merges the two answers by reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): a
// message gets 1/(1+rank) for its place in each. Only ranks count, so the similarities of
// the two need not be comparable. Their constant is 60; with few places merged, 1 lets the
// first ones of each answer stay in front.
//
// In both answers newer messages are preferred among nearly equal ones, and a person's
// questions count less. The index of words applies all filters, also to what only vectors
// find.
type Hybrid struct {
	Text    search.Words
	Vectors *Index
	Weights Weights // zero: DefaultWeights
	Log     *slog.Logger
}

// Weights are what a place among the vectors counts, beside 1 for the same place among the
// words.
type Weights struct {
	Semantic float64 // vectors of an embedding model
	Lexical  float64 // vectors made of words
}

// DefaultWeights let the words lead where vectors know no more than words.
var DefaultWeights = Weights{Semantic: 1, Lexical: 0.3}

// Of fusion. They were chosen on questions that are not among those with which test/recall
// measures them.
const (
	fusionRank   = 1   // the constant of reciprocal rank fusion
	fusionDepth  = 40  // places among the vectors
	fusionAsks   = 0.5 // factor for a person's own questions
	fusionRecent = 0.5 // how much the newest one gains among those that are nearly as similar as the best
	fusionNear   = 0.8 // from this share of the best similarity on

	// fusionLeast is the least similarity of a message that is found by its vector. Below,
	// texts that have nothing to do with each other are as similar.
	fusionLeast = 0.2
)

// Search implements search.Index. If the embedding model cannot be asked, the answer is
// that of the words alone, and Page.Notice says so.
func (h *Hybrid) Search(ctx context.Context, sc store.Scope, q search.Query) (search.Page, error) {
	if err := q.Mode.Check(); err != nil {
		return search.Page{}, err
	}
	if q.Mode == search.ByText || q.Ordered() != search.Best || !q.Message.Zero() {
		return h.Text.Search(ctx, sc, q)
	}
	if q.Mode == search.ByVectors && q.Tool != "" {
		return search.Page{}, fault.New(fault.Unsupported, "mode_unsupported", "vectors are not searched by tool").WithHint("use the mode hybrid")
	}
	terms, err := search.Parse(q.Text)
	if err != nil {
		return search.Page{}, err
	}
	if len(terms.None) > 0 || slices.ContainsFunc(terms.All, quoted) {
		page, err := h.Text.Search(ctx, sc, q)
		if q.Mode != "" {
			page.Notice = "quoted and excluded words are searched by words alone"
		}
		return page, err
	}
	return h.both(ctx, sc, q)
}

// quoted reports whether one of the phrases must occur as it is.
func quoted(group []search.Phrase) bool {
	return slices.ContainsFunc(group, func(p search.Phrase) bool { return p.Quoted })
}

// QueryItems implements search.Vectors.
func (h *Hybrid) QueryItems(ctx context.Context, sc store.Scope, q search.ItemQuery) (search.ItemPage, error) {
	return h.Vectors.QueryItems(ctx, sc, q)
}

// CatchUp implements search.Index.
func (h *Hybrid) CatchUp(ctx context.Context) error {
	if err := h.Text.CatchUp(ctx); err != nil {
		return err
	}
	return h.Vectors.CatchUp(ctx)
}

// Follow implements search.Index.
func (h *Hybrid) Follow(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { h.Text.Follow(ctx) })
	loops.Go(func() { h.Vectors.Follow(ctx) })
	loops.Wait()
}

// both searches by vectors, and then among what these and the words find.
func (h *Hybrid) both(ctx context.Context, sc store.Scope, q search.Query) (search.Page, error) {
	var answer Answer
	var out search.Page
	var err error
	if q.Tool == "" {
		answer, err = h.Vectors.Nearest(ctx, sc, Query{Text: q.Text, Conversation: q.Conversation, Role: q.Role,
			Since: q.Since, Until: q.Until, Except: q.Except, Limit: fusionDepth, Threshold: fusionLeast})
	}
	switch {
	case err != nil && (q.Mode == search.ByVectors || ctx.Err() != nil):
		return search.Page{}, err
	case err != nil:
		if h.Log != nil {
			h.Log.Warn("searched without vectors", "error", err)
		}
		out.Notice = "only words were searched: " + fault.Of(err).Error()
	}
	weight := cmp.Or(h.Weights, DefaultWeights).Semantic
	if len(answer.Models) > 0 {
		out.By = search.BySemantic
	}
	if len(answer.Models) > 0 && !answer.Semantic {
		out.By, weight = search.ByLexical, cmp.Or(h.Weights, DefaultWeights).Lexical
	}
	others := &search.Others{Only: q.Mode == search.ByVectors}
	similar := map[string]float64{} // by key
	for _, m := range answer.Matches {
		key := string(m.URI.Key())
		others.Keys = append(others.Keys, key)
		similar[key] = m.Score
	}
	others.Weigh = func(found []*search.Place) {
		if others.Only {
			for _, p := range found {
				p.Score, p.Shown = similar[p.Key], similar[p.Key]
			}
			return
		}
		fuse(found, similar, weight)
	}
	page, err := h.Text.SearchWith(ctx, sc, q, others)
	if err != nil {
		return search.Page{}, err
	}
	page.By, page.Notice, page.Behind = out.By, out.Notice, max(page.Behind, answer.Behind)
	return page, nil
}

// fuse scores messages by their places among the words and among the vectors. What is shown
// is the better of the two scores, each compared with the best of its kind.
func fuse(found []*search.Place, similar map[string]float64, weight float64) {
	near := make([]*search.Place, len(found))
	for i, p := range found {
		n := *p
		n.Score = similar[p.Key]
		if p.Asks {
			n.Score *= fusionAsks
		}
		near[i] = &n
	}
	search.PreferNewer(near, fusionRecent, fusionNear)
	words, vectors := shares(found), shares(near)
	for i, p := range found {
		p.Score = words[i].fused + weight*vectors[i].fused
		p.Shown = max(words[i].relative, vectors[i].relative)
	}
}

// share is what a place in one answer is worth.
type share struct {
	fused, relative float64
}

// shares returns those of places in the order of their scores. What has no score is not in
// the answer.
func shares(found []*search.Place) []share {
	order := make([]int, 0, len(found))
	for i, p := range found {
		if p.Score > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(found[b].Score, found[a].Score), found[b].At.Compare(found[a].At))
	})
	out := make([]share, len(found))
	for rank, i := range order {
		out[i] = share{1 / float64(fusionRank+1+rank), found[i].Score / found[order[0]].Score}
	}
	return out
}
