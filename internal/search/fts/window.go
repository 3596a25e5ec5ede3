package fts

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/search"
)

// word is a word, or a phrase, of the query in one space.
type word struct {
	worth float64 // its inverse document frequency
	must  bool
	is    string            // the condition in FTS5's query language
	stems []uint32          // the hashes of its stems
	docs  map[int64]float64 // which docs are known to have it, and how much it counts there: less if only as written

	count  float64 // about how many docs have it
	oldest int64   // the last doc that was read of its list; 0: its list was read to the end
}

// share returns how much a word counts in a message.
func (w *word) share(c *candidate) float64 {
	share := w.docs[c.id]
	for i := 0; i+4 <= len(c.stems) && share < 1; i += 4 {
		if slices.Contains(w.stems, binary.LittleEndian.Uint32(c.stems[i:])) {
			share = 1
		}
	}
	return share
}

// The parameters of BM25. A word counts once in a message, however often it occurs: few
// messages repeat themselves, and those that do are lists.
const (
	saturation  = 1.2
	lengthShare = 0.4
)

// Bounds of what is read of the lists of words, newest docs first. A frequent word says
// little by itself: its list is read in part. Which docs have two such words is asked of
// FTS5, and whether a candidate has one is known from the candidate itself.
const (
	fewPostings   = 200    // of a word
	manyPostings  = 3_000  // of a word, with filters that a list does not know
	sparse        = 32     // of the stems: fewer, and the word is also looked for as it is written
	maxPairs      = 3      // of frequent words
	maxPaired     = 10_000 // docs of the rarer word of a pair that are compared, about
	maxRead       = 100    // docs that are read to find maxCandidates
	maxReadFilter = 5_000  // the same, with filters that a list does not know
)

// statistics are those of a space.
type statistics struct {
	docs, average float64 // how many docs it has, and their average length
	first, last   int64   // doc; zero until they are needed
}

// windows returns the docs of a space in which the words occur that are worth most.
func (s *searchRun) windows(space int64) ([]*candidate, error) {
	st, err := s.statistics(space)
	if err != nil {
		return nil, err
	}
	s.average[space] = st.average
	words := s.wordsOf()
	must := ""
	for _, w := range words {
		if w.must {
			must += " AND (" + w.is + ")"
		}
	}
	for i := range words {
		if err := s.list(space, st, &words[i], s.terms.All[i], must); err != nil {
			return nil, err
		}
	}
	if err := s.pairs(space, st, words, must); err != nil {
		return nil, err
	}
	s.words[space] = words
	return s.top(space, words, st.average)
}

// wordsOf returns the words of the query.
func (s *searchRun) wordsOf() (words []word) {
	for _, group := range s.terms.All {
		w := word{must: true, docs: map[int64]float64{}, is: "body:(" + choice(group) + ")"}
		var stems []string
		for _, p := range group {
			w.must = w.must && p.Quoted
			for _, stem := range p.Stems {
				stems = append(stems, `"`+stem+`"`)
				w.stems = append(w.stems, hashOf(stem))
			}
		}
		if len(stems) > 0 {
			w.is = "stem:(" + strings.Join(stems, " OR ") + ")"
		}
		words = append(words, w)
	}
	return words
}

// list reads the list of a word, and what the word is worth.
func (s *searchRun) list(space int64, st *statistics, w *word, group []search.Phrase, must string) error {
	most := fewPostings
	if s.filtered() {
		most = manyPostings
	}
	n, until, err := s.postings(space, w.is+must, math.MinInt64, math.MaxInt64, most, func(d int64) { w.docs[d] = 1 })
	if err != nil {
		return err
	}
	if n < sparse && len(w.stems) > 0 && s.ranking.Body > 0 {
		_, _, err := s.postings(space, "body:("+choice(group)+")"+must, math.MinInt64, math.MaxInt64, most, func(d int64) { w.docs[d] = max(w.docs[d], s.ranking.Body) })
		if err != nil {
			return err
		}
	}
	w.count = float64(len(w.docs))
	if n == most {
		w.oldest = until
		if err := s.extent(space, st); err != nil {
			return err
		}
		// A word of which only the newest docs were read is taken to be as frequent before.
		w.count = min(w.count*float64(st.last-st.first+1)/float64(st.last-until+1), st.docs)
	}
	w.worth = math.Log(1 + (max(st.docs, w.count)-w.count+0.5)/(w.count+0.5))
	return nil
}

