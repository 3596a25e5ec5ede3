package mail_test

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/internal/tools/mail"
	"steward/test/mailtest"
)

// world is a mail server and the tools over an account at it.
type world struct {
	*testing.T
	*mailtest.Server
	opt   mail.Options
	tools map[string]tool.Tool
	key   string
}

func newWorld(t *testing.T, caps ...imap.Cap) *world {
	s := mailtest.Start(t, caps...)
	w := &world{T: t, Server: s, key: "k1"}
	w.opt = mail.Options{Roots: s.Roots, Dial: (&net.Dialer{}).DialContext, Accounts: []mail.Account{{Name: "work", Address: "Ann Example <ann@example.com>",
		IMAP: s.IMAP, SMTP: s.SMTP, TLS: mail.Implicit, Secret: secret(mailtest.Password), For: tool.OwnedBy([]string{"ann"}, nil)}}}
	w.build()
	return w
}

func secret(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

func (w *world) build() {
	w.Helper()
	env := tool.Env{Name: "mail", Data: w.TempDir()}
	notes, err := local.NewPlace(env, "notes")
	if err != nil {
		w.Fatal(err)
	}
	k := local.NewKit(env, "domain:mail")
	mail.Add(k, notes, w.opt)
	list, err := k.Tools()
	if err != nil {
		w.Fatal(err)
	}
	w.tools = map[string]tool.Tool{}
	for _, t := range list {
		w.tools[strings.TrimPrefix(t.Spec().Name, "mail.")] = t
	}
}

func (w *world) invocation(args any) tool.Invocation {
	b, err := json.Marshal(args)
	if err != nil {
		w.Fatal(err)
	}
	return tool.Invocation{Args: b, User: "ann", Key: w.key}
}

func text(res tool.Result) string {
	var out []string
	for _, b := range res.Content {
		if t, ok := b.(*message.Text); ok {
			out = append(out, t.Text)
		}
	}
	return strings.Join(out, "\n")
}

type args = map[string]any

// call calls a tool, and fails the test if it fails.
func (w *world) call(name string, a args) string {
	w.Helper()
	res, err := w.tools[name].Call(w.Context(), w.invocation(a))
	if err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	return text(res)
}

// refused calls a tool that has to fail with a code.
func (w *world) refused(code, name string, a args) error {
	w.Helper()
	res, err := w.tools[name].Call(w.Context(), w.invocation(a))
	if !fault.HasCode(err, code) {
		w.Errorf("%s: want %s, got %v %s", name, code, err, text(res))
	}
	return err
}

func (w *world) settle(name string, a args) (bool, string, error) {
	w.Helper()
	s, ok := tool.SettlerOf(w.tools[name])
	if !ok {
		w.Fatalf("%s cannot be settled", name)
	}
	done, res, err := s.Settle(w.Context(), w.invocation(a))
	return done, text(res), err
}

func (w *world) undo(name string, a args) (string, error) {
	w.Helper()
	u, ok := tool.UndoerOf(w.tools[name])
	if !ok {
		w.Fatalf("%s cannot be undone", name)
	}
	res, err := u.Undo(w.Context(), w.invocation(a), tool.Result{})
	return text(res), err
}

var ids = regexp.MustCompile(`\(id ([^)]+)\)`)

// id returns the only id of what a search finds.
func (w *world) id(a args) string {
	w.Helper()
	found := ids.FindAllStringSubmatch(w.call("search", a), -1)
	if len(found) != 1 {
		w.Fatalf("%v finds %d: %s", a, len(found), w.call("search", a))
	}
	return found[0][1]
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(got, s) {
			t.Errorf("%q is missing in:\n%s", s, got)
		}
	}
}
