package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/explain"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy/rego"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
)

// Limits of what the screens of activity show.
const (
	requestsShown    = 100
	logShown         = 50
	intentsShown     = 100
	timelineTalks    = 20  // conversations of agents of one request
	timelineMessages = 200 // of each of them
)

// activityTabs lead to the screens of what happened.
func (v *visit) activityTabs(current string) g.Node {
	tab := func(name, href, label string) g.Node {
		return A(Href(href), g.If(name == current, Aria("current", "page")), g.Text(label))
	}
	return g.Group{head(v.t("Activity")), Nav(Class("tabs"), Aria("label", v.t("Activity")), tab("requests", "/activity", v.t("Requests")), tab("log", "/activity/log", v.t("Work log")),
		tab("decisions", "/activity/decisions", v.t("Decisions")), tab("usage", "/activity/usage", v.t("Usage")))}
}

// activityScreen lists the newest requests.
func (v *visit) activityScreen() (content, error) {
	limit := v.limit(requestsShown)
	list, err := v.api().Requests(v.ctx(), true, false, limit)
	if err != nil {
		return content{}, err
	}
	found := len(list)
	list = slices.DeleteFunc(list, func(r client.Request) bool { return r.Kind == record.RequestAgent }) // its turn is there, too
	conversations, err := v.api().Conversations(v.ctx(), requestsShown)
	if err != nil {
		return content{}, err
	}
	main := g.Group{v.activityTabs("requests")}
	if len(list) == 0 && len(conversations) == 0 {
		main = append(main, empty(v.t("Nothing has happened yet. Say something to Steward, and look here what it did.")))
	}
	if len(list) > 0 {
		main = append(main, Ul(Class("list"), g.Map(list, func(r client.Request) g.Node {
			icon, class, word := v.stateOf(&r)
			return Li(Div(Class("row"), v.icon(icon), A(Href("/activity/requests/"+r.ID), ownText(v.requestTitle(&r))), Span(Class("space")), Span(Class("state "+class), g.Text(word))),
				P(Class("quiet"), when(r.Started), g.Text(" · "+duration(r.Took(time.Now()))), g.If(r.Cost > 0, g.Text(" · "+dollars(r.Cost)))))
		})))
	}
	main = append(main, v.more(found, limit))
	if len(conversations) > 0 {
		main = append(main, H2(Class("part"), g.Text(v.t("Conversations"))), P(Class("quiet"), g.Text(v.t("A plain answer is in its conversation. What called tools is also in the work log."))),
			Ul(Class("list"), g.Map(conversations, func(c client.Conversation) g.Node {
				return Li(Div(Class("row"), A(Href("/chat/"+c.ID), ownText(cmp.Or(c.Title, v.t("New conversation")))), Span(Class("space")),
					A(Href("/activity/log?conversation="+c.ID), g.Text(v.t("Work log"))), A(Href("/activity/requests/"+c.ID), g.Text(v.t("Timeline")))))
			})))
	}
	return content{title: v.t("Activity"), nav: "activity", main: Div(main)}, nil
}

// maxList is how many entries a list may have.
const maxList = 1000

// limit is how many entries a list shows: the parameter limit, or else the standard.
func (v *visit) limit(standard int) int {
	if n, err := strconv.Atoi(v.r.URL.Query().Get("limit")); err == nil {
		return min(max(n, 1), maxList)
	}
	return standard
}

// more leads to a longer list if this one is full.
func (v *visit) more(n, limit int) g.Node {
	if n < limit || limit >= maxList {
		return nil
	}
	q := v.r.URL.Query()
	q.Set("limit", strconv.Itoa(min(limit*4, maxList)))
	return P(Class("more"), A(Class("button"), Href(v.r.URL.Path+"?"+q.Encode()), g.Text(v.t("Show more"))))
}

// happened is an event of a timeline.
type happened struct {
	at   time.Time
	node g.Node
}

