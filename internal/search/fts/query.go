package fts

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
)

// Search implements search.Index.
func (x *Index) Search(ctx context.Context, sc store.Scope, q search.Query) (search.Page, error) {
	return x.SearchWith(ctx, sc, q, nil)
}

// SearchWith implements search.Words.
func (x *Index) SearchWith(ctx context.Context, sc store.Scope, q search.Query, others *search.Others) (search.Page, error) {
	if err := sc.CanRead(); err != nil {
		return search.Page{}, err
	}
	r, err := x.request(ctx, sc, &q)
	if err != nil {
		return search.Page{}, err
	}
	var found []doc
	var page search.Page
	err = x.with(ctx, func(d *database) error {
		if page.Behind, err = x.advance(ctx, d); err != nil {
			return err
		}
		return d.read(ctx, func(c *sqlite.Conn) error {
			s := searchRun{c: c, sc: sc, q: &q, terms: r.terms, ranking: x.ranking, others: others}
			found, page.Next, err = s.find(r.place)
			return err
		})
	})
	if err == nil && x.old.Load() {
		found, err = x.addOld(ctx, sc, &q, r, found, page.Behind)
	}
	if err != nil {
		return search.Page{}, err
	}
	for i := range found {
		hit, ok, err := r.hit(&found[i])
		if err != nil {
			return search.Page{}, err
		}
		if ok {
			page.Hits = append(page.Hits, hit)
		}
	}
	return page, nil
}

// request parses a query.
func (x *Index) request(ctx context.Context, sc store.Scope, q *search.Query) (r reading, err error) {
	r = reading{ctx: ctx, st: x.opt.Store, sc: sc, titles: map[id.ID]string{}}
	if q.Message.Zero() || q.Text != "" {
		if r.terms, err = search.Parse(q.Text); err != nil {
			return r, err
		}
	}
	r.exact = r.terms
	switch q.Ordered() {
	case search.Best:
		if !x.ranking.Exact {
			r.terms = r.terms.Stemmed()
		}
	case search.Newest:
	default:
		return r, fault.New(fault.Invalid, "order_unknown", "unknown order %.40q", q.Order).WithHint("use best or newest")
	}
	at, more, err := q.Place()
	switch {
	case err != nil:
		return r, err
	case more:
		r.place = &at
	}
	return r, nil
}

// doc is a row of the index.
type doc struct {
	space, id     int64
	seq           uint64
	at            time.Time
	key           []byte
	conv          int64
	msg, prev     []byte
	before, after [][]byte // keys of its neighbours, nearest first
	score         float64
	asks          bool
	inter         []byte
}

// searchRun is a search in the index.
type searchRun struct {
	c       *sqlite.Conn
	sc      store.Scope
	q       *search.Query
	terms   search.Terms
	ranking Ranking
	others  *search.Others
	words   map[int64][]word  // of the order search.Best, by space
	average map[int64]float64 // length of a message, by space
	old     bool              // the file has the tables of the version before this one

	states   map[[2]int64]convState // the conversations that were read, by space and number
	excepted map[int64][]turn       // what Query.Except leaves out, by space

	spaces []int64          // of the scope, as far as the filters can match there
	facets map[int64]string // what they filter by words, by space
}

// find returns a page of the matching docs after a place, with their neighbours.
func (s *searchRun) find(place *int64) (out []doc, next search.Cursor, err error) {
	possible, err := s.resolve()
	if err != nil || !possible {
		return nil, "", err
	}
	size := s.q.PageSize()
	switch {
	case !s.q.Message.Zero():
		out, err = s.one()
	case s.q.Ordered() == search.Newest:
		below := int64(math.MaxInt64)
		if place != nil {
			below = *place
		}
		out, err = s.newest(below)
		if len(out) > size {
			out = out[:s.pageEnd(out, size)]
			next = s.q.Seal(out[len(out)-1].id)
		}
	default:
		from := 0
		if place != nil {
			from = int(max(0, min(*place, search.MaxRanked)))
		}
		out, err = s.best()
		out = out[min(from, len(out)):]
		if len(out) > size {
			out = out[:size]
			next = s.q.Seal(int64(from + size))
		}
	}
	if err != nil {
		return nil, "", err
	}
	return out, next, s.around(out)
}

