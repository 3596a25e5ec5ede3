// Package sparql evaluates the part of SPARQL 1.1 that a question about a person's graph needs: SELECT, ASK
// and CONSTRUCT with basic graph patterns, FILTER, OPTIONAL, UNION, GROUP BY with COUNT, DISTINCT, ORDER BY,
// LIMIT and OFFSET. Parse refuses every other part by its name, so that a query never means less than it says.
//
// A query is a tree of groups. A group has parts in order (triples, OPTIONAL, alternatives) and filters,
// which hold for the whole group. Evaluation takes one solution after the other through the parts: a pattern
// asks the source for its matches with what is bound so far, the most bound pattern first. So the first
// answers come without all being computed, and memory is needed only where the language asks for it: for
// ORDER BY, DISTINCT and COUNT, and for a group whose variables must not be seen from outside while it is
// evaluated (see closed).
//
// An evaluation ends with its context, and with an error at each limit of Limits. It never returns a part of
// an answer as the whole.
package sparql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
)

// Form is what a query asks for.
type Form uint8

// The forms.
const (
	Select Form = iota
	Ask
	Construct
)

// Query is a query that was parsed. It can be evaluated repeatedly and concurrently.
type Query struct {
	Form     Form
	Limit    int // -1: none
	offset   int
	base     string
	all      bool
	distinct bool
	grouped  bool
	columns  []column
	vars     []string
	template []pattern
	where    *group
	groupBy  []int
	orderBy  []sortKey
}

type column struct {
	slot int
	expr *expr // nil: the variable itself
}

type sortKey struct {
	expr *expr
	down bool
}

// place is a term of a pattern, or a variable.
type place struct {
	term rdf.Term
	slot int
	open bool // it is a variable
}

type pattern [3]place

type partKind uint8

const (
	basic partKind = iota
	optional
	union // alternatives; one group alone is a union of one
)

type part struct {
	kind    partKind
	triples []pattern
	groups  []*group
}

type group struct {
	parts   []part
	filters []*expr
	always  map[int]bool // variables that each solution binds
	closed  bool         // it must be evaluated by itself, and joined
	own     bool         // without its filters it need not be evaluated by itself
}

// finish works out how the group can be evaluated. A solution from outside may be carried into a group of
// triples and of alternatives of such groups: that gives the same as a join. With OPTIONAL inside it would
// not, and neither with a filter about a variable that the group itself does not bind.
func (g *group) finish() {
	g.always, g.own = map[int]bool{}, true
	for _, p := range g.parts {
		switch p.kind {
		case basic:
			for _, t := range p.triples {
				for _, x := range t {
					if x.open {
						g.always[x.slot] = true
					}
				}
			}
		case optional:
			g.own = false
		case union:
			for _, sub := range p.groups {
				g.own = g.own && !sub.closed
			}
			for v := range p.groups[0].always {
				if !slices.ContainsFunc(p.groups, func(s *group) bool { return !s.always[v] }) {
					g.always[v] = true
				}
			}
		}
	}
	g.closed = !g.own
	for _, f := range g.filters {
		for _, v := range f.vars(nil) {
			g.closed = g.closed || !g.always[v]
		}
	}
}

// Source has triples.
type Source interface {
	// Match calls found for each triple that fits; a zero term fits every one. It ends with the first error
	// of found, which it returns.
	Match(ctx context.Context, s, p, o rdf.Term, found func(rdf.Triple) error) error
}

// Limits bound an evaluation. Zero fields have the defaults.
type Limits struct {
	Rows  int // of the answer; 1,000
	Steps int // triples read and solutions looked at; 2,000,000
	Bytes int // of what is kept in memory; 64 MiB
}

// Answer is the answer to a query.
type Answer struct {
	Vars    []string     // SELECT: the names of the columns
	Rows    [][]rdf.Term // SELECT; the zero Term has no value
	Yes     bool         // ASK
	Triples []rdf.Triple // CONSTRUCT
	More    bool         // the answer has more rows than Limits.Rows, which is the limit that the caller set
}

var errDone = errors.New("there are enough solutions")

type row []rdf.Term

type eval struct {
	ctx   context.Context
	src   Source
	q     *Query
	lim   Limits
	steps int
	bytes int
	kept  map[*group][]row // the solutions of groups that are evaluated by themselves
}

