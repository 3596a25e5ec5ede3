package page

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
)

// peopleScreen lists users and groups.
func (v *visit) peopleScreen() (content, error) {
	users, err := v.api().Users(v.ctx())
	if err != nil {
		return content{}, err
	}
	groups, err := v.api().Groups(v.ctx())
	if err != nil {
		return content{}, err
	}
	return v.settingsPage("people", v.t("People"), head(v.t("People"), v.button("user-ask", v.t("Add a person"), "primary")),
		P(Class("quiet"), g.Text(v.t("Each person has conversations, a memory and approvals of their own, which nobody else sees."))),
		Ul(Class("list"), g.Map(users, func(u client.User) g.Node {
			return Li(Class("row"), A(Href("/settings/people/"+u.User), ownText(v.signedIn(u))), v.userState(&u), Span(Class("space")),
				g.If(!u.Disabled, v.button("invite", v.t("Invitation link"), "", "user", u.User)))
		})),
		Div(Class("head"), H2(g.Text(v.t("Groups"))), v.button("group-ask", v.t("Add a group"), "")),
		g.If(len(groups) == 0, P(Class("quiet"), g.Text(v.t("The members of a group share lists, notes and folders. There is no group yet.")))),
		Ul(Class("list"), g.Map(groups, func(x client.Group) g.Node { return v.groupItem(&x, users) }))), nil
}

func (v *visit) userState(u *client.User) g.Node {
	var roles []string
	for _, r := range u.Roles {
		roles = append(roles, v.roleName(r))
	}
	return g.Group{Span(Class("state"), g.Text(strings.Join(roles, ", "))), g.If(u.User == v.caller.User, Span(Class("state good"), g.Text(v.t("you")))), g.If(u.Disabled, Span(Class("state bad"), g.Text(v.t("locked out"))))}
}

func (v *visit) groupItem(x *client.Group, users []client.User) g.Node {
	title := x.Display
	if title == "" {
		title = x.Name
	}
	var others []string
	for _, u := range users {
		if !x.Has(u.User) {
			others = append(others, u.User)
		}
	}
	return Li(Div(Class("row"), H3(ownText(title)), Span(Class("space")), v.button("group-remove-ask", v.t("Delete"), "danger", "group", x.Name)),
		Ul(Class("members"), g.Map(x.Members, func(m string) g.Node {
			return Li(Class("chip"), g.Text(m), g.If(slices.Contains(x.Managers, m), g.Text(" ★")), Button(Type("button"), Data("do", "group-leave"), Data("field-group", x.Name), Data("field-user", m), Aria("label", v.t("Remove {name}", m)), g.Text("×")))
		})),
		g.If(len(others) > 0, Form(Class("row"), Data("do", "group-join"), hiddenFields("group", x.Name), Select(Name("user"), Aria("label", v.t("Person")), g.Map(others, func(u string) g.Node { return option(u, u, "") })),
			Label(Input(Type("checkbox"), Name("manages"), Data("flag", "")), g.Text(" "+v.t("may choose the members"))), Button(Type("submit"), g.Text(v.t("Add"))))))
}

