package offline

import (
	"context"
	"strings"

	"steward/internal/llm"
	"steward/internal/tool"
)

// planTool is the tool that carries out plans. A planner has no other.
const planTool = "plan.start"

// listing matches a tool that a planner's prompt lists.
var listing = pattern(`(?m)^- ([\w.-]+)( \(action\))?(?: \{([\w*, ]*)\})?: (.*)$`)

// listed returns the tools that a planner's prompt lists, with the names of their arguments.
func listed(ctx context.Context, system string) (*toolbox, error) {
	_, text, _ := strings.Cut(system, "\nThe tools and agents, with their arguments (* is required):\n")
	var specs []tool.Spec
	for _, m := range listing().FindAllStringSubmatch(text, maxTools) {
		s := tool.Spec{Name: m[1], Description: m[4]}
		if m[2] != "" {
			s.Effect = tool.Action
		}
		args, required := map[string]any{}, []any{}
		for name := range strings.FieldsFuncSeq(m[3], func(r rune) bool { return r == ',' || r == ' ' }) {
			name, needed := strings.CutSuffix(name, "*")
			if args[name] = map[string]any{"type": "string"}; needed {
				required = append(required, name)
			}
		}
		s.Input = encode(map[string]any{"properties": args, "required": required})
		specs = append(specs, s)
	}
	return newToolbox(ctx, specs)
}

// planned answers a planner: with a plan, with the doubts about its steps, or with what the tasks brought.
func (s *speech) planned(w *writer, r *llm.Request, cur *turn, at int) error {
	own := s.x.byName[planTool]
	if len(cur.calls) > 0 && cur.calls[0].result != nil {
		var lines []string
		for line := range strings.Lines(cur.calls[0].result.Plain()) {
			if !strings.HasPrefix(line, "--- ") && !strings.HasPrefix(line, "What stands between the two marks") { // what is around a task's output
				lines = append(lines, line)
			}
		}
		w.text(clip(strings.Join(lines, ""), shownResult), cur.cut, r.Sampling)
		return nil
	}
	var err error
	if s.x, err = listed(w.ctx, r.System); err != nil {
		return err
	}
	plan, doubts := s.divide(cur.text)
	if len(doubts) > 0 {
		w.text(s.x.answer(cur, doubts), cur.cut, r.Sampling)
		return nil
	}
	w.calls([]*step{{own, plan}}, at, r.Sampling.MaxTokens)
	return nil
}

// divide plans a request: one agent for steps that follow each other, and a task for each step of a list.
func (s *speech) divide(text string) (plan map[string]any, doubts []*doubt) {
	var steps []clause
	var open []token
	ordered := false
	end := func() {
		for len(open) > 0 && open[len(open)-1].word == "and" {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			steps = append(steps, newClause(text, open))
		}
		open = nil
	}
	for _, t := range scan(s.ctx, text, s.now) {
		switch {
		case t.word == ":": // before it stands what the list is about
			steps, open = nil, nil
		case t.word == "then" || t.word != "" && strings.Contains(",;.!", t.word):
			ordered = ordered || t.word == "then"
			end()
		default:
			open = append(open, t)
		}
	}
	if end(); len(steps) == 0 || len(steps) > 2*maxClauses {
		return nil, []*doubt{{}}
	}
	var said []string
	var tools, tasks []any
	for _, c := range steps {
		e, d := s.choice(c)
		if d != nil {
			doubts = append(doubts, d)
			continue
		}
		what := text[c.tokens[0].lo:c.hi]
		said, tools = append(said, what), append(tools, e.spec.Name)
		tasks = append(tasks, map[string]any{"name": whole(what+strings.Repeat(" ", 40), 40), "purpose": what, "selected_tools": []any{e.spec.Name}})
	}
	plan = map[string]any{"analysis": "The request names what it wants step by step.", "plan": strings.Join(said, "; "), "confidence": 1}
	if ordered || len(tasks) == 1 {
		plan["selected_tools"], plan["purpose"] = tools, strings.Join(said, ". ")
	} else {
		plan["subtasks"] = tasks
	}
	return plan, doubts
}

// choice returns the tool that a step certainly needs, or a doubt. Its agent finds the arguments.
func (s *speech) choice(c clause) (best *entry, d *doubt) {
	d = &doubt{clause: c}
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
		case c.unclear || !s.x.suits(e, c) || values < e.required || values > len(e.params):
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
