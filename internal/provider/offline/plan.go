package offline

import (
	"slices"
	"strings"

	"steward/internal/llm"
	"steward/internal/search/words"
)

// planTool is the tool that carries out plans. A planner has no other.
const planTool = "plan.start"

// planned answers a planner, whose plans use the given tools: with a plan, with the doubts about its steps, or with what the tasks brought.
func (s *speech) planned(w *writer, r *llm.Request, tools *toolbox, cur *turn, at int) error {
	own := s.x.byName[planTool]
	if len(cur.calls) > 0 && cur.calls[0].result != nil {
		var lines []string
		for line := range strings.Lines(cur.calls[0].result.Plain()) {
			if !strings.HasPrefix(line, "--- ") && !strings.HasPrefix(line, material) { // what is around a task's output
				line, _, _ = strings.Cut(line, ", judged: not judged")
				lines = append(lines, strings.TrimSuffix(line, "\n")+"\n")
			}
		}
		w.text(clip(strings.Join(lines, ""), shownResult), cur.cut, r.Sampling)
		return nil
	}
	s.x = tools
	plan, doubts := s.divide(cur.text)
	if len(doubts) > 0 {
		w.text(s.answer(cur, doubts), cur.cut, r.Sampling)
		return nil
	}
	w.calls([]*step{{tool: own, args: plan}}, at, r.Sampling.MaxTokens)
	return nil
}

// divide plans a request: one agent for steps that follow each other, and a task for each step of a list. What
// stands before a colon is what the list is about, and what "it" means in the list.
func (s *speech) divide(text string) (plan map[string]any, doubts []*ambiguity) {
	tokens := scan(s.ctx, text, s.now)
	about, tokens, _ := headed(text, tokens)
	var said []string
	var tools, names, tasks []any
	for _, c := range s.items(text, tokens, about) {
		name := strings.TrimSpace(whole(c.original()+strings.Repeat(" ", 40), 40))
		c, refers := s.resolved(c, about)
		e, c, d := s.choice(c, about)
		if d != nil {
			doubts = append(doubts, d)
			continue
		}
		task := map[string]any{"name": name, "purpose": c.original(), "selected_tools": []any{e.spec.Name}}
		if refers && len(names) > 0 {
			task["after"] = names[:len(names):len(names)]
		}
		said, tools, names, tasks = append(said, c.original()), append(tools, e.spec.Name), append(names, name), append(tasks, task)
	}
	if len(said)+len(doubts) == 0 || len(said)+len(doubts) > 2*maxClauses {
		return nil, []*ambiguity{{}}
	}
	plan = map[string]any{"analysis": "The request names what it wants step by step.", "plan": strings.Join(said, "; "), "confidence": 1}
	if len(tasks) == 1 || slices.ContainsFunc(tokens, func(t token) bool { return t.word == "then" }) {
		plan["selected_tools"], plan["purpose"] = tools, strings.Join(said, ". ")
	} else {
		plan["subtasks"] = tasks
	}
	return plan, doubts
}

// headed reads the beginning of a list: what stands before a colon, or before a dash between words.
func headed(text string, tokens []token) (about subject, rest []token, ok bool) {
	for i, t := range tokens {
		dash := t.word == "-" || t.word == "–" || t.word == "—"
		if i == 0 || i+1 == len(tokens) || t.word != ":" && !dash {
			continue
		}
		if dash && (t.lo == 0 || text[t.lo-1] != ' ' || tokens[i-1].kind == numeral || tokens[i+1].kind == numeral) {
			continue
		}
		return subjectOf(text, tokens[:i]), tokens[i+1:], true
	}
	return about, tokens, false
}

