package edge_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// TestClearWordsGoToASmallAgent: without agents of one's own, what begins a conversation with clear words goes to a small
// built-in agent and costs no model call. In doubt the assistant answers, and keeps the conversation.
func TestClearWordsGoToASmallAgent(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.ScriptRouting(t, func(edge.Asked) edge.Reply {
		t.Error("the fast model was asked which agent answers")
		return edge.Chooses("assistant", 1, "")(edge.Asked{})
	}, func(in edge.Asked) edge.Reply {
		for name, part := range roles {
			if strings.Contains(in.Messages[0].Text(), part) {
				return edge.Reply{Text: "answered by " + name}
			}
		}
		return edge.Reply{Text: "?"}
	})})
	c := n.Dial()
	defer c.Close()
	conversation := ""
	for _, turns := range [][2]string{
		{"Will it rain in Graz tonight?", "weather"}, {"+And tomorrow?", "weather"}, {"+Write me a poem about my cat", "assistant"}, {"+Will it rain in Graz tonight?", "assistant"},
		{"Hello there", "assistant"}, {"Set a timer for ten minutes", "timer"}, {"Who was Ada Lovelace?", "assistant"}, {"+Set a timer for ten minutes", "assistant"},
	} {
		m := object{}
		text, goesOn := strings.CutPrefix(turns[0], "+")
		if m["content"] = text; goesOn {
			m["conversation_id"] = conversation
		}
		a := c.Turn(m, nil)
		if conversation = a.Conversation; a.Text != "answered by "+turns[1] {
			t.Errorf("%q: %s", turns[0], a.Text)
		}
		for _, f := range a.Frames {
			if f.Type == "notice" {
				t.Errorf("%q: notice %q", turns[0], f.Text)
			}
		}
	}
	// A plan without an agent is the planner's; the conversation keeps its own.
	a := c.Turn(object{"content": "Something big", "plan": true}, nil)
	b := c.Turn(object{"content": "Thanks", "conversation_id": a.Conversation}, nil)
	if a.Text != "answered by planner" || b.Text != "answered by assistant" {
		t.Errorf("planned: %s, then %s", a.Text, b.Text)
	}
	// What has several steps is answered, and a plan of it is offered.
	a = c.Turn(object{"content": "Plan a weekend mountain trip - check weather, find lodging, add to calendar"}, nil)
	offers := 0
	for _, f := range a.Frames {
		if f.Type == "notice" && strings.Contains(f.Text, "/plan") {
			offers++
		}
	}
	if a.Text != "answered by assistant" || offers != 1 {
		t.Errorf("%s, %d offers", a.Text, offers)
	}
}

// TestWhatIsDecidedByWordsIsRight: of sentences of everyday life, written after the examples of the small agents, at least
// 95 % of those that the words decide are decided rightly. What is for no small agent goes to the assistant.
func TestWhatIsDecidedByWordsIsRight(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "?"} })})
	decided, right, steps := 0, 0, 0
	for _, line := range strings.Split(strings.TrimSpace(everyday), "\n") {
		want, text, _ := strings.Cut(line, ": ")
		_, body := n.HTTP("POST", "/api/v1/route", object{"text": text})
		var d struct {
			Agent, Path string
			Steps       bool
		}
		if err := json.Unmarshal(body, &d); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if d.Path == "local" {
			if decided++; d.Agent == want {
				right++
			} else {
				t.Logf("%s: %q, want %s", d.Agent, text, want)
			}
		}
		if d.Steps {
			if steps++; want != "planner" {
				t.Errorf("a plan is offered for %q", text)
			}
		}
	}
	t.Logf("%d decided, %d right, %d offered as plans", decided, right, steps)
	if decided < 10 || float64(right) < 0.95*float64(decided) || steps == 0 {
		t.Errorf("%d decided, %d right, %d offered as plans", decided, right, steps)
	}
}

