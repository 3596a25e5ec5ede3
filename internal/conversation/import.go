package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"

	"steward/internal/exchange"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Imported is a conversation that was imported.
type Imported struct {
	Conversation record.Conversation
	Source       string
	Stored       int // messages, those of all branches
	Branches     int
	Notes        []exchange.Note
}

// Import makes a conversation of a chat that package exchange has read: a new
// one, of the scope's own space. Of Steward's own export the ids of messages,
// interactions and branches stay, since they lie below the conversation's.
// Until all is stored the conversation counts as deleted: what a crash or an
// error leaves is not seen, and Purge erases it. Runs that had not ended when
// they were exported are ended, not continued. Error codes:
// import_chat_broken, import_not_json, import_unreadable, import_too_large.
func (e *Engine) Import(ctx context.Context, sc store.Scope, owner string, chat *exchange.Chat) (Imported, error) {
	im := &importer{engine: e, ctx: ctx, sc: sc, conv: id.New(), seen: map[id.ID]bool{}, places: map[record.Point]id.ID{}, notes: chat.Notes}
	im.sc.Actor = actorImport + sc.Actor
	now := time.Now().UTC().Truncate(time.Millisecond)
	var err error
	if chat.Own != nil {
		err = im.own(chat.Own, owner, now)
	} else {
		err = im.foreign(chat, owner, now)
	}
	if err != nil {
		return Imported{}, err
	}
	return Imported{Conversation: im.c, Source: chat.Source, Stored: len(im.seen), Branches: im.branches, Notes: im.notes}, nil
}

// actorImport begins the actor of entries that an import made: what they tell
// of model calls was used elsewhere or earlier, and counts for no budget.
const actorImport = "import:"

// importer writes one conversation.
type importer struct {
	engine   *Engine
	ctx      context.Context
	sc       store.Scope
	conv     id.ID
	version  uint64 // of the conversation's resource
	c        record.Conversation
	branches int
	notes    []exchange.Note
	trust    bool // it comes back as this Steward exported it for the same space

	batch  []store.Change
	bytes  int
	seen   map[id.ID]bool         // messages
	places map[record.Point]id.ID // what stands where
}

// Bounds of one commit of an import.
const (
	importBatch = 500
	importBytes = 4 << 20
)

// begin stores the conversation, hidden.
func (im *importer) begin(c record.Conversation, now time.Time) error {
	c.Asked = resource.URI{} // it is a person's now
	im.c = c
	c.ID, c.Title, c.Deleted = im.conv, "(an import that was not finished)", now
	ch := putConversation(&c, store.If{Absent: true})
	rec, err := im.engine.store.Commit(im.ctx, im.sc, store.Batch{Changes: []store.Change{ch}})
	if err == nil {
		im.version = rec.Versions[0]
	}
	return err
}

// end stores what is left, and shows the conversation.
func (im *importer) end() error {
	if err := im.flush(); err != nil {
		return err
	}
	im.c.ID, im.c.Deleted = im.conv, time.Time{}
	_, err := im.engine.store.Commit(im.ctx, im.sc, store.Batch{Changes: []store.Change{putConversation(&im.c, store.If{Version: im.version})}})
	return err
}

// put adds a change, and commits what has gathered when it is enough.
func (im *importer) put(ch store.Change) error {
	im.batch = append(im.batch, ch)
	im.bytes += len(ch.Body)
	if len(im.batch) < importBatch && im.bytes < importBytes {
		return nil
	}
	return im.flush()
}

func (im *importer) flush() error {
	if len(im.batch) == 0 {
		return nil
	}
	_, err := im.engine.store.Commit(im.ctx, im.sc, store.Batch{Changes: im.batch})
	if fault.Is(err, fault.Conflict) {
		err = im.broken("it names something twice: %v", err)
	}
	im.batch, im.bytes = im.batch[:0], 0
	return err
}

func (im *importer) broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "import_chat_broken", "the conversation cannot be imported: "+format, args...).
		With("export it again; what was edited by hand must keep every id, and every position, once")
}

