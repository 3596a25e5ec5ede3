package page

import (
	"encoding/json"
	"slices"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/record"
)

// alarmsShown is how many reminders and timers the list of jobs shows.
const alarmsShown = 50

// alarms shows the reminders and timers that will go off.
func (v *visit) alarms() (g.Node, error) {
	found, err := v.api().Resources(v.ctx(), client.ResourceQuery{Type: record.TypeAlarm, State: record.StateDue, Bodies: true}, alarmsShown)
	if fault.Is(err, fault.Unsupported) {
		return Div(ID("alarms")), nil
	}
	if err != nil {
		return nil, err
	}
	type alarm struct {
		Kind, Text, Conversation, Rule string
		Next                           time.Time
	}
	var list []alarm
	for _, r := range found.Resources {
		var a alarm
		if json.Unmarshal(r.Body, &a) == nil && !a.Next.IsZero() { // policy may hide the body
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return Div(ID("alarms")), nil
	}
	slices.SortFunc(list, func(a, b alarm) int { return a.Next.Compare(b.Next) })
	kind := map[string]string{"reminder": v.t("Reminder"), "timer": v.t("Timer")}
	return Section(ID("alarms"), H2(g.Text(v.t("Reminders and timers"))), Ul(Class("list"), g.Map(list, func(a alarm) g.Node {
		return Li(Class("row"), when(a.Next), g.If(a.Conversation != "", A(Href("/chat/"+a.Conversation), ownText(a.Text))), g.If(a.Conversation == "", Span(Class("sentence"), ownText(a.Text))),
			Span(Class("state"), g.Text(kind[a.Kind])), g.If(a.Rule != "", Span(Class("state"), g.Text(v.t("repeats")))))
	})), g.If(found.Next != "", P(Class("quiet"), g.Text(v.t("There are more. Ask for them in the chat.")))),
		P(Class("quiet"), g.Text(v.t("To cancel one, say so in the chat: cancel the reminder to take a break.")))), nil
}
