package turn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
)

// A turn that a person begins recalls facts, and passages of earlier conversations (package memory). The message that records this names them, after
// the person's message, and has their labels. Its text is filled in when a model is asked. Earlier recalls
// stay where they were made and as they were, so that providers' caches hold.

// recalledOf returns the facts and the passages that a message names, or nothing if it records no recall.
func recalledOf(m *message.Message) ([]memory.Ref, []memory.PassageRef) {
	if m.Role != message.User || len(m.Blocks) == 0 || m.Blocks[0].Base().Origin != record.OriginMemory {
		return nil, nil
	}
	return memory.ParseReference(m.Text()), memory.ParsePassages(m.Text())
}

// remember makes a job recall facts, and fills in those that were recalled.
func (e *Engine) remember(ctx context.Context, c *Conversation, s *conversation.Session, job *agent.Job) {
	if e.opt.Memory == nil {
		return
	}
	zone := time.UTC
	if e.opt.Zone != nil {
		if z := e.opt.Zone(c.User); z != nil {
			zone = z
		}
	}
	r := &recaller{engine: e, ctx: context.WithoutCancel(ctx), user: c.User, zone: zone}
	job.Recall = func(ctx context.Context, asked string) (*message.Message, string) {
		fact, passage := shownIn(s.Transcript().Messages())
		found, err := e.opt.Memory.Recall(ctx, c.User, asked, fact, memory.RecallTokens)
		if err != nil {
			e.log.Warn("cannot recall facts", "conversation", c.ID.String(), "error", err)
			return nil, ""
		}
		passages, err := e.opt.Memory.Passages(ctx, c.User, asked, c.ID, passage, memory.PassageTokens)
		if err != nil { // the facts are worth having without them
			e.log.Warn("cannot recall passages", "conversation", c.ID.String(), "error", err)
		}
		if len(found.Facts)+len(passages) == 0 {
			return nil, ""
		}
		common := message.Common{Origin: record.OriginMemory, Labels: found.Labels, Sources: message.JoinSources(found.Sources, []string{"memory"})}
		text := memory.Reference(found.Facts)
		for _, p := range passages {
			common.Labels |= p.Labels
			text = strings.TrimRight(text, " ") + " " + p.String()
		}
		return &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: common, Text: text}}}, noticeOf(found.Facts, passages, zone)
	}
	next := job.View
	job.View = func(t *llm.Transcript) *llm.Transcript {
		if t = r.view(t); next != nil {
			t = next(t)
		}
		return t
	}
}

// shownIn returns functions that say whether messages name a fact at its revision, and a passage.
func shownIn(msgs []*message.Message) (fact func(id.ID, int) bool, passage func(memory.PassageRef) bool) {
	var facts []memory.Ref
	var passages []memory.PassageRef
	for _, m := range msgs {
		f, p := recalledOf(m)
		facts, passages = append(facts, f...), append(passages, p...)
	}
	fact = func(fact id.ID, revision int) bool {
		return slices.Contains(facts, memory.Ref{Fact: fact, Revision: revision})
	}
	return fact, func(p memory.PassageRef) bool { return slices.Contains(passages, p) }
}

// noticeOf tells a person in a line what was recalled.
func noticeOf(list []record.Fact, passages []memory.Passage, zone *time.Location) string {
	var parts []string
	for i := range list {
		text := list[i].Text
		if list[i].Foreign() {
			text = fmt.Sprintf("others wrote %q", text)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", text, list[i].From.In(zone).Format(time.DateOnly)))
	}
	for _, p := range passages {
		parts = append(parts, fmt.Sprintf("you said %q (%s)", p.Text, p.At.In(zone).Format(time.DateOnly)))
	}
	return "Recalled: " + strings.Join(parts, "; ")
}

// recaller fills in what was recalled. What it has read is read again at another epoch.
type recaller struct {
	engine *Engine
	ctx    context.Context
	user   string
	zone   *time.Location

	mu       sync.Mutex
	epoch    uint64
	facts    map[id.ID]*record.Fact // nil: not read yet
	passages map[memory.PassageRef]memory.Passage
	asked    map[memory.PassageRef]bool // what passages was read for
}

// view returns the transcript with the texts of the facts and passages.
func (r *recaller) view(t *llm.Transcript) *llm.Transcript {
	epoch := r.engine.opt.Memory.Epoch()
	return t.As(fmt.Sprintf("memory %d %s", epoch, r.zone), func(m *message.Message) *message.Message {
		facts, passages := recalledOf(m)
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
	})
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

// Notice shows a line to those who watch a conversation.
func (e *Engine) Notice(user string, conv id.ID, text string) {
	c := e.Enter(user, conv)
	defer e.Exit(c)
	c.Feed.notice(text, false)
}
