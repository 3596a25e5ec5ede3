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

// A turn that a person begins recalls facts (package memory), and so does each task of a plan, for what it is to do.
// The message that records this names them, after
// the person's message, and has their labels. Its text is filled in when a model is asked. Earlier recalls
// stay where they were made and as they were, so that providers' caches hold.

// recalledOf returns the facts that a message names, or nil if it records no recall.
func recalledOf(m *message.Message) []memory.Ref {
	if m.Role != message.User || len(m.Blocks) == 0 || m.Blocks[0].Base().Origin != record.OriginMemory {
		return nil
	}
	return memory.ParseReference(m.Text())
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
		if job.RecallFrom != "" { // what others brought for a task follows after its first paragraph
			asked, _, _ = strings.Cut(asked, "\n\n")
		}
		found, err := e.opt.Memory.Recall(ctx, c.User, asked, shownIn(s.Transcript().Messages()), memory.RecallTokens)
		if err != nil {
			e.log.Warn("cannot recall facts", "conversation", c.ID.String(), "error", err)
			return nil, ""
		}
		if len(found.Facts) == 0 {
			return nil, ""
		}
		common := message.Common{Origin: record.OriginMemory, Labels: found.Labels, Sources: found.Sources}
		return &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: common, Text: memory.Reference(found.Facts)}}}, noticeOf(found.Facts, zone)
	}
	next := job.View
	job.View = func(t *llm.Transcript) *llm.Transcript {
		if t = r.view(t); next != nil {
			t = next(t)
		}
		return t
	}
}

// shownIn returns a function that says whether messages name a fact at its revision.
func shownIn(msgs []*message.Message) func(id.ID, int) bool {
	var shown []memory.Ref
	for _, m := range msgs {
		shown = append(shown, recalledOf(m)...)
	}
	return func(fact id.ID, revision int) bool {
		return slices.Contains(shown, memory.Ref{Fact: fact, Revision: revision})
	}
}

// noticeOf tells a person in a line what was recalled.
func noticeOf(list []record.Fact, zone *time.Location) string {
	parts := make([]string, len(list))
	for i := range list {
		text := list[i].Text
		if list[i].Foreign() {
			text = fmt.Sprintf("others wrote %q", text)
		}
		parts[i] = fmt.Sprintf("%s (%s)", text, list[i].From.In(zone).Format(time.DateOnly))
	}
	return "Recalled: " + strings.Join(parts, "; ")
}

// recaller fills in what was recalled.
type recaller struct {
	engine *Engine
	ctx    context.Context
	user   string
	zone   *time.Location

	mu    sync.Mutex
	epoch uint64
	facts map[id.ID]*record.Fact // nil: not read yet
}

// view returns the transcript with the texts of the facts.
func (r *recaller) view(t *llm.Transcript) *llm.Transcript {
	epoch := r.engine.opt.Memory.Epoch()
	return t.As(fmt.Sprintf("memory %d %s", epoch, r.zone), func(m *message.Message) *message.Message {
		refs := recalledOf(m)
		if refs == nil {
			return m
		}
		out := *m
		text := &message.Text{Common: *m.Blocks[0].Base(), Text: memory.Render(refs, r.read(epoch, refs), r.zone)}
		out.Blocks = []message.Block{text}
		return &out
	})
}

// read returns the user's facts as of an epoch or later, with those that refs name unless they are forgotten.
func (r *recaller) read(epoch uint64, refs []memory.Ref) map[id.ID]*record.Fact {
	r.mu.Lock()
	defer r.mu.Unlock()
	complete := r.facts != nil && r.epoch == epoch
	for _, ref := range refs {
		complete = complete && r.facts[ref.Fact] != nil
	}
	if !complete {
		facts, err := r.engine.opt.Memory.Facts(r.ctx, r.user)
		if err != nil {
			r.engine.log.Warn("cannot read the facts that were recalled", "error", err)
			return nil
		}
		r.facts, r.epoch = facts, epoch
	}
	return r.facts
}

// Notice shows a line to those who watch a conversation.
func (e *Engine) Notice(user string, conv id.ID, text string) {
	c := e.Enter(user, conv)
	defer e.Exit(c)
	c.Feed.notice(text, false)
}
