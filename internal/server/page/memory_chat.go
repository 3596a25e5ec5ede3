package page

import (
	"strconv"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/turn"
)

// What a conversation recalls and saves is told in quiet lines of its thread: one for each recall, r-MESSAGE, and
// one for each fact that was saved, f-FACT.

// onChat says that a button is in the thread of a conversation.
const onChat = "chat"

func memoryLineID(fact string) string { return "f-" + fact }

// factLine tells about one fact.
func (v *visit) factLine(did string, f *client.FactNews) g.Node {
	var says g.Node
	link := A(Href("/memory/facts/"+f.ID), ownText(short(f.Text, 200)))
	switch did {
	case client.MemorySaved:
		says = g.Group{g.Text(v.t("Remembered:") + " "), link}
	case client.MemoryUndone:
		says = g.Group{g.Text(v.t("No longer remembered:") + " "), g.El("s", ownText(short(f.Text, 200)))}
	default:
		says = g.Text(v.t("A fact was forgotten."))
	}
	return Div(ID(memoryLineID(f.ID)), Class("notice remembered"), v.icon("memory"), Span(says),
		g.If(did == client.MemorySaved && f.Change != "", v.button("fact-undo", v.t("Undo"), "quiet", "id", f.ID, "change", f.Change, "where", onChat)))
}

// recallLine tells which facts a turn has recalled.
func (v *visit) recallLine(m id.ID, facts []client.FactNews) g.Node {
	if len(facts) == 0 {
		return nil
	}
	return Details(ID("r-"+m.String()), Class("notice remembered"), Summary(v.icon("memory"), g.Text(v.t("Facts recalled: {n}", strconv.Itoa(len(facts))))),
		Ul(g.Map(facts, func(f client.FactNews) g.Node { return Li(A(Href("/memory/facts/"+f.ID), ownText(short(f.Text, 200)))) })))
}

// memoryFrame shows what a running conversation has done with facts.
func (v *visit) memoryFrame(f *turn.Frame) (out []patch) {
	if f.Memory == nil {
		return nil
	}
	if f.Memory.Did == client.MemoryRecalled {
		if n := v.recallLine(f.Message, f.Memory.Facts); n != nil && !f.Message.Zero() {
			out = append(out, put("r-"+f.Message.String(), threadID, n))
		}
		return out
	}
	for i := range f.Memory.Facts {
		x := &f.Memory.Facts[i]
		out = append(out, put(memoryLineID(x.ID), threadID, v.factLine(f.Memory.Did, x)))
	}
	return out
}

// remembered is what a conversation has recalled and saved, for its history.
type remembered struct {
	recalled map[string]client.FactNews // by the id of the fact
	saved    map[id.ID][]client.FactNews
	waiting  []g.Node // lines that the next message of the person comes after
}

func (v *visit) remembered(conv id.ID) *remembered {
	out := &remembered{recalled: map[string]client.FactNews{}, saved: map[id.ID][]client.FactNews{}}
	m, err := v.api().ConversationMemory(v.ctx(), conv.String())
	if err != nil {
		return out // the conversation can be read without it
	}
	for _, f := range m.Recalled {
		out.recalled[f.ID] = f
	}
	for _, f := range m.Saved {
		if at, err := resource.Parse(f.Source); err == nil {
			from := record.IDOf(at, record.TypeMessage)
			out.saved[from] = append(out.saved[from], f)
		}
	}
	return out
}

// lines returns the lines that belong before a message, and after those before it.
func (r *remembered) lines(v *visit, m *message.Message) (out []g.Node) {
	if r == nil {
		return nil
	}
	refs := turn.RecalledBy(m)
	if m.Role == message.User && refs == nil {
		out, r.waiting = r.waiting, nil
	}
	if refs != nil {
		var facts []client.FactNews
		for _, x := range refs {
			if f, ok := r.recalled[x.Fact.String()]; ok {
				facts = append(facts, f)
			}
		}
		out = append(out, v.recallLine(m.ID, facts))
	}
	for _, f := range r.saved[m.ID] {
		r.waiting = append(r.waiting, v.factLine(client.MemorySaved, &f))
	}
	return out
}

// rest returns the lines that no message comes after.
func (r *remembered) rest() []g.Node {
	if r == nil {
		return nil
	}
	return r.waiting
}
