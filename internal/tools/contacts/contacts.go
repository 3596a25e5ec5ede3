// Package contacts lets an agent look people up in address books on servers (CardDAV), and add and change
// them.
package contacts

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// Limits.
const (
	maxFound = 50
	timeout  = 90 * time.Second
)

// service holds the tools over the users' address books.
type service struct {
	accounts dav.Accounts
	place    local.Place // what is needed to settle and undo changes is kept beside it
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"part of the name, e-mail address, phone number, or company" minlen:"1" maxlen:"200"`
}

type facts struct {
	Emails   []local.Email `json:"emails,omitzero" jsonschema:"all e-mail addresses" maxlen:"20"`
	Phones   []string      `json:"phones,omitzero" jsonschema:"all phone numbers" maxlen:"20"`
	Birthday string        `json:"birthday,omitzero" jsonschema:"the birthday, such as 1980-05-02" format:"date"`
	Company  string        `json:"company,omitzero" jsonschema:"the company" maxlen:"200"`
	Note     string        `json:"note,omitzero" jsonschema:"what else is to be remembered" maxlen:"4000"`
}

type addArgs struct {
	Name string `json:"name" jsonschema:"the full name" minlen:"1" maxlen:"200"`
	facts
	Book string `json:"book,omitzero" jsonschema:"the address book, if there are several and it matters which" maxlen:"200"`
}

type editArgs struct {
	Contact string `json:"contact" jsonschema:"whom to change: the name, an e-mail address, or words of them" minlen:"1" maxlen:"200"`
	Name    string `json:"name,omitzero" jsonschema:"the new full name" maxlen:"200"`
	facts
}

// ownLabels are the labels of contacts: they are private, and address books may be shared with others.
const ownLabels = message.Private | message.Untrusted

// Add adds the tools to a kit.
func Add(k *local.Kit, place local.Place, accounts dav.Accounts) {
	s := &service{accounts, place}
	local.Share(k, accounts.List, dav.Account.Owner)
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("search")}}}
	local.Query(k, tool.Spec{Name: "search", Yields: ownLabels, Tidy: local.ReplacesEarlier("query"), Timeout: timeout,
		Description: "Looks a person up in the address book: e-mail addresses, phone numbers, birthday, company.",
		Log:         tool.LogSpec{Summary: "Look up {query} in the contacts"}}, s.search)
	local.Change(k, tool.Spec{Name: "add", Tidy: stale, Timeout: timeout,
		Description: "Adds a person to the address book.",
		Log:         tool.LogSpec{Summary: "Add {name} to the contacts", Does: changesContacts, Impact: []string{"name"}},
		Widths:      []tool.Width{{Name: "add any person[ to the address book {book}]", Any: []string{"name", "emails", "phones", "birthday", "company", "note"}}}}, s.of, s.add, tool.Text)
	local.Change(k, tool.Spec{Name: "edit", Yields: ownLabels, Tidy: stale, Timeout: timeout,
		Description: "Changes a person in the address book. What is given replaces what is there: give all e-mail addresses or phone numbers. What is not given stays.",
		Log:         tool.LogSpec{Summary: "Change the contact {contact}", Does: changesContacts, Impact: []string{"contact"}},
		Widths:      []tool.Width{{Name: "change anything about {contact}", Any: []string{"name", "emails", "phones", "birthday", "company", "note"}}}}, s.of, s.edit, tool.Text)
}

const changesContacts = "changes your address book"

func (s *service) of(_ context.Context, user string) (dav.Book, error) {
	return dav.Book{Accounts: s.accounts, User: user, Media: "text/vcard", Notes: s.place.For(user)}, nil
}

// find returns the contacts that have all words of a query. The server is asked for the longest word, in
// any of the properties; what it finds is checked here.
func (s *service) find(ctx context.Context, user, query string) (found []contact, problems []string, err error) {
	books, problems, err := s.accounts.Find(ctx, user, dav.Contacts, "")
	if err != nil {
		return nil, nil, err
	}
	word := ""
	for _, w := range strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;()", r) }) {
		if len(w) > len(word) {
			word = w
		}
	}
	for _, b := range books {
		list, err := b.Query(ctx, report(word, "FN", "NICKNAME", "EMAIL", "TEL", "ORG"))
		if fault.Is(err, fault.Unavailable) && ctx.Err() == nil { // Radicale 3.1 fails at properties that have several parts
			list, err = b.Query(ctx, report(word, "FN", "NICKNAME", "EMAIL", "TEL"))
		}
		if err != nil {
			return nil, nil, err
		}
		for _, o := range list {
			if c := read(o.Text); local.HasWords(c.words(), query) {
				c.book, c.object = b.Name, o
				found = append(found, c)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b contact) int { return cmp.Compare(a.name, b.name) })
	return found, problems, nil
}

// report asks for the contacts that have a word in one of some properties.
func report(word string, properties ...string) string {
	var filters strings.Builder
	for _, name := range properties {
		fmt.Fprintf(&filters, `<a:prop-filter name="%s"><a:text-match collation="i;unicode-casemap" match-type="contains">%s</a:text-match></a:prop-filter>`, name, html.EscapeString(dav.Plain(word)))
	}
	return `<a:addressbook-query xmlns:d="DAV:" xmlns:a="urn:ietf:params:xml:ns:carddav"><d:prop><d:getetag/><a:address-data/></d:prop><a:filter test="anyof">` + filters.String() + `</a:filter></a:addressbook-query>`
}

func (s *service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	found, problems, err := s.find(ctx, in.User, a.Query)
	if err != nil {
		return "", err
	}
	out := []string{local.List(found, maxFound, func(c contact) string { return "- " + c.shown() })}
	if len(found) == 0 {
		out = []string{fmt.Sprintf("No contact has %q.", a.Query)}
	}
	for _, p := range problems {
		out = append(out, "Note: "+p)
	}
	return strings.Join(out, "\n"), nil
}

// check checks what a schema does not enforce. Error codes: contact_invalid, time_invalid.
func (f facts) check() error {
	for _, e := range f.Emails {
		if at := strings.IndexByte(string(e), '@'); at < 1 || strings.ContainsAny(string(e), " \t\r\n") {
			return fault.New(fault.Invalid, "contact_invalid", "%.100q is not an e-mail address", string(e)).WithHint("write it like ann@example.com")
		}
	}
	_, err := local.ParseDay(f.Birthday, time.Now())
	return err
}

func (s *service) add(ctx context.Context, in tool.Invocation, a addArgs, b dav.Book) (string, error) {
	name := strings.Join(strings.Fields(a.Name), " ")
	if name == "" {
		return "", tool.NotDone(fault.New(fault.Invalid, "contact_invalid", "the contact has no name").WithHint("give the person's name"))
	}
	if err := a.check(); err != nil {
		return "", tool.NotDone(err)
	}
	books, _, err := s.accounts.Find(ctx, in.User, dav.Contacts, a.Book)
	if err != nil {
		return "", err
	}
	book, err := dav.ForNew(books)
	if err != nil {
		return "", err
	}
	uid := id.Derive("contact", local.Key(in)).String()
	return b.Do(ctx, local.Key(in), dav.Edit{Object: book.New(uid+".vcf", ""), After: changed("BEGIN:VCARD\r\nVERSION:3.0\r\nUID:"+uid+"\r\nEND:VCARD\r\n", name, a.facts),
		What: fmt.Sprintf("the contact %q", name), Reply: fmt.Sprintf("Added %q to %s.", name, book.Name)})
}

func (s *service) edit(ctx context.Context, in tool.Invocation, a editArgs, b dav.Book) (string, error) {
	if err := a.check(); err != nil {
		return "", tool.NotDone(err)
	}
	found, _, err := s.find(ctx, in.User, a.Contact)
	if err != nil {
		return "", tool.NotDone(err)
	}
	if i := slices.IndexFunc(found, func(c contact) bool { return strings.EqualFold(c.name, strings.TrimSpace(a.Contact)) }); i >= 0 {
		found = found[i : i+1]
	}
	c, err := local.ExactlyOne("contact", a.Contact, found, contact.shown)
	if err != nil {
		return "", err
	}
	return b.Do(ctx, local.Key(in), dav.Edit{Object: c.object, After: changed(c.object.Text, strings.Join(strings.Fields(a.Name), " "), a.facts),
		What: fmt.Sprintf("the contact %q", c.name), Reply: fmt.Sprintf("Changed the contact %q in %s.", c.name, c.book)})
}
