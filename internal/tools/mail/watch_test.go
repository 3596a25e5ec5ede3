package mail_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"steward/internal/fault"
	"steward/internal/tools/mail"
	"steward/test/mailtest"
)

// watching is a watched mailbox.
type watching struct {
	*world
	heard chan []mail.Letter
	fail  chan error // what hearing the next one returns
	end   func()
}

func (w *world) watch(mark string) *watching {
	ctx, cancel := context.WithCancel(w.Context())
	x := &watching{world: w, heard: make(chan []mail.Letter, 10), fail: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.opt.Watch(ctx, w.opt.Accounts[0], mail.FileMark(mark), slog.New(slog.DiscardHandler), func(_ context.Context, news []mail.Letter) error {
			x.heard <- news
			select {
			case err := <-x.fail:
				return err
			default:
				return nil
			}
		})
	}()
	x.end = func() { cancel(); <-done }
	w.Cleanup(x.end)
	return x
}

// next is what is heard next.
func (x *watching) next(want string) []mail.Letter {
	x.Helper()
	news := <-x.heard
	var all []string
	for _, n := range news {
		all = append(all, n.Subject)
	}
	if got := strings.Join(all, " "); got != want {
		x.Errorf("heard %s, want %s", got, want)
	}
	return news
}

// begun waits until a mailbox is watched, which the file says.
func begun(t *testing.T, mark string) {
	t.Helper()
	for {
		if _, err := os.Stat(mark); err == nil {
			return
		}
		<-time.After(time.Millisecond)
	}
}

func letter(subject string) string {
	return "From: Bob <bob@example.net>\nSubject: " + subject + "\nMessage-ID: <" + subject + "@example.net>\nDate: Mon, 23 Nov 2026 09:30:00 +0100\n\nHello.\n"
}

func TestNewMailIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := filepath.Join(t.TempDir(), "mark")
	w.Put(t, "INBOX", letter("old"))
	x := w.watch(mark)
	begun(t, mark)
	w.Put(t, "INBOX", letter("one"))
	n := x.next("one")[0]
	if n.From != "Bob <bob@example.net>" || n.Account != "work" || n.Notice || w.call("read", args{"id": n.ID}) == "" {
		t.Errorf("%+v", n)
	}
	w.HangUp() // it connects again, and misses nothing
	w.Put(t, "INBOX", letter("two"))
	x.fail <- errors.New("the disk is full")
	x.next("two")
	x.next("two") // a failed report is repeated
	x.end()
	w.Put(t, "INBOX", letter("three"))
	w.Put(t, "INBOX", letter("four"))
	x = w.watch(mark)
	x.next("three four")
	for i := range 60 {
		w.Put(t, "INBOX", letter(fmt.Sprint("m", i)))
	}
	for reply := 0; reply < 50; { // of many at once the newest ones
		news := <-x.heard
		reply += len(news)
		if news[len(news)-1].Subject == "m59" {
			return
		}
	}
}

func TestAMailboxThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opt.Accounts[0].Secret = secret("wrong")
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	log.wrote = cancel
	w.opt.Watch(ctx, w.opt.Accounts[0], mail.FileMark(filepath.Join(t.TempDir(), "mark")), slog.New(slog.NewTextHandler(&log, nil)), nil)
	contains(t, log.String(), "rejects the login of the account work", "again_in=1s")
}

// lines is a log that tells of its first line.
type lines struct {
	strings.Builder
	wrote func()
}

func (l *lines) Write(b []byte) (int, error) { defer l.wrote(); return l.Builder.Write(b) }

func TestNotifyByMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.opt.Notify(t.Context(), w.opt.Accounts[0], "Dentist\r\nBcc: eve@example.net", "Leave now.\nBring the card."); err != nil {
		t.Fatal(err)
	}
	sent := w.Sent()
	if len(sent) != 1 || strings.Join(sent[0].To, " ") != mailtest.User {
		t.Fatalf("%+v", sent)
	}
	contains(t, sent[0].Raw, "Subject: Dentist Bcc: eve@example.net\r\n", "Auto-Submitted: auto-generated\r\n", "To: \"Ann Example\" <ann@example.com>\r\n", "\r\nLeave now.\r\nBring the card.\r\n")
	mark := filepath.Join(t.TempDir(), "mark")
	x := w.watch(mark)
	begun(t, mark)
	w.Put(t, "INBOX", sent[0].Raw)
	if n := x.next("Dentist Bcc: eve@example.net"); !n[0].Notice {
		t.Errorf("a notification would lead to another one: %+v", n)
	}
	w.Refuse(&smtp.SMTPError{Code: 550, Message: "no"})
	if err := w.opt.Notify(t.Context(), w.opt.Accounts[0], "", "x"); !fault.HasCode(err, "mail_rejected") {
		t.Error(err)
	}
}
