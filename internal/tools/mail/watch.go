package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tools/local"
)

// Limits of a watched mailbox.
const (
	maxNews   = 50               // new e-mails that are reported at once; the newest ones
	firstWait = time.Second      // before a lost connection is made again; doubled each time
	longWait  = 5 * time.Minute  // at most
	renewal   = 15 * time.Minute // of IDLE, which also finds out whether the connection is dead
)

// Letter is an e-mail that has arrived.
type Letter struct {
	Account string    `json:"account"`
	ID      string    `json:"id"` // as the tools take it
	From    string    `json:"from"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"`
	Notice  bool      `json:"notice,omitzero"` // Steward sent it with Notify
}

// Mark keeps which e-mails of an account were reported.
type Mark interface {
	Load(ctx context.Context) ([]byte, error) // nil: there is none yet
	Save(ctx context.Context, mark []byte) error
}

// FileMark is a mark in a file with this path.
type FileMark string

// Load implements Mark.
func (f FileMark) Load(context.Context) ([]byte, error) { return local.ReadFile(string(f), 100) }

// Save implements Mark.
func (f FileMark) Save(_ context.Context, mark []byte) error {
	if err := local.Replace(string(f), mark); err != nil {
		return local.Fault("the mark of what is read", err)
	}
	return nil
}

// Watch notices new e-mails in an account's inbox, until ctx ends. It does not poll: the server tells
// (IDLE, RFC 2177). report gets them oldest first. mark keeps which ones it has got, so that it
// gets what arrives while Steward does not run, and gets again what it has returned an error for. Without
// a mark, all existing e-mails count as reported.
func (o Options) Watch(ctx context.Context, a Account, mark Mark, log *slog.Logger, report func(context.Context, []Letter) error) {
	s := &service{Options: o}
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, longWait) {
		began := time.Now()
		err := s.watch(ctx, a, mark, report)
		if time.Since(began) > longWait { // a server that hangs up at once is not asked each second
			wait = firstWait
		}
		if ctx.Err() == nil {
			log.Warn("new mail is not detected for now", "account", a.Name, "again_in", wait, "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// watch watches over one connection, until it breaks.
func (s *service) watch(ctx context.Context, a Account, mark Mark, report func(context.Context, []Letter) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(timeout, cancel) // of what is asked in between
	defer limit.Stop()
	arrived := make(chan struct{}, 1)
	s.arrived = func() {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
	c, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer c.close()
	sel, err := c.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return broken(ctx, a, err)
	}
	if !c.Caps().Has(imap.CapIdle) || sel.UIDNext == 0 {
		return fault.New(fault.Unsupported, "mail_idle_unsupported", "the mail server of %s does not announce new e-mails (IDLE)", a.Name).WithHint("set mail.%s.new: ignore", a.Name)
	}
	last, err := marked(ctx, mark, sel)
	if err != nil {
		return err
	}
	for {
		news, err := c.arrivedAfter(last)
		if err != nil {
			return broken(ctx, a, err)
		}
		if len(news) > 0 {
			if err := report(ctx, news); err != nil {
				return err
			}
			p, err := parsePlace(news[len(news)-1].ID)
			if err != nil {
				return err
			}
			last = p
		}
		if err := mark.Save(ctx, fmt.Appendf(nil, "%d %d", last.validity, last.uid)); err != nil {
			return err
		}
		idle, err := c.Idle()
		if err != nil {
			return broken(ctx, a, err)
		}
		limit.Stop()
		select {
		case <-arrived:
		case <-time.After(renewal):
		case <-c.Closed():
		case <-ctx.Done():
		}
		limit.Reset(timeout)
		if err := errors.Join(idle.Close(), idle.Wait()); err != nil {
			return broken(ctx, a, err)
		}
	}
}

// marked returns the last e-mail that was reported. Older e-mails at the first start count as reported, and
// so do those from before the server renumbered its e-mails.
func marked(ctx context.Context, mark Mark, sel *imap.SelectData) (place, error) {
	last := place{validity: sel.UIDValidity, uid: sel.UIDNext - 1, folder: "INBOX"}
	b, err := mark.Load(ctx)
	if err != nil {
		return last, err
	}
	var validity uint32
	var uid imap.UID
	if _, err := fmt.Sscan(string(b), &validity, &uid); err == nil && validity == last.validity {
		last.uid = uid
	}
	return last, nil
}

// arrivedAfter returns what has arrived after an e-mail.
func (c *client) arrivedAfter(last place) (news []Letter, err error) {
	last.account = c.account.Name
	data, err := c.UIDSearch(&imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: last.uid + 1}}}}, nil).Wait()
	if err != nil {
		return nil, err
	}
	uids := slices.DeleteFunc(data.AllUIDs(), func(u imap.UID) bool { return u <= last.uid }) // n:* always includes the last one
	slices.Sort(uids)
	var places []place
	for _, uid := range uids[max(0, len(uids)-maxNews):] {
		last.uid = uid
		places = append(places, last)
	}
	if len(places) == 0 {
		return nil, nil
	}
	heads, err := c.heads(places)
	for _, h := range heads {
		news = append(news, Letter{Account: c.account.Name, ID: h.String(), From: names(h.From), Subject: short(h.Subject), Date: h.date,
			Notice: strings.HasPrefix(h.MessageID, noticePrefix)})
	}
	return news, err
}

// noticePrefix begins the Message-ID of a notification, which must not lead to another one.
const noticePrefix = "steward-notice-"

// Notify sends an e-mail to the account's own address. It is tried once: a server that fails may have
// accepted it.
func (o Options) Notify(ctx context.Context, a Account, title, text string) error {
	s := &service{Options: o}
	own, err := parseAddress(a.Address)
	if err != nil {
		return err
	}
	_, domain, _ := strings.Cut(own.Address, "@")
	notice := outgoing{account: a, from: own, to: []*mail.Address{own}, subject: cmp.Or(oneLine(title), "Steward"), body: text, id: noticePrefix + id.New().String() + "@" + domain, automatic: true}
	raw, err := notice.encode(s.Time(), false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.transmit(ctx, notice, raw, func() error { return nil })
}
