package fts

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// word is a word, or a phrase, of the query in one space.
type word struct {
	worth float64 // its inverse document frequency
	must  bool
	docs  map[int64]float64 // which docs have it, and how much it counts there: less if only as written
}

// The parameters of BM25. A word counts once in a message, however often it occurs: few
// messages repeat themselves, and those that do are lists.
const (
	saturation  = 1.2
	lengthShare = 0.4
)

// Bounds of how many docs of a word are read, newest first. A word that more docs have
// says little.
const (
	maxPostings = 16_000 // of all words together
	minPostings = 1_000  // of each
)

// windows returns the docs of a space in which the words occur that are worth most.
func (s *searchRun) windows(space int64) ([]*candidate, error) {
	total, average, err := s.statistics(space)
	if err != nil {
		return nil, err
	}
	s.average = max(s.average, average)
	first := len(s.words)
	most := max(minPostings, maxPostings/max(1, len(s.terms.All)))
	for _, group := range s.terms.All {
		w := word{must: true, docs: map[int64]float64{}}
		var stems []string
		for _, p := range group {
			w.must = w.must && p.Quoted
			for _, stem := range p.Stems {
				stems = append(stems, `"`+stem+`"`)
			}
		}
		oldest := int64(math.MinInt64)
		note := func(until int64, err error) error { // a list that was read in part ends at a doc
			oldest = max(oldest, until)
			return err
		}
		if len(stems) > 0 {
			if err := note(s.postings(space, w.docs, "stem:("+strings.Join(stems, " OR ")+")", 1, most)); err != nil {
				return nil, err
			}
		}
		if written := s.ranking.Body; len(stems) == 0 || written > 0 {
			if len(stems) == 0 {
				written = 1
			}
			if err := note(s.postings(space, w.docs, "body:("+choice(group)+")", written, most)); err != nil {
				return nil, err
			}
		}
		n := float64(len(w.docs))
		if oldest > math.MinInt64 {
			more, err := s.stretch(oldest)
			if err != nil {
				return nil, err
			}
			n = min(n*more, total)
		}
		w.worth = math.Log(1 + (max(total, n)-n+0.5)/(n+0.5))
		s.words = append(s.words, w)
	}
	return s.top(space, s.words[first:], average)
}

// statistics returns how many docs a space has, and their average length.
func (s *searchRun) statistics(space int64) (docs, average float64, err error) {
	err = sqlitex.Execute(s.c, "SELECT docs, size FROM space WHERE id = ?", &sqlitex.ExecOptions{Args: []any{space}, ResultFunc: func(r *sqlite.Stmt) error {
		docs = r.ColumnFloat(0)
		average = r.ColumnFloat(1) / max(1, docs)
		return nil
	}})
	return docs, max(1, average), err
}

// stretch returns how many times as long as the time since a doc the time since the first
// doc is. A word of which only the newest docs were read is taken to be as frequent before.
func (s *searchRun) stretch(since int64) (more float64, err error) {
	more = 1
	err = sqlitex.Execute(s.c, "SELECT (SELECT min(id) FROM doc), (SELECT max(id) FROM doc)", &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
		first, last := r.ColumnFloat(0), r.ColumnFloat(1)
		more = (last - first + 1) / (last - float64(since) + 1)
		return nil
	}})
	return more, err
}

// postings notes the docs that match a condition. It returns the oldest one if there may be
// more.
func (s *searchRun) postings(space int64, docs map[int64]float64, is string, weight float64, most int) (until int64, err error) {
	until = math.MinInt64
	n := 0
	table := wordTable(space)
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !s.q.Since.IsZero() {
		from = rankOf(s.q.Since)
	}
	err = sqlitex.Execute(s.c, "SELECT rowid FROM "+table+" WHERE "+table+" MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?",
		&sqlitex.ExecOptions{Args: []any{s.match(is), from, to, most}, ResultFunc: func(r *sqlite.Stmt) error {
			d := r.ColumnInt64(0)
			docs[d] = max(docs[d], weight)
			if n++; n == most {
				until = d
			}
			return nil
		}})
	return until, err
}

// top reads the docs in which the words are worth most, as far as the filters admit them.
func (s *searchRun) top(space int64, words []word, average float64) (out []*candidate, err error) {
	sums := map[int64]float64{}
	for _, w := range words {
		for d, share := range w.docs {
			sums[d] += w.worth * share
		}
	}
	ids := make([]int64, 0, len(sums))
	for d := range sums {
		if !slices.ContainsFunc(words, func(w word) bool { return w.must && w.docs[d] == 0 }) {
			ids = append(ids, d)
		}
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(b, a)) })
	cond, args := s.filters(space)
	args = append([]any{int64(0)}, args...)
	for _, d := range ids {
		if len(out) == maxCandidates {
			break
		}
		args[0] = d
		err := sqlitex.Execute(s.c, "SELECT "+columns+", d.asks, d.size FROM doc d JOIN conv c ON c.id = d.conv WHERE d.id = ? AND "+cond,
			&sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
				c := &candidate{doc: rowOf(r), size: r.ColumnInt(9)}
				c.asks = r.ColumnBool(8)
				c.bm25 = sums[d] * norm(c.size, average)
				out = append(out, c)
				return nil
			}})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// norm is what remains of the worth of a word in a message of a length.
func norm(size int, average float64) float64 {
	return (saturation + 1) / (1 + saturation*(1-lengthShare+lengthShare*float64(size)/average))
}

// window returns the score of a message with its neighbours. Each word counts once, where
// it counts most.
func (s *searchRun) window(c *candidate, near, far [2]*candidate) float64 {
	var sum, covered, all float64
	for _, w := range s.words {
		at := w.docs[c.id]
		for i := range near {
			if n := near[i]; n != nil {
				at = max(at, s.ranking.Near*w.docs[n.id])
			}
			if f := far[i]; f != nil {
				at = max(at, s.ranking.Far*w.docs[f.id])
			}
		}
		sum += w.worth * at
		all += w.worth
		covered += w.worth * min(1, at)
	}
	if all == 0 {
		return 0
	}
	return sum * norm(c.size, s.average) * math.Pow(covered/all, s.ranking.Coverage)
}
