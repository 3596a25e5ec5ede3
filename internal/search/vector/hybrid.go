package vector

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
)

var _ search.Index = (*Hybrid)(nil)

// Hybrid is a search.Index that finds messages by their words and by their vectors, and
// merges the two answers by reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): a
// message gets 1/(60+rank) for its place in each. Only ranks count, so the similarities of
// the two need not be comparable.
type Hybrid struct {
	Text    search.Index
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

// Of fusion.
const (
	fusionRank  = 60 // the constant of reciprocal rank fusion
	fusionDepth = 60 // places that are merged

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
	if q.Mode == search.ByVectors && (q.Agent != "" || q.Tool != "") {
		return search.Page{}, fault.New(fault.Unsupported, "mode_unsupported", "vectors are not searched by agent or tool").WithHint("use the mode hybrid")
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
	from, more, err := q.Place()
	if err != nil {
		return search.Page{}, err
	}
	if !more {
		from = 0
	}
	f := fusion{h: h, ctx: ctx, sc: sc, q: q}
	if err := f.collect(); err != nil {
		return search.Page{}, err
	}
	return f.page(int(from))
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

// fusion is one search.
type fusion struct {
	h   *Hybrid
	ctx context.Context
	sc  store.Scope
	q   search.Query

	out    search.Page // without hits
	merged []*merged
}

// merged is a message in the merged answer.
type merged struct {
	uri   resource.URI
	score float64
	hit   *search.Hit // nil: only its vector was found
}

// collect asks both indexes and merges their answers.
func (f *fusion) collect() error {
	found := map[resource.URI]*merged{}
	at := func(u resource.URI) *merged {
		m := found[u]
		if m == nil {
			m = &merged{uri: u}
			found[u] = m
			f.merged = append(f.merged, m)
		}
		return m
	}
	if f.q.Mode != search.ByVectors {
		q := f.q
		q.Limit, q.After, q.Threshold, q.Mode = fusionDepth, "", 0, ""
		page, err := f.h.Text.Search(f.ctx, f.sc, q)
		if err != nil {
			return err
		}
		f.out.Behind = page.Behind
		for i := range page.Hits {
			m := at(page.Hits[i].URI)
			m.hit = &page.Hits[i]
			m.score = 1 / float64(fusionRank+1+i)
		}
	}
	answer, err := f.h.Vectors.Nearest(f.ctx, f.sc, Query{Text: f.q.Text, Conversation: f.q.Conversation, Role: f.q.Role,
		Since: f.q.Since, Until: f.q.Until, Except: f.q.Except, Limit: fusionDepth, Threshold: fusionLeast})
	switch {
	case err != nil && (f.q.Mode == search.ByVectors || f.ctx.Err() != nil):
		return err
	case err != nil:
		if f.h.Log != nil {
			f.h.Log.Warn("searched without vectors", "error", err)
		}
		f.out.Notice = "only words were searched: " + fault.Of(err).Error()
	}
	weight := cmp.Or(f.h.Weights, DefaultWeights).Semantic
	if len(answer.Models) > 0 {
		f.out.By = search.BySemantic
	}
	if len(answer.Models) > 0 && !answer.Semantic {
		f.out.By, weight = search.ByLexical, cmp.Or(f.h.Weights, DefaultWeights).Lexical
	}
	f.out.Behind = max(f.out.Behind, answer.Behind)
	for i, n := range answer.Matches {
		if f.q.Mode == search.ByVectors {
			at(n.URI).score = n.Score
		} else {
			at(n.URI).score += weight / float64(fusionRank+1+i)
		}
	}
	slices.SortStableFunc(f.merged, func(a, b *merged) int { return cmp.Compare(b.score, a.score) })
	return nil
}

// page returns the hits from a place on. A message that only its vector found is read by
// the index of words, which also applies the filters that vectors do not know.
func (f *fusion) page(from int) (search.Page, error) {
	size := f.q.PageSize()
	for i := min(from, len(f.merged)); i < len(f.merged); i++ {
		if len(f.out.Hits) == size {
			f.out.Next = f.q.Seal(int64(i))
			break
		}
		m := f.merged[i]
		score := m.score
		if f.q.Mode != search.ByVectors {
			score /= f.merged[0].score
		}
		if f.q.Threshold > 0 && score < f.q.Threshold {
			break
		}
		if m.hit == nil {
			hit, err := f.read(m.uri)
			if err != nil {
				return search.Page{}, err
			}
			if hit == nil {
				continue
			}
			m.hit = hit
		}
		m.hit.Score = min(max(score, 0), 1)
		f.out.Hits = append(f.out.Hits, *m.hit)
	}
	return f.out, nil
}

// read returns a message as a hit, or nil if the filters leave it out. What agents and tools
// it has to do with is known to the words' index only, in its own answer.
func (f *fusion) read(u resource.URI) (*search.Hit, error) {
	if f.q.Agent != "" || f.q.Tool != "" {
		return nil, nil
	}
	q := f.q
	q.After, q.Threshold, q.Mode, q.Limit, q.Around = "", 0, "", 1, 0
	q.Message, q.Conversation = record.IDOf(u, record.TypeMessage), record.IDOf(u, record.TypeConversation)
	page, err := f.h.Text.Search(f.ctx, f.sc, q)
	if err != nil || len(page.Hits) == 0 {
		return nil, err
	}
	own := page.Hits[0].Labels // without those of its neighbours
	if !own.Has(f.q.Labels) || own&f.q.Without != 0 {
		return nil, nil
	}
	if f.q.Around > 0 {
		q.Around = f.q.Around
		if page, err = f.h.Text.Search(f.ctx, f.sc, q); err != nil || len(page.Hits) == 0 {
			return nil, err
		}
	}
	return &page.Hits[0], nil
}