// personScreen shows one user.
func (v *visit) personScreen() (content, error) {
	u, err := v.api().User(v.ctx(), v.r.PathValue("user"))
	if err != nil {
		return content{}, err
	}
	keys, err := v.api().Keys(v.ctx(), u.User)
	if err != nil {
		return content{}, err
	}
	sessions, err := v.api().Sessions(v.ctx(), u.User)
	if err != nil {
		return content{}, err
	}
	keys = slices.DeleteFunc(keys, func(k client.Key) bool { return !k.Usable })
	lock, to := v.t("Lock out"), "true"
	if u.Disabled {
		lock, to = v.t("Let in again"), "false"
	}
	own := u.User == v.caller.User
	return v.settingsPage("people", v.signedIn(u), head(v.signedIn(u), v.button("user-ask", v.t("Edit"), "", "user", u.User), v.button("invite", v.t("Invitation link"), "primary", "user", u.User)),
		P(Class("row"), Code(g.Text(u.User)), v.userState(&u)), g.If(len(u.Groups) > 0, P(g.Text(v.t("Groups")+": "+strings.Join(u.Groups, ", ")))),
		H2(g.Text(v.t("Signed-in browsers"))), v.sessionList(sessions, u.User),
		Div(Class("head"), H2(g.Text(v.t("Keys of programs"))), v.button("key-ask", v.t("New key"), "", "user", u.User)),
		g.If(len(keys) == 0, P(Class("quiet"), g.Text(v.t("Programs that act as this person need a key. There is none.")))),
		Ul(Class("list"), g.Map(keys, func(k client.Key) g.Node {
			expires := g.Text(v.t("does not expire"))
			if !k.Expires.IsZero() {
				expires = g.Group{g.Text(v.t("Expires") + " "), when(k.Expires)}
			}
			return Li(ID("key-"+k.ID), Class("row"), Div(ownText(k.Name), g.Text(" "), Code(g.Text(k.Hint)), P(Class("quiet"), when(k.Created), g.Text(" · "), expires)), Span(Class("space")), v.button("key-revoke-ask", v.t("Revoke"), "danger", "id", k.ID, "name", k.Name))
		})),
		g.If(!own, Div(Class("row foot"), v.button("user-lock", lock, "", "user", u.User, "disabled", to), v.button("user-remove-ask", v.t("Delete"), "danger", "user", u.User)))), nil
}

func (v *visit) userAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User string }](in)
	if err != nil {
		return nil, err
	}
	if x.User == "" {
		return v.dialog(v.t("Add a person"), Form(Data("do", "user-add"),
			Label(g.Text(v.t("Short name (letters and digits)")), Input(Name("user"), Required(), Pattern("[a-z][a-z0-9_\\-]*"), Title(v.t("Small letters and digits, beginning with a letter")), MaxLength("40"), AutoFocus(), AutoComplete("off"))),
			Label(g.Text(v.t("Name")), Input(Name("display"), MaxLength("100"), AutoComplete("off"))),
			Label(g.Text(v.t("Role")), v.roleSelect("member")), v.dialogButtons(v.t("Add")))), nil
	}
	u, err := v.api().User(v.ctx(), x.User)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Edit"), Form(Data("do", "user-save"), hiddenFields("user", u.User),
		Label(g.Text(v.t("Name")), Input(Name("display"), Value(u.Display), MaxLength("100"), AutoFocus())),
		Label(g.Text(v.t("Role")), v.roleSelect(strings.Join(u.Roles[:min(1, len(u.Roles))], ""))), v.dialogButtons(v.t("Save")))), nil
}

// userFields are what the forms about a user have.
type userFields struct{ User, Display, Role string }

func (v *visit) userAdd(in json.RawMessage) (*reply, error) {
	x, err := read[userFields](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().AddUser(v.ctx(), x.User, map[string]any{"display": x.Display, "roles": []string{x.Role}}); err != nil {
		return nil, atField(err, "user_exists", "user", "user_invalid", "user", "user_reserved", "user", "display_invalid", "display", "role_unknown", "role")
	}
	return &reply{Go: "/settings/people/" + x.User}, nil
}

func (v *visit) userSave(in json.RawMessage) (*reply, error) {
	x, err := read[userFields](in)
	if err != nil {
		return nil, err
	}
	u, err := v.api().User(v.ctx(), x.User)
	if err != nil {
		return nil, err
	}
	change := map[string]any{"display": x.Display}
	if len(u.Roles) == 0 || u.Roles[0] != x.Role { // several roles stay as they are unless another one is chosen
		change["roles"] = []string{x.Role}
	}
	_, err = v.api().SetUser(v.ctx(), x.User, change)
	return &reply{Go: "/settings/people/" + x.User}, err
}

func (v *visit) userLock(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User, Disabled string }](in)
	if err != nil {
		return nil, err
	}
	_, err = v.api().SetUser(v.ctx(), x.User, map[string]any{"disabled": x.Disabled == "true"})
	return &reply{Go: "/settings/people/" + x.User}, err
}

