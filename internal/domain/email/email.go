// Package email lets an agent read and send e-mail. A Mailer is where the
// mail is; the local stand-in keeps it as .eml files in two folders.
package email

import (
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

// Header is what a list shows of an e-mail.
type Header struct {
	ID      string // within the mailbox
	Folder  string
	From    string
	To      []string
	Cc      []string
	Subject string
	Date    time.Time // zero: it has none that can be read
	Problem string    // why the e-mail cannot be read, or empty
}

// Email is a whole e-mail. Text is its text, of HTML what it says.
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

// Mailer is a mailbox of a user. Safe for concurrent use.
type Mailer interface {
	// List returns a folder's e-mails, newest first, at most limit.
	List(ctx context.Context, folder string, limit int) ([]Header, error)
	// Read returns one by its ID (email_not_found).
	Read(ctx context.Context, id string) (Email, error)
	// Search returns the e-mails of both folders that have all the words, in
	// their heads or texts, newest first, at most limit.
	Search(ctx context.Context, query string, limit int) ([]Header, error)
	// Send sends a draft, once for each key: repeated, it does nothing.
	Send(ctx context.Context, key string, d Draft) error
	// Sent reports whether something was sent under the key.
	Sent(ctx context.Context, key string) (bool, error)
}

// Options configure the local stand-in. The zero value works.
type Options struct {
	Now  func() time.Time                      // nil: time.Now
	Zone func(user string) *time.Location      // of a user, for dates; nil, or a nil answer: UTC
	Open func(user string) (Mailer, error)     // a real service in place of the folders; nil: the folders
	From func(user string) (name, addr string) // who sends, where the declaration says nothing; nil: the user's name at localhost
}

// declaration is what agent.yaml says.
type declaration struct {
	local.Declared `yaml:",inline"`
	Inbox          string `yaml:"inbox"`  // folder of .eml files that came
	Outbox         string `yaml:"outbox"` // folder in which what is sent lands
	From           string `yaml:"from"`   // "Name <address>"
}

// Opener makes the source: e-mail in folders.
func Opener(opt Options) tool.Opener {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		in, err := local.NewPlace(env, d.Inbox, Inbox)
		if err != nil {
			return nil, err
		}
		out, err := local.NewPlace(env, d.Outbox, Outbox)
		if err != nil {
			return nil, err
		}
		var from *mail.Address
		if d.From != "" {
			if from, err = mail.ParseAddress(d.From); err != nil {
				return nil, fault.New(fault.Invalid, "email_address_invalid", "from: %.100q is no e-mail address", d.From).
					With("write it like Ann Example <ann@example.com>")
			}
		}
		open := opt.Open
		if open == nil {
			open = func(user string) (Mailer, error) {
				sender := from
				if sender == nil {
					sender = opt.sender(user)
				}
				return &folders{inbox: in.For(user), outbox: out.For(user), from: sender, now: opt.Now}, nil
			}
		}
		return tools(env, d, opt, open)
	}
}

