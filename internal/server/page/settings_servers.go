package page

import (
	"encoding/json"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
)

// serverStates returns the MCP servers of the settings by their paths. Who may not manage them sees none.
func (v *visit) serverStates() (map[string]client.Server, error) {
	out := map[string]client.Server{}
	if !v.caller.Admin {
		return out, nil
	}
	list, err := v.api().Servers(v.ctx())
	if fault.Is(err, fault.Unsupported) {
		return out, nil
	}
	for _, s := range list.Servers {
		out["mcp:"+s.Name] = s
	}
	return out, err
}

// serverState says where a server is, and whether a person has to sign in there.
func (v *visit) serverState(s *client.Server) g.Node {
	var sign g.Node
	switch {
	case s.Lacks != "":
		sign = g.Group{P(Class("label"), v.icon("warn"), ownText(s.Lacks)), P(v.button("sign-in-ask", v.t("Sign in"), "primary", "name", s.Name))}
	case s.SignedIn:
		sign = P(Span(Class("state good"), g.Text(v.t("signed in"))), g.Text(" "), v.button("sign-in-ask", v.t("Sign in again"), "", "name", s.Name))
	case s.SignsIn:
		sign = P(v.button("sign-in-ask", v.t("Sign in"), "", "name", s.Name))
	}
	return g.Group{P(Class("quiet"), Code(ownText(s.At))), sign}
}

// serverAsk asks for an MCP server: a known one, or any other by its address.
func (v *visit) serverAsk(json.RawMessage) (*reply, error) {
	list, err := v.api().Servers(v.ctx())
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Add a server of tools"), Div(
		P(Class("quiet"), g.Text(v.t("You see the tools of a server before you approve them."))),
		Div(Class("choice"), Input(Type("search"), Data("js-filter", "choices"), Placeholder(v.t("Filter")), Aria("label", v.t("Filter")), AutoFocus()),
			Ul(ID("choices"), Class("servers"), g.Map(list.Known, func(k client.KnownServer) g.Node {
				if k.Program && v.caller.User != identity.Local {
					return nil
				}
				return Li(Button(Type("button"), Data("do", "server-known-ask"), Data("field-name", k.Name), g.If(k.Added, Disabled()), Strong(g.Text(k.Name)), g.If(k.Added, Span(Class("state good"), g.Text(v.t("added")))), Span(Class("quiet"), g.Text(k.Title))))
			}))),
		Details(Summary(g.Text(v.t("Another server, by its address"))), Form(Class("busy"), Data("do", "server-add"), AutoComplete("off"),
			P(Class("quiet"), g.Text(v.t("A server that speaks MCP over HTTP. Servers that are other programs are added in a terminal:")), g.Text(" "), Code(g.Text("steward mcp add"))),
			Label(g.Text(v.t("Short name (letters and digits)")), Input(Name("name"), Required(), Pattern("[a-z][a-z0-9_\\-]{0,31}"), Title(v.t("Small letters and digits, beginning with a letter")), MaxLength("32"))),
			Label(g.Text(v.t("Address")), Input(Type("url"), Name("url"), Required(), Placeholder("https://example.com/mcp"), MaxLength("1000"))),
			Label(g.Text(v.t("Token, if the server needs one")), Input(Type("password"), Name("token"), AutoComplete("off"), MaxLength("4000"))),
			P(Class("quiet"), g.Text(v.t("Without a token you can sign in at the server next, if it asks for that."))),
			P(Button(Type("submit"), Class("primary"), g.Text(v.t("Add")))))),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel")))))), nil
}

func (v *visit) serverAdd(in json.RawMessage) (*reply, error) {
	x, err := read[client.NewServer](in)
	if err != nil {
		return nil, err
	}
	x.Known, x.Secrets = "", nil
	if err := v.api().AddServer(v.ctx(), x); err != nil {
		return nil, atField(err, "mcp_name_invalid", "name", "mcp_server_exists", "name", "mcp_server_conflict", "name", "tool_name_invalid", "name", "mcp_url_invalid", "url", "mcp_decl_invalid", "url", "secret_short", "token", "secret_invalid", "token")
	}
	return &reply{Go: agentAddress("mcp:" + x.Name)}, nil
}