// columns are what rowOf reads.
const columns = "d.id, d.seq, d.at, d.key, d.conv, d.msg, d.prev, d.inter"

func rowOf(space int64, r *sqlite.Stmt) doc {
	return doc{space: space, id: r.ColumnInt64(0), seq: uint64(r.ColumnInt64(1)), at: time.UnixMicro(r.ColumnInt64(2)).UTC(),
		key: blob(r, 3), conv: r.ColumnInt64(4), msg: blob(r, 5), prev: blob(r, 6), inter: blob(r, 7)}
}

// pageEnd returns where a page of the order search.Newest ends: not between messages of
// several spaces that have the same number, since the next page begins below a number.
func (s *searchRun) pageEnd(out []doc, size int) int {
	end := size
	for end > 0 && out[end-1].id == out[end].id {
		end--
	}
	if end > 0 {
		return end
	}
	for end = size; end < len(out) && out[end].id == out[0].id; end++ {
	}
	return end
}

// newest returns the docs with lower numbers that have all words, newest first: one more
// from each space than a page holds.
func (s *searchRun) newest(below int64) (out []doc, err error) {
	for _, space := range s.spaces {
		text, args := s.statement(space, below)
		err = sqlitex.ExecuteTransient(s.c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
			out = append(out, rowOf(space, r))
			return nil
		}})
		if err != nil {
			return nil, err
		}
	}
	if len(s.spaces) > 1 {
		slices.SortStableFunc(out, func(a, b doc) int { return cmp.Compare(b.id, a.id) })
	}
	return out, nil
}

// one returns the message that the query names.
func (s *searchRun) one() (out []doc, err error) {
	for _, space := range s.spaces {
		c, err := s.read(space, "msg = ?", s.q.Message[:])
		if err == nil && c != nil {
			out = append(out, c.doc)
		}
		if err != nil || len(out) > 0 {
			return out, err
		}
	}
	return out, nil
}

// docs, convs, tools and words return the names of a space's tables.
func (s *searchRun) docs(space int64) string  { return s.table("doc", space) }
func (s *searchRun) convs(space int64) string { return s.table("conv", space) }
func (s *searchRun) tools(space int64) string { return s.table("tool", space) }
func (s *searchRun) table(name string, space int64) string {
	if s.old {
		return name
	}
	return fmt.Sprintf("%s_%d", name, space)
}

// resolve finds the numbers of the filters. It returns false if one of them is unknown, so
// that nothing can match.
func (s *searchRun) resolve() (bool, error) {
	if !s.sc.All() {
		for _, sp := range s.sc.Read {
			n, ok, err := s.number("SELECT id FROM space WHERE name = ?", string(sp))
			if err != nil {
				return false, err
			}
			if ok {
				s.spaces = append(s.spaces, n)
			}
		}
	} else {
		var err error
		if s.spaces, err = spaces(s.c); err != nil {
			return false, err
		}
	}
	slices.Sort(s.spaces)
	s.facets = map[int64]string{}
	all := slices.Compact(s.spaces)
	s.spaces = s.spaces[:0]
	for _, space := range all {
		facets, ok, err := s.facetsOf(space)
		if err != nil {
			return false, err
		}
		if ok {
			s.spaces, s.facets[space] = append(s.spaces, space), facets
		}
	}
	return len(s.spaces) > 0, nil
}

// facetsOf returns the filters that are words, in FTS5's query language. It returns false
// if one of them is unknown in a space.
func (s *searchRun) facetsOf(space int64) (text string, ok bool, err error) {
	if s.old {
		text = fmt.Sprintf(" AND facets:s%d", space)
	}
	if !s.q.Conversation.Zero() {
		n, ok, err := s.number("SELECT id FROM "+s.convs(space)+" WHERE uid = ?", s.q.Conversation[:])
		if err != nil || !ok {
			return "", false, err
		}
		text += fmt.Sprintf(" AND facets:c%d", n)
	}
	if s.q.Tool != "" {
		n, ok, err := s.number("SELECT id FROM "+s.tools(space)+" WHERE name = ?", s.q.Tool)
		if err != nil || !ok {
			return "", false, err
		}
		text += fmt.Sprintf(" AND facets:t%d", n)
	}
	if s.q.Role != "" {
		text += ` AND facets:"r` + strings.Map(letters, string(s.q.Role)) + `"`
	}
	return text, true, nil
}

