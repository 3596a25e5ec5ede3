package page

import (
	"encoding/json"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/catalog"
)

// agentsScreen lists agents, MCP servers and skills, those that wait for a decision first.
func (v *visit) agentsScreen() (content, error) {
	var out struct{ Agents []catalog.Listing }
	if err := v.api().Call(v.ctx(), "GET /agents", nil, nil, &out); err != nil {
		return content{}, err
	}
	var waiting, others []catalog.Listing
	for _, a := range out.Agents {
		if a.Status == catalog.Pending || len(a.Waiting) > 0 {
			waiting = append(waiting, a)
		} else {
			others = append(others, a)
		}
	}
	return v.settingsPage("agents", v.t("Agents and servers"), head(v.t("Agents and servers"), v.button("server-ask", v.t("Add a server of tools"), "primary")),
		P(Class("quiet"), g.Text(v.t("An agent, a server of tools or a skill is used only after you have seen and approved it. When it changes, it waits again."))),
		g.If(len(out.Agents) == 0, empty(v.t("There are none yet. Add a server of tools (MCP), or put agents into a folder and name it with the setting agents."))),
		g.If(len(waiting) > 0, g.Group{H2(g.Text(v.t("Waiting for you"))), Div(Class("cards"), g.Map(waiting, v.agentCard))}),
		g.If(len(others) > 0, g.Group{H2(g.Text(v.t("All"))), Div(Class("cards"), g.Map(others, v.agentCard))})), nil
}

func agentAddress(path string) string {
	return "/settings/agents/inspect?path=" + url.QueryEscape(path)
}

func (v *visit) agentState(a *catalog.Listing) g.Node {
	text := map[catalog.Status]string{catalog.Pending: v.t("waits for you"), catalog.Approved: v.t("approved"), catalog.Denied: v.t("denied"), catalog.Revoked: v.t("revoked"), catalog.Invalid: v.t("has faults")}[a.Status]
	class := map[catalog.Status]string{catalog.Pending: "state warn", catalog.Approved: "state good", catalog.Invalid: "state bad"}[a.Status]
	if class == "" {
		class = "state"
	}
	if a.Changed {
		text = v.t("has changed, waits for you")
	}
	return Span(Class(class), g.Text(text))
}

func (v *visit) agentCard(a catalog.Listing) g.Node {
	return Div(Class("item"), H3(A(Href(agentAddress(a.Path)), ownText(a.Path))), P(Span(Class("state"), g.Text(a.Kind)), g.Text(" "), v.agentState(&a)),
		g.If(a.Description != "", P(ownText(a.Description))),
		g.If(len(a.Waiting) > 0, P(Class("label"), v.icon("warn"), g.Text(v.t("New tools, off until you approve: {names}", strings.Join(a.Waiting, ", "))))))
}

