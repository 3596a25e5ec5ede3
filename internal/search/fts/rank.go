package fts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/id"
	"steward/internal/search"
)

// Ranking holds the weights of the order search.Best. FTS5 finds the candidates by BM25
// over the words of one owner's messages. The neighbours of a candidate in its
// conversation become candidates, too, and lend each other weight: what a question asks
// about is often in the answer, which does not repeat it.
type Ranking struct {
	Exact  bool    // compare words as they are written, without stems
	Body   float64 // weight of a word as it is written, beside 1 for its stem
	Near   float64 // share of the score of the messages next to it
	Far    float64 // share of the score of the messages next to those
	Asks   float64 // factor for a person's own questions, which state nothing
	Recent float64 // how much the newest candidate gains over the oldest of equal score
}

// DefaultRanking was chosen on questions that are not among those with which test/recall
// measures it.
var DefaultRanking = Ranking{Body: 0.3, Near: 0.3, Far: 0.1, Asks: 0.7, Recent: 0.15}

// Bounds of ranking.
const (
	maxCandidates = search.MaxRanked // by BM25
	maxWalked     = 60               // candidates whose neighbours are read
)

// candidate is a doc that may be among the hits.
type candidate struct {
	doc
	bm25  float64
	total float64
	next  []byte // the message after it, if it is known
}

// place identifies a message in the index.
type place struct {
	conv int64
	msg  id.ID
}

func (c *candidate) place() place { return place{c.conv, id.ID(c.msg)} }

// best returns the hits, best first.
func (s *searchRun) best() ([]doc, error) {
	pool := map[place]*candidate{}
	var order []*candidate
	for _, space := range s.spaces {
		found, err := s.candidates(space)
		if err != nil {
			return nil, err
		}
		order = append(order, found...)
	}
	slices.SortStableFunc(order, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.bm25, a.bm25), cmp.Compare(b.id, a.id))
	})
	order = order[:min(len(order), maxCandidates)]
	for _, c := range order {
		pool[c.place()] = c
	}
	if s.ranking.Near > 0 {
		added, err := s.neighbours(order, pool)
		if err != nil {
			return nil, err
		}
		order = append(order, added...)
	}
	return s.weigh(order, pool), nil
}

// candidates returns the docs of a space with the highest BM25.
func (s *searchRun) candidates(space int64) (out []*candidate, err error) {
	table := wordTable(space)
	cond, args := s.filters(space)
	text := "SELECT " + columns + ", d.asks, -bm25(" + table + fmt.Sprintf(", 0, %g, 1) AS score FROM ", s.bodyWeight()) + table +
		" CROSS JOIN doc d ON d.id = " + table + ".rowid CROSS JOIN conv c ON c.id = d.conv WHERE " + table + " MATCH ? AND " + cond +
		" ORDER BY score DESC, d.id DESC LIMIT ?"
	args = slices.Concat([]any{s.match(s.any())}, args, []any{maxCandidates})
	err = sqlitex.ExecuteTransient(s.c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
		c := &candidate{doc: rowOf(r), bm25: r.ColumnFloat(9)}
		c.asks = r.ColumnBool(8)
		out = append(out, c)
		return nil
	}})
	return out, err
}

func (s *searchRun) bodyWeight() float64 {
	if s.ranking.Exact {
		return 1
	}
	return s.ranking.Body
}

// any returns the condition that a word occurs, and that all quoted phrases do.
func (s *searchRun) any() string {
	var some, must []string
	for _, group := range s.terms.All {
		quoted := true
		var stems []string
		for _, p := range group {
			quoted = quoted && p.Quoted
			for _, stem := range p.Stems {
				stems = append(stems, `"`+stem+`"`)
			}
		}
		text := "body:(" + choice(group) + ")"
		if len(stems) > 0 {
			text = "(stem:(" + strings.Join(stems, " OR ") + ") OR " + text + ")"
		}
		if quoted {
			must = append(must, text)
		}
		some = append(some, text)
	}
	if len(must) > 0 {
		return "(" + strings.Join(some, " OR ") + ") AND " + strings.Join(must, " AND ")
	}
	return strings.Join(some, " OR ")
}

// neighbours links the best candidates with their neighbours, and returns those that were
// not candidates yet. Filters by words cannot be applied to them, so with such filters
// none are added.
func (s *searchRun) neighbours(order []*candidate, pool map[place]*candidate) (added []*candidate, err error) {
	add := s.q.Role == "" && s.q.Tool == "" && len(s.terms.None) == 0 && !s.quoted()
	for _, c := range order[:min(len(order), maxWalked)] {
		from := c
		for range 2 {
			if from, err = s.neighbour(from, "d.conv = ? AND d.msg = ?", id.ID(from.prev), pool); err != nil {
				return nil, err
			}
			if from == nil {
				break
			}
			if add && from.total < 0 {
				from.total = 0
				added = append(added, from)
			}
		}
		from = c
		for range 2 {
			if from, err = s.neighbour(from, "d.conv = ? AND d.prev = ?", id.ID(from.msg), pool); err != nil {
				return nil, err
			}
			if from == nil {
				break
			}
			if add && from.total < 0 {
				from.total = 0
				added = append(added, from)
			}
		}
	}
	return added, nil
}

