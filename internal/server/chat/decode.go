package chat

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// head is what every frame of a client has.
type head struct {
	Type string `json:"type"`
	ID   string `json:"id"` // the client's own, named in answers as "re"
}

// The frames of clients.
type (
	messageFrame struct {
		head
		Conversation string         `json:"conversation_id"`
		Content      jsontext.Value `json:"content"`
		MessageID    string         `json:"message_id"`
		Agent        string         `json:"agent"`
		Model        string         `json:"model"`
		Sampling     samplingPart   `json:"sampling"`
		Tools        []string       `json:"tools"`
		Steer        bool           `json:"steer"`
		Replace      string         `json:"replace"`
		Regenerate   string         `json:"regenerate"`
		Unattended   bool           `json:"unattended"`
	}
	samplingPart struct {
		Temperature *float64   `json:"temperature"`
		MaxTokens   int        `json:"max_tokens"`
		Stop        []string   `json:"stop"`
		Effort      llm.Effort `json:"effort"`
		TopP        *float64   `json:"top_p"`
	}
	stopFrame struct {
		head
		Conversation string `json:"conversation_id"`
	}
	resumeFrame struct {
		head
		Conversation string `json:"conversation_id"`
		Cursor       string `json:"cursor"`
	}
	pingFrame struct{ head }
)

const maxID = 256 // bytes of an id of the client's own

// handle does what a client's frame asks for, or tells why not.
func (c *conn) handle(data []byte) {
	var h head
	err := httpauth.UnmarshalKnown(data, &h)
	if len(h.ID) > maxID {
		h.ID, err = "", fault.New(fault.Invalid, "member_invalid", "the id has more than %d bytes", maxID).Detail("member", "/id")
	}
	var conv id.ID
	if err == nil {
		conv, err = c.dispatch(h, data)
	}
	if err != nil {
		c.log.Debug("a frame was refused", "type", h.Type, "error", err)
		c.tell(c.ctx, appendError(nil, err, h.ID, conv))
	}
}

// frame does what a client's frame asks for. It returns the conversation that
// the frame is about, if it has one.
type frame func(c *conn, h head, data []byte) (id.ID, error)

// Frames returns the types of frames that clients may send, in order. It is
// the table that connections go by.
func Frames() []string { return slices.Sorted(maps.Keys(frames())) }

func frames() map[string]frame {
	return map[string]frame{
		"message":       (*conn).message,
		"stop":          (*conn).stop,
		"approve":       asked((*conn).decide),
		"deny":          asked((*conn).decide),
		"approvals":     told((*conn).approvals),
		"approval":      told((*conn).question),
		"resume":        (*conn).resumeFrom,
		"observe":       told((*conn).observe),
		"unobserve":     asked(func(c *conn, f *endFrame) error { return c.endFeed(&c.observing, f.Re) }),
		"subscribe":     told((*conn).subscribe),
		"unsubscribe":   asked(func(c *conn, f *endFrame) error { return c.endFeed(&c.subscribed, f.Re) }),
		"requests":      told((*conn).requests),
		"cancel":        asked((*conn).cancelRequest),
		"resume_turn":   asked((*conn).resumeTurn),
		"agents":        (*conn).aboutAgents,
		"inspect_agent": (*conn).aboutAgents,
		"approve_agent": (*conn).aboutAgents,
		"deny_agent":    (*conn).aboutAgents,
		"revoke_agent":  (*conn).aboutAgents,
		"ping":          (*conn).ping,
	}
}

// told is a frame of the form F that is answered by itself.
func told[F any](do func(*conn, *F) error) frame {
	return func(c *conn, _ head, data []byte) (id.ID, error) {
		f := new(F)
		if err := httpauth.Unmarshal(data, f); err != nil {
			return id.ID{}, err
		}
		return id.ID{}, do(c, f)
	}
}

// asked is a frame of the form F that is answered with "ok".
func asked[F any](do func(*conn, *F) error) frame {
	return func(c *conn, h head, data []byte) (id.ID, error) {
		_, err := told(do)(c, h, data)
		return c.done(h, id.ID{}, err)
	}
}

// done says "ok" to a client that has named its frame.
func (c *conn) done(h head, conv id.ID, err error) (id.ID, error) {
	if err == nil && h.ID != "" {
		c.tell(c.ctx, appendAnswer(nil, "ok", h.ID, conv))
	}
	return conv, err
}

// dispatch returns the conversation that the frame is about, if it has one.
func (c *conn) dispatch(h head, data []byte) (id.ID, error) {
	do, ok := c.server.frames[h.Type]
	if !ok {
		return id.ID{}, fault.New(fault.Invalid, "unknown_type", "there is no frame of the type %.80q", h.Type).
			WithHint("docs/reference/websocket.md describes those that there are")
	}
	return do(c, h, data)
}

func (c *conn) message(h head, data []byte) (conv id.ID, err error) {
	var f messageFrame
	if err := httpauth.Unmarshal(data, &f); err != nil {
		return conv, err
	}
	t, err := f.turn()
	if err != nil {
		return t.Conversation, err
	}
	t.Attended = t.Attended && c.caller.Attended()
	return t.Conversation, c.begin(h.ID, t)
}