func (s *searchRun) number(query string, arg any) (n int64, found bool, err error) {
	return number(s.c, query, arg)
}

// statement returns the SQL for newest in one space. FTS5 walks the lists of words from
// the newest doc on until the page is full.
func (s *searchRun) statement(space, below int64) (string, []any) {
	table := wordTable(space)
	match := s.match(space, s.all())
	if s.old {
		table = "fts"
	}
	if !s.q.Until.IsZero() {
		below = min(below, s.above())
	}
	cond, args := s.filters(space)
	return "SELECT " + columns + " FROM " + table + " w CROSS JOIN " + s.docs(space) + " d ON d.id = w.rowid CROSS JOIN " + s.convs(space) + " c ON c.id = d.conv WHERE w." + table +
		" MATCH ? AND w.rowid < ? AND " + cond + " ORDER BY w.rowid DESC LIMIT ?", slices.Concat([]any{match, below}, args, []any{s.q.PageSize() + 1})
}

// above returns a number above those of all messages before Query.Until. If many messages
// have the same time, their numbers are above it.
func (s *searchRun) above() int64 {
	return rankOf(s.q.Until) + int64(time.Minute/time.Millisecond)<<6
}

// filters returns the condition for a doc of a space.
func (s *searchRun) filters(space int64) (string, []any) {
	cond := []string{"d.gone = 0 AND d.cut = 0 AND c.gone = 0"}
	var args []any
	if s.old { // the table has the messages of all spaces
		cond, args = append(cond, "d.space = ?"), append(args, space)
	}
	add := func(text string, more ...any) { cond, args = append(cond, text), append(args, more...) }
	if !s.q.Since.IsZero() {
		add("d.id >= ? AND d.at >= ?", rankOf(s.q.Since), s.q.Since.UnixMicro())
	}
	if !s.q.Until.IsZero() {
		add("d.at < ?", s.q.Until.UnixMicro())
	}
	if !s.q.Except.Zero() {
		add("NOT EXISTS (SELECT 1 FROM "+s.docs(space)+" e WHERE e.conv = d.conv AND e.msg = ? AND e.inter = d.inter)", s.q.Except[:])
	}
	if s.q.Agent != "" {
		add("c.agent = ?", s.q.Agent)
	}
	if l := int64(s.q.Labels); l != 0 {
		add("d.labels & ? = ?", l, l)
	}
	if s.q.Without != 0 {
		add("d.labels & ? = 0", int64(s.q.Without))
	}
	return strings.Join(cond, " AND "), args
}

// all returns the condition that all groups occur, as they are written.
func (s *searchRun) all() string {
	var all []string
	for _, group := range s.terms.All {
		all = append(all, "body:("+choice(group)+")")
	}
	return strings.Join(all, " AND ")
}

// match adds the filters that are words to a condition in FTS5's query language. Words
// from the user are quoted, and contain neither quotes nor spaces (search.Token).
func (s *searchRun) match(space int64, words string) string {
	text := "(" + words + ")" + s.facets[space]
	if len(s.terms.None) > 0 {
		text = "(" + text + ") NOT body:(" + choice(s.terms.None) + ")"
	}
	return text
}

// letters replaces everything in a role that FTS5 could take for syntax.
func letters(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r
	}
	return '_'
}

func choice(phrases []search.Phrase) string {
	var out []string
	for _, p := range phrases {
		text := `"` + strings.Join(p.Words, " ") + `"`
		if p.Prefix {
			text += " *"
		}
		out = append(out, text)
	}
	return strings.Join(out, " OR ")
}

// around finds the keys of the docs' neighbours. A message names its predecessor; if several
// messages name it, the newest is its successor.
func (s *searchRun) around(docs []doc) error {
	if s.q.Around <= 0 || len(docs) == 0 {
		return nil
	}
	for i := range docs {
		d := &docs[i]
		var err error
		if d.before, err = s.walk(s.step(d.space, "d.msg = ?", "d.prev"), d.conv, d.prev); err != nil {
			return err
		}
		if d.after, err = s.walk(s.step(d.space, "d.prev = ?", "d.msg"), d.conv, d.msg); err != nil {
			return err
		}
	}
	return nil
}

