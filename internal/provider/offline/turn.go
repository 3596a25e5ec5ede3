package offline

import (
	"strings"

	"steward/internal/message"
	"steward/internal/record"
)

// turn is a request of the user and what has happened since.
type turn struct {
	text   string
	calls  []*made
	cut    string // the beginning of an answer that was cut off
	images bool
	news   bool // not from the user: the outcome of something that continued in the background
}

// made is a call, with its result if there is one.
type made struct {
	name   string
	args   []byte
	result *message.ToolResult
}

// turnOf returns the last turn of a transcript. Consecutive messages of a user are one turn; news is a
// separate turn.
func turnOf(msgs []*message.Message) *turn {
	cur := &turn{}
	answered, said := false, false
	for _, m := range msgs {
		switch m.Role {
		case message.User:
			if !says(m) {
				continue
			}
			if news := isNews(m); !said || answered || news || cur.news {
				cur = &turn{news: news}
			}
			answered, said = false, true
			cur.user(m)
		case message.Assistant:
			answered = true
			cur.assistant(m)
		case message.Tool:
			cur.result(m.Result())
		}
	}
	return cur
}

// says reports whether a message is the user's own. Steward's have the origin "system", or name what was recalled.
func says(m *message.Message) bool {
	if m.Role != message.User || len(m.Blocks) == 0 {
		return m.Role == message.User
	}
	from := m.Blocks[0].Base().Origin
	return from != "system" && from != record.OriginMemory
}

// noted returns what Steward noted beside the newest message of the user.
func noted(msgs []*message.Message) (out string) {
	for i := len(msgs) - 1; i >= 0; i-- {
		if m := msgs[i]; says(m) {
			for _, b := range m.Blocks {
				if t, ok := b.(*message.Text); ok && t.Origin == "system" {
					out += t.Text + "\n"
				}
			}
			return out
		}
	}
	return out
}

// material begins a text of others in a request to an agent.
const material = "What stands between the two marks "

// user adds the user's request: the first text of a message that is the user's own. Other texts are
// material.
func (t *turn) user(m *message.Message) {
	wish, own := "", false
	for i, b := range m.Blocks {
		if i > 0 && b.Base().Origin == "system" {
			continue // Steward's note of when the message was sent
		}
		switch b := b.(type) {
		case *message.Text:
			if mine := !b.Labels.Has(message.Untrusted); wish == "" || mine && !own {
				wish, own = b.Text, mine
			}
		case *message.Image:
			t.images = true
		}
	}
	wish, _, _ = strings.Cut(wish, "\n"+material) // the outputs of tasks that came before
	t.text = strings.TrimPrefix(t.text+"\n"+wish, "\n")
}

func (t *turn) assistant(m *message.Message) {
	for _, c := range m.Calls() {
		t.calls = append(t.calls, &made{name: c.Name, args: c.Args})
	}
	if t.cut += m.Text(); m.Stop != message.StopLength {
		t.cut = ""
	}
}

// result adds a result to the first call of its name that has none.
func (t *turn) result(r *message.ToolResult) {
	if r == nil {
		return
	}
	for _, c := range t.calls {
		if c.result == nil && (c.name == r.Name || r.Name == "") {
			c.result = r
			return
		}
	}
}

// isNews reports whether Steward wrote a message to report something. Its origin is a tool that continued
// in the background, or an agent that has more to say. News is repeated, and nothing is called. A request
// of one agent to another also has an agent's origin, but is not news.
func isNews(m *message.Message) bool {
	if m.Role != message.User || len(m.Blocks) == 0 {
		return false
	}
	origin := m.Blocks[0].Base().Origin
	if strings.HasPrefix(origin, "agent:") {
		t, words := m.Blocks[0].(*message.Text)
		if !words {
			return false
		}
		_, _, ok := unfenced(t.Text) // what a task is told of others ends so too
		return ok && strings.Contains(t.Text, " is its answer: ")
	}
	return strings.HasPrefix(origin, "tool:") || strings.HasPrefix(origin, "intent:")
}

// unfenced splits a message into Steward's text and the text of others between two equal lines that begin
// with "--- ".
func unfenced(text string) (head, inside string, ok bool) {
	head, rest, _ := strings.Cut(strings.TrimSpace(text), "\n--- ")
	mark, rest, _ := strings.Cut(rest, "\n")
	inside, ok = strings.CutSuffix("\n"+rest, "\n--- "+mark)
	return head, strings.TrimSpace(inside), ok && mark != ""
}

// failures matches what Steward says of work that failed.
var failures = pattern(`it failed|it was denied|it was stopped|nobody knows|could not be reached|could not say`)

// newsAnswer returns the answer to news: the text itself and, after a failure, also how it ended.
func newsAnswer(text string) string {
	head, inside, ok := unfenced(text)
	if !ok {
		return clip(text, shownResult)
	}
	first, _, _ := strings.Cut(head, ". ")
	if inside == "" || failures().MatchString(first) {
		return asSentence(strings.TrimSuffix(first, "."), clip(inside, shownResult))
	}
	return clip(inside, shownResult)
}