func (s *searchRun) quoted() bool {
	return slices.ContainsFunc(s.terms.All, func(g []search.Phrase) bool {
		return !slices.ContainsFunc(g, func(p search.Phrase) bool { return !p.Quoted })
	})
}

// neighbour returns the candidate before or after another one. A new one has a negative
// total until it is added to the hits.
func (s *searchRun) neighbour(from *candidate, is string, msg id.ID, pool map[place]*candidate) (*candidate, error) {
	if msg.Zero() {
		return nil, nil
	}
	before := strings.HasSuffix(is, "d.msg = ?")
	at := place{from.conv, msg}
	if !before && from.next != nil {
		at.msg = id.ID(from.next)
	}
	if before || from.next != nil {
		if c, ok := pool[at]; ok {
			if before {
				c.next = from.msg
			}
			return c, nil
		}
	}
	var got *candidate
	cond, args := s.filtersOfPool()
	err := sqlitex.Execute(s.c, "SELECT "+columns+", d.asks FROM doc d JOIN conv c ON c.id = d.conv WHERE "+is+" AND "+cond+" ORDER BY d.id DESC LIMIT 1",
		&sqlitex.ExecOptions{Args: append([]any{from.conv, msg[:]}, args...), ResultFunc: func(r *sqlite.Stmt) error {
			got = &candidate{doc: rowOf(r), total: -1}
			got.asks = r.ColumnBool(8)
			return nil
		}})
	if err != nil || got == nil {
		return nil, err
	}
	if c, ok := pool[got.place()]; ok {
		got = c
	} else {
		pool[got.place()] = got
	}
	if before {
		got.next = from.msg
	} else {
		from.next = got.msg
	}
	return got, nil
}

// filtersOfPool returns the filters for docs of all spaces of the scope.
func (s *searchRun) filtersOfPool() (string, []any) {
	cond, args := s.filters(0)
	in, spaces := s.inSpaces("d.space")
	return strings.Replace(cond, "d.space = ?", in, 1), slices.Concat(spaces, args[1:])
}

// weigh returns the hits, best first.
func (s *searchRun) weigh(order []*candidate, pool map[place]*candidate) []doc {
	behind := map[place]*candidate{} // the message after a place
	for _, c := range pool {
		if prev := id.ID(c.prev); !prev.Zero() {
			at := place{c.conv, prev}
			if b := behind[at]; b == nil || b.id < c.id {
				behind[at] = c
			}
		}
	}
	bm25 := func(c *candidate) float64 {
		if c == nil {
			return 0
		}
		return c.bm25
	}
	top := 0.0
	for _, c := range order {
		before, after := pool[place{c.conv, id.ID(c.prev)}], behind[c.place()]
		c.total = c.bm25 + s.ranking.Near*max(bm25(before), bm25(after))
		far := 0.0
		if before != nil {
			far = max(far, bm25(pool[place{c.conv, id.ID(before.prev)}]))
		}
		if after != nil {
			far = max(far, bm25(behind[after.place()]))
		}
		c.total += s.ranking.Far * far
		if c.asks && s.ranking.Asks > 0 {
			c.total *= s.ranking.Asks
		}
		top = max(top, c.total)
	}
	s.prefer(order, top)
	slices.SortStableFunc(order, func(a, b *candidate) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(b.id, a.id)) })
	var out []doc
	for _, c := range order[:min(len(order), search.MaxRanked)] {
		c.score = 1
		if best := order[0].total; best > 0 {
			c.score = c.total / best
		}
		if c.score < s.q.Threshold {
			break
		}
		out = append(out, c.doc)
	}
	return out
}

// prefer raises newer ones among the candidates that are nearly as good as the best: if a
// statement was corrected, the correction is what still holds.
func (s *searchRun) prefer(order []*candidate, top float64) {
	if s.ranking.Recent <= 0 {
		return
	}
	var good []*candidate
	for _, c := range order {
		if c.total >= top/2 {
			good = append(good, c)
		}
	}
	slices.SortFunc(good, func(a, b *candidate) int { return cmp.Compare(a.id, b.id) })
	for i, c := range good {
		c.total *= 1 + s.ranking.Recent*float64(i+1)/float64(len(good))
	}
}
