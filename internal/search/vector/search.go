package vector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
)

// Query says what to search for: Text, or Vector. The other fields narrow the answer; their
// zero values do not.
type Query struct {
	Text   string
	Labels message.Labels // of Text, which a remote model sees
	Vector []float32      // of the spaces' model
	Model  string         // of Vector

	Conversation id.ID
	Role         message.Role
	Since        time.Time
	Until        time.Time
	Except       id.ID   // a message whose whole interaction is left out
	Threshold    float64 // least similarity; zero: any
	Limit        int     // at most MaxLimit; zero means DefaultLimit

	pieces bool // Match.piece is wanted
}

// Bounds of a Query.
const (
	DefaultLimit = 5
	MaxLimit     = 200
	maxQuery     = 8 << 10 // bytes of Text
)

// Match is a message and the similarity of its nearest piece, from -1 to 1.
type Match struct {
	URI   resource.URI
	Seq   uint64
	At    time.Time
	Score float64
	piece int // the number of the nearest piece
}

// Answer is an answer to a Query, best first.
type Answer struct {
	Matches  []Match
	Models   []string // that were searched with
	Semantic bool     // all of them know more than words
	// Behind is the number of log entries and messages that have no vectors yet.
	Behind uint64
}

// Nearest returns the messages in the scope's readable spaces that are most similar to a
// query. Embedding is asynchronous: Answer.Behind says how much is missing. Error codes:
// search_empty, search_too_long, scope_missing, search_unavailable, model_not_allowed,
// embed_dimensions, and those of the model and of the store.
func (x *Index) Nearest(ctx context.Context, sc store.Scope, q Query) (Answer, error) {
	if err := sc.CanRead(); err != nil {
		return Answer{}, err
	}
	switch {
	case q.Text == "" && len(q.Vector) == 0:
		return Answer{}, fault.New(fault.Invalid, "search_empty", "the search has neither a text nor a vector").WithHint("give it one of them")
	case len(q.Text) > maxQuery:
		return Answer{}, fault.New(fault.Invalid, "search_too_long", "the search is too long: it has more than %d bytes", maxQuery)
	case len(q.Vector) > maxDims:
		return Answer{}, fault.New(fault.Invalid, "search_too_long", "the vector has more than %d dimensions", maxDims)
	}
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	q.Limit = min(q.Limit, MaxLimit)
	if err := x.freshen(ctx, sc); err != nil {
		return Answer{}, err
	}
	var out Answer
	err := x.with(ctx, func(d *database) error {
		s := &searching{Index: x, sc: sc, q: &q, vectors: map[string]*quantised{}}
		for {
			s.missing = ""
			err := d.read(ctx, func(c *sqlite.Conn) error {
				out = Answer{Semantic: true}
				return s.search(ctx, c, &out)
			})
			if err != nil || s.missing == "" {
				return err
			}
			if err := s.embedQuery(ctx, s.missing); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return Answer{}, err
	}
	slices.SortStableFunc(out.Matches, byScore)
	out.Matches = out.Matches[:min(len(out.Matches), q.Limit)]
	return out, nil
}

// freshen reads the log before a search, and embeds what the built-in model can. While
// Follow runs, it does so only as far as a search can wait for it: what was said last is
// found, and Follow does the rest.
func (x *Index) freshen(ctx context.Context, sc store.Scope) error {
	m, sure := x.configured()
	if x.followed.Load() {
		if !m.Lexical || sc.All() {
			return nil
		}
		return x.with(ctx, func(d *database) error { return x.freshenSome(ctx, d, sc, m, sure) })
	}
	if err := x.CatchUp(ctx); err != nil {
		return err
	}
	if !m.Lexical {
		return nil
	}
	_, err := x.embed(ctx, false)
	return err
}

// searchSteps is the number of batches of the log, and of batches to embed, that a search
// reads itself while Follow runs.
const searchSteps = 4

func (x *Index) freshenSome(ctx context.Context, d *database, sc store.Scope, m Model, sure bool) error {
	for more, n := true, 0; more && n < searchSteps; n++ {
		var err error
		if more, err = x.step(ctx, d); err != nil {
			return err
		}
	}
	var late []place
	err := d.use(ctx, func(c *sqlite.Conn) error {
		for _, name := range sc.Read {
			var p place
			var upto int64
			const text = "SELECT s.id, s.name, m.name, p.upto FROM space s LEFT JOIN model m ON m.id = s.active LEFT JOIN part p ON p.space = s.id AND p.model = s.active WHERE s.name = ?"
			if err := query(c, text, []any{string(name)}, func(s *sqlite.Stmt) {
				p, upto = place{s.ColumnInt64(0), resource.Space(s.ColumnText(1)), s.ColumnText(2)}, s.ColumnInt64(3)
			}); err != nil {
				return err
			}
			if p.id == 0 || p.active != "" && p.active != m.Name {
				continue
			}
			last, _, err := number(c, fmt.Sprintf("SELECT max(id) FROM doc_%d", p.id))
			if err != nil {
				return err
			}
			if last > upto {
				late = append(late, p)
			}
		}
		return nil
	})
	if err != nil || len(late) == 0 {
		return err
	}
	select {
	case x.embedding <- struct{}{}:
	default:
		return nil // Follow is embedding
	}
	defer func() { <-x.embedding }()
	r := &embedding{Index: x, d: d, want: m, sure: sure, models: map[string]Model{}}
	for i := range late {
		for more, n := true, 0; more && n < searchSteps; n++ {
			if more, err = r.serve(ctx, &late[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// searching is a search in the index.
type searching struct {
	*Index
	sc      store.Scope
	q       *Query
	vectors map[string]*quantised // the query's, by model
	missing string                // a model whose vector of the query is needed
}

// part is what is searched of a space.
type part struct {
	space, id, model, upto int64
	name                   string
	dims                   int
}

// search collects the matches of all spaces. It stops with missing set if the query must be
// embedded first, which is not done within a transaction.
func (s *searching) search(ctx context.Context, c *sqlite.Conn, out *Answer) error {
	behind, err := s.behind(ctx, c)
	if err != nil {
		return err
	}
	out.Behind = behind
	parts, err := s.parts(c)
	if err != nil {
		return err
	}
	for _, p := range parts {
		late, _, err := number(c, fmt.Sprintf("SELECT count(*) FROM doc_%d WHERE id > ?", p.space), p.upto)
		if err != nil {
			return err
		}
		out.Behind += uint64(late)
		if p.dims == 0 {
			continue
		}
		v := s.vectors[p.name]
		switch {
		case v == nil && len(s.q.Vector) > 0:
			if s.q.Model != "" && s.q.Model != p.name || len(s.q.Vector) != p.dims {
				return fault.New(fault.Invalid, "embed_dimensions", "the vector has %d dimensions of the model %q; the messages have vectors of %d dimensions of %s", len(s.q.Vector), s.q.Model, p.dims, p.name).
					WithHint("search by text, or embed the query with that model")
			}
			q := quantise(s.q.Vector)
			v = &q
		case v == nil:
			s.missing = p.name
			return nil
		case len(v.num) != p.dims:
			return fault.New(fault.Unavailable, "embed_dimensions", "%s now returns vectors of %d dimensions instead of %d", p.name, len(v.num), p.dims)
		}
		if !slices.Contains(out.Models, p.name) {
			out.Models = append(out.Models, p.name)
		}
		out.Semantic = out.Semantic && p.name != LexicalName
		found, err := s.searchPart(c, &p, v)
		if err != nil {
			return err
		}
		out.Matches = append(out.Matches, found...)
	}
	out.Semantic = out.Semantic && len(out.Models) > 0
	return nil
}

// parts returns what the scope may read.
func (s *searching) parts(c *sqlite.Conn) (out []part, err error) {
	const text = "SELECT s.id, p.id, p.model, p.upto, m.name, m.dims FROM space s JOIN part p ON p.space = s.id AND p.model = s.active JOIN model m ON m.id = s.active"
	add := func(r *sqlite.Stmt) {
		out = append(out, part{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnText(4), int(r.ColumnInt64(5))})
	}
	if s.sc.All() {
		return out, query(c, text, nil, add)
	}
	for _, sp := range s.sc.Read {
		if err := query(c, text+" WHERE s.name = ?", []any{string(sp)}, add); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// embedQuery computes the query's vector of a model.
func (s *searching) embedQuery(ctx context.Context, name string) error {
	m, err := s.model(name)
	if err != nil {
		return err
	}
	for _, sp := range s.sc.Read {
		if err := s.allow(ctx, m, sp, s.q.Labels); err != nil {
			return err
		}
	}
	if len(s.sc.Read) == 0 {
		if err := s.allow(ctx, m, "", s.q.Labels); err != nil {
			return err
		}
	}
	_, before := search.Prefixes(name)
	v, err := m.Embedder.Embed(ctx, []string{before + s.q.Text})
	if err != nil {
		return err
	}
	if len(v.Values) != 1 || len(v.Values[0]) == 0 || len(v.Values[0]) > maxDims {
		return fault.New(fault.Unavailable, "provider_error", "%s returned no usable vector", name)
	}
	q := quantise(v.Values[0])
	s.vectors[name] = &q
	return nil
}

// searchPart searches one space. It looks at more candidates if many of them are hidden or
// belong to the same messages.
func (s *searching) searchPart(c *sqlite.Conn, p *part, v *quantised) ([]Match, error) {
	f, possible, err := s.filter(c, p.space)
	if err != nil || !possible {
		return nil, err
	}
	in, err := s.cache.partition(c, p.id, p.dims)
	if err != nil {
		return nil, err
	}
	for n := max(candidates, 4*s.q.Limit); ; n *= 8 {
		found, err := s.nearest(c, p, in, v, &f, n)
		if err != nil {
			return nil, err
		}
		out, err := s.matches(c, p, in, found)
		if err != nil || len(out) >= s.q.Limit || len(found) < n || n >= 64*candidates || s.tooFar(found[len(found)-1]) {
			return out, err
		}
	}
}

func (s *searching) tooFar(f scored) bool {
	return s.q.Threshold != 0 && float64(f.score) < s.q.Threshold
}

// filter finds the numbers of the filters in a space. possible is false if nothing can match.
func (s *searching) filter(c *sqlite.Conn, space int64) (f filter, possible bool, err error) {
	if !s.q.Conversation.Zero() {
		n, ok, err := number(c, fmt.Sprintf("SELECT id FROM conv_%d WHERE uid = ?", space), s.q.Conversation[:])
		if err != nil || !ok {
			return f, false, err
		}
		f.conv = uint32(n)
	}
	if s.q.Role != "" {
		if f.role = roleOf(s.q.Role); f.role == 0 {
			return f, false, nil
		}
	}
	if !s.q.Since.IsZero() {
		f.since = s.q.Since.UnixMicro()
	}
	if !s.q.Until.IsZero() {
		f.until = s.q.Until.UnixMicro()
	}
	return f, true, nil
}

// nearest returns the n best rows, or fewer if there are no more.
func (s *searching) nearest(c *sqlite.Conn, p *part, in *partition, v *quantised, f *filter, n int) ([]scored, error) {
	if len(in.rows) <= exactRows {
		return in.exact(v, f, n), nil
	}
	rows := in.near(v.code, f, n)
	found := make([]scored, 0, len(rows))
	if in.nums != nil {
		for _, r := range rows {
			found = append(found, scored{r, v.dot(in.nums[r*in.dims:(r+1)*in.dims], in.scales[r])})
		}
		return best(found, n), nil
	}
	slices.Sort(rows) // the order of the file
	buf, num := make([]byte, in.dims), make([]int8, in.dims)
	text := fmt.Sprintf("SELECT scale, num FROM vec_%d WHERE id = ?", p.id)
	st, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		st.BindInt64(1, in.rows[r].id)
		there, err := st.Step()
		if err != nil {
			return nil, err
		}
		if !there || st.ColumnLen(1) != in.dims {
			return nil, fmt.Errorf("%w (%w)", broken("codes and vectors are not of the same texts"), st.Reset())
		}
		st.ColumnBytes(1, buf)
		for i, b := range buf {
			num[i] = int8(b)
		}
		found = append(found, scored{r, v.dot(num, float32(st.ColumnFloat(0)))})
		if err := st.Reset(); err != nil {
			return nil, err
		}
	}
	return best(found, n), nil
}

// matches returns the messages of rows, each once, without hidden ones. It reads a message
// and its conversation by themselves: SQLite prepares a join again each time that a parameter
// is bound, which takes far longer than the reading.
func (s *searching) matches(c *sqlite.Conn, p *part, in *partition, found []scored) (out []Match, err error) {
	text := fmt.Sprintf("SELECT seq, at, key, conv, inter, gone OR cut FROM doc_%d WHERE id = ?", p.space)
	seen, convs := map[int64]bool{}, map[int64]inConv{}
	for _, f := range found {
		if len(out) == s.q.Limit || s.tooFar(f) {
			break
		}
		r := &in.rows[f.row]
		if seen[r.doc] {
			continue
		}
		seen[r.doc] = true
		var key []byte
		var at int64
		var inter id.ID
		m := Match{Score: float64(f.score)}
		err := query(c, text, []any{r.doc}, func(st *sqlite.Stmt) {
			if !st.ColumnBool(5) {
				m.Seq, m.At, key = uint64(st.ColumnInt64(0)), time.UnixMicro(st.ColumnInt64(1)).UTC(), blob(st, 2)
				at, inter = st.ColumnInt64(3), id.ID(blob(st, 4))
			}
		})
		if err != nil {
			return nil, err
		}
		if key == nil {
			continue
		}
		conv, known := convs[at]
		if !known {
			if conv, err = s.inConv(c, p.space, at); err != nil {
				return nil, err
			}
			convs[at] = conv
		}
		if conv.gone || !conv.left.Zero() && conv.left == inter {
			continue
		}
		if m.URI, err = resource.FromKey(key); err != nil {
			return nil, broken("%w", err)
		}
		if s.q.pieces {
			n, _, err := number(c, fmt.Sprintf("SELECT piece FROM code_%d WHERE id = ?", p.id), r.id)
			if err != nil {
				return nil, err
			}
			m.piece = int(n)
		}
		out = append(out, m)
	}
	return out, nil
}

// inConv is what of a conversation is hidden: all of it, or an interaction that the query
// leaves out.
type inConv struct {
	gone bool
	left id.ID
}

func (s *searching) inConv(c *sqlite.Conn, space, conv int64) (out inConv, err error) {
	n, there, err := number(c, fmt.Sprintf("SELECT gone FROM conv_%d WHERE id = ?", space), conv)
	out.gone = n != 0 || !there
	if err == nil && !s.q.Except.Zero() {
		err = query(c, fmt.Sprintf("SELECT inter FROM doc_%d WHERE conv = ? AND msg = ?", space), []any{conv, s.q.Except[:]}, func(st *sqlite.Stmt) {
			out.left = id.ID(blob(st, 0))
		})
	}
	return out, err
}

func byScore(a, b Match) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return b.At.Compare(a.At)
}

var _ llm.Embedder = lexical{}
