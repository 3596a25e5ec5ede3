package page

import (
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
		P(Class("quiet"), g.Text(v.t("Version")+" "), Code(g.Text(p.Version))), g.If(p.Broken != "", P(Class("failure"), ownText(p.Broken)))), nil
}