// timelineScreen shows what happened for a request, or in a conversation: what was said, model calls, tool
// calls, and what policy decided.
func (v *visit) timelineScreen() (content, error) {
	which := v.r.PathValue("id")
	title, talks, only := "", []string(nil), ""
	agents := map[string]string{}
	var tree client.Request
	conv, err := v.api().Conversation(v.ctx(), which)
	switch {
	case err == nil:
		title, talks = cmp.Or(conv.Title, v.t("Conversation")), []string{conv.ID}
	case !fault.Is(err, fault.NotFound):
		return content{}, err
	default:
		if p, err := v.api().Plan(v.ctx(), which); err == nil {
			which = p.Interaction
		}
		if tree, err = v.api().Request(v.ctx(), which); err != nil {
			return content{}, err
		}
		title, talks, only = v.requestTitle(&tree), conversationsOf(&tree), tree.Interaction
		agentsOf(&tree, agents)
	}
	var events []happened
	cut := len(talks) > timelineTalks
	for i, c := range talks[:min(len(talks), timelineTalks)] {
		in := ""
		if i == 0 {
			in = only
		}
		more, err := v.timeline(c, in, agents[c], &events)
		if err != nil {
			return content{}, err
		}
		cut = cut || more
	}
	slices.SortStableFunc(events, func(a, b happened) int { return a.at.Compare(b.at) })
	main := g.Group{head(title, g.If(tree.ID != "", A(Class("button"), Href("/plans/"+tree.ID), g.Text(v.t("As a tree")))), A(Class("button"), Href("/chat/"+first(talks)), g.Text(v.t("Conversation"))))}
	if n := tree.Usage.Input + tree.Usage.Output; n > 0 {
		main = append(main, P(Class("quiet"), g.Text(v.t("{n} tokens", count(n))), g.If(tree.Cost > 0, g.Text(" · "+dollars(tree.Cost))), g.Text(" · "+duration(tree.Took(time.Now())))))
	}
	if cut {
		main = append(main, P(Class("quiet"), g.Text(v.t("Earlier messages are not shown here."))))
	}
	main = append(main, Ol(ID("timeline"), Class("timeline"), g.Map(events, func(e happened) g.Node { return Li(Div(Class("at"), when(e.at)), e.node) })))
	return content{title: title, nav: "activity", main: Div(main)}, nil
}

// agentsOf notes for each conversation of a tree which agent works in it, or on which task of a plan.
func agentsOf(r *client.Request, out map[string]string) {
	if r.WorkedIn != "" {
		if out[r.WorkedIn] = r.Agent; r.Kind == taskKind {
			out[r.WorkedIn] = r.Title
		}
	}
	for i := range r.Below {
		agentsOf(&r.Below[i], out)
	}
}

// timeline adds what happened in a conversation, or in one interaction of it. It reports whether there is more.
func (v *visit) timeline(conv, interaction, agent string, events *[]happened) (bool, error) {
	own, ok := id.Parse(conv)
	if !ok {
		return false, nil
	}
	list, next, err := v.Node.Conversations.Read(v.ctx(), store.ForUser(v.caller.User), own, conversation.Reading{Limit: timelineMessages, Reverse: true})
	if fault.Is(err, fault.NotFound) { // the conversation of an agent has been deleted
		return false, nil
	}
	if err != nil {
		return false, err
	}
	slices.Reverse(list)
	intents, err := v.intentsByCall(client.IntentQuery{Conversation: conv})
	if err != nil {
		return false, err
	}
	results := map[message.Ref]*message.Message{}
	for _, e := range list {
		if r := e.Result(); e.Role == message.Tool && r != nil {
			results[r.Call] = e.Message
		}
	}
	for i := range list {
		e := &list[i]
		if interaction != "" && e.Interaction.String() != interaction {
			continue
		}
		switch e.Role {
		case message.User:
			if n := v.article(e.Message, nil, nil); n != nil {
				*events = append(*events, happened{e.At, n})
			}
		case message.Assistant:
			*events = append(*events, happened{e.At, v.modelCallItem(conv, agent, e.Message)})
			for _, c := range e.Calls() {
				took, m := "", results[c.Ref]
				if m != nil {
					took = duration(m.At.Sub(e.At))
				}
				shown := v.storedCall(e.Message, c, m)
				var decided g.Node
				if x, ok := intents[shown.id]; ok {
					decided = v.decision(&x)
				}
				*events = append(*events, happened{e.At, Div(Class("happened"), P(Class("what"), v.icon("play"), g.Text(v.t("Tool call")), g.Text(" "), Span(Class("state"), g.Text(took))), v.card(shown), decided)})
			}
		}
	}
	return next != "" && interaction == "", nil
}

