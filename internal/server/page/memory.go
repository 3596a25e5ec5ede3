package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/memory"
)

// factPage is how many facts are shown at a time.
const factPage = 100

// memoryTabs go to the screens of memory.
func (v *visit) memoryTabs(current string) g.Node {
	tab := func(href, label string) g.Node {
		return A(Href(href), g.If(href == current, Aria("current", "page")), g.Text(label))
	}
	return Nav(Class("tabs"), Aria("label", v.t("Memory")), tab("/memory", v.t("Facts")), tab("/memory/profile", v.t("About you")),
		tab("/documents", v.t("Documents")), tab("/memory/graph", v.t("Graph")))
}

// memoryScreen lists facts.
func (v *visit) memoryScreen() (content, error) {
	q := v.r.URL.Query()
	query := client.FactQuery{Query: strings.TrimSpace(q.Get("q")), All: q.Get("all") != "", Limit: memory.MaxFacts}
	list, err := v.api().Facts(v.ctx(), query)
	if err != nil {
		return content{}, err
	}
	filtered := query.Query != "" || q.Get("type") != "" || q.Get("subject") != ""
	subjects := subjectsOf(list)
	list = slices.DeleteFunc(list, func(f client.Fact) bool {
		return q.Get("type") != "" && f.Type != q.Get("type") || q.Get("subject") != "" && f.Subject != q.Get("subject")
	})
	shown := atLeast(q.Get("shown"), factPage)
	var body g.Node
	switch {
	case len(list) == 0 && filtered:
		body = empty(v.t("No fact fits."), P(A(Href("/memory"), g.Text(v.t("Show all facts")))))
	case len(list) == 0:
		body = empty(v.t("Nothing is remembered yet. Steward remembers what you tell it about yourself, and what you add here."), v.button("fact-ask", v.t("Add a fact"), "primary"))
	default:
		body = Ul(ID("facts"), Class("list"), g.Map(list[:min(shown, len(list))], func(f client.Fact) g.Node { return v.factItem(&f) }))
	}
	return content{title: v.t("Memory"), nav: "memory", main: Div(
		head(v.t("Memory"), v.button("fact-ask", v.t("Add a fact"), "primary"), v.button("facts-changed", v.t("Undo …"), ""), v.exportMenu()),
		v.memoryTabs("/memory"), v.factFilter(q, subjects), body, v.showMore("/memory", q, shown, len(list)))}, nil
}

// atLeast reads how many entries a list shows.
func atLeast(s string, least int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return least
	}
	return max(n, least)
}

// showMore is the link below a list that has more than it shows.
func (v *visit) showMore(path string, q url.Values, shown, all int) g.Node {
	if all <= shown {
		return nil
	}
	q.Set("shown", strconv.Itoa(2*shown))
	return P(Class("more"), A(Class("button"), Href(path+"?"+q.Encode()), g.Text(v.t("Show more"))), g.Text(" "), Span(Class("quiet"), g.Text(v.t("{n} of {all}", strconv.Itoa(shown), strconv.Itoa(all)))))
}

func (v *visit) exportMenu() g.Node {
	return Details(Class("menu"), Summary(Aria("label", v.t("Export")), Title(v.t("Export")), v.icon("download")), Div(Class("items"),
		A(Href("/memory/export?format=markdown"), Download(""), g.Text(v.t("Export as Markdown"))),
		A(Href("/memory/export?format=json"), Download(""), g.Text(v.t("Export as JSON")))))
}

func subjectsOf(list []client.Fact) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Subject)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (v *visit) factFilter(q url.Values, subjects []string) g.Node {
	option := func(value, label, chosen string) g.Node {
		return Option(Value(value), g.If(value == chosen, Selected()), g.Text(visible(label)))
	}
	return Form(Class("filter"), Role("search"), Action("/memory"), Method("get"), Data("get", ""),
		Input(Type("search"), Name("q"), Value(q.Get("q")), Placeholder(v.t("Search")), Aria("label", v.t("Search facts"))),
		Select(Name("type"), Aria("label", v.t("Type")), option("", v.t("All types"), q.Get("type")), g.Map(memory.Types(), func(s string) g.Node { return option(s, v.factType(s), q.Get("type")) })),
		Select(Name("subject"), Aria("label", v.t("About")), option("", v.t("About everyone and everything"), q.Get("subject")), g.Map(subjects, func(s string) g.Node { return option(s, v.subject(s), q.Get("subject")) })),
		Label(Class("check"), Input(Type("checkbox"), Name("all"), Value("yes"), g.If(q.Get("all") != "", Checked())), g.Text(v.t("also what is no longer true"))),
		Button(Type("submit"), g.Text(v.t("Show"))))
}

