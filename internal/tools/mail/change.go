package mail

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// change is what is remembered of an action, so that it can be settled and undone.
type change struct {
	ID      string      `json:"id"`               // where the e-mail was
	Folder  string      `json:"folder,omitzero"`  // where it was moved; empty: its flags were changed
	Message string      `json:"message,omitzero"` // its Message-ID
	Add     []imap.Flag `json:"add,omitzero"`     // the flags that were added, and had not been there
	Remove  []imap.Flag `json:"remove,omitzero"`  // the flags that were removed
}

// changes are what a user has changed. They implement local.Changes.
type changes struct {
	*service
	user  string
	notes string // the place beside which they are noted; see local.SaveNote
}

func (s *service) of(_ context.Context, user string) (changes, error) {
	return changes{s, user, filepath.Join(s.notes.For(user), "changes")}, nil
}

func (s changes) move(ctx context.Context, in tool.Invocation, a moveArgs) (string, error) {
	c, p, err := s.at(ctx, in.User, a.ID, true)
	if err != nil {
		return "", err
	}
	defer c.close()
	to, err := c.folder(a.Folder)
	if err != nil {
		return "", err
	}
	if to == p.folder {
		return "", tool.NotDone(fault.New(fault.Conflict, "mail_already_there", "the e-mail is already in %s", to))
	}
	heads, err := c.heads([]place{p})
	if err != nil {
		return "", tool.NotDone(broken(ctx, c.account, err))
	}
	if len(heads) == 0 {
		return "", tool.NotDone(missing(p))
	}
	if err := local.SaveNote(s.notes, local.Key(in), change{ID: a.ID, Folder: to, Message: heads[0].MessageID}); err != nil {
		return "", tool.NotDone(err)
	}
	if err := c.moveMessage(p, to); err != nil {
		return "", broken(ctx, c.account, err)
	}
	return c.movedReply(to, heads[0].MessageID), nil
}

// moveMessage moves an e-mail to another folder.
func (c *client) moveMessage(p place, to string) error {
	if caps := c.Caps(); !caps.Has(imap.CapMove) && !caps.Has(imap.CapUIDPlus) {
		// The old way expunges everything that is marked as deleted.
		return tool.NotDone(fault.New(fault.Unsupported, "mail_cannot_move", "the mail server cannot move a single e-mail"))
	}
	_, err := c.Move(imap.UIDSetNum(p.uid), to).Wait()
	return err
}

// movedReply says where an e-mail is now. If its new id cannot be found, the reply omits it.
func (c *client) movedReply(to, messageID string) string {
	if messageID != "" {
		if p, ok, err := c.byMessageID(to, messageID); err == nil && ok {
			return fmt.Sprintf("The e-mail is in %s now (id %s).", to, p)
		}
	}
	return fmt.Sprintf("The e-mail is in %s now.", to)
}

// flagOf returns the flag for a word that a model wrote. Error code: mail_label_invalid.
func flagOf(word string) (imap.Flag, error) {
	switch strings.ToLower(word) {
	case "read":
		return imap.FlagSeen, nil
	case "flagged":
		return imap.FlagFlagged, nil
	case "answered":
		return imap.FlagAnswered, nil
	}
	letter := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("$_-.", r)
	}
	if word == "" || len(word) > 50 || strings.ContainsFunc(word, func(r rune) bool { return !letter(r) }) {
		return "", tool.NotDone(fault.New(fault.Invalid, "mail_label_invalid", "%.60q is not a label", word).WithHint("write read, flagged, answered, or one word of letters and digits"))
	}
	return imap.Flag(word), nil
}

// hasFlag reports whether a flag is among flags, which are compared without case.
func hasFlag(flags []imap.Flag, f imap.Flag) bool {
	return slices.ContainsFunc(flags, func(g imap.Flag) bool { return strings.EqualFold(string(f), string(g)) })
}

