package llm

import (
	"context"
	"iter"
	"maps"
	"slices"

	"steward/internal/message"
)

// Secrets hides secrets in texts. It is safe for concurrent use.
type Secrets interface {
	// Any reports whether there are secrets to hide.
	Any() bool
	// Mask returns the text with its secrets hidden.
	Mask(text string) string
	// Pieces returns a function that hides secrets in one text that arrives in pieces. It holds
	// back what may be the beginning of a secret until the next piece, or until the last. The
	// function is not safe for concurrent use.
	Pieces() func(piece string, last bool) string
}

// discreet is a model whose text has its secrets hidden, even if a secret is split over several
// deltas. The arguments of calls are left to the code that judges and makes the calls.
type discreet struct {
	next Model
	hide Secrets
}

// Stream implements Model.
func (d *discreet) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		words := words{hide: d.hide}
		for ev, err := range d.next.Stream(ctx, r) {
			switch {
			case err != nil || ev.Kind == Done:
				if !words.rest(yield) {
					return
				}
				ev.Reply = d.reply(ev.Reply)
			case ev.Kind == Reset:
				words.open = nil
			case ev.Kind == TextDelta || ev.Kind == ReasoningDelta:
				text := words.next(ev)
				if text == "" && ev.Text != "" {
					continue
				}
				ev.Text = text
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// reply returns a reply with the secrets hidden in its text.
func (d *discreet) reply(r *Reply) *Reply {
	if r == nil || !d.hide.Any() {
		return r
	}
	out := *r
	own := false
	for i, b := range r.Blocks {
		var masked message.Block
		switch b := b.(type) {
		case *message.Text:
			text := d.hide.Mask(b.Text)
			c, cites := *b, d.citations(b.Citations)
			if text != b.Text || !slices.Equal(cites, b.Citations) {
				c.Text, c.Citations, c.Meta, masked = text, cites, message.Meta{}, &c
			}
		case *message.Vendor:
			if raw := string(b.Meta.Fields); d.hide.Mask(raw) != raw {
				c := *b
				c.Meta, masked = message.Meta{}, &c
			}
		case *message.Reasoning:
			if text := d.hide.Mask(b.Text); text != b.Text {
				c := *b
				c.Text, c.Meta, masked = text, message.Meta{}, &c // a vendor's signature does not match the changed text
			}
		}
		if masked == nil {
			continue
		}
		if !own {
			out.Blocks, own = slices.Clone(r.Blocks), true
		}
		out.Blocks[i] = masked
	}
	return &out
}

// words holds the texts of the message that is being written.
type words struct {
	hide Secrets
	open map[int]*text // by block; only those that began while there were secrets to hide
}

type text struct {
	kind   Kind
	pieces func(piece string, last bool) string
}

// next returns what may be shown of a text after another piece of it has arrived.
func (w *words) next(ev Event) string {
	t := w.open[ev.Block]
	if t == nil {
		if !w.hide.Any() {
			return ev.Text
		}
		if w.open == nil {
			w.open = map[int]*text{}
		}
		t = &text{ev.Kind, w.hide.Pieces()}
		w.open[ev.Block] = t
	}
	return t.pieces(ev.Text, false)
}

// rest yields what was held back. Nothing may follow it.
func (w *words) rest(yield func(Event, error) bool) bool {
	for _, block := range slices.Sorted(maps.Keys(w.open)) {
		t := w.open[block]
		if last := t.pieces("", true); last != "" && !yield(Event{Kind: t.kind, Block: block, Text: last}, nil) {
			return false
		}
	}
	return true
}

// citations returns sources with the secrets hidden in them.
func (d *discreet) citations(list []message.Citation) []message.Citation {
	var out []message.Citation
	for _, c := range list {
		out = append(out, message.Citation{URL: d.hide.Mask(c.URL), Title: d.hide.Mask(c.Title), Text: d.hide.Mask(c.Text)})
	}
	return out
}
