package email_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"log/slog"

	"pgregory.net/rapid"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/email"
	"steward/internal/fault"
	"steward/test/mailtest"
	_ "steward/test/seed"
)

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Service { return newDouble(t) })
}

func TestAnotherMachineGoesOn(t *testing.T) {
	channeltest.Moves(t, func(t *testing.T) channeltest.Service {
		d := newDouble(t)
		d.dir, d.state = channeltest.StateOf(t, d.dir)
		return d
	})
}

// one returns the update of one e-mail.
func (d *double) one(raw string) channel.Update {
	d.t.Helper()
	d.put(raw)
	return channeltest.Receive(d.t, d.Channel(), 1)[0]
}

const head = "From: Bob <Bob@Example.org>\nTo: ann@example.com\nMessage-ID: <m1@example.org>\n"

// TestUnproven: a sender is proven only by the trusted server, for the domain of From, and by nothing that
// somebody else may have written.
func TestUnproven(t *testing.T) {
	const pass = "Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=example.org; dmarc=pass (p=NONE sp=NONE) header.from=example.org\n"
	for _, c := range []struct{ name, head, want string }{
		{"nothing", head, "DMARC: not checked by mx.example.com"},
		{"pass", pass + head, ""},
		{"version, case, folded", "Authentication-Results: MX.example.com 1;\n dkim=pass header.d=x;\n DMARC = Pass header.from=EXAMPLE.ORG\n" + head, ""},
		{"fail", strings.Replace(pass, "dmarc=pass", "dmarc=fail", 1) + head, "DMARC: fail"},
		{"no alignment", strings.Replace(pass, "header.from=example.org", "header.from=evil.example", 1) + head, "DMARC: no alignment"},
		{"another server", strings.Replace(pass, "mx.example.com", "mx.evil.example", 1) + head, "DMARC: not checked by mx.example.com"},
		{"the topmost counts", strings.Replace(pass, "dmarc=pass", "dmarc=fail", 1) + pass + head, "DMARC: fail"},
		{"two results", "Authentication-Results: mx.example.com; dmarc=pass header.from=example.org; dmarc=pass header.from=evil.example\n" + head, "DMARC: there are two results"},
		{"in quotation marks", `Authentication-Results: mx.example.com; spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.org"` + "\n" + head, "DMARC: not checked"},
		{"in a comment", "Authentication-Results: mx.example.com; spf=fail (x; dmarc=pass header.from=example.org) smtp.mailfrom=x\n" + head, "DMARC: not checked"},
		{"a broken comment", "Authentication-Results: mx.example.com; spf=fail (x); dmarc=pass header.from=example.org) (\n" + head, "DMARC: not checked by mx.example.com"},
		{"a property twice", "Authentication-Results: mx.example.com; dmarc=pass header.from=evil.example header.from=example.org\n" + head, "DMARC: not checked by mx.example.com"},
		{"two senders", pass + "From: Bob <bob@example.org>, Eve <eve@example.org>\n", "several senders"},
		{"two fields", pass + "From: Bob <bob@example.org>\nFrom: Eve <eve@evil.example>\n", "several senders"},
	} {
		d := newDouble(t)
		u := d.one(c.head + "\nhello\n")
		if u.Unproven != c.want {
			t.Errorf("%s: %q, not %q", c.name, u.Unproven, c.want)
		}
		if c.name == "pass" && (u.From.ID != "bob@example.org" || u.From.Name != "Bob" || u.Address.Chat != "bob@example.org" || u.Message != "m1@example.org" || u.Text != "hello") {
			t.Errorf("%+v", u)
		}
	}
	d := newDouble(t)
	opt := d.options()
	delete(opt.Settings, "trust")
	c, err := email.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	d.put(pass + head + "\nhello\n")
	if u := channeltest.Receive(t, c, 1)[0]; !strings.Contains(u.Unproven, "trust") || !c.Limits().Unproven {
		t.Errorf("%+v", u)
	}
}

