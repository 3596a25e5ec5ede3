package turn

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/llm/tokens"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// maxPieces bounds how many messages a context lists one by one. The earlier ones are one piece.
const maxPieces = 1000

// Context returns what the next model call of a conversation would send if the person wrote nothing more, how its
// budget is divided, and why each piece is there. It makes the request of that call with the code that makes
// those of turns, and takes it apart. It records nothing, asks no model, and also reads a conversation whose
// turn is running.
func (e *Engine) Context(ctx context.Context, user string, conv id.ID) (client.Context, error) {
	sc := store.ForUser(user)
	s, err := e.conversations.Open(ctx, sc, conv)
	if err != nil {
		return client.Context{}, err
	}
	stored := s.Conversation()
	rc, _, err := requests.Lineage(ctx, e.opt.Store, sc, stored, id.ID{})
	if err != nil {
		return client.Context{}, err
	}
	c := e.Enter(user, conv)
	defer e.Exit(c)
	run := record.Run{ID: id.New(), Attended: true, Agent: cmp.Or(stored.Agent, kits.DefaultAgent), Model: stored.Model}
	job, fit, err := e.newJob(ctx, c, s, &run, rc, e.NewAccount(user, resource.URI{}))
	if err != nil {
		return client.Context{}, err
	}
	fit.preview = true
	if fit.recalled != nil {
		fit.recalled.recalls = &recalls{} // of this session, which is not that of turns
	}
	full := fit.Over(ctx)
	x := &contextReader{fitter: fit, counter: fit.counter()}
	if err := x.read(ctx, &job); err != nil {
		return client.Context{}, err
	}
	return x.context(full), nil
}

// contextReader takes the request of a model call apart.
type contextReader struct {
	*fitter
	counter tokens.Counter
	pieces  []client.ContextPiece
	facts   map[id.ID]*record.Fact
}

// read takes the next request of a job apart.
func (x *contextReader) read(ctx context.Context, job *agent.Job) error {
	req := job.Request()
	for _, p := range x.parts {
		x.add(client.ContextPiece{Category: client.ContextSystem, Name: p.name, Why: p.why, Tokens: x.counter.Text(p.text), Bytes: int64(len(p.text))})
	}
	for i, spec := range req.Tools.Specs() {
		x.add(client.ContextPiece{Category: client.ContextTools, Name: spec.Name, Why: x.whyTool(i), Tokens: x.counter.Parts(tokens.OfTool(&spec)),
			Bytes: int64(len(spec.Name) + len(spec.Description) + len(spec.Input))})
	}
	return x.readMessages(ctx, req.Transcript)
}

func (x *contextReader) add(p client.ContextPiece) { x.pieces = append(x.pieces, p) }

func (x *contextReader) whyTool(at int) string {
	if llm.Offline(x.models) {
		return "the built-in model compares all tools itself"
	}
	return x.Choice.Why(at)
}

// readMessages takes the messages apart: those that name what was recalled into facts.
func (x *contextReader) readMessages(ctx context.Context, sent *llm.Transcript) error {
	stored, err := x.session.Transcript().All()
	if err != nil {
		return err
	}
	shown, err := sent.All()
	if err != nil {
		return err
	}
	entries, before, err := x.session.Shown(ctx)
	if err != nil {
		return err
	}
	if x.recalled != nil {
		if x.facts, err = x.engine.opt.Memory.Facts(ctx, x.user); err != nil {
			return err
		}
	}
	byID := make(map[id.ID]*conversation.Entry, len(entries))
	for i := range entries {
		byID[entries[i].ID] = &entries[i]
	}
	var earlier client.ContextPiece
	for i, m := range shown {
		if records(stored[i]) && x.recalled != nil {
			x.addRecalled(m, RecalledBy(stored[i]), recalledPassages(stored[i]))
			continue
		}
		p := x.messagePiece(m, byID[m.ID], before)
		if i < len(shown)-maxPieces {
			earlier.Count++
			earlier.Tokens, earlier.Bytes = earlier.Tokens+p.Tokens, earlier.Bytes+p.Bytes
			continue
		}
		if earlier.Count > 0 {
			earlier.Category, earlier.Name, earlier.Why = client.ContextMessages, "earlier messages", "in the window"
			x.add(earlier)
			earlier = client.ContextPiece{}
		}
		x.add(p)
	}
	hidden := len(entries)
	for _, m := range stored {
		if byID[m.ID] != nil {
			hidden--
		}
	}
	if hidden > 0 {
		x.add(client.ContextPiece{Category: client.ContextMessages, Name: "not shown", Why: "superseded, archived or deleted", Count: hidden})
	}
	return nil
}

// messagePiece describes a message as it is sent. e is its record; nil: Steward wrote it for the model.
func (x *contextReader) messagePiece(m *message.Message, e *conversation.Entry, before int) client.ContextPiece {
	p := client.ContextPiece{Category: client.ContextMessages, Role: string(m.Role), Name: excerpt(m, 100), Tokens: x.counter.Message(m),
		Bytes: int64(agent.SizeOf(m.Blocks)), Labels: message.LabelsOf(m.Blocks).Names()}
	if e != nil {
		p.URI = e.URI(x.conversation.ID).String()
	}
	result := m.Result()
	switch {
	case e == nil && before > 0 && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == "system":
		p.Why = fmt.Sprintf("stands for %d older messages, which the window has no room for", before)
	case e == nil:
		p.Why = "Steward's note to the model"
	case result != nil && e.Change.State == record.Invalidated:
		p.Why = "the result is obsolete: only this line is left of it"
	case result != nil && e.Message.Result() != nil && len(result.Text()) < len(e.Message.Result().Text()):
		p.Why = fmt.Sprintf("shortened from %d bytes; the model can read the rest", len(e.Message.Result().Text()))
	case e.Pinned:
		p.Why = "pinned: it stays however full the window is"
	default:
		p.Why = "valid, in full"
	}
	return p
}

