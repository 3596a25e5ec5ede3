package page

import (
	"encoding/json"
	"strconv"
	"strings"

	"steward/client"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"
)

// policyScreen shows the policies in force.
func (v *visit) policyScreen() (content, error) {
	p, err := v.api().Policies(v.ctx())
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("policy", v.t("Policies"), head(v.t("Policies"), v.button("policy-ask", v.t("New file"), "primary")),
		P(g.Text(v.t("Policies decide what is allowed, what is refused and what is asked about. They are files in Rego; a file that is changed is in force at once."))),
		P(Class("quiet"), g.Text(v.t("Version")+" "), Code(g.Text(p.Version))), g.If(p.Broken != "", P(Class("failure"), ownText(p.Broken))),
		g.Map([]bool{true, false}, func(own bool) g.Node {
			title := v.t("Built in")
			if own {
				title = v.t("Your own")
			}
			var files []g.Node
			for _, f := range p.Files {
				if strings.HasPrefix(f.Name, "default/") != own {
					files = append(files, Details(Class("covered"), Summary(Code(g.Text(f.Name))), Pre(g.Text(visible(f.Text))), g.If(own, v.button("policy-ask", v.t("Edit"), "", "name", f.Name))))
				}
			}
			if len(files) == 0 {
				files = append(files, P(Class("quiet"), g.Text(v.t("You have no policies of your own. Ready-made ones are put into force by the command:")), g.Text(" "), Code(g.Text("steward policy use"))))
			}
			return g.Group{H2(g.Text(title)), g.Group(files)}
		})), nil
}

// policyFields are what the forms about a file of policies have.
type policyFields struct{ Name, Text, Old string } // Old is the file that is edited; empty: a new one

// policyAsk shows a file of policies to edit.
func (v *visit) policyAsk(in json.RawMessage) (*reply, error) {
	x, err := read[policyFields](in)
	if err != nil {
		return nil, err
	}
	if x.Name != "" && x.Text == "" {
		x.Old = x.Name
		p, err := v.api().Policies(v.ctx())
		if err != nil {
			return nil, err
		}
		for _, f := range p.Files {
			if f.Name == x.Name {
				x.Text = f.Text
			}
		}
	}
	if x.Name == "" {
		x = policyFields{Name: "house.rego", Text: "package steward\n\n# deny contains \"no mail at all\" if startswith(input.tool.name, \"mail.\")\n"}
	}
	return v.dialog(v.t("Edit policies"), Form(Class("busy"), Data("do", "policy-try"), hiddenFields("old", x.Old),
		Label(g.Text(v.t("File")), Input(Name("name"), Value(x.Name), Required(), Pattern("[A-Za-z0-9_\\-]+\\.rego"), Title(v.t("A name that ends with .rego")), MaxLength("64"))),
		Label(g.Text(v.t("Rules in Rego")), Textarea(Class("code"), Name("text"), Rows("16"), g.Attr("spellcheck", "false"), AutoFocus(), g.Text(x.Text))),
		v.dialogButtons(v.t("Test")))), nil
}

// policyTry shows what a file would decide otherwise, before it is saved.
func (v *visit) policyTry(in json.RawMessage) (*reply, error) {
	x, err := read[policyFields](in)
	if err != nil {
		return nil, err
	}
	t, err := v.api().TryPolicy(v.ctx(), x.file())
	if err != nil {
		return nil, atField(err, "policy_invalid", "text", "policy_file_invalid", "name", "policy_exists", "name")
	}
	verdict := map[string]string{"allow": v.t("allowed"), "ask": v.t("asked about"), "deny": v.t("denied")}
	said := P(g.Text(v.t("Of your last {n} actions, all would be decided as before.", strconv.Itoa(t.Tried))))
	if t.Tried == 0 {
		said = P(g.Text(v.t("There are no recorded actions to compare with.")))
	}
	if len(t.Changes) > 0 {
		said = P(g.Text(v.t("Of your last {n} actions, these would be decided otherwise:", strconv.Itoa(t.Tried))))
	}
	return v.dialog(v.t("Put these policies in force?"), Form(Data("do", "policy-save"), hiddenFields("name", x.Name, "old", x.Old), Textarea(Name("text"), Hidden(""), Aria("label", v.t("Rules in Rego")), g.Text(x.Text)), said,
		Ul(Class("list"), g.Map(t.Changes, func(c client.PolicyChange) g.Node {
			return Li(ownText(c.About), g.Text(" "), when(c.At), P(Span(Class("state"), g.Text(verdict[c.Now])), g.Text(" → "), Strong(g.Text(verdict[c.Then]))), g.If(c.Reason != "", P(Class("quiet"), ownText(c.Reason))))
		})),
		Div(Class("row end"), Button(Type("submit"), Data("submit", "policy-ask"), g.Text(v.t("Back"))), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("primary"), g.Text(v.t("Save")))))), nil
}

// file is the file of the fields. A new one, or one with a new name, must not replace another.
func (x *policyFields) file() client.PolicyFile {
	name := strings.TrimSpace(x.Name)
	return client.PolicyFile{Name: name, Text: x.Text, New: name != x.Old}
}

func (v *visit) policySave(in json.RawMessage) (*reply, error) {
	x, err := read[policyFields](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().WritePolicy(v.ctx(), x.file()); err != nil {
		return nil, atField(err, "policy_exists", "name")
	}
	return &reply{Go: "/settings/policy", Toast: v.t("Saved. The policies are in force in a moment.")}, nil
}
