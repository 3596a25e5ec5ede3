package page

import (
	"encoding/json"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
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
			return Div(Class("item"), H2(ownText(c.Account), g.Text(" "), Span(Class("state"), g.Text(c.Kind))), P(state), g.If(c.Error != "", P(Class("error"), ownText(c.Error))),
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
	if _, err := v.api().Pair(v.ctx(), strings.TrimSpace(x.Code), x.User); err != nil {
		return nil, atField(err, "code_unknown", "code", "user_not_found", "user")
	}
	return &reply{Go: "/settings/channels"}, nil
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

// messenger is what a person has to know to connect an account.
type messenger struct {
	kind, title, about string
	steps              []string // what to do there
	paste              string   // a text to paste there
	token              string   // what the token is called there
	address            string   // what base_url is; empty: it is not asked for
	needsAddress       bool
	link               string // where to do it
	settings           []messengerSetting
}

// slackManifest describes an app for Slack; docs/guides/messengers-slack.md has the same.
const slackManifest = `display_information:
  name: Steward
features:
  app_home:
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  bot_user:
    display_name: steward
    always_online: true
oauth_config:
  scopes:
    bot:
      - app_mentions:read
      - channels:history
      - channels:read
      - chat:write
      - files:read
      - files:write
      - groups:history
      - groups:read
      - im:history
      - im:read
      - im:write
      - mpim:history
      - mpim:read
settings:
  event_subscriptions:
    bot_events:
      - app_mention
      - message.channels
      - message.groups
      - message.im
      - message.mpim
  interactivity:
    is_enabled: true
  socket_mode_enabled: true
`

// messengerSetting is a setting of the account.
type messengerSetting struct {
	name, label, example string
	needed               bool
}

// messengers are the kinds of accounts, the easiest first.
func (v *visit) messengers() []messenger {
	return []messenger{
		{kind: "telegram", title: "Telegram", about: v.t("A bot of yours, alone or in a group. The easiest one."), link: "https://t.me/BotFather",
			steps: []string{v.t("Open Telegram, search for @BotFather, and send it /newbot."), v.t("Choose a name, and a user name that ends in bot."), v.t("BotFather answers with a token such as 123456789:AAF…. Paste it below.")},
			token: v.t("Token of the bot")},
		{kind: "matrix", title: "Matrix", about: v.t("An account of its own at any Matrix home server."), link: "https://app.element.io",
			steps: []string{v.t("Register an account for Steward at your home server, such as @steward:example.org."), v.t("Log in as this account in Element, open All settings, Help & About, Advanced, and copy the access token."), v.t("Close the window without logging out, because logging out ends the token. Chat with the account without encryption.")},
			token: v.t("Access token"), address: v.t("Address of the home server, if it is not matrix.org")},
		{kind: "slack", title: "Slack", about: v.t("An app of yours in a Slack workspace."), link: "https://api.slack.com/apps",
			steps: []string{v.t("Choose Create New App, From a manifest, and your workspace. Paste this manifest:"), v.t("Install it to the workspace. Under OAuth & Permissions is the Bot User OAuth Token; it begins with xoxb-."), v.t("Under Basic Information, App-Level Tokens, create a token with the scope connections:write. It begins with xapp-."), v.t("Paste both tokens below, with a space between them.")},
			paste: slackManifest, token: v.t("Both tokens: xoxb-… xapp-…")},
		{kind: "discord", title: "Discord", about: v.t("A bot of yours, in private messages and on servers."), link: "https://discord.com/developers/applications",
			steps: []string{v.t("Choose New Application. On the page Bot, choose Reset Token and copy the token."), v.t("Leave the privileged gateway intents off: Steward needs none."), v.t("On the page Installation, choose the scope bot with the permissions View Channels, Send Messages, Send Messages in Threads, Read Message History, Attach Files and Embed Links. Open the link there and add the bot to a server of yours.")},
			token: v.t("Token of the bot")},
		{kind: "email", title: v.t("E-mail"), about: v.t("A mailbox that belongs to Steward alone."),
			steps: []string{v.t("Get a mailbox for Steward. Many providers want an app password for other mail programs."), v.t("Look at the source of an e-mail in the mailbox: the topmost field Authentication-Results begins with the name of the server that checks senders, such as mx.google.com. Without it Steward believes no sender.")},
			token: v.t("Password of the mailbox"), settings: []messengerSetting{{"address", v.t("E-mail address of the mailbox"), "steward@example.com", true}, {"trust", v.t("Name of the server that checks senders"), "mx.google.com", false},
				{"imap", v.t("IMAP server, unless the provider is a large one"), "mail.example.com:993", false}, {"smtp", v.t("SMTP server, unless the provider is a large one"), "mail.example.com:465", false}, {"user", v.t("Name to log in with, if it is not the address"), "", false}}},
		{kind: "webhook", title: "Webhook", about: v.t("Any other program, over HTTP: a door station, an SMS gateway, a chat of your own."),
			steps: []string{v.t("Make up a secret of at least 16 characters. Your program signs with it what it posts, and checks what Steward posts."), v.t("The form of what is posted is in the guide docs/guides/messengers.md.")},
			token: v.t("Shared secret"), address: v.t("Address that Steward posts to"), needsAddress: true},
	}
}

// channelAsk asks for the messenger.
func (v *visit) channelAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Connect a messenger"), Div(Class("choice"), P(Class("quiet"), g.Text(v.t("The next step says what to create where, and which token is needed."))),
		Ul(ID("choices"), g.Map(v.messengers(), func(m messenger) g.Node {
			return Li(Button(Type("button"), Data("do", "channel-guide"), Data("field-kind", m.kind), Strong(g.Text(m.title)), Span(Class("quiet"), g.Text(m.about))))
		})), Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel")))))), nil
}

// channelGuide says what to do at a messenger, and asks for the token.
func (v *visit) channelGuide(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind string }](in)
	if err != nil {
		return nil, err
	}
	list := v.messengers()
	i := slices.IndexFunc(list, func(m messenger) bool { return m.kind == x.Kind })
	if i < 0 {
		return nil, fault.New(fault.Invalid, "channel_kind_unknown", "there is no kind of channel %.40q", x.Kind)
	}
	m := &list[i]
	return v.dialog(v.t("Connect {name}", m.title), Form(Class("busy"), Data("do", "channel-add"), hiddenFields("kind", m.kind), AutoComplete("off"),
		Ol(Class("steps"), g.Map(m.steps, func(s string) g.Node { return Li(g.Text(s)) })),
		g.If(m.paste != "", Details(Class("covered"), Summary(g.Text(v.t("The manifest"))), Div(Class("copy"), Pre(g.Text(m.paste)), Button(Type("button"), Data("js", "code"), g.Text(v.t("Copy")))))),
		g.If(m.link != "", P(A(Href(m.link), Rel("noreferrer noopener"), Target("_blank"), g.Text(v.t("Open {address}", m.link))))),
		g.Map(m.settings, func(s messengerSetting) g.Node {
			return Label(g.Text(s.label), Input(Name("set."+s.name), g.If(s.needed, Required()), g.If(s.example != "", Placeholder(s.example)), MaxLength("300"), AutoComplete("off")))
		}),
		g.If(m.address != "", Label(g.Text(m.address), Input(Type("url"), Name("base_url"), g.If(m.needsAddress, Required()), Placeholder("https://example.com"), MaxLength("500")))),
		Label(g.Text(m.token), Input(Type("password"), Name("token"), Required(), AutoComplete("off"), MaxLength("4000"), g.Attr("spellcheck", "false"), g.If(len(m.settings) == 0, AutoFocus()))),
		P(Class("quiet"), g.Text(v.t("Steward keeps it as a secret on this machine. It is never shown again, and no model sees it."))),
		Details(Summary(g.Text(v.t("More"))), Label(g.Text(v.t("Short name of the account, if you have several (letters and digits)")), Input(Name("name"), Placeholder(m.kind), MaxLength("32"), Pattern("[a-z][a-z0-9_\\-]{0,31}"), Title(v.t("Small letters and digits, beginning with a letter")))),
			g.If(m.address == "" && m.kind != "email", Label(g.Text(v.t("Address of the service, if it is not the public one")), Input(Type("url"), Name("base_url"), MaxLength("500")))),
			Label(Input(Type("checkbox"), Name("unchecked"), Data("flag", "")), g.Text(" "+v.t("Keep it even if the test fails")))),
		Div(Class("row end"), v.button("channel-ask", v.t("Back"), ""), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("primary"), g.Text(v.t("Test and connect")))))), nil
}

func (v *visit) channelAdd(in json.RawMessage) (*reply, error) {
	x, err := read[client.NewChannel](in)
	if err != nil {
		return nil, err
	}
	fields, err := read[map[string]any](in)
	if err != nil {
		return nil, err
	}
	x.Settings = map[string]string{}
	for name, value := range fields {
		key, is := strings.CutPrefix(name, "set.")
		if text, ok := value.(string); is && ok && strings.TrimSpace(text) != "" {
			x.Settings[key] = strings.TrimSpace(text)
		}
	}
	x.Token = strings.TrimSpace(x.Token)
	a, err := v.api().AddChannel(v.ctx(), x)
	if err != nil {
		return nil, atField(err, "channel_exists", "name", "channel_name_invalid", "name", "token_invalid", "token", "secret_short", "token", "secret_invalid", "token", "channel_failed", "token")
	}
	account := a.Account
	if account == "" {
		account = x.Kind
	}
	return v.dialog(v.t("Stored"), Div(P(Strong(ownText(account))), P(g.Text(v.t("The messenger is connected when Steward has been started again. Then write to the account and enter the code that you get here."))),
		Div(Class("row end"), A(Class("button primary"), Href("/settings/channels"), g.Text(v.t("Close")))))), nil
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
