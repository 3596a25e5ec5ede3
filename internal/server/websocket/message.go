package websocket

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

type messageFrame struct {
	head
	Conversation string         `json:"conversation_id"`
	Content      jsontext.Value `json:"content"`
	MessageID    string         `json:"message_id"`
	Agent        string         `json:"agent"`
	Model        string         `json:"model"`
	Sampling     sampling       `json:"sampling"`
	Tools        []string       `json:"tools"`
	Steer        bool           `json:"steer"`
	Plan         bool           `json:"plan"`
	Replace      string         `json:"replace"`
	Regenerate   string         `json:"regenerate"`
	Unattended   bool           `json:"unattended"`  // nobody is present to be asked
	Trace        string         `json:"traceparent"` // W3C trace context: the client's position in a trace
}

type sampling struct {
	Temperature *float64   `json:"temperature"`
	MaxTokens   int        `json:"max_tokens"`
	Stop        []string   `json:"stop"`
	Effort      llm.Effort `json:"effort"`
	TopP        *float64   `json:"top_p"`
}

// message sends a turn.
func (c *conn) message(f *messageFrame) error {
	t, err := f.turn()
	if err != nil {
		return err
	}
	if err := c.caller.Store(c.ctx, int64(len(f.Content))); err != nil {
		return err
	}
	t.Attended = !f.Unattended && c.caller.Attended()
	return c.begin(f.ID, f.Trace, t)
}

// turn returns the turn that a message frame asks for.
func (f *messageFrame) turn() (t turn.Input, err error) {
	if f.Conversation != "" {
		if t.Conversation, err = conversationID(f.Conversation); err != nil {
			return t, err
		}
	}
	if len(f.MessageID) > maxID {
		return t, tooLongID("message_id")
	}
	if err := f.Sampling.check(); err != nil {
		return t, err
	}
	t.ClientID, t.Agent, t.Model, t.Tools, t.Steer, t.Plan = f.MessageID, f.Agent, f.Model, f.Tools, f.Steer, f.Plan
	t.Sampling = llm.Sampling{Temperature: f.Sampling.Temperature, MaxTokens: f.Sampling.MaxTokens,
		Stop: f.Sampling.Stop, Effort: f.Sampling.Effort, TopP: f.Sampling.TopP}
	if err := f.regenerate(&t); err != nil || !t.Regenerate.Zero() {
		return t, err
	}
	t.Content, err = content(f.Content)
	return t, err
}

// regenerate parses what the turn replaces: a message of the user or an answer.
func (f *messageFrame) regenerate(t *turn.Input) error {
	if f.Replace == "" && f.Regenerate == "" {
		return nil
	}
	without := func(member string) error {
		return badMember(member, "%s cannot be combined with regenerate", member).WithHint("leave it out")
	}
	switch {
	case t.Conversation.Zero():
		return missing("conversation_id")
	case f.Regenerate != "" && f.Replace != "":
		return without("replace")
	case f.Regenerate != "" && len(f.Content) > 0:
		return without("content")
	case f.Regenerate != "" && f.MessageID != "":
		return without("message_id")
	case f.Steer:
		return badMember("steer", "steer cannot be combined with replace or regenerate").WithHint("leave it out")
	}
	for _, m := range []struct {
		text string
		to   *id.ID
	}{{f.Replace, &t.Replace}, {f.Regenerate, &t.Regenerate}} {
		x, ok := id.Parse(m.text)
		if m.text != "" && (!ok || x.Zero()) {
			return fault.New(fault.NotFound, "message_not_found", "this conversation has no message %.80s", m.text)
		}
		*m.to = x
	}
	return nil
}

func (s *sampling) check() error {
	bad := func(member, rule string) error {
		return badMember("sampling/"+member, "%s must be %s", member, rule)
	}
	switch s.Effort {
	case "", llm.EffortNone, llm.EffortLow, llm.EffortMedium, llm.EffortHigh:
	default:
		return bad("effort", "none, low, medium or high")
	}
	switch {
	case s.Temperature != nil && (*s.Temperature < 0 || *s.Temperature > 2):
		return bad("temperature", "a number from 0 to 2")
	case s.TopP != nil && (*s.TopP < 0 || *s.TopP > 1):
		return bad("top_p", "a number from 0 to 1")
	case s.MaxTokens < 0:
		return bad("max_tokens", "a positive number")
	}
	return nil
}

