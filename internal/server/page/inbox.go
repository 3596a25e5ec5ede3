package page

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/server/auth"
)

// decisionsShown is how many decisions the inbox shows.
const decisionsShown = 20

// approvalsScreen lists the questions of all conversations, decisions, and standing approvals.
func (v *visit) approvalsScreen() (content, error) {
	list, err := v.Node.Effects.Questions(v.ctx(), v.caller.User)
	if err != nil {
		return content{}, err
	}
	intents, err := v.api().Intents(v.ctx(), client.IntentQuery{}, 200)
	if err != nil {
		return content{}, err
	}
	intents = slices.DeleteFunc(intents, func(x client.Intent) bool { return x.Approval == nil && x.DeniedBy == "" })
	standing, err := v.grants()
	if err != nil {
		return content{}, err
	}
	decided := P(Class("quiet"), g.Text(v.t("You have not decided about anything yet.")))
	if len(intents) > 0 {
		decided = g.Group{Ul(Class("list"), g.Map(intents[:min(len(intents), decisionsShown)], func(x client.Intent) g.Node { return Li(v.decision(&x)) })),
			P(A(Href("/activity/decisions"), g.Text(v.t("All decisions"))))}
	}
	return content{title: v.t("Approvals"), nav: "approvals", live: "of=approvals", main: Div(head(v.t("Approvals"), v.notifyButton()), v.questions(v.ctx(), list),
		H2(Class("part"), g.Text(v.t("Standing approvals"))), standing, H2(Class("part"), g.Text(v.t("Recent decisions"))), decided)}, nil
}

// notifyButton turns notifications of this browser on and off. The browser shows it if it can notify.
func (v *visit) notifyButton() g.Node {
	return Button(ID("notify"), Type("button"), Hidden(""), Data("js", "notify"), Data("on", v.t("Notifications are on")), Data("off", v.t("Notify me in this browser")))
}

// questions shows the questions that wait, by conversation.
func (v *visit) questions(ctx context.Context, list []effect.Question) g.Node {
	if len(list) == 0 {
		return Div(ID("questions"), empty(v.t("Nothing waits for you. What Steward may not do by itself is asked here, and in its conversation.")))
	}
	var order []string
	by := map[string][]g.Node{}
	for i := range list {
		_, conv, _ := strings.Cut(list[i].Conversation, ".Conversation.")
		if by[conv] == nil {
			order = append(order, conv)
		}
		by[conv] = append(by[conv], v.question(&list[i]))
	}
	return Div(ID("questions"), g.Map(order, func(conv string) g.Node {
		return Section(H2(v.conversationLink(ctx, conv)), g.Group(by[conv]))
	}))
}

// conversationLink names a conversation, and leads to it.
func (v *visit) conversationLink(ctx context.Context, conv string) g.Node {
	if conv == "" {
		return g.Text(v.t("Outside of conversations"))
	}
	title := v.t("Conversation")
	if c, err := v.api().Conversation(ctx, conv); err == nil && c.Title != "" {
		title = c.Title
	}
	return A(Href("/chat/"+conv), ownText(title))
}

// liveApprovals follows the questions that wait for the person.
func (v *visit) liveApprovals() subject {
	return subject{name: "approvals", asks: true, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		list, err := v.Node.Effects.Questions(ctx, v.caller.User)
		if err != nil {
			return nil, 0, err
		}
		return []patch{put("questions", "", v.questions(ctx, list))}, 0, nil
	}}
}

// grants lists the standing approvals that hold.
func (v *visit) grants() (g.Node, error) {
	var out struct {
		Grants []effect.GrantView `json:"grants"`
	}
	if err := v.api().Call(v.ctx(), "GET /grants", nil, nil, &out); err != nil {
		return nil, err
	}
	if len(out.Grants) == 0 {
		return Div(ID("grants"), P(Class("quiet"), g.Text(v.t("There are none. When you are asked about an action, Always … keeps your answer for actions like it.")))), nil
	}
	return Div(ID("grants"), Ul(Class("list"), g.Map(out.Grants, func(x effect.GrantView) g.Node { return v.grantItem(&x) }))), nil
}

func (v *visit) grantItem(x *effect.GrantView) g.Node {
	return Li(ID("grant-"+x.ID.String()), Div(Class("row"), Code(g.Text(x.Tool)), v.grantState(x), Span(Class("space")),
		v.button("grant-edit-ask", v.t("Edit …"), "", "id", x.ID.String()), v.button("grant-revoke-ask", v.t("Revoke …"), "danger", "id", x.ID.String(), "tool", x.Tool)),
		v.covers(x))
}

func (v *visit) grantState(x *effect.GrantView) g.Node {
	class, word := "", x.State
	switch x.State {
	case "active":
		class, word = "good", v.t("in force")
	case "expired":
		word = v.t("expired")
	case "revoked":
		word = v.t("revoked")
	case "lapsed":
		class, word = "warn", v.t("without effect: the tool has changed")
	}
	return Span(Class("state "+class), g.Text(word))
}