const everyday = `
weather: What is the weather in Vienna?
weather: Is it going to snow tomorrow?
weather: How warm will it be on Sunday in Rome?
weather: What's the forecast for Berlin?
weather: Will I need a coat tonight, is it cold?
weather: Is there rain coming this evening?
timer: Set a timer for 5 minutes
timer: Remind me to take out the rubbish at 8 pm
timer: Start a 25 minute timer
timer: Remind me tomorrow at nine to phone the bank
timer: Cancel my tea timer
timer: How much time is left on the timer?
calendar: What's on my calendar on Friday?
calendar: Add dentist on Monday at three to my calendar
calendar: Do I have any appointments today?
calendar: Move the meeting with Bob to Thursday
calendar: Am I free tomorrow at noon?
calendar: When is my next appointment?
assistant: Write a poem about rain
assistant: What does a timer relay do?
assistant: Explain how the Gregorian calendar was introduced
assistant: Read notes.txt and tell me what it says
assistant: Add milk to the shopping list
assistant: What is 17 times 23?
assistant: Search the web for mountain huts
assistant: Why is the sky blue?
assistant: Translate good morning into Spanish
assistant: How do I remove a red wine stain?
assistant: Summarise the file report.pdf
assistant: Which books are on my list?
assistant: Run the tests in this folder
assistant: Who wrote the four seasons?
assistant: Write an email to my boss saying I am ill tomorrow
assistant: What should I cook tonight?
assistant: Delete the folder old
assistant: Find all TODO comments in the source
assistant: Make a table of the planets
assistant: How long does it take to fly to Tokyo?
planner: Plan a weekend mountain trip - check weather, find lodging, add to calendar
planner: Plan a trip to Rome: look up the weather, find a hotel, book a table and put it in my calendar
planner: Organise the birthday party: invite the guests, order a cake and set reminders
`

// TestPromptsKnowTheTime: every kind of agent is told the date, the time and the zone with the newest message, and the place
// in its prompt. None of it is stored as anybody's words.
func TestPromptsKnowTheTime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	knows := map[string]bool{}
	note := regexp.MustCompile(`\n\n\(Sent on (Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{4}-\d\d-\d\d, \d\d:\d\d, Europe/Vienna, UTC\+0[12]:00\.\)$`)
	n := edge.New(t, edge.Options{Settings: "profile: {time_zone: Europe/Vienna, location: 'Graz, Austria'}\n", Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		system, kind := in.Messages[0].Text(), ""
		for name, part := range map[string]string{"assistant": roles["assistant"], "planner": roles["planner"], "weather": roles["weather"], "folder": "You are the poet.", "designed": "You add numbers."} {
			if strings.Contains(system, part) {
				kind = name
			}
		}
		said := ""
		for _, m := range in.Messages {
			if m.Role == "user" {
				said = m.Text()
			}
		}
		if kind == "folder" && strings.HasPrefix(said, "A verse about") {
			kind = "asked"
		}
		mu.Lock()
		knows[kind] = note.MatchString(said) && strings.Contains(system, "Time zone: Europe/Vienna\nLocation: Graz, Austria")
		if !knows[kind] {
			t.Errorf("%s: %q\nsystem %q", kind, said, system)
		}
		mu.Unlock()
		switch {
		case kind == "planner" && in.Rounds() == 0 && strings.Contains(system, " poet.ask: success"):
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "purpose": "Add", "selected_tools": []string{"math.add"}, "agent_system_prompt": "You add numbers."}}}}
		case kind == "planner" && !strings.Contains(system, " poet.ask: success"):
			t.Errorf("the planner does not know what was done last: %s", system)
		case kind == "assistant" && strings.Contains(said, "poet") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "poet.ask", Args: object{"request": "A verse about the moon"}}}}
		}
		return edge.Reply{Text: "ok"}
	})})
	n.Must("ask", "-q", "Will it rain in Graz tonight?")
	n.Write("name: poet\ndescription: Writes verse\n", "data", "agents", "poet", "agent.yaml")
	n.Write("You are the poet.", "data", "agents", "poet", "PROMPT.md")
	n.Must("agents", "approve", "poet", "--yes")
	n.Must("ask", "-q", "--agent", "poet", "A sonnet")
	n.Must("ask", "-q", "--agent", "assistant", "Have the poet write something")
	n.Must("ask", "-q", "--agent", "planner", "Add numbers")
	for _, kind := range []string{"assistant", "planner", "weather", "folder", "asked", "designed"} {
		if !knows[kind] {
			t.Errorf("%s was not asked, or does not know the time", kind)
		}
	}
	if out := n.Must("search", "sonnet") + n.Must("search", "poet"); strings.Contains(out, "Sent on") {
		t.Errorf("the note is stored: %s", out)
	}
}
