package email_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	gomail "github.com/emersion/go-message/mail"
	"github.com/emersion/go-smtp"
	"golang.org/x/net/html"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/email"
	"steward/test/mailtest"
)

// double is the mail server of package mailtest (RFC 9051, RFC 5321, RFC 6409), with people who write.
// Somebody whom the suite calls 1001 is 1001@example.org.
type double struct {
	t     *testing.T
	srv   *mailtest.Server
	dir   string
	state channel.State // nil: dir keeps it

	mu      sync.Mutex
	offline bool
	limited []time.Duration
	swallow int
	refuse  int
	n       int
	conns   map[net.Conn]bool
}

const domain = "@example.org"

func newDouble(t *testing.T) *double {
	d := &double{t: t, srv: mailtest.Start(t, "IMAP4rev1", "IDLE"), dir: t.TempDir(), conns: map[net.Conn]bool{}}
	d.srv.Answer(func() (*smtp.SMTPError, bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case len(d.limited) > 0:
			pause := d.limited[0]
			d.limited = d.limited[1:]
			return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: fmt.Sprintf("Greylisted, please try again in %.0f seconds", pause.Seconds())}, false
		case d.refuse > 0:
			d.refuse--
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user here"}, false
		case d.swallow > 0:
			d.swallow--
			return nil, true
		}
		return nil, false
	})
	// The first start leaves what is in the inbox alone.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Channel().Run(ctx, cancel, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("the account does not work: %v", err)
	}
	return d
}

func (d *double) options() channel.Options {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.srv.Roots}, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.offline {
			return nil, errors.New("no network")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			d.conns[c] = true
		}
		return c, err
	}}
	return channel.Options{Token: mailtest.Password, Client: &http.Client{Transport: transport}, Log: slog.New(slog.DiscardHandler), Dir: d.dir, State: d.state,
		Settings: map[string]string{"address": mailtest.User, "imap": d.srv.IMAP, "smtp": d.srv.SMTP, "tls": "implicit", "trust": "mx.example.com"}}
}

func (d *double) Channel() channel.Channel {
	c, err := email.New(d.options())
	if err != nil {
		d.t.Fatal(err)
	}
	return &adapter{c}
}

// adapter lets the suite call an address by its first half.
type adapter struct{ channel.Channel }

func (a *adapter) Send(ctx context.Context, m channel.Outgoing) (string, error) {
	if !strings.Contains(m.At.Chat, "@") {
		m.At.Chat += domain
	}
	return a.Channel.Send(ctx, m)
}

func (d *double) Traits() channeltest.Traits {
	return channeltest.Traits{NoGroups: true, NoThreads: true, NoTyping: true, NoChange: true}
}

func (d *double) put(raw string) { d.srv.Put(d.t, "INBOX", raw) }

func (d *double) Say(m channeltest.Message) string {
	d.mu.Lock()
	d.n++
	id := fmt.Sprintf("%d.%s%s", d.n, m.From, domain)
	d.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "Return-Path: <%s%s>\nAuthentication-Results: mx.example.com; dmarc=pass header.from=example.org\n", m.From, domain)
	fmt.Fprintf(&b, "From: =?utf-8?q?P=C3=A9rson?= <%s%s>\nTo: %s\nMessage-ID: <%s>\nSubject: Re: Steward\nDate: Sun, 29 Nov 2026 12:00:00 +0000\nMIME-Version: 1.0\n", m.From, domain, mailtest.User, id)
	if m.ReplyTo != "" {
		fmt.Fprintf(&b, "In-Reply-To: <%s>\n", m.ReplyTo)
	}
	text := "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString([]byte(m.Text+"\n\nOn Sun, 29 Nov 2026 at 11:00, Steward <ann@example.com>\nwrote:\n\n> what was said before\n")) + "\n"
	if len(m.Files) == 0 {
		b.WriteString(text)
	} else {
		b.WriteString("Content-Type: multipart/mixed; boundary=part\n\n--part\n" + text)
		for _, f := range m.Files {
			fmt.Fprintf(&b, "--part\nContent-Type: %s\nContent-Disposition: attachment; filename=%q\nContent-Transfer-Encoding: base64\n\n%s\n", f.MediaType, f.Name, base64.StdEncoding.EncodeToString(f.Data))
		}
		b.WriteString("--part--\n")
	}
	d.put(b.String())
	return id
}

func (d *double) Change(string, string, string)        { d.t.Error("an e-mail cannot be changed") }
func (d *double) Press(string, string, string, string) { d.t.Error("an e-mail has no buttons") }

