package openai

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/face/httpauth"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// wireMessage is a message of a request. Members that it does not have are
// passed over: clients send back answers with all that they found in them.
type wireMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	Refusal    *string        `json:"refusal"`
	ToolCalls  []wireCall     `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
}

type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wirePart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		Data string `json:"file_data"`
		Name string `json:"filename"`
		ID   string `json:"file_id"`
	} `json:"file"`
	Refusal string `json:"refusal"`
}

func jsonIndex(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// history turns a request's messages into ours. System and developer
// messages, wherever they stand, become the system prompt.
func history(raw []jsontext.Value) (system string, msgs []*message.Message, err error) {
	var prompt []string
	var open map[string]message.Call // calls without a result, by the caller's id
	for i, v := range raw {
		at := jsonIndex("messages", i)
		w, m, err := readMessage(v, at)
		if err != nil {
			return "", nil, err
		}
		if m.Role == message.System {
			prompt = append(prompt, m.Text())
			continue
		}
		if m.Role == message.Tool {
			call, ok := open[w.ToolCallID]
			if !ok {
				return "", nil, bad(at+".tool_call_id", "the tool message answers %.100q, and the assistant message before it has no such call without an answer", w.ToolCallID)
			}
			delete(open, w.ToolCallID)
			r := m.Result()
			r.Call, r.Name = call.Ref, call.Name
		} else if len(open) > 0 {
			return "", nil, unanswered(open)
		}
		if len(msgs) > 0 {
			m.Prev = msgs[len(msgs)-1].ID
		}
		msgs = append(msgs, m)
		if m.Role == message.Assistant {
			if open, err = callsOf(m, at); err != nil {
				return "", nil, err
			}
		}
	}
	if len(open) > 0 {
		return "", nil, unanswered(open)
	}
	if len(msgs) == 0 { // a prompt alone is the question
		return "", []*message.Message{{ID: id.New(), Role: message.User,
			Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: strings.Join(prompt, "\n\n")}}}}, nil
	}
	return strings.Join(prompt, "\n\n"), msgs, nil
}

func unanswered(open map[string]message.Call) error {
	for name := range open {
		return bad("messages", "the tool call %.100q has no answer", name).
			With("follow an assistant message that has tool_calls with one tool message for each of them")
	}
	return nil
}

func callsOf(m *message.Message, at string) (map[string]message.Call, error) {
	open := map[string]message.Call{}
	for i, c := range m.Calls() {
		if _, twice := open[c.CallID]; twice || c.CallID == "" {
			return nil, bad(jsonIndex(at+".tool_calls", i)+".id", "the tool call's id %.100q is empty or there twice", c.CallID)
		}
		open[c.CallID] = c
	}
	return open, nil
}

// readMessage reads one message; a tool message's result lacks its call.
func readMessage(v jsontext.Value, at string) (w wireMessage, m *message.Message, err error) {
	if err := httpauth.UnmarshalKnown(v, &w); err != nil {
		e := fault.Of(err)
		if p := param(e); p != "" {
			at += "." + p
		}
		return w, nil, e.Detail("param", at)
	}
	m = &message.Message{ID: id.New()}
	switch w.Role {
	case "system", "developer":
		m.Role = message.System
	case "user":
		m.Role = message.User
	case "assistant":
		m.Role = message.Assistant
	case "tool":
		m.Role = message.Tool
	case "function":
		return w, nil, unsupported(at+".role", "messages of the role function are not supported").With("use the role tool")
	default:
		return w, nil, bad(at+".role", "there is no role %.40q", w.Role)
	}
	if m.Blocks, err = parts(w.Content, m.Role, at+".content"); err != nil {
		return w, nil, err
	}
	switch m.Role {
	case message.Assistant:
		err = w.assistant(m, at)
	case message.Tool:
		m.Blocks = []message.Block{&message.ToolResult{CallID: w.ToolCallID, Status: message.OK, Content: m.Blocks}}
	}
	if err == nil && len(m.Blocks) == 0 {
		err = bad(at+".content", "the message has no content")
	}
	return w, m, err
}

func (w *wireMessage) assistant(m *message.Message, at string) error {
	if w.Refusal != nil && *w.Refusal != "" {
		m.Blocks = append(m.Blocks, &message.Text{Text: *w.Refusal})
	}
	for i, c := range w.ToolCalls {
		if c.Type != "function" && c.Type != "" {
			return unsupported(jsonIndex(at+".tool_calls", i)+".type", "tool calls of the type %.40q are not supported", c.Type)
		}
		if !toolName.MatchString(c.Function.Name) {
			return bad(jsonIndex(at+".tool_calls", i)+".function.name", "%.100q cannot be the name of a function", c.Function.Name)
		}
		m.Blocks = append(m.Blocks, &message.ToolCall{CallID: c.ID, Name: c.Function.Name, Args: []byte(c.Function.Arguments)})
	}
	return nil
}

// parts reads a message's content: a text, a list of parts, or nothing.
func parts(v jsontext.Value, role message.Role, at string) ([]message.Block, error) {
	origin := "import:openai"
	if role == message.User {
		origin = "user"
	}
	var list []wirePart
	switch v.Kind() {
	case 0, 'n':
		return nil, nil
	case '"':
		var text string
		if err := httpauth.UnmarshalKnown(v, &text); err != nil {
			return nil, bad(at, "the content cannot be read: %w", err)
		}
		if text == "" && role != message.Tool {
			return nil, nil
		}
		list = []wirePart{{Type: "text", Text: text}}
	default:
		if err := httpauth.UnmarshalKnown(v, &list); err != nil {
			return nil, bad(at, "the content is a text or a list of parts")
		}
	}
	var out []message.Block
	for i, p := range list {
		b, err := p.block(role, jsonIndex(at, i))
		if err != nil {
			return nil, err
		}
		b.Base().Origin = origin
		out = append(out, b)
	}
	return out, nil
}

func (p *wirePart) block(role message.Role, at string) (message.Block, error) {
	switch {
	case p.Type == "text":
		return &message.Text{Text: p.Text}, nil
	case p.Type == "refusal" && role == message.Assistant:
		return &message.Text{Text: p.Refusal}, nil
	case p.Type == "image_url" && role == message.User:
		return image(p.Image.URL, at+".image_url.url")
	case p.Type == "file" && role == message.User:
		if p.File.ID != "" {
			return nil, unsupported(at+".file.file_id", "files are not kept here").With("send the file itself as file_data")
		}
		mime, data, ok := dataURL(p.File.Data)
		if !ok {
			return nil, bad(at+".file.file_data", "file_data is a data URL with base64")
		}
		return &message.File{MIME: mime, Name: p.File.Name, Data: data}, nil
	}
	return nil, unsupported(at+".type", "a part of the type %.40q is not supported in a message of the role %s", p.Type, role)
}

func image(url, at string) (message.Block, error) {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return &message.Image{MIME: message.MediaType(url, "image/*"), URL: url}, nil
	}
	mime, data, ok := dataURL(url)
	if !ok || !strings.HasPrefix(mime, "image/") {
		return nil, bad(at, "an image is a URL of http or https, or a data URL with base64 of an image")
	}
	return &message.Image{MIME: mime, Data: data}, nil
}

// dataURL reads "data:TYPE;base64,DATA" (RFC 2397).
func dataURL(s string) (mime string, data []byte, ok bool) {
	s, ok = strings.CutPrefix(s, "data:")
	head, body, ok2 := strings.Cut(s, ",")
	head, ok3 := strings.CutSuffix(head, ";base64")
	mime, _, _ = strings.Cut(head, ";")
	data, err := base64.StdEncoding.DecodeString(body)
	return mime, data, ok && ok2 && ok3 && err == nil && mime != "" && len(data) > 0
}