// items divides a list into its steps. An "and" divides two if what follows it is certainly one.
func (s *speech) items(text string, tokens []token, about subject) (out []clause) {
	next := func(t token) bool {
		return t.word != "" && strings.Contains(inOrder, " "+t.word+" ") || sign(t, ",;.!")
	}
	for _, part := range split(tokens, next) {
		for len(part) > 0 && (isConjunction(part[len(part)-1]) || next(part[len(part)-1])) {
			part = part[:len(part)-1]
		}
		for len(part) > 0 && isConjunction(part[0]) {
			part = part[1:]
		}
		if len(part) == 0 {
			continue
		}
		c := newClause(text, part)
		for i := 1; i+1 < len(c.tokens) && s.ands < maxAnds; i++ {
			if c.tokens[i].word != "and" && c.tokens[i].word != "und" {
				continue
			}
			s.ands++
			right, _ := s.resolved(newClause(text, c.tokens[i+1:]), about)
			if _, _, d := s.choice(right, about); right.orders && d == nil {
				out, c, i = append(out, newClause(text, c.tokens[:i])), newClause(text, c.tokens[i+1:]), 0
			}
		}
		if len(c.tokens) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// list returns the calls of a text that says what it is about and then what is to be done for it, such as "Plan a
// trip: check the weather, find lodging, add it to the calendar". is reports whether it has this form.
func (s *speech) list(text string, tokens []token) (steps []*step, doubts []*ambiguity, is bool) {
	about, tokens, ok := headed(text, tokens)
	if !ok || about.what == "" || !about.plan {
		return nil, nil, false
	}
	list := s.items(text, tokens, about)
	if len(list) < 2 || len(list) > 2*maxClauses {
		return nil, nil, false
	}
	for _, c := range list {
		c, _ = s.resolved(c, about)
		if st, ok := s.pattern(c.text); ok {
			steps = append(steps, st)
			continue
		}
		e, c, d := s.choice(c, about)
		if d == nil {
			d = &ambiguity{clause: c, near: []*entry{e}}
			if st, ok := s.pattern(c.text); ok {
				steps, d = append(steps, st), nil
			} else if args := e.fill(c); args != nil {
				steps, d = append(steps, &step{tool: e, args: args}), nil
			}
		}
		if d != nil {
			doubts = append(doubts, d)
		}
	}
	return steps, doubts, true
}

// original returns the clause as written, without words of politeness.
func (c *clause) original() string { return c.text[c.tokens[0].lo-c.lo:] }

// subject is what a list of steps is about, and its day if it has one.
type subject struct {
	what, day string
	plan      bool // it is an order to plan
}

// planning are the words with which a request for a plan begins.
var planning = []string{"plan", "organize", "organise", "prepare", "arrange", "plane", "organisiere"}

// subjectOf reads what stands before a list: "Plan a weekend trip" is about a weekend trip.
func subjectOf(text string, tokens []token) (about subject) {
	for _, t := range tokens {
		if t.kind == date {
			about.day = t.value
		}
	}
	for _, t := range tokens {
		about.plan = about.plan || slices.Contains(planning, t.word)
	}
	for len(tokens) > 0 && tokens[0].kind == plain && (words.Common(tokens[0].word) || slices.Contains(planning, tokens[0].word)) {
		tokens = tokens[1:]
	}
	if len(tokens) > 0 {
		about.what = strings.ReplaceAll(text[tokens[0].lo:tokens[len(tokens)-1].hi], `"`, "")
	}
	return about
}

// resolved puts what a list is about, and its day, in the place of the word that refers to it.
func (s *speech) resolved(c clause, about subject) (clause, bool) {
	i := slices.IndexFunc(c.tokens, func(t token) bool { return t.word == "it" || t.word == "this" })
	if about.what == "" {
		return c, false
	}
	name := `"` + about.what + `"`
	if said := lower(c.tokens); i < 0 && (strings.HasPrefix(said, "add to ") || strings.HasPrefix(said, "put in ") || strings.HasPrefix(said, "put on ")) {
		return s.resolved(newClause(c.original()[:3]+" it"+c.original()[3:], scan(s.ctx, c.original()[:3]+" it"+c.original()[3:], s.now)), about) // what is left out is what the list is about
	}
	if i < 0 {
		return c, false
	}
	if about.day != "" && !slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == date || t.kind == moment }) {
		name += " on " + about.day
	}
	text := c.text[c.tokens[0].lo-c.lo:c.tokens[i].lo-c.lo] + name + c.text[c.tokens[i].hi-c.lo:]
	return newClause(text, scan(s.ctx, text, s.now)), true
}

// finding are the words with which a search begins.
var finding = []string{"find", "search", "research", "for", "a", "an", "the", "some"}

// choice returns the tool that a step certainly needs, and the step, or a doubt. Something is found by a tool
// that searches the web if no other tool fits.
func (s *speech) choice(c clause, about subject) (*entry, clause, *ambiguity) {
	if st, ok := s.pattern(c.text); ok {
		return st.tool, c, nil
	}
	e, d := s.certain(c)
	if d == nil || c.unclear || !slices.Contains(finding[:3], c.tokens[0].word) || strings.Contains(lower(c.tokens), " my ") {
		return e, c, d
	}
	for len(c.tokens) > 1 && slices.Contains(finding, c.tokens[0].word) {
		c.tokens = c.tokens[1:]
	}
	text := `Search the web for "` + strings.ReplaceAll(strings.TrimSpace(c.original()+" "+about.what), `"`, "") + `"`
	web := newClause(text, scan(s.ctx, text, s.now))
	if e, none := s.certain(web); none == nil {
		return e, web, nil
	}
	return nil, c, d
}

// certain returns the tool that a step certainly needs, or a doubt. Its agent finds the arguments.
func (s *speech) certain(c clause) (best *entry, d *ambiguity) {
	d = &ambiguity{clause: c}
	var score, next float64
	values := 0 // each needs a place in the call, and each required argument a value
	for _, t := range c.tokens {
		if t.kind != plain {
			values++
		}
	}
	for i, m := range s.x.rank(c) {
		e := s.x.entries[m.Doc]
		if i < 2 {
			d.near = append(d.near, e)
		}
		switch {
		case c.unclear || !s.x.formAllows(e, c) || values < e.required || values > len(e.params):
		case best == nil:
			best, score = e, m.Score
		default:
			next = max(next, m.Score)
		}
	}
	if best == nil || score < likeTool || score-next < clearly {
		return nil, d
	}
	return best, nil
}
