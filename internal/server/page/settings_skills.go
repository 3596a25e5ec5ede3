package page

import (
	"encoding/json"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// skillsScreen lists the approved skills.
func (v *visit) skillsScreen() (content, error) {
	list, err := v.api().Skills(v.ctx())
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("skills", v.t("Skills"), head(v.t("Skills"), v.button("skill-ask", v.t("Add a skill"), "primary")),
		P(Class("quiet"), g.Text(v.t("A skill is a folder with instructions for a kind of work (SKILL.md). Your assistant reads it when it needs it, and only what you have approved."))),
		g.If(len(list) == 0, empty(v.t("There are no skills. Add one from a folder, a .zip or the address of a git repository."))),
		Div(Class("cards"), g.Map(list, func(s client.Skill) g.Node {
			return Div(Class("item"), H2(A(Href("/settings/skills/"+url.PathEscape(s.Name)), ownText(s.Name))), P(ownText(s.Description)),
				g.If(s.Changed != "", P(Class("error"), ownText(s.Changed))), P(Class("quiet"), g.Text(v.t("approved")+" "), when(s.Approved)))
		}))), nil
}

// skillScreen shows a skill.
func (v *visit) skillScreen() (content, error) {
	s, err := v.api().Skill(v.ctx(), v.r.PathValue("name"))
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("skills", s.Name, head(visible(s.Name)), P(A(Href("/settings/skills"), g.Text("‹ "+v.t("All skills")))), P(ownText(s.Description)),
		g.If(s.Changed != "", P(Class("failure"), ownText(s.Changed))),
		Dl(Dt(g.Text(v.t("From"))), Dd(Code(ownText(s.Source))), Dt(g.Text(v.t("approved"))), Dd(when(s.Approved)), g.If(len(s.Files) > 1, g.Group{Dt(g.Text(v.t("Files"))), Dd(ownText(strings.Join(s.Files, ", ")))})),
		g.If(s.Text != "", Pre(Class("covered"), Dir("auto"), g.Text(visible(s.Text)))),
		Div(Class("row foot"), v.button("skill-find", v.t("Look for a newer version"), "", "source", s.Source, "only", s.Name), v.button("skill-remove-ask", v.t("Remove"), "danger", "name", s.Name))), nil
}

// skillAsk asks where a skill comes from.
func (v *visit) skillAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Source string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Add a skill"), Form(Class("busy"), Data("do", "skill-find"),
		Label(g.Text(v.t("Folder or .zip on the machine that Steward runs on, or address of a git repository")), Input(Name("source"), Value(x.Source), Required(), Placeholder("https://example.com/skills.git"), MaxLength("1000"), AutoComplete("off"), AutoFocus(), g.Attr("spellcheck", "false"))),
		P(Class("quiet"), g.Text(v.t("Nothing of it is run, and nothing is stored before you approve it."))), v.dialogButtons(v.t("Look")))), nil
}

// skillFind shows the skills of a source with all that an approval covers.
func (v *visit) skillFind(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Source, Only string }](in)
	if err != nil {
		return nil, err
	}
	list, err := v.api().FindSkills(v.ctx(), x.Source)
	if err != nil {
		return nil, atField(err, "skill_source_missing", "source", "skill_refused", "source", "skill_invalid", "source", "git_failed", "source", "git_missing", "source")
	}
	states := map[string]string{"new": v.t("new"), "changed": v.t("has changed"), "approved": v.t("approved as it is")}
	shown := 0
	return v.dialog(v.t("What the source has"), Div(Class("wide"), P(Class("quiet"), Code(ownText(x.Source))), g.Map(list, func(s client.FoundSkill) g.Node {
		if x.Only != "" && s.Name != x.Only {
			return nil
		}
		shown++
		return Details(Class("covered"), g.If(len(list) == 1 || x.Only != "", g.Attr("open", "")), Summary(ownText(s.Name), g.Text(" "), Span(Class("state"), g.Text(states[s.State]))), P(ownText(s.Description)),
			g.If(s.Hidden, P(Class("notice"), v.icon("warn"), g.Text(v.t("What looks like a secret is hidden here, and a model that reads the skill sees it.")))),
			g.If(s.State != "approved", g.Group{diff(s.Diff), P(v.button("skill-approve", v.t("Approve {name}", s.Name), "primary", "source", x.Source, "name", s.Name, "hash", s.Hash))}))
	}),
		g.If(shown == 0, P(g.Text(v.t("The source has no such skill any more.")))),
		Div(Class("row end"), v.button("skill-ask", v.t("Back"), "", "source", x.Source), Button(Type("button"), Data("js", "close"), g.Text(v.t("Close")))))), nil
}

func (v *visit) skillApprove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Source, Name, Hash string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().ApproveSkill(v.ctx(), x.Source, x.Name, x.Hash); err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/skills"}, nil
}

func (v *visit) skillRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Remove?"), Form(Data("do", "skill-remove"), hiddenFields("name", x.Name), P(g.Text(v.t("Your assistant does not know {name} any more. The source from which it came stays as it is.", x.Name))), v.dialogButtons(v.t("Remove")))), nil
}

func (v *visit) skillRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/skills"}, v.api().RemoveSkill(v.ctx(), x.Name)
}
