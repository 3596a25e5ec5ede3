// Package email lets an agent read and send e-mail, which is kept as .eml files
// in two folders.
package email

import (
	"cmp"
	"context"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:email"

// The folders of a mailbox.
const (
	Inbox  = "inbox"
	Outbox = "outbox"
)

// Header is the part of an e-mail that lists show.
type Header struct {
	ID      string // within the mailbox
	Folder  string
	From    string
	To      []string
	Cc      []string
	Subject string
	Date    time.Time // zero if there is no valid one
	Problem string    // why the e-mail cannot be read, or empty
}

// Email is a whole e-mail. Text is its text, converted from HTML if necessary.
type Email struct {
	Header
	Text        string
	Attachments []string // name, type and size of each
}

// Draft is an e-mail to be sent.
type Draft struct {
	To, Cc  []*mail.Address
	Subject string
	Body    string
}

// Options configure the source. The zero value works.
type Options = local.Options

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Declared `yaml:",inline"`
	Inbox          string `yaml:"inbox"`  // folder of .eml files
	Outbox         string `yaml:"outbox"` // folder for sent e-mails
	From           string `yaml:"from"`   // "Name <address>"
}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		s := &service{Options: opt}
		var err error
		if s.inbox, err = local.NewPlace(env, d.Inbox, Inbox); err != nil {
			return nil, err
		}
		if s.outbox, err = local.NewPlace(env, d.Outbox, Outbox); err != nil {
			return nil, err
		}
		if d.From != "" {
			if s.from, err = mail.ParseAddress(d.From); err != nil {
				return nil, fault.New(fault.Invalid, "email_address_invalid", "from: %.100q is no e-mail address", d.From).
					WithHint("write it like Ann Example <ann@example.com>")
			}
		}
		k := local.NewKit(env, Kind)
		if err := k.Deliver(d.Declared, d.Inbox, d.Outbox); err != nil {
			return nil, err
		}
		return s.source(k)
	}
}

// service holds the tools over the users' mailboxes.
type service struct {
	Options
	inbox, outbox local.Place
	from          *mail.Address // nil: the user's name at localhost
}

// of returns the mailbox of a user.
func (s *service) of(user string) *folders {
	from := s.from
	if from == nil {
		from = sender(user)
	}
	return &folders{inbox: s.inbox.For(user), outbox: s.outbox.For(user), from: from, now: s.Time}
}

// sender returns the sender if the declaration names none.
func sender(user string) *mail.Address {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, user)
	if strings.Trim(word, "-") == "" {
		word = "user"
	}
	return &mail.Address{Name: user, Address: word + "@localhost"}
}

type listArgs struct {
	Folder string `json:"folder,omitzero" jsonschema:"inbox: what came; outbox: what was sent; the inbox unless given" enum:"inbox,outbox"`
	Limit  int    `json:"limit,omitzero" jsonschema:"how many at most; 20 unless given" min:"1" max:"100"`
}

