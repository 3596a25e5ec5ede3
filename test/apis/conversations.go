// Package apis helps to test clients of model APIs. It has strict checkers of
// the vendors' published rules for requests, recorded answers, and
// conversations and tools to try clients with.
package apis

import (
	"bytes"
	"encoding/base64"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// WantBadArgs are arguments that are not JSON.
const WantBadArgs = `{"a": 6, "b": `

// Tools returns the tools that test requests offer.
func Tools() *llm.Toolset {
	spec := func(name, description, schema string) tool.Spec {
		return tool.Spec{Name: name, Description: description, Input: []byte(schema), Effect: tool.Query, Version: "1"}
	}
	return llm.NewToolset(
		spec("math.multiply", "Multiplies two numbers.", `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}`),
		spec("time.now", "Tells the time in a zone.", `{"type":"object","properties":{"zone":{"type":"string","description":"IANA name"}}}`),
		spec("text.hash", "Hashes a text.", `{"type":"object","properties":{"text":{"type":"string"},"algorithm":{"type":"string","enum":["sha256","md5"]}},"required":["text"]}`),
		spec("system.ping", "Takes no arguments.", `{"type":"object"}`),
	)
}

// Schema returns the schema of the answer that tests request.
func Schema() *llm.Schema {
	return &llm.Schema{Name: "city", JSON: []byte(`{"type":"object","properties":{"city":{"type":"string"},"population":{"type":"integer"}},"required":["city","population"],"additionalProperties":false}`)}
}

// Conversation is a history, and the provider whose model wrote its answers.
type Conversation struct {
	Name     string
	Provider string // empty: several, or none
	Messages []*message.Message
}

// Foreign and the provider's name after it are in the provider metadata of
// every fixture. They must not reach another provider.
const Foreign = "sig-only-for-"

// PNG returns a picture of one pixel.
func PNG() []byte {
	b, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err) // the constant above is wrong
	}
	return b
}

// PDF returns a small document.
func PDF() []byte {
	return []byte("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")
}

// Conversations returns histories that every provider must be able to send.
// Each ends with something that a model can answer, such as a user's message or
// a tool result.
func Conversations() []Conversation {
	var out []Conversation
	for _, p := range []string{"openai", "anthropic", "gemini", "ollama", "offline"} {
		out = append(out, fullOf(p))
	}
	return append(out,
		simple("first message", User("Hello")),
		simple("several user messages", User("Hello"), User("Are you there?"), User("Well?")),
		simple("system messages in the middle", User("Hello"), says("Hi."), system("The user went out."), User("What now?")),
		simple("a system message comes first", system("Speak French."), User("Hello")),
		simple("a system message comes last", User("Hello"), says("Hi."), system("The timer rang.")),
		simple("the assistant speaks first", says("Good morning!"), User("Hello")),
		simple("empty answer", User("Hello"), says(""), User("Why are you silent?")),
		simple("an answer without blocks", User("Hello"), &message.Message{Role: message.Assistant}, User("Why are you silent?")),
		simple("empty user text", User("Hello"), says("Hi."), User(""), User("   ")),
		simple("continued answers", User("Tell a story"), stopped(message.StopLength, "Once upon"), says(" a time."), User("More")),
		simple("cancelled", User("Tell a story"), stopped(message.StopCancelled, "Once upon"), User("Stop. Something else.")),
		simple("a refusal", User("Do evil"), stopped(message.StopRefused, "No."), User("All right then")),
		simple("whitespace around text", User("  padded\n"), says("answer with trailing space \n"), User("ok ")),
		simple("awkward characters", User("nul \x00 bell \a del \x7f \u2028 \U0001F469\u200d\U0001F467 bad \xff\xfe utf8 </script>"), says("ok"), User("and?")),
		malformed(), pictures(), outcomes(), reused(), interleaved(),
	)
}

func simple(name string, msgs ...*message.Message) Conversation {
	return Conversation{Name: name, Messages: Linked(msgs)}
}

// Linked sets the ids of the messages and links the results to their calls.
func Linked(msgs []*message.Message) []*message.Message {
	calls := map[string]message.Ref{}
	var prev id.ID
	for _, m := range msgs {
		m.ID, m.Prev = id.New(), prev
		prev = m.ID
		for _, c := range m.Calls() {
			calls[c.CallID] = c.Ref
		}
		if r := m.Result(); r != nil {
			r.Call = calls[r.CallID]
		}
	}
	return msgs
}

// User returns a user's message.
func User(s string) *message.Message {
	return &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: s}}}
}

func system(s string) *message.Message {
	return &message.Message{Role: message.System, Blocks: []message.Block{&message.Text{Text: s}}}
}

func says(s string) *message.Message { return stopped(message.StopEnd, s) }

func stopped(why message.Stop, s string) *message.Message {
	return &message.Message{Role: message.Assistant, Stop: why, Final: true, Blocks: []message.Block{&message.Text{Text: s}}}
}

func calls(blocks ...message.Block) *message.Message {
	return &message.Message{Role: message.Assistant, Stop: message.StopTools, Blocks: blocks}
}

func call(id, name, args string) *message.ToolCall {
	return &message.ToolCall{CallID: id, Name: name, Args: []byte(args)}
}

// Result returns a tool's message.
func Result(id, name string, status message.Status, content ...message.Block) *message.Message {
	return &message.Message{Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{CallID: id, Name: name, Status: status, Content: content},
	}}
}

func text(s string) message.Block { return &message.Text{Text: s} }

