package page

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/server/auth"
)

// settingsPage is a screen of the settings, with the tabs of all of them.
func (v *visit) settingsPage(tab, title string, main ...g.Node) content {
	tabs := []entry{{"you", "", "/settings", v.t("You")}}
	if v.caller.Admin {
		tabs = append(tabs,
			entry{"models", "", "/settings/models", v.t("Models")}, entry{"budgets", "", "/settings/budgets", v.t("Budgets")}, entry{"people", "", "/settings/people", v.t("People")},
			entry{"agents", "", "/settings/agents", v.t("Agents and servers")})
		if v.caller.User == identity.Local {
			tabs = append(tabs, entry{"skills", "", "/settings/skills", v.t("Skills")})
		}
		tabs = append(tabs, entry{"channels", "", "/settings/channels", v.t("Channels")},
			entry{"policy", "", "/settings/policy", v.t("Policies")}, entry{"all", "", "/settings/all", v.t("All settings")})
	}
	return content{title: title, nav: "settings", main: Div(Class("settings"),
		Nav(Class("tabs"), Aria("label", v.t("Settings")), g.Map(tabs, func(e entry) g.Node {
			return A(Href(e.href), g.If(e.name == tab, Aria("current", "page")), g.Text(e.label))
		})), v.ofNode(tab), g.Group(main))}
}

// ofNode says whose settings a tab has. In a cluster, each node has settings of its own.
func (v *visit) ofNode(tab string) g.Node {
	switch tab {
	case "you", "budgets", "people":
		return nil
	}
	return g.If(v.Cluster != "", P(Class("quiet"), g.Text(v.t("This is the node {name}, which works on you now. Change the other nodes of the cluster in the same way.", v.Cluster))))
}

// atField says at which field of its form an error stands. codes are code, field, code, field, …
func atField(err error, codes ...string) error {
	for i := 0; i+1 < len(codes); i += 2 {
		if fault.HasCode(err, codes[i]) {
			return fault.Of(err).Detail("field", codes[i+1])
		}
	}
	return err
}

// option is one of a select.
func option(value, label, chosen string) g.Node {
	return Option(Value(value), g.If(value == chosen, Selected()), g.Text(label))
}

// youScreen is what everybody may set for themselves.
func (v *visit) youScreen() (content, error) {
	me, err := v.api().User(v.ctx(), v.caller.User)
	if err != nil {
		return content{}, err
	}
	sessions, err := v.api().Sessions(v.ctx(), "")
	if err != nil {
		return content{}, err
	}
	language := ""
	if c, err := v.r.Cookie("language"); err == nil {
		language = c.Value
	}
	return v.settingsPage("you", v.t("Settings"),
		head(v.t("Settings"), v.button("sign-out", v.t("Sign out"), "")),
		P(g.Text(v.t("You are signed in as {name}.", visible(v.signedIn(me))))),
		Section(Class("item pick"),
			Label(g.Text(v.t("Language")), Select(Data("change", "language"), option("", v.t("As in the browser"), language), option("en", "English", language), option("de", "Deutsch", language))),
			Label(g.Text(v.t("Colours")), Select(Data("change", "theme"), option("", v.t("As in the system"), v.theme()), option("light", v.t("Light"), v.theme()), option("dark", v.t("Dark"), v.theme())))),
		v.ownBudget(),
		H2(g.Text(v.t("Signed-in browsers"))), v.sessionList(sessions, "")), nil
}

// ownSession is the id of the session of this browser.
func (v *visit) ownSession() string {
	c, err := v.r.Cookie(auth.CookieName(v.r))
	if err != nil {
		return ""
	}
	s, err := v.People.AuthenticateSession(v.ctx(), c.Value)
	if err != nil {
		return ""
	}
	return s.ID.String()
}

// sessionList shows the browsers that are signed in as a user; empty: as the person.
func (v *visit) sessionList(list []client.Session, user string) g.Node {
	own := v.ownSession()
	if len(list) == 0 {
		return P(ID("sessions"), Class("quiet"), g.Text(v.t("No browser is signed in.")))
	}
	return Ul(ID("sessions"), Class("list"), g.Map(list, func(s client.Session) g.Node {
		return Li(ID("session-"+s.ID), Class("row"), Div(ownText(browserName(s.Browser)), P(Class("quiet"), g.Text(v.t("Signed in")+" "), when(s.Created), g.Text(" · "+v.t("last used")+" "), when(s.Seen))),
			Span(Class("space")), g.If(s.ID == own, Span(Class("state good"), g.Text(v.t("this browser")))),
			g.If(s.ID != own, v.button("session-end", v.t("Sign out"), "", "id", s.ID, "user", user)))
	}))
}

// browserName shortens what a browser says about itself.
func browserName(agent string) string {
	system := ""
	for _, s := range []string{"Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"} {
		if strings.Contains(agent, s) {
			system = strings.TrimSuffix(s, " X")
			break
		}
	}
	for _, b := range [][2]string{{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}} {
		if strings.Contains(agent, b[0]) {
			return strings.TrimSuffix(b[1]+", "+system, ", ")
		}
	}
	if len(agent) > 80 {
		agent = agent[:80]
	}
	return agent
}

func (v *visit) endSession(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, User string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().EndSession(v.ctx(), x.ID, x.User); err != nil {
		return nil, err
	}
	list, err := v.api().Sessions(v.ctx(), x.User)
	return &reply{Patches: []patch{put("sessions", "", v.sessionList(list, x.User))}, Toast: v.t("Signed out")}, err
}