// intentsByCall returns actions by the call that wanted them.
func (v *visit) intentsByCall(q client.IntentQuery) (map[string]client.Intent, error) {
	list, err := v.api().Intents(v.ctx(), q, 1000)
	out := map[string]client.Intent{}
	for _, x := range list {
		if x.Call != "" {
			out[x.Call] = x
		}
	}
	return out, err
}

// workLogScreen lists tool calls.
func (v *visit) workLogScreen() (content, error) {
	in := v.r.URL.Query()
	q := client.LogQuery{Conversation: in.Get("conversation"), Tool: in.Get("tool"), Outcome: in.Get("outcome")}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := in.Get(name); s != "" {
			t, err := time.Parse(time.DateOnly, s)
			if err != nil {
				return content{}, fault.New(fault.Invalid, "time_invalid", "%.40q is not a day", s).WithHint("write it as 2006-01-02")
			}
			*to = t
		}
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.AddDate(0, 0, 1) // the day is included
	}
	limit := v.limit(logShown)
	list, err := v.api().Log(v.ctx(), q, limit)
	if err != nil {
		return content{}, err
	}
	intents, err := v.intentsByCall(client.IntentQuery{Conversation: q.Conversation})
	if err != nil {
		return content{}, err
	}
	outcomes := []struct{ value, label string }{{"", v.t("all")}, {"success", v.t("done")}, {"failure", v.t("failed")}, {"partial", v.t("in part")}, {"pending", v.t("not over")}}
	form := Form(Role("search"), Class("filters"), Action("/activity/log"), Method("get"), Data("get", ""), Aria("label", v.t("Filter")),
		Input(Type("hidden"), Name("conversation"), Value(q.Conversation)),
		Label(g.Text(v.t("Tool")), Input(Name("tool"), Value(q.Tool), Placeholder("files.*"))),
		Label(g.Text(v.t("Outcome")), Select(Name("outcome"), g.Map(outcomes, func(o struct{ value, label string }) g.Node {
			return Option(Value(o.value), g.If(o.value == q.Outcome, Selected()), g.Text(o.label))
		}))),
		Label(g.Text(v.t("From")), Input(Type("date"), Name("since"), Value(in.Get("since")))),
		Label(g.Text(v.t("Until")), Input(Type("date"), Name("until"), Value(in.Get("until")))),
		Button(Type("submit"), Class("primary"), g.Text(v.t("Show"))))
	main := g.Group{v.activityTabs("log"), form}
	if q.Conversation != "" {
		main = append(main, P(g.Text(v.t("Only of one conversation:")+" "), v.conversationLink(v.ctx(), q.Conversation), g.Text(" · "), A(Href("/activity/log"), g.Text(v.t("Show all")))))
	}
	if len(list) == 0 {
		main = append(main, empty(v.t("There are no such tool calls.")))
	} else {
		main = append(main, Ul(ID("log"), Class("list"), g.Map(list, func(e client.LogEntry) g.Node {
			x, ok := intents[e.ID]
			return v.logItem(&e, &x, ok)
		})))
	}
	main = append(main, v.more(len(list), limit))
	return content{title: v.t("Work log"), nav: "activity", main: Div(main)}, nil
}

