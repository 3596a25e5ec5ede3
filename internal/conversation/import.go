package conversation

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

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
	Stored       int // messages of all branches
	Branches     int
	Notes        []importexport.Note
}

// Import stores a chat that package importexport has read as a new conversation in
// the scope's own space. Messages, interactions and branches of Steward's own
// export keep their ids, which are unique below the new conversation's. Until
// everything is stored, the conversation counts as deleted: what a crash or an
// error leaves is not visible, and Purge erases it. Runs that had not ended when
// they were exported are ended, not continued. Error codes: import_chat_broken,
// import_not_json, import_unreadable, import_too_large.
func (e *Engine) Import(ctx context.Context, sc store.Scope, owner string, chat *importexport.Chat) (Imported, error) {
	im := e.importer(ctx, sc)
	im.notes, im.mine, im.sc.Actor = chat.Notes, chat.Mine, actorImport+sc.Actor
	now := time.Now().UTC().Truncate(time.Millisecond)
	var err error
	if chat.Own != nil {
		err = im.importOwn(chat.Own, owner, now)
	} else {
		err = im.importForeign(chat, owner, now)
	}
	if err != nil {
		return Imported{}, err
	}
	return Imported{Conversation: im.c, Source: chat.Source, Stored: len(im.seen), Branches: im.branches, Notes: im.notes}, nil
}

// actorImport begins the actor of entries that an import or a copy wrote. The usage
// of their model calls was counted elsewhere or earlier, so Usage leaves it out.
const actorImport = "import:"

// importer writes one conversation.
type importer struct {
	batch
	conv     id.ID
	version  uint64 // of the conversation's resource
	c        record.Conversation
	branches int
	notes    []importexport.Note
	mine     bool              // the importing person vouches for what the user has written in it
	trust    bool              // this Steward exported it for the same space, and it is unchanged
	move     *strings.Replacer // changes URIs of the exported conversation to the new one's

	seen   map[id.ID]bool         // messages
	places map[record.Point]id.ID // the message at each position
}

// importer returns an importer of one conversation.
func (e *Engine) importer(ctx context.Context, sc store.Scope) *importer {
	return &importer{batch: batch{engine: e, ctx: ctx, sc: sc}, conv: id.New(), seen: map[id.ID]bool{}, places: map[record.Point]id.ID{}}
}

// begin stores the conversation, hidden.
func (im *importer) begin(c record.Conversation, now time.Time) error {
	c.Asked = resource.URI{} // the importing user owns it now
	im.c = c
	c.ID, c.Title, c.Deleted = im.conv, "(an import that was not finished)", now
	ch := putConversation(&c, store.If{Absent: true})
	rec, err := im.engine.store.Commit(im.ctx, im.sc, store.Batch{Changes: []store.Change{ch}})
	if err == nil {
		im.version = rec.Versions[0]
	}
	return err
}

// end stores the remaining changes and makes the conversation visible.
func (im *importer) end() error {
	if err := im.flush(); err != nil {
		return err
	}
	im.c.ID, im.c.Deleted = im.conv, time.Time{}
	_, err := im.engine.store.Commit(im.ctx, im.sc, store.Batch{Changes: []store.Change{putConversation(&im.c, store.If{Version: im.version})}})
	return err
}

// put adds a change. It commits when enough have been collected.
func (im *importer) put(ch store.Change) error { return im.explainConflict(im.add(ch)) }

func (im *importer) flush() error { return im.explainConflict(im.batch.flush()) }

// explainConflict converts a conflict of a commit: the conversation is new, so the chat itself
// has something twice.
func (im *importer) explainConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return im.broken("duplicate entry: %v", err)
	}
	return err
}

func (im *importer) broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "import_chat_broken", "the conversation cannot be imported: "+format, args...).
		WithHint("export it again; an edited export must keep every id and every position exactly once")
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

// message stores a message at a position of a branch's list, or in no list if
// there is no branch.
func (im *importer) message(inter id.ID, m *message.Message, at record.Point) (resource.URI, error) {
	u := record.InteractionURI(im.conv, inter).ChildID(record.TypeMessage, m.ID)
	switch {
	case m.ID.Zero():
		return u, im.broken("a message has no id")
	case im.seen[m.ID]:
		return u, im.broken("duplicate message %s", m.ID)
	}
	var place *store.Place
	if at.Branch != "" {
		im.seen[m.ID] = true
		if _, taken := im.places[at]; taken || at.Pos < 1 {
			return u, im.broken("invalid position %d on the branch %s for the message %s", at.Pos, at.Branch, m.ID)
		}
		im.places[at] = m.ID
		place = &store.Place{List: record.BranchURI(im.conv, at.Branch), Pos: at.Pos}
		im.c.Last = max(im.c.Last, at.Pos)
	}
	if !im.trust {
		for i, b := range m.Blocks {
			if im.mine && m.Role == message.User && b.Base().Origin == record.OriginUser {
				continue
			}
			markUntrusted(m.Blocks[i : i+1])
		}
	}
	return u, im.put(putMessage(u, m, place))
}

// markUntrusted labels blocks from a file as untrusted: the file may contain anything,
// under any name.
func markUntrusted(blocks []message.Block) {
	for _, b := range blocks {
		b.Base().Labels |= message.Untrusted
		if r, ok := b.(*message.ToolResult); ok {
			markUntrusted(r.Content)
		}
	}
}

// named converts an error without a code to one of the importer.
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

// ImportAll imports all chats of a file. An error that concerns one chat does not
// end the sequence; an error of the store or the context does.
func (e *Engine) ImportAll(ctx context.Context, sc store.Scope, owner string, r io.Reader, o importexport.Options) iter.Seq2[Imported, error] {
	return func(yield func(Imported, error) bool) {
		var err error
		if o.Seal, err = e.seal(sc); err != nil {
			yield(Imported{}, err)
			return
		}
		o.Codecs = e.opt.Codecs
		for chat, err := range importexport.Read(ctx, r, o) {
			var got Imported
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				chat.Mine = o.Mine
				got, err = e.Import(ctx, sc, owner, chat)
			}
			ours := err == nil || strings.HasPrefix(fault.Of(err).Code, "import_")
			if !yield(got, err) || !ours {
				return
			}
		}
	}
}