// addRecalled adds the facts and passages that a message names, and what the message says around them.
func (x *contextReader) addRecalled(m *message.Message, refs []memory.Ref, passages []memory.PassageRef) {
	first := len(x.pieces)
	left, bytes := x.counter.Message(m), int64(agent.SizeOf(m.Blocks))
	for _, r := range refs {
		p := client.ContextPiece{Category: client.ContextFacts, URI: record.FactURI(r.Fact).String()}
		f := x.facts[r.Fact]
		if f == nil {
			p.Name, p.Why = "[forgotten]", "it was forgotten since"
		} else {
			line := memory.Line(f, r.Revision, x.recalled.zone)
			p.Name, _ = f.At(r.Revision)
			p.Why, p.Tokens, p.Bytes, p.Labels = x.whyFact(f, r), x.counter.Text(line), int64(len(line)), f.EffectiveLabels().Names()
			if f.EffectiveLabels().Has(message.Secret) {
				p.Name = secretText
			}
		}
		if r.Profile {
			p.Category = client.ContextProfile
		}
		left, bytes = left-p.Tokens, bytes-p.Bytes
		x.add(p)
	}
	said := x.recalled.said(x.engine.opt.Memory.Epoch(), passages)
	for _, ref := range passages {
		piece := client.ContextPiece{Category: client.ContextPassages, URI: ref.URI().String(), Name: "[erased]", Why: "it was erased since"}
		if p, ok := said[ref]; ok {
			line := p.Line(x.recalled.zone)
			piece.Name, piece.Tokens, piece.Bytes, piece.Labels = p.Text, x.counter.Text(line), int64(len(line)), p.Labels.Names()
			piece.Why = fmt.Sprintf("you said it on %s in %s", p.At.In(x.recalled.zone).Format(time.DateOnly), ref.Conversation)
		}
		left, bytes = left-piece.Tokens, bytes-piece.Bytes
		x.add(piece)
	}
	if len(x.pieces) > first && left > 0 {
		x.add(client.ContextPiece{Category: x.pieces[first].Category, Name: "headings", Why: "say what was recalled", Tokens: left, Bytes: max(bytes, 0)})
	}
}

// whyFact says why a fact was recalled, when it was said and where, and what has become of it since.
func (x *contextReader) whyFact(f *record.Fact, r memory.Ref) string {
	var parts []string
	switch {
	case f.Foreign():
		parts = append(parts, "others wrote it")
	case f.As(r.Revision).Type == record.FactInstruction:
		parts = append(parts, "standing instruction")
	case r.Profile:
		parts = append(parts, fmt.Sprintf("importance %g", f.Importance))
	}
	switch {
	case r.Profile:
	case r.Similar < memory.RecallSimilar && len(parts) == 0:
		parts = append(parts, "corrects what was recalled before")
	case r.Similar >= memory.RecallSimilar:
		parts = append(parts, fmt.Sprintf("similarity %.2f", r.Similar))
	}
	_, from := f.At(r.Revision)
	said := "saved on " + from.In(x.recalled.zone).Format(time.DateOnly)
	if u, err := resource.Parse(f.Source); err == nil && f.Source != "" {
		said = "said on " + from.In(x.recalled.zone).Format(time.DateOnly)
		if conv := record.IDOf(u, record.TypeConversation); !conv.Zero() {
			said += " in " + conv.String()
		}
	}
	parts = append(parts, said)
	switch {
	case f.Revision != r.Revision:
		parts = append(parts, "edited since")
	case !f.Current(time.Now()):
		parts = append(parts, "no longer true")
	}
	return strings.Join(parts, ", ")
}

// context sums the pieces up.
func (x *contextReader) context(full bool) client.Context {
	b := x.budget()
	out := client.Context{Conversation: x.conversation.ID.String(), Agent: x.agent, Model: x.models[0], Window: b.Window, Counted: string(x.counter.Kind()),
		Full: full, Pieces: x.pieces}
	if out.Pieces == nil {
		out.Pieces = []client.ContextPiece{}
	}
	out.Categories = []client.ContextCategory{{Name: client.ContextSystem}, {Name: client.ContextProfile, Most: b.Profile},
		{Name: client.ContextFacts, Most: b.Facts, Each: true}, {Name: client.ContextPassages, Most: b.Passages, Each: true},
		{Name: client.ContextTools, Most: b.Tools}, {Name: client.ContextMessages}, {Name: client.ContextAnswer, Tokens: b.Answer}}
	for i := range out.Categories {
		c := &out.Categories[i]
		for _, p := range x.pieces {
			if p.Category == c.Name {
				c.Pieces, c.Tokens, c.Bytes = c.Pieces+max(p.Count, 1), c.Tokens+p.Tokens, c.Bytes+p.Bytes
				out.Tokens += p.Tokens
			}
		}
	}
	out.Free = max(b.Room-out.Tokens, 0)
	return out
}

// secretText takes the place of what is marked as secret.
const secretText = "[secret]"

// excerpt returns the beginning of what a message says, on one line.
func excerpt(m *message.Message, most int) string {
	if message.LabelsOf(m.Blocks).Has(message.Secret) {
		return secretText
	}
	text := m.Text()
	if r := m.Result(); r != nil {
		text = r.Name + ": " + r.Text()
	}
	for _, call := range m.Calls() {
		text = strings.TrimSpace(text + " " + call.Name + " " + string(call.Args))
	}
	return message.OneLine(text, most)
}
