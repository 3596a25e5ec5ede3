// Package offline is Steward's built-in default model: small, deterministic, without network and key. It
// is not a language model, and says so.
//
// It compares a sentence with the tools by their common words. It calls a tool only if the sentence is
// unambiguous: it resembles one tool and no other, every value in it (a number, a quotation, a date, an
// address, a file name, a word of an enumeration) fits into the call, and every required parameter has a
// value. Arithmetic goes to a calculator as a whole expression. To anything else the model answers with
// the two nearest tools and how to phrase the request.
//
// Everything is bounded: the length of a sentence (8 KiB), the number of tools and parameters, the part of
// a result that is repeated, the input of the embedder. The work grows in proportion to its input and ends
// with its context. docs/concepts/offline.md tells users what to expect.
package offline

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
)

// Names of the provider and its models.
const (
	ProviderName  = "offline"
	ModelName     = "steward"
	SentencesName = "sentences" // see model.strict
	EmbedderName  = "lexical"
	contextWindow = 1 << 20 // tokens; old messages cost it nothing
)

// Options configure a Provider. The zero value works.
type Options struct {
	// Now returns the time that words like "tomorrow" refer to, in the time zone that is used if the
	// system prompt names none. Nil means time.Now.
	Now func() time.Time
}

// Provider is the offline provider. It is safe for concurrent use.
type Provider struct {
	now   func() time.Time
	shelf toolboxCache
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Provider{now: o.Now}
}

// Name returns "offline".
func (p *Provider) Name() string { return ProviderName }

// Model returns the model, whatever the name, or the strict one of SentencesName.
func (p *Provider) Model(name string) llm.Model { return &model{p, name == SentencesName} }

// Models lists the model and the embedder.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	return []llm.Info{{Name: ModelName, Window: contextWindow}, {Name: EmbedderName, Embedder: true}}, nil
}

// Embedder returns the only embedder, whatever the name.
func (p *Provider) Embedder(name string) llm.Embedder { return lexical{} }

// model is the offline model. The strict one makes the call that a text asks for in the form of one of the tools'
// sentences, and tells its result. It answers nothing else, so that another model can be asked.
type model struct {
	p      *Provider
	strict bool
}

// Stream implements llm.Model. Error codes: schema_unsupported, if a value for a schema is not certain;
// not_a_sentence, of the strict model; cancelled and deadline_exceeded.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		w := &writer{ctx: ctx, yield: yield, strict: m.strict}
		if err := m.p.respond(w, r); err != nil && !w.closed {
			yield(llm.Event{}, fault.Of(cmp.Or(ctx.Err(), err)))
		}
	}
}

// respond writes the next message.
func (p *Provider) respond(w *writer, r *llm.Request) error {
	x, err := p.shelf.of(w.ctx, r.Tools)
	if err != nil {
		return err
	}
	msgs, err := r.Transcript.All()
	if err != nil {
		return err
	}
	cur := turnOf(msgs)
	w.usage.Input = tokensOf(len(r.System)) + x.tokens
	for _, m := range msgs {
		w.usage.Input += messageTokens(m)
	}
	if r.Schema != nil {
		w.usage.Input += tokensOf(len(r.Schema.JSON))
	}
	if !w.strict && !w.notices(r, msgs, cur) {
		return nil
	}
	s := &speech{ctx: w.ctx, x: x, now: p.clock(noted(msgs), r.System), only: x.byName[r.ToolChoice], force: r.ToolChoice == "required" || x.byName[r.ToolChoice] != nil}
	switch {
	case w.strict:
		return s.sentence(w, r, cur, len(msgs))
	case r.Schema != nil:
		text, err := s.structured(r.Schema, cur)
		if err != nil {
			return err
		}
		w.text(text, cur.cut, r.Sampling)
	case cur.news:
		w.text(newsAnswer(cur.text), cur.cut, r.Sampling)
	case len(cur.text) > maxWish:
		w.text(tooLong(len(cur.text)), cur.cut, r.Sampling)
	case x.byName[planTool] != nil && len(x.entries) == 1:
		tools, err := p.shelf.of(w.ctx, r.Plannable)
		if err != nil {
			return err
		}
		return s.planned(w, r, tools, cur, len(msgs))
	case r.ToolChoice == "none" && len(cur.calls) == 0:
		w.text("No tool may be used here, and without tools I can do nothing. "+remedy, cur.cut, r.Sampling)
	case len(cur.calls) == 0 && s.greeted(cur.text) != "":
		w.text(s.greeted(cur.text), cur.cut, r.Sampling)
	default:
		said, doubts := s.understand(cur.text)
		var steps []*step
		for _, st := range said {
			steps = append(steps, st.expand()...)
		}
		if done := len(cur.calls); done < len(steps) && len(doubts) == 0 && r.ToolChoice != "none" {
			w.calls(steps[done:], len(msgs), r.Sampling.MaxTokens)
			return nil
		}
		w.text(s.answer(cur, doubts), cur.cut, r.Sampling)
	}
	return nil
}

