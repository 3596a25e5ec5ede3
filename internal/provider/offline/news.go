package offline

import (
	"strings"

	"steward/internal/message"
)

// What comes later - the result of a tool that worked on, the answer of an
// agent to such a one - arrives as a message in the user's place. It is no
// wish: it is told, and nothing is called.

// tellsNews reports a message that Steward wrote to tell of something: its
// origin is a tool, or an agent that was asked and has more to say. What an
// agent asks of another one has an agent's origin too, and is a wish.
func tellsNews(m *message.Message) bool {
	if m.Role != message.User || len(m.Blocks) == 0 {
		return false
	}
	origin := m.Blocks[0].Base().Origin
	if strings.HasPrefix(origin, agentOrigin) {
		_, _, ok := unfenced(m.Text())
		return ok
	}
	return strings.HasPrefix(origin, "tool:") || strings.HasPrefix(origin, "intent:")
}

// fence opens the lines that set a text of others apart.
const fence = "--- "

// unfenced takes a message apart into what Steward says and the text that it
// sets apart between two marks.
func unfenced(text string) (head, inside string, ok bool) {
	text = strings.TrimSpace(text)
	at := strings.LastIndex(text, "\n"+fence)
	if at < 0 {
		return text, "", false
	}
	mark := text[at+1:]
	head, inside, ok = strings.Cut(text[:at+1], "\n"+mark+"\n")
	if !ok || strings.ContainsAny(mark, "\n") {
		return text, "", false
	}
	lines := strings.Split(head, "\n")
	if len(lines) > 1 { // the last one explains the marks
		lines = lines[:len(lines)-1]
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), strings.TrimSpace(inside), true
}

// failed are the words with which Steward says that something did not end well.
var failed = []string{"it failed", "it was denied", "it was stopped", "nobody knows", "could not be reached", "could not say"}

// retold is what is said of news: the text itself if all went well, else also
// how it ended.
func retold(text string) string {
	head, inside, ok := unfenced(text)
	if !ok {
		return clip(head, shownResult)
	}
	first, _, _ := strings.Cut(head, ". ")
	for _, f := range failed {
		if strings.Contains(first, f) {
			return sentence(strings.TrimSuffix(first, "."), clip(inside, shownResult))
		}
	}
	if inside == "" {
		return sentence(strings.TrimSuffix(first, "."), "")
	}
	return clip(inside, shownResult)
}
