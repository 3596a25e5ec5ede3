package turn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
)

// A turn that a person begins recalls facts, and passages of earlier conversations (package memory), and so does
// each task of a plan, for what it is to do. The message that records this names them, after
// the person's message, and has their labels. Its text is filled in when a model is asked. Earlier recalls
// stay where they were made and as they were, so that providers' caches hold. The first recall of a
// conversation begins with the profile: standing instructions and important facts. Budget has the shares.

// RecalledBy returns the facts that a message says were recalled, or nil if it names none.
func RecalledBy(m *message.Message) []memory.Ref {
	if !records(m) {
		return nil
	}
	return memory.ParseReference(m.Text())
}

// recalledPassages returns the passages that a message says were recalled.
func recalledPassages(m *message.Message) []memory.PassageRef {
	if !records(m) {
		return nil
	}
	return memory.ParsePassages(m.Text())
}

// records reports whether a message records a recall.
func records(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginMemory
}

// Recalls reports whether a message records the recall of a fact.
func Recalls(m *message.Message, fact id.ID) bool {
	return slices.ContainsFunc(RecalledBy(m), func(r memory.Ref) bool { return r.Fact == fact })
}

// remember makes a job recall facts, and fills in those that were recalled.
func (e *Engine) remember(ctx context.Context, c *Conversation, s *conversation.Session, job *agent.Job, fit *fitter) {
	if e.opt.Memory == nil {
		return
	}
	r := &recaller{engine: e, ctx: context.WithoutCancel(ctx), user: c.User, zone: e.zoneOf(c.User), recalls: &c.recalls}
	fit.recalled = r
	job.Recall = func(ctx context.Context, asked string) *message.Message {
		if job.RecallFrom != "" { // what others brought for a task follows after its first paragraph
			asked, _, _ = strings.Cut(asked, "\n\n")
		}
		msgs, err := r.recalls.in(s.Transcript())
		if err != nil {
			e.log.Warn("cannot read what was recalled before", "conversation", c.ID.String(), "error", err)
			return nil
		}
		fact, passage := shownIn(msgs)
		budget := fit.budget()
		found, err := e.opt.Memory.RecallIn(ctx, c.User, asked, fact, memory.Room{Profile: budget.Profile, Facts: budget.Facts})
		if err != nil {
			e.log.Warn("cannot recall facts", "conversation", c.ID.String(), "error", err)
			return nil
		}
		passages, err := e.opt.Memory.Passages(ctx, c.User, asked, c.ID, &found, passage, budget.Passages)
		if err != nil { // the facts are worth having without them
			e.log.Warn("cannot recall passages", "conversation", c.ID.String(), "error", err)
		}
		if len(found.Facts)+len(passages) == 0 {
			return nil
		}
		common := message.Common{Origin: record.OriginMemory, Labels: found.Labels, Sources: message.JoinSources(found.Sources, []string{message.SourceMemory})}
		text := found.Reference()
		for _, p := range passages {
			common.Labels |= p.Labels
			text = strings.TrimRight(text, " ") + " " + p.String()
		}
		return &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: common, Text: text}}}
	}
	next := job.View
	job.View = func(t *llm.Transcript) *llm.Transcript {
		if t = r.view(t); next != nil {
			t = next(t)
		}
		return t
	}
}

// shownIn returns functions that say whether messages name a fact at a revision (0: at any), and a passage.
func shownIn(msgs []*message.Message) (fact func(id.ID, int) bool, passage func(memory.PassageRef) bool) {
	var facts []memory.Ref
	var passages []memory.PassageRef
	for _, m := range msgs {
		facts, passages = append(facts, RecalledBy(m)...), append(passages, recalledPassages(m)...)
	}
	fact = func(fact id.ID, revision int) bool {
		return slices.ContainsFunc(facts, func(r memory.Ref) bool { return r.Fact == fact && (revision == 0 || r.Revision == revision) })
	}
	return fact, func(p memory.PassageRef) bool { return slices.Contains(passages, p) }
}

