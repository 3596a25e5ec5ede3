package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-smtp"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/mailbox"
)

// client is a connection to an IMAP server.
type client struct {
	*mailbox.Client
	account Account
	folders []*imap.ListData
}

func (o Options) dialer() mailbox.Dialer { return mailbox.Dialer{Dial: o.Dial, Roots: o.Roots} }

// open connects to an account's IMAP server, logs in and lists the folders.
func (s *service) open(ctx context.Context, a Account) (*client, error) {
	conn, err := s.dialer().IMAP(ctx, a, s.arrived)
	if err != nil {
		return nil, tool.NotDone(err)
	}
	c := &client{Client: conn, account: a}
	c.folders, err = c.List("", "*", &imap.ListOptions{ReturnSpecialUse: c.Caps().Has(imap.CapSpecialUse)}).Collect()
	if err != nil {
		c.close()
		return nil, tool.NotDone(broken(ctx, a, err))
	}
	return c, nil
}

func (c *client) close() { c.Client.Close() }

// submit connects to an account's SMTP server and logs in.
func (s *service) submit(ctx context.Context, a Account) (*smtp.Client, error) {
	return s.dialer().SMTP(ctx, a)
}

// broken is the coded error of a connection.
func broken(ctx context.Context, a Account, err error) error { return mailbox.Broken(ctx, a, err) }

// specialFolders are the folders with a special use (RFC 6154), with names that servers without that
// extension give them.
var specialFolders = map[string]struct {
	attr  imap.MailboxAttr
	names []string
}{
	"sent":    {imap.MailboxAttrSent, []string{"Sent", "Sent Items", "Sent Messages"}},
	"drafts":  {imap.MailboxAttrDrafts, []string{"Drafts"}},
	"trash":   {imap.MailboxAttrTrash, []string{"Trash", "Deleted Items", "Deleted Messages"}},
	"junk":    {imap.MailboxAttrJunk, []string{"Junk", "Spam", "Junk Email"}},
	"archive": {imap.MailboxAttrArchive, []string{"Archive", "Archives"}},
	"all":     {imap.MailboxAttrAll, nil},
}

// folder returns a folder by its use or its name. Error code: mail_folder_unknown.
func (c *client) folder(name string) (string, error) {
	if name == "" || strings.EqualFold(name, "inbox") {
		return "INBOX", nil
	}
	use, special := specialFolders[strings.ToLower(name)]
	for _, f := range c.folders {
		if special && slices.Contains(f.Attrs, use.attr) || f.Mailbox == name {
			return f.Mailbox, nil
		}
	}
	if strings.EqualFold(name, "archive") { // Gmail: what is archived is in All Mail only
		use.names = append(use.names, "[Gmail]/All Mail")
	}
	for _, f := range c.folders {
		base := f.Mailbox[strings.LastIndexByte(f.Mailbox, byte(f.Delim))+1:]
		if slices.Contains(use.names, base) || slices.Contains(use.names, f.Mailbox) || strings.EqualFold(f.Mailbox, name) {
			return f.Mailbox, nil
		}
	}
	var names []string
	for _, f := range c.folders[:min(len(c.folders), 50)] {
		names = append(names, oneLine(f.Mailbox))
	}
	return "", tool.NotDone(fault.New(fault.NotFound, "mail_folder_unknown", "there is no folder %.100q", name).WithHint("the folders are %s", strings.Join(names, ", ")))
}

// place is where an e-mail is. Its text is the id that a model sees.
type place struct {
	account  string
	validity uint32 // of the folder's UIDs
	uid      imap.UID
	folder   string
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d-%d/%s", p.account, p.validity, p.uid, p.folder)
}

// parsePlace reads an id. Error code: mail_id_invalid.
func parsePlace(id string) (p place, err error) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) == 3 {
		v, u, _ := strings.Cut(parts[1], "-")
		validity, verr := strconv.ParseUint(v, 10, 32)
		uid, uerr := strconv.ParseUint(u, 10, 32)
		if verr == nil && uerr == nil && uid > 0 && parts[2] != "" {
			return place{parts[0], uint32(validity), imap.UID(uid), parts[2]}, nil
		}
	}
	return p, tool.NotDone(fault.New(fault.Invalid, "mail_id_invalid", "%.100q is not an e-mail id", id).WithHint("search first, and give the id that is shown"))
}

// connect opens one of a user's accounts.
func (s *service) connect(ctx context.Context, user, account string) (*client, error) {
	a, err := s.account(ctx, user, account)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, a)
}

// at opens the account and the folder of an e-mail.
func (s *service) at(ctx context.Context, user, id string, change bool) (*client, place, error) {
	p, err := parsePlace(id)
	if err != nil {
		return nil, p, err
	}
	c, err := s.connect(ctx, user, p.account)
	if err != nil {
		return nil, p, err
	}
	sel, err := c.Select(p.folder, &imap.SelectOptions{ReadOnly: !change}).Wait()
	if err == nil && sel.UIDValidity == p.validity {
		return c, p, nil
	}
	c.close()
	if no := (*imap.Error)(nil); err != nil && !errors.As(err, &no) {
		return nil, p, tool.NotDone(broken(ctx, c.account, err))
	}
	return nil, p, tool.NotDone(missing(p))
}

func missing(p place) error {
	return fault.New(fault.NotFound, "mail_not_found", "the e-mail %s no longer exists", p).WithHint("search for it again: it may have been moved")
}
