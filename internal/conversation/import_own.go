package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// importOwn imports Steward's own export. It keeps the ids of messages, interactions and
// branches.
func (im *importer) importOwn(o *importexport.Own, owner string, now time.Time) error {
	c := o.Conversation
	c.Owner, im.trust = owner, o.Signed
	if err := im.begin(c, now); err != nil {
		return err
	}
	old := record.ConversationURI(o.Conversation.ID).String() + "/"
	im.move = strings.NewReplacer(old, record.ConversationURI(im.conv).String()+"/")
	turns := map[id.ID]*turn{} // nil: the export has the interaction
	for _, i := range o.Interactions {
		turns[i.ID] = nil
		if err := im.interaction(i.ID, i.Interaction); err != nil {
			return err
		}
	}
	for _, r := range o.Runs {
		if r.Ended.IsZero() { // it went on where it was exported, and is not continued here
			r.Ended, r.Outcome = now, "stopped"
		}
		if err := im.run(r.Interaction, r.Run); err != nil {
			return err
		}
	}
	for _, p := range o.Summaries {
		p.Branch, p.Pos = "", 0
		if err := im.ownMessage(turns, p); err != nil {
			return err
		}
	}
	for p, err := range o.Messages {
		if err == nil {
			err = branchName(p.Branch)
		}
		if err == nil {
			err = im.ownMessage(turns, p)
		}
		if err != nil {
			return im.named(err)
		}
	}
	if im.trust && !o.Signed { // only the signature at the end is wrong
		if err := im.distrustAll(); err != nil {
			return err
		}
	}
	for _, t := range turns {
		if t == nil {
			continue
		}
		if err := im.finishTurn(t, now); err != nil {
			return err
		}
	}
	if err := im.ownBranches(o); err != nil {
		return im.named(err)
	}
	if err := im.ownMarks(o); err != nil {
		return err
	}
	if !im.trust && im.engine.opt.Key != nil {
		im.note("it was changed after the export, or exported by another Steward or user: all of it is marked as untrusted")
	}
	for i := range o.Branches {
		if err := im.interrupt(&o.Branches[i], now); err != nil {
			return err
		}
	}
	return im.end()
}

// distrustAll labels what was stored already of an export whose end shows that it
// was changed.
func (im *importer) distrustAll() error {
	im.trust = false
	if err := im.flush(); err != nil {
		return err
	}
	for it, err := range store.Items(im.ctx, im.engine.store, im.sc, store.Query{Under: record.ConversationURI(im.conv)}) {
		if err != nil {
			return err
		}
		switch it.URI.Type() {
		case record.TypeMessage:
			m, err := record.DecodeMessage(it.URI, it.Body)
			if err != nil {
				return err
			}
			markUntrusted(m.Blocks)
			ch := putMessage(it.URI, m, nil)
			ch.If = store.If{Version: it.Version}
			if err := im.put(ch); err != nil {
				return err
			}
		case typeRest:
			body, err := markRestUntrusted(it.Body)
			if err != nil {
				return err
			}
			if err := im.put(store.Change{URI: it.URI, Body: body}); err != nil {
				return err
			}
		}
	}
	return im.flush()
}

// interrupt answers the calls that were open at the end of a branch when it was
// exported: what ran them is not imported.
func (im *importer) interrupt(b *record.Branch, now time.Time) error {
	if err := im.flush(); err != nil {
		return err
	}
	var tail []*message.Message // newest last
	var call Entry
	for m, err := range im.engine.walk(im.ctx, im.sc, im.conv, b, 0, true) {
		if err != nil {
			return err
		}
		tail = slices.Insert(tail, 0, m.Message)
		if m.Role != message.Tool && m.Role != message.System {
			call = m
			break
		}
	}
	for _, c := range message.Dangling(tail) {
		m := &message.Message{ID: id.New(), Role: message.Tool, At: now, Prev: tail[len(tail)-1].ID}
		m.Blocks = []message.Block{&message.ToolResult{Common: message.Common{Origin: "system"}, Call: c.Ref, CallID: c.CallID, Name: c.Name,
			Status: message.Interrupted, Content: []message.Block{&message.Text{Common: message.Common{Origin: "system"},
				Text: "It was still running when the conversation was exported."}}}}
		if _, err := im.message(call.Interaction, m, record.Point{Branch: b.ID, Pos: im.c.Last + 1}); err != nil {
			return err
		}
		im.note("a call that was still running is marked as interrupted")
		tail = append(tail, m)
	}
	return nil
}