// zoneOf returns a user's time zone.
func (e *Engine) zoneOf(user string) *time.Location {
	if e.opt.Zone != nil {
		if z := e.opt.Zone(user); z != nil {
			return z
		}
	}
	return time.UTC
}

// lineOf tells a person in a line what was done with facts.
func lineOf(v *MemoryView, zone *time.Location) string {
	head := map[string]string{client.MemoryRecalled: "Recalled: ", client.MemorySaved: "Remembered: ", client.MemoryUndone: "No longer remembered like this: "}[v.Did]
	if head == "" {
		return fmt.Sprintf("Facts that were forgotten: %d", len(v.Facts))
	}
	var parts []string
	for _, f := range v.Facts {
		text := f.Text
		if f.Foreign {
			text = fmt.Sprintf("others wrote %q", text)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", text, f.From.In(zone).Format(time.DateOnly)))
	}
	for _, p := range v.Passages {
		parts = append(parts, fmt.Sprintf("you said %q (%s)", p.Text, p.At.In(zone).Format(time.DateOnly)))
	}
	return head + strings.Join(parts, "; ")
}

// shower fills in the frames of recalls for one watcher.
func (e *Engine) shower(ctx context.Context, user string) func(*Frame) {
	if e.opt.Memory == nil {
		return func(*Frame) {}
	}
	r := &recaller{engine: e, ctx: ctx, user: user}
	zone := e.zoneOf(user)
	return func(f *Frame) {
		if f.Stored != nil {
			refs := RecalledBy(f.Stored)
			v := &MemoryView{Did: client.MemoryRecalled}
			facts := r.read(e.opt.Memory.Epoch(), refs)
			for _, ref := range refs {
				if fact := facts[ref.Fact]; fact != nil {
					v.Facts = append(v.Facts, memory.ShownAt(fact, ref.Revision))
				}
			}
			passages := recalledPassages(f.Stored)
			said := r.said(e.opt.Memory.Epoch(), passages)
			for _, ref := range passages {
				if p, ok := said[ref]; ok {
					v.Passages = append(v.Passages, client.SourceText{Source: ref.URI().String(), At: p.At, Text: p.Text})
				}
			}
			f.Memory = v
		}
		f.Text = lineOf(f.Memory, zone)
	}
}

// recalls are the messages of a transcript that record recalls, also those that the transcript has released.
type recalls struct {
	mu    sync.Mutex
	of    weak.Pointer[llm.Transcript] // weak, since the session may be dropped
	found []*message.Message
}

// in returns those of a transcript. Between two calls a transcript releases only what the first one has seen,
// since it keeps a person's last message and all after it.
func (r *recalls) in(t *llm.Transcript) ([]*message.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	msgs := t.Messages()
	if r.of != weak.Make(t) {
		all, err := t.All()
		if err != nil {
			return nil, err
		}
		msgs, r.of, r.found = all, weak.Make(t), nil
	}
	known := map[id.ID]bool{}
	for _, m := range r.found {
		known[m.ID] = true
	}
	for _, m := range msgs {
		if records(m) && !known[m.ID] {
			r.found = append(r.found, m)
		}
	}
	return r.found[:len(r.found):len(r.found)], nil
}

// recaller fills in what was recalled. What it has read is read again at another epoch.
type recaller struct {
	engine  *Engine
	ctx     context.Context
	user    string
	zone    *time.Location
	recalls *recalls

	mu       sync.Mutex
	epoch    uint64
	facts    map[id.ID]*record.Fact // nil: not read yet
	passages map[memory.PassageRef]memory.Passage
	asked    map[memory.PassageRef]bool // what passages was read for
}

// view returns the transcript with the texts of the facts and passages.
func (r *recaller) view(t *llm.Transcript) *llm.Transcript {
	epoch := r.engine.opt.Memory.Epoch()
	return t.As(fmt.Sprintf("memory %d %s", epoch, r.zone), func(m *message.Message) *message.Message { return r.filled(epoch, m) })
}

// filled returns a message with the texts of the facts and passages that it names.
func (r *recaller) filled(epoch uint64, m *message.Message) *message.Message {
	facts, passages := RecalledBy(m), recalledPassages(m)
	if facts == nil && passages == nil {
		return m
	}
	var parts []string
	if facts != nil {
		parts = append(parts, memory.Render(facts, r.read(epoch, facts), r.zone))
	}
	if said := memory.RenderPassages(passages, r.said(epoch, passages), r.zone); said != "" {
		parts = append(parts, said)
	}
	if len(parts) == 0 {
		parts = append(parts, "(What was recalled here was erased since.)")
	}
	out := *m
	text := &message.Text{Common: *m.Blocks[0].Base(), Text: strings.Join(parts, "\n")}
	out.Blocks = []message.Block{text}
	return &out
}

// message returns a message as view shows it. A nil r changes nothing.
func (r *recaller) message(m *message.Message) *message.Message {
	if r == nil {
		return m
	}
	return r.filled(r.engine.opt.Memory.Epoch(), m)
}

// tokens returns how many tokens more than the transcript itself the texts of the facts take that it names.
func (r *recaller) tokens(f *fitter, t *llm.Transcript) (n int64) {
	if r == nil {
		return 0
	}
	msgs, err := r.recalls.in(t)
	if err != nil {
		return 0 // the call will fail for the same reason
	}
	for _, m := range msgs {
		n += f.counter().Message(r.message(m)) - f.counter().Message(m)
	}
	return n
}

// read returns the user's facts as of an epoch or later, with those that refs name unless they are forgotten.
func (r *recaller) read(epoch uint64, refs []memory.Ref) map[id.ID]*record.Fact {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew(epoch)
	complete := r.facts != nil
	for _, ref := range refs {
		complete = complete && r.facts[ref.Fact] != nil
	}
	if !complete {
		facts, err := r.engine.opt.Memory.Facts(r.ctx, r.user)
		if err != nil {
			r.engine.log.Warn("cannot read the facts that were recalled", "error", err)
			return nil
		}
		r.facts = facts
	}
	return r.facts
}

// said returns the passages that refs name unless they were erased.
func (r *recaller) said(epoch uint64, refs []memory.PassageRef) map[memory.PassageRef]memory.Passage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew(epoch)
	var missing []memory.PassageRef
	for _, ref := range refs {
		if !r.asked[ref] {
			missing = append(missing, ref)
		}
	}
	found, err := r.engine.opt.Memory.ReadPassages(r.ctx, r.user, missing)
	if err != nil {
		r.engine.log.Warn("cannot read the passages that were recalled", "error", err)
		return nil
	}
	for _, ref := range missing {
		r.asked[ref] = true
		if p, ok := found[ref]; ok {
			r.passages[ref] = p
		}
	}
	return r.passages
}

// renew drops what was read at another epoch.
func (r *recaller) renew(epoch uint64) {
	if r.asked == nil || r.epoch != epoch {
		r.epoch, r.facts, r.passages, r.asked = epoch, nil, map[memory.PassageRef]memory.Passage{}, map[memory.PassageRef]bool{}
	}
}

// TellMemory shows what was done with a user's facts: to those who watch the conversation that it comes from, or
// else to those who watch any conversation of the user.
func (e *Engine) TellMemory(user string, n memory.News) {
	v := &MemoryView{Did: n.Did}
	for i := range n.Facts {
		v.Facts = append(v.Facts, memory.Shown(&n.Facts[i], n.Did))
	}
	list := e.EnterAll(user)
	if at := slices.IndexFunc(list, func(c *Conversation) bool { return c.ID == n.Conversation && c.Feed.watched() }); at >= 0 {
		list[at].Feed.memory(v)
	} else {
		for _, c := range list {
			c.Feed.memory(v)
		}
	}
	for _, c := range list {
		e.Exit(c)
	}
}