// Eval evaluates the query. Error codes: graph_query_too_big (a limit was reached), and those of the source
// and the context.
func (q *Query) Eval(ctx context.Context, src Source, lim Limits) (Answer, error) {
	if lim.Rows <= 0 {
		lim.Rows = 1000
	}
	if lim.Steps <= 0 {
		lim.Steps = 2_000_000
	}
	if lim.Bytes <= 0 {
		lim.Bytes = 64 << 20
	}
	e := &eval{ctx: ctx, src: src, q: q, lim: lim, kept: map[*group][]row{}}
	switch q.Form {
	case Ask:
		err := e.group(q.where, make(row, len(q.vars)), true, func(row) error { return errDone })
		if errors.Is(err, errDone) {
			return Answer{Yes: true}, nil
		}
		return Answer{}, err
	case Construct:
		return e.construct()
	}
	return e.selected()
}

func (e *eval) step() error {
	if e.steps++; e.steps > e.lim.Steps {
		return tooBig("it looks at more than %d solutions", e.lim.Steps)
	}
	if e.steps&0xff == 0 {
		return context.Cause(e.ctx)
	}
	return nil
}

func tooBig(format string, args ...any) error {
	return fault.New(fault.Exhausted, "graph_query_too_big", "the query is too big: "+format, args...).WithHint("make it more specific, or give it a LIMIT")
}

// keep counts what stays in memory.
func (e *eval) keep(r row) error {
	n := 24 + 56*len(r)
	for i := range r {
		n += len(r[i].Value)
	}
	if e.bytes += n; e.bytes > e.lim.Bytes {
		return tooBig("it needs more than %d MiB of memory", e.lim.Bytes>>20)
	}
	return nil
}

// group yields the solutions of a group that are compatible with in. Filters are left out for an OPTIONAL,
// which applies them to what it joins.
func (e *eval) group(g *group, in row, filtered bool, emit func(row) error) error {
	return e.parts(g, 0, in, func(r row) error {
		if filtered && !e.holds(g.filters, r) {
			return nil
		}
		return emit(r)
	})
}

func (e *eval) holds(filters []*expr, r row) bool {
	for _, f := range filters {
		if ok, err := f.truth(e, r); err != nil || !ok {
			return false
		}
	}
	return true
}

func (e *eval) parts(g *group, i int, in row, emit func(row) error) error {
	if err := e.step(); err != nil {
		return err
	}
	if i == len(g.parts) {
		return emit(in)
	}
	p := &g.parts[i]
	then := func(r row) error { return e.parts(g, i+1, r, emit) }
	switch p.kind {
	case basic:
		return e.basic(p.triples, 0, in, then)
	case union:
		for _, sub := range p.groups {
			if err := e.join(sub, in, sub.closed, true, then); err != nil {
				return err
			}
		}
		return nil
	}
	sub, any := p.groups[0], false
	err := e.join(sub, in, !sub.own, false, func(r row) error {
		if !e.holds(sub.filters, r) {
			return nil
		}
		any = true
		return then(r)
	})
	if err != nil || any {
		return err
	}
	return then(in)
}

// join yields what a group and a solution give together.
func (e *eval) join(g *group, in row, alone, filtered bool, emit func(row) error) error {
	if !alone {
		return e.group(g, in, filtered, emit)
	}
	rows, ok := e.kept[g]
	if !ok {
		err := e.group(g, make(row, len(in)), filtered, func(r row) error {
			rows = append(rows, slices.Clone(r))
			return e.keep(r)
		})
		if err != nil {
			return err
		}
		e.kept[g] = rows
	}
next:
	for _, r := range rows {
		if err := e.step(); err != nil {
			return err
		}
		both := slices.Clone(in)
		for i, t := range r {
			if t.Kind == rdf.None {
				continue
			}
			if both[i].Kind != rdf.None && both[i] != t {
				continue next
			}
			both[i] = t
		}
		if err := emit(both); err != nil {
			return err
		}
	}
	return nil
}