// flag adds and removes flags. Only what really changes is remembered.
func (s *service) flag(ctx context.Context, in tool.Invocation, a flagArgs, by changes) (string, error) {
	ch := change{ID: a.ID}
	c, p, err := s.at(ctx, in.User, a.ID, true)
	if err != nil {
		return "", err
	}
	defer c.close()
	heads, err := c.heads([]place{p})
	if err != nil {
		return "", tool.NotDone(broken(ctx, c.account, err))
	}
	if len(heads) == 0 {
		return "", tool.NotDone(missing(p))
	}
	for _, list := range []struct {
		words []string
		to    *[]imap.Flag
		add   bool
	}{{a.Add, &ch.Add, true}, {a.Remove, &ch.Remove, false}} {
		for _, word := range list.words {
			f, err := flagOf(word)
			if err != nil {
				return "", err
			}
			if kept := c.Mailbox().PermanentFlags; list.add && len(kept) > 0 && !hasFlag(kept, f) && !hasFlag(kept, imap.FlagWildcard) {
				return "", tool.NotDone(fault.New(fault.Unsupported, "mail_label_unsupported", "the mail server does not support the label %.60s", f).WithHint("move the e-mail to a folder of that name"))
			}
			if hasFlag(heads[0].flags, f) != list.add {
				*list.to = append(*list.to, f)
			}
		}
	}
	known, err := local.LoadNote(by.notes, local.Key(in), &change{})
	if err == nil && !known { // a repeated call has nothing left to change
		err = local.SaveNote(by.notes, local.Key(in), ch)
	}
	if err != nil {
		return "", tool.NotDone(err)
	}
	if err := c.mark(p, ch.Add, ch.Remove); err != nil {
		return "", broken(ctx, c.account, err)
	}
	return flagged, nil
}

const flagged = "The e-mail is marked."

func (c *client) mark(p place, add, remove []imap.Flag) error {
	for op, flags := range map[imap.StoreFlagsOp][]imap.Flag{imap.StoreFlagsAdd: add, imap.StoreFlagsDel: remove} {
		if len(flags) == 0 {
			continue
		}
		if err := c.Store(imap.UIDSetNum(p.uid), &imap.StoreFlags{Op: op, Silent: true, Flags: flags}, nil).Close(); err != nil {
			return err
		}
	}
	return nil
}

// Applied implements local.Changes. Changes of flags are made again instead.
func (s changes) Applied(ctx context.Context, key string) (string, bool, error) {
	var ch change
	ok, err := local.LoadNote(s.notes, key, &ch)
	if err != nil || !ok || ch.Folder == "" || ch.Message == "" {
		return "", false, err
	}
	c, _, err := s.moved(ctx, s.user, ch)
	if fault.HasCode(err, "mail_not_found") {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer c.close()
	return c.movedReply(ch.Folder, ch.Message), true, nil
}

// moved finds an e-mail where it was moved, and opens its account.
func (s *service) moved(ctx context.Context, user string, ch change) (*client, place, error) {
	from, err := parsePlace(ch.ID)
	if err != nil {
		return nil, from, err
	}
	c, err := s.connect(ctx, user, from.account)
	if err != nil {
		return nil, from, err
	}
	p, ok, err := c.byMessageID(ch.Folder, ch.Message)
	if err == nil && ok {
		return c, p, nil
	}
	c.close()
	if err != nil {
		return nil, p, tool.NotDone(broken(ctx, c.account, err))
	}
	return nil, p, tool.NotDone(missing(from))
}

// Revert implements local.Changes.
func (s changes) Revert(ctx context.Context, key string) (string, error) {
	var ch change
	ok, err := local.LoadNote(s.notes, key, &ch)
	if err != nil || !ok || ch.Folder != "" && ch.Message == "" {
		return "", cmp.Or(tool.NotDone(err), local.NotApplied())
	}
	if ch.Folder == "" {
		return s.unmark(ctx, ch)
	}
	from, err := parsePlace(ch.ID)
	if err != nil {
		return "", err
	}
	reply := fmt.Sprintf("The e-mail is in %s again.", from.folder)
	c, p, err := s.moved(ctx, s.user, ch)
	if fault.HasCode(err, "mail_not_found") {
		back := ch
		back.Folder = from.folder
		if c, _, err := s.moved(ctx, s.user, back); err == nil { // it was moved back before
			c.close()
			return reply, nil
		}
	}
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.moveMessage(p, from.folder); err != nil {
		return "", broken(ctx, c.account, err)
	}
	return reply, nil
}

func (s changes) unmark(ctx context.Context, ch change) (string, error) {
	c, p, err := s.at(ctx, s.user, ch.ID, true)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.mark(p, ch.Remove, ch.Add); err != nil {
		return "", broken(ctx, c.account, err)
	}
	return "The e-mail is marked as before.", nil
}
