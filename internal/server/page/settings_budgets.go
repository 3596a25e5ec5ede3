package page

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/settings"
)

// budgetsScreen shows what models may use, and what was used today.
func (v *visit) budgetsScreen() (content, error) {
	n, err := v.budgetsShown(v.r.URL.Query().Get("all") != "")
	return v.settingsPage("budgets", v.t("Budgets"), head(v.t("Budgets")), n), err
}

// spendersShown is how many users and agents are listed at first.
const spendersShown = 20

// budgetsShown is the part of the screen that changes.
func (v *visit) budgetsShown(all bool) (g.Node, error) {
	b, err := v.api().Budgets(v.ctx())
	if err != nil {
		return nil, err
	}
	set, err := v.api().Settings(v.ctx())
	if err != nil {
		return nil, err
	}
	limit := func(x [2]string) g.Node {
		i := slices.IndexFunc(set.Settings, func(s client.Setting) bool { return s.Key == x[0] })
		if i < 0 {
			return nil
		}
		s, name := set.Settings[i], x[1]
		value := s.Value
		if value == "0" {
			value = v.t("no limit")
		}
		return Li(Class("row"), Div(Class("grow"), g.Text(name), P(Class("quiet"), Code(g.Text(s.Key)), g.Text(" · "+v.settingFrom(s.From)))), Strong(g.Text(value)),
			g.If(s.Waits, Span(Class("state warn"), g.Text(v.t("from the next start on")))), g.If(v.mayChange(&s), v.settingButton(s.Key, "budgets")))
	}
	shown := func(list []client.Spending) []client.Spending {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b client.Spending) int {
			return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Tokens, a.Tokens))
		})
		if !all {
			list = list[:min(len(list), spendersShown)]
		}
		return list
	}
	more := len(b.Users) > spendersShown || len(b.Agents) > spendersShown
	return Div(ID("budgets"),
		P(Class("quiet"), g.Text(v.t("When a budget is spent, models are not asked until the next day, which begins:")+" "), when(b.Ends)),
		H2(g.Text(v.t("Limits"))), Ul(Class("list"), g.Map([][2]string{{"limits.day_cost", v.t("Dollars of a person in a day")}, {"limits.day_tokens", v.t("Tokens of a person in a day")}, {"limits.cost", v.t("Dollars of one answer")}, {"limits.tokens", v.t("Tokens of one answer")},
			{"heartbeat.cost", v.t("Dollars of a person's heartbeat in a day")}, {"heartbeat.calls", v.t("Model calls of a person's heartbeat in a day")}, {"embed.day_cost", v.t("Dollars for the search by meaning in a day")}}, limit)),
		H2(g.Text(v.t("People today"))), Ul(Class("list"), g.Map(shown(b.Users), func(s client.Spending) g.Node {
			return Li(ID("budget-"+s.Name), Class("row"), Div(Class("grow"), A(Href("/settings/people/"+s.Name), ownText(s.Name)), g.If(s.Own, g.Group{g.Text(" "), Span(Class("state"), g.Text(v.t("own limit")))}), v.spent(&s)),
				Button(Type("button"), Data("do", "budget-ask"), Data("field-user", s.Name), Aria("label", v.t("Change {name}", s.Name)), g.Text(v.t("Change"))))
		})),
		H2(g.Text(v.t("Agents today"))), P(Class("quiet"), g.Text(v.t("The limit of an agent holds for one run of it. It stands in its definition (limits in agent.yaml); a change of it waits for your approval."))),
		g.If(len(b.Agents) == 0, empty(v.t("No model was called today."))),
		Ul(Class("list"), g.Map(shown(b.Agents), func(s client.Spending) g.Node {
			most := v.limitText(s.Limit)
			if most == "" {
				most = v.t("no limit of its own")
			}
			return Li(Class("row"), Div(Class("grow"), ownText(v.usageKey(&client.UsageRow{Key: s.Name})), P(Class("quiet"), g.Text(v.usedText(&s)))), Span(Class("quiet"), g.Text(v.t("one run: {limit}", most))))
		})),
		g.If(more && !all, P(Class("more"), A(Class("button"), Href("/settings/budgets?all=1"), g.Text(v.t("Show all"))))),
		P(A(Href("/activity/usage"), g.Text(v.t("Usage of more days")))),
	), nil
}