// basic yields the solutions of triples. done has a bit for each that is matched already.
func (e *eval) basic(triples []pattern, from int, in row, emit func(row) error) error {
	if from == len(triples) {
		return emit(in)
	}
	// The pattern of which most is known comes next.
	order := triples
	best, most := from, -1
	for i := from; i < len(triples); i++ {
		known := 0
		for j, x := range triples[i] {
			if !x.open || in[x.slot].Kind != rdf.None {
				known += []int{4, 1, 3}[j]
			}
		}
		if known > most {
			best, most = i, known
		}
	}
	if best != from {
		order = slices.Clone(triples)
		order[from], order[best] = order[best], order[from]
	}
	var ask [3]rdf.Term
	for j, x := range order[from] {
		ask[j] = x.term
		if x.open {
			ask[j] = in[x.slot]
		}
	}
	if ask[0].Kind == rdf.Literal || ask[1].Kind == rdf.Literal || ask[1].Kind == rdf.Blank {
		return nil
	}
	return e.src.Match(e.ctx, ask[0], ask[1], ask[2], func(t rdf.Triple) error {
		if err := e.step(); err != nil {
			return err
		}
		out := slices.Clone(in)
		for j, got := range [3]rdf.Term{t.S, t.P, t.O} {
			if x := order[from][j]; x.open {
				if out[x.slot].Kind != rdf.None && out[x.slot] != got {
					return nil
				}
				out[x.slot] = got
			}
		}
		return e.basic(order, from+1, out, emit)
	})
}

