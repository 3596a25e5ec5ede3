package page

import (
	"encoding/json"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/identity"
)

// mayChange reports whether the person may change a setting here.
func (v *visit) mayChange(s *client.Setting) bool {
	return s.Fixed == "" && (s.Right == "admin" && v.caller.Admin || s.Right == "owner" && v.caller.User == identity.Local)
}

// settingValue shows the value of a setting, where it comes from, and how it is changed.
func (v *visit) settingValue(s *client.Setting) g.Node {
	class, value := "state", s.Value
	if s.From == "default" {
		class = "state quiet"
	}
	if value == "" {
		value = "–"
	}
	return Dd(ID("setting-"+s.Key), Div(Class("row"), Span(Class("value"), ownText(value)), Span(Class(class), g.Text(v.settingFrom(s.From))), g.If(s.Waits, Span(Class("state warn"), g.Text(v.t("from the next start on")))),
		Span(Class("space")), g.If(v.mayChange(s), v.settingButton(s.Key, "all"))), g.If(s.Doc != "", P(Class("quiet"), g.Text(s.Doc))))
}

// settingFrom says where a value comes from.
func (v *visit) settingFrom(from string) string {
	if from == "default" {
		return v.t("default")
	}
	return from
}

// settingButton opens the form of a setting. on is the screen that it belongs to.
func (v *visit) settingButton(key, on string) g.Node {
	return Button(Type("button"), Data("do", "setting-ask"), Data("field-key", key), Data("field-on", on), Aria("label", v.t("Change {name}", key)), g.Text(v.t("Change")))
}

// settingAsk shows the form of a setting.
func (v *visit) settingAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Key, On string }](in)
	if err != nil {
		return nil, err
	}
	s, err := v.setting(x.Key)
	if err != nil {
		return nil, err
	}
	choices := s.Choices
	if s.Type == "true or false" {
		choices = []string{"true", "false"}
	}
	field := Input(Name("value"), Value(s.Value), AutoComplete("off"), MaxLength("1000"), AutoFocus(), g.Attr("spellcheck", "false"), Aria("describedby", "setting-type"))
	if len(choices) > 0 {
		field = Select(Name("value"), AutoFocus(), Aria("describedby", "setting-type"), g.Map(choices, func(c string) g.Node { return option(c, c, s.Value) }))
	}
	then := v.t("The change is in force at once.")
	if !s.AtOnce {
		then = v.t("The change takes effect when Steward is started again; until then the old value is in force.")
	}
	normal := s.Default
	if normal == "" {
		normal = "–"
	}
	return v.dialog(v.t("Change a setting"), Form(Class("busy"), Data("do", "setting-save"), hiddenFields("key", s.Key, "on", x.On),
		P(Code(g.Text(s.Key))), g.If(s.Doc != "", P(g.Text(s.Doc))),
		Label(g.Text(v.t("Value")), field),
		P(ID("setting-type"), Class("quiet"), g.If(len(choices) == 0, g.Text(s.Type+" · ")), g.Text(v.t("Default")+": "), ownText(normal), g.Text(" · "+v.t("now from")+": "+v.settingFrom(s.From))),
		P(Class("notice"), v.icon("clock"), g.Text(then)),
		Div(Class("row end"), g.If(s.From != "default", Button(Type("submit"), Data("submit", "setting-unset"), g.Text(v.t("Use the default")))),
			Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("primary"), g.Text(v.t("Save")))))), nil
}

// setting returns one setting.
func (v *visit) setting(key string) (client.Setting, error) {
	set, err := v.api().Settings(v.ctx())
	if err != nil {
		return client.Setting{}, err
	}
	for _, s := range set.Settings {
		if s.Key == key {
			return s, nil
		}
	}
	return client.Setting{Key: key, From: "default"}, nil
}

// changedSetting is what the forms about a setting have.
type changedSetting struct{ Key, Value, On string }

func (v *visit) settingSave(in json.RawMessage) (*reply, error) {
	x, err := read[changedSetting](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().SetSetting(v.ctx(), x.Key, x.Value)
	if err != nil {
		return nil, atField(err, "setting_invalid", "value", "settings_invalid", "value")
	}
	return v.settingChanged(&s, x.On)
}

func (v *visit) settingUnset(in json.RawMessage) (*reply, error) {
	x, err := read[changedSetting](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().UnsetSetting(v.ctx(), x.Key)
	if err != nil {
		return nil, err
	}
	return v.settingChanged(&s, x.On)
}

// settingChanged shows a setting as it is now.
func (v *visit) settingChanged(s *client.Setting, on string) (*reply, error) {
	said := v.t("Saved, and in force.")
	if s.Waits {
		said = v.t("Saved. It takes effect when Steward is started again.")
	}
	out := &reply{Patches: []patch{v.closed(), put("setting-"+s.Key, "", v.settingValue(s))}, Toast: said}
	if on == "budgets" {
		n, err := v.budgetsShown(false)
		if err != nil {
			return nil, err
		}
		out.Patches = []patch{v.closed(), put("budgets", "", n)}
	}
	return out, nil
}
