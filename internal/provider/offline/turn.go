package offline

import (
	"strings"

	"steward/internal/message"
)

// turn is what a user said and what has come of it so far.
type turn struct {
	text   string
	calls  []*made
	cut    string // text that an answer without end has given so far
	images bool
	news   bool // not said by the user: what came of something that went on by itself
}

// made is a call that was made, with its result once that is there.
type made struct {
	name   string
	args   []byte
	result *message.ToolResult
}

// turnOf reads the last turn of a transcript. Messages of a user that follow
// one another are one turn; news is a turn of its own.
func turnOf(msgs []*message.Message) *turn {
	cur := &turn{}
	answered, said := false, false
	for _, m := range msgs {
		switch m.Role {
		case message.User:
			if !says(m) {
				continue
			}
			if news := tellsNews(m); !said || answered || news || cur.news {
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

// says reports a message of the user's own: Steward's carry the origin "system".
func says(m *message.Message) bool {
	return m.Role == message.User && (len(m.Blocks) == 0 || m.Blocks[0].Base().Origin != "system")
}

// user adds what the user says: the first text of a message that is the
// user's own. What comes with it is material, and no wish.
func (t *turn) user(m *message.Message) {
	wish, own := "", false
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			if mine := !b.Labels.Has(message.Untrusted); wish == "" || mine && !own {
				wish, own = b.Text, mine
			}
		case *message.Image:
			t.images = true
		}
	}
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

// result gives a result to the first call of its name that has none.
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

// tellsNews reports a message that Steward wrote to tell of something: its
// origin is a tool that worked on, or an agent that has more to say. It is no
// wish: it is told, and nothing is called. What an agent asks of another one
// has an agent's origin too, and is a wish.
func tellsNews(m *message.Message) bool {
	if m.Role != message.User || len(m.Blocks) == 0 {
		return false
	}
	origin := m.Blocks[0].Base().Origin
	if strings.HasPrefix(origin, "agent:") {
		_, _, ok := unfenced(m.Text())
		return ok
	}
	return strings.HasPrefix(origin, "tool:") || strings.HasPrefix(origin, "intent:")
}

// unfenced takes a message apart into what Steward says and the text of others
// that it sets apart between two equal lines, which begin with "--- ".
func unfenced(text string) (head, inside string, ok bool) {
	head, rest, _ := strings.Cut(strings.TrimSpace(text), "\n--- ")
	mark, rest, _ := strings.Cut(rest, "\n")
	inside, ok = strings.CutSuffix("\n"+rest, "\n--- "+mark)
	return head, strings.TrimSpace(inside), ok && mark != ""
}

// failures are what Steward says of work that did not end well.
var failures = pattern(`it failed|it was denied|it was stopped|nobody knows|could not be reached|could not say`)

// retold is what is said of news: the text itself if all went well, else also
// how it ended.
func retold(text string) string {
	head, inside, ok := unfenced(text)
	if !ok {
		return clip(text, shownResult)
	}
	first, _, _ := strings.Cut(head, ". ")
	if inside == "" || failures().MatchString(first) {
		return sentence(strings.TrimSuffix(first, "."), clip(inside, shownResult))
	}
	return clip(inside, shownResult)
}