// TestAutomatic: what a program sent is not handed over, so that no two programs answer each other.
func TestAutomatic(t *testing.T) {
	d := newDouble(t)
	for _, field := range []string{"Auto-Submitted: auto-replied", "Auto-Submitted: auto-generated (x)", "Precedence: Bulk", "Precedence: list", "List-Id: <a.example.org>", "List-Unsubscribe: <mailto:x@example.org>",
		"Return-Path: <>", "Content-Type: multipart/report; boundary=x", "X-Autoreply: yes", "X-Failed-Recipients: ann@example.com"} {
		d.put(field + "\n" + head + "\nx\n")
	}
	for _, from := range []string{"MAILER-DAEMON@example.org", "no-reply@example.org", "postmaster@example.org", mailtest.User, strings.ToUpper(mailtest.User)} {
		d.put("From: " + from + "\n\nx\n")
	}
	d.put("Message-ID: <steward-abc@example.com>\nFrom: bob@example.org\n\nx\n")
	d.put("Auto-Submitted: no\n" + head + "\nfrom a person\n")
	if u := channeltest.Receive(t, d.Channel(), 1)[0]; u.Text != "from a person" {
		t.Errorf("%+v", u)
	}
}

// TestText: what a person wrote, without what mail programs add.
func TestText(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"Subject: Re: lights\n\nYes, please.\n\nOn Sun, 29 Nov 2026 at 12:00, Steward <ann@example.com> wrote:\n> Shall I?\n", "Yes, please."},
		{"Subject: Re: lights\n\nJa.\n\nAm 29.11.2026 um 12:00 schrieb Steward:\n> Soll ich?\n", "Ja."},
		{"Subject: AW: lights\n\nYes.\n\n________________________________\nFrom: Steward\nSent: Sunday\n\nShall I?\n", "Yes."},
		{"Subject: Re: lights\n\nYes.\n\n-----Original Message-----\nShall I?\n", "Yes."},
		{"Subject: Re: x\n\n> first\none\n> second\ntwo\n\n-- \nBob\n", "one\ntwo"},
		{"Subject: Re: x\n\nOn Monday I was in Rome.\nHe wrote:\n", "On Monday I was in Rome.\nHe wrote:"},
		{"Subject: What is the time?\n\n", "What is the time?"},
		{"Subject: Dinner\n\nBook a table.\n", "Dinner\n\nBook a table."},
		{"Subject: =?iso-8859-1?q?Re:_K=FCche?=\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nK=FChlschrank\n", "Kühlschrank"},
		{"Subject: Re: x\nContent-Type: text/html\n\n<html><head><title>t</title><style>p{}</style></head><body><p>One &amp; two</p><div>three<br>four</div><blockquote>quoted</blockquote><script>x()</script></body></html>\n", "One & two\nthree\nfour"},
		{"Subject: Re: x\nContent-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\nplain\n--b\nContent-Type: text/html\n\n<b>html</b>\n--b--\n", "plain"},
	} {
		d := newDouble(t)
		if u := d.one(head + c.raw); u.Text != c.want {
			t.Errorf("%q\nis read as %q", c.raw, u.Text)
		}
	}
}

// TestConversation: an answer belongs to the conversation of the e-mail that it answers, after a restart too.
func TestConversation(t *testing.T) {
	d := newDouble(t)
	u := d.one(head + "Subject: Dinner\nReferences: <m0@example.org>\n\nBook a table.\n")
	gatherNothing(t, d)
	c := d.Channel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Run(ctx, cancel, nil); ctx.Err() != context.Canceled {
		t.Fatal(err)
	}
	for i, out := range []channel.Outgoing{
		{Key: "k1", At: u.Address, ReplyTo: u.Message, Text: c.Render("At **eight**.")[0]},
		{Key: "k2", At: u.Address, ReplyTo: "unknown@example.org", Text: c.Render("Done")[0]},
		{Key: "k3", At: channel.Address{Chat: "eve@example.org"}, Text: c.Render("It rains\n\nTake an umbrella.")[0]},
		{Key: "k4", At: u.Address, Text: c.Render("A table for two.")[0]},
	} {
		id, err := c.Send(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		raw := d.srv.Sent()[i].Raw
		want := [][]string{
			{"Subject: Re: Dinner\r\n", "In-Reply-To: <m1@example.org>\r\n", "<m0@example.org> <m1@example.org>", "At eight.", "<strong>eight</strong>", "Auto-Submitted: auto-replied\r\n", "Message-Id: <" + id + ">\r\n"},
			{"In-Reply-To: <unknown@example.org>\r\n", "Subject: Done\r\n"},
			{"Subject: It rains\r\n"},
			{"Subject: Re: Dinner\r\n", "In-Reply-To: <m1@example.org>\r\n"},
		}[i]
		for _, part := range want {
			if !strings.Contains(raw, part) {
				t.Errorf("%q is missing in\n%s", part, raw)
			}
		}
		if i == 2 && strings.Contains(raw, "In-Reply-To") {
			t.Errorf("it answers something:\n%s", raw)
		}
	}
}

// gatherNothing runs an adapter to which nothing must arrive.
func gatherNothing(t *testing.T, d *double) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := d.Channel().Run(ctx, cancel, func(_ context.Context, list []channel.Update) error {
		t.Errorf("again: %+v", list)
		return nil
	})
	if ctx.Err() != context.Canceled {
		t.Fatal(err)
	}
}

