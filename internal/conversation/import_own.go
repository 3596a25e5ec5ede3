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

// distrustAll marks what is stored already of an export that, as its end
// tells, was changed.
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
			distrust(m.Blocks)
			ch := putMessage(it.URI, m, nil)
			ch.If = store.If{Version: it.Version}
			if err := im.put(ch); err != nil {
				return err
			}
		case typeRest:
			body, err := distrustRest(it.Body)
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

// own imports Steward's own export.
func (im *importer) own(o *importexport.Own, owner string, now time.Time) error {
	c := o.Conversation
	c.Owner, im.trust = owner, o.Signed
	if err := im.begin(c, now); err != nil {
		return err
	}
	old := record.ConversationURI(o.Conversation.ID).String() + "/"
	move := strings.NewReplacer(old, record.ConversationURI(im.conv).String()+"/")
	known := map[id.ID]bool{}
	for _, i := range o.Interactions {
		known[i.ID] = true
		if err := im.interaction(i.ID, i.Interaction); err != nil {
			return err
		}
	}
	if err := im.ownRuns(o, now); err != nil {
		return err
	}
	synthetic := map[id.ID]*turn{}
	add := func(p importexport.Placed) error {
		if !known[p.Interaction] {
			return im.synthesize(synthetic, p)
		}
		return nil
	}
	for _, p := range o.Summaries {
		if err := add(p); err != nil {
			return err
		}
		if _, err := im.message(p.Interaction, moved(move, p.Message), record.Point{}); err != nil {
			return err
		}
	}
	for p, err := range o.Messages {
		if err == nil {
			err = branchName(p.Branch)
		}
		if err == nil {
			err = add(p)
		}
		if err == nil {
			err = im.ownMessage(move, p)
		}
		if err != nil {
			return im.named(err)
		}
	}
	if im.trust && !o.Signed {
		if err := im.distrustAll(); err != nil {
			return err
		}
	}
	for _, t := range synthetic {
		if err := im.finishTurn(t, now); err != nil {
			return err
		}
	}
	if err := im.ownBranches(o, move); err != nil {
		return im.named(err)
	}
	if err := im.ownMarks(o); err != nil {
		return err
	}
	if !im.trust && im.engine.opt.Key != nil {
		im.note("it is not as this Steward exported it for you: all of it is marked as untrusted")
	}
	for i := range o.Branches {
		if err := im.interrupt(&o.Branches[i], now); err != nil {
			return err
		}
	}
	return im.end()
}

// interrupt answers the calls that were open at the end of a branch when it
// was exported: what runs them is not imported.
func (im *importer) interrupt(b *record.Branch, now time.Time) error {
	if err := im.flush(); err != nil {
		return err
	}
	var tail []*message.Message // newest last
	var call Entry
	for after := store.Cursor(""); ; {
		page, next, err := im.engine.page(im.ctx, im.sc, im.conv, b, after, 0, true)
		if err != nil {
			return err
		}
		for _, m := range page {
			tail = slices.Insert(tail, 0, m.Message)
			if m.Role != message.Tool && m.Role != message.System {
				call, next = m, ""
				break
			}
		}
		if after = next; after == "" {
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

// ownRuns imports runs. One that had not ended is not taken up: what it was
// about to do has been done where it ran, or was not meant to be done here.
func (im *importer) ownRuns(o *importexport.Own, now time.Time) error {
	for _, r := range o.Runs {
		if r.Ended.IsZero() {
			r.Ended, r.Outcome = now, "stopped"
		}
		if err := im.run(r.Interaction, r.Run); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) ownMessage(move *strings.Replacer, p importexport.Placed) error {
	u, err := im.message(p.Interaction, moved(move, p.Message), record.Point{Branch: p.Branch, Pos: p.Pos})
	if err != nil {
		return err
	}
	for _, r := range p.Rests {
		if r.Block < 0 || r.Block >= len(p.Message.Blocks) {
			return fmt.Errorf("message %s keeps the rest of a call that it does not make", p.Message.ID)
		}
		body := r.Body
		if !im.trust {
			if body, err = distrustRest(body); err != nil {
				return fmt.Errorf("the rest of a result of message %s: %w", p.Message.ID, err)
			}
		}
		if err := im.put(store.Change{URI: u.Child(typeRest, fmt.Sprint(r.Block)), Body: body, If: store.If{Absent: true}}); err != nil {
			return err
		}
	}
	return nil
}

// distrustRest marks the rest of a result, which begins with a line about it.
func distrustRest(body []byte) ([]byte, error) {
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

// moved returns the message with the places in its own conversation that it
// names (where the rest of a cut result lies) told as places in the new one.
// Reasoning stays as it is: providers sign it.
func moved(move *strings.Replacer, m *message.Message) *message.Message {
	blocks, changed := movedBlocks(move, m.Blocks)
	if !changed {
		return m
	}
	c := *m
	c.Blocks = blocks
	return &c
}

func movedBlocks(move *strings.Replacer, blocks []message.Block) (out []message.Block, changed bool) {
	out = slices.Clone(blocks)
	for i, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			if text := move.Replace(b.Text); text != b.Text {
				c := *b
				c.Text = text
				out[i], changed = &c, true
			}
		case *message.ToolCall:
			if args := move.Replace(string(b.Args)); args != string(b.Args) {
				c := *b
				c.Args = []byte(args)
				out[i], changed = &c, true
			}
		case *message.ToolResult:
			c := *b
			c.Rest = move.Replace(b.Rest)
			var within bool
			if c.Content, within = movedBlocks(move, b.Content); within || c.Rest != b.Rest {
				out[i], changed = &c, true
			}
		}
	}
	return out, changed
}

// branchName refuses what cannot be the id of a branch.
func branchName(name string) error {
	if name != record.MainBranch {
		if _, ok := id.Parse(name); !ok {
			return fmt.Errorf("%.40q is no branch", name)
		}
	}
	return nil
}

func (im *importer) ownBranches(o *importexport.Own, move *strings.Replacer) error {
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
		if b.View.Summary = move.Replace(b.View.Summary); b.View.Summary != "" {
			if u, err := resource.Parse(b.View.Summary); err != nil || !u.Under(record.ConversationURI(im.conv)) {
				b.View.Summary = ""
			}
		}
		if err := im.branch(&b); err != nil {
			return err
		}
	}
	if !there[im.c.BranchID()] {
		return errors.New("the branch that it goes on with is not in it")
	}
	return nil
}

// ownMarks imports marks and pins of messages that are there.
func (im *importer) ownMarks(o *importexport.Own) error {
	for _, k := range o.Marks {
		if im.places[record.Point{Branch: k.Branch, Pos: k.Pos}] != k.Message || k.Message.Zero() {
			im.note("a mark of a message that is not there is left out")
			continue
		}
		m := marked{Mark: k}
		if err := im.put(m.put(im.conv)); err != nil {
			return err
		}
	}
	for _, p := range o.Pins {
		if im.places[record.Point{Branch: p.Branch, Pos: p.Pos}] != p.Message || p.Message.Zero() {
			im.note("a pin of a message that is not there is left out")
			continue
		}
		if err := im.put(putPin(im.conv, p)); err != nil {
			return err
		}
	}
	return nil
}
