package relay

import (
	"fmt"
	"slices"
	"strings"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// History prepares the messages that a client reports. System messages, wherever they are, become the
// system prompt; answers that say nothing are left out. origin is who wrote what the user did not. Without any content msgs is empty.
func History(all []*message.Message, origin string) (system string, msgs []*message.Message) {
	var prompt []string
	for _, m := range all {
		if m.Role == message.System {
			prompt = append(prompt, m.Text())
			continue
		}
		if m.Role == message.Assistant && isEmpty(m) { // what a model said that answered nothing; clients send it back
			continue
		}
		m.Prev = id.ID{}
		if normalize(m, origin); len(msgs) > 0 {
			m.Prev = msgs[len(msgs)-1].ID
		}
		msgs = append(msgs, m)
	}
	if len(msgs) == 0 && len(prompt) > 0 { // a lone system prompt is the question
		return "", []*message.Message{{ID: id.New(), Role: message.User,
			Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: strings.Join(prompt, "\n\n")}}}}
	}
	return strings.Join(prompt, "\n\n"), msgs
}

// isEmpty reports whether a message has neither text nor anything else than reasoning.
func isEmpty(m *message.Message) bool {
	return !slices.ContainsFunc(m.Blocks, func(b message.Block) bool {
		switch b := b.(type) {
		case *message.Text:
			return b.Text != ""
		case *message.Reasoning:
			return false
		}
		return true
	})
}

// normalize sets who wrote a message, and removes what only providers can set: clients send answers back
// with all their members.
func normalize(m *message.Message, origin string) {
	if m.Role == message.User {
		origin = "user"
	}
	m.Meta = message.Meta{}
	for _, b := range m.Blocks { // reasoning stays, but without metadata no model receives it
		b.Base().Meta, b.Base().Origin = message.Meta{}, origin
		switch b := b.(type) {
		case *message.Image:
			b.MIME, _, _ = strings.Cut(b.MIME, ";")
		case *message.File:
			b.MIME, _, _ = strings.Cut(b.MIME, ";")
		case *message.ToolCall:
			b.Name = tool.WireName(b.Name)
		case *message.ToolResult:
			b.Name = tool.WireName(b.Name)
			for _, c := range b.Content {
				c.Base().Meta, c.Base().Origin = message.Meta{}, origin
			}
		}
	}
}

// Transcript returns the earlier messages of a client's conversation, which Steward does not know, as
// an attachment. Steward cannot tell who wrote them, so the agent treats all of them as untrusted
// content, even those of the role system.
func Transcript(system string, msgs []*message.Message) message.Block {
	var b strings.Builder
	add := func(who, text string) {
		if text != "" {
			fmt.Fprintf(&b, "[%s]\n%s\n\n", who, text)
		}
	}
	add("system", system)
	for _, m := range msgs {
		for _, block := range m.Blocks {
			switch x := block.(type) {
			case *message.Text:
				add(string(m.Role), x.Text)
			case *message.ToolCall:
				add(string(m.Role), x.Name+" "+string(x.Args))
			case *message.ToolResult:
				add(string(m.Role), x.Plain())
			case *message.Image:
				add(string(m.Role), "(an image, which is not attached)")
			case *message.File:
				add(string(m.Role), "(the file "+x.Name+", which is not attached)")
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return &message.File{MIME: "text/plain", Name: "the conversation so far, as the client reports it", Data: []byte(strings.TrimRight(b.String(), "\n"))}
}

// LabelsOf returns the labels of messages from outside Steward's conversations. Attachments and results
// of the caller's tools have unknown authors.
func LabelsOf(msgs []*message.Message) message.Labels {
	for _, m := range msgs {
		for _, b := range m.Blocks {
			switch b.(type) {
			case *message.Text, *message.Reasoning, *message.ToolCall:
			default:
				return message.Private | message.Untrusted
			}
		}
	}
	return 0
}

// TextOf returns the text and the reasoning of an answer.
func TextOf(blocks []message.Block) (text, reasoning string) {
	var t, r strings.Builder
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			t.WriteString(b.Text)
		case *message.Reasoning:
			r.WriteString(b.Text)
		}
	}
	return t.String(), r.String()
}