func (v *visit) factType(s string) string {
	switch s {
	case "fact":
		return v.t("fact")
	case "preference":
		return v.t("preference")
	case "person":
		return v.t("person")
	case "place":
		return v.t("place")
	case "event":
		return v.t("event")
	case "instruction":
		return v.t("instruction")
	}
	return s
}

// subject names what a fact is about.
func (v *visit) subject(s string) string {
	if s == "user" {
		return v.t("you")
	}
	return s
}

func factID(id string) string { return "fact-" + id }

// factItem is a fact in the list.
func (v *visit) factItem(f *client.Fact) g.Node {
	return Li(ID(factID(f.ID)), Class("fact"), Div(Class("row top"),
		Div(Class("grow"), v.factText(f), P(Class("quiet"), v.factAbout(f), g.Text(" · "), v.whyLink(f))),
		Div(Class("row"), v.factButtons(f, ""))))
}

// factText shows what a fact says. What others have written, and nobody has confirmed, is a quotation.
func (v *visit) factText(f *client.Fact) g.Node {
	if !f.Foreign {
		return P(Class("says"), ownText(f.Text))
	}
	return g.Group{g.El("blockquote", Class("says foreign"), ownText(f.Text)),
		P(Class("label"), v.icon("warn"), g.Text(v.t("Others have written this. The assistant treats it as a quotation, not as something you have said.")))}
}

func (v *visit) factAbout(f *client.Fact) g.Node {
	return g.Group{Span(g.Text(v.factType(f.Type))), g.Text(" · "), ownText(v.subject(f.Subject)), g.Text(" · " + v.t("since") + " "), when(f.From),
		g.If(!f.Until.IsZero(), g.Group{g.Text(" · "), Span(Class("state warn"), g.Text(v.t("no longer true since")+" "), when(f.Until))}),
		g.If(!f.Trusted.IsZero(), g.Text(" · "+v.t("you have confirmed it"))),
	}
}

func (v *visit) whyLink(f *client.Fact) g.Node {
	return A(Href("/memory/facts/"+f.ID), Aria("label", v.t("Why? {fact}", short(f.Text, 60))), g.Text(v.t("Why?")))
}

// short returns the beginning of a text.
func short(s string, most int) string {
	r := []rune(visible(strings.Join(strings.Fields(s), " ")))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most-1]) + "…"
}

func (v *visit) factButtons(f *client.Fact, where string) g.Node {
	return g.Group{g.If(f.Foreign, v.button("fact-trust", v.t("Confirm"), "primary", "id", f.ID, "where", where)),
		v.iconButton("fact-ask", "edit", v.t("Edit"), "id", f.ID, "where", where), v.iconButton("fact-forget-ask", "trash", v.t("Forget …"), "id", f.ID, "where", where)}
}

// factScreen shows why a fact is remembered: where it comes from, what became of it, and where it was recalled.
func (v *visit) factScreen() (content, error) {
	f, err := v.api().Fact(v.ctx(), v.r.PathValue("fact"))
	if err != nil {
		return content{}, err
	}
	main := Div(head(v.t("Why is this remembered?"), A(Class("button"), Href("/memory"), g.Text(v.t("All facts")))),
		Div(Class("item fact"), v.factText(&f), P(Class("quiet"), v.factAbout(&f)), Div(Class("row"), v.factButtons(&f, onFact))),
		H2(g.Text(v.t("Where it comes from"))), v.factSource(&f),
		H2(g.Text(v.t("What became of it"))),
		Ol(Class("list"), g.Map(f.History, func(h client.FactChange) g.Node {
			return Li(Class("row"), when(h.At), Span(g.Text(v.factChange(h.What))), Span(Class("state"), g.Text(v.author(h.Actor))), Span(Class("space")),
				g.If(h.ID == f.History[len(f.History)-1].ID, v.button("fact-undo", v.t("Undo"), "", "id", f.ID, "change", h.ID, "where", onFact)))
		})),
		g.If(f.Successor != "", P(A(Href("/memory/facts/"+f.Successor), g.Text(v.t("A newer fact has taken its place"))))),
		g.If(len(f.Supersedes) > 0, P(g.Map(f.Supersedes, func(s string) g.Node {
			return g.Group{A(Href("/memory/facts/"+s), g.Text(v.t("It has taken the place of an older fact"))), g.Text(" ")}
		}))),
		H2(g.Text(v.t("Where it was recalled"))), v.factRecalls(&f))
	return content{title: short(f.Text, 60), nav: "memory", main: main}, nil
}

