package page

import (
	"encoding/json"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// heartbeat shows the heartbeat and the reviews: whether they are on, and what they saw last.
func (v *visit) heartbeat() (g.Node, error) {
	h, err := v.api().Heartbeat(v.ctx())
	if err != nil {
		return nil, err
	}
	if !h.On {
		return Section(ID("heartbeat"), H2(g.Text(v.t("Heartbeat and reviews"))),
			P(g.Text(v.t("Steward can look by itself from time to time at what is due and new: tasks, events, goals. It says something only if it is worth it."))),
			v.button("heartbeat-ask", v.t("Turn on …"), "primary")), nil
	}
	limit := v.t("{n} calls of models today", strconv.Itoa(h.Calls.Today))
	if h.Calls.Max > 0 {
		limit = v.t("{n} of {max} calls of models today", strconv.Itoa(h.Calls.Today), strconv.Itoa(h.Calls.Max))
	}
	if h.Calls.Cost > 0 {
		limit += " · " + dollars(h.Calls.Cost)
	}
	return Section(ID("heartbeat"), head2(v.t("Heartbeat and reviews"), v.button("heartbeat-ask", v.t("Edit"), ""), v.button("heartbeat-off-ask", v.t("Turn off"), "danger")),
		P(Span(Class("state good"), g.Text(v.t("on"))), g.Text(" · "+v.t("every {time}", shortDuration(h.Every))),
			g.If(h.Quiet != "", g.Text(" · "+v.t("quiet {hours}", h.Quiet))), g.Text(" · "+limit)),
		Div(Class("cards"), g.Map(h.Jobs, func(j client.HeartbeatJob) g.Node { return v.beatCard(&j) }))), nil
}

// head2 is the heading of a part, with its buttons.
func head2(title string, tools ...g.Node) g.Node {
	return Header(Class("head part"), H2(g.Text(title)), Div(Class("tools"), g.Group(tools)))
}

// shortDuration drops what is zero: "15m0s" becomes "15m".
func shortDuration(s string) string {
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}

func (v *visit) beatKind(kind string) string {
	return map[string]string{"heartbeat": v.t("Heartbeat"), "daily": v.t("Daily review"), "weekly": v.t("Weekly review"), "monthly": v.t("Monthly review")}[kind]
}

func (v *visit) beatCard(j *client.HeartbeatJob) g.Node {
	state := Span(Class("state good"), g.Text(v.t("active")))
	if j.State != "active" {
		state = Span(Class("state"), g.Text(v.t("off")))
	}
	return Div(Class("item"),
		H3(A(Href("/jobs/"+j.Name), g.Text(v.beatKind(j.Kind))), g.Text(" "), state),
		Dl(g.If(j.State == "active", g.Group{Dt(g.Text(v.t("Next"))), Dd(when(j.Next))}),
			g.If(!j.Looked.IsZero(), g.Group{Dt(g.Text(v.t("Looked"))), Dd(when(j.Looked), g.If(j.Idle != "", g.Text(" · "+v.reason(j.Idle))))}),
			g.If(len(j.Failed) > 0, g.Group{Dt(g.Text(v.t("Could not look at"))), Dd(ownText(strings.Join(j.Failed, ", ")))})),
		P(Class("quiet"), g.Text(v.t("looks: {n} · questions to a model: {m}", strconv.Itoa(j.Looks), strconv.Itoa(j.Asked))), g.If(j.Cost > 0, g.Text(" · "+dollars(j.Cost)))),
		v.beatRun(j.Last),
		g.If(j.State == "active", v.button("heartbeat-run", v.t("Look now"), "", "kind", j.Kind)))
}

// beatRun shows what had changed and what was said, the last time that there was something.
func (v *visit) beatRun(r *client.HeartbeatRun) g.Node {
	if r == nil {
		return nil
	}
	o := client.Occurrence{State: r.State}
	return Details(Summary(g.Text(v.t("Last news:")+" "), when(r.Due), g.Text(" "), v.occurrenceState(&o)),
		g.If(r.Reason != "", P(Class("quiet"), ownText(v.reason(r.Reason)))),
		g.If(len(r.Changes) > 0, Ul(g.Map(r.Changes, func(c client.HeartbeatChange) g.Node {
			return Li(when(c.At), g.Text(" "), ownText(c.Text), g.Text(" "), Span(Class("state"), g.Text(c.Source)))
		}))),
		g.If(r.More > 0, P(Class("quiet"), g.Text(v.t("{n} more", strconv.Itoa(r.More))))),
		g.If(r.Said != "", P(Class("typed"), ownText(r.Said))),
		g.If(r.Conversation != "", P(A(Href("/chat/"+r.Conversation), g.Text(v.t("Open"))))))
}

// heartbeatAsk asks how the heartbeat is turned on.
func (v *visit) heartbeatAsk(json.RawMessage) (*reply, error) {
	h, err := v.api().Heartbeat(v.ctx())
	if err != nil {
		return nil, err
	}
	active := map[string]bool{"daily": !h.On, "weekly": !h.On, "monthly": !h.On}
	for _, j := range h.Jobs {
		if h.On {
			active[j.Kind] = j.State == "active"
		}
	}
	tools := map[string]string{}
	for name, verdict := range h.Tools {
		if name != "@action" {
			tools[name] = verdict
		}
	}
	review := func(kind string) g.Node {
		return Label(Input(Type("checkbox"), Name("reviews[]"), Value(kind), g.If(active[kind], Checked())), g.Text(v.beatKind(kind)))
	}
	every := ""
	if h.On {
		every = shortDuration(h.Every)
	}
	label := v.t("Turn on")
	if h.On {
		label = v.t("Save")
	}
	return v.dialog(v.t("Heartbeat and reviews"), Form(Data("do", "heartbeat-on"),
		field(v.t("Time between two looks"), "every", every, "15m", AutoFocus()),
		FieldSet(Legend(g.Text(v.t("Reviews"))), review("daily"), review("weekly"), review("monthly")),
		field(v.t("Time of day of the reviews"), "at", "", "8:00"),
		field(v.t("Quiet hours"), "quiet", h.Quiet, "22:00-7:00"),
		Details(Summary(g.Text(v.t("More settings"))),
			field(v.t("Model"), "model", h.Model, ""),
			field(v.t("Conversation that gets the answer, too"), "conversation", h.Conversation, ""),
			Label(g.Text(v.t("Tools that may change something: one line each, such as reminder.create: ask")), Textarea(Name("tools"), Rows("2"), Class("code"), g.Text(toolLines(tools))))),
		v.dialogButtons(label))), nil
}

func (v *visit) heartbeatOn(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Every, At, Quiet, Model, Conversation, Tools string
		Reviews                                      []string
	}](in)
	if err != nil {
		return nil, err
	}
	tools, err := (&jobFields{Tools: x.Tools}).job()
	if err != nil {
		return nil, err
	}
	h := client.NewHeartbeat{Every: x.Every, At: x.At, Quiet: x.Quiet, Model: x.Model, Conversation: strings.TrimPrefix(x.Conversation, "/chat/"), Tools: tools.Tools, Reviews: x.Reviews}
	if len(h.Reviews) == 0 {
		h.Reviews = []string{"none"}
	}
	now, err := v.api().HeartbeatOn(v.ctx(), h)
	if err != nil {
		return nil, err
	}
	return v.beatDone(now.Note)
}

// beatDone shows the heartbeat after a change.
func (v *visit) beatDone(toast string) (*reply, error) {
	n, err := v.heartbeat()
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), put("heartbeat", "", n)}, Toast: toast}, nil
}

func (v *visit) heartbeatOffAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Turn off?"), Form(Data("do", "heartbeat-off"), P(g.Text(v.t("Steward then says nothing by itself. What it saw until now is kept."))), v.dialogButtons(v.t("Turn off")))), nil
}

func (v *visit) heartbeatOff(json.RawMessage) (*reply, error) {
	if _, err := v.api().HeartbeatOff(v.ctx()); err != nil {
		return nil, err
	}
	return v.beatDone("")
}

func (v *visit) heartbeatRun(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind string }](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().RunHeartbeat(v.ctx(), x.Kind); err != nil {
		return nil, err
	}
	return v.beatDone(v.t("It looks now"))
}