func (c *conn) stop(h head, data []byte) (conv id.ID, err error) {
	var f stopFrame
	if err := httpauth.Unmarshal(data, &f); err != nil {
		return conv, err
	}
	if conv, err = conversationID(f.Conversation); err == nil {
		err = c.server.o.Node.Stop(c.ctx, c.caller.User, conv)
	}
	return c.done(h, conv, err)
}

func (c *conn) resumeFrom(h head, data []byte) (conv id.ID, err error) {
	var f resumeFrame
	if err := httpauth.Unmarshal(data, &f); err != nil {
		return conv, err
	}
	if conv, err = conversationID(f.Conversation); err != nil {
		return conv, err
	}
	return conv, c.resume(h.ID, conv, f.Cursor)
}

func (c *conn) ping(h head, data []byte) (id.ID, error) {
	if err := httpauth.Unmarshal(data, &pingFrame{}); err != nil {
		return id.ID{}, err
	}
	c.tell(c.ctx, appendAnswer(nil, "pong", h.ID, id.ID{}))
	return id.ID{}, nil
}

func missing(member string) error {
	return fault.New(fault.Invalid, "member_missing", "the member %s is missing", member).Detail("member", "/"+member)
}

// conversationID reads an id. One that cannot be an id is not there, like
// one that is not the user's.
func conversationID(s string) (id.ID, error) {
	if s == "" {
		return id.ID{}, missing("conversation_id")
	}
	x, ok := id.Parse(s)
	if !ok || x.Zero() {
		return x, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", s).
			WithHint("steward conversations list shows those that there are")
	}
	return x, nil
}

// turn makes the turn that a message frame asks for.
func (f *messageFrame) turn() (t runtime.Turn, err error) {
	if f.Conversation != "" {
		if t.Conversation, err = conversationID(f.Conversation); err != nil {
			return t, err
		}
	}
	if len(f.MessageID) > maxID {
		return t, fault.New(fault.Invalid, "member_invalid", "the message_id has more than %d bytes", maxID).Detail("member", "/message_id")
	}
	if err := f.Sampling.check(); err != nil {
		return t, err
	}
	t.ClientID, t.Agent, t.Model, t.Steer, t.Attended = f.MessageID, f.Agent, f.Model, f.Steer, !f.Unattended
	t.Tools = f.Tools
	t.Sampling = llm.Sampling{Temperature: f.Sampling.Temperature, MaxTokens: f.Sampling.MaxTokens,
		Stop: f.Sampling.Stop, Effort: f.Sampling.Effort, TopP: f.Sampling.TopP}
	if err := f.anew(&t); err != nil || !t.Regenerate.Zero() {
		return t, err
	}
	t.Content, err = content(f.Content)
	return t, err
}

// anew reads what the turn is to be another version of: a message of the
// user's, or an answer.
func (f *messageFrame) anew(t *runtime.Turn) error {
	if f.Replace == "" && f.Regenerate == "" {
		return nil
	}
	without := func(member string) error {
		return fault.New(fault.Invalid, "member_invalid", "%s does not go together with regenerate", member).Detail("member", "/"+member).
			WithHint("leave it out")
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
		return fault.New(fault.Invalid, "member_invalid", "steer does not go together with replace or regenerate").Detail("member", "/steer").
			WithHint("leave it out")
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

func (s *samplingPart) check() error {
	bad := func(member, rule string) error {
		return fault.New(fault.Invalid, "member_invalid", "%s is %s", member, rule).Detail("member", "/sampling/"+member)
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

// block is a block of content as a client writes it.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
	MIME string `json:"mime"`
	Name string `json:"name"`
	Data []byte `json:"data"` // base64
	URL  string `json:"url"`
}

// content reads what a message says: a text, or blocks.
func content(v jsontext.Value) ([]message.Block, error) {
	var text string
	var blocks []block
	switch {
	case len(v) == 0:
		return nil, missing("content")
	case v.Kind() == '"':
		if err := httpauth.Unmarshal(v, &text); err != nil {
			return nil, err
		}
		blocks = []block{{Type: "text", Text: text}}
	default:
		if err := httpauth.Unmarshal(v, &blocks); err != nil {
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

// within puts the place of a value before the place of a fault inside it.
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
	switch b.Type {
	case "text":
		if b.MIME != "" || b.Name != "" || b.Data != nil || b.URL != "" {
			return nil, bad("a text block has a text and nothing else")
		}
		return &message.Text{Text: b.Text}, nil
	case "image":
		if b.MIME == "" && b.URL != "" {
			b.MIME = message.MediaType(b.URL, "image/*")
		}
		if !source || !remote || b.Text != "" || b.Name != "" || !strings.HasPrefix(b.MIME, "image/") {
			return nil, bad("an image block has data and a mime of image/…, or a url of http or https")
		}
		return &message.Image{MIME: b.MIME, Data: b.Data, URL: b.URL}, nil
	case "file":
		if b.MIME == "" && b.URL != "" {
			b.MIME = message.MediaType(b.URL, "application/octet-stream")
		}
		if !source || !remote || b.Text != "" || b.MIME == "" {
			return nil, bad("a file block has data and a mime, or a url of http or https, and perhaps a name")
		}
		return &message.File{MIME: b.MIME, Name: b.Name, Data: b.Data, URL: b.URL}, nil
	}
	return nil, bad("there is no block of the type %.80q", b.Type)
}
