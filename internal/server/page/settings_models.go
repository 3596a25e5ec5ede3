package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
)

// offlineProvider is the name of the provider that is built in, which is no language model.
const offlineProvider = "offline"

// connectCard leads to the first model, while only the built-in provider answers.
func (v *visit) connectCard() g.Node {
	r, err := v.Node.Resolve("")
	if err != nil || len(r.Models) == 0 || !strings.HasPrefix(r.Models[0], offlineProvider+"/") {
		return nil
	}
	if !v.caller.Admin {
		return Div(ID("connect"), Class("item connect"), H3(g.Text(v.t("No language model is connected yet"))), P(g.Text(v.t("Steward answers by simple rules until an administrator connects one."))))
	}
	return Div(ID("connect"), Class("item connect"), H3(g.Text(v.t("Connect a language model"))),
		P(g.Text(v.t("Until then Steward answers by simple rules and understands little. You need a key of a provider, or a model on this machine."))),
		A(Class("button primary"), Href("/settings/start"), g.Text(v.t("Connect a model"))))
}

// modelsScreen shows the providers of models, and what answers by default.
func (v *visit) modelsScreen() (content, error) {
	main, err := v.providers()
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("models", v.t("Models"), main), nil
}

// providers is the part of the screen that changes when a provider is connected.
func (v *visit) providers() (g.Node, error) {
	p, err := v.api().Providers(v.ctx())
	if err != nil {
		return nil, err
	}
	var connected []client.Provider
	for _, x := range p.Providers {
		if x.Connected && x.Name != offlineProvider {
			connected = append(connected, x)
		}
	}
	chain := p.Aliases["default"]
	body := g.Group{head(v.t("Models"), v.button("provider-ask", v.t("Connect a provider"), "primary"))}
	if p.Offline {
		body = append(body, Section(Class("item connect"), H2(g.Text(v.t("No language model answers yet"))),
			P(g.Text(v.t("Connect a provider with its key, or run a model on this machine. Until then Steward answers by simple rules."))),
			Div(Class("row"), v.button("provider-ask", v.t("I have a key"), "primary"), A(Class("button"), Href("#local"), g.Text(v.t("Run a model here"))))))
	} else {
		body = append(body, Section(Class("item"), H2(g.Text(v.t("Answers by default"))), P(Class("row"), Code(g.Text(strings.Join(chain, " → "))), Span(Class("space")), v.button("model-test", v.t("Test"), "", "model", chain[0]), v.button("model-ask", v.t("Choose another"), "")),
			Details(Summary(g.Text(v.t("Other names of models"))), Dl(g.Map(slices.Sorted(maps.Keys(p.Aliases)), func(name string) g.Node {
				return g.Group{Dt(g.Text(name)), Dd(Code(g.Text(strings.Join(p.Aliases[name], " → "))))}
			})))))
	}
	if len(connected) > 0 {
		body = append(body, H2(g.Text(v.t("Connected providers"))), Div(Class("cards"), g.Map(connected, func(x client.Provider) g.Node { return v.providerCard(x, p.Offline) })))
	}
	body = append(body, Section(ID("local"), H2(g.Text(v.t("A model on this machine"))), v.localAdvice(&p), P(v.button("models-again", v.t("Look again"), ""))))
	return Div(append([]g.Node{ID("models")}, body...)...), nil
}

