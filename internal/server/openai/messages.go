package openai

import (
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/internal/provider/wire"
	"steward/internal/tool"
	"steward/internal/turn/relay"
)

// form returns the codec for clients' messages: the provider's, restricted to what a server can use.
func form(d openai.Dialect) wire.Codec {
	c := openai.New(openai.Options{Dialect: d}).Codec("")
	c.Check = check
	return c
}

func jsonIndex(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// history converts a request's messages. System and developer messages, wherever they are, become the
// system prompt.
func history(form wire.Codec, doc []byte) (system string, msgs []*message.Message, err error) {
	all, err := form.Decode(doc)
	if err != nil {
		return "", nil, refusal(err)
	}
	if open := message.Dangling(all); len(open) > 0 {
		return "", nil, unanswered()
	}
	system, msgs = relay.History(all, "import:openai")
	if len(msgs) == 0 {
		return "", nil, bad("messages", "no message has content")
	}
	return system, msgs, nil
}

// refusal converts an error of the codec to one that OpenAI's clients understand.
func refusal(err error) error {
	e := fault.Of(err)
	at, _ := e.Details["at"].(string)
	switch e.Code {
	case wire.CodeUnanswered:
		return unanswered()
	case wire.CodeStray:
		return bad(at+".tool_call_id", "%s", e.Message)
	case wire.CodePart:
		return unsupported(strings.TrimSuffix(at, ".type")+".type", "%s", e.Message)
	case wire.CodeRole, wire.CodeHistory:
		return bad(at, "%s", e.Message)
	}
	return err
}

func unanswered() error {
	return bad("messages", "a tool call has no result").
		WithHint("follow an assistant message that has tool_calls with one tool message for each of them")
}

// check refuses messages that can be decoded but not used.
func check(at string, m *message.Message) error {
	content, calls, said := m.Blocks, 0, false
	if r := m.Result(); r != nil {
		content, said = r.Content, true
	}
	for i, b := range content {
		where := jsonIndex(at+".content", i)
		switch b := b.(type) {
		case *message.Text:
			said = said || b.Text != ""
			continue
		case *message.ToolCall:
			if !toolName.MatchString(tool.WireName(b.Name)) {
				return bad(jsonIndex(at+".tool_calls", calls)+".function.name", "invalid function name %.100q", b.Name)
			}
			calls++
		case *message.Image:
			if m.Role == message.User && !shows(b) {
				return bad(where+".image_url.url", "an image must be a URL of http or https, or a data URL with base64 of an image")
			}
		case *message.Vendor:
			return unsupported(at+".type", "an item of the type %.40q is not supported", b.Kind)
		case *message.File:
			switch {
			case m.Role != message.User, strings.HasPrefix(b.MIME, "audio/"):
			case strings.Contains(string(b.Meta.Fields), `"file_id"`):
				return unsupported(where+".file.file_id", "stored files are not supported").WithHint("send the file itself as file_data")
			case len(b.Data) == 0:
				return bad(where+".file.file_data", "file_data must be a data URL with base64")
			}
		}
		if kind, ok := foreign(b); ok && m.Role != message.User {
			return unsupported(where+".type", "a part of the type %s is not supported in a message of the role %s", kind, m.Role)
		}
		if _, thought := b.(*message.Reasoning); !thought {
			said = true
		}
	}
	if !said && m.Role != message.Assistant {
		return bad(at+".content", "the message has no content")
	}
	return nil
}

// foreign returns OpenAI's type of a block that is neither text nor a call.
func foreign(b message.Block) (kind string, ok bool) {
	switch b := b.(type) {
	case *message.Image:
		return "image_url", true
	case *message.File:
		if strings.HasPrefix(b.MIME, "audio/") {
			return "input_audio", true
		}
		return "file", true
	}
	return "", false
}

// shows reports whether an image has a web URL or contains its data.
func shows(b *message.Image) bool {
	if b.URL == "" {
		return strings.HasPrefix(b.MIME, "image/")
	}
	return strings.HasPrefix(b.URL, "https://") || strings.HasPrefix(b.URL, "http://")
}
