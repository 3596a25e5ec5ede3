package fts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
)

// Ranking holds the weights of the order search.Best. The candidates are found by BM25
// (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) over the words of
// one owner's messages. The neighbours of a candidate in its conversation become
// candidates, too, and lend each other weight: what a question asks about is often in the
// answer, which does not repeat it.
type Ranking struct {
	Exact  bool    // compare words as they are written, without stems
	Body   float64 // weight of a word as it is written, beside 1 for its stem
	Near   float64 // share of the score of the messages next to it
	Far    float64 // share of the score of the messages next to those
	Asks   float64 // factor for a person's own questions, which state nothing
	Recent float64 // how much the newest candidate gains over the oldest of equal score

	// Window compares a message together with its neighbours, word by word: a neighbour
	// lends a word that the message does not have, and nothing twice.
	Window   bool
	Coverage float64 // how much it matters that all words are there
}

// DefaultRanking was chosen on questions that are not among those with which test/recall
// measures it.
var DefaultRanking = Ranking{Window: true, Body: 0.3, Near: 0.7, Asks: 0.5, Recent: 0.5, Coverage: 1.5}

// Bounds of ranking.
const (
	maxCandidates = 100 // by BM25
	maxWalked     = 14  // candidates whose neighbours are read

	maxWalkedOthers = 6 // the same, of those that only another index has found
)

// candidate is a doc that may be among the hits.
type candidate struct {
	doc
	bm25  float64
	total float64
	next  []byte // the message after it, if it is known
	size  int    // in words
	stems []byte // the hashes of its stems

	hidden bool // it is deleted
	labels int64
}

// place identifies a message in the index.
type place struct {
	space, conv int64
	msg         id.ID
}

func (c *candidate) place() place { return c.beside(c.msg) }

// beside returns the place of another message of the same conversation.
func (c *candidate) beside(msg []byte) place { return place{c.space, c.conv, id.ID(msg)} }