// signOut ends the session of this browser.
func (v *visit) signOut(json.RawMessage) (*reply, error) {
	if own := v.ownSession(); own != "" {
		if err := v.api().EndSession(v.ctx(), own, ""); err != nil {
			return nil, err
		}
	}
	return &reply{Go: "/in", leave: true, cookie: &http.Cookie{Name: auth.CookieName(v.r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: auth.Secure(v.r), SameSite: http.SameSiteStrictMode}}, nil
}

// preference keeps a choice of the person in a cookie.
func (v *visit) preference(in json.RawMessage, name, path string, allowed ...string) (*reply, error) {
	x, err := read[struct{ Value string }](in)
	if err != nil {
		return nil, err
	}
	c := &http.Cookie{Name: name, Value: x.Value, Path: "/", MaxAge: int(365 * 24 * time.Hour / time.Second), SameSite: http.SameSiteStrictMode}
	switch {
	case x.Value == "":
		c.MaxAge = -1
	case x.Value != allowed[0] && x.Value != allowed[1]:
		return nil, fault.New(fault.Invalid, "fields_invalid", "%.40q is none of the choices", x.Value)
	}
	return &reply{Go: path, cookie: c}, nil
}

func (v *visit) setLanguage(in json.RawMessage) (*reply, error) {
	return v.preference(in, "language", "/settings", "en", "de")
}

func (v *visit) setTheme(in json.RawMessage) (*reply, error) {
	return v.preference(in, "theme", "/settings", "light", "dark")
}

// allSettingsScreen shows every setting, its value and where it comes from.
func (v *visit) allSettingsScreen() (content, error) {
	set, err := v.api().Settings(v.ctx())
	if err != nil {
		return content{}, err
	}
	q := strings.ToLower(strings.TrimSpace(v.r.URL.Query().Get("q")))
	changed := v.r.URL.Query().Get("changed") != ""
	var groups []string
	by := map[string][]client.Setting{}
	for _, s := range set.Settings {
		if q != "" && !strings.Contains(strings.ToLower(s.Key+" "+s.Value+" "+s.Doc), q) || changed && s.From == "default" {
			continue
		}
		group, _, below := strings.Cut(s.Key, ".")
		if !below {
			group = v.t("General")
		}
		if by[group] == nil {
			groups = append(groups, group)
		}
		by[group] = append(by[group], s)
	}
	files := P(Class("quiet"), g.Text(v.t("There is no settings file yet. All settings have their default values.")))
	if len(set.Files) > 0 {
		files = P(Class("quiet"), g.Text(v.t("Read from:")+" "), g.Map(set.Files, func(f string) g.Node { return g.Group{Code(g.Text(f)), g.Text(" ")} }), g.Text(v.t("What could start a program, name a key or open Steward to others is changed only there, and takes effect at the next start.")))
	}
	return v.settingsPage("all", v.t("All settings"), head(v.t("All settings")), files,
		g.Map(set.Notices, func(n string) g.Node { return P(Class("notice"), v.icon("warn"), ownText(n)) }),
		Form(Class("row filter"), Role("search"), Action("/settings/all"), Method("get"), Data("get", ""),
			Input(Type("search"), Name("q"), Value(q), Placeholder(v.t("Search settings")), Aria("label", v.t("Search settings"))),
			Label(Input(Type("checkbox"), Name("changed"), Value("1"), g.If(changed, Checked())), g.Text(" "+v.t("Only what differs from the default"))), Button(Type("submit"), g.Text(v.t("Search")))),
		g.If(len(groups) == 0, empty(v.t("No setting matches."))),
		g.Map(groups, func(group string) g.Node {
			return Section(H2(Code(g.Text(group))), Dl(Class("all"), g.Map(by[group], func(s client.Setting) g.Node {
				return g.Group{Dt(Code(g.Text(s.Key))), v.settingValue(&s)}
			})))
		})), nil
}

// inviteFor is how long an invitation can be used.
const inviteFor = 7 * 24 * time.Hour

// pageURL is the address of the page as this browser knows it.
func (v *visit) pageURL() string {
	scheme := "http"
	if auth.Secure(v.r) {
		scheme = "https"
	}
	return scheme + "://" + v.r.Host
}

// shownOnce is a dialog with a text that is never shown again.
func (v *visit) shownOnce(title, explanation, secret string) *reply {
	return v.dialog(title, Div(P(g.Text(explanation)), Div(Class("copy"), Code(Class("secret"), g.Text(secret)), Button(Type("button"), Class("primary"), Data("js", "code"), g.Text(v.t("Copy")))),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Close"))))))
}

// invite makes a link by which somebody signs in.
func (v *visit) invite(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User string }](in)
	if err != nil {
		return nil, err
	}
	return v.invitation(x.User)
}

func (v *visit) invitation(user string) (*reply, error) {
	l, err := v.api().NewLink(v.ctx(), user, inviteFor.String())
	if err != nil {
		return nil, err
	}
	return v.shownOnce(v.t("Invitation for {name}", user), v.t("Send this link to the person. It works once, within 7 days, and whoever opens it is signed in."), SignInLink(v.pageURL(), l.Secret)), nil
}

// roleName is a role as people understand it.
func (v *visit) roleName(role string) string {
	if s := map[string]string{"admin": v.t("administrator"), "member": v.t("member"), "guest": v.t("guest"), "service": v.t("program")}[role]; s != "" {
		return s
	}
	return role
}

func (v *visit) roleSelect(chosen string) g.Node {
	return Select(Name("role"), g.Map(identity.Roles(), func(r string) g.Node { return option(r, v.roleName(r), chosen) }))
}
