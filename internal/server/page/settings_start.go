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

// startScreen is the first run, with the choices of steward setup: a model that was found, a key or a server, and the
// folder to work in.
func (v *visit) startScreen() (content, error) {
	model, err := v.startModels()
	if err != nil {
		return content{}, err
	}
	folder, err := v.startFolderShown()
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("models", v.t("Set up Steward"), head(v.t("Set up Steward")), P(Class("quiet"), g.Text(v.t("Two steps; both can be changed later. Nothing is stored before it was tried."))), model, folder,
		P(Class("row foot"), A(Class("button primary"), Href("/"), g.Text(v.t("Go to the chat"))), g.Text(v.t("Then: who else may use Steward, messengers and servers of tools are in the settings.")))), nil
}

// startModels is the step of the model.
func (v *visit) startModels() (g.Node, error) {
	p, err := v.api().Providers(v.ctx())
	if err != nil {
		return nil, err
	}
	now := p.Aliases["default"]
	body := g.Group{H2(g.Text("1. " + v.t("A model that answers")))}
	if !p.Offline {
		body = append(body, P(Code(g.Text(strings.Join(now, " → "))), g.Text(" "), Span(Class("state good"), g.Text(v.t("answers now")))))
	}
	var choices []g.Node
	for _, x := range p.Providers {
		if !x.Connected || x.Name == offlineProvider {
			continue
		}
		switch {
		case x.Error != "":
			body = append(body, P(Class("error"), g.Text("✗ "+x.Title+": "), ownText(x.Found+" – "), ownText(x.Error)))
		case len(x.Models) == 0:
			body = append(body, P(Class("label"), v.icon("warn"), g.Text(v.t("{name} runs here, but has no model yet.", x.Title))))
		default:
			body = append(body, P(Class("quiet"), g.Text("✓ "+x.Title+": "), ownText(x.Found)))
			choices = append(choices, OptGroup(g.Attr("label", x.Title), g.Map(x.Models, func(m string) g.Node { return option(m, m, now[0]) })))
		}
	}
	if len(choices) > 0 {
		body = append(body, Form(Class("item busy"), Data("do", "start-model"), H3(g.Text(v.t("Use what was found"))), Label(g.Text(v.t("Model")), Select(Name("model"), g.Group(choices))),
			Label(Input(Type("checkbox"), Name("anyway"), Data("flag", "")), g.Text(" "+v.t("Use it even if the test fails"))), P(Button(Type("submit"), Class("primary"), g.Text(v.t("Test and use"))))))
	}
	body = append(body, Form(Class("item busy"), Data("do", "start-connect"), AutoComplete("off"), H3(g.Text(v.t("I have a key"))),
		Label(g.Text(v.t("Key")), Input(Type("password"), Name("key"), AutoComplete("off"), g.Attr("spellcheck", "false"), MaxLength("4000"), Aria("describedby", "start-key"))),
		P(ID("start-key"), Class("quiet"), g.Text(v.t("Steward recognises whose key it is, tries it, and keeps it as a secret on this machine. It is never shown again, and no model sees it."))),
		Details(Summary(g.Text(v.t("Another provider, or a server of your own"))),
			Label(g.Text(v.t("Provider")), v.providerSelect(&p, "")), v.ownServer()),
		P(Button(Type("submit"), Class("primary"), g.Text(v.t("Test and connect"))))))
	body = append(body, Details(Class("item"), g.If(len(choices) == 0 && p.Offline, g.Attr("open", "")), Summary(g.Text(v.t("A model on this machine"))), v.localAdvice(&p), P(v.button("models-again", v.t("Look again"), "", "on", "start"))))
	return Section(append([]g.Node{ID("start-models")}, body...)...), nil
}

// providerSelect chooses a provider.
func (v *visit) providerSelect(p *client.Providers, chosen string) g.Node {
	return Select(Name("provider"), option("", v.t("Recognise it by the key"), chosen), g.Map(p.Providers, func(o client.Provider) g.Node {
		if o.Access == "built in" || o.Access == "local" && !o.Connected && o.Name != chosen {
			return nil
		}
		return option(o.Name, o.Title, chosen)
	}), option("other", v.t("Another server …"), chosen))
}

// ownServer are the fields of a server that is not known by name.
func (v *visit) ownServer() g.Node {
	return g.Group{
		Label(g.Text(v.t("Address of the API, for another server")), Input(Type("url"), Name("url"), Placeholder("https://models.example.com/v1"), MaxLength("500"))),
		Label(g.Text(v.t("Name of the server, such as office")), Input(Name("name"), Pattern("[a-z][a-z0-9_\\-]{0,31}"), Title(v.t("Small letters and digits, beginning with a letter")), MaxLength("32"))),
		Label(g.Text(v.t("Model to try and to use, such as gpt-5.4-mini")), Input(Name("model"), MaxLength("200"))),
		Label(Input(Type("checkbox"), Name("unchecked"), Data("flag", "")), g.Text(" "+v.t("Keep it even if the test fails")))}
}

// startChanged shows the step of the model again.
func (v *visit) startChanged(toast string) (*reply, error) {
	n, err := v.startModels()
	return &reply{Patches: []patch{put("start-models", "", n)}, Toast: toast}, err
}

func (v *visit) startConnect(in json.RawMessage) (*reply, error) {
	t, err := v.connect(in)
	if err != nil {
		return nil, err
	}
	return v.startChanged(v.triedText(t))
}

func (v *visit) startModel(in json.RawMessage) (*reply, error) {
	said, err := v.use(in)
	if err != nil {
		return nil, err
	}
	return v.startChanged(said)
}

// startFolderShown is the step of the folder.
func (v *visit) startFolderShown() (g.Node, error) {
	s, err := v.setting("workspace")
	if err != nil {
		return nil, err
	}
	body := g.Group{ID("start-folder"), H2(g.Text("2. " + v.t("A folder to work in"))), P(g.Text(v.t("Steward reads and writes files for you in this folder, and in no other. It asks you before it writes.")))}
	state := g.Group{g.Text(v.t("Now:") + " "), Code(ownText(s.Value)), g.If(s.Waits, g.Group{g.Text(" "), Span(Class("state warn"), g.Text(v.t("from the next start on")))})}
	if !v.mayChange(&s) {
		why := v.t("Only the machine's own user changes it.")
		if v.caller.User == identity.Local {
			why = v.t("It is set by {place}; change it there.", s.Fixed)
		}
		return Section(append(body, P(state), P(Class("quiet"), g.Text(why)))...), nil
	}
	return Section(append(body, Form(Class("item busy"), Data("do", "start-folder"), P(state),
		Label(g.Text(v.t("Folder (an absolute path, one that begins with ~/, or off for none)")), Input(Name("folder"), Value(s.Value), MaxLength("500"), AutoComplete("off"), g.Attr("spellcheck", "false"))),
		P(Button(Type("submit"), g.Text(v.t("Use this folder"))))))...), nil
}

func (v *visit) startFolder(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Folder string }](in)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(x.Folder) == "" {
		return nil, atField(fault.New(fault.Invalid, "setting_invalid", "%s", v.t("Write a folder, or off for none.")), "setting_invalid", "folder")
	}
	s, err := v.api().SetSetting(v.ctx(), "workspace", x.Folder)
	if err != nil {
		return nil, atField(err, "setting_invalid", "folder", "settings_invalid", "folder")
	}
	n, err := v.startFolderShown()
	said := v.t("Saved, and in force.")
	if s.Waits {
		said = v.t("Saved. It takes effect when Steward is started again.")
	}
	return &reply{Patches: []patch{put("start-folder", "", n)}, Toast: said}, err
}
