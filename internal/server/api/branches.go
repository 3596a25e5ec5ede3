package api

import (
	"context"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// History is what the server needs of the runtime for branches and what becomes
// of messages.
type History interface {
	Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]runtime.Path, error)
	Siblings(ctx context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error)
	Fork(ctx context.Context, user string, conv id.ID, f conversation.Fork) (record.Branch, error)
	Switch(ctx context.Context, user string, conv id.ID, branch string) error
	TitleBranch(ctx context.Context, user string, conv id.ID, branch, title string) error
	DeleteBranch(ctx context.Context, user string, conv id.ID, branch string) error
	Undelete(ctx context.Context, user string, conv id.ID, branch string) error
	Rewind(ctx context.Context, user string, conv, msg id.ID, withdraw bool) (record.Branch, int, error)
	Remove(ctx context.Context, user string, conv id.ID, msgs ...id.ID) (record.Branch, error)
	Insert(ctx context.Context, user string, conv, after id.ID, m *message.Message) (record.Branch, error)
	Interaction(ctx context.Context, user string, conv, inter id.ID) (conversation.Interaction, error)
	Merge(ctx context.Context, user string, conv, into, from id.ID) error
	Mark(ctx context.Context, user string, conv id.ID, v conversation.Verdict, msgs ...id.ID) (int, error)
	Pin(ctx context.Context, user string, conv id.ID, pinned bool, msgs ...id.ID) error
	Trust(ctx context.Context, user string, conv id.ID, labels message.Labels, msgs ...id.ID) error
	Audit(ctx context.Context, user string, conv, interaction id.ID, tool string) ([]conversation.Optimization, error)
	Rollback(ctx context.Context, user string, conv, interaction id.ID, tool string) (int, error)
	Tidy(ctx context.Context, user string, conv id.ID, how runtime.Tidying, tools []string) (int, error)
	CopyBranch(ctx context.Context, user string, conv id.ID, branch string) (id.ID, error)
}

// histories are the routes for branches and what becomes of messages.
func (f *server) histories() map[string]serve {
	const conv = "/conversations/{id}"
	return map[string]serve{
		"GET " + conv + "/branches?deleted":                     f.branches,
		"POST " + conv + "/branches":                            f.fork,
		"PATCH " + conv + "/branches/{branch}":                  f.changeBranch,
		"DELETE " + conv + "/branches/{branch}?erase":           f.deleteBranch,
		"POST " + conv + "/branches/{branch}/copy":              f.copyBranch,
		"POST " + conv + "/undelete":                            f.undelete,
		"POST " + conv + "/rewind":                              f.rewind,
		"GET " + conv + "/messages/{message}/siblings":          f.siblings,
		"POST " + conv + "/messages/remove":                     f.remove,
		"POST " + conv + "/messages/insert":                     f.insert,
		"POST " + conv + "/messages/mark":                       f.mark,
		"POST " + conv + "/messages/pin":                        f.pin,
		"POST " + conv + "/messages/trust":                      f.trust,
		"GET " + conv + "/interactions/{interaction}":           f.interaction,
		"POST " + conv + "/interactions/{interaction}/merge":    f.merge,
		"POST " + conv + "/interactions/{interaction}/rollback": f.rollback,
		"GET " + conv + "/changes?interaction&tool":             f.changes,
		"POST " + conv + "/tidy":                                f.tidy,
	}
}

func viewBranch(b record.Branch, preferred bool) client.Branch {
	return client.Branch{ID: b.ID, Title: b.Title, Created: b.Created, Used: b.Used, Parent: b.Parent, Preferred: preferred,
		Revision: b.View.Revision, Cut: b.View.Start.Pos != 0, Summary: b.View.Summary, Deleted: b.Deleted}
}

// read reads the conversation of the path, and the body where there is to be one.
func (f *server) read(w http.ResponseWriter, r *http.Request, in any) (id.ID, error) {
	conv, err := pathID(r, "conversation")
	if err != nil || in == nil {
		return conv, err
	}
	return conv, httpauth.Decode(w, r, maxBody, in)
}

// element reads another id of the path.
func element(r *http.Request, what string) (id.ID, error) {
	x, ok := id.Parse(r.PathValue(what))
	if !ok || x.Zero() {
		return x, fault.New(fault.NotFound, what+"_not_found", "there is no %s %.80s", what, r.PathValue(what))
	}
	return x, nil
}

// branchID reads the name of a branch, which is "main" or an id.
func branchID(name string) (string, error) {
	if x, ok := id.Parse(name); name != record.MainBranch && (!ok || x.Zero()) {
		return "", fault.New(fault.NotFound, "branch_not_found", "this conversation has no branch %.80q", name).
			WithHint("GET %s/conversations/{id}/branches lists those that it has", Prefix)
	}
	return name, nil
}