func (v *visit) factSource(f *client.Fact) g.Node {
	switch {
	case f.Said != nil:
		return Div(Class("item"), P(A(Href("/chat/"+f.Said.Conversation+"?at="+f.Said.Message), ownText(named(f.Said.Title, v.t("A conversation")))), g.Text(" · "), when(f.Said.At)),
			g.If(f.Said.Text != "", g.El("blockquote", ownText(f.Said.Text))),
			g.If(f.Said.Text == "", P(Class("quiet"), g.Text(v.t("An agent has saved it by a call.")))))
	case f.Source == "":
		return P(g.Text(v.t("It was written by hand.")))
	}
	return P(g.Text(v.t("What it comes from no longer exists.")), g.Text(" "), Code(Class("own"), g.Text(visible(f.Source))))
}

func named(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (v *visit) factRecalls(f *client.Fact) g.Node {
	if len(f.Recalls) == 0 {
		return P(Class("quiet"), g.Text(v.t("It was not recalled yet.")))
	}
	return Ul(Class("list"), g.Map(f.Recalls, func(r client.FactRecall) g.Node {
		return Li(A(Href("/chat/"+r.Conversation+"?at="+r.Message), g.Text(v.t("A conversation"))), g.Text(" · "), when(r.At))
	}))
}

// factChange says what a change has done; what is not known here stays in the words of the engine.
func (v *visit) factChange(s string) string {
	switch s {
	case client.FactAdded:
		return v.t("added")
	case client.FactMerged:
		return v.t("completed")
	case client.FactSuperseded:
		return v.t("replaced")
	}
	return s
}

func (v *visit) author(s string) string {
	kind, name, _ := strings.Cut(s, ":")
	switch kind {
	case "user":
		return v.t("by you")
	case "agent":
		return v.t("by the agent {name}", name)
	case "program":
		return v.t("by a program")
	case "extraction":
		return v.t("noticed in what you said")
	}
	return s
}

// factAsk asks for a new fact, or for changes of one.
func (v *visit) factAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Where string }](in)
	if err != nil {
		return nil, err
	}
	f := client.Fact{Type: "fact"}
	title, label := v.t("Add a fact"), v.t("Add")
	if x.ID != "" {
		if f, err = v.api().Fact(v.ctx(), x.ID); err != nil {
			return nil, err
		}
		title, label = v.t("Edit"), v.t("Save")
	}
	return v.dialog(title, Form(Data("do", "fact-save"), hiddenFields("id", f.ID, "where", x.Where),
		Label(g.Text(v.t("What shall be remembered?")), Textarea(Name("text"), Rows("3"), Required(), MaxLength("2000"), Dir("auto"), AutoFocus(), g.Text(f.Text))),
		Label(g.Text(v.t("Type")), Select(Name("type"), g.Map(memory.Types(), func(s string) g.Node {
			return Option(Value(s), g.If(s == f.Type, Selected()), g.Text(v.factType(s)))
		}))),
		g.If(f.ID != "", g.Group{
			Label(g.Text(v.t("About (“user” is you)")), Input(Name("subject"), Value(f.Subject), MaxLength("200"))),
			Label(g.Text(v.t("Importance, from 0 to 1")), Input(Type("number"), Name("importance"), Min("0"), Max("1"), Step("any"), Value(strconv.FormatFloat(f.Importance, 'g', 3, 64)))),
			Label(g.Text(v.t("True since")), Input(Type("date"), Name("from"), Value(day(f.From)))),
			Label(g.Text(v.t("No longer true since")), Input(Type("date"), Name("until"), Value(day(f.Until))))}),
		v.dialogButtons(label))), nil
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

func (v *visit) factSave(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Where, Text, Type, Subject, Importance, From, Until string }](in)
	if err != nil {
		return nil, err
	}
	if x.ID == "" {
		saved, err := v.api().SaveFact(v.ctx(), client.FactInput{Text: &x.Text, Type: &x.Type})
		if err != nil {
			return nil, err
		}
		return &reply{Go: "/memory/facts/" + saved.Fact.ID}, nil
	}
	old, err := v.api().Fact(v.ctx(), x.ID)
	if err != nil {
		return nil, err
	}
	var c client.FactInput
	changed := func(was, is string) *string {
		if was == is {
			return nil
		}
		return &is
	}
	c.Text, c.Type, c.Subject = changed(old.Text, x.Text), changed(old.Type, x.Type), changed(old.Subject, x.Subject)
	if x.Importance != strconv.FormatFloat(old.Importance, 'g', 3, 64) {
		n, err := strconv.ParseFloat(x.Importance, 64)
		if err != nil {
			return nil, fault.New(fault.Invalid, "fields_invalid", "%.40q is not a number", x.Importance)
		}
		c.Importance = &n
	}
	if c.From, err = changedDay(old.From, x.From); err != nil {
		return nil, err
	}
	if c.Until, err = changedDay(old.Until, x.Until); err != nil {
		return nil, err
	}
	f, err := v.api().ChangeFact(v.ctx(), x.ID, c)
	if err != nil {
		return nil, err
	}
	return v.factShown(&f, x.Where, v.t("Saved")), nil
}