// covers says what a standing approval covers.
func (v *visit) covers(x *effect.GrantView) g.Node {
	where := v.t("everywhere")
	if x.Standing == effect.InConversation {
		where = v.t("in one conversation")
	}
	until := g.Node(g.Text(v.t("for ever")))
	if !x.Expires.IsZero() {
		until = when(x.Expires)
	}
	agent := x.Agent
	if len(x.Lineage) > 0 {
		agent += " ← " + strings.Join(x.Lineage, " ← ")
	}
	return Dl(Dt(g.Text(v.t("Covers"))), Dd(v.pattern(x.Pattern)), Dt(g.Text(v.t("Where"))), Dd(g.Text(where)), Dt(g.Text(v.t("Until"))), Dd(until),
		g.If(agent != "", g.Group{Dt(g.Text(v.t("Agent"))), Dd(g.Text(agent))}),
		Dt(g.Text(v.t("Even after reading"))), Dd(g.Text(v.labels(x.Labels))), Dt(g.Text(v.t("Given"))), Dd(when(x.Created)))
}

// labels says in words what may have been read.
func (v *visit) labels(list []string) string {
	var out []string
	for _, l := range list {
		switch l {
		case "private":
			l = v.t("private data")
		case "untrusted":
			l = v.t("text of others")
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return v.t("nothing private and nothing of others")
	}
	return strings.Join(out, ", ")
}

func (v *visit) grantRevokeAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Tool string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Revoke?"), Form(Data("do", "grant-revoke"), hiddenFields("id", x.ID),
		P(g.Text(v.t("You will be asked about {tool} again, also about actions that have not started.", x.Tool))), v.dialogButtons(v.t("Revoke")))), nil
}

func (v *visit) grantRevoke(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().Call(v.ctx(), "DELETE /grants/{id}", client.Params{"id": x.ID}, nil, nil); err != nil {
		return nil, err
	}
	return v.grantsChanged(v.t("Revoked"))
}

func (v *visit) grantsChanged(toast string) (*reply, error) {
	n, err := v.grants()
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), put("grants", "", n)}, Toast: toast}, nil
}

// grantEditAsk asks for changes of a standing approval.
func (v *visit) grantEditAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	var now effect.GrantView
	if err := v.api().Call(v.ctx(), "GET /grants/{id}", client.Params{"id": x.ID}, nil, &now); err != nil {
		return nil, err
	}
	choice := func(value, label string) g.Node { return Option(Value(value), g.Text(label)) }
	return v.dialog(v.t("Edit"), Form(Data("do", "grant-edit"), hiddenFields("id", x.ID),
		P(Code(g.Text(now.Tool))),
		Label(g.Text(v.t("It covers calls whose arguments fit")), Textarea(Name("pattern"), Rows("5"), Class("code"), AutoFocus(), g.Text(strings.Join(now.Pattern.Lines(), "\n")))),
		P(Class("quiet"), g.Text(v.t("One line for each argument: NAME is VALUE, NAME like GLOB, NAME any or NAME none."))),
		Label(g.Text(v.t("Where")), Select(Name("standing"), choice("", v.t("as now")), choice(string(effect.InConversation), v.t("in one conversation")), choice(string(effect.Always), v.t("everywhere")))),
		Label(g.Text(v.t("Until")), Select(Name("length"), choice("", v.t("as now")), choice("24h", v.t("for a day")), choice("168h", v.t("for a week")), choice("720h", v.t("for 30 days")), choice("never", v.t("for ever")))),
		v.dialogButtons(v.t("Save")))), nil
}

// grantEdit changes a standing approval. It first shows a change that covers more than now.
func (v *visit) grantEdit(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Pattern, Standing, Length, Until, Hash string }](in)
	if err != nil {
		return nil, err
	}
	own := client.Params{"id": x.ID}
	var now effect.GrantView
	if err := v.api().Call(v.ctx(), "GET /grants/{id}", own, nil, &now); err != nil {
		return nil, err
	}
	ch := auth.GrantChange{Standing: x.Standing, Until: x.Until, Hash: x.Hash}
	if ch.Pattern, err = intent.ParsePattern(x.Pattern, now.Pattern); err != nil {
		return nil, err
	}
	if x.Length == "never" {
		ch.Until = x.Length
	} else if x.Length != "" {
		d, err := time.ParseDuration(x.Length)
		if err != nil {
			return nil, fault.New(fault.Invalid, "fields_invalid", "%.40q is not a length of time", x.Length)
		}
		ch.Until = time.Now().Add(d).UTC().Format(time.RFC3339)
	}
	var next effect.EditedView
	if err := v.api().Call(v.ctx(), "POST /grants/{id}/preview", own, ch, &next); err != nil {
		return nil, err
	}
	if next.Wider && x.Hash == "" {
		return v.dialog(v.t("Allow more than now?"), Form(Data("do", "grant-edit"),
			hiddenFields("id", x.ID, "pattern", x.Pattern, "standing", x.Standing, "until", ch.Until, "hash", next.Hash),
			P(Code(g.Text(next.Grant.Tool))), v.covers(&next.Grant), v.dialogButtons(v.t("Allow")))), nil
	}
	if ch.Hash == "" {
		ch.Hash = next.Hash
	}
	if err := v.api().Call(v.ctx(), "PATCH /grants/{id}", own, ch, nil); err != nil {
		return nil, err
	}
	return v.grantsChanged(v.t("Saved"))
}
