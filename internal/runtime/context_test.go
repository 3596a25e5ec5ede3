package runtime_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// contextOf returns what a conversation's next call sends, after checking that its sums are right.
func contextOf(t *testing.T, w *world, conv id.ID) client.Context {
	t.Helper()
	c, err := w.Node.Context(t.Context(), "anna", conv)
	ok(t, err)
	tokens := int64(0)
	for _, x := range c.Categories {
		var sum client.ContextCategory
		for _, p := range c.Pieces {
			if p.Category == x.Name {
				sum.Pieces, sum.Tokens, sum.Bytes = sum.Pieces+max(p.Count, 1), sum.Tokens+p.Tokens, sum.Bytes+p.Bytes
			}
			if p.Why == "" || p.Name == "" {
				t.Errorf("a piece without a name or a reason: %+v", p)
			}
		}
		if x.Name != client.ContextAnswer && (sum.Pieces != x.Pieces || sum.Tokens != x.Tokens || sum.Bytes != x.Bytes) {
			t.Errorf("%+v, but its pieces are %+v", x, sum)
		}
		tokens += sum.Tokens
	}
	if tokens != c.Tokens {
		t.Errorf("%d tokens are sent, and the pieces have %d", c.Tokens, tokens)
	}
	return c
}

// piecesOf returns the pieces of a category, without headings.
func piecesOf(c client.Context, category string) (out []client.ContextPiece) {
	for _, p := range c.Pieces {
		if p.Category == category && p.Name != "headings" {
			out = append(out, p)
		}
	}
	return out
}

// The context of a conversation is what its next call sends: the messages of the next request begin with those
// that it lists.
func TestContextIsTheNextRequest(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	rule := remember(t, e, "Always show versions", 0)
	car := remember(t, e, "My car is blue", 0)
	conv, _ := w.turn(id.ID{}, "which colour is my car?")
	c := contextOf(t, w, conv)
	profile, facts, msgs := piecesOf(c, client.ContextProfile), piecesOf(c, client.ContextFacts), piecesOf(c, client.ContextMessages)
	if len(profile) != 1 || profile[0].URI != rule.URI().String() || !strings.HasPrefix(profile[0].Why, "standing instruction, saved on 20") {
		t.Errorf("profile: %+v", profile)
	}
	if len(facts) != 1 || facts[0].URI != car.URI().String() || facts[0].Name != "My car is blue" || !strings.HasPrefix(facts[0].Why, "similarity 0.") ||
		!slices.Equal(facts[0].Labels, []string{"private"}) {
		t.Errorf("facts: %+v", facts)
	}
	if len(msgs) != 2 || msgs[0].Role != "user" || msgs[1].Role != "assistant" || msgs[1].Name != "ok" || !strings.HasPrefix(msgs[0].URI, "cld:common.Conversation."+conv.String()) {
		t.Errorf("messages: %+v", msgs)
	}
	if tools := piecesOf(c, client.ContextTools); len(tools) == 0 || tools[0].Why == "" || c.Agent == "" || c.Model != "test/m" {
		t.Errorf("%+v", c)
	}
	again := contextOf(t, w, conv)
	if fmt.Sprint(again) != fmt.Sprint(c) {
		t.Errorf("it changes by being looked at:\n%+v\n%+v", c, again)
	}
	before, _ := a.last()
	w.turn(conv, "tell me a joke")
	after, _ := a.last()
	if len(after) != len(before)+2 || len(after) != len(profile)+len(facts)+len(msgs) { // the facts are one message, and the new message one more
		t.Errorf("%q\n%q", before, after)
	}
	if _, err := w.Node.Context(t.Context(), "bob", conv); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user: %v", err)
	}
}

