package worklog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/secret/mask"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Show returns an entry with the messages that it was made from: the one that makes
// the call and, if there is one, the one with its result. Secrets are masked in
// both. ref is an entry's ID, or its end with at least four characters of the
// message's id before the slash: "5a3f1d/1" is the newest call whose message's id
// ends in 5a3f1d. "last" is the newest call of all.
//
// Error codes: ref_invalid, call_not_found, and those of the store.
func (e *Engine) Show(ctx context.Context, sc store.Scope, ref string) (Entry, []*message.Message, error) {
	r := &reader{Engine: e, ctx: ctx, sc: sc, alone: true, known: map[id.ID]*conversationInfo{}}
	if ref == "last" {
		list, _, err := e.Log(ctx, sc, Filter{}, "", 1)
		if err != nil || len(list) == 0 {
			return Entry{}, nil, orMissing(err, ref)
		}
		ref = list[0].ID
	}
	name, block, err := parseRef(ref)
	if err != nil {
		return Entry{}, nil, err
	}
	m, err := r.find(name, block)
	if err != nil || m == nil {
		return Entry{}, nil, orMissing(err, ref)
	}
	return r.show(m, block, ref)
}

// show returns the entry of a call and its messages, masked.
func (r *reader) show(m *found, block int, ref string) (Entry, []*message.Message, error) {
	c := message.Call{Ref: message.Ref{Message: m.ID, Block: block}, ToolCall: m.Blocks[block].(*message.ToolCall)}
	results, err := r.results(m)
	if err != nil {
		return Entry{}, nil, err
	}
	res := results[c.Ref]
	en, ok, err := r.entry(m, c, res)
	if err != nil || !ok {
		return Entry{}, nil, orMissing(err, ref)
	}
	w := r.words(c)
	for _, other := range m.Calls() { // the text beside a call may repeat its arguments
		w.Join(r.words(other).Masker)
	}
	msgs := []*message.Message{r.masked(m.Message, w)}
	if res != nil {
		msgs = append(msgs, r.masked(res.Message, w))
	}
	return en, msgs, nil
}

func orMissing(err error, ref string) error {
	if err != nil {
		return err
	}
	return fault.New(fault.NotFound, "call_not_found", "there is no tool call %.80q", ref).
		WithHint("steward log lists the calls with their names")
}

const minName = 4

// parseRef parses "MESSAGE/BLOCK".
func parseRef(s string) (name string, block int, err error) {
	name, number, ok := strings.Cut(strings.ToLower(strings.TrimSpace(s)), "/")
	block, numErr := strconv.Atoi(number)
	if !ok || numErr != nil || block < 0 || len(name) < minName || strings.Trim(name, "0123456789abcdef-") != "" {
		return "", 0, fault.New(fault.Invalid, "ref_invalid", "%.80q does not name a tool call", s).
			WithHint("use the form of steward log, for example 5a3f1d/1, or last")
	}
	return name, block, nil
}

// find searches for the message of a call by its id or the end of its id. It returns
// nil if there is none. A whole id contains its time, so the log is searched from
// there first.
func (r *reader) find(name string, block int) (*found, error) {
	if x, ok := id.Parse(name); ok {
		if m, err := r.findNear(x, block); m != nil || err != nil {
			return m, err
		}
	}
	return r.call(store.LogQuery{Type: record.TypeMessage, Reverse: true, Limit: 500}, name, block, time.Time{})
}

// How long after its id was made a message is searched for first, and how much clocks
// may differ.
const (
	soon       = time.Hour
	clockSkew  = 5 * time.Second
	idTimeBits = 48 // bits of milliseconds since 1970 begin an id of version 7
)

// findNear searches for a message around the time at which its id was made.
func (r *reader) findNear(x id.ID, block int) (*found, error) {
	if x[6]>>4 != 7 {
		return nil, nil
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(x[:8]) >> (64 - idTimeBits)))
	from, err := follow.Before(r.ctx, r.store, r.sc, made.Add(-clockSkew))
	if err != nil {
		return nil, err
	}
	return r.call(store.LogQuery{Since: from, Type: record.TypeMessage, Limit: 100}, x.String(), block, made.Add(soon))
}

// call searches the log, until a time if that is not zero, for a message whose id has
// this ending, which makes the call and belongs to a conversation that is not deleted.
func (r *reader) call(q store.LogQuery, name string, block int, until time.Time) (*found, error) {
	for en, err := range store.Entries(r.ctx, r.store, r.sc, q) {
		if err != nil || !until.IsZero() && en.At.After(until) {
			return nil, err
		}
		if !strings.HasSuffix(en.URI.ID(), name) {
			continue
		}
		m, err := inLog(&en)
		if err != nil {
			return nil, err
		}
		if m == nil || m.Message == nil || !slices.ContainsFunc(m.Calls(), func(c message.Call) bool { return c.Block == block }) {
			continue
		}
		k, err := r.conversation(record.IDOf(m.uri, record.TypeConversation))
		if err != nil || !k.gone {
			return m, err
		}
	}
	return nil, nil
}

// masked returns a message without its secrets, and without the raw fields of
// providers, which nobody can check.
func (r *reader) masked(m *message.Message, w *words) *message.Message {
	c := *m
	c.Meta, c.Unknown = message.Meta{}, nil
	c.Blocks = message.MapBlocks(m.Blocks, func(b message.Block) message.Block {
		common := message.Common{Origin: b.Base().Origin, Labels: b.Base().Labels}
		hidden := &message.Text{Common: common, Text: mask.Secret}
		secret := common.Labels.Has(message.Secret)
		switch b := b.(type) {
		case *message.ToolCall:
			return r.maskedCall(b, common)
		case *message.ToolResult:
			if b.Common = common; secret {
				b.Content = []message.Block{hidden}
			}
			return b
		}
		if secret {
			return hidden
		}
		switch b := b.(type) {
		case *message.Text:
			return &message.Text{Common: common, Text: w.Text(b.Text)}
		case *message.Reasoning:
			return &message.Reasoning{Common: common, Text: w.Text(b.Text)}
		case *message.Image:
			c := *b
			c.Common, c.URL = common, w.Text(b.URL)
			return &c
		case *message.File:
			c := *b
			c.Common, c.Name, c.URL = common, w.Text(b.Name), w.Text(b.URL)
			return &c
		}
		return hidden // a provider's own block
	})
	return &c
}

// maskedCall returns a call whose arguments are masked by the spec of its tool.
func (r *reader) maskedCall(b *message.ToolCall, common message.Common) *message.ToolCall {
	w := r.words(message.Call{ToolCall: b})
	args := []byte(strconv.Quote(mask.Secret))
	if w.args != nil {
		if masked, err := json.Marshal(w.args); err == nil {
			args = masked
		}
	} else if !w.quiet {
		args = []byte(w.Text(string(b.Args)))
	}
	return &message.ToolCall{Common: common, CallID: b.CallID, Name: w.name, Args: args}
}