// best returns the hits, best first.
func (s *searchRun) best() ([]doc, error) {
	pool := map[place]*candidate{}
	s.words, s.average = map[int64][]word{}, map[int64]float64{}
	var order []*candidate
	for _, space := range s.spaces {
		find := s.candidates
		if s.ranking.Window {
			find = s.windows
		}
		if s.others != nil && s.others.Only {
			continue
		}
		found, err := find(space)
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
	walked := order[:min(len(order), maxWalked)]
	if s.others != nil {
		others, err := s.found(pool)
		if err != nil {
			return nil, err
		}
		order = append(order, others...)
		walked = slices.Concat(walked, others[:min(len(others), maxWalkedOthers)])
	}
	if s.ranking.Near > 0 && (s.others == nil || !s.others.Only) {
		added, err := s.neighbours(walked, pool)
		if err != nil {
			return nil, err
		}
		order = append(order, added...)
	}
	s.weigh(order, pool)
	return s.sorted(order), nil
}

// found returns the candidates that another index has found and the words have not.
func (s *searchRun) found(pool map[place]*candidate) (out []*candidate, err error) {
	known := map[string]bool{}
	for _, c := range pool {
		known[string(c.key)] = true
	}
	for _, key := range s.others.Keys {
		if known[key] {
			continue
		}
		u, err := resource.FromKey([]byte(key))
		if err != nil {
			return nil, err
		}
		msg := record.IDOf(u, record.TypeMessage)
		for _, space := range s.spaces {
			c, err := s.read(space, "msg = ? AND key = ?", msg[:], []byte(key))
			if err != nil {
				return nil, err
			}
			if c == nil {
				continue
			}
			if there := pool[c.place()]; there == nil {
				words := s.words[space]
				for i := range words {
					c.bm25 += words[i].worth * words[i].share(c)
				}
				c.bm25 *= norm(c.size, s.average[space])
				pool[c.place()] = c
				out = append(out, c)
			}
			break
		}
	}
	return out, nil
}

// candidates returns the docs of a space with the highest BM25.
func (s *searchRun) candidates(space int64) (out []*candidate, err error) {
	table := wordTable(space)
	cond, args := s.filters(space)
	text := "SELECT " + columns + ", d.asks, -bm25(" + table + fmt.Sprintf(", 0, %g, 1) AS score FROM ", s.bodyWeight()) + table +
		" CROSS JOIN " + s.docs(space) + " d ON d.id = " + table + ".rowid CROSS JOIN " + s.convs(space) + " c ON c.id = d.conv WHERE " + table +
		" MATCH ? AND " + cond + " ORDER BY score DESC, d.id DESC LIMIT ?"
	args = slices.Concat([]any{s.match(space, s.any())}, args, []any{maxCandidates})
	err = sqlitex.ExecuteTransient(s.c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
		c := &candidate{doc: rowOf(space, r), bm25: r.ColumnFloat(9)}
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
	steps := 2
	if s.ranking.Far == 0 {
		steps = 1
	}
	for _, c := range order {
		for _, step := range []func(*candidate, map[place]*candidate) (*candidate, error){s.before, s.after} {
			from := c
			for range steps {
				if from, err = step(from, pool); err != nil {
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
	}
	return added, nil
}

func (s *searchRun) quoted() bool {
	return slices.ContainsFunc(s.terms.All, func(g []search.Phrase) bool {
		return !slices.ContainsFunc(g, func(p search.Phrase) bool { return !p.Quoted })
	})
}

// before returns the candidate before another one. A new one has a negative total until it
// is added to the hits.
func (s *searchRun) before(c *candidate, pool map[place]*candidate) (*candidate, error) {
	if id.ID(c.prev).Zero() {
		return nil, nil
	}
	got := pool[c.beside(c.prev)]
	if got == nil {
		var err error
		if got, err = s.read(c.space, "conv = ? AND msg = ?", c.conv, c.prev); err != nil || got == nil {
			return nil, err
		}
		got.total = -1
		pool[got.place()] = got
	}
	got.next = c.msg
	return got, nil
}

// after returns the candidate after another one.
func (s *searchRun) after(c *candidate, pool map[place]*candidate) (*candidate, error) {
	if c.next != nil {
		if got := pool[c.beside(c.next)]; got != nil {
			return got, nil
		}
	}
	got, err := s.read(c.space, "conv = ? AND prev = ?", c.conv, c.msg)
	if err != nil || got == nil {
		return nil, err
	}
	if there := pool[got.place()]; there != nil {
		got = there
	} else {
		got.total = -1
		pool[got.place()] = got
	}
	c.next = got.msg
	return got, nil
}

// weigh sets the scores of candidates.
func (s *searchRun) weigh(order []*candidate, pool map[place]*candidate) {
	behind := map[place]*candidate{} // the message after a place
	for _, c := range pool {
		if prev := id.ID(c.prev); !prev.Zero() {
			at := c.beside(c.prev)
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
	for _, c := range order {
		near := [2]*candidate{pool[c.beside(c.prev)], behind[c.place()]}
		var far [2]*candidate
		if near[0] != nil {
			far[0] = pool[near[0].beside(near[0].prev)]
		}
		if near[1] != nil {
			far[1] = behind[near[1].place()]
		}
		if s.ranking.Window {
			c.total = s.window(c, near, far)
		} else {
			c.total = c.bm25 + s.ranking.Near*max(bm25(near[0]), bm25(near[1])) + s.ranking.Far*max(bm25(far[0]), bm25(far[1]))
		}
		if c.asks && s.ranking.Asks > 0 {
			c.total *= s.ranking.Asks
		}
	}
}

// recentNear is the share of the best score from which on newer candidates are preferred.
const recentNear = 0.5

// sorted returns the hits, best first.
func (s *searchRun) sorted(order []*candidate) []doc {
	type ranked struct {
		*candidate
		*search.Place
	}
	var all []ranked
	var places []*search.Place
	for i := len(order) - 1; i >= 0; i-- { // older ones first among those of one time
		c := order[i]
		p := &search.Place{Key: string(c.key), At: c.at, Asks: c.asks, Score: c.total}
		if s.others != nil && s.others.Only && !slices.Contains(s.others.Keys, p.Key) {
			continue
		}
		all, places = append(all, ranked{c, p}), append(places, p)
	}
	search.PreferNewer(places, s.ranking.Recent, recentNear)
	if s.others != nil {
		s.others.Weigh(places)
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.id, a.id)) })
	if s.others != nil { // what stands around a hit of the other index need not be one
		all = slices.DeleteFunc(all, func(r ranked) bool { return r.Score <= 0 })
	}
	all = all[:min(len(all), search.MaxRanked)]
	best := 0.0 // of what is shown for this hit and the following ones
	for _, r := range slices.Backward(all) {
		if s.others == nil {
			r.Shown = r.Score / max(all[0].Score, 1e-9)
		}
		best = max(best, min(r.Shown, 1))
		r.score = best
	}
	var out []doc
	for _, r := range all {
		if r.score < s.q.Threshold {
			break
		}
		out = append(out, r.doc)
	}
	return out
}
