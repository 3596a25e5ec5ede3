package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// ExportOptions say how a conversation is exported.
type ExportOptions struct {
	Format string // one of ExportFormats; empty: json

	// MaskPrivate also masks content labelled private. Content labelled secret is
	// always masked.
	MaskPrivate bool
}

// ExportFormats returns the formats. json holds everything. The others hold the
// preferred branch: markdown (or md) for reading, and the vendors' lists of
// messages.
func ExportFormats() []string { return append([]string{"json", "markdown"}, importexport.Vendors()...) }

// ExportAs writes a conversation: as JSON with all its branches, interactions,
// runs, marks, pins and messages, which Import reads back; or its preferred branch,
// as Markdown or as a list of messages in a vendor's form. Deleted content is left
// out, even while it could still be restored. Secret content is masked, and so is
// what was derived from it: the title, and reasons that tools gave. Error codes:
// format_unknown, conversation_not_found.
func (e *Engine) ExportAs(ctx context.Context, sc store.Scope, conv id.ID, o ExportOptions, w io.Writer) error {
	x := &exporter{engine: e, ctx: ctx, sc: sc, conv: conv, mask: message.Secret}
	if o.MaskPrivate {
		x.mask |= message.Private
	}
	write := x.json
	switch o.Format {
	case "", "json":
	case "markdown", "md":
		write = x.markdown
	default:
		codec := e.opt.Codecs[o.Format]
		if codec == nil {
			return fault.New(fault.Invalid, "format_unknown", "unknown export format %.40q", o.Format).
				WithHint("use one of %s", strings.Join(ExportFormats(), ", "))
		}
		write = func(w io.Writer) error { return x.vendor(w, codec, o.Format) }
	}
	if err := x.prepare(); err != nil {
		return err
	}
	return write(w)
}

// exporter writes one conversation. It reads the messages twice, since the title
// and the marks are written first and must not reveal what is masked in messages.
type exporter struct {
	engine *Engine
	ctx    context.Context
	sc     store.Scope
	conv   id.ID
	mask   message.Labels

	c        record.Conversation
	branches []record.Branch
	lists    []string // the branches whose lists hold the messages
	marks    map[int64]*marked
	hidden   map[id.ID]bool // messages with masked content
	there    map[int64]bool // the positions of the messages that are exported
	rests    map[id.ID][]store.Item
}

// typeRest is the type of what the size limit of results cut off. It is stored
// below the message that made the call.
const typeRest = "tool.Overflow"

// prepare reads what must be known before the first line is written.
func (x *exporter) prepare() (err error) {
	if x.c, err = x.engine.Get(x.ctx, x.sc, x.conv); err != nil {
		return err
	}
	if x.branches, err = x.engine.Branches(x.ctx, x.sc, x.conv); err != nil {
		return err
	}
	for i := range x.branches {
		x.branches[i].Packed = record.Point{} // a matter of the store
	}
	x.lists = listsOf(x.branches...)
	if x.marks, err = x.engine.marks(x.ctx, x.sc, x.conv, 0, 0); err != nil {
		return err
	}
	x.forget()
	x.hidden, x.there, x.rests = map[id.ID]bool{}, map[int64]bool{}, map[id.ID][]store.Item{}
	title := x.c.Title
	for _, list := range x.lists {
		for it, err := range x.list(list) {
			if err != nil {
				return err
			}
			if err := x.noteMasked(it, title); err != nil {
				return err
			}
		}
	}
	q := store.Query{Under: record.ConversationURI(x.conv), Type: typeRest, NoBody: true}
	for it, err := range store.Items(x.ctx, x.engine.store, x.sc, q) {
		if err != nil {
			return err
		}
		m := record.IDOf(it.URI, record.TypeMessage)
		x.rests[m] = append(x.rests[m], it)
	}
	return nil
}

// forget drops summaries of messages that were deleted since.
func (x *exporter) forget() {
	for i := range x.branches {
		b := &x.branches[i]
		start := b.Start()
		for pos, k := range x.marks {
			if b.View.Summary != "" && x.deleted(pos) && b.PlaceOf(k.Branch, pos).Before(start) {
				b.View.Summary = ""
			}
		}
	}
}