func (v *visit) logItem(e *client.LogEntry, x *client.Intent, action bool) g.Node {
	icon, class, word := v.stateOf(&client.Request{State: requests.Closed, Outcome: e.Outcome})
	switch e.Outcome {
	case "partial":
		icon, class, word = "warn", "warn", v.t("in part")
	case "pending":
		icon, class, word = "clock", "", v.t("not over")
	}
	facts := []string{e.Tool}
	if e.TookMS > 0 {
		facts = append(facts, duration(time.Duration(e.TookMS)*time.Millisecond))
	}
	if e.Actor != "" {
		facts = append(facts, e.Actor)
	}
	return Li(Div(Class("row"), Span(Class("state "+class), v.icon(icon)), Span(Class("sentence"), ownText(e.Summary)), Span(Class("space")), Span(Class("state "+class), g.Text(word))),
		P(Class("quiet"), when(e.At), g.Text(" · "+visible(strings.Join(facts, " · "))+" · "), A(Href("/chat/"+e.Conversation), ownText(cmp.Or(e.Title, v.t("Conversation"))))),
		g.If(e.Error != "", P(Class(map[bool]string{true: "quiet", false: "error"}[e.Outcome == "pending"]), ownText(e.Error))),
		g.If(len(e.Parameters) > 2, Details(Summary(g.Text(v.t("Arguments"))), jsonText(string(e.Parameters)))),
		g.If(action, v.decision(x)))
}

// decisionsScreen lists actions with what policy and people decided about them.
func (v *visit) decisionsScreen() (content, error) {
	q := client.IntentQuery{State: v.r.URL.Query().Get("state"), Dead: v.r.URL.Query().Has("dead")}
	limit := v.limit(intentsShown)
	list, err := v.api().Intents(v.ctx(), q, limit)
	if err != nil {
		return content{}, err
	}
	chosen := func(href, label string, yes bool) g.Node {
		return A(Class("button"), Href(href), g.If(yes, Aria("current", "true")), g.Text(label))
	}
	base := "/activity/decisions"
	filters := Div(Class("row filters"), chosen(base, v.t("all"), q.State == "" && !q.Dead), chosen(base+"?dead=true", v.t("need you"), q.Dead), chosen(base+"?state=done", v.t("done"), q.State == "done"),
		chosen(base+"?state=denied", v.t("denied"), q.State == "denied"), chosen(base+"?state=failed", v.t("failed"), q.State == "failed"), chosen(base+"?state=unknown", v.t("unknown"), q.State == "unknown"))
	main := g.Group{v.activityTabs("decisions"), filters}
	if len(list) == 0 {
		main = append(main, empty(v.t("There are no such actions. What only reads is in the work log.")))
	} else {
		main = append(main, Ul(Class("list"), g.Map(list, func(x client.Intent) g.Node { return Li(v.decision(&x)) })))
	}
	main = append(main, v.more(len(list), limit))
	return content{title: v.t("Decisions"), nav: "activity", main: Div(main)}, nil
}