// selected evaluates SELECT.
func (e *eval) selected() (Answer, error) {
	columns := e.q.columns
	if e.q.all {
		for i, name := range e.q.vars {
			if !strings.HasPrefix(name, "_:") {
				columns = append(columns, column{slot: i})
			}
		}
	}
	var a Answer
	for _, c := range columns {
		a.Vars = append(a.Vars, e.q.vars[c.slot])
	}
	limit := e.lim.Rows
	if e.q.Limit >= 0 {
		limit = min(limit, e.q.Limit)
	}
	seen, skip := map[string]bool{}, e.q.offset
	add := func(r row) error {
		if e.q.Limit >= 0 && len(a.Rows) >= e.q.Limit {
			return errDone
		}
		out := make([]rdf.Term, len(columns))
		for i, c := range columns {
			out[i] = r[c.slot]
		}
		if e.q.distinct {
			key := keyOf(out)
			if seen[key] {
				return nil
			}
			seen[key] = true
			if err := e.keep(out); err != nil {
				return err
			}
		}
		if skip > 0 {
			skip--
			return nil
		}
		if len(a.Rows) >= limit {
			a.More = true
			return errDone
		}
		a.Rows = append(a.Rows, out)
		return e.keep(out)
	}
	extend := func(r row) row {
		for _, c := range columns {
			if c.expr != nil {
				r[c.slot] = e.value(c.expr, r)
			}
		}
		return r
	}
	var sorted []row
	sink := add
	if len(e.q.orderBy) > 0 {
		sink = func(r row) error {
			sorted = append(sorted, slices.Clone(r))
			return e.keep(r)
		}
	}
	var err error
	if e.q.grouped {
		err = e.counted(columns, sink)
	} else {
		err = e.group(e.q.where, make(row, len(e.q.vars)), true, func(r row) error {
			if slices.ContainsFunc(columns, func(c column) bool { return c.expr != nil }) {
				r = extend(slices.Clone(r))
			}
			return sink(r)
		})
	}
	if err == nil && len(e.q.orderBy) > 0 {
		e.sort(sorted)
		for _, r := range sorted {
			if err = add(r); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	return a, err
}

// value returns the value of an expression, or the zero Term if it has none.
func (e *eval) value(x *expr, r row) rdf.Term {
	t, err := x.value(e, r)
	if err != nil {
		return rdf.Term{}
	}
	return t
}

// sort orders solutions as ORDER BY says.
func (e *eval) sort(rows []row) {
	keys := make([][]rdf.Term, len(rows))
	for i, r := range rows {
		for _, k := range e.q.orderBy {
			keys[i] = append(keys[i], e.value(k.expr, r))
		}
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		for k, by := range e.q.orderBy {
			c := compareForOrder(keys[order[i]][k], keys[order[j]][k])
			if by.down {
				c = -c
			}
			if c != 0 {
				return c < 0
			}
		}
		return false
	})
	sorted := make([]row, len(rows))
	for i, at := range order {
		sorted[i] = rows[at]
	}
	copy(rows, sorted)
}

func keyOf(r []rdf.Term) string {
	var b strings.Builder
	for _, t := range r {
		s := t.String()
		fmt.Fprintf(&b, "%d:%s", len(s), s)
	}
	return b.String()
}

// counted evaluates COUNT for each group of GROUP BY.
func (e *eval) counted(columns []column, emit func(row) error) error {
	var counts []*expr
	for _, c := range columns {
		counts = c.expr.find("COUNT", counts)
	}
	for _, k := range e.q.orderBy {
		counts = k.expr.find("COUNT", counts)
	}
	type set struct {
		r    row
		n    []int
		seen []map[string]bool
	}
	sets := map[string]*set{}
	var order []*set
	fresh := func(r row) *set {
		return &set{r: r, n: make([]int, len(counts)), seen: make([]map[string]bool, len(counts))}
	}
	err := e.group(e.q.where, make(row, len(e.q.vars)), true, func(r row) error {
		own := make(row, len(r))
		var key []rdf.Term
		for _, v := range e.q.groupBy {
			own[v] = r[v]
			key = append(key, r[v])
		}
		s := sets[keyOf(key)]
		if s == nil {
			s = fresh(own)
			sets[keyOf(key)], order = s, append(order, s)
			if err := e.keep(own); err != nil {
				return err
			}
		}
		for i, c := range counts {
			var counted []rdf.Term
			if len(c.args) == 0 {
				counted = r
			} else {
				t, err := c.args[0].value(e, r)
				if err != nil || t.Kind == rdf.None {
					continue
				}
				counted = []rdf.Term{t}
			}
			if c.distinct {
				if s.seen[i] == nil {
					s.seen[i] = map[string]bool{}
				}
				if k := keyOf(counted); s.seen[i][k] {
					continue
				} else {
					s.seen[i][k] = true
				}
				if err := e.keep(counted); err != nil {
					return err
				}
			}
			s.n[i]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(order) == 0 && len(e.q.groupBy) == 0 {
		order = append(order, fresh(make(row, len(e.q.vars))))
	}
	for _, s := range order {
		for i, c := range counts {
			s.r[c.slot] = rdf.NewTyped(fmt.Sprint(s.n[i]), rdf.Integer)
		}
		for _, c := range columns {
			if c.expr != nil {
				s.r[c.slot] = e.value(c.expr, s.r)
			}
		}
		if err := emit(s.r); err != nil {
			return err
		}
	}
	return nil
}

// construct evaluates CONSTRUCT.
func (e *eval) construct() (Answer, error) {
	var a Answer
	seen := map[rdf.Triple]bool{}
	n := 0
	build := func(r row) error {
		n++
	next:
		for _, t := range e.q.template {
			var got [3]rdf.Term
			for j, x := range t {
				if got[j] = x.term; x.open {
					got[j] = r[x.slot]
				} else if got[j].Kind == rdf.Blank {
					got[j].Value = fmt.Sprintf("c%d%s", n, strings.ReplaceAll(got[j].Value, " ", "-"))
				}
				if got[j].Kind == rdf.None {
					continue next
				}
			}
			triple := rdf.Triple{S: got[0], P: got[1], O: got[2]}
			if triple.Check() != nil && (got[0].Kind == rdf.Literal || got[1].Kind != rdf.IRI) || seen[triple] {
				continue
			}
			if len(a.Triples) >= e.lim.Rows {
				a.More = true
				return errDone
			}
			seen[triple] = true
			a.Triples = append(a.Triples, triple)
			if err := e.keep(got[:]); err != nil {
				return err
			}
		}
		return nil
	}
	skip, left := e.q.offset, e.q.Limit
	take := func(r row) error {
		if skip > 0 {
			skip--
			return nil
		}
		if left == 0 {
			return errDone
		}
		left--
		return build(r)
	}
	var sorted []row
	sink := take
	if len(e.q.orderBy) > 0 {
		sink = func(r row) error {
			sorted = append(sorted, slices.Clone(r))
			return e.keep(r)
		}
	}
	err := e.group(e.q.where, make(row, len(e.q.vars)), true, sink)
	if err == nil && len(e.q.orderBy) > 0 {
		e.sort(sorted)
		for _, r := range sorted {
			if err = take(r); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	return a, err
}