// What was sent for an answer can be read while the conversation is in memory, also after later turns; what was
// forgotten since is shown as forgotten.
func TestModelCall(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	car := remember(t, e, "My car is blue", 0)
	conv, frames := w.turn(id.ID{}, "which colour is my car?")
	first := frames[len(frames)-1].Message
	sent, _ := a.last()
	w.turn(conv, "tell me a joke")
	call, err := w.Node.ModelCall(t.Context(), "anna", conv, first)
	ok(t, err)
	var got []string
	for _, raw := range call.Messages {
		m, err := message.Decode(raw)
		ok(t, err)
		got = append(got, m.Text())
	}
	if !slices.Equal(got, sent) || len(sent) != 2 || call.System == "" || len(call.Tools) == 0 || call.Tools[0].Name == "" || len(call.Tools[0].Input) == 0 {
		t.Errorf("sent: %q\nread: %q, %q, %d tools", sent, got, call.System, len(call.Tools))
	}
	for user, answer := range map[string]id.ID{"bob": first, "anna": id.New()} {
		if _, err := w.Node.ModelCall(t.Context(), user, conv, answer); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", user, err)
		}
	}
	_, err = e.Forget(t.Context(), "anna", car.ID.String())
	ok(t, err)
	call, err = w.Node.ModelCall(t.Context(), "anna", conv, first)
	if err == nil && strings.Contains(fmt.Sprintf("%s", call.Messages), "blue") {
		t.Errorf("what was forgotten is still shown: %s", call.Messages)
	}
	w.Node.Turns.Enter("anna", conv).Forget() // as after a change of its messages
	if _, err := w.Node.ModelCall(t.Context(), "anna", conv, first); !fault.HasCode(err, "model_call_not_kept") {
		t.Errorf("after it has left memory: %v", err)
	}
}

// What was sent once is sent again with the same bytes, whatever is recalled, saved, edited or superseded since: it
// comes at the end.
func TestRequestsKeepTheirBeginning(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	important := 0.9
	sister := remember(t, e, "My sister Mia lives in Graz", 0)
	_, err := e.Change(t.Context(), "anna", sister.ID.String(), client.FactInput{Importance: &important}, record.FactAuthor{Call: id.New(), Actor: "user"})
	ok(t, err)
	car := remember(t, e, "My car is blue", 0)
	conv, _ := w.turn(id.ID{}, "which colour is my car?")
	sent, _ := a.last()
	if len(sent) != 2 || !strings.Contains(sent[1], "Mia lives in Graz") || !strings.Contains(sent[1], "car is blue") {
		t.Fatalf("%q", sent)
	}
	begins := func(what, want string) {
		t.Helper()
		now, _ := a.last()
		if len(now) <= len(sent) || !slices.Equal(now[:len(sent)], sent) {
			t.Fatalf("%s: the request was\n%q\nand is\n%q", what, sent, now)
		}
		if end := now[len(now)-1]; !strings.Contains(end, want) {
			t.Errorf("%s: the end is %q", what, end)
		}
		sent = now
	}
	text := "My car is blue metallic"
	_, err = e.Change(t.Context(), "anna", car.ID.String(), client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Actor: "user"})
	ok(t, err)
	w.turn(conv, "tell me a joke")
	begins("a fact that was recalled was edited", "blue metallic")
	remember(t, e, "My cat is called Minka", 0)
	w.turn(conv, "what is the name of my cat?")
	begins("a fact was recalled", "Minka")
	moved := "My sister Mia lives in Vienna"
	_, err = e.Save(t.Context(), "anna", client.FactInput{Text: &moved, Replaces: []string{sister.ID.String()}}, record.FactAuthor{Call: id.New(), Actor: "user"})
	ok(t, err)
	w.turn(conv, "tell me another joke")
	begins("a fact of the profile was superseded", "Vienna")
	instruction, source, since := record.FactInstruction, "Anna's car", car.From.AddDate(-1, 0, 0)
	_, err = e.Change(t.Context(), "anna", car.ID.String(), client.FactInput{Type: &instruction, Subject: &source, From: &since}, record.FactAuthor{Call: id.New(), Actor: "user"})
	ok(t, err)
	w.turn(conv, "and one more")
	begins("all else about a fact was edited", "Anna's car: My car is blue metallic")
	w.turn(conv, "that is all")
	begins("nothing has changed", "that is all")
	c := contextOf(t, w, conv)
	old := piecesOf(c, client.ContextProfile)
	if len(old) != 2 || !strings.Contains(old[0].Why, "importance 0.9") || !strings.Contains(old[0].Why, "no longer true") {
		t.Errorf("%+v", old)
	}
	if edited := piecesOf(c, client.ContextFacts)[0]; edited.Name != "My car is blue" || !strings.Contains(edited.Why, "edited since") {
		t.Errorf("%+v", edited)
	}
	// What is forgotten leaves, and the context says so.
	ok(t, second(e.Forget(t.Context(), "anna", car.ID.String())))
	for _, p := range contextOf(t, w, conv).Pieces {
		if strings.Contains(p.Name+p.Why, "blue") {
			t.Errorf("it is still there: %+v", p)
		}
	}
}

