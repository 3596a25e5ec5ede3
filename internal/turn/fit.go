package turn

import (
	"cmp"
	"context"
	"math"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// fitter fits what a run's model is shown into its context window.
type fitter struct {
	engine       *Engine
	conversation *Conversation
	session      *conversation.Session
	models       []string // the fallback chain that answers
	system       string
	parts        []systemPart // of system
	kit          *kits.Kit
	tools        *llm.Toolset // those that the model is shown; see chooseTools
	reserve      int64        // tokens reserved for the answer
	user         string
	agent        string   // its path
	lineage      []string // the agents on whose behalf it acts
	meter        *llm.Meter
	spoken       bool            // the answer is read aloud
	preview      bool            // nothing is sent: see Engine.Context
	recalled     *recaller       // nil: nothing is recalled
	fittedIn     *llm.Transcript // the transcript that was fitted last
	fittedAt     int64           // its tokens after that; fitting it again gains nothing

	kits.Choice
}

func (e *Engine) newFitter(c *Conversation, s *conversation.Session, kit *kits.Kit, lineage, models []string, system string, sampling llm.Sampling, meter *llm.Meter) *fitter {
	return &fitter{engine: e, conversation: c, session: s, models: models, kit: kit, user: c.User, agent: kit.Name, lineage: lineage, meter: meter,
		system: system, tools: kit.ToolsFor(models), reserve: int64(sampling.MaxTokens)}
}

// window returns how many tokens a request may have, without the answer; 0 means
// that there is no limit.
func (f *fitter) window() int64 { return f.budget().Room }

// fixedTokens returns how many tokens the system prompt and the tools take.
func (f *fitter) fixedTokens() int64 {
	c := f.counter()
	return c.Text(f.system) + c.Parts(f.tools.Parts())
}

// messageRoom returns how many tokens the messages may take.
func (f *fitter) messageRoom() int64 {
	if w := f.window(); w > 0 {
		return max(w-f.fixedTokens(), minRoom)
	}
	return math.MaxInt64
}

// minRoom is the least room that messages are fitted into. If the tools seem to
// take everything, the estimate may be wrong.
const minRoom = 512

// Over implements agent.Fitter.
func (f *fitter) Over(ctx context.Context) bool {
	if f.session.Window() == 0 {
		f.engine.opt.Models.Discover(ctx, f.models)
	}
	f.chooseTools(ctx)
	return f.engine.opt.ExpireAtOnce && f.session.Expired(time.Now()) || f.mayBeTooLarge()
}

// mayBeTooLarge reports whether a request may not fit into the window.
func (f *fitter) mayBeTooLarge() bool {
	t, w := f.session.Transcript(), f.window()
	now := t.Tokens() + timeNoteTokens*int64(t.Users()) + f.recalled.tokens(f, t)
	// A token has at least one byte and the estimate errs on the safe side, so
	// this sum is an upper bound.
	if w == 0 || now+int64(len(f.system))+f.tools.Tokens() < w || t == f.fittedIn && now == f.fittedAt {
		return false
	}
	room := f.messageRoom()
	return now > room && f.count(t) > room || f.lowerBound(f.fixedTokens()) >= w
}

// count counts a transcript's tokens with the best counter for the model.
func (f *fitter) count(t *llm.Transcript) int64 {
	return f.counter().Parts(t.Parts()) + timeNoteTokens*int64(t.Users()) + f.recalled.tokens(f, t)
}

// countMessage counts a message's tokens.
func (f *fitter) countMessage(m *message.Message) int64 {
	m = f.recalled.message(m)
	if m.Role == message.User {
		return f.counter().Message(m) + timeNoteTokens
	}
	return f.counter().Message(m)
}

// counter returns the token counter of the first model in the chain.
func (f *fitter) counter() tokens.Counter { return f.engine.opt.Models.Counter(f.models[0]) }

// lowerBound returns a lower bound for what was counted as n tokens: an estimate may
// be twice what a server counts.
func (f *fitter) lowerBound(n int64) int64 {
	if f.counter().Kind() == tokens.KindEstimated {
		return n / 2
	}
	return n * 4 / 5
}

// Fit implements agent.Fitter. A request that certainly does not fit is refused.
func (f *fitter) Fit(ctx context.Context, refused bool) (bool, error) {
	if f.engine.opt.ExpireAtOnce && f.session.Expired(time.Now()) {
		before := f.count(f.session.Transcript())
		if err := f.session.Expire(ctx); err != nil {
			return false, err
		}
		f.engine.MarkToPack(f.conversation.Key)
		if !refused && !f.mayBeTooLarge() {
			return f.count(f.session.Transcript()) < before, nil
		}
	}
	t := f.session.Transcript()
	now, room, w := f.count(t), f.messageRoom(), f.window()
	fixed := f.lowerBound(f.fixedTokens())
	if w > 0 && fixed >= w {
		return false, f.tooLarge("the system prompt and the tools take", fixed, w).
			WithHint("choose a model with a larger window, give the agent fewer tools, or correct the window in the setting windows")
	}
	if refused { // the known window is wrong
		if err := f.engine.SaveCalibration(ctx); err != nil {
			f.engine.log.Warn("cannot store the window that a model has named", "error", err)
		}
		room = min(room, now*3/4)
	}
	_, err := f.session.Fit(ctx, f.conversationWindow(room))
	f.fittedIn = f.session.Transcript()
	f.fittedAt = f.fittedIn.Tokens() + timeNoteTokens*int64(f.fittedIn.Users()) + f.recalled.tokens(f, f.fittedIn)
	if err != nil {
		return false, err
	}
	f.engine.MarkToPack(f.conversation.Key)
	left := f.count(f.fittedIn)
	if w > 0 && f.lowerBound(left) > w-fixed {
		return false, f.tooLarge("what has to be shown of the conversation takes", f.lowerBound(left), w-fixed).
			WithHint("shorten the last message, choose a model with a larger window, or correct the window in the setting windows")
	}
	f.conversation.Feed.notice("Earlier messages were left out or summarized, so that the conversation fits the model's context window.", false)
	return left < now, nil
}

// tooLarge returns the error of a request that cannot be made to fit.
func (f *fitter) tooLarge(what string, takes, room int64) *fault.Error {
	return fault.New(fault.TooLarge, "context_too_long", "%s at least %d tokens, and the window of %s leaves %d for them beside the answer", what, takes, f.models[0], room).
		Detail("tokens", takes).Detail("room", room)
}

// conversationWindow returns the window to fit messages into.
func (f *fitter) conversationWindow(room int64) conversation.Window {
	w := conversation.Window{Tokens: room, Count: f.countMessage,
		Log: func(msg string, err error) {
			f.engine.log.Warn(msg, "conversation", f.conversation.ID.String(), "error", err)
		}}
	if fast, err := f.engine.opt.Models.Resolve(llm.FastAlias); err == nil && !llm.Offline(fast.Models) {
		w.Summarize = (&summarizer{f, fast}).summarize
	}
	return w
}

// Compact fits a conversation into half of the tokens that it takes now.
func (e *Engine) Compact(ctx context.Context, sc store.Scope, user string, conv id.ID) error {
	s, err := e.conversations.Open(ctx, sc, conv)
	if err != nil {
		return err
	}
	c := s.Conversation()
	kit, err := e.kits.Of(cmp.Or(c.Agent, kits.DefaultAgent))
	if err != nil {
		kit = e.kits.Fixed[kits.DefaultAgent]
	}
	model, err := e.opt.Models.Resolve(cmp.Or(c.Model, kit.Model, "default"))
	if err != nil {
		return err
	}
	rc, _, err := requests.Lineage(ctx, e.opt.Store, sc, c, id.ID{})
	if err != nil {
		return err
	}
	meter := e.newMeter(kit)
	meter.Account(e.NewAccount(user, resource.URI{}).Record)
	f := e.newFitter(e.Enter(user, conv), s, kit, rc.Lineage, model.Models, kit.Prompt, kit.Sampling, meter)
	defer e.Exit(f.conversation)
	// Without the notes of when messages were sent: they make no conversation long enough to be summarised.
	into := f.conversationWindow(max(f.counter().Parts(s.Transcript().Parts())/2, minRoom))
	into.Count = f.counter().Message
	fits, err := s.Fit(ctx, into)
	e.MarkToPack(f.conversation.Key)
	if err == nil && !fits {
		err = fault.New(fault.TooLarge, "cannot_compact", "what is left of the conversation cannot be made smaller").
			WithHint("begin a new conversation, or unpin messages")
	}
	return err
}

// FitRequest makes the messages of a request outside conversations fit into the window of its models, if it
// is known: the oldest exchanges are left out, unless whole is set. It returns the messages that are
// left. A request that does not fit without them is refused (context_too_long).
func (e *Engine) FitRequest(ctx context.Context, models []string, r *llm.Request, msgs []*message.Message, whole bool) ([]*message.Message, error) {
	e.opt.Models.Discover(ctx, models)
	w := int64(e.opt.Models.KnownWindow(models))
	if refused := int64(e.opt.Models.Refused(models)); refused > 0 && (w == 0 || refused < w) {
		w = refused
	}
	if w == 0 {
		return msgs, nil
	}
	f := &fitter{engine: e, models: models}
	c := f.counter()
	fixed := c.Text(r.System)
	if r.Tools != nil {
		fixed += c.Parts(r.Tools.Parts())
	}
	if r.Schema != nil {
		fixed += c.Text(string(r.Schema.JSON))
	}
	room := w - fixed - answerReserve(w, int64(r.Sampling.MaxTokens))
	var size int64
	from := len(msgs) // the first message that is kept; it is one of the user
	for i := len(msgs) - 1; i >= 0; i-- {
		size += c.Message(msgs[i])
		if from < len(msgs) && size > room {
			break
		}
		if msgs[i].Role == message.User {
			from = i
			if size > room { // the newest exchange alone
				break
			}
		}
	}
	if from == len(msgs) || whole {
		from = 0
	}
	kept := msgs[from:]
	var takes int64
	for _, m := range kept {
		takes += c.Message(m)
	}
	if f.lowerBound(takes+fixed) >= w || whole && takes > room {
		return nil, f.tooLarge("the request takes", f.lowerBound(takes+fixed), w).
			WithHint("send less, choose a model with a larger window, or correct the window in the setting windows")
	}
	if from > 0 {
		first := *kept[0]
		first.Prev = id.ID{}
		kept = append([]*message.Message{&first}, kept[1:]...)
	}
	return kept, nil
}