// step returns the statement that finds a message's neighbour. Deleted messages come last.
func (s *searchRun) step(space int64, is, next string) string {
	text := "SELECT d.key, d.gone OR d.cut, " + next + " FROM " + s.docs(space) + " d WHERE d.conv = ? AND " + is
	if s.old {
		text += fmt.Sprintf(" AND d.space = %d", space)
	}
	return text + " ORDER BY d.gone OR d.cut, d.id DESC LIMIT 1"
}

// walk goes from neighbour to neighbour and skips deleted ones.
func (s *searchRun) walk(step string, conv int64, from []byte) (keys [][]byte, err error) {
	args := []any{conv, from}
	const most = 4 * search.MaxAround
	for range most {
		if id.ID(from).Zero() || len(keys) == min(s.q.Around, search.MaxAround) {
			break
		}
		args[1], from = from, nil
		err := sqlitex.Execute(s.c, step, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
			if !r.ColumnBool(1) {
				keys = append(keys, blob(r, 0))
			}
			from = blob(r, 2)
			return nil
		}})
		if err != nil || from == nil {
			return keys, err
		}
	}
	return keys, nil
}

// reading builds hits from docs. It reads the texts from the store in the scope of the
// caller, which checks access again.
type reading struct {
	ctx    context.Context
	st     store.Store
	sc     store.Scope
	titles map[id.ID]string

	terms, exact search.Terms // as they are searched, and as they are written
	place        *int64       // nil: the beginning
}

// hit reads a doc. It returns false if the message no longer exists.
func (r *reading) hit(d *doc) (h search.Hit, ok bool, err error) {
	u, m, ok, err := r.message(d.key)
	if !ok {
		return h, false, err
	}
	h.URI, h.Seq = u, d.seq
	h.Conversation, h.Interaction = record.IDOf(u, record.TypeConversation), record.IDOf(u, record.TypeInteraction)
	if h.Title, ok, err = r.title(h.Conversation); !ok {
		return h, false, err
	}
	text := search.Read(m)
	h.Line, h.Labels = line(m), text.Labels
	h.At, h.Score = d.at, d.score
	h.Text, h.Spans = r.terms.Snippet(text.Text)
	if h.Before, err = r.lines(d.before, &h.Labels); err != nil {
		return h, false, err
	}
	slices.Reverse(h.Before)
	h.After, err = r.lines(d.after, &h.Labels)
	return h, err == nil, err
}

func line(m *message.Message) search.Line {
	l := search.Line{Message: m.ID, Role: m.Role, At: m.At}
	if res := m.Result(); res != nil {
		l.Tool = res.Name
	}
	return l
}

func (r *reading) lines(keys [][]byte, labels *message.Labels) (out []search.Line, err error) {
	for _, key := range keys {
		_, m, ok, err := r.message(key)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		text := search.Read(m)
		l := line(m)
		l.Text = search.First(text.Text)
		*labels |= text.Labels
		out = append(out, l)
	}
	return out, nil
}

func (r *reading) message(key []byte) (u resource.URI, m *message.Message, ok bool, err error) {
	if u, err = resource.FromKey(key); err != nil {
		return u, nil, false, broken("%w", err)
	}
	res, err := r.st.Get(r.ctx, r.sc, u)
	if fault.Is(err, fault.NotFound) {
		return u, nil, false, nil
	}
	if err == nil {
		m, err = record.DecodeMessage(u, res.Body)
	}
	return u, m, err == nil, err
}

// title returns a conversation's title. It returns false if the conversation is deleted.
func (r *reading) title(conv id.ID) (string, bool, error) {
	if t, ok := r.titles[conv]; ok {
		return t, true, nil
	}
	u := record.ConversationURI(conv)
	res, err := r.st.Get(r.ctx, r.sc, u)
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	c, err := record.DecodeConversation(u, res.Body)
	if err != nil || !c.Deleted.IsZero() {
		return "", false, err
	}
	r.titles[conv] = c.Title
	return c.Title, true, nil
}
