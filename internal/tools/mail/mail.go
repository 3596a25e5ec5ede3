// Package mail lets an agent read and send e-mail through a person's own accounts, over IMAP
// (RFC 9051, RFC 3501) and SMTP (RFC 6409). Each call makes its own connection and closes it.
package mail

import (
	"cmp"
	"context"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"time"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/internal/tools/mailbox"
)

// Limits.
const (
	maxMessage = 25 << 20 // bytes of an e-mail
	maxFound   = 1000     // e-mails of a search that can be paged through
	pageSize   = 20
	timeout    = 90 * time.Second
)

// Account is a mailbox, and TLS says how its connections are encrypted.
type (
	Account = mailbox.Account
	TLS     = mailbox.TLS
)

// The ways to encrypt.
const (
	Implicit = mailbox.Implicit
	StartTLS = mailbox.StartTLS
	NoTLS    = mailbox.NoTLS
)

// Options configure the tools. Dial is required.
type Options struct {
	local.Options
	Accounts []Account
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Roots    *x509.CertPool // nil: the system's
	Reader   extract.Reader
	Groups   func(ctx context.Context, user string) ([]string, error) // nil: users have no groups
}

// service holds the tools.
type service struct {
	Options
	notes   local.Place // a folder for each user, with what is needed to settle and undo actions
	arrived func()      // is called when a server says that there are other e-mails; nil: nothing waits for it
}

// ownLabels are the labels of what others may have written to the user.
const ownLabels = message.Private | message.Untrusted

type searchArgs struct {
	Account string `json:"account,omitzero" jsonschema:"the account; needed only if there are several" maxlen:"64"`
	Folder  string `json:"folder,omitzero" jsonschema:"inbox unless given; sent, drafts, trash, junk, archive, all, or the name of a folder" maxlen:"200"`
	From    string `json:"from,omitzero" jsonschema:"part of the sender's name or address" maxlen:"200"`
	To      string `json:"to,omitzero" jsonschema:"part of a recipient's name or address" maxlen:"200"`
	Subject string `json:"subject,omitzero" jsonschema:"part of the subject" maxlen:"200"`
	Text    string `json:"text,omitzero" jsonschema:"words in headers or text" maxlen:"200"`
	Since   string `json:"since,omitzero" jsonschema:"first day, such as 2026-03-29" format:"date"`
	Before  string `json:"before,omitzero" jsonschema:"day after the last one" format:"date"`
	Label   string `json:"label,omitzero" jsonschema:"only e-mails with this label, or flagged, read or answered ones" maxlen:"50"`
	Unread  bool   `json:"unread,omitzero" jsonschema:"only e-mails that are unread"`
	Page    int    `json:"page,omitzero" jsonschema:"1 is the newest; 20 e-mails a page" min:"1" max:"50"`
}

type idArgs struct {
	ID string `json:"id" jsonschema:"the e-mail's id, as a search shows it" minlen:"5" maxlen:"300"`
}

type attachmentArgs struct {
	idArgs
	Number int `json:"number" jsonschema:"of the attachment, as mail.read shows it" min:"1" max:"200"`
}

type writeArgs struct {
	Account string        `json:"account,omitzero" jsonschema:"the account; needed only if there are several" maxlen:"64"`
	To      []local.Email `json:"to" jsonschema:"the recipients' e-mail addresses" minlen:"1" maxlen:"50"`
	Cc      []local.Email `json:"cc,omitzero" jsonschema:"who gets a copy" maxlen:"50"`
	Bcc     []local.Email `json:"bcc,omitzero" jsonschema:"who gets a copy that the others do not see" maxlen:"50"`
	Subject string        `json:"subject" jsonschema:"the subject line" minlen:"1" maxlen:"200"`
	Body    string        `json:"body" jsonschema:"the text of the e-mail" minlen:"1" maxlen:"100000"`
}

type replyArgs struct {
	ID   string        `json:"id" jsonschema:"the id of the e-mail that is answered" minlen:"5" maxlen:"300"`
	To   []local.Email `json:"to" jsonschema:"whom to answer: the address that mail.read shows under Reply to" minlen:"1" maxlen:"50"`
	Cc   []local.Email `json:"cc,omitzero" jsonschema:"who gets a copy" maxlen:"50"`
	Body string        `json:"body" jsonschema:"the answer, without the text that is quoted" minlen:"1" maxlen:"100000"`
}

type moveArgs struct {
	idArgs
	Folder string `json:"folder" jsonschema:"inbox, archive, junk, or the name of a folder" minlen:"1" maxlen:"200"`
}

type flagArgs struct {
	idArgs
	Add    []string `json:"add,omitzero" jsonschema:"read, flagged, answered, or a label of one word" maxlen:"10"`
	Remove []string `json:"remove,omitzero" jsonschema:"the same, to be taken away" maxlen:"10"`
}

