package page

import (
	"encoding/json"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
)

// question is the card by which a person decides about an action.
func (v *visit) question(q *effect.Question) g.Node {
	if q.Tool == requests.AskPersonTool && q.Yours {
		return v.taskQuestion(q)
	}
	at := "q-" + q.Short
	summary := q.Summary
	if summary == "" {
		summary = q.Tool
	}
	if q.Tool == planTool {
		return v.planQuestion(at, q)
	}
	return Div(ID(at), Class("question"), Role("group"), Aria("label", v.t("Approval")),
		P(Class("asks"), v.icon("hand"), ownText(summary)),
		g.If(q.Why != "", P(Class("quiet"), ownText(q.Why))),
		g.If(len(q.Read) > 0, P(Class("label"), v.icon("warn"), g.Text(v.t("It follows text of others: {what}", strings.Join(q.Read, ", "))))),
		Dl(g.Map(q.Values, func(x effect.Value) g.Node {
			return g.Group{Dt(g.Text(x.Name)), Dd(ownText(x.Text), g.If(x.Cut, g.Text(" …")))}
		})),
		g.If(q.Preview != "", diff(q.Preview)),
		Details(Summary(g.Text(v.t("Details"))), Dl(
			Dt(g.Text(v.t("Tool"))), Dd(Code(g.Text(q.Tool))),
			g.If(q.Agent != "", g.Group{Dt(g.Text(v.t("Agent"))), Dd(g.Text(q.Agent))}),
			g.If(q.Rule != "", g.Group{Dt(g.Text(v.t("Rule"))), Dd(Code(g.Text(q.Rule)))}),
			Dt(g.Text(v.t("Arguments"))), Dd(Pre(Dir("ltr"), g.Text(tool.Visible(indented(string(q.Args)))))),
			Dt(g.Text(v.t("Expires"))), Dd(when(q.Expires)))),
		g.If(!q.Yours, P(Class("quiet"), g.Text(v.t("Only the group {name} can answer this.", q.Approvers)))),
		g.If(q.Yours, Div(Class("row"),
			v.button("answer", v.t("Allow once"), "primary", "id", q.ID, "hash", q.Hash, "verdict", "allow"),
			g.If(q.NoGrant == "" && len(q.Widths) > 0, v.button("always", v.t("Always …"), "", "id", q.ID)),
			v.button("edit-arguments", v.t("Edit …"), "", "id", q.ID),
			v.button("deny-ask", v.t("Deny …"), "danger", "id", q.ID, "hash", q.Hash))))
}

// diff shows a preview; lines of a unified diff have colours. Invisible characters are written out.
func diff(s string) g.Node {
	s = tool.WriteOut(strings.TrimRight(s, "\n"), func(r rune) bool { return r != '\n' && r != '\t' && tool.Invisible(r) })
	return Pre(Class("diff"), Dir("auto"), g.Map(strings.Split(s, "\n"), func(line string) g.Node {
		class := ""
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@ "):
			class = "about"
		case strings.HasPrefix(line, "+"):
			class = "plus"
		case strings.HasPrefix(line, "-"):
			class = "minus"
		}
		return g.Group{Span(g.If(class != "", Class(class)), g.Text(line)), g.Text("\n")}
	}))
}

// answerQuestion is the action "answer".
func (v *visit) answerQuestion(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		ID, Hash, Verdict, Reason, Standing, Pattern, Until, Args string
	}](in)
	if err != nil {
		return nil, err
	}
	a := client.Answer{Approve: x.Verdict == "allow", Hash: x.Hash, Reason: x.Reason, Standing: x.Standing, Until: x.Until}
	if x.Pattern != "" {
		a.Pattern = json.RawMessage(x.Pattern)
	}
	if x.Args != "" {
		if !json.Valid([]byte(x.Args)) {
			return nil, fault.New(fault.Invalid, "arguments_invalid", "%s", v.t("The arguments are not JSON. Look for a missing quote, comma or brace."))
		}
		a.Args = json.RawMessage(x.Args)
	}
	if err := v.api().AnswerApproval(v.ctx(), x.ID, a); err != nil {
		return nil, err
	}
	out := &reply{Patches: []patch{v.closed()}}
	if q, err := v.Node.Effects.Question(v.ctx(), store.ForUser(v.caller.User), x.ID, nil); err == nil {
		out.Patches = append(out.Patches, patch{ID: "q-" + q.Short})
	}
	out.Toast = v.t("Denied")
	if a.Approve {
		out.Toast = v.t("Allowed")
	}
	return out, nil
}

