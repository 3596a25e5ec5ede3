package page

import (
	"encoding/json"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// channelsScreen shows the accounts at messengers, and who is known there.
func (v *visit) channelsScreen() (content, error) {
	list, err := v.api().Channels(v.ctx())
	if err != nil {
		return content{}, err
	}
	people, err := v.api().ChannelPeople(v.ctx())
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("channels", v.t("Channels"), head(v.t("Channels"), g.If(len(list) > 0, v.button("pair-ask", v.t("Pair a person"), "primary"))),
		g.If(len(list) == 0, empty(v.t("No messenger is connected. With one, you talk to Steward from your phone. The token is stored by the command:"), P(Code(g.Text("steward secrets set telegram_token"))),
			P(g.Text(v.t("Then add to the settings file, and start Steward again:"))), Pre(Class("start"), g.Text("channels:\n  telegram:\n    token: store:telegram_token")))),
		Div(Class("cards"), g.Map(list, func(c client.Channel) g.Node {
			state := Span(Class("state bad"), g.Text(v.t("not connected")))
			if !c.Connected.IsZero() {
				state = g.Group{Span(Class("state good"), g.Text(v.t("connected"))), Span(Class("state"), when(c.Connected))}
			}
			return Div(Class("item"), H3(ownText(c.Account), g.Text(" "), Span(Class("state"), g.Text(c.Kind))), P(state), g.If(c.Error != "", P(Class("error"), ownText(c.Error))),
				Dl(Dt(g.Text(v.t("Waiting for an answer"))), Dd(g.Textf("%d", c.Received)), Dt(g.Text(v.t("Waiting to be sent"))), Dd(g.Textf("%d", c.Unsent)), Dt(g.Text(v.t("Failed or uncertain"))), Dd(g.Textf("%d", c.Unsettled))))
		})),
		g.If(len(people) > 0, g.Group{H2(g.Text(v.t("Who is who"))), Ul(Class("list"), g.Map(people, func(p client.ChannelPerson) g.Node {
			name := p.Name
			if name == "" {
				name = p.Sender
			}
			return Li(Class("row"), Div(ownText(name), g.Text(" → "), Code(g.Text(p.User)), P(Class("quiet"), g.Text(p.Account+" · "), when(p.Since))), Span(Class("space")), v.button("unpair-ask", v.t("Remove"), "danger", "id", p.ID, "name", name))
		}))})), nil
}

func (v *visit) pairAsk(json.RawMessage) (*reply, error) {
	users, err := v.api().Users(v.ctx())
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Pair a person"), Form(Data("do", "pair"),
		P(g.Text(v.t("Whoever writes to Steward for the first time gets a code as the answer. With the code you say who it is."))),
		Label(g.Text(v.t("Code")), Input(Name("code"), Required(), AutoComplete("off"), AutoFocus(), MaxLength("40"))),
		Label(g.Text(v.t("Person")), Select(Name("user"), g.Map(users, func(u client.User) g.Node { return option(u.User, v.signedIn(u), v.caller.User) }))),
		v.dialogButtons(v.t("Pair")))), nil
}

func (v *visit) pair(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Code, User string }](in)
	if err != nil {
		return nil, err
	}
	_, err = v.api().Pair(v.ctx(), x.Code, x.User)
	return &reply{Go: "/settings/channels"}, err
}

func (v *visit) unpairAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Remove?"), Form(Data("do", "unpair"), hiddenFields("id", x.ID), P(g.Text(v.t("{name} cannot talk to Steward there any more, until paired again.", x.Name))), v.dialogButtons(v.t("Remove")))), nil
}

func (v *visit) unpair(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/channels"}, v.api().Unpair(v.ctx(), x.ID)
}