// localAdvice says what a model on this machine needs, and how to get one.
func (v *visit) localAdvice(p *client.Providers) g.Node {
	return g.Group{P(g.Text(v.t("Nothing leaves the machine. Ollama, llama.cpp, LM Studio and other servers are found by themselves when they run here.")), g.Text(" "),
		A(Href(p.LocalFrom), Rel("noreferrer noopener"), Target("_blank"), g.Text(v.t("Install Ollama"))), g.Text(", "), g.Text(v.t("then run:"))),
		Div(Class("copy"), Code(g.Text(p.LocalHow)), Button(Type("button"), Data("js", "code"), g.Text(v.t("Copy")))),
		Div(Class("scrolls"), TabIndex("0"), Role("region"), Aria("label", v.t("A model on this machine")), Table(THead(Tr(Th(g.Text(v.t("Model"))), Th(g.Text(v.t("Download"))), Th(g.Text(v.t("Working memory"))), Th(g.Text(v.t("Here"))))),
			TBody(g.Map(p.Local, func(m client.LocalModel) g.Node {
				fits := Span(Class("state good"), g.Text(v.t("fits")))
				if !m.Fits {
					fits = Span(Class("state bad"), g.Text(v.t("too large for this machine")))
				}
				return Tr(Td(Code(g.Text(m.Name))), Td(g.Textf("%.1f GB", m.Download)), Td(g.Textf("%.0f GB", m.Memory)), Td(fits))
			}))))}
}

func (v *visit) providerCard(x client.Provider, offline bool) g.Node {
	state := Span(Class("state good"), g.Text(v.t("{n} models", strconv.Itoa(len(x.Models)))))
	if x.Error != "" {
		state = Span(Class("state bad"), g.Text(v.t("does not answer")))
	} else if len(x.Models) == 0 {
		state = Span(Class("state warn"), g.Text(v.t("has no model yet")))
	}
	found := x.Found
	if x.KeyFrom != "" {
		found = v.t("key: {place}", x.KeyFrom)
	}
	var use g.Node
	if len(x.Models) > 0 {
		use = g.Group{v.button("model-test", v.t("Test"), "", "model", x.Models[0]), g.If(offline, v.button("model-use", v.t("Use {model}", x.Models[0]), "primary", "model", x.Models[0]))}
	}
	return Div(ID("provider-"+x.Name), Class("item"), H3(Class("row"), g.Text(x.Title), Span(Class("space")), state),
		P(Class("quiet"), ownText(found)), g.If(x.Error != "", P(Class("error"), ownText(x.Error))),
		Div(Class("row"), use, g.If(x.Access == "key" || x.Access == "server", v.button("provider-ask", v.t("New key"), "", "name", x.Name)), v.button("provider-remove-ask", v.t("Disconnect"), "danger", "name", x.Name, "title", x.Title)))
}

// changed shows the providers as they are now.
func (v *visit) changed(toast string) (*reply, error) {
	n, err := v.providers()
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), put("models", "", n)}, Toast: toast}, nil
}

func (v *visit) modelsAgain(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ On string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().FindModels(v.ctx()); err != nil {
		return nil, err
	}
	if x.On == "start" {
		return v.startChanged("")
	}
	return v.changed("")
}

// providerAsk asks for a provider and its key.
func (v *visit) providerAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	p, err := v.api().Providers(v.ctx())
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Connect a provider"), Form(Class("busy"), Data("do", "provider-connect"), AutoComplete("off"),
		Label(g.Text(v.t("Provider")), v.providerSelect(&p, x.Name)),
		Label(g.Text(v.t("Key")), Input(Type("password"), Name("key"), AutoComplete("off"), g.Attr("spellcheck", "false"), MaxLength("4000"), AutoFocus(), Aria("describedby", "key-help"))),
		P(ID("key-help"), Class("quiet"), g.Text(v.t("Steward keeps it as a secret on this machine. It is never shown again, and no model sees it."))),
		Details(Summary(g.Text(v.t("More"))), v.ownServer()),
		v.dialogButtons(v.t("Test and connect")))), nil
}

func (v *visit) providerConnect(in json.RawMessage) (*reply, error) {
	t, err := v.connect(in)
	if err != nil {
		return nil, err
	}
	return v.changed(v.triedText(t))
}