// block is a block of content in frames from and for clients.
type block struct {
	Type      string             `json:"type"`
	Text      *string            `json:"text,omitzero"`
	Citations []message.Citation `json:"citations,omitempty"` // only in frames for clients
	Name      string             `json:"name,omitzero"`
	MIME      string             `json:"mime,omitzero"`
	Data      []byte             `json:"data,omitempty"` // base64
	URL       string             `json:"url,omitzero"`
}

// content reads the content of a message: a text or blocks.
func content(v jsontext.Value) ([]message.Block, error) {
	var text string
	var blocks []block
	switch {
	case len(v) == 0:
		return nil, missing("content")
	case v.Kind() == '"':
		if err := auth.Unmarshal(v, &text); err != nil {
			return nil, err
		}
		blocks = []block{{Type: "text", Text: &text}}
	default:
		if err := auth.Unmarshal(v, &blocks); err != nil {
			return nil, within("/content", err)
		}
	}
	out := make([]message.Block, 0, len(blocks))
	said := false
	for _, b := range blocks {
		x, err := b.read()
		if err != nil {
			return nil, err
		}
		t, ok := x.(*message.Text)
		said = said || !ok || strings.TrimSpace(t.Text) != ""
		out = append(out, x)
	}
	if !said {
		return nil, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	return out, nil
}

// within prefixes the path of an error with the path of the value that contains it.
func within(at string, err error) error {
	e := fault.Of(err)
	if m, ok := e.Details["member"].(string); ok {
		return e.Detail("member", at+m)
	}
	return err
}

func (b *block) read() (message.Block, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "block_invalid", format, args...).
			WithHint("see the blocks in docs/reference/websocket.md")
	}
	source := (len(b.Data) > 0) != (b.URL != "")
	remote := b.URL == "" || strings.HasPrefix(b.URL, "https://") || strings.HasPrefix(b.URL, "http://")
	if b.Citations != nil {
		return nil, bad("only providers set the sources of a text")
	}
	text := ""
	if b.Text != nil {
		text = *b.Text
	}
	switch b.Type {
	case "text":
		if b.MIME != "" || b.Name != "" || b.Data != nil || b.URL != "" {
			return nil, bad("a text block has a text and nothing else")
		}
		return &message.Text{Text: text}, nil
	case "image":
		if b.MIME == "" && b.URL != "" {
			b.MIME = message.MediaType(b.URL, "image/*")
		}
		if !source || !remote || text != "" || b.Name != "" || !strings.HasPrefix(b.MIME, "image/") {
			return nil, bad("an image block has data and a mime of image/…, or a url of http or https")
		}
		return &message.Image{MIME: b.MIME, Data: b.Data, URL: b.URL}, nil
	case "file":
		if b.MIME == "" && b.URL != "" {
			b.MIME = message.MediaType(b.URL, "application/octet-stream")
		}
		if !source || !remote || text != "" || b.MIME == "" {
			return nil, bad("a file block has data and a mime, or a url of http or https, and perhaps a name")
		}
		return &message.File{MIME: b.MIME, Name: b.Name, Data: b.Data, URL: b.URL}, nil
	}
	return nil, bad("unknown block type %.80q", b.Type)
}

// blocksOf returns content for clients, without the blocks that a person does not see.
func blocksOf(content []message.Block) []block {
	out := []block{}
	for _, b := range content {
		switch b := b.(type) {
		case *message.Text:
			out = append(out, block{Type: "text", Text: &b.Text, Citations: b.Citations})
		case *message.Image:
			out = append(out, sourced(block{Type: "image", MIME: b.MIME, URL: b.URL}, b.Data))
		case *message.File:
			out = append(out, sourced(block{Type: "file", Name: b.Name, MIME: b.MIME, URL: b.URL}, b.Data))
		}
	}
	return out
}

// sourced adds the data to a block, unless it has a URL.
func sourced(b block, data []byte) block {
	if b.URL == "" {
		b.Data = data
	}
	return b
}
