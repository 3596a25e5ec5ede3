package injection_test

import (
	"context"
	"strings"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/turn"
)

// scene is one conversation.
type scene struct {
	*world
	conv    id.ID
	cursor  turn.Cursor
	asked   []string                                // the tools that the person was asked about
	decide  func(turn.ApprovalView) effect.Decision // nil: approve or deny as say is told
	answers []string
}

// doing makes the calls one after the other and obeys no instruction.
func doing(calls ...call) func(*view) reply {
	return func(v *view) reply {
		if v.notes() {
			return reply{text: "NOTES: " + v.messages[len(v.messages)-1].Text()}
		}
		_, made := v.turn()
		if len(made) < len(calls) {
			return reply{calls: []call{calls[len(made)]}}
		}
		if len(made) == 0 {
			return reply{text: "Fine."}
		}
		return reply{text: made[len(made)-1].result}
	}
}

// before makes the calls in a conversation of its own, allowed.
func (s *scene) before(text string, calls ...call) (old *scene) {
	s.t.Helper()
	s.model.think(doing(calls...))
	old = &scene{world: s.world}
	old.say(words(text), true)
	s.seen = old.conv.String()
	return old
}

// say sends a message, answers all questions alike and waits for the reply.
func (s *scene) say(content []message.Block, approve bool) {
	s.t.Helper()
	ctx := context.Background()
	acc, err := s.node.Send(ctx, person, turn.Input{Conversation: s.conv, Attended: true, Content: content})
	s.must(err)
	s.conv = acc.Conversation
	s.watch(ctx, func(f turn.Frame) bool { return f.Interaction == acc.Interaction }, approve)
}

// told waits for a turn that opened by itself.
func (s *scene) told(approve bool) {
	s.t.Helper()
	ctx := context.Background()
	opened := id.ID{}
	s.watch(ctx, func(f turn.Frame) bool {
		if f.Kind == turn.FrameOpened {
			opened = f.Interaction
		}
		return !opened.Zero() && f.Interaction == opened
	}, approve)
}

func (s *scene) watch(ctx context.Context, mine func(turn.Frame) bool, approve bool) {
	s.t.Helper()
	answered := map[string]bool{}
	for f, err := range s.node.Watch(ctx, person, s.conv, s.cursor) {
		s.must(err)
		s.cursor = f.Cursor
		over := mine(f)
		switch {
		case f.Kind == turn.FrameCall && f.Call.Approval != nil && !answered[f.Call.Approval.ID]:
			q := *f.Call.Approval
			answered[q.ID] = true
			name := q.Tool
			if name == "" {
				name = strings.ReplaceAll(f.Call.Name, "__", ".")
			}
			s.asked = append(s.asked, name)
			v := effect.Decision{ID: q.ID, Hash: q.Hash, Approve: approve, Reason: "the test says so"}
			if s.decide != nil {
				v = s.decide(q)
			}
			s.must(s.node.Effects.Decide(ctx, store.ForUser(person), v))
		case f.Kind == turn.FrameComplete && over:
			s.answers = append(s.answers, f.Stored.Text())
			return
		case f.Kind == turn.FrameError:
			s.t.Fatalf("%v", f.Err)
		}
	}
	s.t.Fatalf("the answer did not come: %v", ctx.Err())
}

func words(text string) []message.Block { return []message.Block{&message.Text{Text: text}} }
