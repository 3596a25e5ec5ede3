package edge_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
	"steward/test/mailtest"
)

// withMailbox gives a node the mailbox "home" at a server.
func withMailbox(n *edge.Node, s *mailtest.Server, mailbox, settings string) {
	n.T.Helper()
	n.Env = append(n.Env, "SSL_CERT_FILE="+n.Write(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate.Raw})), "ca.pem"))
	n.Write(fmt.Sprintf("mail: {home: {address: %q, imap: %q, smtp: %q, tls: implicit, password: %q%s}}\n%s", mailtest.User, s.IMAP, s.SMTP, mailtest.Password, mailbox, settings),
		".config", "steward", "steward.yaml")
}

func letter(subject string) string {
	return "From: Bob <bob@example.net>\nSubject: " + subject + "\nMessage-ID: <" + subject + "@example.net>\nDate: Mon, 23 Nov 2026 09:30:00 +0100\n\nHello.\n"
}

// watched waits until Steward watches the mailbox.
func watched(n *edge.Node) {
	n.T.Helper()
	n.Until("the mailbox is watched", func() bool {
		found, err := filepath.Glob(n.Data("private", "root", "mail", "*", "watched", "home"))
		return err == nil && len(found) == 1
	})
}

// New mail is published once, also what arrived while Steward did not run, and its notifications
// lead to no further ones. No model is asked.
func TestNewMailIsPublishedAndNotified(t *testing.T) {
	t.Parallel()
	server := mailtest.Start(t)
	told := make(chan string, 20)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct{ Title, Text string }
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		told <- n.Title + ": " + n.Text
	}))
	t.Cleanup(hook.Close)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
		t.Error("a model was asked")
		return edge.Reply{}
	})})
	withMailbox(n, server, ", new: notify", fmt.Sprintf("notify: {mail: home, webhook: {url: %q}}\n", hook.URL))
	server.Put(t, "INBOX", letter("old"))
	n.Serve()
	watched(n)
	server.Put(t, "INBOX", letter("one"))
	want := func(notified string) {
		t.Helper()
		if got := <-told; got != notified {
			t.Errorf("notified %q, want %q", got, notified)
		}
	}
	want("New mail in home: Bob <bob@example.net>: one")
	n.Until("the mail to himself", func() bool { return len(server.Sent()) == 1 })
	server.Put(t, "INBOX", server.Sent()[0].Raw)
	n.Stop()
	server.Put(t, "INBOX", letter("two"))
	n.Serve()
	want("New mail in home: Bob <bob@example.net>: two")
	out := n.Must("events", "watch", "-q", "--prefix", "cld:mail.Account.home", "--from", "start", "--limit", "3", "--bodies", "--json")
	for i, subject := range []string{"one", "New mail in home", "two"} {
		if line := strings.Split(out, "\n")[i]; !strings.Contains(line, `"subject":"`+subject+`"`) || !strings.Contains(line, `"id":"home/`) {
			t.Errorf("event %d is not about %s: %s", i, subject, line)
		}
	}
	n.Stop()
	n.Until("the second mail to himself", func() bool { return len(server.Sent()) == 2 })
	if len(told) > 0 || strings.Count(out, "\n") != 3 {
		t.Errorf("notified of %s; events:\n%s", <-told, out)
	}
	if r := n.Run("doctor"); !strings.Contains(r.Out, "notifications go to webhook and mail") {
		t.Error(r.Out)
	}
}

// Steward is killed after the server has taken an e-mail and before it has said so. If the e-mail is
// among those that were sent, as at Gmail, it was sent; otherwise a person is asked. It is never sent again.
func TestAnEmailInFlightAtAKillIsSentOnce(t *testing.T) {
	t.Parallel()
	for kept, want := range map[bool]string{true: `Sent the e-mail "Late" to bob@example.net.`, false: "outcome is unknown"} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			t.Parallel()
			server := mailtest.Start(t)
			accepted, free := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(free) })
			server.Hold(func(raw string) {
				if kept {
					server.Put(t, "Gesendet", raw)
				}
				accepted <- struct{}{}
				<-free
			})
			results := make(chan string, 1)
			n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
				if in.Rounds() > 0 {
					select {
					case results <- strings.Join(in.Results(), "\n"):
					default:
					}
					return edge.Reply{Text: "done"}
				}
				return edge.Reply{Calls: []edge.Call{{Name: "mail.send", Args: map[string]any{"to": []string{"bob@example.net"}, "subject": "Late", "body": "Ten minutes."}}}}
			})})
			withMailbox(n, server, "", "")
			n.Serve()
			c := n.Dial()
			c.Send(map[string]any{"type": "message", "id": "1", "content": "Tell Bob that I am late."})
			for {
				if f := c.Read(); f.Type == "tool_call" && f.Status == "awaiting_approval" {
					c.Send(map[string]any{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
					break
				}
			}
			<-accepted
			n.Kill()
			n.Serve()
			if got := <-results; !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if sent := server.Sent(); len(sent) != 1 {
				t.Errorf("it was sent %d times", len(sent))
			}
		})
	}
}

// A mailbox is set up by one command, which logs in first and stores nothing if that fails.
func TestAMailboxIsAdded(t *testing.T) {
	t.Parallel()
	server := mailtest.Start(t)
	n := edge.New(t, edge.Options{})
	n.Env = append(n.Env, "SSL_CERT_FILE="+n.Write(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate.Raw})), "ca.pem"))
	add := []string{"accounts", "add", mailtest.User, "--name", "home", "--imap", server.IMAP, "--smtp", server.SMTP, "--tls", "implicit"}
	if r := n.RunIn("wrong password\n", add...); r.Code != 1 || !strings.Contains(r.Err, "mail_login_refused") || strings.Contains(r.Err, "wrong password") {
		t.Errorf("%+v", r)
	}
	if out := n.Run("secrets", "list"); strings.Contains(out.Out, "MAIL_HOME") {
		t.Error(out)
	}
	if r := n.RunIn(mailtest.Password+"\n", add...); r.Code != 0 || !strings.Contains(r.Err, "the mailbox home is set up") {
		t.Fatalf("%+v", r)
	}
	if r := n.RunIn(mailtest.Password+"\n", add...); r.Code != 1 || !strings.Contains(r.Err, "mailbox_exists") {
		t.Errorf("%+v", r)
	}
	if out := n.Run("doctor"); !strings.Contains(out.Out, "mail of home") {
		t.Error(out)
	}
	if r := n.RunIn("secret password\n", "accounts", "add", "ann@hotmail.com"); r.Code != 1 || !strings.Contains(r.Err, "oauth: microsoft") {
		t.Errorf("%+v", r)
	}
	if r := n.RunIn("secret password\n", "accounts", "add", "ann@example.org"); r.Code != 2 || !strings.Contains(r.Err, "--imap") {
		t.Errorf("%+v", r)
	}
}
