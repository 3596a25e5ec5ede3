package offline

import (
	"slices"
	"strings"

	"steward/internal/message"
)

// turn is what a user said and what has come of it so far.
type turn struct {
	text   string
	calls  []*doneCall
	answer string // text of the last assistant message, if it asked for no tool
	cut    string // text that an answer without end has given so far
	bound  bool   // a bound of the run ended it
	images bool
	news   bool // not said by the user: what came of something that went on by itself
}

// doneCall is a call that was made, with its result once that is there.
type doneCall struct {
	name   string
	args   map[string]any
	result *outcome
}

const maxTurns = 4 // that are looked back upon

// turnsOf reads the last turns of a transcript, oldest first. Messages of a
// user that follow one another are one turn.
func turnsOf(msgs []*message.Message) []*turn {
	start, turns := len(msgs), 0
	for start > 0 && turns <= maxTurns {
		start--
		if says(msgs[start]) && (start == 0 || !says(msgs[start-1]) || tellsNews(msgs[start]) || tellsNews(msgs[start-1])) {
			turns++
		}
	}
	var out []*turn
	cur := &turn{}
	said := false
	for _, m := range msgs[start:] {
		switch m.Role {
		case message.User:
			if !says(m) || cur.open() && asksToContinue(m.Text()) {
				continue // go on with what was cut short
			}
			if news := tellsNews(m); said || len(out) == 0 || news || cur.news {
				cur, said = &turn{news: news}, false
				out = append(out, cur)
			}
			cur.user(m)
		case message.Assistant:
			said = true
			cur.assistant(m)
		case message.Tool:
			said = true
			cur.result(m.Result())
		}
	}
	if len(out) == 0 {
		out = append(out, cur)
	}
	return out
}

// says reports a message of the user's own: Steward's carry the origin "system".
func says(m *message.Message) bool {
	return m.Role == message.User && (len(m.Blocks) == 0 || m.Blocks[0].Base().Origin != "system")
}

// open reports a turn whose answer was cut, by length or by a bound.
func (t *turn) open() bool { return t.cut != "" || t.bound }

func (t *turn) user(m *message.Message) {
	if t.text != "" {
		t.text += "\n"
	}
	t.text += m.Text()
	for _, b := range m.Blocks {
		if _, ok := b.(*message.Image); ok {
			t.images = true
		}
	}
}

func (t *turn) assistant(m *message.Message) {
	calls := m.Calls()
	for _, c := range calls {
		d := &doneCall{name: c.Name}
		if v, ok := decode(c.Args); ok {
			d.args, _ = v.(map[string]any)
		}
		t.calls = append(t.calls, d)
	}
	t.bound = m.Stop == message.StopBound
	switch {
	case len(calls) > 0:
		t.answer, t.cut = "", ""
	case m.Stop == message.StopLength:
		t.cut += m.Text()
	default:
		t.answer, t.cut = m.Text(), ""
	}
}

// result gives a result to the first call of its name that has none.
func (t *turn) result(r *message.ToolResult) {
	if r == nil {
		return
	}
	for _, d := range t.calls {
		if d.result == nil && d.name == r.Name {
			d.result = newOutcome(r)
			return
		}
	}
	for _, d := range t.calls { // a result whose tool bears another name now
		if d.result == nil && r.Name == "" {
			d.result = newOutcome(r)
			return
		}
	}
}

var goOn = words(`continue go on please keep going more weiter mach continuez sigue continúa`)

func asksToContinue(text string) bool {
	fields := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == ' ' || r == '.' || r == '!' || r == '…' })
	for _, w := range fields {
		if !goOn[w] {
			return false
		}
	}
	return len(fields) > 0
}

// lastCall is the call that a follow-up points at, of the turns before.
func lastCall(turns []*turn) *priorCall {
	for i := len(turns) - 1; i >= 0; i-- {
		for j := len(turns[i].calls) - 1; j >= 0; j-- {
			if d := turns[i].calls[j]; d.result != nil {
				return &priorCall{name: d.name, args: d.args, result: d.result}
			}
		}
	}
	return nil
}

// understand plans the last turn, in the light of those before it.
func (pl *planner) understand(turns []*turn, r func(text string) *reading) *plan {
	turns = slices.DeleteFunc(slices.Clone(turns), func(t *turn) bool { return t.news })
	n := len(turns) - 1
	cur := r(turns[n].text)
	p := pl.make(cur, lastCall(turns[:n]), turns[n].calls)
	if n > 0 && strings.HasSuffix(strings.TrimSpace(turns[n-1].answer), "?") && !p.confident() {
		if q := pl.understand(turns[:n], r); pl.reply(q, cur, turns[n].calls) {
			return q
		}
	}
	return p
}

// confident reports whether every wish was understood, the last one by more
// than a word or two in passing.
func (p *plan) confident() bool {
	return len(p.steps) > 0 && len(p.unknown) == 0 && p.last != nil && (p.last.clause.verb || p.last.clause.question) && p.last.traits.coverage >= 0.6
}

// reply takes what the user said for what a question asked, and reports
// whether it was an answer.
func (pl *planner) reply(p *plan, r *reading, done []*doneCall) bool {
	answered := false
	b := &builder{planner: pl, plan: p, done: done}
	var open []*step
	for _, s := range p.steps {
		if s.done != nil || len(s.missing) == 0 {
			continue
		}
		if pl.complete(s, r) {
			answered = true
		}
		s.match(b)
		open = append(open, s)
	}
	if answered {
		p.steps, p.unknown = open, nil
	}
	return answered
}

// complete fills what a step misses from the user's reply.
func (pl *planner) complete(s *step, r *reading) bool {
	c := newClause(r, 0, len(r.toks), func(string) bool { return false })
	f := filler{c: c, e: &entry{spec: s.tool.spec, params: s.missing, vocab: s.tool.vocab, nameWords: s.tool.nameWords, known: s.tool.known}, zones: pl.zones}
	out := f.fill()
	var still []*param
	filled := false
	for i, p := range s.missing {
		v := out.values[i]
		if prose := len(s.missing) == 1 && p.shape == shString && p.schema.Format == "" && !p.named(roleWhen|roleZone); prose && (v == nil || p.named(roleText) && out.took[i] >= 0 && c.mentions[out.took[i]].kind != mnQuoted) {
			if text := strings.TrimSpace(c.source(c.lo, c.hi)); text != "" && p.fits(text) {
				v = text
			}
		}
		if v == nil {
			still = append(still, p)
			continue
		}
		filled = true
		s.args = merge(s.args, build([]*param{p}, []any{v}))
	}
	s.missing = still
	return filled
}

func merge(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		x, xok := out[k].(map[string]any)
		y, yok := v.(map[string]any)
		if xok && yok {
			v = merge(x, y)
		}
		out[k] = v
	}
	return out
}