// agentScreen shows everything that an approval covers.
func (v *visit) agentScreen() (content, error) {
	path := v.r.URL.Query().Get("path")
	if site := v.r.Header.Get("Sec-Fetch-Site"); v.caller.Admin && site != "" && site != "same-origin" { // a link of others starts no program
		return v.settingsPage("agents", path, head(visible(path)), P(g.Text(v.t("To see what {name} does, Steward asks it, which may start a program.", visible(path)))),
			P(A(Class("button primary"), Href(agentAddress(path)), g.Text(v.t("Look at it"))))), nil
	}
	var x catalog.Inspection
	if err := v.api().Call(v.ctx(), "POST /agents/inspect", nil, map[string]string{"path": path}, &x); err != nil {
		return content{}, err
	}
	fields := []string{"path", x.Path, "hash", x.Hash}
	open := x.Status != catalog.Approved || len(x.Waiting) > 0
	return v.settingsPage("agents", x.Path, head(visible(x.Path)),
		P(Span(Class("state"), g.Text(x.Kind)), g.Text(" "), v.agentState(&x.Listing), g.If(x.By != "", g.Group{g.Text(" · "), ownText(x.By), g.Text(" · "), when(x.At)})),
		g.If(x.Description != "", P(ownText(x.Description))), g.If(x.Reason != "", P(Class("quiet"), ownText(x.Reason))),
		g.Map(x.Problems, func(p catalog.Problem) g.Node {
			return P(Class("failure"), Code(g.Textf("%s:%d", p.File, p.Line)), g.Text(" "), ownText(p.Message), g.If(p.Remedy != "", Span(Class("quiet"), g.Text(" "), ownText(p.Remedy))))
		}),
		g.Map(x.Warnings, func(w string) g.Node { return P(Class("notice"), v.icon("warn"), ownText(w)) }),
		g.If(x.Diff != "", g.Group{H2(g.Text(v.t("Changes since the last approval"))), diff(x.Diff)}),
		H2(g.Text(v.t("What an approval covers"))), g.If(x.Data != "", P(Class("typed quiet"), ownText(x.Data))),
		g.Map(x.Items, func(i catalog.Item) g.Node {
			text := i.Text
			if text == "" {
				text = i.Hash
			}
			return Details(Class("covered"), Summary(ownText(i.Name)), Pre(Dir("auto"), g.Text(visible(text))))
		}),
		Div(Class("row foot"),
			g.If(open && x.Status != catalog.Invalid, v.button("agent-approve", v.t("Approve"), "primary", fields...)),
			g.If(open, v.button("agent-refuse-ask", v.t("Deny …"), "danger", "path", x.Path, "verb", "deny")),
			g.If(strings.HasPrefix(x.Path, "mcp:"), v.button("server-remove-ask", v.t("Remove"), "danger", "name", strings.TrimPrefix(x.Path, "mcp:"))),
			g.If(x.Status == catalog.Approved, v.button("agent-refuse-ask", v.t("Revoke …"), "danger", "path", x.Path, "verb", "revoke")))), nil
}

func (v *visit) agentApprove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Path, Hash string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/agents"}, v.api().Call(v.ctx(), "POST /agents/approve", nil, map[string]any{"path": x.Path, "hash": x.Hash}, nil)
}

func (v *visit) agentRefuseAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Path, Verb string }](in)
	if err != nil {
		return nil, err
	}
	title, text := v.t("Deny?"), v.t("It stays off until it changes.")
	if x.Verb == "revoke" {
		title, text = v.t("Revoke?"), v.t("It is off at once, and work of its that runs is stopped.")
	}
	return v.dialog(title, Form(Data("do", "agent-refuse"), hiddenFields("path", x.Path, "verb", x.Verb), P(g.Text(text)),
		Label(g.Text(v.t("Reason")), Input(Name("reason"), MaxLength("500"), AutoFocus())), v.dialogButtons(v.t("Confirm")))), nil
}

func (v *visit) agentRefuse(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Path, Verb, Reason string }](in)
	if err != nil {
		return nil, err
	}
	route := "POST /agents/deny"
	if x.Verb == "revoke" {
		route = "POST /agents/revoke"
	}
	return &reply{Go: "/settings/agents"}, v.api().Call(v.ctx(), route, nil, map[string]string{"path": x.Path, "reason": x.Reason}, nil)
}

// serverAsk asks for an MCP server.
func (v *visit) serverAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Add a server of tools"), Form(Data("do", "server-add"), AutoComplete("off"),
		P(Class("quiet"), g.Text(v.t("A server that speaks MCP over HTTP. You see its tools before you approve them. Servers that are programs are added in a terminal:")), g.Text(" "), Code(g.Text("steward mcp add"))),
		Label(g.Text(v.t("Short name (letters and digits)")), Input(Name("name"), Required(), Pattern("[a-z][a-z0-9_\\-]{0,31}"), MaxLength("32"), AutoFocus())),
		Label(g.Text(v.t("Address")), Input(Type("url"), Name("url"), Required(), Placeholder("https://example.com/mcp"), MaxLength("1000"))),
		Label(g.Text(v.t("Token, if the server needs one")), Input(Type("password"), Name("token"), AutoComplete("off"), MaxLength("4000"))),
		v.dialogButtons(v.t("Add")))), nil
}

func (v *visit) serverAdd(in json.RawMessage) (*reply, error) {
	x, err := read[client.NewServer](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/agents"}, v.api().AddServer(v.ctx(), x)
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