// decision shows an action: its state, who or what decided about it and why, and what can be done about it.
func (v *visit) decision(x *client.Intent) g.Node {
	icon, class, word := v.intentState(x)
	var who g.Node
	switch {
	case x.DeniedBy != "":
		by := v.t("denied by {name}", visible(x.DeniedBy))
		if x.DeniedBy == v.caller.User {
			by = v.t("denied by you")
		}
		who = g.Text(by)
	case x.Approval != nil && x.Approval.Grant != "":
		who = g.Group{g.Text(v.t("allowed by a standing approval") + " "), when(x.Approval.At)}
	case x.Approval != nil:
		by := v.t("allowed by {name}", visible(x.Approval.By))
		if x.Approval.By == v.caller.User {
			by = v.t("allowed by you")
		}
		who = g.Group{g.Text(by + " "), when(x.Approval.At), g.If(x.Approval.Edited != "", g.Text(" · "+v.t("with other arguments")))}
	case x.State == string(intent.Denied):
		who = g.Text(v.t("denied by policy"))
	case x.State == string(intent.Awaiting):
		who = A(Href("/approvals"), g.Text(v.t("Decide")))
	default:
		who = g.Text(v.t("allowed by policy"))
	}
	var buttons g.Group
	ask := func(what, label string) {
		buttons = append(buttons, v.button("intent-ask", label, "", "id", x.ID, "what", what, "summary", cmp.Or(x.Summary, x.Tool)))
	}
	buttons = append(buttons, v.button("why", v.t("Why?"), "", "id", x.ID))
	switch intent.State(x.State) {
	case intent.Done:
		if x.Undone == "" && x.Undoes == "" && x.Tool != requests.AskPersonTool {
			ask("undo", v.t("Undo …"))
		}
	case intent.Failed:
		if x.Retried == "" {
			ask("retry", v.t("Try again …"))
		}
	case intent.Unknown:
		ask("resolve", v.t("Say what happened …"))
	case intent.Proposed, intent.Awaiting, intent.Approved:
		ask("cancel", v.t("Cancel"))
	}
	return Div(ID("intent-"+x.ID), Class("decision"),
		Div(Class("row"), Span(Class("state "+class), v.icon(icon)), Span(Class("sentence"), ownText(cmp.Or(x.Summary, x.Tool))), Span(Class("space")), Span(Class("state "+class), g.Text(word))),
		P(Class("quiet"), who, g.If(x.Reason != "", g.Group{g.Text(" · "), ownText(x.Reason)}), g.If(x.Rule != "", g.Group{g.Text(" · " + v.t("Rule") + " "), Code(g.Text(x.Rule))}), g.Text(" · "), when(x.Changed)),
		g.If(x.Undone != "", P(Class("quiet"), g.Text(v.t("It has been undone.")))), g.If(x.Resolved != nil, v.resolution(x.Resolved)),
		Div(Class("row"), buttons))
}

func (v *visit) resolution(r *client.Resolution) g.Node {
	if r == nil {
		return nil
	}
	s := v.t("{name} says that it was not done.", r.By)
	if r.Done {
		s = v.t("{name} says that it was done.", r.By)
	}
	return P(Class("quiet"), ownText(s+" "+r.Note))
}

func (v *visit) intentState(x *client.Intent) (icon, class, word string) {
	switch intent.State(x.State) {
	case intent.Executing:
		return "spin", "", v.t("running")
	case intent.Proposed, intent.Approved:
		return "clock", "", v.t("waits")
	case intent.Unknown:
		if x.Resolved == nil {
			return "warn", "warn", v.t("unknown")
		}
	case intent.Expired:
		return "no", "", v.t("expired")
	}
	return v.stateOf(&client.Request{State: requests.Closed, Outcome: x.State})
}

// why explains how policy decides about an action.
func (v *visit) why(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	var out struct {
		Answers []explain.Answer `json:"answers"`
	}
	if err := v.api().Call(v.ctx(), "POST /policy/explain", nil, explain.Question{Request: x.ID}, &out); err != nil {
		return nil, err
	}
	return v.dialog(v.t("Why?"), Div(Class("wide"), g.Map(out.Answers, func(a explain.Answer) g.Node {
		return Section(P(ownText(a.About)), g.If(a.Recorded != nil, v.recordedDecision(a.Recorded)),
			H3(g.Text(v.t("How policy decides today"))),
			Dl(Dt(g.Text(v.t("Verdict"))), Dd(g.Text(string(a.Verdict))), Dt(g.Text(v.t("Reason"))), Dd(ownText(a.Reason)), g.If(a.Rule != "", g.Group{Dt(g.Text(v.t("Rule"))), Dd(Code(g.Text(a.Rule)))}),
				g.If(a.Grant != "", g.Group{Dt(g.Text(v.t("Standing approval"))), Dd(Code(g.Text(a.Grant)))}), g.If(a.Note != "", g.Group{Dt(g.Text(v.t("Note"))), Dd(ownText(a.Note))})),
			Details(Summary(g.Text(v.t("All rules"))), Ul(g.Map(a.Rules, func(r rego.RuleTrace) g.Node {
				return Li(Code(g.Text(r.Where)), g.Text(" "+string(r.Verdict)+": "), g.If(r.Fired, g.Group{B(g.Text(v.t("applies"))), g.Text(" "), ownText(strings.Join(r.Reasons, "; "))}),
					g.If(!r.Fired, g.Group{Span(Class("quiet"), g.Text(v.t("does not apply:")+" ")), Code(g.Text(r.Failed))}))
			}))),
			Details(Summary(g.Text(v.t("What policy saw"))), jsonText(string(a.Input))))
	}), g.If(len(out.Answers) == 0, P(g.Text(v.t("Policy decided about nothing here.")))), v.closeButton())), nil
}