// connect connects a provider with the fields of a form.
func (v *visit) connect(in json.RawMessage) (client.Tried, error) {
	x, err := read[struct {
		Provider, Key, URL, Name, Model string
		Unchecked                       bool
	}](in)
	if err != nil {
		return client.Tried{}, err
	}
	c := client.Connection{Provider: x.Provider, Key: strings.TrimSpace(x.Key), BaseURL: strings.TrimSpace(x.URL), Model: strings.TrimSpace(x.Model), Unchecked: x.Unchecked}
	switch {
	case x.Provider == "other" || x.Provider == "" && x.URL != "":
		if c.Provider = x.Name; c.Provider == "" {
			return client.Tried{}, atField(fault.New(fault.Invalid, "name_missing", "%s", v.t("Give the server a name, such as office.")), "name_missing", "name")
		}
	case x.Provider == "" && c.Key == "":
		return client.Tried{}, atField(fault.New(fault.Invalid, "key_missing", "%s", v.t("Paste a key, or choose a server of your own.")), "key_missing", "key")
	}
	t, err := v.api().ConnectProvider(v.ctx(), c)
	return t, atField(err, "key_refused", "key", "key_invalid", "key", "key_missing", "key", "secret_short", "key", "secret_invalid", "key", "provider_unknown", "provider", "provider_name_invalid", "name", "base_url_missing", "url", "base_url_invalid", "url", "provider_unreachable", "url", "unreachable", "url", "no_models", "model", "model_not_found", "model")
}

// triedText says what came of a test.
func (v *visit) triedText(t client.Tried) string {
	took := fmt.Sprintf("%.1f s", t.Took.Seconds())
	switch {
	case t.Failed != "":
		return v.t("Connected without a test: {reason}", t.Failed)
	case t.Tools:
		return v.t("{model} answers and uses tools ({time})", t.Model, took)
	}
	return v.t("{model} answers ({time}), but did not use the tool that it was given", t.Model, took)
}

func (v *visit) modelTest(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Model string }](in)
	if err != nil {
		return nil, err
	}
	t, err := v.api().TestModel(v.ctx(), x.Model)
	return &reply{Toast: v.triedText(t)}, err
}

// modelAsk asks which model answers by default.
func (v *visit) modelAsk(json.RawMessage) (*reply, error) {
	p, err := v.api().Providers(v.ctx())
	if err != nil {
		return nil, err
	}
	now := p.Aliases["default"][0]
	return v.dialog(v.t("Which model answers by default?"), Form(Class("busy"), Data("do", "model-use"),
		Label(g.Text(v.t("Model")), Select(Name("model"), AutoFocus(), g.Map(p.Providers, func(x client.Provider) g.Node {
			if len(x.Models) == 0 {
				return nil
			}
			return OptGroup(g.Attr("label", x.Title), g.Map(x.Models, func(m string) g.Node { return option(m, m, now) }))
		}))),
		Label(Input(Type("checkbox"), Name("anyway"), Data("flag", "")), g.Text(" "+v.t("Use it even if the test fails"))),
		v.dialogButtons(v.t("Test and use")))), nil
}

func (v *visit) modelUse(in json.RawMessage) (*reply, error) {
	said, err := v.use(in)
	if err != nil {
		return nil, err
	}
	return v.changed(said)
}

// use tries the model of a form, and makes it the one that answers by default.
func (v *visit) use(in json.RawMessage) (said string, err error) {
	x, err := read[struct {
		Model  string
		Anyway bool
	}](in)
	if err != nil {
		return "", err
	}
	t, err := v.api().TestModel(v.ctx(), x.Model)
	switch {
	case err == nil:
		said = v.triedText(t)
	case !x.Anyway:
		return "", atField(err, fault.Of(err).Code, "model")
	}
	return said, v.api().UseModel(v.ctx(), x.Model)
}

func (v *visit) providerRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name, Title string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Disconnect?"), Form(Data("do", "provider-remove"), hiddenFields("name", x.Name),
		P(g.Text(v.t("{name} is not asked any more, and the key that Steward keeps for it is deleted. You need the key again to connect it.", x.Title))), v.dialogButtons(v.t("Disconnect")))), nil
}

func (v *visit) providerRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().DisconnectProvider(v.ctx(), x.Name); err != nil {
		return nil, err
	}
	return v.changed("")
}
