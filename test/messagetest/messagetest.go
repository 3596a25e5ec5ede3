// Package messagetest generates valid messages and histories for the tests of
// whatever stores, sends or reads them.
package messagetest

import (
	"encoding/json"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/message"
)

// Message generates messages that message.Validate accepts, of all roles.
// What the codec does not distinguish (an empty and a nil slice) is nil.
func Message() *rapid.Generator[*message.Message] {
	return rapid.Custom(func(t *rapid.T) *message.Message {
		role := rapid.SampledFrom([]message.Role{message.System, message.User, message.Assistant, message.Tool}).Draw(t, "role")
		m := head(t, role)
		m.Prev = id.Derive("prev", ID().Draw(t, "prev").String())
		switch role {
		case message.Tool:
			m.Blocks = []message.Block{result(t, message.Ref{Message: ID().Draw(t, "call"), Block: rapid.IntRange(0, 99).Draw(t, "block")},
				text(t, "call_id"), "math."+name(t))}
		case message.Assistant:
			m.Blocks = list(t, 0, 5, assistantBlock)
			m.Final = len(m.Calls()) == 0 && rapid.Bool().Draw(t, "final")
		default:
			m.Blocks = list(t, 1, 4, contentBlock)
		}
		return m
	})
}

// History generates histories that message.CheckHistory accepts, of valid
// messages: turns of a user message, any number of rounds of calls with their
// results (parallel ones in any order), and an answer. The last turn may be
// cut anywhere, so the calls of the last assistant message may be open.
func History() *rapid.Generator[[]*message.Message] {
	return rapid.Custom(func(t *rapid.T) []*message.Message {
		var out []*message.Message
		add := func(m *message.Message) {
			m.ID = id.Derive(m.ID.String(), fmt.Sprint(len(out))) // different also where what was drawn is not
			if len(out) > 0 {
				m.Prev = out[len(out)-1].ID
			}
			out = append(out, m)
		}
		if rapid.Bool().Draw(t, "with a system message") {
			m := head(t, message.System)
			m.Blocks = list(t, 1, 2, contentBlock)
			add(m)
		}
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			turn(t, add)
		}
		return out[:rapid.IntRange(max(1, len(out)-4), len(out)).Draw(t, "cut")]
	})
}

func turn(t *rapid.T, add func(*message.Message)) {
	user := head(t, message.User)
	user.Blocks = list(t, 1, 2, contentBlock)
	add(user)
	for range rapid.IntRange(0, 3).Draw(t, "rounds") {
		ask := head(t, message.Assistant)
		ask.Blocks = append(list(t, 0, 2, assistantBlock), call(t))
		ask.Stop = message.StopTools
		add(ask)
		for _, c := range rapid.Permutation(ask.Calls()).Draw(t, "order") {
			m := head(t, message.Tool)
			m.Blocks = []message.Block{result(t, c.Ref, c.CallID, c.Name)}
			add(m)
		}
	}
	answer := head(t, message.Assistant)
	answer.Blocks = list(t, 0, 3, contentBlock)
	answer.Final, answer.Stop = true, message.StopEnd
	answer.Approach, answer.Took = "direct", time.Duration(rapid.IntRange(0, 1e6).Draw(t, "took"))*time.Millisecond
	add(answer)
}

// ID generates ids that are not zero.
func ID() *rapid.Generator[id.ID] {
	return rapid.Custom(func(t *rapid.T) id.ID {
		return id.Derive(fmt.Sprint(rapid.Uint64().Draw(t, "id")))
	})
}

// head generates all but the blocks and the links.
func head(t *rapid.T, role message.Role) *message.Message {
	m := &message.Message{
		ID:      ID().Draw(t, "id"),
		Role:    role,
		At:      time.UnixMicro(rapid.Int64Range(-1<<50, 1<<55).Draw(t, "at")).UTC(),
		Meta:    meta(t),
		Unknown: unknown(t),
	}
	if role == message.Assistant {
		m.Model = text(t, "model")
		m.Stop = rapid.SampledFrom([]message.Stop{"", message.StopEnd, message.StopTools, message.StopLength, message.StopSequence,
			message.StopRefused, message.StopCancelled, message.StopBound}).Draw(t, "stop")
		count := rapid.Int64Range(0, 1<<40)
		m.Usage = message.Usage{Input: count.Draw(t, "input"), Output: count.Draw(t, "output"), Reasoning: count.Draw(t, "reasoning"),
			CacheRead: count.Draw(t, "cache read"), CacheWrite: count.Draw(t, "cache write"),
			Searches: count.Draw(t, "searches")}
		m.Turn = message.Usage{Input: count.Draw(t, "the turn's input")}
	}
	return m
}