func (v *visit) recordedDecision(r *explain.Recorded) g.Node {
	if r == nil {
		return nil
	}
	return g.Group{H3(g.Text(v.t("How it was decided"))), Dl(Dt(g.Text(v.t("State"))), Dd(g.Text(r.State)), g.If(r.Reason != "", g.Group{Dt(g.Text(v.t("Reason"))), Dd(ownText(r.Reason))}),
		g.If(r.Rule != "", g.Group{Dt(g.Text(v.t("Rule"))), Dd(Code(g.Text(r.Rule)))}), Dt(g.Text(v.t("When"))), Dd(when(r.At)), g.If(r.Policy != "", g.Group{Dt(g.Text(v.t("Policy"))), Dd(Code(g.Text(fmt.Sprintf("%.12s", r.Policy))))}))}
}

// intentAsk asks before something is done about an action.
func (v *visit) intentAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, What, Summary string }](in)
	if err != nil {
		return nil, err
	}
	fields := hiddenFields("id", x.ID, "what", x.What)
	about := P(ownText(x.Summary))
	switch x.What {
	case "undo":
		return v.dialog(v.t("Undo?"), Form(Data("do", "intent-do"), fields, about, P(g.Text(v.t("Steward takes it back with a new action, if its tool can. You may be asked about that."))), v.dialogButtons(v.t("Undo")))), nil
	case "retry":
		return v.dialog(v.t("Try again?"), Form(Data("do", "intent-do"), fields, about, P(g.Text(v.t("Steward does the same with a new action. You may be asked about that."))), v.dialogButtons(v.t("Try again")))), nil
	case "cancel":
		return v.dialog(v.t("Cancel?"), Form(Data("do", "intent-do"), fields, about, P(g.Text(v.t("It will not be done."))), v.dialogButtons(v.t("Cancel it")))), nil
	case "resolve":
		return v.dialog(v.t("What happened?"), Form(Data("do", "intent-do"), fields, about, P(g.Text(v.t("Steward cannot tell whether this was done. Look, and say what you found."))),
			FieldSet(Legend(g.Text(v.t("Was it done?"))), Label(Input(Type("radio"), Name("done"), Value("yes"), Required()), g.Text(v.t("It was done"))), Label(Input(Type("radio"), Name("done"), Value("no")), g.Text(v.t("It was not done")))),
			Label(g.Text(v.t("Note")), Input(Name("note"), MaxLength("500"))), v.dialogButtons(v.t("Save")))), nil
	}
	return nil, fault.New(fault.Invalid, "fields_invalid", "an action cannot be asked to %.40q", x.What)
}

func (v *visit) intentDo(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, What, Done, Note string }](in)
	if err != nil {
		return nil, err
	}
	var now client.Intent
	switch x.What {
	case "undo":
		now, err = v.api().UndoIntent(v.ctx(), x.ID)
	case "retry":
		now, err = v.api().RetryIntent(v.ctx(), x.ID)
	case "cancel":
		now, err = v.api().CancelIntent(v.ctx(), x.ID)
	case "resolve":
		now, err = v.api().ResolveIntent(v.ctx(), x.ID, x.Done == "yes", x.Note)
	default:
		err = fault.New(fault.Invalid, "fields_invalid", "an action cannot be asked to %.40q", x.What)
	}
	if err != nil {
		return nil, err
	}
	_, _, word := v.intentState(&now)
	out := &reply{Patches: []patch{v.closed()}, Toast: cmp.Or(now.Summary, now.Tool) + ": " + word}
	old, err := v.api().Intent(v.ctx(), x.ID)
	if err == nil {
		out.Patches = append(out.Patches, put("intent-"+old.ID, "", v.decision(&old)))
	}
	return out, err
}