// onBranch reads the conversation and the branch of the path, and the body
// where there is to be one.
func (f *server) onBranch(w http.ResponseWriter, r *http.Request, in any) (id.ID, string, error) {
	conv, err := f.read(w, r, in)
	if err != nil {
		return conv, "", err
	}
	branch, err := branchID(r.PathValue("branch"))
	return conv, branch, err
}

// branchTitle checks what a branch is to be called; empty: nothing.
func branchTitle(title string) (string, error) {
	title = strings.TrimSpace(title)
	if utf8.RuneCountInString(title) > maxTitle || strings.ContainsFunc(title, unicode.IsControl) {
		return "", fault.New(fault.Invalid, "title_invalid", "a title is one line of at most %d characters", maxTitle)
	}
	return title, nil
}

func (f *server) branches(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, err := f.read(w, r, nil)
	if err != nil {
		return err
	}
	deleted, err := flagOf(r.URL.Query().Get("deleted"), "deleted")
	if err != nil {
		return err
	}
	list, err := f.Node.Paths(r.Context(), c.User, conv, deleted)
	if err != nil {
		return err
	}
	type path struct {
		client.Branch
		Stem     string `json:"stem,omitzero"`
		Messages int    `json:"messages"` // also where there are none
		Own      int    `json:"own"`
		Begins   string `json:"begins,omitzero"`
	}
	out := make([]path, len(list))
	for i, p := range list {
		out[i] = path{viewBranch(p.Branch, p.Preferred), p.Stem, p.Messages, p.Own, p.Begins}
	}
	return reply(w, http.StatusOK, map[string]any{"branches": out})
}

func (f *server) made(w http.ResponseWriter, b record.Branch, err error) error {
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, viewBranch(b, true))
}

func (f *server) fork(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Message id.ID  `json:"message"`
		Before  bool   `json:"before"`
		Title   string `json:"title"`
	}
	conv, err := f.read(w, r, &in)
	if err == nil {
		in.Title, err = branchTitle(in.Title)
	}
	if err != nil {
		return err
	}
	b, err := f.Node.Fork(r.Context(), c.User, conv, conversation.Fork{Message: in.Message, Before: in.Before, Title: in.Title})
	return f.made(w, b, err)
}

func (f *server) changeBranch(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Title     *string `json:"title"`
		Preferred bool    `json:"preferred"`
	}
	conv, branch, err := f.onBranch(w, r, &in)
	if err == nil && in.Title == nil && !in.Preferred {
		err = fault.New(fault.Invalid, "change_missing", "nothing is to be changed").WithHint(`send {"title":…}, {"preferred":true} or both`)
	}
	if err == nil && in.Title != nil {
		if *in.Title, err = branchTitle(*in.Title); err == nil {
			err = f.Node.TitleBranch(r.Context(), c.User, conv, branch, *in.Title)
		}
	}
	if err == nil && in.Preferred {
		err = f.Node.Switch(r.Context(), c.User, conv, branch)
	}
	return done(w, err)
}

// done answers a request that has nothing to tell.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (f *server) deleteBranch(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, branch, err := f.onBranch(w, r, nil)
	erase := false
	if err == nil {
		erase, err = flagOf(r.URL.Query().Get("erase"), "erase")
	}
	if err == nil {
		err = f.Node.DeleteBranch(r.Context(), c.User, conv, branch)
	}
	if err == nil && erase {
		err = f.Node.Erase(r.Context(), c.User, conv, branch)
	}
	return done(w, err)
}

func (f *server) copyBranch(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, branch, err := f.onBranch(w, r, nil)
	if err != nil {
		return err
	}
	made, err := f.Node.CopyBranch(r.Context(), c.User, conv, branch)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, map[string]any{"conversation_id": made})
}

func (f *server) undelete(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Branch string `json:"branch"`
	}
	conv, err := f.read(w, r, &in)
	if err == nil && in.Branch != "" {
		in.Branch, err = branchID(in.Branch)
	}
	if err == nil {
		err = f.Node.Undelete(r.Context(), c.User, conv, in.Branch)
	}
	return done(w, err)
}

func (f *server) rewind(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Message  id.ID `json:"message"`
		Withdraw bool  `json:"withdraw"`
	}
	conv, err := f.read(w, r, &in)
	if err != nil {
		return err
	}
	if in.Message.Zero() {
		return fault.New(fault.Invalid, "message_missing", "it is not said what to go back to").WithHint(`name the message: {"message":"…"}`)
	}
	b, withdrawn, err := f.Node.Rewind(r.Context(), c.User, conv, in.Message, in.Withdraw)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, struct {
		client.Branch
		Withdrawn int `json:"withdrawn"`
	}{viewBranch(b, true), withdrawn})
}