// TestHeadersCannotBeWritten: what is sent cannot begin further header fields.
func TestHeadersCannotBeWritten(t *testing.T) {
	d := newDouble(t)
	c := d.Channel()
	_, err := c.Send(t.Context(), channel.Outgoing{Key: "k1", At: channel.Address{Chat: "bob@example.org"}, ReplyTo: "x@y>\r\nBcc: eve@evil.example\r\n\r\n<", Text: "x",
		Attachments: []channel.Attachment{{Name: "a\r\nBcc: eve@evil.example", MediaType: "text/plain\r\nBcc: eve@evil.example", Data: []byte("x")}}})
	if err == nil {
		raw := d.srv.Sent()[0].Raw
		if strings.Contains(raw, "\nBcc:") {
			t.Errorf("a field was added:\n%s", raw)
		}
	} else if !fault.HasCode(err, "channel_rejected") {
		t.Error(err)
	}
	for _, chat := range []string{"", "bob", "bob@example.org, eve@evil.example", "bob@example.org\r\nDATA"} {
		if _, err := email.New(d.options()); err != nil {
			t.Fatal(err)
		}
		real, err := email.New(d.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := real.Send(t.Context(), channel.Outgoing{Key: "k2", At: channel.Address{Chat: chat}, Text: "x"}); !fault.HasCode(err, "channel_rejected") {
			t.Errorf("%q: %v", chat, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	d := newDouble(t)
	d.put(head + "Subject: the film\n\n" + strings.Repeat(strings.Repeat("x", 1023)+"\n", 26<<10))
	u := channeltest.Receive(t, d.Channel(), 1)[0]
	if !strings.HasPrefix(u.Text, "the film") || !strings.Contains(u.Text, "26 MB") {
		t.Errorf("%+v", u)
	}
}

func TestNew(t *testing.T) {
	for i, c := range []struct {
		token string
		set   map[string]string
	}{
		{"x", nil}, {"x", map[string]string{"address": "nobody"}}, {"", map[string]string{"address": "a@gmail.com"}}, {"x", map[string]string{"address": "a@example.org"}},
		{"x", map[string]string{"address": "a@gmail.com", "imap": "host"}}, {"x", map[string]string{"address": "a@gmail.com", "tls": "maybe"}}, {"x", map[string]string{"address": "a@gmail.com", "pop3": "x"}},
	} {
		if _, err := email.New(channel.Options{Token: c.token, Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler), Settings: c.set}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := email.New(channel.Options{Token: "x", Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler), Settings: map[string]string{"address": "a@gmail.com"}}); err != nil {
		t.Errorf("a large provider needs no servers: %v", err)
	}
}

// TestAnything: whatever is in an e-mail, it is read without a failure, and the next one too.
func TestAnything(t *testing.T) {
	d := newDouble(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\n", "From: a@b.example\n", "Content-Type: multipart/mixed; boundary=x\n", "--x\n", "--x--\n", "Content-Type: text/html\n", "Content-Transfer-Encoding: base64\n", "Authentication-Results: mx.example.com; (", "\"", "=?utf-8?q?", "?="}))
		d.put(strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(rt, "pieces"), ""))
		n++
	})
	d.put(head + "Subject: Re: x\n\n" + fmt.Sprint("after ", n))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found := false
	err := d.Channel().Run(ctx, func() {}, func(_ context.Context, list []channel.Update) error {
		if list[0].Text == fmt.Sprint("after ", n) {
			found = true
			cancel()
		}
		return nil
	})
	if !found {
		t.Errorf("what comes afterwards is not read: %v", err)
	}
}