// filtered reports whether the query has filters that a list does not know.
func (s *searchRun) filtered() bool {
	return s.q.Agent != "" || s.q.Labels != 0 || s.q.Without != 0
}

// pairs adds the older docs that have two frequent words of the rarest of them.
func (s *searchRun) pairs(space int64, st *statistics, words []word, must string) error {
	var cut []*word
	for i := range words {
		if words[i].oldest != 0 {
			cut = append(cut, &words[i])
		}
	}
	slices.SortStableFunc(cut, func(a, b *word) int { return cmp.Compare(b.worth, a.worth) })
	n := 0
	for j := range cut {
		for i := range j {
			if n++; n > maxPairs {
				return nil
			}
			a, b := cut[i], cut[j]
			from := st.last - int64(float64(st.last-st.first)*min(1, maxPaired/a.count))
			_, _, err := s.postings(space, "("+a.is+") AND ("+b.is+")"+must, from, max(a.oldest, b.oldest), fewPostings, func(d int64) { a.docs[d], b.docs[d] = 1, 1 })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// statistics returns those of a space.
func (s *searchRun) statistics(space int64) (*statistics, error) {
	st := &statistics{}
	err := sqlitex.Execute(s.c, "SELECT docs, size FROM space WHERE id = ?", &sqlitex.ExecOptions{Args: []any{space}, ResultFunc: func(r *sqlite.Stmt) error {
		st.docs = r.ColumnFloat(0)
		st.average = max(1, r.ColumnFloat(1)/max(1, st.docs))
		return nil
	}})
	return st, err
}

// extent reads the first and the last doc of a space.
func (s *searchRun) extent(space int64, st *statistics) error {
	if st.last != 0 {
		return nil
	}
	return sqlitex.Execute(s.c, fmt.Sprintf("SELECT (SELECT min(id) FROM doc_%[1]d), (SELECT max(id) FROM doc_%[1]d)", space),
		&sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
			st.first, st.last = r.ColumnInt64(0), r.ColumnInt64(1)
			return nil
		}})
}

// postings calls note with the newest docs between two numbers that match a condition. It
// returns how many there were, and the last one.
func (s *searchRun) postings(space int64, is string, from, to int64, most int, note func(int64)) (n int, until int64, err error) {
	table := wordTable(space)
	if !s.q.Since.IsZero() {
		from = max(from, rankOf(s.q.Since))
	}
	if !s.q.Until.IsZero() {
		to = min(to, s.above())
	}
	// Bounds and a limit make SQLite prepare the statement again.
	text, args := "SELECT rowid FROM "+table+" WHERE "+table+" MATCH ?", []any{s.match(space, is)}
	if from > math.MinInt64 {
		text, args = text+" AND rowid >= ?", append(args, from)
	}
	if to < math.MaxInt64 {
		text, args = text+" AND rowid < ?", append(args, to)
	}
	st, err := s.c.Prepare(text + " ORDER BY rowid DESC")
	if err != nil {
		return 0, 0, err
	}
	err = rows(st, args, func() bool {
		until = st.ColumnInt64(0)
		note(until)
		n++
		return n < most
	})
	return n, until, err
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
		ids = append(ids, d)
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(b, a)) })
	most := maxRead
	if s.filtered() {
		most = maxReadFilter
	}
	for _, d := range ids[:min(len(ids), most)] {
		c, err := s.read(space, "id = ?", d)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		for i := range words {
			c.bm25 += words[i].worth * words[i].share(c)
		}
		c.bm25 *= norm(c.size, average)
		out = append(out, c)
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
	words := s.words[c.space]
	for i := range words {
		w := &words[i]
		at := w.share(c)
		for i := range near {
			if n := near[i]; n != nil && at < s.ranking.Near {
				at = max(at, s.ranking.Near*w.share(n))
			}
			if f := far[i]; f != nil && at < s.ranking.Far {
				at = max(at, s.ranking.Far*w.share(f))
			}
		}
		sum += w.worth * at
		all += w.worth
		covered += w.worth * min(1, at)
	}
	if all == 0 {
		return 0
	}
	return sum * norm(c.size, s.average[c.space]) * math.Pow(covered/all, s.ranking.Coverage)
}