// sentence writes the next message of the strict model.
func (s *speech) sentence(w *writer, r *llm.Request, cur *turn, at int) error {
	if len(cur.calls) > 0 {
		text := s.answer(cur, nil)
		if asked, said, ok := strings.Cut(text, "Done. "); ok && len(cur.calls) == 1 && strings.HasSuffix(strings.TrimSpace(asked), ":") {
			text = "Done. " + said // whoever has said it knows what was asked
		}
		w.text(text, cur.cut, r.Sampling)
		return nil
	}
	if r.Schema == nil && !cur.news && !cur.images && len(cur.text) <= maxWish && r.ToolChoice != "none" && !joined().MatchString(cur.text) {
		if st, ok := s.pattern(cur.text); ok {
			w.calls(st.expand(), at, r.Sampling.MaxTokens)
			return nil
		}
	}
	return fault.New(fault.Unsupported, "not_a_sentence", "the text has the form of no sentence of a tool").WithHint("ask a language model")
}

// zoned matches the time zone that a prompt names.
var zoned = pattern(`[Tt]ime zone:? ([A-Za-z_]{1,30}(?:/[A-Za-z0-9_+-]{1,30}){0,2})`)

// clock returns the current time, in the time zone that one of the texts names: what Steward notes beside the
// newest message, or the system prompt.
func (p *Provider) clock(texts ...string) time.Time {
	now := p.now()
	for _, text := range texts {
		for _, m := range zoned().FindAllStringSubmatch(text, 8) { // a prompt may also speak of time zones
			if loc, err := time.LoadLocation(m[1]); err == nil {
				return now.In(loc)
			}
		}
	}
	return now
}

// speech is the context in which a text is understood. It stops when ctx is done; the writer then returns
// the error.
type speech struct {
	ctx   context.Context
	x     *toolbox
	now   time.Time
	only  *entry // the only tool that may be called
	force bool   // a tool has to be called
	ands  int    // how often sentences were divided
}

// may reports whether a tool may be called.
func (s *speech) may(e *entry) bool { return s.only == nil || s.only == e }

// Limits of a text.
const (
	maxClauses = 8
	maxAnds    = 16
)

// understand returns the calls that a text asks for. If there is any doubt, nothing should be called. A text
// that has the form of one sentence is that sentence. Otherwise it is divided.
func (s *speech) understand(text string) (steps []*step, doubts []*ambiguity) {
	if st, ok := s.pattern(text); ok && !joined().MatchString(text) {
		return []*step{st}, nil
	}
	tokens := scan(s.ctx, text, s.now)
	list := clauses(text, tokens)
	if len(list) == 0 || len(list) > maxClauses {
		return nil, []*ambiguity{{}}
	}
	if len(list) > 1 { // the point of a date or an abbreviation ends no sentence
		if st, ok := s.pattern(text); ok {
			return []*step{st}, nil
		}
	}
	if some, d, is := s.list(text, tokens); is {
		return some, d
	}
	start := 0 // of the text for the agent of the last step
	for _, c := range list {
		for _, part := range sequence(text, c) {
			some, d := s.callsFor(text, part)
			if d != nil {
				doubts = append(doubts, d)
			}
			for _, st := range some {
				if n := len(steps); n > 0 && st.tool.agent && st.tool == steps[n-1].tool { // an agent gets all of its text at once
					steps[n-1].args[st.tool.params[0].name] = text[start:part.hi]
					continue
				}
				steps, start = append(steps, st), part.lo
			}
		}
	}
	return steps, doubts
}

