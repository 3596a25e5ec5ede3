package email

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"steward/internal/channel"
	"steward/internal/channel/wire"
	"steward/internal/tools/mailbox"
)

const (
	maxState     = 4 << 20
	maxFailures  = 10               // of reading one e-mail
	maxThreads   = 200              // e-mails that an answer can refer to
	maxAnswering = time.Hour        // how long what is sent to a person counts as an answer to the last e-mail
	renewal      = 15 * time.Minute // of IDLE, which also finds out whether the connection is dead
	polling      = time.Minute      // where the server has no IDLE
)

// state is what Options.Dir keeps.
type state struct {
	Account  string    `json:"account"`
	Validity uint32    `json:"validity"`
	UID      imap.UID  `json:"uid"` // the last e-mail that was accepted
	At       time.Time `json:"at"`  // when it arrived
	Threads  []thread  `json:"threads,omitempty"`
}

// thread is what an answer to an e-mail needs to belong to its conversation.
type thread struct {
	ID         string    `json:"id"`
	From       string    `json:"from"`
	At         time.Time `json:"at"`
	Subject    string    `json:"subject"`
	References []string  `json:"references,omitempty"`
}

// session is one connection.
type session struct {
	*Email
	state
	*mailbox.Client
	alive   *time.Timer // ends the connection if the server takes too long
	receive func(context.Context, []channel.Update) error
}

// Run implements channel.Channel.
func (e *Email) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{Email: e, receive: receive, alive: time.AfterFunc(timeout, cancel)}
	defer s.alive.Stop()
	arrived := make(chan struct{}, 1)
	var err error
	s.Client, err = e.dialer.IMAP(life, e.account, func() {
		select {
		case arrived <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return failed(err)
	}
	defer s.Client.Close()
	inbox, err := s.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return e.lost(ctx, err)
	}
	if err := s.begin(inbox); err != nil {
		return err
	}
	connected()
	for {
		if err := s.news(ctx); err != nil {
			return e.lost(ctx, err)
		}
		if err := s.idle(ctx, arrived); err != nil {
			return e.lost(ctx, err)
		}
	}
}

// lost returns the coded error of a connection that has ended.
func (e *Email) lost(ctx context.Context, err error) error {
	var own received
	if errors.As(err, &own) {
		return own.error
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failed(mailbox.Broken(ctx, e.account, err))
}

// received is an error of receive, which Run returns as it is.
type received struct{ error }

// begin finds the place to read on from.
func (s *session) begin(inbox *imap.SelectData) error {
	b, err := s.opt.LoadState(stateFile, maxState)
	if err != nil {
		return err
	}
	if b != nil {
		if err := json.Unmarshal(b, &s.state); err != nil || s.Account != s.own.Address {
			s.log().Warn("the place at which Steward stopped reading is not known: it begins with what comes now", "file", filepath.Join(s.opt.Dir, stateFile))
			s.state = state{}
		}
	}
	if s.Account == "" {
		s.state = state{Account: s.own.Address, Validity: inbox.UIDValidity, UID: inbox.UIDNext - 1, At: time.Now()}
	} else if s.Validity != inbox.UIDValidity {
		uid, err := s.renumbered()
		if err != nil {
			return err
		}
		s.Validity, s.UID = inbox.UIDValidity, min(uid, inbox.UIDNext)-1
	}
	s.mu.Lock()
	s.threads = slices.Clone(s.Threads)
	s.mu.Unlock()
	return s.save()
}

// renumbered returns the first e-mail that arrived after the last accepted one, by its date, since its
// number means nothing any more.
func (s *session) renumbered() (imap.UID, error) {
	s.log().Warn("the mail server numbers its e-mails anew; those that arrived after the last one are read", "last", s.At)
	found, err := s.UIDSearch(&imap.SearchCriteria{Since: s.At.AddDate(0, 0, -1)}, nil).Wait()
	if err != nil {
		return 0, failed(err)
	}
	const none = ^imap.UID(0)
	uids := found.AllUIDs()
	if len(uids) == 0 {
		return none, nil
	}
	list, err := s.Client.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, InternalDate: true}).Collect()
	if err != nil {
		return 0, failed(err)
	}
	first := none
	for _, m := range list {
		if m.InternalDate.After(s.At) {
			first = min(first, m.UID)
		}
	}
	return first, nil
}

// news hands over what has arrived since the last accepted e-mail.
func (s *session) news(ctx context.Context) error {
	found, err := s.UIDSearch(&imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: s.UID + 1}}}}, nil).Wait()
	if err != nil {
		return err
	}
	uids := slices.DeleteFunc(found.AllUIDs(), func(u imap.UID) bool { return u <= s.UID }) // n:* always includes the last one
	slices.Sort(uids)
	for _, uid := range uids {
		s.alive.Reset(timeout)
		l, at, ok, err := s.read(uid)
		if err != nil && !s.hopeless(uid) {
			return err
		}
		if err != nil {
			s.log().Error("an e-mail cannot be read and is skipped: look at it in the mailbox", "number", uid, "error", err)
			s.UID = uid
			return cmp.Or(s.save(), err)
		}
		if ok {
			if u, ok := s.update(uid, at, l); ok {
				s.alive.Stop() // of a server; receive takes as long as it takes
				if err := s.receive(ctx, []channel.Update{u}); err != nil {
					return received{err}
				}
				s.alive.Reset(timeout)
				s.remember(thread{ID: u.Message, From: u.From.ID, At: time.Now(), Subject: l.subject, References: l.references})
			}
			s.At = at
		}
		s.UID = uid
		if err := s.save(); err != nil {
			return err
		}
	}
	return nil
}

