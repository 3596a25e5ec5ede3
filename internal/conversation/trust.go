package conversation

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Trust records a person's decision that labels of messages no longer count for
// the model's view. The messages keep their labels, and so does what was written
// after reading them. Error codes: label_stays, for a label that nobody can
// remove (secret) or none at all; message_not_found.
func (e *Engine) Trust(ctx context.Context, sc store.Scope, conv id.ID, labels message.Labels, msgs ...id.ID) error {
	if labels == 0 || labels&^(message.Private|message.Untrusted) != 0 {
		return fault.New(fault.Invalid, "label_stays", "the labels %q cannot be removed from a message", labels).
			WithHint("name untrusted, private, or both")
	}
	return e.change(ctx, sc, conv, func(*record.Branch) ([]store.Change, error) {
		var out []store.Change
		for _, x := range msgs {
			m, err := e.Find(ctx, sc, conv, x)
			if err != nil {
				return nil, err
			}
			out = append(out, store.Change{URI: record.TrustURI(conv, m.ID), Place: &store.Place{List: record.TrustsURI(conv), Pos: m.Pos},
				Body: record.Encode(record.Trust{Labels: labels.Names(), By: sc.Actor, At: time.Now().UTC()})})
		}
		return orUnchanged(out)
	})
}

// taint returns the union of the labels of messages without those that a person has
// removed, and the sources of the private data in them.
func taint(msgs []*message.Message, trusted map[id.ID]message.Labels) (all message.Labels, sources []string) {
	for _, m := range msgs {
		left := message.LabelsOf(m.Blocks) &^ trusted[m.ID]
		if all |= left; left.Has(message.Private) {
			sources = message.JoinSources(sources, message.SourcesOf(m.Blocks))
		}
	}
	return all, sources
}

// labels is taint for messages of a conversation. It reads the decisions of persons
// only if there are labels to remove.
func (e *Engine) labels(ctx context.Context, sc store.Scope, conv id.ID, msgs []*message.Message) (message.Labels, []string, error) {
	trusted := map[id.ID]message.Labels{}
	all, sources := taint(msgs, nil)
	if all&(message.Private|message.Untrusted) == 0 {
		return all, sources, nil
	}
	for it, err := range records[record.Trust](ctx, e, sc, store.Query{List: record.TrustsURI(conv)}) {
		if err != nil {
			return all, sources, err
		}
		for _, name := range it.Record.Labels {
			l, err := message.ParseLabel(name)
			if err != nil {
				return all, sources, err
			}
			trusted[record.IDOf(it.URI, record.TypeTrust)] |= l
		}
	}
	if len(trusted) > 0 {
		all, sources = taint(msgs, trusted)
	}
	return all, sources, nil
}