// changedDay returns the day that a person has chosen in place of another, or nil.
func changedDay(was time.Time, is string) (*time.Time, error) {
	if day(was) == is {
		return nil, nil
	}
	if is == "" {
		return &time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, is)
	if err != nil {
		return nil, fault.New(fault.Invalid, "fields_invalid", "%.40q is not a day", is)
	}
	return &t, nil
}

// onFact says that a button is on the screen of one fact, which is then shown again.
const onFact = "fact"

// factShown shows a changed fact where the person has changed it.
func (v *visit) factShown(f *client.Fact, where, toast string) *reply {
	if where == onFact {
		return &reply{Go: "/memory/facts/" + f.ID}
	}
	return &reply{Toast: toast, Patches: []patch{v.closed(), put(factID(f.ID), "", v.factItem(f))}}
}

// factTrust confirms what others have written.
func (v *visit) factTrust(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Where string }](in)
	if err != nil {
		return nil, err
	}
	yes := true
	f, err := v.api().ChangeFact(v.ctx(), x.ID, client.FactInput{Trusted: &yes})
	if err != nil {
		return nil, err
	}
	return v.factShown(&f, x.Where, v.t("Confirmed")), nil
}

// factForgetAsk asks before a fact is erased, and whether the turn goes too in which it was said.
func (v *visit) factForgetAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Where string }](in)
	if err != nil {
		return nil, err
	}
	f, err := v.api().Fact(v.ctx(), x.ID)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Forget this?"), Form(Data("do", "fact-forget"), hiddenFields("id", f.ID, "where", x.Where), g.El("blockquote", ownText(f.Text)),
		P(g.Text(v.t("The fact is erased for good, with its earlier versions and the call that has saved it. This cannot be undone."))),
		g.Iff(f.Said != nil, func() g.Node {
			return FieldSet(Legend(g.Text(v.t("It was said in “{title}”. Erase that too?", named(short(f.Said.Title, 60), v.t("A conversation"))))),
				Label(Input(Type("radio"), Name("turns"), Value(""), Checked()), g.Text(v.t("No, the conversation stays as it is"))),
				Label(Input(Type("radio"), Name("turns"), Value("yes")), g.Text(v.t("Yes, also erase my message there and what was answered"))))
		}),
		v.dialogButtons(v.t("Forget")))), nil
}

func (v *visit) factForget(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Turns, Where string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().ForgetFact(v.ctx(), x.ID, x.Turns != ""); err != nil {
		return nil, err
	}
	return v.factGone(x.ID, x.Where, v.t("Forgotten")), nil
}

// factGone says that a fact no longer exists.
func (v *visit) factGone(id, where, toast string) *reply {
	if where == onFact {
		return &reply{Go: "/memory"}
	}
	return &reply{Toast: toast, Patches: []patch{v.closed(), {ID: factID(id)}}}
}

// changedShown is how many changes can be undone from the list.
const changedShown = 12