// hopeless reports that too many connections in a row have been lost while the same e-mail was read. It must
// not stop those behind it for ever.
func (e *Email) hopeless(uid imap.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != uid {
		e.failing, e.failures = uid, 0
	}
	e.failures++
	return e.failures >= maxFailures
}

// read reads an e-mail; ok is false if it is gone or is none.
func (s *session) read(uid imap.UID) (l letter, at time.Time, ok bool, err error) {
	list, err := s.Client.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, RFC822Size: true, InternalDate: true}).Collect()
	if err != nil || len(list) == 0 { // empty: it is gone, unless the connection is
		return l, at, false, cmp.Or(err, s.Noop().Wait())
	}
	at = list[0].InternalDate
	section := &imap.FetchItemBodySection{Peek: true}
	large := list[0].RFC822Size > maxMessage
	if large {
		section.Specifier = imap.PartSpecifierHeader
	}
	bodies, err := s.Client.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{section}}).Collect()
	if err != nil || len(bodies) == 0 {
		return l, at, false, cmp.Or(err, s.Noop().Wait())
	}
	l, ok = parse(bodies[0].FindBodySection(section))
	if large {
		l.plain = fmt.Sprintf("(The e-mail has %d MB. Only its subject was read.)", list[0].RFC822Size>>20)
	}
	return l, at, ok, nil
}

// update translates an e-mail; ok is false if nobody is to answer it.
func (s *session) update(uid imap.UID, at time.Time, l letter) (u channel.Update, ok bool) {
	from, single := senderOf(l.header)
	if from == nil || strings.ContainsFunc(from.Address, func(r rune) bool { return r <= ' ' }) {
		return u, false
	}
	address := strings.ToLower(from.Address)
	if strings.EqualFold(address, s.own.Address) || strings.HasPrefix(l.id, idPrefix) || automatic(l.header, address) {
		return u, false
	}
	u = channel.Update{ID: fmt.Sprintf("%d-%d", s.Validity, uid), Kind: channel.Message, At: at, Address: channel.Address{Chat: address},
		From: channel.Sender{ID: address, Name: cmp.Or(wire.Line(from.Name), address)}, Addressed: true,
		Message: l.id, ReplyTo: l.reply, Text: l.text()}
	if u.Unproven = unproven(l.header, s.trust, address); !single {
		u.Unproven = "several senders"
	}
	if u.Message == "" {
		u.Message = u.ID
	}
	for i, f := range l.files {
		u.Attachments = append(u.Attachments, channel.Attachment{Ref: fmt.Sprintf("%s-%d", u.ID, i), Name: f.name, MediaType: f.media, Size: int64(len(f.data)),
			Voice: strings.HasPrefix(f.media, "audio/")}) // what people attach, or a telephone system, is speech
	}
	return u, true
}

// idle waits until something arrives.
func (s *session) idle(ctx context.Context, arrived <-chan struct{}) error {
	wait, stop := polling, func() error { return nil }
	if s.Caps().Has(imap.CapIdle) {
		idle, err := s.Idle()
		if err != nil {
			return err
		}
		wait, stop = renewal, func() error { return errors.Join(idle.Close(), idle.Wait()) }
	}
	s.alive.Stop()
	renew := time.NewTimer(wait)
	defer renew.Stop()
	select {
	case <-arrived:
	case <-renew.C:
	case <-s.Closed():
	case <-ctx.Done():
	}
	s.alive.Reset(timeout)
	return cmp.Or(stop(), ctx.Err())
}

// remember keeps what an answer to an e-mail needs.
func (e *Email) remember(t thread) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.References = t.References[max(0, len(t.References)-20):]
	e.threads = append(e.threads, t)
	e.threads = slices.Clone(e.threads[max(0, len(e.threads)-maxThreads):])
}

// threadOf returns what is known of the e-mail that a message answers. If the message does not say which,
// it is the person's last one, unless that is too long ago.
func (e *Email) threadOf(out channel.Outgoing) (t thread, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range slices.Backward(e.threads) {
		if t.ID == out.ReplyTo || out.ReplyTo == "" && t.From == strings.ToLower(out.At.Chat) && time.Since(t.At) < maxAnswering {
			return t, true
		}
	}
	return thread{ID: out.ReplyTo}, out.ReplyTo != ""
}

// Fetch implements channel.Channel. The e-mail is read once more.
func (e *Email) Fetch(ctx context.Context, a channel.Attachment) (io.ReadCloser, error) {
	var validity uint32
	var uid imap.UID
	var n int
	if _, err := fmt.Sscanf(a.Ref, "%d-%d-%d", &validity, &uid, &n); err != nil {
		return nil, channel.Rejected(service, "the attachment is unknown")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := e.dialer.IMAP(ctx, e.account, nil)
	if err != nil {
		return nil, failed(err)
	}
	defer c.Close()
	inbox, err := c.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return nil, e.lost(ctx, err)
	}
	s := &session{Email: e, Client: c}
	if inbox.UIDValidity == validity {
		l, _, ok, err := s.read(uid)
		if err != nil {
			return nil, e.lost(ctx, err)
		}
		if ok && n >= 0 && n < len(l.files) {
			return io.NopCloser(bytes.NewReader(l.files[n].data)), nil
		}
	}
	return nil, channel.Rejected(service, "the e-mail with the attachment is gone")
}

const stateFile = "email.json"

func (s *session) save() error {
	s.mu.Lock()
	s.Threads = s.threads
	s.mu.Unlock()
	b, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return s.opt.SaveState(stateFile, b)
}