// usedText says what somebody has used.
func (v *visit) usedText(s *client.Spending) string {
	return dollars(s.Cost) + " · " + v.t("{n} tokens", count(s.Tokens)) + " · " + v.t("{n} model calls", strconv.Itoa(s.Calls))
}

// limitText names a limit; empty: there is none.
func (v *visit) limitText(b client.Budget) string {
	var parts []string
	if b.Cost > 0 {
		parts = append(parts, dollars(b.Cost))
	}
	if b.Tokens > 0 {
		parts = append(parts, v.t("{n} tokens", count(b.Tokens)))
	}
	return strings.Join(parts, ", ")
}

// spent shows what a user has used of the limit of the day.
func (v *visit) spent(s *client.Spending) g.Node {
	limit := v.limitText(s.Limit)
	if limit == "" {
		return P(Class("quiet"), g.Text(v.usedText(s)+" · "+v.t("no limit")))
	}
	part := 0.0
	if s.Limit.Cost > 0 {
		part = s.Cost / s.Limit.Cost
	}
	if s.Limit.Tokens > 0 {
		part = max(part, float64(s.Tokens)/float64(s.Limit.Tokens))
	}
	return g.Group{P(Class("quiet"), g.Text(v.usedText(s)+" · "+v.t("of {limit}", limit))),
		Progress(Class("budget"), Max("100"), Value(strconv.Itoa(int(100*min(part, 1)))), Aria("label", v.t("of {limit}", limit))),
		g.If(part >= 1, P(Class("error"), g.Text(v.t("The budget of today is spent."))))}
}

// ownBudget shows the person's own budget.
func (v *visit) ownBudget() g.Node {
	b, err := v.api().Budgets(v.ctx())
	if err != nil || len(b.Users) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(b.Users, func(s client.Spending) bool { return s.Name == v.caller.User }))
	return Section(Class("item"), H2(g.Text(v.t("Your budget today"))), v.spent(&b.Users[i]), P(A(Href("/activity/usage"), g.Text(v.t("Usage of more days")))))
}

// budgetAsk shows the form of a user's own limits.
func (v *visit) budgetAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User string }](in)
	if err != nil {
		return nil, err
	}
	b, err := v.api().Budgets(v.ctx())
	if err != nil {
		return nil, err
	}
	set, err := v.api().Settings(v.ctx())
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, s := range set.Settings {
		now[s.Key] = s.Value
	}
	all := v.limitText(b.Day)
	if all == "" {
		all = v.t("no limit")
	}
	field := func(label, name string) g.Node {
		return Label(g.Text(label), Input(Name(name), Value(now[settings.UserLimit(x.User, name)]), g.Attr("inputmode", "decimal"), AutoComplete("off"), MaxLength("20"), g.If(name == "day_cost", AutoFocus())))
	}
	return v.dialog(v.t("Budget of {name}", x.User), Form(Class("busy"), Data("do", "budget-save"), hiddenFields("user", x.User),
		P(g.Text(v.t("In a day. Empty: as for everybody ({limit}). 0: no limit.", all))),
		field(v.t("Dollars"), "day_cost"), field(v.t("Tokens"), "day_tokens"),
		P(Class("notice"), v.icon("clock"), g.Text(v.t("The change is in force at once."))), v.dialogButtons(v.t("Save")))), nil
}

func (v *visit) budgetSave(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		User   string
		Cost   string `json:"day_cost"`
		Tokens string `json:"day_tokens"`
	}](in)
	if err != nil {
		return nil, err
	}
	values := [][2]string{{"day_cost", x.Cost}, {"day_tokens", x.Tokens}}
	for _, f := range values { // both are checked before one is written
		if value := strings.TrimSpace(f[1]); value != "" {
			if _, err := settings.Setting(settings.UserLimit(x.User, f[0]), value); err != nil {
				return nil, atField(fault.New(fault.Invalid, "setting_invalid", "%s", v.t("Write a number, 0 or more.")), "setting_invalid", f[0])
			}
		}
	}
	for _, f := range values {
		key, value := settings.UserLimit(x.User, f[0]), strings.TrimSpace(f[1])
		if value == "" {
			_, err = v.api().UnsetSetting(v.ctx(), key)
		} else {
			_, err = v.api().SetSetting(v.ctx(), key, value)
		}
		if err != nil {
			return nil, err
		}
	}
	n, err := v.budgetsShown(false)
	return &reply{Patches: []patch{v.closed(), put("budgets", "", n)}, Toast: v.t("Saved, and in force.")}, err
}
