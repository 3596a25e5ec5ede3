package page

import (
	"encoding/json"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/internal/effect"
)

// planTool is the tool that carries out a plan. Its preview is the whole plan.
const planTool = "plan.start"

// planQuestion is the card by which a person decides about a plan.
func (v *visit) planQuestion(at string, q *effect.Question) g.Node {
	return Div(ID(at), Class("question plan"), Role("group"), Aria("label", v.t("Plan")),
		P(Class("asks"), v.icon("tree"), ownText(q.Summary)),
		g.If(q.Preview != "", Pre(Class("plan-text"), Dir("auto"), g.Text(visible(q.Preview)))),
		Details(Summary(g.Text(v.t("Details"))), Dl(Dt(g.Text(v.t("Plan"))), Dd(jsonText(string(q.Args))), Dt(g.Text(v.t("Expires"))), Dd(when(q.Expires)))),
		g.If(q.Yours, Div(Class("row"),
			v.button("answer", v.t("Carry out"), "primary", "id", q.ID, "hash", q.Hash, "verdict", "allow"),
			v.button("plan-change-ask", v.t("Change …"), "", "id", q.ID, "hash", q.Hash),
			v.button("edit-arguments", v.t("Edit …"), "", "id", q.ID),
			v.button("answer", v.t("Do not carry out"), "danger", "id", q.ID, "hash", q.Hash, "verdict", "deny"))))
}

// planChangeAsk asks what should be different in a plan. The planner reads it, and makes another.
func (v *visit) planChangeAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Hash string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Change the plan"), Form(Data("do", "answer"), hiddenFields("id", x.ID, "hash", x.Hash, "verdict", "deny"),
		Label(g.Text(v.t("What should be different? The planner makes a new plan of it.")), Textarea(Name("reason"), Rows("4"), MaxLength("2000"), Required(), AutoFocus())), v.dialogButtons(v.t("Make a new plan")))), nil
}
