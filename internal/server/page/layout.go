package page

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
)

// document is a whole page with the navigation.
func (v *visit) document(c content) g.Node {
	main := "page"
	if c.wide {
		main = "page wide"
	}
	return v.bare(c.title,
		A(Class("skip"), Href("#main"), g.Text(v.t("Skip to the content"))),
		v.navigation(c.nav),
		Main(ID("main"), Class(main), g.If(c.live != "", Data("live", c.live)), TabIndex("-1"), c.main),
		Div(ID("connection"), Role("status"), Hidden("")),
		Div(ID("toasts"), Role("status"), Aria("live", "polite")),
		Dialog(ID("dialog")))
}

// bare is a page without navigation.
func (v *visit) bare(title string, body ...g.Node) g.Node {
	return Doctype(HTML(Lang(v.lang), Class(v.theme()),
		Head(Meta(Charset("utf-8")), Meta(Name("viewport"), Content("width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content")),
			Meta(Name("color-scheme"), Content("light dark")),
			g.If(v.theme() != "dark", Meta(Name("theme-color"), g.If(v.theme() == "", g.Attr("media", "(prefers-color-scheme: light)")), Content(barLight))),
			g.If(v.theme() != "light", Meta(Name("theme-color"), g.If(v.theme() == "", g.Attr("media", "(prefers-color-scheme: dark)")), Content(barDark))),
			TitleEl(g.Text(visible(title)+" – Steward")),
			link("stylesheet", v.at("page.css")), link("icon", v.at("icon.svg")), link("apple-touch-icon", v.at("icon-maskable.png")), link("manifest", "/manifest.webmanifest"),
			Script(Type("module"), Src(v.at("page.js")))),
		Body(append([]g.Node{Data("texts", v.clientTexts())}, body...)...)))
}

// barLight and barDark are the colours of the bar around an installed page: --bg of page.css.
const barLight, barDark = "#ffffff", "#16181d"

// link is a link element.
func link(rel, href string) g.Node { return g.El("link", Rel(rel), Href(href)) }

// theme is the class of the root: "light" or "dark" if the person has chosen.
func (v *visit) theme() string {
	if c, err := v.r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// entry is one of the navigation.
type entry struct{ name, icon, href, label string }

func (v *visit) entries() []entry {
	return []entry{
		{"chat", "chat", "/", v.t("Chat")},
		{"approvals", "check", "/approvals", v.t("Approvals")},
		{"plans", "tree", "/plans", v.t("Plans")},
		{"activity", "clock", "/activity", v.t("Activity")},
		{"memory", "memory", "/memory", v.t("Memory")},
		{"goals", "flag", "/goals", v.t("Goals")},
		{"jobs", "repeat", "/jobs", v.t("Jobs")},
		{"home", "home", "/home", v.t("Home")},
		{"settings", "gear", "/settings", v.t("Settings")},
	}
}

func (v *visit) navigation(current string) g.Node {
	return Nav(ID("nav"), Aria("label", v.t("Main")),
		A(Class("brand"), Href("/"), Img(Src(v.at("icon.svg")), Alt(""), Width("28"), Height("28")), Span(g.Text("Steward"))),
		Ul(g.Map(v.entries(), func(e entry) g.Node {
			return Li(A(Href(e.href), g.If(e.name == current, Aria("current", "page")), Title(e.label), v.icon(e.icon), Span(Class("name"), g.Text(e.label)),
				g.If(e.name == "approvals", Span(ID("waiting"), Class("badge"), Hidden("")))))
		})),
		Button(Class("icon theme"), Type("button"), Data("theme-switch", ""), Aria("label", v.t("Light or dark")), Title(v.t("Light or dark")), v.icon("theme")))
}

// icon is one of icons.svg.
func (v *visit) icon(name string) g.Node {
	return SVG(Class("icon"), Aria("hidden", "true"), g.El("use", Href(v.at("icons.svg")+"#"+name)))
}

// button does an action when it is clicked. fields are name, value, name, value, …
func (v *visit) button(do, label, class string, fields ...string) g.Node {
	n := []g.Node{Type("button"), Data("do", do), g.If(class != "", Class(class)), g.Text(label)}
	for i := 0; i+1 < len(fields); i += 2 {
		n = append(n, Data("field-"+fields[i], fields[i+1]))
	}
	return Button(n...)
}

// iconButton is a button that shows an icon.
func (v *visit) iconButton(do, icon, label string, fields ...string) g.Node {
	n := []g.Node{Type("button"), Class("icon"), Data("do", do), Aria("label", label), Title(label), v.icon(icon)}
	for i := 0; i+1 < len(fields); i += 2 {
		n = append(n, Data("field-"+fields[i], fields[i+1]))
	}
	return Button(n...)
}

// head is the heading of a screen, with its buttons.
func head(title string, tools ...g.Node) g.Node {
	return Header(Class("head"), H1(g.Text(visible(title))), g.If(len(tools) > 0, Div(Class("tools"), g.Group(tools))))
}

// empty says that there is nothing, and what to do.
func empty(text string, more ...g.Node) g.Node {
	return Div(Class("empty"), P(g.Text(text)), g.Group(more))
}

// when shows a time, in the zone of the browser.
func when(t time.Time) g.Node {
	if t.IsZero() {
		return g.Text("–")
	}
	return g.El("time", DateTime(t.UTC().Format(time.RFC3339)), g.Text(t.UTC().Format("2006-01-02 15:04")+" UTC"))
}

// ownText is text of a person, a model or others: its direction is its own.
func ownText(s string) g.Node { return Span(Dir("auto"), Class("own"), g.Text(visible(s))) }

// visible shows control characters, those that change the direction of text, and those that cannot be seen, as
// what they are. Joiners stay, because languages and emoji need them; what a person approves is shown with these, too (tool.Visible).
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r <= 0x9f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0x200b, r == 0x200e, r == 0x200f, r == 0x061c, r == 0x00ad, r == 0xfeff,
			r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff:
			return 0xfffd
		}
		return r
	}, s)
}

