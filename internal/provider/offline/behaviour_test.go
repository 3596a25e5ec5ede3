package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/internal/tool"
)

func decodeObject(raw []byte) map[string]any {
	var v map[string]any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// conversation is one with tools that really compute.
type conversation struct {
	t      *testing.T
	model  llm.Model
	tools  *llm.Toolset
	run    map[string]func(args map[string]any) (string, message.Status)
	log    *llm.Transcript
	made   []string // the calls, as NAME{ARGS}
	system string
	sample llm.Sampling
	choice string
}

func number(args map[string]any, name string) float64 {
	v, _ := args[name].(float64)
	return v
}

func binary() string {
	return `{"type":"object","properties":{"a":{"type":"number","description":"the first number"},"b":{"type":"number","description":"the second number"}},"required":["a","b"],"additionalProperties":false}`
}

func newConversation(t *testing.T) *conversation {
	c := &conversation{t: t, model: newProvider().Model("steward"), log: llm.NewTranscript(), run: map[string]func(map[string]any) (string, message.Status){}}
	var specs []tool.Spec
	add := func(name, desc, schema string, effect tool.Effect, run func(map[string]any) (string, message.Status)) {
		specs = append(specs, tool.Spec{Name: name, Description: desc, Input: []byte(schema), Effect: effect})
		c.run[name] = run
	}
	calc := func(f func(a, b float64) float64) func(map[string]any) (string, message.Status) {
		return func(args map[string]any) (string, message.Status) {
			return fmt.Sprint(f(number(args, "a"), number(args, "b"))), message.OK
		}
	}
	add("math.multiply", "Multiplies two numbers.", binary(), tool.Query, calc(func(a, b float64) float64 { return a * b }))
	add("math.add", "Adds two numbers.", binary(), tool.Query, calc(func(a, b float64) float64 { return a + b }))
	add("math.subtract", "Subtracts the second number from the first.", binary(), tool.Query, calc(func(a, b float64) float64 { return a - b }))
	add("math.divide", "Divides the first number by the second.", binary(), tool.Query, func(args map[string]any) (string, message.Status) {
		if number(args, "b") == 0 {
			return "division by zero", message.Failed
		}
		return fmt.Sprint(number(args, "a") / number(args, "b")), message.OK
	})
	add("weather.current", "Tells the current weather in a city.", `{"type":"object","properties":{"city":{"type":"string","description":"Name of the city"}},"required":["city"]}`, tool.Query,
		func(args map[string]any) (string, message.Status) {
			return fmt.Sprintf(`{"city":%q,"temperature":20}`, args["city"]), message.OK
		})
	add("lamp.turn_on", "Turns a lamp on.", `{"type":"object","properties":{"room":{"type":"string","description":"Room of the lamp"}},"required":["room"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) { return "", message.OK })
	add("lamp.set_brightness", "Sets the brightness of a lamp.", `{"type":"object","properties":{"room":{"type":"string","description":"Room of the lamp"},"percent":{"type":"integer","minimum":0,"maximum":100}},"required":["room","percent"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) { return "", message.OK })
	add("notes.remind", "Reminds the user of something.", `{"type":"object","properties":{"task":{"type":"string","description":"What to remind of"},"time":{"type":"string","format":"date-time","description":"When"}},"required":["task","time"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) { return "", message.Queued })
	add("files.delete", "Deletes a file.", `{"type":"object","properties":{"path":{"type":"string","description":"Path of the file"}},"required":["path"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) { return "the user said no", message.DeniedCall })
	add("text.hash", "Computes the checksum of a text.", `{"type":"object","properties":{"text":{"type":"string"},"algorithm":{"type":"string","enum":["sha256","md5"],"default":"sha256"}},"required":["text"]}`, tool.Query,
		func(args map[string]any) (string, message.Status) {
			return fmt.Sprintf("hash(%v)", args["text"]), message.OK
		})
	add("orders.create", "Creates an order for an article.", `{"type":"object","properties":{"article":{"type":"string","description":"Name of the article"},"quantity":{"type":"integer"}},"required":["article","quantity"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) {
			return `{"order_id":"OR-77","state":"new"}`, message.OK
		})
	add("orders.cancel", "Cancels an order.", `{"type":"object","properties":{"order_id":{"type":"string","description":"Number of the order"}},"required":["order_id"]}`, tool.Action,
		func(args map[string]any) (string, message.Status) { return "", message.OK })
	c.tools = llm.NewToolset(specs...)
	return c
}

// say runs the loop for one thing that the user says and returns the answer.
func (c *conversation) say(text string) string {
	c.t.Helper()
	c.log.Append(user(text))
	for range 10 {
		r := ask(c.t, c.model, &llm.Request{System: c.system, Transcript: c.log, Tools: c.tools, Sampling: c.sample, ToolChoice: c.choice})
		m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: r.Blocks, Stop: r.Stop, Model: r.Model}
		c.log.Append(m)
		calls := m.Calls()
		if (len(calls) > 0) != (r.Stop == message.StopTools) {
			c.t.Fatalf("%d calls with stop %q", len(calls), r.Stop)
		}
		if len(calls) == 0 {
			return m.Text()
		}
		for _, call := range calls {
			args := decodeObject(call.Args)
			if args == nil {
				c.t.Fatalf("arguments are no object: %s", call.Args)
			}
			c.made = append(c.made, call.Name+string(call.Args))
			out, status := c.run[call.Name](args)
			c.log.Append(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
				Call: call.Ref, CallID: call.CallID, Name: call.Name, Status: status, Content: []message.Block{&message.Text{Text: out}}}}})
		}
	}
	c.t.Fatalf("%q never ended; calls: %v", text, c.made)
	return ""
}

// exchange is what is said, which calls it must lead to and what the answer
// must say.
type exchange struct {
	say    string
	calls  string // joined by a space
	answer []string
}

func TestConversations(t *testing.T) {
	for name, list := range map[string][]exchange{
		"one call":                   {{"Multiply 6 by 7.", `math.multiply{"a":6,"b":7}`, []string{"42"}}},
		"parallel wishes":            {{"multiply 6 by 7 and tell me the weather in Oslo", `math.multiply{"a":6,"b":7} weather.current{"city":"Oslo"}`, []string{"42", "temperature 20"}}},
		"a chain":                    {{"multiply 6 by 7, then add 5 to the result", `math.multiply{"a":6,"b":7} math.add{"a":5,"b":42}`, []string{"42", "47"}}},
		"a chain without pronoun":    {{"multiply 6 by 7 and then add 5", `math.multiply{"a":6,"b":7} math.add{"a":42,"b":5}`, []string{"47"}}},
		"a long chain":               {{"Subtract 5 from 12, then multiply it by 3, then hash the result.", `math.subtract{"a":12,"b":5} math.multiply{"a":7,"b":3} text.hash{"text":"21"}`, []string{"hash(21)"}}},
		"a broken chain":             {{"divide 7 by 0, then add 5 to the result", `math.divide{"a":7,"b":0}`, []string{"failed: division by zero", "did not go on with math.add"}}},
		"order without data":         {{"Turn on the kitchen lamp, then tell me the weather in Oslo.", `lamp.turn_on{"room":"kitchen"} weather.current{"city":"Oslo"}`, []string{"Done"}}},
		"a pronoun for an argument":  {{"Turn on the lamp in the kitchen and set it to 40 percent brightness", `lamp.turn_on{"room":"kitchen"} lamp.set_brightness{"percent":40,"room":"kitchen"}`, nil}},
		"a member of a result":       {{"Create an order of 3 pieces of the article \"soap\", then cancel it.", `orders.create{"article":"soap","quantity":3} orders.cancel{"order_id":"OR-77"}`, nil}},
		"a list makes several calls": {{"What's the weather in Berlin and Tokyo?", `weather.current{"city":"Berlin"} weather.current{"city":"Tokyo"}`, []string{"Berlin", "Tokyo"}}},
		"a follow-up": {
			{"What is 6 times 7?", `math.multiply{"a":6,"b":7}`, []string{"42"}},
			{"and times 3?", `math.multiply{"a":42,"b":3}`, []string{"126"}},
			{"Divide that by 2", `math.divide{"a":126,"b":2}`, []string{"63"}},
		},
		"an ellipsis": {
			{"What's the weather in Berlin?", `weather.current{"city":"Berlin"}`, nil},
			{"And in Tokyo?", `weather.current{"city":"Tokyo"}`, []string{"Tokyo"}},
			{"What about Lisbon?", `weather.current{"city":"Lisbon"}`, []string{"Lisbon"}},
		},
		"a question and its answer": {
			{"Remind me tomorrow at 7pm.", "", []string{"notes.remind", "task", "?"}},
			{"water the plants", `notes.remind{"task":"water the plants","time":"2026-03-05T19:00:00Z"}`, []string{"queued"}},
		},
		"two questions": {
			{"Set the brightness of the lamp", "", []string{"room", "percent", "?"}},
			{"the kitchen", "", []string{"percent", "?"}},
			{"40", `lamp.set_brightness{"percent":40,"room":"kitchen"}`, []string{"Done"}},
		},
		"something else instead of an answer": {
			{"Remind me tomorrow at 7pm.", "", []string{"?"}},
			{"What's the weather in Berlin?", `weather.current{"city":"Berlin"}`, []string{"Berlin"}},
		},
		"a denied call":          {{"Delete notes/old.txt", `files.delete{"path":"notes/old.txt"}`, []string{"not allowed", "the user said no"}}},
		"no tool":                {{"Write a poem about autumn.", "", []string{"not a language model", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "Ollama"}}},
		"one of two":             {{"Multiply 2 by 4. Sing me a lullaby.", `math.multiply{"a":2,"b":4}`, []string{"8", "no tool", "lullaby"}}},
		"words and units":        {{"What is twenty-one times three and a half?", `math.multiply{"a":21,"b":3.5}`, []string{"73.5"}}},
		"a minus":                {{"add minus five and 1,234.5", `math.add{"a":-5,"b":1234.5}`, []string{"1229.5"}}},
		"German":                 {{"Multipliziere 6 mit 7 und dann addiere 2,5", `math.multiply{"a":6,"b":7} math.add{"a":42,"b":2.5}`, []string{"44.5"}}},
		"French":                 {{"Multiplie six par 7", `math.multiply{"a":6,"b":7}`, []string{"42"}}},
		"Spanish":                {{"multiplica 6 por siete", `math.multiply{"a":6,"b":7}`, []string{"42"}}},
		"a quotation is no wish": {{`hash "multiply 2 by 3 and delete notes.txt"`, `text.hash{"text":"multiply 2 by 3 and delete notes.txt"}`, nil}},
		"the same twice":         {{"multiply 2 by 3 and multiply 2 by 3", `math.multiply{"a":2,"b":3}`, []string{"6"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			for _, x := range list {
				c.made = nil
				answer := c.say(x.say)
				if got := strings.Join(c.made, " "); got != x.calls {
					t.Errorf("%q\n calls %s\n want  %s\n answer %s", x.say, got, x.calls, answer)
				}
				for _, part := range x.answer {
					if !strings.Contains(answer, part) {
						t.Errorf("%q: %q is not in the answer: %s", x.say, part, answer)
					}
				}
			}
		})
	}
}

func TestStatusesAreToldHonestly(t *testing.T) {
	for status, want := range map[message.Status]string{
		message.OK: "Done", message.Failed: "failed: oops", message.DeniedCall: "not allowed", message.Queued: "queued",
		message.Unavailable: "could not be reached", message.UnknownEnd: "Nobody knows", message.Interrupted: "stopped before it ran", "odd": "odd",
	} {
		c := newConversation(t)
		c.run["lamp.turn_on"] = func(map[string]any) (string, message.Status) {
			if status == message.OK {
				return "", status
			}
			return "oops", status
		}
		if got := c.say("Turn on the lamp in the kitchen"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", status, got)
		}
	}
}

func TestResultsAreShown(t *testing.T) {
	for result, want := range map[string]string{
		"It is sunny.":                "It is sunny.",
		"line one\nline two":          ":\n\nline one\nline two",
		`{"a":1,"kind":"x"}`:          "a 1, kind x",
		`{"a":{"b":[1,2]}}`:           `{"a":{"b":[1,2]}}`,
		`"plain"`:                     "plain",
		strings.Repeat("long ", 2000): "this is its beginning",
	} {
		c := newConversation(t)
		c.run["weather.current"] = func(map[string]any) (string, message.Status) { return result, message.OK }
		if got := c.say("Tell me the weather in Oslo"); !strings.Contains(got, want) || len(got) > 6000 {
			t.Errorf("%.40q: %.300s", result, got)
		}
	}
}

func TestToolChoice(t *testing.T) {
	c := newConversation(t)
	c.choice = "none"
	if c.say("multiply 6 by 7"); len(c.made) != 0 {
		t.Errorf("none: %v", c.made)
	}
	c = newConversation(t)
	c.choice = "required"
	if c.say("12 and 4"); len(c.made) != 1 {
		t.Errorf("required: %v", c.made)
	}
	c = newConversation(t)
	c.choice = "math.add"
	if c.say("multiply 12 by 4"); strings.Join(c.made, " ") != `math.add{"a":12,"b":4}` {
		t.Errorf("named: %v", c.made)
	}
	c = newConversation(t)
	c.choice = "math.add"
	if got := c.say("hello"); len(c.made) != 0 || !strings.Contains(got, "?") {
		t.Errorf("named without arguments: %v %s", c.made, got)
	}
	c = newConversation(t)
	c.tools, c.choice = nil, "required"
	if got := c.say("hello"); !strings.Contains(got, "no tools") {
		t.Errorf("no tools: %s", got)
	}
}

func TestLimits(t *testing.T) {
	whole := newConversation(t).say("Who are you?")
	for _, max := range []int{1, 7, 20} {
		c := newConversation(t)
		c.sample.MaxTokens = max
		got := c.say("Who are you?")
		for i := 0; len(got) < len(whole) && i < 200; i++ {
			if len(got) > max*4*(i+1) {
				t.Fatalf("%d tokens: %d bytes", max, len(got))
			}
			c.log.Append(&message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "system"}, Text: "Your reply was cut off. Continue."}}})
			r := ask(t, c.model, &llm.Request{Transcript: c.log, Tools: c.tools, Sampling: c.sample})
			m := &message.Message{Role: message.Assistant, Blocks: r.Blocks, Stop: r.Stop}
			c.log.Append(m)
			got += m.Text()
		}
		if got != whole {
			t.Errorf("%d tokens: the pieces make %q", max, got)
		}
	}
	c := newConversation(t)
	c.sample.Stop = []string{"", "language model"}
	r := c.say("Who are you?")
	if strings.Contains(r, "language model") || !strings.HasPrefix(whole, r) {
		t.Errorf("stop: %q", r)
	}
	last := c.log.Messages()
	if s := last[len(last)-1].Stop; s != message.StopSequence {
		t.Errorf("stop reason %q", s)
	}
}

func TestCallsThatDoNotFitTheLimit(t *testing.T) {
	c := newConversation(t)
	ts := llm.NewTranscript(user("multiply 6 by 7 and multiply 8 by 9"))
	r := ask(t, c.model, &llm.Request{Transcript: ts, Tools: c.tools, Sampling: llm.Sampling{MaxTokens: 8}})
	if len(callsOf(r)) != 1 || r.Stop != message.StopTools {
		t.Errorf("%d calls, %s", len(callsOf(r)), r.Stop)
	}
	var notices []string
	for e, err := range c.model.Stream(context.Background(), &llm.Request{Transcript: ts, Tools: c.tools, Sampling: llm.Sampling{MaxTokens: 2}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case llm.Notice:
			notices = append(notices, e.Text)
		case llm.CallStart:
			t.Error("half a call")
		case llm.Done:
			if e.Reply.Stop != message.StopLength {
				t.Errorf("stop %s", e.Reply.Stop)
			}
		}
	}
	if len(notices) == 0 || !strings.Contains(strings.Join(notices, " "), "too small") {
		t.Errorf("notices: %q", notices)
	}
}

func TestStream(t *testing.T) {
	c := newConversation(t)
	var text strings.Builder
	var reply *llm.Reply
	pieces := 0
	for e, err := range c.model.Stream(context.Background(), &llm.Request{Transcript: llm.NewTranscript(user("Hello!")), Tools: c.tools}) {
		if err != nil {
			t.Fatal(err)
		}
		if reply != nil {
			t.Fatal("an event after Done")
		}
		switch e.Kind {
		case llm.TextDelta:
			text.WriteString(e.Text)
			pieces++
		case llm.Done:
			reply = e.Reply
		}
	}
	if got := reply.Blocks[0].(*message.Text).Text; got != text.String() || pieces < 10 {
		t.Errorf("%d pieces: %q instead of %q", pieces, text.String(), got)
	}
	if reply.Model != "offline/steward" || reply.Usage.Input == 0 || reply.Usage.Output != int64(len(text.String())+3)/4 {
		t.Errorf("%+v", reply)
	}
}

func TestCancellation(t *testing.T) {
	c := newConversation(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	var last error
	for e, err := range c.model.Stream(ctx, &llm.Request{Transcript: llm.NewTranscript(user("Hello!")), Tools: c.tools}) {
		if n++; n == 3 {
			cancel()
		}
		if e.Kind == llm.Done {
			t.Error("done after the end")
		}
		last = err
	}
	if !fault.HasCode(last, "cancelled") || n != 4 {
		t.Errorf("%d events, %v", n, last)
	}
	for range c.model.Stream(context.Background(), &llm.Request{Transcript: llm.NewTranscript(user("Hello!"))}) {
		break // must not panic or go on
	}
	for range c.model.Stream(context.Background(), &llm.Request{Transcript: llm.NewTranscript(user("add 1 and 2")), Tools: c.tools}) {
		break
	}
}

func TestNotices(t *testing.T) {
	c := newConversation(t)
	notices := func(r *llm.Request) (out []string) {
		for e, err := range c.model.Stream(context.Background(), r) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == llm.Notice {
				out = append(out, e.Text)
			}
		}
		return out
	}
	first := llm.NewTranscript(user("Hello!"))
	if got := notices(&llm.Request{Transcript: first}); len(got) != 1 || got[0] != offline.Disclosure {
		t.Errorf("first: %q", got)
	}
	later := llm.NewTranscript(user("Hello!"), &message.Message{Role: message.Assistant, Blocks: []message.Block{&message.Text{Text: "Hi."}}}, user("Hello!"))
	if got := notices(&llm.Request{Transcript: later}); len(got) != 0 {
		t.Errorf("later: %q", got)
	}
	warm := 0.7
	if got := notices(&llm.Request{Transcript: later, Sampling: llm.Sampling{Temperature: &warm, Effort: llm.EffortHigh}}); len(got) != 2 {
		t.Errorf("settings: %q", got)
	}
	picture := &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "What is this?"}, &message.Image{MIME: "image/png", Data: []byte{1}}}}
	if got := notices(&llm.Request{Transcript: llm.NewTranscript(later.Messages()[0], later.Messages()[1], picture)}); len(got) != 1 || !strings.Contains(got[0], "images") {
		t.Errorf("images: %q", got)
	}
}

func TestTheSystemPromptNamesTheZone(t *testing.T) {
	for system, want := range map[string]string{
		"The user's time zone is America/New_York (see docs/x).": "2026-03-05T19:00:00-05:00",
		"Time zone: Nowhere/Land, or Europe/Atlantis":            "2026-03-05T19:00:00Z",
		"and/or Asia/Tokyo.": "2026-03-05T19:00:00+09:00",
	} {
		c := newConversation(t)
		c.system = system
		c.say("Remind me to call Anna tomorrow at 7pm")
		if got := strings.Join(c.made, ""); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", system, got, want)
		}
	}
}

func TestACallIsNeverRepeatedThoughTimePasses(t *testing.T) {
	now := grammarNow
	c := newConversation(t)
	c.model = offline.New(offline.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }}).Model("")
	c.say("Remind me to call Anna in 20 minutes and multiply 6 by 7")
	if len(c.made) != 2 {
		t.Errorf("%v", c.made)
	}
}

func TestCallsOfAnotherModelAreTakenOver(t *testing.T) {
	c := newConversation(t)
	call := &message.Message{ID: id.New(), Role: message.Assistant, Stop: message.StopTools, Model: "openai/x", Blocks: []message.Block{
		&message.ToolCall{CallID: "x1", Name: "math.multiply", Args: []byte(`{"a":6,"b":7}`)}}}
	c.log.Append(user("Multiply 6 by 7"), call, &message.Message{Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{CallID: "x1", Status: message.OK, Content: []message.Block{&message.Text{Text: "42"}}}}})
	r := ask(t, c.model, &llm.Request{Transcript: c.log, Tools: c.tools})
	if len(callsOf(r)) != 0 || !strings.Contains(r.Blocks[0].(*message.Text).Text, "42") {
		t.Errorf("%+v", r.Blocks)
	}
}

func TestGoOnAfterABound(t *testing.T) {
	c := newConversation(t)
	c.log.Append(user("multiply 6 by 7, then add 5 to the result"))
	r := ask(t, c.model, &llm.Request{Transcript: c.log, Tools: c.tools})
	m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: r.Blocks, Stop: r.Stop}
	c.log.Append(m, &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: m.Calls()[0].Ref, Name: "math.multiply", Status: message.OK, Content: []message.Block{&message.Text{Text: "42"}}}}},
		&message.Message{Role: message.Assistant, Stop: message.StopBound, Blocks: []message.Block{&message.Text{Text: "I stopped."}}})
	if c.say("go on"); strings.Join(c.made, " ") != `math.add{"a":5,"b":42}` {
		t.Errorf("%v", c.made)
	}
}

func TestModels(t *testing.T) {
	p := offline.New(offline.Options{})
	list, err := p.Models(context.Background())
	if err != nil || p.Name() != "offline" || len(list) != 2 || list[0].Name != "steward" || list[0].Embedder || !list[1].Embedder {
		t.Errorf("%v %v", list, err)
	}
}

func textOf(blocks []message.Block) string {
	return (&message.Message{Blocks: blocks}).Text()
}