type readArgs struct {
	ID string `json:"id" jsonschema:"the e-mail's id, as the list or a search shows it; or words of its subject or sender" minlen:"1" maxlen:"200"`
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"words to look for in senders, recipients, subjects and texts" minlen:"1" maxlen:"200"`
	Limit int    `json:"limit,omitzero" jsonschema:"how many at most; 20 unless given" min:"1" max:"100"`
}

type sendArgs struct {
	To      []address `json:"to" jsonschema:"the recipients' e-mail addresses" minlen:"1" maxlen:"50"`
	Cc      []address `json:"cc,omitzero" jsonschema:"who gets a copy" maxlen:"50"`
	Subject string    `json:"subject" jsonschema:"the subject line" minlen:"1" maxlen:"200"`
	Body    string    `json:"body" jsonschema:"what the e-mail says: its text, as it is to be read" minlen:"1" maxlen:"100000"`
}

// address is an e-mail address.
type address string

// JSONSchema gives the schema of an address.
func (address) JSONSchema() string {
	return `{"type":"string","format":"email","minLength":3,"maxLength":254}`
}

const (
	listed = 20 // e-mails unless a limit is given
	mine   = message.Private | message.Untrusted
)

func (s *service) source(k *local.Kit) (tool.Source, error) {
	local.Query(k, tool.Spec{Name: "list", Yields: mine, Tidy: local.Again("folder", "limit"),
		Description: "Lists e-mails, newest first: what mail came into the inbox, or what was sent. Shows sender, subject, date and id of each.",
		Log:         tool.LogSpec{Summary: "List the e-mails of the {folder|inbox}"}}, s.list)
	local.Query(k, tool.Spec{Name: "read", Yields: mine, Tidy: local.Again("id"),
		Description: "Reads one e-mail: opens it and shows its whole text, who sent it, and its attachments.",
		Log:         tool.LogSpec{Summary: "Read the e-mail {id}"}}, s.read)
	local.Query(k, tool.Spec{Name: "search", Yields: mine, Tidy: local.Again("query", "limit"),
		Description: "Searches the e-mails that came and that were sent for words: finds mail from somebody or about something.",
		Log:         tool.LogSpec{Summary: "Search the e-mails for {query}"}}, s.search)
	local.Action(k, tool.Spec{Name: "send", Reach: tool.ReachOut, Targets: []string{"to", "cc"},
		Description: "Sends an e-mail: writes a mail with a subject and a text to one or more addresses.",
		Log:         tool.LogSpec{Summary: "Send an e-mail to {to}: {subject}", Parameters: []string{"to", "cc", "subject"}, Impact: []string{"to", "cc"}},
		Tidy:        []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("search")}}}}, s.send, local.Settled(s.of))
	local.Undo(k, "send", s.of)
	return k.Source()
}

func (s *service) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	folder := cmp.Or(a.Folder, Inbox)
	list, err := s.of(in.User).List(ctx, folder, cmp.Or(a.Limit, listed))
	return table(list, "The "+folder+" is empty.", s.Location(in.User)), err
}

func (s *service) read(ctx context.Context, in tool.Invocation, a readArgs) (string, error) {
	e, err := find(ctx, s.of(in.User), a.ID)
	if err != nil {
		return "", err
	}
	return e.shown(s.Location(in.User)), nil
}

func (s *service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	list, err := s.of(in.User).Search(ctx, a.Query, cmp.Or(a.Limit, listed))
	return table(list, fmt.Sprintf("No e-mail has %q.", a.Query), s.Location(in.User)), err
}

func (s *service) send(ctx context.Context, in tool.Invocation, a sendArgs) (string, error) {
	d, err := a.draft()
	if err != nil {
		return "", err
	}
	if err := s.of(in.User).Send(ctx, local.Key(in), d); err != nil {
		return "", err
	}
	return a.told(), nil
}

func (a sendArgs) told() string {
	var to []string
	for _, r := range append(a.To[:len(a.To):len(a.To)], a.Cc...) {
		to = append(to, string(r))
	}
	return fmt.Sprintf("Sent the e-mail %q to %s.", a.Subject, strings.Join(to, ", "))
}

// draft returns the e-mail to send. Error codes: email_address_invalid, email_subject_missing.
func (a sendArgs) draft() (Draft, error) {
	d := Draft{Subject: strings.Join(strings.Fields(a.Subject), " "), Body: a.Body}
	for _, list := range []struct {
		from []address
		to   *[]*mail.Address
	}{{a.To, &d.To}, {a.Cc, &d.Cc}} {
		for _, text := range list.from {
			addr, err := mail.ParseAddress(string(text))
			if err != nil || strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' }) {
				return d, fault.New(fault.Invalid, "email_address_invalid", "%.100q is no e-mail address", string(text)).
					WithHint("write it like ann@example.com")
			}
			*list.to = append(*list.to, addr)
		}
	}
	if d.Subject == "" {
		return d, fault.New(fault.Invalid, "email_subject_missing", "the e-mail has no subject").WithHint("say what it is about")
	}
	return d, nil
}

// find reads an e-mail by its id, or the only one that has the words.
func find(ctx context.Context, m *folders, id string) (Email, error) {
	e, err := m.Read(ctx, id)
	if err == nil || !fault.HasCode(err, "email_not_found") {
		return e, err
	}
	list, searchErr := m.Search(ctx, id, 6)
	switch {
	case searchErr != nil:
		return e, searchErr
	case len(list) == 1:
		return m.Read(ctx, list[0].ID)
	case len(list) > 1:
		return e, fault.New(fault.Conflict, "email_ambiguous", "several e-mails have %.100q", id).WithHint("say which by its id:\n%s", table(list, "", time.UTC))
	}
	return e, err
}

func table(list []Header, none string, zone *time.Location) string {
	if len(list) == 0 {
		return none
	}
	var b strings.Builder
	for _, h := range list {
		if h.Problem != "" && h.From == "" && h.Subject == "" {
			fmt.Fprintf(&b, "- %s: cannot be read: %s\n", h.ID, h.Problem)
			continue
		}
		who := "from " + h.From
		if h.Folder == Outbox {
			who = "to " + strings.Join(append(h.To[:len(h.To):len(h.To)], h.Cc...), ", ")
		}
		fmt.Fprintf(&b, "- %s, %q, %s (id %s)\n", who, h.Subject, stamp(h.Date, zone), h.ID)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func stamp(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "without a date"
	}
	return t.In(zone).Format("Mon 2 Jan 2006 15:04")
}

func (e Email) shown(zone *time.Location) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	line("From", e.From)
	line("To", strings.Join(e.To, ", "))
	line("Cc", strings.Join(e.Cc, ", "))
	line("Subject", e.Subject)
	line("Date", stamp(e.Date, zone))
	line("Attachments", strings.Join(e.Attachments, ", "))
	line("Problem", e.Problem)
	b.WriteString("\n" + strings.TrimSpace(e.Text))
	return b.String()
}
