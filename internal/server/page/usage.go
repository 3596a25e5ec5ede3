package page

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// usageScreen shows what model calls used, as a chart and as a table.
func (v *visit) usageScreen() (content, error) {
	in := v.r.URL.Query()
	q := client.UsageQuery{By: in.Get("by"), To: time.Now(), AllUsers: v.caller.Admin && in.Get("all") == "true"}
	if q.By == "" {
		q.By = "day"
	}
	days, err := strconv.Atoi(in.Get("days"))
	if err != nil || days < 1 || days > 365 {
		days = 30
	}
	y, m, d := q.To.Date()
	q.From = time.Date(y, m, d-days+1, 0, 0, 0, 0, q.To.Location())
	rep, err := v.api().Usage(v.ctx(), q)
	if err != nil {
		return content{}, err
	}
	at := func(by string, days int, all bool) string {
		return "/activity/usage?" + url.Values{"by": {by}, "days": {strconv.Itoa(days)}, "all": {strconv.FormatBool(all)}}.Encode()
	}
	chosen := func(href, label string, yes bool) g.Node {
		return A(Class("button"), Href(href), g.If(yes, Aria("current", "true")), g.Text(label))
	}
	choices := Div(Class("row filters"),
		chosen(at("day", days, q.AllUsers), v.t("by day"), q.By == "day"), chosen(at("agent", days, q.AllUsers), v.t("by agent"), q.By == "agent"),
		chosen(at("model", days, q.AllUsers), v.t("by model"), q.By == "model"), g.If(v.caller.Admin, chosen(at("user", days, true), v.t("by user"), q.By == "user")),
		Span(Class("space")),
		g.Map([]int{7, 30, 90, 365}, func(n int) g.Node {
			return chosen(at(q.By, n, q.AllUsers), v.t("{n} days", strconv.Itoa(n)), n == days)
		}),
		g.If(v.caller.Admin, g.Group{chosen(at(q.By, days, false), v.t("mine"), !q.AllUsers), chosen(at(q.By, days, true), v.t("all users"), q.AllUsers)}))
	main := g.Group{v.activityTabs("usage"), choices}
	if rep.Total.Calls == 0 {
		main = append(main, empty(v.t("No model was called in this time.")))
		return content{title: v.t("Usage"), nav: "activity", main: Div(main)}, nil
	}
	rows := rep.Rows
	if rep.By == "day" {
		rows = everyDay(&rep)
	}
	main = append(main, v.usageTotal(&rep), v.usageChart(&rep, rows))
	if !rep.Since.IsZero() {
		main = append(main, P(Class("label"), v.icon("warn"), g.Text(v.t("There were too many model calls: the sums are complete since")+" "), when(rep.Since)))
	}
	shown := slices.DeleteFunc(slices.Clone(rows), func(r client.UsageRow) bool { return r.Calls == 0 })
	cells := func(r *client.UsageRow) g.Node {
		return g.Group{Td(g.Text(strconv.Itoa(r.Calls))), Td(g.Text(count(r.Usage.Input))), Td(g.Text(count(r.Usage.CacheRead))), Td(g.Text(count(r.Usage.Output))), Td(g.Text(dollars(r.Cost)))}
	}
	main = append(main, Div(Class("scroll-x"), TabIndex("0"), Role("region"), Aria("label", v.t("Usage")), Table(ID("usage"), Class("figures"), THead(Tr(Th(Scope("col"), g.Text(v.byName(rep.By))), Th(Scope("col"), g.Text(v.t("Model calls"))),
		Th(Scope("col"), g.Text(v.t("Tokens in"))), Th(Scope("col"), g.Text(v.t("From the cache"))), Th(Scope("col"), g.Text(v.t("Tokens out"))), Th(Scope("col"), g.Text(v.t("Cost"))))),
		TBody(g.Map(shown, func(r client.UsageRow) g.Node { return Tr(Th(Scope("row"), ownText(v.usageKey(&r))), cells(&r)) })),
		TFoot(Tr(Th(Scope("row"), g.Text(v.t("Total"))), cells(&rep.Total))))),
		P(Class("quiet"), g.Text(v.t("Costs follow from the prices of today, and are what Steward knows, not a bill."))))
	return content{title: v.t("Usage"), nav: "activity", main: Div(main)}, nil
}

