package page

import (
	"encoding/json"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
)

// agentsScreen lists agents, MCP servers and skills, those that wait for a decision first.
func (v *visit) agentsScreen() (content, error) {
	var out struct {
		Agents  []catalog.Listing
		Decides bool
	}
	if err := v.api().Call(v.ctx(), "GET /agents", nil, nil, &out); err != nil {
		return content{}, err
	}
	servers, err := v.serverStates()
	if err != nil {
		return content{}, err
	}
	card := func(a catalog.Listing) g.Node { return v.agentCard(&a, servers, out.Decides) }
	var waiting, others []catalog.Listing
	for _, a := range out.Agents {
		if a.Status == catalog.Pending || len(a.Waiting) > 0 {
			waiting = append(waiting, a)
		} else {
			others = append(others, a)
		}
	}
	return v.settingsPage("agents", v.t("Agents and servers"), head(v.t("Agents and servers"), g.If(v.caller.Admin, v.button("server-ask", v.t("Add a server of tools"), "primary"))),
		g.If(!out.Decides, P(Class("notice"), v.icon("warn"), g.Text(v.t("Only the machine's own user approves agents and servers. You see those that may be used.")))),
		P(Class("quiet"), g.Text(v.t("An agent, a server of tools or a skill is used only after you have seen and approved it. When it changes, it waits again."))),
		g.If(len(out.Agents) == 0, empty(v.t("There are none yet. Add a server of tools (MCP), or put agents into a folder and name it with the setting agents."))),
		g.If(len(waiting) > 0, g.Group{H2(g.Text(v.t("Waiting for you"))), Div(Class("cards"), g.Map(waiting, card))}),
		g.If(len(others) > 0, g.Group{H2(g.Text(v.t("All"))), Div(Class("cards"), g.Map(others, card))})), nil
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

// kindName is what a listing is, in words.
func (v *visit) kindName(kind string) string {
	switch kind {
	case catalog.KindSource:
		return v.t("server of tools")
	case catalog.KindAgent:
		return v.t("agent")
	}
	return kind
}

func (v *visit) agentCard(a *catalog.Listing, servers map[string]client.Server, decides bool) g.Node {
	title := ownText(a.Path)
	if decides {
		title = A(Href(agentAddress(a.Path)), title)
	}
	s, isServer := servers[a.Path]
	return Div(Class("item"), H3(title), P(Span(Class("state"), g.Text(v.kindName(a.Kind))), g.Text(" "), v.agentState(a)),
		g.If(a.Description != "", P(ownText(a.Description))),
		g.If(len(a.Waiting) > 0, P(Class("label"), v.icon("warn"), g.Text(v.t("New tools, off until you approve: {names}", strings.Join(a.Waiting, ", "))))),
		g.If(isServer, v.serverState(&s)),
		g.If(a.Usable && a.Kind == catalog.KindAgent, P(A(Class("button"), Href(chatWith(a.Path)), g.Text(v.t("Start a chat"))))))
}

// chatWith is the address of a new conversation with an agent.
func chatWith(path string) string { return "/?agent=" + url.QueryEscape(path) }

// agentScreen shows everything that an approval covers.
func (v *visit) agentScreen() (content, error) {
	path := v.r.URL.Query().Get("path")
	if site := v.r.Header.Get("Sec-Fetch-Site"); v.caller.Admin && site != "" && site != "same-origin" { // a link of others starts no program
		return v.settingsPage("agents", path, head(visible(path)), P(g.Text(v.t("To see what {name} does, Steward asks it, which may start a program.", visible(path)))),
			P(A(Class("button primary"), Href(agentAddress(path)), g.Text(v.t("Look at it"))))), nil
	}
	var x catalog.Inspection
	servers, err := v.serverStates()
	if err != nil {
		return content{}, err
	}
	server, isServer := servers[path]
	if err := v.api().Call(v.ctx(), "POST /agents/inspect", nil, map[string]string{"path": path}, &x); err != nil {
		if isServer && !fault.Is(err, fault.Denied) {
			return v.deadServer(path, &server, err), nil
		}
		return content{}, err
	}
	fields := []string{"path", x.Path, "hash", x.Hash}
	open := x.Status != catalog.Approved || len(x.Waiting) > 0
	return v.settingsPage("agents", x.Path, head(visible(x.Path)),
		P(Span(Class("state"), g.Text(v.kindName(x.Kind))), g.Text(" "), v.agentState(&x.Listing), g.If(x.By != "", g.Group{g.Text(" · "), ownText(x.By), g.Text(" · "), when(x.At)})),
		P(A(Href("/settings/agents"), g.Text("‹ "+v.t("All agents and servers")))),
		g.If(x.Description != "", P(ownText(x.Description))), g.If(isServer, v.serverState(&server)), g.If(x.Dir != "", P(Class("quiet"), Code(ownText(x.Dir)))), g.If(x.Reason != "", P(Class("quiet"), ownText(x.Reason))),
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
			return Details(Class("covered"), g.If(i.Name == "agent.yaml" || i.Name == "PROMPT.md", g.Attr("open", "")), Summary(ownText(i.Name)), Pre(Dir("auto"), g.Text(visible(text))))
		}),
		g.If(len(x.Examples) > 0, g.Group{H2(g.Text(v.t("Examples"))), P(Class("quiet"), g.Text(v.t("Run as tests by the command:")), g.Text(" "), Code(g.Text("steward agents test "+x.Path))),
			Ul(Class("list"), g.Map(x.Examples, func(e catalog.Example) g.Node { return Li(ownText(e.Say)) }))}),
		Div(Class("row foot"),
			g.If(x.Usable && x.Kind == catalog.KindAgent, A(Class("button"), Href(chatWith(x.Path)), g.Text(v.t("Start a chat")))),
			g.If(open && x.Status != catalog.Invalid, v.button("agent-approve", v.t("Approve"), "primary", fields...)),
			g.If(open, v.button("agent-refuse-ask", v.t("Deny …"), "danger", "path", x.Path, "verb", "deny")),
			g.If(isServer && server.Removable, v.button("server-remove-ask", v.t("Remove"), "danger", "name", strings.TrimPrefix(x.Path, "mcp:"))),
			g.If(x.Status == catalog.Approved, v.button("agent-refuse-ask", v.t("Revoke …"), "danger", "path", x.Path, "verb", "revoke")))), nil
}

// deadServer is the screen of a server of tools that does not answer.
func (v *visit) deadServer(path string, s *client.Server, err error) content {
	f := fault.Of(err)
	return v.settingsPage("agents", path, head(visible(path)),
		P(Span(Class("state"), g.Text(v.kindName(catalog.KindSource))), g.Text(" "), Span(Class("state bad"), g.Text(v.t("does not answer")))),
		P(A(Href("/settings/agents"), g.Text("‹ "+v.t("All agents and servers")))),
		P(Class("failure"), ownText(f.Message)), g.If(s.Lacks == "" && f.Remedy != "", P(Class("quiet"), ownText(f.Remedy))), v.serverState(s),
		Div(Class("row foot"), A(Class("button"), Href(agentAddress(path)), g.Text(v.t("Try again"))), g.If(s.Removable, v.button("server-remove-ask", v.t("Remove"), "danger", "name", s.Name))))
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