// Add adds the tools to a kit. notes is where what is needed to undo actions is kept.
func Add(k *local.Kit, notes local.Place, opt Options) {
	s := &service{Options: opt, notes: notes}
	local.Share(k, opt.Accounts, owner)
	seen := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("search")}}}
	query := func(name, what, log string, again ...string) tool.Spec {
		return tool.Spec{Name: name, Description: what, Yields: ownLabels, Reach: tool.ReachHere, Timeout: timeout, Tidy: local.ReplacesEarlier(again...), Log: tool.LogSpec{Summary: log}}
	}
	action := func(name, what, log, width string, open ...string) tool.Spec {
		return tool.Spec{Name: name, Description: what, Yields: ownLabels, Timeout: timeout, Tidy: seen, Log: tool.LogSpec{Summary: log, Does: "changes your mailbox"},
			Widths: []tool.Width{{Name: width, Any: open}}}
	}
	sends := func(spec tool.Spec, targets ...string) tool.Spec {
		spec.Reach, spec.Targets = tool.ReachOut, targets
		spec.Log.Impact, spec.Log.Does = targets, "sends an e-mail"
		return spec
	}
	local.Query(k, query("search", "Finds e-mails, newest first: sender, subject, date and id of each. Without conditions it lists the inbox.", "Search the e-mails in the folder {folder|inbox}",
		"account", "folder", "from", "to", "subject", "text", "since", "before", "label", "unread", "page"), s.search)
	local.Query(k, query("read", "Reads an e-mail: its text, who sent it, whom to answer, and its attachments. It stays unread.", "Read an e-mail", "id"), s.read)
	local.Query(k, query("thread", "Shows the conversation that an e-mail belongs to, oldest first, with the beginning of each text.", "Read the conversation of an e-mail", "id"), s.thread)
	local.Query(k, query("attachment", "Reads an attachment of an e-mail: the text of a document, or a picture.", "Read attachment {number} of an e-mail", "id", "number"), s.attachment)
	draft := action("draft", "Writes an e-mail into the drafts folder. It is not sent.", "Draft an e-mail to {to}: {subject}",
		"draft any e-mail", "to", "cc", "bcc", "subject", "body")
	draft.Dedupes = true
	local.Action(k, draft, s.draft, s.wasDrafted)
	local.Action(k, sends(action("send", "Sends an e-mail. If only a name is known, search for e-mails from that person to find the address; do not guess it.", "Send an e-mail to {to}[, copies to {cc}][, hidden copies to {bcc}]: {subject}",
		"send any e-mail to {to}[, copies to {cc}][, hidden copies to {bcc}]", "subject", "body"), "to", "cc", "bcc"), sending(s, s.compose), s.wasDrafted)
	local.Action(k, sends(action("reply", "Answers an e-mail: the answer belongs to its conversation and quotes it.", "Send an answer to {to}[, copies to {cc}]",
		"send any answer to {to}[, copies to {cc}]", "id", "body"), "to", "cc"), sending(s, s.answer), s.wasDrafted)
	local.Change(k, action("flag", "Marks an e-mail as read, flagged or answered, or with a label, or takes that away.", "Change the marks of an e-mail: add {add|none}, remove {remove|none}",
		"change the marks of any e-mail like this", "id"), s.of, s.flag, tool.Text)
	to := func(folder string) func(context.Context, tool.Invocation, idArgs, changes) (string, error) {
		return func(ctx context.Context, in tool.Invocation, a idArgs, by changes) (string, error) {
			return by.move(ctx, in, moveArgs{a, folder})
		}
	}
	local.Change(k, action("archive", "Moves an e-mail to the archive.", "Archive an e-mail", "archive any e-mail", "id"), s.of, to("archive"), tool.Text)
	local.Change(k, action("move", "Moves an e-mail to another folder.", "Move an e-mail to the folder {folder}",
		"move any e-mail to the folder {folder}", "id"), s.of,
		func(ctx context.Context, in tool.Invocation, a moveArgs, by changes) (string, error) {
			return by.move(ctx, in, a)
		}, tool.Text)
	local.Change(k, action("delete", "Moves an e-mail to the trash. Nothing is deleted for good.", "Move an e-mail to the trash",
		"move any e-mail to the trash", "id"), s.of, to("trash"), tool.Text)
}

// account returns a user's account by its name, or the only one.
func (s *service) account(ctx context.Context, user, name string) (Account, error) {
	own, err := local.Own(ctx, user, s.Groups, s.Accounts, owner)
	if err != nil {
		return Account{}, err
	}
	var names []string
	for _, a := range own {
		if a.Name == name || name == "" && len(own) == 1 {
			return a, nil
		}
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return Account{}, fault.New(fault.NotFound, "mail_account_unknown", "unknown account %.100q", name).
		WithHint("the accounts are %s", cmp.Or(strings.Join(names, ", "), "none"))
}

func owner(a Account) *tool.Audience { return a.For }

// Check connects to the servers of an account, and finds out whether they let Steward in.
func (o Options) Check(ctx context.Context, a Account) error {
	s := &service{Options: o}
	c, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer c.close()
	if a.SMTP == "" {
		return nil
	}
	out, err := s.submit(ctx, a)
	if err != nil {
		return err
	}
	return out.Close()
}
