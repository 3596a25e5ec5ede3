package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
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

	// MaskPrivate masks what is labelled private, too. What is labelled
	// secret is always masked.
	MaskPrivate bool
}

// ExportFormats returns the formats: json is everything; markdown (or md), the
// preferred branch for reading; and it in the forms of models' vendors.
func ExportFormats() []string { return append([]string{"json", "markdown"}, importexport.Vendors()...) }

func (o ExportOptions) masked() message.Labels {
	if o.MaskPrivate {
		return message.Secret | message.Private
	}
	return message.Secret
}

// Export is ExportAs in a format, without further options.
func (e *Engine) Export(ctx context.Context, sc store.Scope, conv id.ID, format string, w io.Writer) error {
	return e.ExportAs(ctx, sc, conv, ExportOptions{Format: format}, w)
}

// ExportAs writes a conversation: as JSON with all its branches, interactions,
// runs, marks, pins and messages, which Import reads back; or its preferred
// branch, as Markdown or as a list of messages in the form of a model's vendor.
// What was deleted is not part of it, also while it could still be brought
// back. What must stay secret is masked, and what was made of it: the title,
// and reasons that tools gave. Error codes: format_unknown,
// conversation_not_found.
func (e *Engine) ExportAs(ctx context.Context, sc store.Scope, conv id.ID, o ExportOptions, w io.Writer) error {
	x := &exporter{engine: e, ctx: ctx, sc: sc, conv: conv, mask: o.masked()}
	write := x.json
	switch o.Format {
	case "", "json":
	case "markdown", "md":
		write = x.markdown
	default:
		codec := e.opt.Codecs[o.Format]
		if codec == nil {
			return fault.New(fault.Invalid, "format_unknown", "there is no export format %.40q", o.Format).
				WithHint("use one of %s", strings.Join(ExportFormats(), ", "))
		}
		write = func(w io.Writer) error { return x.vendor(w, codec, o.Format) }
	}
	if err := x.survey(); err != nil {
		return err
	}
	return write(w)
}

// exporter writes one conversation. It reads the messages twice: the title
// and the marks, which come first, must not tell what messages hide.
type exporter struct {
	engine *Engine
	ctx    context.Context
	sc     store.Scope
	conv   id.ID
	mask   message.Labels

	c        record.Conversation
	branches []record.Branch
	lists    []string // the branches in whose lists the messages stand
	marks    map[int64]*marked
	hidden   map[id.ID]bool // messages of which something is masked
	there    map[int64]bool // positions of the messages that are exported and have a mark or a pin
	rests    map[id.ID][]store.Item
}

// typeRest is the type of what the size cap of results cut off; it lies below
// the message that made the call.
const typeRest = "tool.Overflow"