// sender is who sends where nothing says it.
func (o Options) sender(user string) *mail.Address {
	if o.From != nil {
		if name, addr := o.From(user); addr != "" {
			return &mail.Address{Name: name, Address: addr}
		}
	}
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

// tools are the tools over the users' mailboxes.
func tools(env tool.Env, d declaration, opt Options, open func(user string) (Mailer, error)) (tool.Source, error) {
	k := local.NewKit(env, Kind)
	if err := k.Deliver(d.Declared, d.Inbox, d.Outbox); err != nil {
		return nil, err
	}
	again := func(names ...string) []tool.Strategy {
		return []tool.Strategy{{Kind: tool.ByParameters, Parameters: names}}
	}
	zone := func(user string) *time.Location {
		if opt.Zone != nil {
			if z := opt.Zone(user); z != nil {
				return z
			}
		}
		return time.UTC
	}
	local.Query(k, tool.Spec{Name: "list", Yields: mine, Tidy: again("folder", "limit"),
		Description: "Lists e-mails, newest first: what mail came into the inbox, or what was sent. Shows sender, subject, date and id of each.",
		Log:         tool.LogSpec{Summary: "List the e-mails of the {folder|inbox}"}},
		func(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
			m, err := open(in.User)
			if err != nil {
				return "", err
			}
			folder := a.Folder
			if folder == "" {
				folder = Inbox
			}
			list, err := m.List(ctx, folder, limitOf(a.Limit))
			return table(list, "The "+folder+" is empty.", zone(in.User)), err
		})
	local.Query(k, tool.Spec{Name: "read", Yields: mine, Tidy: again("id"),
		Description: "Reads one e-mail: opens it and shows its whole text, who sent it, and its attachments.",
		Log:         tool.LogSpec{Summary: "Read the e-mail {id}"}},
		func(ctx context.Context, in tool.Invocation, a readArgs) (string, error) {
			m, err := open(in.User)
			if err != nil {
				return "", err
			}
			e, err := find(ctx, m, a.ID)
			if err != nil {
				return "", err
			}
			return e.shown(zone(in.User)), nil
		})
	local.Query(k, tool.Spec{Name: "search", Yields: mine, Tidy: again("query", "limit"),
		Description: "Searches the e-mails that came and that were sent for words: finds mail from somebody or about something.",
		Log:         tool.LogSpec{Summary: "Search the e-mails for {query}"}},
		func(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
			m, err := open(in.User)
			if err != nil {
				return "", err
			}
			list, err := m.Search(ctx, a.Query, limitOf(a.Limit))
			return table(list, fmt.Sprintf("No e-mail has %q.", a.Query), zone(in.User)), err
		})
	sender(k, open)
	return k.Source()
}

// sender adds the tool that sends.
func sender(k *local.Kit, open func(user string) (Mailer, error)) {
	local.Action(k, tool.Spec{Name: "send", Reach: tool.ReachOut, Targets: []string{"to", "cc"},
		Description: "Sends an e-mail: writes a mail with a subject and a text to one or more addresses.",
		Log:         tool.LogSpec{Summary: "Send an e-mail to {to}: {subject}", Parameters: []string{"to", "cc", "subject"}, Impact: []string{"to", "cc"}},
		Tidy:        []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("search")}}}},
		func(ctx context.Context, in tool.Invocation, a sendArgs) (string, error) {
			d, err := a.draft()
			if err != nil {
				return "", err
			}
			m, err := open(in.User)
			if err != nil {
				return "", tool.NotDone(err)
			}
			if err := m.Send(ctx, local.Key(in), d); err != nil {
				return "", err
			}
			return a.told(), nil
		},
		func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
			m, err := open(in.User)
			if err != nil {
				return false, tool.Result{}, err
			}
			sent, err := m.Sent(ctx, local.Key(in))
			if err != nil || !sent {
				return false, tool.Result{}, err
			}
			return true, tool.Text("The e-mail was sent."), nil
		})
	k.Undo("send", local.Reverted(open))
}

func (a sendArgs) told() string {
	var to []string
	for _, r := range append(a.To[:len(a.To):len(a.To)], a.Cc...) {
		to = append(to, string(r))
	}
	return fmt.Sprintf("Sent the e-mail %q to %s.", a.Subject, strings.Join(to, ", "))
}

// draft checks the addresses. Errors: Invalid, email_address_invalid.
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
					With("write it like ann@example.com")
			}
			*list.to = append(*list.to, addr)
		}
	}
	if d.Subject == "" {
		return d, fault.New(fault.Invalid, "email_subject_missing", "the e-mail has no subject").With("say what it is about")
	}
	return d, nil
}

func limitOf(n int) int {
	if n == 0 {
		return listed
	}
	return n
}

// find reads an e-mail by its id, or the only one that words point at.
func find(ctx context.Context, m Mailer, id string) (Email, error) {
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
		return e, fault.New(fault.Conflict, "email_ambiguous", "several e-mails have %.100q", id).With("say which by its id:\n%s", table(list, "", time.UTC))
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