// knownServer returns a server that can be added by name.
func (v *visit) knownServer(name string) (client.KnownServer, error) {
	list, err := v.api().Servers(v.ctx())
	if err != nil {
		return client.KnownServer{}, err
	}
	for _, k := range list.Known {
		if k.Name == name {
			return k, nil
		}
	}
	return client.KnownServer{}, fault.New(fault.NotFound, "mcp_server_unknown", "no server is known as %.40q", name)
}

// serverKnownAsk asks for what a known server needs.
func (v *visit) serverKnownAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	k, err := v.knownServer(x.Name)
	if err != nil {
		return nil, err
	}
	how := v.t("Steward reaches it at this address:")
	if k.Program {
		how = v.t("Steward starts this program on its machine, once you have approved it:")
	}
	return v.dialog(v.t("Add {name}", k.Name), Form(Class("busy"), Data("do", "server-known-add"), hiddenFields("name", k.Name), AutoComplete("off"),
		P(g.Text(k.Title)), P(Class("quiet"), g.Text(how)), P(Code(g.Text(k.At))), P(A(Href(k.Source), Rel("noreferrer noopener"), Target("_blank"), g.Text(v.t("What this server does")))),
		g.Map(k.Needs, func(s client.KnownSecret) g.Node {
			if s.Have {
				return P(Class("label"), Code(g.Text(s.Name)), g.Text(" "+v.t("is stored already.")))
			}
			kind := "password"
			if strings.HasSuffix(s.Name, "_URL") {
				kind = "text"
			}
			return Label(Code(g.Text(s.Name)), P(Class("quiet"), v.linked(s.About)), Input(Type(kind), Name("secret."+s.Name), AutoFocus(), AutoComplete("off"), MaxLength("4000"), g.Attr("spellcheck", "false")))
		}),
		g.If(len(k.Needs) > 0, P(Class("quiet"), g.Text(v.t("Steward keeps it as a secret on this machine. It is never shown again, and no model sees it.")))),
		v.dialogButtons(v.t("Add")))), nil
}

// linked shows a text of Steward's with its addresses as links.
func (v *visit) linked(text string) g.Node {
	before, at, found := strings.Cut(text, "https://")
	if !found {
		return g.Text(text)
	}
	address, after := "https://"+at, ""
	if i := strings.IndexAny(address, " ,)"); i >= 0 {
		address, after = address[:i], address[i:]
	}
	return g.Group{g.Text(before), A(Href(address), Rel("noreferrer noopener"), Target("_blank"), g.Text(address)), g.Text(after)}
}

func (v *visit) serverKnownAdd(in json.RawMessage) (*reply, error) {
	fields, err := read[map[string]string](in)
	if err != nil {
		return nil, err
	}
	x := client.NewServer{Known: fields["name"], Secrets: map[string]string{}}
	for name, value := range fields {
		if secret, ok := strings.CutPrefix(name, "secret."); ok && value != "" {
			x.Secrets[secret] = value
		}
	}
	if err := v.api().AddServer(v.ctx(), x); err != nil {
		if secret, ok := fault.Of(err).Details["secret"].(string); ok {
			err = fault.Of(err).Detail("field", "secret."+secret)
		}
		return nil, err
	}
	return &reply{Go: agentAddress("mcp:" + strings.ReplaceAll(x.Known, "-", "_"))}, nil
}