// survey reads what has to be known before the first line is written.
func (x *exporter) survey() (err error) {
	if x.c, err = x.engine.Get(x.ctx, x.sc, x.conv); err != nil {
		return err
	}
	if x.branches, err = x.engine.Branches(x.ctx, x.sc, x.conv); err != nil {
		return err
	}
	for i := range x.branches {
		x.branches[i].Packed = record.Point{} // how the store keeps it
		for _, s := range x.branches[i].Spans() {
			if !slices.Contains(x.lists, s.Branch) {
				x.lists = append(x.lists, s.Branch)
			}
		}
	}
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
			if err := x.look(it, title); err != nil {
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

// forget leaves out the summaries that were made of what is deleted since.
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

// look notes what a message hides.
func (x *exporter) look(it store.Item, title string) error {
	x.c.Last = max(x.c.Last, it.Pos)
	x.there[it.Pos] = true
	if !bytes.Contains(it.Body, []byte(`"labels"`)) {
		return nil // as nearly all
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

// list yields the members of a branch's list that are exported: those that
// are on a branch, or, where the branch itself is there, all, but for what
// was deleted.
func (x *exporter) list(branch string) iter.Seq2[store.Item, error] {
	alive := slices.ContainsFunc(x.branches, func(b record.Branch) bool { return b.ID == branch })
	return func(yield func(store.Item, error) bool) {
		q := store.Query{List: record.BranchURI(x.conv, branch), Limit: 200}
		for it, err := range store.Items(x.ctx, x.engine.store, x.sc, q) {
			if err == nil && (x.deleted(it.Pos) || !alive && !x.held(branch, it.Pos)) {
				continue
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

func (x *exporter) held(branch string, pos int64) bool {
	return slices.ContainsFunc(x.branches, func(b record.Branch) bool { return b.Holds(branch, pos) })
}

// deleted reports whether a person has deleted the message at a position.
func (x *exporter) deleted(pos int64) bool {
	k := x.marks[pos]
	if k == nil {
		return false
	}
	var nowhere record.Branch // a person's decision holds on all branches
	return k.On(&nowhere, false).State == record.Deleted
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
	for _, part := range []func(*importexport.Writer) error{x.interactions, x.runs, x.writeMarks, x.pins, x.summaries, x.messages} {
		if err := part(w); err != nil {
			return err
		}
	}
	return w.Close()
}

// vendor writes the preferred branch as a list of messages in a vendor's form.
// All of it is written, also what the model is not shown any more: but calls
// and results as every vendor takes them, see window.Render.
func (x *exporter) vendor(w io.Writer, codec llm.Codec, format string) error {
	var items []window.Item
	for after := store.Cursor(""); ; {
		page, next, err := x.engine.Messages(x.ctx, x.sc, x.conv, after, 0, false)
		if err != nil {
			return err
		}
		for i := range page {
			items = append(items, window.Item{Message: x.masked(page[i].Message), Pos: page[i].Pos})
		}
		if after = next; after == "" {
			break
		}
	}
	return importexport.WriteVendor(w, codec, format, strings.TrimSpace(x.c.Title), window.Render(items, window.Options{}))
}

// below yields the resources of a type below the conversation.
func (x *exporter) below(typ string) iter.Seq2[store.Item, error] {
	return store.Items(x.ctx, x.engine.store, x.sc, store.Query{Under: record.ConversationURI(x.conv), Type: typ, Limit: 1000})
}

func (x *exporter) interactions(w *importexport.Writer) error {
	for it, err := range x.below(record.TypeInteraction) {
		if err != nil {
			return err
		}
		i := importexport.Interaction{ID: record.IDOf(it.URI, record.TypeInteraction)}
		if err := record.Decode(it.URI, it.Body, &i.Interaction); err != nil {
			return err
		}
		w.Interaction(&i)
	}
	return w.Err()
}

func (x *exporter) runs(w *importexport.Writer) error {
	for it, err := range x.below(record.TypeRun) {
		if err != nil {
			return err
		}
		r := importexport.Run{Interaction: record.IDOf(it.URI, record.TypeInteraction)}
		if err := record.Decode(it.URI, it.Body, &r.Run); err != nil {
			return err
		}
		r.ID, _ = id.Parse(it.URI.ID())
		w.Run(&r)
	}
	return w.Err()
}

func (x *exporter) writeMarks(w *importexport.Writer) error {
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
	return w.Err()
}

func sortedPositions[V any](m map[int64]V) []int64 {
	out := make([]int64, 0, len(m))
	for pos := range m {
		out = append(out, pos)
	}
	slices.Sort(out)
	return out
}

// reason returns why a message was changed, unless it may tell what the
// message, or the call that caused the change, hides.
func (x *exporter) reason(msg id.ID, c record.Change) string {
	cause, _, _ := strings.Cut(c.Call, "/")
	by, _ := id.Parse(cause)
	if c.Reason != "" && (x.hidden[msg] || x.hidden[by]) {
		return "[masked]"
	}
	return c.Reason
}

func (x *exporter) pins(w *importexport.Writer) error {
	pins, err := x.engine.pins(x.ctx, x.sc, x.conv, 0, 0)
	if err != nil {
		return err
	}
	for _, pos := range sortedPositions(pins) {
		if p := pins[pos]; x.there[pos] {
			w.Pin(&p)
		}
	}
	return w.Err()
}

// summaries writes the messages that stand for others in the branches' views.
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
			continue // what it was made of was deleted for good
		}
		if err != nil {
			return err
		}
		u, _ := resource.Parse(uri) // it has been read
		w.Summary(importexport.Placed{Message: x.masked(m), Interaction: record.IDOf(u, record.TypeInteraction)})
	}
	return w.Err()
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

// rest reads what did not fit into the results of a message's calls.
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

// masked returns the message without what must not be shown.
func (x *exporter) masked(m *message.Message) *message.Message {
	if message.LabelsOf(m.Blocks)&x.mask == 0 {
		return m
	}
	c := *m
	c.Meta, c.Unknown = message.Meta{}, nil // a provider's own form may repeat it
	c.Blocks = x.maskedBlocks(m.Blocks)
	return &c
}

func (x *exporter) maskedBlocks(blocks []message.Block) []message.Block {
	out := make([]message.Block, len(blocks))
	for i, b := range blocks {
		base := b.Base()
		common := message.Common{Origin: base.Origin, Labels: base.Labels}
		text := &message.Text{Common: common, Text: maskedText(base.Labels)}
		hide := base.Labels&x.mask != 0
		switch b := b.(type) {
		case *message.ToolResult:
			c := *b
			c.Content = x.maskedBlocks(b.Content)
			if hide {
				c.Common, c.Content = common, []message.Block{text}
			}
			out[i] = &c
		case *message.ToolCall:
			c := *b
			if hide {
				c.Common, c.Args = common, []byte(`{"masked":true}`)
			}
			out[i] = &c
		default:
			if out[i] = b; hide {
				out[i] = text
			}
		}
	}
	return out
}

func maskedText(l message.Labels) string {
	if l&message.Secret != 0 {
		return "[secret]"
	}
	return "[private]"
}
