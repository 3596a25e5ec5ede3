package injection_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/id"
	"steward/internal/tool"
	"steward/internal/tools/local"
	mailbox "steward/internal/tools/mail"
	"steward/test/must"
)

// post is the source of a mailbox in a folder. Its tools are described as those
// of package mail, so that the same is decided about them.
func (w *world) post(env tool.Env, _ func(any) error) (tool.Source, error) {
	place, err := local.NewPlace(env, "")
	if err != nil {
		return nil, err
	}
	k := local.NewKit(env, "domain:mail")
	mailbox.Add(k, place, mailbox.Options{Accounts: []mailbox.Account{{Name: "home", For: tool.OwnedBy([]string{"*"}, nil)}}})
	list, err := k.Tools()
	p := &postbox{w: w, dir: place.For(person), tools: map[string]tool.Tool{}}
	does := map[string]func([]byte) (string, error){"search": p.search, "read": p.read, "send": p.send}
	for _, t := range list {
		if do := does[strings.TrimPrefix(t.Spec().Name, env.Name+".")]; do != nil {
			p.tools[t.Spec().Name] = letter{t.Spec(), do}
		}
	}
	return p, err
}

type postbox struct {
	w     *world
	dir   string
	tools map[string]tool.Tool
}

func (p *postbox) Announce(context.Context) (a tool.Announcement, _ error) {
	for _, name := range slices.Sorted(maps.Keys(p.tools)) {
		a.Specs = append(a.Specs, p.tools[name].Spec())
	}
	return a, nil
}

func (p *postbox) Tool(approved tool.Spec) tool.Tool {
	return letter{approved, p.tools[approved.Name].(letter).do}
}

func (p *postbox) Files() []string { return nil }

func (p *postbox) Close() error { return nil }

// letter is a tool of a mailbox.
type letter struct {
	spec tool.Spec
	do   func(args []byte) (string, error)
}

func (l letter) Spec() tool.Spec { return l.spec }

func (l letter) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	text, err := l.do(in.Args)
	return tool.Text(text), err
}

// search lists the inbox, or the e-mails that have a text.
func (p *postbox) search(args []byte) (string, error) {
	var a struct{ Text string }
	if err := json.Unmarshal(args, &a); err != nil {
		return "", err
	}
	list, err := os.ReadDir(filepath.Join(p.dir, "inbox"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range list {
		raw, err := os.ReadFile(filepath.Join(p.dir, "inbox", f.Name()))
		if err != nil {
			return "", err
		}
		head, _, _ := strings.Cut(string(raw), "\n\n")
		if strings.Contains(strings.ToLower(string(raw)), strings.ToLower(a.Text)) {
			fmt.Fprintf(&b, "- home/%s\n%s\n", strings.TrimSuffix(f.Name(), ".eml"), head)
		}
	}
	return b.String(), nil
}

func (p *postbox) read(args []byte) (string, error) {
	var a struct{ ID string }
	if err := json.Unmarshal(args, &a); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(p.dir, "inbox", filepath.Base(a.ID)+".eml"))
	return string(b), err
}

func (p *postbox) send(args []byte) (string, error) {
	var a struct {
		To, Cc, Bcc   []string
		Subject, Body string
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return "", err
	}
	p.w.put(filepath.Join(must.Get(filepath.Rel(p.w.dir, p.dir)), "outbox", id.New().String()),
		fmt.Sprintf("To: <%s>\nCc: <%s>\nBcc: <%s>\nSubject: %s\n\n%s\n", strings.Join(a.To, ">, <"), strings.Join(a.Cc, ">, <"), strings.Join(a.Bcc, ">, <"), a.Subject, a.Body))
	return fmt.Sprintf("Sent the e-mail %q to %s.", a.Subject, strings.Join(a.To, ", ")), nil
}

// mail is a received e-mail.
type mail struct{ from, subject, body string }
