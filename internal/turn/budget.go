package turn

import (
	"steward/internal/llm"
	"steward/internal/memory"
)

// Budget divides the window of a model among all that one call sends, and its answer. Each call of a turn has
// one, made by fitter.budget, and Engine.Context shows how the next call uses it.
//
//	system     never cut. If it and the tools leave no room, the call is refused (context_too_long).
//	profile    standing instructions and important facts, named once in a conversation, after its first message:
//	           at most 1/16 of the room, and memory.ProfileTokens.
//	facts      recalled for what was asked, after the message that asks: for each turn at most 1/16 of the
//	           room, and memory.RecallTokens.
//	passages   recalled likewise: for each turn at most 1/8 of the room, and passageMost.
//	tools      at most 1/4 of the room, and the setting tools.budget. The others are found with tools.find.
//	messages   what the others leave, at least minRoom.
//	answer     at most 1/4 of the window, and answerMost unless the run sets another number.
//
// What does not fit is cut in this order: facts and passages that matter least are not recalled, tools that
// fit least are not shown, results that are obsolete leave, long results are clipped, and the oldest
// messages are replaced by a summary, with the profile and what was recalled among them. The next turn then
// names the profile again.
//
// The order of a call is: tools, system prompt, messages. What is recalled is part of the messages, where
// it was recalled, and stays there as it was said, so that providers' caches hold: a fact that is saved or
// edited later comes at the end. Only what a person forgets leaves earlier text.
type Budget struct {
	Window   int64 // tokens that the model reads and writes in one call; 0: unknown, and the shares of it are not limited
	Answer   int64 // reserved for the answer
	Room     int64 // of the request; 0: no limit
	Tools    int64
	Profile  int64
	Facts    int64
	Passages int64
}

// The shares of a budget.
const (
	answerShare  = 4       // at most 1/answerShare of a window is reserved for the answer
	answerMost   = 8 << 10 // and at most so many tokens, unless the run sets its own number
	memoryShare  = 16      // of the room, for the profile and for the facts that a turn recalls
	passageShare = 8
	passageMost  = 1500
)

// budget returns the budget of the next call.
func (f *fitter) budget() Budget {
	models := f.engine.opt.Models
	w := int64(f.session.Window())
	if w == 0 {
		w = int64(models.Window(f.models))
	} else if refused := int64(models.Refused(f.models)); refused > 0 {
		w = min(w, refused)
	}
	b := Budget{Window: w, Answer: answerReserve(w, f.reserve)}
	b.Room = w - b.Answer
	if f.spoken && !llm.Offline(f.models) && (b.Room <= 0 || b.Room > spokenRoom) {
		b.Room = spokenRoom
	}
	if llm.Offline(f.models) { // it reads all tools itself, and nothing is recalled for it
		return b
	}
	share := func(most, part int64) int64 {
		if b.Room > 0 {
			return min(most, b.Room/part)
		}
		return most
	}
	b.Tools = f.engine.opt.ToolBudget.In(b.Room).Tokens
	b.Profile, b.Facts = share(memory.ProfileTokens, memoryShare), share(memory.RecallTokens, memoryShare)
	b.Passages = share(passageMost, passageShare)
	return b
}

// answerReserve returns how many tokens of a window are reserved for an answer that may have so many; 0: as
// many as usual.
func answerReserve(w, most int64) int64 {
	if most == 0 || most > w/answerShare {
		return min(w/answerShare, answerMost)
	}
	return most
}