func (d *double) Posted(chat string) (list []channeltest.Post) {
	for _, s := range d.srv.Sent() {
		if len(s.To) != 1 || s.To[0] != chat+domain {
			continue
		}
		r, err := gomail.CreateReader(strings.NewReader(s.Raw))
		if err != nil {
			d.t.Error(err)
			continue
		}
		var p channeltest.Post
		p.ID, err = r.Header.MessageID()
		if reply, _ := r.Header.MsgIDList("In-Reply-To"); len(reply) > 0 { //nolint:errcheck // it has none
			p.ReplyTo = reply[0]
		}
		for err == nil {
			var part *gomail.Part
			if part, err = r.NextPart(); err != nil {
				break
			}
			data, readErr := io.ReadAll(part.Body)
			if readErr != nil {
				d.t.Error(readErr)
			}
			switch h := part.Header.(type) {
			case *gomail.InlineHeader:
				if media, _, _ := h.ContentType(); media == "text/html" { //nolint:errcheck // it is checked
					shown, err := show(strings.TrimSuffix(string(data), "\r\n"))
					if err != nil {
						d.t.Error(err)
					}
					p.Text = shown.Text
				}
			case *gomail.AttachmentHeader:
				name, _ := h.Filename()        //nolint:errcheck // the test compares it
				media, _, _ := h.ContentType() //nolint:errcheck // the test compares it
				p.Files = append(p.Files, channeltest.File{Name: name, MediaType: media, Data: data})
			}
		}
		if err != io.EOF {
			d.t.Error(err)
		}
		list = append(list, p)
	}
	return list
}

func (d *double) Typing(string) int { return 0 }

func (d *double) Shown(text string) (channeltest.Shown, error) { return show(text) }

// show returns what a mail program shows of HTML.
func show(text string) (s channeltest.Shown, err error) {
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return s, err
	}
	var out strings.Builder
	var walk func(n *html.Node, pre bool)
	walk = func(n *html.Node, pre bool) {
		switch {
		case n.Type == html.TextNode && pre:
			out.WriteString(n.Data)
			s.Code[len(s.Code)-1] += n.Data
		case n.Type == html.TextNode:
			out.WriteString(strings.ReplaceAll(strings.NewReplacer("\n", " ", "\t", " ").Replace(n.Data), "\u00a0", " "))
		case n.Data == "br":
			out.WriteString("\n")
		case n.Data == "pre" || n.Data == "blockquote":
			out.WriteString("\n")
			if n.Data == "pre" {
				pre = true
				s.Code = append(s.Code, "")
			}
		case n.Data == "img" || n.Data == "script" || n.Data == "style":
			err = fmt.Errorf("the text has an element %s", n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, pre)
		}
		if n.Data == "pre" || n.Data == "blockquote" {
			out.WriteString("\n")
		}
	}
	walk(root, false)
	s.Text = out.String()
	return s, err
}

func (d *double) Drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		c.Close() //nolint:errcheck // it may be closed already
	}
	clear(d.conns)
}

func (d *double) Offline(off bool) {
	d.mu.Lock()
	d.offline = off
	d.mu.Unlock()
	d.Drop()
}

func (d *double) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *double) LimitNext(n int, pause time.Duration) {
	d.set(func() {
		for range n {
			d.limited = append(d.limited, pause)
		}
	})
}
func (d *double) SwallowNext(n int) { d.set(func() { d.swallow = n }) }
func (d *double) RefuseNext(n int)  { d.set(func() { d.refuse = n }) }

// Redeliver does nothing: a mailbox has each e-mail once, under its number.
func (d *double) Redeliver() {}

func (d *double) Revoke() {
	d.srv.Lock()
	d.Drop()
}

func (d *double) Hostile() {
	head := "From: <1001" + domain + ">\nTo: " + mailtest.User + "\n"
	for _, raw := range []string{
		"", "\n", "no header at all", "From\n\n", "\xff\xfe\x00", "Subject: from nobody\n\nx", "From: <>\n\nx", "From: \"\n\nx", "From: a, b <c@example.org>, d <e@example.org>\n\nx",
		head + "Content-Type: multipart/mixed\n\nno boundary", head + "Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/mixed; boundary=a\n\n--a\n",
		head + "Content-Type: text/plain; charset=nonsense\n\nx", head + "Content-Transfer-Encoding: nonsense\n\nx", head + "Content-Transfer-Encoding: base64\n\n!!!!",
		head + "Content-Type: ;;;\nContent-Disposition: ;;;\n\nx", head + "Content-Type: text/html\n\n" + strings.Repeat("<div>", 50_000),
		head + "Subject: =?utf-8?b?" + strings.Repeat("A", 10_000) + "?=\nMessage-ID: <<>>\nReferences: " + strings.Repeat("<a@b> ", 3000) + "\n\nx",
		head + strings.Repeat("X-A: b\n", 20_000) + "\nx", head + "\n" + strings.Repeat("x", 3<<20),
		"Auto-Submitted: auto-replied\n" + head + "\nI am on holiday.", "List-Id: <l.example.org>\n" + head + "\nto all", "Precedence: bulk\n" + head + "\nx",
		"Return-Path: <>\n" + head + "\nyour e-mail could not be delivered",
		"From: <" + mailtest.User + ">\n\nfrom itself",
	} {
		d.put(raw)
	}
}