func (v *visit) errorPage(f *fault.Error) g.Node {
	title, said, remedy := v.t("That did not work"), f.Message, f.Remedy
	switch {
	case f.Code == "share_ended":
		title, said, remedy = v.t("This link has ended, or never existed."), v.t("Ask for another one where you got it."), ""
	case f.Kind == fault.NotFound:
		title, said, remedy = v.t("This does not exist"), v.t("It was deleted, belongs to somebody else, or the address is wrong."), ""
	case f.Code == "admin_only":
		title, said, remedy = v.t("This is for administrators"), v.t("Ask an administrator, if you need it."), ""
	}
	return v.bare(title, Main(Class("center"), H1(g.Text(title)), P(ownText(said)),
		g.If(remedy != "", P(Class("quiet"), ownText(remedy))), g.If(f.Code != "share_ended", P(A(Class("button"), Href("/"), g.Text(v.t("Back to the chat")))))))
}

// dollars shows an amount of money.
func dollars(x float64) string {
	switch {
	case x == 0:
		return "$0"
	case x < 0.01:
		return fmt.Sprintf("$%.4f", x)
	}
	return fmt.Sprintf("$%.2f", x)
}

// signedIn is how the page names a person.
func (v *visit) signedIn(u client.User) string {
	if u.Display != "" {
		return u.Display
	}
	return u.User
}

// manifest lets a phone install the page.
func (s *server) manifest(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/manifest+json")
	fmt.Fprintf(w, `{"id":"/","name":"Steward","short_name":"Steward","start_url":"/","scope":"/","display":"standalone","background_color":%q,"theme_color":%q,"categories":["productivity"],`+
		`"icons":[{"src":%q,"sizes":"any","type":"image/svg+xml"},{"src":%q,"sizes":"192x192","type":"image/png"},{"src":%q,"sizes":"512x512","type":"image/png"},{"src":%q,"sizes":"512x512","type":"image/png","purpose":"maskable"}]}`,
		barDark, barDark, s.at("icon.svg"), s.at("icon-192.png"), s.at("icon-512.png"), s.at("icon-maskable.png"))
}
