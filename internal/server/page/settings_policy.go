package page

import (
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"
)

// policyScreen shows the policies in force.
func (v *visit) policyScreen() (content, error) {
	p, err := v.api().Policies(v.ctx())
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("policy", v.t("Policies"), head(v.t("Policies")),
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
					files = append(files, Details(Class("covered"), Summary(Code(g.Text(f.Name))), Pre(g.Text(visible(f.Text)))))
				}
			}
			if len(files) == 0 {
				files = append(files, P(Class("quiet"), g.Text(v.t("You have no policies of your own. Ready-made ones are put into force by the command:")), g.Text(" "), Code(g.Text("steward policy use"))))
			}
			return g.Group{H2(g.Text(title)), g.Group(files)}
		})), nil
}