// The profile has a budget of its own: it takes no room from what was asked for.
func TestProfileHasItsBudget(t *testing.T) {
	w, _, e := memoryWorld(t, memory.Options{}, 0)
	important := 0.9
	for i := range 60 {
		text := fmt.Sprintf("I like dish%d with sauce%d and pudding%d afterwards", i, i, i)
		ok(t, second(e.Save(t.Context(), "anna", client.FactInput{Text: &text, Importance: &important}, record.FactAuthor{Call: id.New(), Actor: "user"})))
	}
	remember(t, e, "My car is blue", 0)
	secret := "My safe opens with zyx8841"
	ok(t, second(e.Save(t.Context(), "anna", client.FactInput{Text: &secret, Importance: &important}, record.FactAuthor{Call: id.New(), Actor: "user", Labels: message.Secret})))
	conv, _ := w.turn(id.ID{}, "which colour is my car?")
	c := contextOf(t, w, conv)
	for _, x := range c.Categories {
		if x.Most > 0 && !x.Each && x.Tokens > x.Most+90 { // beside the headings
			t.Errorf("%+v is above its budget", x)
		}
	}
	if profile := piecesOf(c, client.ContextProfile); len(profile) < 3 || len(profile) > 24 {
		t.Errorf("%d pieces of the profile", len(profile))
	}
	if facts := piecesOf(c, client.ContextFacts); !slices.ContainsFunc(facts, func(p client.ContextPiece) bool { return p.Name == "My car is blue" }) {
		t.Errorf("%+v", facts)
	}
	for _, p := range c.Pieces {
		if strings.Contains(p.Name, "zyx8841") {
			t.Errorf("what is secret is shown: %+v", p)
		}
	}
}

// The profile is named again when a summary has taken the place of the message that named it.
func TestProfileAfterASummary(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	remember(t, e, "Always show versions", 0)
	conv, _ := w.turn(id.ID{}, "hello there, how are you today?")
	for range 6 {
		w.turn(conv, "tell me more "+strings.Repeat("of the long story about the sea ", 40))
	}
	ok(t, second(w.Node.Tidy(t.Context(), "anna", conv, runtime.TidyCompact, nil)))
	c := contextOf(t, w, conv)
	msgs := piecesOf(c, client.ContextMessages)
	if len(piecesOf(c, client.ContextProfile)) != 0 || !strings.Contains(msgs[0].Why, "older messages, which the window has no room for") {
		t.Fatalf("%+v", c.Pieces)
	}
	w.turn(conv, "go on")
	if shown, _ := a.last(); !strings.Contains(shown[len(shown)-1], "Always show versions") {
		t.Errorf("%q", shown)
	}
	if got := piecesOf(contextOf(t, w, conv), client.ContextProfile); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// A context that does not fit says so, and changes nothing.
func TestContextThatIsFull(t *testing.T) {
	w, _, _ := memoryWorld(t, memory.Options{}, 0)
	conv, _ := w.turn(id.ID{}, "remember this: "+strings.Repeat("of the long story about the sea ", 400))
	w.turn(conv, "and this: "+strings.Repeat("of the long story about the land ", 400))
	if c := contextOf(t, w, conv); c.Full || c.Window == 0 || c.Free == 0 {
		t.Errorf("%+v", c)
	}
	ok(t, second(w.Conversations.Update(t.Context(), store.ForUser("anna"), conv, func(c *record.Conversation) { c.Window = 4000 })))
	before := len(w.messages(conv))
	c := contextOf(t, w, conv)
	if !c.Full || c.Free != 0 || c.Window != 4000 || len(w.messages(conv)) != before {
		t.Errorf("full %t, free %d, window %d", c.Full, c.Free, c.Window)
	}
}