func (v *visit) byName(by string) string {
	switch by {
	case "agent":
		return v.t("Agent")
	case "model":
		return v.t("Model")
	case "user":
		return v.t("User")
	}
	return v.t("Day")
}

func (v *visit) usageKey(r *client.UsageRow) string {
	switch r.Key {
	case "":
		return v.t("other")
	case "designed":
		return v.t("agents of plans")
	}
	return r.Key
}

func (v *visit) usageTotal(rep *client.UsageReport) g.Node {
	t := &rep.Total
	return P(Class("total"), B(g.Text(dollars(t.Cost))), g.Text(" · "+v.t("{n} tokens", count(t.Usage.Input+t.Usage.Output))+" · "+v.t("{n} model calls", strconv.Itoa(t.Calls))))
}

// everyDay adds the days without usage. Those of a report are at most 367.
func everyDay(rep *client.UsageReport) (out []client.UsageRow) {
	by := map[string]client.UsageRow{}
	for _, r := range rep.Rows {
		by[r.Key] = r
	}
	for d := rep.From; !d.After(rep.To) && len(out) < 400; d = d.AddDate(0, 0, 1) {
		key := d.Format(time.DateOnly)
		r := by[key]
		r.Key = key
		delete(by, key)
		out = append(out, r)
	}
	for _, r := range rep.Rows { // days at the edges, in another time zone
		if _, left := by[r.Key]; left {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b client.UsageRow) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// barsShown is how many agents, models or users the chart has.
const barsShown = 12

// usageChart draws the costs, or tokens if nothing cost anything: upright bars for days, lying ones for the rest.
// The table below it says the same, so a screen reader gets one sentence.
func (v *visit) usageChart(rep *client.UsageReport, rows []client.UsageRow) g.Node {
	value := func(r *client.UsageRow) float64 { return float64(r.Usage.Input + r.Usage.Output) }
	show, what := func(r *client.UsageRow) string { return v.t("{n} tokens", count(int64(value(r)))) }, v.t("Tokens")
	if rep.Total.Cost > 0 {
		value = func(r *client.UsageRow) float64 { return r.Cost }
		show, what = func(r *client.UsageRow) string { return dollars(r.Cost) }, v.t("Cost")
	}
	if rep.By != "day" {
		rows = rows[:min(len(rows), barsShown)]
	}
	most := client.UsageRow{}
	for _, r := range rows {
		if value(&r) > value(&most) {
			most = r
		}
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	share := func(r *client.UsageRow) float64 {
		if value(&most) == 0 {
			return 0
		}
		return value(r) / value(&most)
	}
	title := what + " " + v.byName(rep.By) + ": " + v.t("the most is {key} with {value}; the table below has all figures", v.usageKey(&most), show(&most))
	if rep.By != "day" {
		return Figure(Class("chart"), Role("img"), Aria("label", title), Div(Class("bars"), Aria("hidden", "true"), g.Map(rows, func(r client.UsageRow) g.Node {
			return g.Group{Span(Class("key"), ownText(v.usageKey(&r))), SVG(g.Attr("viewBox", "0 0 100 10"), g.Attr("preserveAspectRatio", "none"), g.El("rect", Width(number(max(.5, 100*share(&r)))), Height("10"))), Span(Class("quiet"), g.Text(show(&r)))}
		})))
	}
	const height = 120.0
	step := 600 / float64(max(len(rows), 1))
	var bars []g.Node
	for i, r := range rows {
		h := height * share(&r)
		if r.Calls > 0 {
			h = max(h, 1.5)
		}
		bars = append(bars, g.El("rect", g.Attr("x", number(float64(i)*step+step*.1)), g.Attr("y", number(height-h)), Width(number(step*.8)), Height(number(h)), g.El("title", g.Text(r.Key+": "+show(&r)))))
	}
	return Figure(Class("chart"), SVG(g.Attr("viewBox", fmt.Sprintf("0 0 600 %.0f", height)), g.Attr("preserveAspectRatio", "none"), Role("img"), Aria("label", title), g.Group(bars)),
		FigCaption(Class("quiet"), Span(g.Text(rows[0].Key)), Span(g.Text(v.t("the most: {value}", show(&most)))), Span(g.Text(rows[len(rows)-1].Key))))
}