// noteMasked notes whether a message has masked content, and masks the title if it was
// made from that message.
func (x *exporter) noteMasked(it store.Item, title string) error {
	x.c.Last = max(x.c.Last, it.Pos)
	x.there[it.Pos] = true
	if !bytes.Contains(it.Body, []byte(`"labels"`)) {
		return nil // like almost all messages: it need not be decoded
	}
	m, err := record.DecodeMessage(it.URI, it.Body)
	if err != nil || message.LabelsOf(m.Blocks)&x.mask == 0 {
		return err
	}
	x.hidden[m.ID] = true
	if title != "" && m.Role == message.User && titleOf(m) == title {
		x.c.Title = titleOf(x.masked(m))
	}
	return nil
}

// list yields the messages of a branch's list that are exported. Deleted ones are
// left out, and if the branch itself was deleted, so are those that no other branch
// holds.
func (x *exporter) list(branch string) iter.Seq2[store.Item, error] {
	alive := slices.ContainsFunc(x.branches, func(b record.Branch) bool { return b.ID == branch })
	return func(yield func(store.Item, error) bool) {
		q := store.Query{List: record.BranchURI(x.conv, branch), Limit: 200}
		for it, err := range store.Items(x.ctx, x.engine.store, x.sc, q) {
			held := alive || slices.ContainsFunc(x.branches, func(b record.Branch) bool { return b.Holds(branch, it.Pos) })
			if err == nil && (x.deleted(it.Pos) || !held) {
				continue
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// deleted reports whether a person has deleted the message at a position.
func (x *exporter) deleted(pos int64) bool {
	k := x.marks[pos]
	return k != nil && k.On(&record.Branch{}, false).State == record.Deleted // a person's decision applies to all branches
}

// json writes everything.
func (x *exporter) json(out io.Writer) error {
	seal, err := x.engine.seal(x.sc)
	if err != nil {
		return err
	}
	w := importexport.NewWriter(out, &x.c, seal)
	for i := range x.branches {
		w.Branch(&x.branches[i])
	}
	for _, part := range []func(*importexport.Writer) error{x.interactions, x.runs, x.marksAndPins, x.summaries, x.messages} {
		if err := errors.Join(part(w), w.Err()); err != nil {
			return err
		}
	}
	return w.Close()
}

// vendor writes the preferred branch as a list of messages in a vendor's form,
// including messages that the model is not shown any more. window.Render arranges
// calls and results as every vendor accepts them.
func (x *exporter) vendor(w io.Writer, codec llm.Codec, format string) error {
	var items []window.Item
	for m, err := range x.preferred() {
		if err != nil {
			return err
		}
		items = append(items, window.Item{Message: x.masked(m.Message), Pos: m.Pos})
	}
	return importexport.WriteVendor(w, codec, format, strings.TrimSpace(x.c.Title), window.Render(items, window.Options{}))
}

// preferred yields the messages of the preferred branch.
func (x *exporter) preferred() iter.Seq2[Entry, error] {
	return pages(func(after store.Cursor) ([]Entry, store.Cursor, error) {
		return x.engine.Messages(x.ctx, x.sc, x.conv, after, 0, false)
	})
}

// below finds the resources of a type below the conversation.
func (x *exporter) below(typ string) store.Query {
	return store.Query{Under: record.ConversationURI(x.conv), Type: typ, Limit: 1000}
}

func (x *exporter) interactions(w *importexport.Writer) error {
	for it, err := range records[record.Interaction](x.ctx, x.engine, x.sc, x.below(record.TypeInteraction)) {
		if err != nil {
			return err
		}
		w.Interaction(&importexport.Interaction{ID: record.IDOf(it.URI, record.TypeInteraction), Interaction: it.Record})
	}
	return nil
}

func (x *exporter) runs(w *importexport.Writer) error {
	for it, err := range records[record.Run](x.ctx, x.engine, x.sc, x.below(record.TypeRun)) {
		if err != nil {
			return err
		}
		w.Run(&importexport.Run{ID: record.IDOf(it.URI, record.TypeRun), Interaction: record.IDOf(it.URI, record.TypeInteraction), Run: it.Record})
	}
	return nil
}

func (x *exporter) marksAndPins(w *importexport.Writer) error {
	for _, pos := range sortedPositions(x.marks) {
		if !x.there[pos] {
			continue
		}
		k := x.marks[pos].Mark
		k.Changes = slices.Clone(k.Changes)
		for i := range k.Changes {
			k.Changes[i].Reason = x.reason(k.Message, k.Changes[i])
		}
		w.Mark(&k)
	}
	pins, err := x.engine.pins(x.ctx, x.sc, x.conv, 0, 0)
	for _, pos := range sortedPositions(pins) {
		if p := pins[pos]; x.there[pos] {
			w.Pin(&p)
		}
	}
	return err
}

func sortedPositions[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }

// reason returns why a message's state was changed. It is masked if it may reveal
// masked content of the message or of the call that caused the change.
func (x *exporter) reason(msg id.ID, c record.Change) string {
	cause, _, _ := strings.Cut(c.Call, "/")
	by, _ := id.Parse(cause)
	if c.Reason != "" && (x.hidden[msg] || x.hidden[by]) {
		return "[masked]"
	}
	return c.Reason
}

// summaries writes the messages that replace others in the branches' views.
func (x *exporter) summaries(w *importexport.Writer) error {
	done := map[string]bool{}
	for i := range x.branches {
		uri := x.branches[i].View.Summary
		if uri == "" || done[uri] {
			continue
		}
		done[uri] = true
		m, err := x.engine.summary(x.ctx, x.sc, uri)
		if fault.Is(err, fault.NotFound) {
			continue // it was erased with its sources
		}
		if err != nil {
			return err
		}
		u, _ := resource.Parse(uri) // summary has parsed it
		w.Summary(importexport.Placed{Message: x.masked(m), Interaction: record.IDOf(u, record.TypeInteraction)})
	}
	return nil
}

// messages writes the messages of all lists, one after the other.
func (x *exporter) messages(w *importexport.Writer) error {
	for _, list := range x.lists {
		for it, err := range x.list(list) {
			if err != nil {
				return err
			}
			m, err := record.DecodeMessage(it.URI, it.Body)
			if err != nil {
				return err
			}
			p := importexport.Placed{Message: x.masked(m), Interaction: record.IDOf(it.URI, record.TypeInteraction), Branch: list, Pos: it.Pos}
			if p.Rests, err = x.rest(m.ID); err != nil {
				return err
			}
			if err := w.Message(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// rest reads what the size limit cut off the results of a message's calls.
func (x *exporter) rest(msg id.ID) ([]importexport.Rest, error) {
	var out []importexport.Rest
	for _, it := range x.rests[msg] {
		r, err := x.engine.store.Get(x.ctx, x.sc, it.URI)
		if err != nil {
			return nil, err
		}
		block, err := strconv.Atoi(it.URI.ID())
		if err != nil {
			continue
		}
		head, _, _ := bytes.Cut(r.Body, []byte("\n"))
		var h struct{ Labels message.Labels }
		if json.Unmarshal(head, &h) != nil || h.Labels&x.mask != 0 {
			r.Body = append(append(bytes.Clone(head), '\n'), maskedText(h.Labels)...)
		}
		out = append(out, importexport.Rest{Block: block, Body: r.Body})
	}
	return out, nil
}

// masked returns the message with placeholders for content that must not be
// revealed.
func (x *exporter) masked(m *message.Message) *message.Message {
	if message.LabelsOf(m.Blocks)&x.mask == 0 {
		return m
	}
	c := *m
	c.Meta, c.Unknown = message.Meta{}, nil // a provider's own form may repeat it
	c.Blocks = message.MapBlocks(m.Blocks, func(b message.Block) message.Block {
		base := b.Base()
		if base.Labels&x.mask == 0 {
			return b
		}
		common := message.Common{Origin: base.Origin, Labels: base.Labels}
		text := &message.Text{Common: common, Text: maskedText(base.Labels)}
		switch b := b.(type) {
		case *message.ToolResult:
			b.Common, b.Content = common, []message.Block{text}
			return b
		case *message.ToolCall:
			c := *b
			c.Common, c.Args = common, []byte(`{"masked":true}`)
			return &c
		}
		return text
	})
	return &c
}

func maskedText(l message.Labels) string {
	if l&message.Secret != 0 {
		return "[secret]"
	}
	return "[private]"
}