func list(t *rapid.T, least, most int, one func(*rapid.T) message.Block) []message.Block {
	var out []message.Block
	for range rapid.IntRange(least, most).Draw(t, "blocks") {
		out = append(out, one(t))
	}
	return out
}

func contentBlock(t *rapid.T) message.Block {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		data, url := media(t)
		if data == nil && url == "" {
			url = "https://example.org/a.png"
		}
		return &message.Image{Common: common(t), MIME: "image/png", Data: data, URL: url}
	case 1:
		data, url := media(t)
		return &message.File{Common: common(t), MIME: "application/pdf", Name: text(t, "name"), Data: data, URL: url}
	}
	return &message.Text{Common: common(t), Text: text(t, "text")}
}

func assistantBlock(t *rapid.T) message.Block {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return &message.Reasoning{Common: common(t), Text: text(t, "reasoning")}
	case 1:
		return call(t)
	}
	return contentBlock(t)
}

func call(t *rapid.T) message.Block {
	c := &message.ToolCall{Common: common(t), CallID: text(t, "call id"), Name: "math." + name(t)}
	if args := rapid.OneOf(rapid.Just(`{"a": 6,"b":7}`), rapid.String()).Draw(t, "args"); args != "" {
		c.Args = []byte(args)
	}
	return c
}

func result(t *rapid.T, ref message.Ref, callID, name string) message.Block {
	return &message.ToolResult{
		Common: common(t), Call: ref, CallID: callID, Name: name,
		Status: rapid.SampledFrom([]message.Status{message.OK, message.Failed, message.DeniedCall, message.Queued,
			message.Unavailable, message.UnknownEnd, message.Interrupted, message.Accepted}).Draw(t, "status"),
		Content: list(t, 0, 3, contentBlock),
		Rest:    rapid.SampledFrom([]string{"", "cld:tool.Overflow.1"}).Draw(t, "rest"),
	}
}

func media(t *rapid.T) (data []byte, url string) {
	if rapid.Bool().Draw(t, "by URL") {
		return nil, "https://example.org/" + name(t)
	}
	if b := rapid.SliceOf(rapid.Byte()).Draw(t, "data"); len(b) > 0 {
		data = b
	}
	return data, ""
}

func common(t *rapid.T) message.Common {
	return message.Common{
		Origin:  rapid.SampledFrom([]string{"", "user", "model:openai/gpt-5", "tool:math.multiply"}).Draw(t, "origin"),
		Labels:  message.Labels(rapid.IntRange(0, int(message.AllLabels)).Draw(t, "labels")),
		Sources: rapid.SampledFrom([][]string{nil, nil, {"mail"}, {"?", "home", "mail"}}).Draw(t, "sources"),
		Meta:    meta(t),
		Unknown: unknown(t),
	}
}

func meta(t *rapid.T) message.Meta {
	if rapid.IntRange(0, 3).Draw(t, "meta") > 0 {
		return message.Meta{}
	}
	fields := rapid.SampledFrom([]string{
		"", `{}`, `{ "signature" : "Ev\u0041=" , "n": 1.0e+2 }`, `{"a":{"b":[1, 2,{"c":null}]},"é":"\/"}`,
	}).Draw(t, "fields")
	m := message.Meta{Provider: rapid.SampledFrom([]string{"anthropic", "gemini", "openai"}).Draw(t, "provider")}
	if fields != "" {
		m.Fields = []byte(fields)
	}
	return m
}

// unknown generates members that no version knows.
func unknown(t *rapid.T) []byte {
	var out []byte
	for i := range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "unknown members") {
		if i > 0 {
			out = append(out, ',')
		}
		val, _ := json.Marshal(text(t, "unknown text")) // a string always marshals
		out = fmt.Appendf(out, `"x_%d":`, i)
		out = append(out, rapid.SampledFrom([]string{`{"a" : [1 , 2]}`, `1e5`, `null`, `[]`, string(val)}).Draw(t, "unknown value")...)
	}
	return out
}

func text(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", "\"\\/\b\f\n\r\t\x00\u2028😀"})).Draw(t, label)
}

func name(t *rapid.T) string { return rapid.StringMatching(`[a-z][a-z_]{0,10}`).Draw(t, "name") }
