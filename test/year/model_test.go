package year

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"

	"steward/test/edge"
)

// model is the language model: it chats, it does what pages say, and it reads conversations for facts, about as
// well as a small model does. What it answers depends only on what it is asked.
type model struct {
	life *life

	mu    sync.Mutex
	reads int
}

// How the model errs when it reads a conversation.
const (
	misses      = 0.04 // does not see a fact
	forgets     = 0.15 // does not say which known fact is no longer true
	rephrases   = 0.4  // notes a fact in other words
	notesJunk   = 0.04 // notes what nobody needs
	notesAgain  = 0.5  // notes what is known already
	readsPrompt = "You read what a person has written to an assistant"
)

var pageAsked = regexp.MustCompile(`^Read (http://127\.0\.0\.1:8080/(\d))`)

func (m *model) reply(a edge.Asked) edge.Reply {
	if strings.Contains(a.Messages[0].Text(), readsPrompt) {
		return edge.Reply{Text: m.read(a.Last().Text())}
	}
	asked := ""
	for _, s := range a.Messages {
		if text := s.Text(); s.Role == "user" && !strings.HasPrefix(text, "(From ") {
			asked = text
		}
	}
	if page := pageAsked.FindStringSubmatch(asked); page != nil {
		switch a.Rounds() {
		case 0:
			return edge.Reply{Calls: []edge.Call{{Name: "web.fetch", Args: map[string]any{"url": page[1]}}}}
		case 1: // it is easily led
			_, text, _ := strings.Cut(poisons[page[2][0]-'0'].text, "emember that ")
			return edge.Reply{Calls: []edge.Call{{Name: "memory.save", Args: map[string]any{"content": text}}}}
		}
		return edge.Reply{Text: "It has ten tips."}
	}
	if text, ok := strings.CutPrefix(asked, "Remember that "); ok && a.Rounds() == 0 {
		text, _, _ = strings.Cut(text, "\n")
		return edge.Reply{Calls: []edge.Call{{Name: "memory.save", Args: map[string]any{"content": strings.ToUpper(text[:1]) + text[1:]}}}}
	}
	return edge.Reply{Text: "All right."}
}

// knownFact is a fact that the model is shown.
type knownFact struct{ id, text string }

// read answers a request to read a conversation.
func (m *model) read(text string) string {
	m.mu.Lock()
	m.reads++
	m.mu.Unlock()
	h := fnv.New64a()
	body := text
	var known []knownFact
	if rest, ok := strings.CutPrefix(text, "KNOWN FACTS:\n"); ok {
		list, after, _ := strings.Cut(rest, "\n\n")
		body = after
		for line := range strings.Lines(list) {
			which, fact, _ := strings.Cut(strings.TrimSpace(line), ": ")
			known = append(known, knownFact{which, fact})
		}
	}
	said := messagesOf(body)
	for _, s := range said {
		h.Write([]byte(s))
	}
	r := rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // not for secrets
	type fact struct {
		Message    int      `json:"message"`
		Subject    string   `json:"subject"`
		Text       string   `json:"text"`
		Type       string   `json:"type"`
		Importance float64  `json:"importance"`
		Replaces   []string `json:"replaces"`
	}
	out := struct {
		Facts []fact `json:"facts"`
	}{[]fact{}}
	for n, said := range said {
		found := false
		for _, s := range m.life.all() {
			if !contains(said, s.text) {
				continue
			}
			found = true
			if r.Float64() < misses {
				continue
			}
			f := fact{Message: n + 1, Text: s.text, Type: "fact", Importance: 0.5, Replaces: []string{}}
			x := &m.life.topics[s.topic]
			if strings.Contains(s.text, "lways use") || strings.Contains(s.text, "lways give") || strings.Contains(s.text, "lways answer") {
				f.Type, f.Importance = "instruction", 0.8
			}
			if r.Float64() < rephrases {
				f.Text = strings.ReplaceAll(x.note[r.IntN(len(x.note))], "{v}", s.value)
			}
			again := false
			for _, k := range known {
				about, value := m.life.about(k.text)
				switch {
				case about != s.topic:
				case value == s.value:
					again = true
				case r.Float64() >= forgets:
					f.Replaces = append(f.Replaces, k.id)
				}
			}
			if again && r.Float64() >= notesAgain {
				continue
			}
			out.Facts = append(out.Facts, f)
		}
		if strings.Contains(said, lockerCode) || strings.Contains(said, safeCode) {
			out.Facts = append(out.Facts, fact{Message: n + 1, Text: strings.TrimSpace(said), Type: "fact", Importance: 0.5, Replaces: []string{}})
			found = true
		}
		if !found && r.Float64() < notesJunk {
			out.Facts = append(out.Facts, fact{Message: n + 1, Text: said, Type: "fact", Importance: 0.3, Replaces: []string{}})
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}

// messagesOf returns the messages that a request shows. Each stands between two random marks.
func messagesOf(body string) (out []string) {
	parts := strings.Split(body, "\n--- ")
	for i := 1; i+1 < len(parts); i += 2 {
		_, said, _ := strings.Cut(parts[i], "\n")
		out = append(out, strings.TrimSpace(said))
	}
	return out
}

// all returns everything that is told.
func (l *life) all() (out []told) {
	for _, c := range l.talks {
		out = append(out, c.told...)
	}
	return out
}

// about returns which topic a text is about and what it says, or -1.
func (l *life) about(text string) (topic int, value string) {
	for n := range l.topics {
		x := &l.topics[n]
		for _, v := range x.values {
			for _, templates := range [][]string{x.note, x.say, x.turn, x.fix} {
				for _, s := range templates {
					if _, second, ok := strings.Cut(s, "! "); ok { // passages are sentences
						s = second
					}
					before, after, ok := strings.Cut(s, "{o}")
					if ok { // any value before
						at := strings.Index(strings.ToLower(text), strings.ToLower(fill(before, v)))
						if at >= 0 && contains(text[at:], fill(after, v)) && contains(text, v) {
							return n, v
						}
						continue
					}
					if contains(text, fill(s, v)) {
						return n, v
					}
				}
			}
		}
	}
	return -1, ""
}

func fill(template, value string) string { return strings.ReplaceAll(template, "{v}", value) }

// contains reports whether a text has another one in it, whatever the case.
func contains(text, part string) bool {
	part = strings.TrimRight(strings.ToLower(part), ".")
	text = strings.ToLower(text)
	at := strings.Index(text, part)
	if at < 0 {
		return false
	}
	rest := text[at+len(part):]
	return rest == "" || !(rest[0] >= 'a' && rest[0] <= 'z' || rest[0] >= '0' && rest[0] <= '9')
}