// joined matches what may stand between two wishes.
var joined = pattern(`(?i)[,&;]|\b(?:and|und|then|dann|danach|anschließend|afterwards)\b`)

// inOrder are words between steps that follow each other.
const inOrder = " then dann danach anschließend afterwards "

// isConjunction reports whether a token stands between two wishes.
func isConjunction(t token) bool {
	return t.word == "and" || t.word == "und" || t.word == "," || t.word == "&"
}

// sequence divides a sentence at words like "then", which always stand between two steps.
func sequence(text string, c clause) (out []clause) {
	add := func(tokens []token) {
		for len(tokens) > 0 && isConjunction(tokens[len(tokens)-1]) {
			tokens = tokens[:len(tokens)-1]
		}
		if len(tokens) > 0 {
			out = append(out, newClause(text, tokens))
		}
	}
	tokens := c.tokens
	for i := 1; i+1 < len(tokens); i++ {
		if t := tokens[i]; t.word != "" && strings.Contains(inOrder, " "+t.word+" ") {
			add(tokens[:i])
			tokens, i = tokens[i+1:], 0
		}
	}
	if len(out) == 0 {
		return []clause{c}
	}
	add(tokens)
	return out
}

// callsFor returns the calls of one sentence: those of its two halves if each is complete, or else that of the
// whole sentence. A sentence of a known form is divided only if both halves have one.
func (s *speech) callsFor(text string, c clause) ([]*step, *ambiguity) {
	whole, known := s.pattern(c.text)
	var open *ambiguity // about what follows a sentence of a known form
	for i := 1; i+1 < len(c.tokens) && s.ands < maxAnds; i++ {
		if !isConjunction(c.tokens[i]) || isConjunction(c.tokens[i+1]) {
			continue
		}
		s.ands++
		left, right := newClause(text, c.tokens[:i]), newClause(text, c.tokens[i+1:])
		right.unclear = right.unclear || points().MatchString(lower(right.tokens))
		if len(left.tokens) == 0 || len(right.tokens) == 0 {
			continue
		}
		a, ok := s.pattern(left.text)
		if known {
			if b, d := s.forms(text, right); ok && d {
				return append([]*step{a}, b...), nil
			}
			continue
		}
		if !ok && (right.orders || right.question) {
			a, _ = s.decide(left, false)
		}
		if a == nil || !right.orders && !right.question && !s.begins(right) {
			continue
		}
		b, d := s.callsFor(text, right)
		if d == nil {
			return append([]*step{a}, b...), nil
		}
		if ok && right.orders && open == nil {
			open = d
		}
	}
	if known {
		return []*step{whole}, nil
	}
	st, d := s.decide(c, s.force)
	switch {
	case d == nil:
		return []*step{st}, nil
	case open != nil:
		return nil, open
	}
	return nil, d
}

// begins reports whether a clause has the form of a known sentence.
func (s *speech) begins(c clause) bool {
	_, ok := s.pattern(c.text)
	return ok
}

// forms returns the calls of a clause all of whose parts have the form of known sentences.
func (s *speech) forms(text string, c clause) ([]*step, bool) {
	for i := 1; i+1 < len(c.tokens) && s.ands < maxAnds; i++ {
		if !isConjunction(c.tokens[i]) || isConjunction(c.tokens[i+1]) {
			continue
		}
		s.ands++
		if a, ok := s.pattern(newClause(text, c.tokens[:i]).text); ok {
			if b, ok := s.forms(text, newClause(text, c.tokens[i+1:])); ok {
				return append([]*step{a}, b...), true
			}
		}
	}
	st, ok := s.pattern(c.text)
	return []*step{st}, ok
}