// factsChanged shows the newest changes, to undo them.
func (v *visit) factsChanged(json.RawMessage) (*reply, error) {
	list, err := v.api().Facts(v.ctx(), client.FactQuery{All: true, Since: time.Unix(1, 0), Limit: changedShown})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return v.dialog(v.t("Undo"), Div(P(g.Text(v.t("Nothing has changed yet."))), Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Close")))))), nil
	}
	return v.dialog(v.t("The newest changes"), Div(
		Ul(Class("list"), g.Map(list, func(f client.Fact) g.Node {
			last := f.History[len(f.History)-1]
			return Li(ID("changed-"+f.ID), P(ownText(short(f.Text, 200))), Div(Class("row"), Span(Class("quiet"), g.Text(v.factChange(last.What)+" "+v.author(last.Actor)+" · "), when(last.At)), Span(Class("space")),
				v.button("fact-undo", v.t("Undo"), "", "id", f.ID, "change", last.ID)))
		})),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Close")))))), nil
}

// factUndo undoes a change.
func (v *visit) factUndo(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Change, Where string }](in)
	if err != nil {
		return nil, err
	}
	u, err := v.api().UndoFact(v.ctx(), x.ID, x.Change)
	if err != nil {
		return nil, err
	}
	switch {
	case x.Where == onChat:
		return &reply{Patches: []patch{put(memoryLineID(x.ID), "", v.factLine(client.MemoryUndone, &client.FactNews{ID: x.ID, Text: u.Fact.Text}))}}, nil
	case x.Where == onFact && !u.Gone:
		return v.factShown(&u.Fact, x.Where, ""), nil
	}
	return &reply{Go: "/memory"}, nil
}

// exportMemory sends all facts as a file.
func (s *server) exportMemory(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	list, err := v.api().Facts(r.Context(), client.FactQuery{All: true, Limit: memory.MaxFacts, Since: time.Unix(1, 0)})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	kind, name, b := "text/markdown; charset=utf-8", "facts.md", []byte(memory.Export(list, time.UTC))
	if r.URL.Query().Get("format") == "json" {
		kind, name = "application/json", "facts.json"
		if b, err = json.MarshalIndent(list, "", "  "); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	sendFile(w, r, kind, name, b)
}

// sendFile sends a file that the browser keeps.
func sendFile(w http.ResponseWriter, r *http.Request, kind, name string, b []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	send(w, r, http.StatusOK, b)
}

// profileScreen is the page of facts about the person, as text to edit.
func (v *visit) profileScreen() (content, error) {
	p, err := v.api().MemoryProfile(v.ctx())
	if err != nil {
		return content{}, err
	}
	return content{title: v.t("About you"), nav: "memory", main: Div(head(v.t("Memory")), v.memoryTabs("/memory/profile"),
		P(g.Text(v.t("This is what is remembered about you, as a page. A changed line changes a fact, a removed line erases it, a new line adds one."))),
		Form(Data("do", "profile-save"), Input(ID("profile-version"), Type("hidden"), Name("version"), Value(p.Version)),
			Label(g.Text(v.t("The page")), Textarea(ID("profile"), Name("text"), Class("code"), Rows("24"), Dir("auto"), g.Attr("spellcheck", "true"), g.Text(p.Text))),
			Div(ID("profile-error")), Div(Class("row"), Button(Type("submit"), Class("primary"), g.Text(v.t("Save"))))))}, nil
}

// profileSave applies the edited page. What the person has typed stays if it is refused.
func (v *visit) profileSave(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Text, Version, Erase string }](in)
	if err != nil {
		return nil, err
	}
	before, err := v.api().MemoryProfile(v.ctx())
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(x.Text, "\r\n", "\n")
	if gone := removedLines(before.Text, text); len(gone) > 0 && x.Erase == "" {
		return v.dialog(v.t("Forget this?"), Form(Data("do", "profile-save"), hiddenFields("version", x.Version, "erase", "yes"),
			Textarea(Name("text"), Hidden(""), g.Text("\n"+text)),
			P(g.Text(v.t("These facts are erased for good, since their lines are gone:"))),
			Ul(g.Map(gone, func(s string) g.Node { return Li(ownText(s)) })), v.dialogButtons(v.t("Forget and save")))), nil
	}
	p, err := v.api().SetMemoryProfile(v.ctx(), client.MemoryProfile{Text: text, Version: x.Version})
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.Internal {
			return nil, err
		}
		return &reply{Patches: []patch{v.closed(), put("profile-error", "", Div(ID("profile-error"), Class("failure"), Role("alert"),
			P(g.Text(v.t("Nothing was saved. What you have typed is still there."))), P(ownText(f.Message)), g.If(f.Remedy != "", P(Class("quiet"), ownText(f.Remedy)))))}}, nil
	}
	return &reply{Toast: v.t("Changes: {n}", strconv.Itoa(p.Changes)), Go: "/memory/profile"}, nil
}

// removedLines returns the facts of a page whose lines are not in its edited form.
func removedLines(before, after string) (gone []string) {
	for line := range strings.Lines(before) {
		line = strings.TrimSpace(line)
		open := strings.LastIndex(line, "[")
		if !strings.HasPrefix(line, "- ") || open < 0 || strings.Contains(after, line[open:]) || strings.Contains(after, strings.TrimSpace(line[:open])) {
			continue
		}
		gone = append(gone, strings.TrimSpace(line[2:open]))
	}
	return gone
}
