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
	return v.settingsPage("channels", v.t("Channels"), head(v.t("Channels"), v.button("channel-ask", v.t("Connect a messenger"), "primary"), g.If(len(list) > 0, v.button("pair-ask", v.t("Pair a person"), ""))),
		g.If(len(list) == 0, empty(v.t("No messenger is connected. With one, you talk to Steward from your phone."))),
		Div(Class("cards"), g.Map(list, func(c client.Channel) g.Node {
			state := Span(Class("state bad"), g.Text(v.t("not connected")))
			if !c.Connected.IsZero() {
				state = g.Group{Span(Class("state good"), g.Text(v.t("connected"))), Span(Class("state"), when(c.Connected))}
			}
			return Div(Class("item"), H3(ownText(c.Account), g.Text(" "), Span(Class("state"), g.Text(c.Kind))), P(state), g.If(c.Error != "", P(Class("error"), ownText(c.Error))),
				Dl(Dt(g.Text(v.t("Waiting for an answer"))), Dd(g.Textf("%d", c.Received)), Dt(g.Text(v.t("Waiting to be sent"))), Dd(g.Textf("%d", c.Unsent)), Dt(g.Text(v.t("Failed or uncertain"))), Dd(g.Textf("%d", c.Unsettled))),
				Div(Class("row"), v.button("channel-test", v.t("Test"), "", "name", c.Account), v.button("channel-remove-ask", v.t("Disconnect"), "danger", "name", c.Account)))
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

// channelAsk asks for an account at a messenger.
func (v *visit) channelAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Connect a messenger"), Form(Class("busy"), Data("do", "channel-add"), AutoComplete("off"),
		Label(g.Text(v.t("Messenger, such as telegram or webhook")), Input(Name("kind"), Required(), Value("telegram"), MaxLength("32"))),
		Label(g.Text(v.t("Token")), Input(Type("password"), Name("token"), Required(), AutoComplete("off"), MaxLength("4000"), AutoFocus())),
		Details(Summary(g.Text(v.t("More"))), Label(g.Text(v.t("Short name (letters and digits)")), Input(Name("name"), MaxLength("32"))), Label(g.Text(v.t("Address")), Input(Type("url"), Name("base_url"))),
			Label(Input(Type("checkbox"), Name("unchecked"), Data("flag", "")), g.Text(" "+v.t("Keep it even if the test fails")))),
		v.dialogButtons(v.t("Test and connect")))), nil
}

func (v *visit) channelAdd(in json.RawMessage) (*reply, error) {
	x, err := read[client.NewChannel](in)
	if err != nil {
		return nil, err
	}
	a, err := v.api().AddChannel(v.ctx(), x)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Stored"), Div(P(ownText(a.Account)), P(g.Text(v.t("The messenger is connected when Steward has been started again. Then write to the account and enter the code that you get here."))),
		Div(Class("row end"), Button(Type("button"), Class("primary"), Data("js", "close"), g.Text(v.t("Close")))))), nil
}

func (v *visit) channelTest(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	a, err := v.api().TestChannel(v.ctx(), x.Name)
	return &reply{Toast: v.t("{name} answers", a.Account)}, err
}

func (v *visit) channelRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Disconnect?"), Form(Data("do", "channel-remove"), hiddenFields("name", x.Name), P(g.Text(v.t("The token of {name} is deleted, and the account is off from the next start on. Who is paired stays recorded.", x.Name))), v.dialogButtons(v.t("Disconnect")))), nil
}

func (v *visit) channelRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/channels"}, v.api().RemoveChannel(v.ctx(), x.Name)
}