func (v *visit) closed() patch { return put("dialog", "", Dialog(ID("dialog"))) }

// denyAsk asks for a reason.
func (v *visit) denyAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Hash string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Deny"), Form(Data("do", "answer"), hiddenFields("id", x.ID, "hash", x.Hash, "verdict", "deny"),
		Label(g.Text(v.t("Why? The assistant reads this.")), Input(Name("reason"), MaxLength("500"), AutoFocus())), v.dialogButtons(v.t("Deny")))), nil
}

func hiddenFields(fields ...string) g.Node {
	var out []g.Node
	for i := 0; i+1 < len(fields); i += 2 {
		out = append(out, Input(Type("hidden"), Name(fields[i]), Value(fields[i+1])))
	}
	return g.Group(out)
}

// always shows what a standing approval would cover, before it is given.
func (v *visit) always(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Pattern string }](in)
	if err != nil {
		return nil, err
	}
	plain, err := v.Node.Effects.Question(v.ctx(), store.ForUser(v.caller.User), x.ID, nil)
	if err != nil {
		return nil, err
	}
	var chosen intent.Pattern
	if x.Pattern != "" {
		if err := json.Unmarshal([]byte(x.Pattern), &chosen); err != nil {
			return nil, err
		}
	} else if len(plain.Widths) > 0 {
		chosen = plain.Widths[0].Pattern
	}
	q, err := v.Node.Effects.Question(v.ctx(), store.ForUser(v.caller.User), x.ID, chosen)
	if err != nil {
		return nil, err
	}
	now, err := json.Marshal(q.Pattern)
	if err != nil {
		return nil, err
	}
	choices := Div(Class("widths"), g.Map(plain.Widths, func(w effect.Width) g.Node {
		p, err := json.Marshal(w.Pattern)
		if err != nil {
			return nil
		}
		return v.button("always", w.Name, map[bool]string{true: "chosen"}[string(p) == string(now)], "id", x.ID, "pattern", string(p))
	}))
	body := Div(P(g.Text(v.t("Steward will not ask again for calls of {tool} that fit this:", q.Tool))), choices, v.pattern(q.Pattern),
		Form(Data("do", "answer"), hiddenFields("id", x.ID, "hash", q.Hash, "verdict", "allow", "pattern", string(now)),
			FieldSet(Legend(g.Text(v.t("For how long?"))),
				Label(Input(Type("radio"), Name("standing"), Value("conversation"), Checked()), g.Text(v.t("in this conversation"))),
				Label(Input(Type("radio"), Name("standing"), Value("always")), g.Text(v.t("in all conversations, until I revoke it")))),
			P(Class("quiet"), g.Text(v.t("It is kept under Approvals, where you can change and revoke it."))),
			v.dialogButtons(v.t("Allow"))))
	return v.dialog(v.t("Always allow"), body), nil
}

// pattern shows which calls a standing approval covers.
func (v *visit) pattern(p intent.Pattern) g.Node {
	lines := strings.Join(p.Lines(), "\n")
	if lines == "" {
		lines = v.t("calls without arguments")
	}
	return Pre(Dir("ltr"), g.Text(tool.Visible(lines)))
}

// editArguments lets the person change what will be done.
func (v *visit) editArguments(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	q, err := v.Node.Effects.Question(v.ctx(), store.ForUser(v.caller.User), x.ID, nil)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Edit the arguments"), Form(Data("do", "answer"), hiddenFields("id", q.ID, "hash", q.Hash, "verdict", "allow"),
		Label(g.Text(v.t("Arguments")), Textarea(Name("args"), Rows("10"), Class("code"), AutoFocus(), g.Text(indented(string(q.Args))))), v.dialogButtons(v.t("Allow once")))), nil
}