// fullOf returns a conversation with everything that a provider's models write:
// reasoning with its signature, parallel calls after text, results, errors.
func fullOf(p string) Conversation {
	meta := func(fields string) message.Common {
		return message.Common{Origin: "model:" + p + "/m", Meta: message.Meta{Provider: p, Fields: []byte(fields)}}
	}
	sig := Foreign + p
	var think message.Block
	first := message.Common{}
	var extra message.Meta
	switch p {
	case "anthropic":
		think = &message.Reasoning{Text: "I need two tools.", Common: meta(`{"signature":"` + sig + `"}`)}
	case "gemini":
		think = &message.Reasoning{Text: "I need two tools."}
		first = meta(`{"thoughtSignature":"` + base64.StdEncoding.EncodeToString([]byte(sig)) + `"}`)
	case "openai":
		think = &message.Reasoning{Text: "I need two tools.", Common: meta(`{"field":"reasoning_content"}`)}
		extra = message.Meta{Provider: p, Fields: []byte(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"` + sig + `"}]}`)}
	default:
		think = &message.Reasoning{Text: "I need two tools."}
	}
	ids := [4]string{"call_" + p + "1", "call_" + p + "2", "call_" + p + "3", "call_" + p + "4"}
	turn := calls(think, text("Let me see."),
		&message.ToolCall{Common: first, CallID: ids[0], Name: "math.multiply", Args: []byte(`{"a": 6, "b": 7}`)},
		call(ids[1], "text.hash", `{"text":"héllo \"wörld\""}`),
		call(ids[2], "time.now", `{}`))
	turn.Model, turn.Meta = p+"/m", extra
	return Conversation{Name: "a whole conversation of " + p, Provider: p, Messages: Linked([]*message.Message{
		User("What is 6 times 7, and the hash of that?"),
		turn,
		Result(ids[0], "math.multiply", message.OK, text("42")),
		Result(ids[1], "text.hash", message.Failed, text("no such algorithm")),
		Result(ids[2], "time.now", message.DeniedCall, text("a person said no")),
		calls(text("Once more."), call(ids[3], "text.hash", `{"text":"42","algorithm":"sha256"}`)),
		Result(ids[3], "text.hash", message.OK, text("73475cb4")),
		says("It is 42."),
		User("Thank you. And 7 times 7?"),
	})}
}

// malformed has arguments that are not JSON objects. They stay in the history.
func malformed() Conversation {
	return simple("malformed arguments", User("Multiply"),
		calls(call("c1", "math.multiply", WantBadArgs), call("c2", "math.multiply", ""),
			call("c3", "math.multiply", `[1,2]`), call("c4", "no such tool!", `{"a":1,"a":2}`), call("c5", "math.multiply", "\xff{")),
		Result("c1", "math.multiply", message.Failed, text("arguments are not JSON")),
		Result("c2", "math.multiply", message.Failed, text("arguments are missing")),
		Result("c3", "math.multiply", message.Failed, text("arguments are not an object")),
		Result("c4", "no such tool!", message.Failed, text("unknown tool")),
		Result("c5", "math.multiply", message.Failed))
}

func pictures() Conversation {
	return simple("pictures and files",
		&message.Message{Role: message.User, Blocks: []message.Block{
			text("What is this?"),
			&message.Image{MIME: "image/png", Data: PNG()},
			&message.Image{MIME: "image/jpeg", URL: "https://example.com/cat.jpg"},
			&message.File{MIME: "application/pdf", Name: "report.pdf", Data: PDF()},
			&message.File{MIME: "text/plain", Name: "notes.txt", Data: []byte("some notes")},
			&message.File{MIME: "application/pdf", Name: "far.pdf", URL: "https://example.com/far.pdf"},
			&message.File{MIME: "application/zip", Name: "all.zip", Data: []byte("PK\x03\x04")},
		}},
		calls(call("p1", "files.read", `{"path":"a.png"}`)),
		Result("p1", "files.read", message.OK, text("a picture:"), &message.Image{MIME: "image/png", Data: PNG()}),
		says("A pixel."),
		&message.Message{Role: message.User, Blocks: []message.Block{&message.Image{MIME: "image/png", Data: PNG()}}},
	)
}

// outcomes has a result with each status.
func outcomes() Conversation {
	turn := calls()
	msgs := []*message.Message{User("Try everything"), turn}
	for i, s := range []message.Status{message.OK, message.Failed, message.DeniedCall, message.Queued,
		message.Unavailable, message.UnknownEnd, message.Interrupted, message.Accepted} {
		id := "s" + string(rune('0'+i))
		turn.Blocks = append(turn.Blocks, call(id, "time.now", `{}`))
		msgs = append(msgs, Result(id, "time.now", s, text(string(s))))
	}
	return simple("every outcome", append(msgs, User("And now?"))...)
}

// reused has call ids that some servers produce: counted from zero in every
// message, or in a form that another vendor's rules forbid.
func reused() Conversation {
	long := "call:" + string(bytes.Repeat([]byte("x"), 90)) + "/ü.1"
	return simple("call ids used again, long and strange", User("Go"),
		calls(call("0", "time.now", `{}`)), Result("0", "time.now", message.OK, text("12:00")),
		calls(call("0", "time.now", `{}`)), Result("0", "time.now", message.OK, text("12:01")),
		calls(call(long, "time.now", `{}`), call("", "time.now", `{}`)),
		Result(long, "time.now", message.OK, text("12:02")), Result("", "time.now", message.OK, text("12:03")))
}

// interleaved has a user's message sent while tools ran, and a result without
// text.
func interleaved() Conversation {
	return simple("the user speaks between results", User("Go"),
		calls(call("a", "time.now", `{}`), call("b", "time.now", `{}`)),
		Result("a", "time.now", message.OK), User("Hurry up"), Result("b", "time.now", message.OK, text("12:00")),
		User("Please"))
}