// ownMessage imports a message. If the export does not have its interaction, as in
// version 1, the message is noted for a turn that is made in its place.
func (im *importer) ownMessage(turns map[id.ID]*turn, p importexport.Placed) error {
	t, known := turns[p.Interaction]
	switch {
	case !known && p.Interaction.Zero():
		return im.broken("message %s has no interaction", p.Message.ID)
	case !known:
		t = &turn{id: p.Interaction, origin: originOf(p.Message), branch: p.Branch}
		turns[p.Interaction] = t
	}
	if t != nil {
		t.note(p.Message)
	}
	u, err := im.message(p.Interaction, im.moved(p.Message), record.Point{Branch: p.Branch, Pos: p.Pos})
	if err != nil {
		return err
	}
	for _, r := range p.Rests {
		if r.Block < 0 || r.Block >= len(p.Message.Blocks) {
			return fmt.Errorf("message %s keeps the rest of a call that it does not make", p.Message.ID)
		}
		body := r.Body
		if !im.trust {
			if body, err = markRestUntrusted(body); err != nil {
				return fmt.Errorf("the rest of a result of message %s: %w", p.Message.ID, err)
			}
		}
		if err := im.put(store.Change{URI: u.Child(typeRest, fmt.Sprint(r.Block)), Body: body, If: store.If{Absent: true}}); err != nil {
			return err
		}
	}
	return nil
}

// markRestUntrusted labels the rest of a result, which begins with a line of JSON.
func markRestUntrusted(body []byte) ([]byte, error) {
	line, text, _ := bytes.Cut(body, []byte("\n"))
	var head struct {
		Tool   string         `json:"tool"`
		Labels message.Labels `json:"labels,omitzero"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	head.Labels = head.Labels&message.AllLabels | message.Untrusted
	line, err := json.Marshal(head)
	return append(append(line, '\n'), text...), err
}

// moved returns the message with references to its own conversation (where the
// rest of a result is stored) changed to the new one. Reasoning is not changed,
// since providers sign it.
func (im *importer) moved(m *message.Message) *message.Message {
	c := *m
	c.Blocks = message.MapBlocks(m.Blocks, func(b message.Block) message.Block {
		switch b := b.(type) {
		case *message.Text:
			c := *b
			c.Text = im.move.Replace(b.Text)
			return &c
		case *message.ToolCall:
			c := *b
			c.Args = []byte(im.move.Replace(string(b.Args)))
			return &c
		case *message.ToolResult:
			b.Rest = im.move.Replace(b.Rest)
		}
		return b
	})
	return &c
}

// branchName returns an error for text that cannot be the id of a branch.
func branchName(name string) error {
	if name != record.MainBranch {
		if _, ok := id.Parse(name); !ok {
			return fmt.Errorf("unknown branch %.40q", name)
		}
	}
	return nil
}

// ownBranches imports the branches, without summaries that are not in the export.
func (im *importer) ownBranches(o *importexport.Own) error {
	there := map[string]bool{}
	for _, b := range o.Branches {
		if err := branchName(b.ID); err != nil {
			return err
		}
		for _, s := range b.Rope {
			if err := branchName(s.Branch); err != nil {
				return err
			}
		}
		there[b.ID] = true
		b.Packed, b.Deleted = record.Point{}, time.Time{}
		if b.View.Summary = im.move.Replace(b.View.Summary); b.View.Summary != "" {
			if u, err := resource.Parse(b.View.Summary); err != nil || !u.Under(record.ConversationURI(im.conv)) {
				b.View.Summary = ""
			}
		}
		if err := im.branch(&b); err != nil {
			return err
		}
	}
	if !there[im.c.BranchID()] {
		return errors.New("its preferred branch is missing")
	}
	return nil
}

// ownMarks imports the marks and pins of messages that are in the export.
func (im *importer) ownMarks(o *importexport.Own) error {
	add := func(what string, branch string, pos int64, msg id.ID, ch store.Change) error {
		if im.places[record.Point{Branch: branch, Pos: pos}] != msg || msg.Zero() {
			im.note("a " + what + " of an unknown message is left out")
			return nil
		}
		return im.put(ch)
	}
	for _, k := range o.Marks {
		m := marked{Mark: k}
		if err := add("mark", k.Branch, k.Pos, k.Message, m.put(im.conv)); err != nil {
			return err
		}
	}
	for _, p := range o.Pins {
		if err := add("pin", p.Branch, p.Pos, p.Message, putPin(im.conv, p)); err != nil {
			return err
		}
	}
	return nil
}
