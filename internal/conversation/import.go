package conversation

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"
	"unicode"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
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
	Notes        []importexport.Note
}

// Import makes a conversation of a chat that package importexport has read: a new
// one, of the scope's own space. Of Steward's own export the ids of messages,
// interactions and branches stay, since they lie below the conversation's.
// Until all is stored the conversation counts as deleted: what a crash or an
// error leaves is not seen, and Purge erases it. Runs that had not ended when
// they were exported are ended, not continued. Error codes:
// import_chat_broken, import_not_json, import_unreadable, import_too_large.
func (e *Engine) Import(ctx context.Context, sc store.Scope, owner string, chat *importexport.Chat) (Imported, error) {
	im := e.importer(ctx, sc)
	im.notes, im.sc.Actor = chat.Notes, actorImport+sc.Actor
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
	batch
	conv     id.ID
	version  uint64 // of the conversation's resource
	c        record.Conversation
	branches int
	notes    []importexport.Note
	trust    bool // it comes back as this Steward exported it for the same space

	seen   map[id.ID]bool         // messages
	places map[record.Point]id.ID // what stands where
}

// importer begins a conversation.
func (e *Engine) importer(ctx context.Context, sc store.Scope) *importer {
	return &importer{batch: batch{engine: e, ctx: ctx, sc: sc}, conv: id.New(), seen: map[id.ID]bool{}, places: map[record.Point]id.ID{}}
}

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
func (im *importer) put(ch store.Change) error { return im.once(im.add(ch)) }

func (im *importer) flush() error { return im.once(im.batch.flush()) }

// once says of what stands in the way of a commit that it is twice there.
func (im *importer) once(err error) error {
	if fault.Is(err, fault.Conflict) {
		return im.broken("it names something twice: %v", err)
	}
	return err
}

func (im *importer) broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "import_chat_broken", "the conversation cannot be imported: "+format, args...).
		WithHint("export it again; what was edited by hand must keep every id, and every position, once")
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

// named makes an error of the importer of what only says what is wrong.
func (im *importer) named(err error) error {
	if fault.Of(err).Code != "internal" {
		return err
	}
	return im.broken("%v", err)
}

func (im *importer) note(text string) {
	for i := range im.notes {
		if im.notes[i].Text == text {
			im.notes[i].Count++
			return
		}
	}
	im.notes = append(im.notes, importexport.Note{Text: text, Count: 1})
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
func (e *Engine) ImportAll(ctx context.Context, sc store.Scope, owner string, r io.Reader, o importexport.Options) iter.Seq2[Imported, error] {
	return func(yield func(Imported, error) bool) {
		var err error
		if o.Seal, err = e.seal(sc); err != nil {
			yield(Imported{}, err)
			return
		}
		o.Codecs = e.opt.Codecs
		for chat, err := range importexport.Read(r, o) {
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