func (im *importer) interaction(x id.ID, i record.Interaction) error {
	return im.put(store.Change{URI: record.InteractionURI(im.conv, x), Body: record.Encode(i), If: store.If{Absent: true}})
}

func (im *importer) run(inter id.ID, r record.Run) error {
	u := record.InteractionURI(im.conv, inter).ChildID(record.TypeRun, r.ID)
	return im.put(store.Change{URI: u, Body: record.Encode(r), If: store.If{Absent: true}})
}

func (im *importer) branch(b *record.Branch) error {
	im.branches++
	return im.put(putBranch(im.conv, b, store.If{Absent: true}))
}

// message stores a message at a position of a branch's list, or, without a
// branch, in none.
func (im *importer) message(inter id.ID, m *message.Message, at record.Point) (resource.URI, error) {
	u := record.InteractionURI(im.conv, inter).ChildID(record.TypeMessage, m.ID)
	switch {
	case m.ID.Zero():
		return u, im.broken("a message has no id")
	case im.seen[m.ID]:
		return u, im.broken("the message %s is in it twice", m.ID)
	}
	var place *store.Place
	if at.Branch != "" {
		im.seen[m.ID] = true
		if _, taken := im.places[at]; taken || at.Pos < 1 {
			return u, im.broken("the position %d of the branch %s is no place for the message %s", at.Pos, at.Branch, m.ID)
		}
		im.places[at] = m.ID
		place = &store.Place{List: record.BranchURI(im.conv, at.Branch), Pos: at.Pos}
		im.c.Last = max(im.c.Last, at.Pos)
	}
	if !im.trust {
		distrust(m.Blocks)
	}
	return u, im.put(putMessage(u, m, place))
}

// distrust marks what came with a file: whoever wrote the file may have written
// anything into it, in anybody's name.
func distrust(blocks []message.Block) {
	for _, b := range blocks {
		b.Base().Labels |= message.Untrusted
		if r, ok := b.(*message.ToolResult); ok {
			distrust(r.Content)
		}
	}
}

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
func (im *importer) own(o *exchange.Own, owner string, now time.Time) error {
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
	add := func(p exchange.Placed) error {
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

// named makes an error of the importer of what only says what is wrong.
func (im *importer) named(err error) error {
	if fault.Of(err).Code != "internal" {
		return err
	}
	return im.broken("%v", err)
}

// ownRuns imports runs. One that had not ended is not taken up: what it was
// about to do has been done where it ran, or was not meant to be done here.
func (im *importer) ownRuns(o *exchange.Own, now time.Time) error {
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

func (im *importer) ownMessage(move *strings.Replacer, p exchange.Placed) error {
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

func (im *importer) ownBranches(o *exchange.Own, move *strings.Replacer) error {
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
func (im *importer) ownMarks(o *exchange.Own) error {
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

func (im *importer) note(text string) {
	for i := range im.notes {
		if im.notes[i].Text == text {
			im.notes[i].Count++
			return
		}
	}
	im.notes = append(im.notes, exchange.Note{Text: text, Count: 1})
}

// oneLine makes a title of a text: one line, of at most so many characters as
// a title may have.
func oneLine(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	runes := []rune(strings.Join(strings.Fields(s), " "))
	return string(runes[:min(len(runes), most)])
}

// ImportAll imports all chats of a file. An error that concerns one of them
// does not end the sequence; one of the store, or of the context, does.
func (e *Engine) ImportAll(ctx context.Context, sc store.Scope, owner string, r io.Reader, o exchange.Options) iter.Seq2[Imported, error] {
	return func(yield func(Imported, error) bool) {
		var err error
		if o.Seal, err = e.seal(sc); err != nil {
			yield(Imported{}, err)
			return
		}
		for chat, err := range exchange.Read(r, o) {
			var got Imported
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				got, err = e.Import(ctx, sc, owner, chat)
			}
			ours := err == nil || strings.HasPrefix(fault.Of(err).Code, "import_")
			if !yield(got, err) || !ours {
				return
			}
		}
	}
}
