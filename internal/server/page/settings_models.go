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
		A(Class("button primary"), Href("/settings/models"), g.Text(v.t("Connect a model"))))
}

// modelsScreen shows the providers of models, and what answers by default.
func (v *visit) modelsScreen() (content, error) {
	main, err := v.providers()
	if err != nil {
		return content{}, err
	}
	budgets, err := v.budgets()
	return v.settingsPage("models", v.t("Models"), main, budgets), err
}

// budgets shows the limits of what models may cost.
func (v *visit) budgets() (g.Node, error) {
	set, err := v.api().Settings(v.ctx())
	if err != nil {
		return nil, err
	}
	names := map[string]string{"limits.tokens": v.t("Tokens of one answer"), "limits.cost": v.t("Dollars of one answer"), "limits.day_tokens": v.t("Tokens of a person in a day"), "limits.day_cost": v.t("Dollars of a person in a day")}
	return Section(H2(g.Text(v.t("Budgets"))), Dl(g.Map(set.Settings, func(s client.Setting) g.Node {
		name := names[s.Key]
		if name == "" {
			return nil
		}
		value := s.Value
		if value == "0" {
			value = v.t("no limit")
		}
		return g.Group{Dt(g.Text(name)), Dd(g.Text(value), g.Text(" "), Code(Class("quiet"), g.Text(s.Key)))}
	})), P(Class("quiet"), g.Text(v.t("Set them in the settings file. When a budget is spent, models are not asked until the next day.")))), nil
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
	body = append(body, Section(ID("local"), H2(g.Text(v.t("A model on this machine"))),
		P(g.Text(v.t("Nothing leaves the machine. Ollama, llama.cpp, LM Studio and other servers are found by themselves when they run here.")), g.Text(" "),
			A(Href(p.LocalFrom), Rel("noreferrer noopener"), Target("_blank"), g.Text(v.t("Install Ollama"))), g.Text(", "), g.Text(v.t("then run:"))),
		Div(Class("copy"), Code(g.Text(p.LocalHow)), Button(Type("button"), Data("js", "code"), g.Text(v.t("Copy")))),
		Div(Class("scrolls"), TabIndex("0"), Role("region"), Aria("label", v.t("A model on this machine")), Table(THead(Tr(Th(g.Text(v.t("Model"))), Th(g.Text(v.t("Download"))), Th(g.Text(v.t("Working memory"))), Th(g.Text(v.t("Here"))))),
			TBody(g.Map(p.Local, func(m client.LocalModel) g.Node {
				fits := Span(Class("state good"), g.Text(v.t("fits")))
				if !m.Fits {
					fits = Span(Class("state bad"), g.Text(v.t("too large for this machine")))
				}
				return Tr(Td(Code(g.Text(m.Name))), Td(g.Textf("%.1f GB", m.Download)), Td(g.Textf("%.0f GB", m.Memory)), Td(fits))
			})))),
		P(v.button("models-again", v.t("Look again"), ""))))
	return Div(append([]g.Node{ID("models")}, body...)...), nil
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

func (v *visit) modelsAgain(json.RawMessage) (*reply, error) {
	if err := v.api().FindModels(v.ctx()); err != nil {
		return nil, err
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
		Label(g.Text(v.t("Provider")), Select(Name("provider"), option("", v.t("Recognise it by the key"), x.Name), g.Map(p.Providers, func(o client.Provider) g.Node {
			if o.Access == "built in" || o.Access == "local" && !o.Connected {
				return nil
			}
			return option(o.Name, o.Title, x.Name)
		}), option("other", v.t("Another server …"), x.Name))),
		Label(g.Text(v.t("Key")), Input(Type("password"), Name("key"), AutoComplete("off"), g.Attr("spellcheck", "false"), MaxLength("4000"), AutoFocus(), Aria("describedby", "key-help"))),
		P(ID("key-help"), Class("quiet"), g.Text(v.t("Steward keeps it as a secret on this machine. It is never shown again, and no model sees it."))),
		Details(Summary(g.Text(v.t("More"))),
			Label(g.Text(v.t("Address of the API, for another server")), Input(Type("url"), Name("url"), Placeholder("https://models.example.com/v1"))),
			Label(g.Text(v.t("Name of the server, such as office")), Input(Name("name"), Pattern("[a-z][a-z0-9_\\-]{0,31}"), MaxLength("32"))),
			Label(g.Text(v.t("Model to try and to use, such as gpt-5.4-mini")), Input(Name("model"), MaxLength("200"))),
			Label(Input(Type("checkbox"), Name("unchecked"), Data("flag", "")), g.Text(" "+v.t("Keep it even if the test fails")))),
		v.dialogButtons(v.t("Test and connect")))), nil
}

func (v *visit) providerConnect(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Provider, Key, URL, Name, Model string
		Unchecked                       bool
	}](in)
	if err != nil {
		return nil, err
	}
	c := client.Connection{Provider: x.Provider, Key: x.Key, BaseURL: x.URL, Unchecked: x.Unchecked}
	if x.Provider == "other" {
		c.Provider = x.Name
	}
	c.Model = x.Model
	t, err := v.api().ConnectProvider(v.ctx(), c)
	if err != nil {
		return nil, err
	}
	return v.changed(v.triedText(t))
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
	x, err := read[struct {
		Model  string
		Anyway bool
	}](in)
	if err != nil {
		return nil, err
	}
	said := ""
	t, err := v.api().TestModel(v.ctx(), x.Model)
	switch {
	case err == nil:
		said = v.triedText(t)
	case !x.Anyway:
		return nil, err
	}
	if err := v.api().UseModel(v.ctx(), x.Model); err != nil {
		return nil, err
	}
	return v.changed(said)
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
