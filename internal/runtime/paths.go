package runtime

import (
	"context"
	"slices"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Path is a branch as it is shown to a person.
type Path struct {
	record.Branch
	Preferred bool
	Stem      string // the branch that the last shared message was written on; empty: it shares none
	Messages  int    // how many messages are on it
	Own       int    // how many of them were written on it
	Begins    string // the beginning of the first text among these; empty if there is none that may be shown
}

// Paths returns a conversation's branches, oldest first. If deleted is set, it
// returns the branches that can be restored instead.
func (k *Records) Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]Path, error) {
	sc := store.ForUser(user)
	c, err := k.conversations.Get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	var out []Path
	q := store.Query{Term: store.Term{Name: record.TermBranch, Value: conv.String()}, Under: record.ConversationURI(conv)}
	for it, err := range store.Items(ctx, k.store, sc, q) {
		if err != nil {
			return nil, err
		}
		p := Path{Branch: record.Branch{ID: it.URI.ID()}}
		if err := record.Decode(it.URI, it.Body, &p.Branch); err != nil {
			return nil, err
		}
		if p.Deleted.IsZero() == deleted {
			continue
		}
		p.Preferred = p.ID == c.BranchID()
		for _, s := range slices.Backward(p.Rope) {
			if s.Branch != p.ID {
				p.Stem = s.Branch
				break
			}
		}
		if p.Messages, p.Own, err = k.conversations.Count(ctx, sc, conv, &p.Branch); err != nil {
			return nil, err
		}
		if err := p.begins(ctx, k.store, sc, conv); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Path) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// begins sets how the messages that were written on a branch begin.
func (p *Path) begins(ctx context.Context, st store.Store, sc store.Scope, conv id.ID) error {
	if p.Own == 0 {
		return nil
	}
	const near = 20
	first, err := st.Query(ctx, sc, store.Query{List: record.BranchURI(conv, p.ID), Limit: near})
	if err != nil {
		return err
	}
	for _, it := range first.Items {
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return err
		}
		if p.Begins = beginning(m); p.Begins != "" {
			return nil
		}
	}
	return nil
}

// beginning returns the beginning of the user's or the assistant's text in a
// message, on one line. It returns "" for secret messages.
func beginning(m *message.Message) string {
	if m.Role == message.Tool || message.LabelsOf(m.Blocks)&message.Secret != 0 {
		return ""
	}
	return line(m.Text())
}