func (v *visit) userRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Delete?"), Form(Data("do", "user-remove"), hiddenFields("user", x.User),
		P(g.Text(v.t("{name} is deleted with all conversations, memory, keys and files. This cannot be undone.", x.User))),
		Label(g.Text(v.t("Type the short name to confirm")), Input(Name("confirm"), Required(), AutoComplete("off"))), v.dialogButtons(v.t("Delete")))), nil
}

func (v *visit) userRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User, Confirm string }](in)
	if err != nil {
		return nil, err
	}
	if x.User != x.Confirm {
		return nil, fault.New(fault.Invalid, "fields_invalid", "%s", v.t("The name is not the same.")).Detail("field", "confirm")
	}
	return &reply{Go: "/settings/people"}, v.api().DeleteUser(v.ctx(), x.User)
}

func (v *visit) keyAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("New key"), Form(Data("do", "key-add"), hiddenFields("user", x.User),
		Label(g.Text(v.t("What is it for?")), Input(Name("name"), MaxLength("100"), AutoFocus())),
		Label(g.Text(v.t("Expires")), Input(Type("date"), Name("expires"))), v.dialogButtons(v.t("Add")))), nil
}

func (v *visit) keyAdd(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ User, Name, Expires string }](in)
	if err != nil {
		return nil, err
	}
	var until time.Time
	if x.Expires != "" {
		if until, err = time.Parse(time.DateOnly, x.Expires); err != nil {
			return nil, fault.New(fault.Invalid, "time_invalid", "%.40q is not a day", x.Expires).Detail("field", "expires")
		}
	}
	k, err := v.api().CreateKey(v.ctx(), x.User, x.Name, until)
	if err != nil {
		return nil, err
	}
	return v.shownOnce(v.t("New key"), v.t("Copy the key now. Steward keeps only a hash of it and cannot show it again."), k.Secret), nil
}

func (v *visit) keyRevokeAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Revoke?"), Form(Data("do", "key-revoke"), hiddenFields("id", x.ID), P(g.Text(v.t("Programs that use the key {name} are refused at once.", x.Name))), v.dialogButtons(v.t("Revoke")))), nil
}

func (v *visit) keyRevoke(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), {ID: "key-" + x.ID}}}, v.api().RevokeKey(v.ctx(), x.ID)
}

func (v *visit) groupAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Add a group"), Form(Data("do", "group-add"),
		Label(g.Text(v.t("Short name (letters and digits)")), Input(Name("name"), Required(), Pattern("[a-z][a-z0-9_\\-]*"), Title(v.t("Small letters and digits, beginning with a letter")), MaxLength("40"), AutoFocus())),
		Label(g.Text(v.t("Name")), Input(Name("display"), MaxLength("100"))), v.dialogButtons(v.t("Add")))), nil
}

func (v *visit) groupAdd(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Name, Display string }](in)
	if err != nil {
		return nil, err
	}
	_, err = v.api().AddGroup(v.ctx(), client.NewGroup{Name: x.Name, Display: x.Display, Members: []string{v.caller.User}, Managers: []string{v.caller.User}})
	return &reply{Go: "/settings/people"}, atField(err, "group_exists", "name", "group_invalid", "name", "group_left", "name")
}

func (v *visit) groupJoin(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Group, User string
		Manages     bool
	}](in)
	if err != nil {
		return nil, err
	}
	_, err = v.api().JoinGroup(v.ctx(), x.Group, x.User, x.Manages)
	return &reply{Go: "/settings/people"}, err
}

func (v *visit) groupLeave(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Group, User string }](in)
	if err != nil {
		return nil, err
	}
	_, err = v.api().LeaveGroup(v.ctx(), x.Group, x.User)
	return &reply{Go: "/settings/people"}, err
}

func (v *visit) groupRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Group string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Delete?"), Form(Data("do", "group-remove"), hiddenFields("group", x.Group), P(g.Text(v.t("The group {name} is deleted. What its members shared is kept, but nobody reaches it until a group of this name is added again.", x.Group))), v.dialogButtons(v.t("Delete")))), nil
}

func (v *visit) groupRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Group string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/settings/people"}, v.api().RemoveGroup(v.ctx(), x.Group)
}