func (f *server) siblings(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, err := f.read(w, r, nil)
	if err != nil {
		return err
	}
	msg, err := element(r, "message")
	if err != nil {
		return err
	}
	list, err := f.Node.Siblings(r.Context(), c.User, conv, msg)
	if err != nil {
		return err
	}
	out := make([]client.Sibling, len(list))
	for i, s := range list {
		out[i] = client.Sibling{Branch: s.Branch, Message: s.Message.String(), Preferred: s.Current}
	}
	return reply(w, http.StatusOK, map[string]any{"siblings": out})
}

func (f *server) remove(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Messages []id.ID `json:"messages"`
	}
	conv, err := f.read(w, r, &in)
	if err != nil {
		return err
	}
	if len(in.Messages) == 0 {
		return noMessages()
	}
	b, err := f.Node.Remove(r.Context(), c.User, conv, in.Messages...)
	return f.made(w, b, err)
}

func noMessages() error {
	return fault.New(fault.Invalid, "messages_missing", "no messages are named").WithHint(`name them: {"messages":["…"]}`)
}

// maxInsert is how large a message that is inserted may be.
const maxInsert = 1 << 20

func (f *server) insert(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		After id.ID        `json:"after"`
		Role  message.Role `json:"role"`
		Text  string       `json:"text"`
	}
	conv, err := pathID(r, "conversation")
	if err == nil {
		err = httpauth.Decode(w, r, maxInsert, &in)
	}
	switch {
	case err != nil:
		return err
	case in.Role == "":
		in.Role = message.User
	case in.Role != message.User && in.Role != message.Assistant:
		return fault.New(fault.Invalid, "role_unknown", "no message of the role %.40q can be inserted", in.Role).WithHint("use user or assistant")
	}
	if strings.TrimSpace(in.Text) == "" {
		return fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	m := &message.Message{ID: id.New(), Role: in.Role, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: record.OriginUser}, Text: in.Text}}}
	b, err := f.Node.Insert(r.Context(), c.User, conv, in.After, m)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, struct {
		client.Branch
		Message id.ID `json:"message_id"`
	}{viewBranch(b, true), m.ID})
}

func (f *server) mark(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Messages []id.ID         `json:"messages"`
		State    record.Validity `json:"state"`
		Reason   string          `json:"reason"`
		By       id.ID           `json:"by"`
		Erase    bool            `json:"erase"` // with the state deleted: for good
	}
	conv, err := f.read(w, r, &in)
	if err == nil && len(in.Messages) == 0 {
		err = noMessages()
	}
	if err == nil && in.Erase && in.State != record.Deleted {
		err = fault.New(fault.Invalid, "erase_not_deleted", "only messages that are deleted can be erased").WithHint(`send the state "deleted" with it`)
	}
	n := 0
	if err == nil {
		n, err = f.Node.Mark(r.Context(), c.User, conv, conversation.Verdict{State: in.State, Reason: in.Reason, By: in.By}, in.Messages...)
	}
	if err == nil && in.Erase {
		err = f.Node.EraseMessages(r.Context(), c.User, conv, in.Messages...)
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]int{"changed": n})
}

func (f *server) pin(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	in := struct {
		Messages []id.ID `json:"messages"`
		Pinned   bool    `json:"pinned"`
	}{Pinned: true}
	conv, err := f.read(w, r, &in)
	if err == nil && len(in.Messages) == 0 {
		err = noMessages()
	}
	if err == nil {
		err = f.Node.Pin(r.Context(), c.User, conv, in.Pinned, in.Messages...)
	}
	return done(w, err)
}

// trust takes labels off messages: untrusted unless others are named.
func (f *server) trust(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	in := struct {
		Messages []id.ID  `json:"messages"`
		Labels   []string `json:"labels"`
	}{Labels: []string{"untrusted"}}
	conv, err := f.read(w, r, &in)
	if err == nil && len(in.Messages) == 0 {
		err = noMessages()
	}
	var labels message.Labels
	if err == nil {
		labels, err = message.ParseLabels(strings.Join(in.Labels, ","))
	}
	if err == nil {
		err = f.Node.Trust(r.Context(), c.User, conv, labels, in.Messages...)
	}
	return done(w, err)
}

func (f *server) tidy(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		How   runtime.Tidying `json:"how"`
		Tools []string        `json:"tools"`
	}
	conv, err := f.read(w, r, &in)
	if err != nil {
		return err
	}
	n, err := f.Node.Tidy(r.Context(), c.User, conv, in.How, in.Tools)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]int{"changed": n})
}