// signInAsk asks how a person signs in at a server.
func (v *visit) signInAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Sign in at {name}", x.Name), Form(Class("busy"), Data("do", "sign-in-begin"), hiddenFields("name", x.Name),
		P(g.Text(v.t("You consent on a page of the server. Steward keeps the token as a secret, refreshes it, and sends it to this server only."))),
		Details(Summary(g.Text(v.t("More"))), Label(Input(Type("checkbox"), Name("device"), Data("flag", "")), g.Text(" "+v.t("Consent with a code on another device, if the server can do that")))),
		v.dialogButtons(v.t("Sign in")))), nil
}

func (v *visit) signInBegin(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Name   string
		Device bool
	}](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().BeginSignIn(v.ctx(), x.Name, x.Device)
	if err != nil {
		return nil, err
	}
	return v.signInOpen(&s)
}

// signInOpen shows the page to consent on, and waits for the end of the sign-in.
func (v *visit) signInOpen(s *client.SignIn) (*reply, error) {
	if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		return nil, fault.New(fault.Unavailable, "oauth_failed", "the server gives no address of a page for consent")
	}
	open := P(A(Class("button primary"), Href(s.URL), Rel("noreferrer noopener"), Target("_blank"), g.Text(v.t("Open the page of the server"))))
	var paste g.Node
	if s.Code != "" {
		open = g.Group{open, P(g.Text(v.t("Type this code there:"))), Div(Class("copy"), Code(g.Text(s.Code)), Button(Type("button"), Data("js", "code"), g.Text(v.t("Copy"))))}
	} else {
		paste = Details(Summary(g.Text(v.t("The browser cannot reach 127.0.0.1 after the consent?"))), Form(Class("busy"), Data("do", "sign-in-answer"), hiddenFields("name", s.Server), AutoComplete("off"),
			P(g.Text(v.t("That is so when Steward runs on another machine than this browser. Copy the whole address of the page that cannot be reached, and paste it here."))),
			Label(g.Text(v.t("Address")), Input(Name("address"), Required(), Placeholder("http://127.0.0.1:…/?code=…"), MaxLength("10000"), AutoComplete("off"))),
			P(Button(Type("submit"), g.Text(v.t("Continue"))))))
	}
	return v.dialog(v.t("Sign in at {name}", s.Server), Div(open, v.signInWaiting(s.Server), paste,
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel")))))), nil
}

func (v *visit) signInWaiting(server string) g.Node {
	return P(ID("sign-in"), Class("notice"), Role("status"), Data("await", "sign-in-wait"), Data("field-name", server), v.icon("clock"), g.Text(v.t("Waiting for your consent …")))
}

func (v *visit) signInWait(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().SignInState(v.ctx(), x.Name, true)
	if err != nil {
		return nil, err
	}
	return v.signInEnded(&s)
}

// signInEnded goes on when a sign-in has ended, and waits otherwise.
func (v *visit) signInEnded(s *client.SignIn) (*reply, error) {
	switch s.State {
	case client.SignInOpen:
		return &reply{Patches: []patch{put("sign-in", "", v.signInWaiting(s.Server))}}, nil
	case client.SignInFailed:
		return &reply{Patches: []patch{put("sign-in", "", Div(ID("sign-in"), P(Class("error"), Role("alert"), ownText(s.Error)), P(v.button("sign-in-ask", v.t("Try again"), "", "name", s.Server))))}}, nil
	}
	return &reply{Go: agentAddress("mcp:" + s.Server)}, nil
}

func (v *visit) signInAnswer(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name, Address string }](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().AnswerSignIn(v.ctx(), x.Name, x.Address)
	if err != nil {
		return nil, atField(err, "oauth_address_wrong", "address")
	}
	return v.signInEnded(&s)
}

func (v *visit) serverRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Remove?"), Form(Data("do", "server-remove"), hiddenFields("name", x.Name), P(g.Text(v.t("The tools of {name} are not available any more.", x.Name))), v.dialogButtons(v.t("Remove")))), nil
}

func (v *visit) serverRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/agents"}, v.api().RemoveServer(v.ctx(), x.Name)
}
