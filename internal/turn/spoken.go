package turn

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
)

// A person who speaks waits for an answer that is heard, not read. Such a turn (Input.Spoken) has a small request, so
// that a model on the machine begins to answer soon, and the model is told to be brief and plain.

// spokenRoom is how many tokens the request of a spoken turn may have.
const spokenRoom = 4000

const spokenManners = "\n\nYour answer is read aloud. Answer in one or two short sentences of plain words, in the language of the user. " +
	"Use no Markdown, lists, code, URLs or emoji. Nobody can approve anything here: if a call is denied because it needs an approval, say that the user must ask for it in a chat with Steward."

// sentences is the model that carries out what is said in the form of a tool's sentence, such as "turn off the
// kitchen light", and nothing else.
const sentences = "offline/sentences"

// clearFirst returns the model of a spoken turn. Clear words need no language model, which would be slow or away:
// the sentences of the tools come first, and the agent's model is asked about everything else. A turn that asks for
// another model gets that alone.
func (e *Engine) clearFirst(kit *kits.Kit, run *record.Run, model llm.Resolved) llm.Model {
	if !run.Spoken || run.Model != cmp.Or(e.kits.ModelOf(kit), llm.DefaultAlias) || llm.Offline(model.Models) {
		return model.Model
	}
	first, err := e.opt.Models.Resolve(sentences)
	if err != nil {
		return model.Model
	}
	return clearWords{first.Model, model.Model, kit.ToolsFor(first.Models)}
}

// clearWords asks a model only if the words are not clear.
type clearWords struct {
	sentences, model llm.Model
	tools            *llm.Toolset // all of them: a small request shows the model only some
}

// Stream implements llm.Model.
func (c clearWords) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if !c.mine(r) {
			c.model.Stream(ctx, r)(yield)
			return
		}
		all := *r
		all.Tools = c.tools
		for ev, err := range c.sentences.Stream(ctx, &all) {
			if fault.HasCode(err, "not_a_sentence") {
				c.model.Stream(ctx, r)(yield)
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// mine reports whether the turn has just begun, or the calls in it were made of sentences.
func (c clearWords) mine(r *llm.Request) bool {
	for _, m := range slices.Backward(r.Transcript.Messages()) {
		switch m.Role {
		case message.Assistant:
			return m.Model == sentences
		case message.User:
			return true
		}
	}
	return false
}
