package conversation

import (
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
)

// turn is an interaction that an import creates for messages whose source has no
// interactions. It gets a run that has ended.
type turn struct {
	id            id.ID
	origin        string
	started, last time.Time
	model         string
	answered      bool
	branch        string
}

// note adds a message to the turn.
func (t *turn) note(m *message.Message) {
	if t.started.IsZero() || !m.At.IsZero() && m.At.Before(t.started) {
		t.started = m.At
	}
	if m.At.After(t.last) {
		t.last = m.At
	}
	if m.Model != "" {
		t.model = m.Model
	}
	t.answered = t.answered || m.Final
}

func originOf(m *message.Message) string {
	if len(m.Blocks) == 0 || m.Blocks[0].Base().Origin == "" {
		return record.OriginUser
	}
	return m.Blocks[0].Base().Origin
}

// finishTurn stores the interaction and its run.
func (im *importer) finishTurn(t *turn, now time.Time) error {
	if t.started.IsZero() {
		t.started = now
	}
	if t.last.Before(t.started) {
		t.last = t.started
	}
	started, ended := t.started.UTC().Truncate(time.Millisecond), t.last.UTC().Truncate(time.Millisecond)
	if err := im.interaction(t.id, record.Interaction{Started: started, Origin: t.origin}); err != nil {
		return err
	}
	r := record.Run{ID: id.New(), Agent: "import", Model: t.model, Branch: t.branch, Started: started, Ended: ended, Outcome: "stopped"}
	if t.answered {
		r.Outcome = "answered"
	}
	if r.Branch == record.MainBranch {
		r.Branch = ""
	}
	return im.run(t.id, r)
}

// maxTitle is the length at which imported titles are cut, in characters.
const maxTitle = 200

// importForeign imports a chat of another program. The path to its current node becomes
// the main branch, and each other path through its tree a branch of its own.
func (im *importer) importForeign(chat *importexport.Chat, owner string, now time.Time) error {
	fillTimes(chat, now)
	paths := branchesOf(chat)
	c := record.Conversation{Owner: owner, Created: chat.Created, Updated: chat.Updated,
		Metadata: map[string]string{"import.source": chat.Source}}
	if chat.SourceID != "" {
		c.Metadata["import.id"] = message.OneLine(chat.SourceID, maxTitle)
	}
	c.Title = message.OneLine(chat.Title, maxTitle)
	for _, n := range chat.Nodes {
		count(&c, n.Message)
		if c.Title == "" && n.Opens {
			c.Title = titleOf(n.Message)
		}
	}
	if c.Title == "" {
		c.Title = "Imported conversation"
	}
	if c.Created.IsZero() {
		c.Created = chat.Nodes[0].Message.At
	}
	for _, n := range chat.Nodes {
		if chat.Updated.IsZero() && n.Message.At.After(c.Updated) {
			c.Updated = n.Message.At
		}
	}
	if err := im.begin(c, now); err != nil {
		return err
	}
	if err := im.nodes(chat, paths, now); err != nil {
		return err
	}
	for i := range paths.all {
		if err := im.branch(&paths.all[i]); err != nil {
			return err
		}
	}
	return im.end()
}

// nodes stores the messages with their interactions.
func (im *importer) nodes(chat *importexport.Chat, paths *paths, now time.Time) error {
	turns := make([]*turn, len(chat.Nodes))
	var all []*turn
	for i, n := range chat.Nodes {
		switch {
		case !n.Opens && n.Parent >= 0:
			turns[i] = turns[n.Parent]
		default:
			turns[i] = &turn{id: id.New(), origin: originOf(n.Message), branch: paths.of[i]}
			all = append(all, turns[i])
		}
		turns[i].note(n.Message)
		if _, err := im.message(turns[i].id, n.Message, record.Point{Branch: paths.of[i], Pos: int64(i) + 1}); err != nil {
			return err
		}
		chat.Nodes[i].Message = nil // frees the memory of a long chat
	}
	for _, t := range all {
		if err := im.finishTurn(t, now); err != nil {
			return err
		}
	}
	return nil
}

// fillTimes gives a message without a time the time of the one before it.
func fillTimes(chat *importexport.Chat, now time.Time) {
	first := chat.Created
	if first.IsZero() {
		first = now
	}
	for _, n := range chat.Nodes {
		if !n.Message.At.IsZero() {
			continue
		}
		if n.Message.At = first; n.Parent >= 0 {
			n.Message.At = chat.Nodes[n.Parent].Message.At
		}
	}
}

// paths are the branches of a tree of messages.
type paths struct {
	all []record.Branch
	of  []string // by node: the branch whose list holds it, at position number + 1
}

// branchesOf makes branches of the tree of a chat. A branch continues with the
// first child of its last node; the other children begin branches of their own.
func branchesOf(chat *importexport.Chat) *paths {
	p := &paths{all: []record.Branch{{ID: record.MainBranch}}, of: make([]string, len(chat.Nodes))}
	for i := chat.Current; i >= 0; i = chat.Nodes[i].Parent {
		p.of[i] = record.MainBranch
	}
	at := map[string]int{record.MainBranch: 0} // by branch: its index in all
	continued := make([]bool, len(chat.Nodes)) // by node: its branch continues after it
	for i, n := range chat.Nodes {
		if p.of[i] != "" {
			continue
		}
		if n.Parent >= 0 && p.of[n.Parent] != record.MainBranch && !continued[n.Parent] {
			continued[n.Parent] = true
			p.of[i] = p.of[n.Parent]
			continue
		}
		b := record.Branch{ID: id.New().String(), Parent: record.MainBranch, Open: int64(i) + 1}
		if b.Created = n.Message.At.UTC().Truncate(time.Millisecond); b.Created.IsZero() {
			b.Created = chat.Created
		}
		b.Used = b.Created
		if n.Parent >= 0 {
			b.Parent, b.At = p.of[n.Parent], int64(n.Parent)+1
			b.Rope, _ = p.all[at[b.Parent]].Cut(b.Parent, b.At, true)
		}
		at[b.ID] = len(p.all)
		p.all = append(p.all, b)
		p.of[i] = b.ID
	}
	slices.SortStableFunc(p.all[1:], func(a, b record.Branch) int { return a.Created.Compare(b.Created) })
	return p
}
