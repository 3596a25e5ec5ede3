package importexport

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// Vendors are the forms in which models' APIs take the messages of a
// conversation: Options.Codecs reads and writes them.
func Vendors() []string { return []string{OpenAI, Anthropic, Gemini, Ollama} }

// isVendor reports whether a format is a list of messages.
func isVendor(format string) bool { return format == Plain || slices.Contains(Vendors(), format) }

// chatHead describes the conversation to which a list of messages belongs.
type chatHead struct {
	title, id, model, format string
	created, updated         time.Time
}

// list is a list of messages in a vendor's form. It is kept encoded, since decoded
// messages take several times the memory.
type list struct {
	doc    []byte
	source string // the vendor according to the first message that shows one
}

// add adds a message. It returns false if the list becomes too large.
func (l *list) add(raw []byte, most int) bool {
	if len(l.doc)+len(raw) > most {
		return false
	}
	l.sign(objectOf(raw))
	if l.doc = append(l.doc, ','); len(l.doc) == 1 {
		l.doc[0] = '['
	}
	l.doc = append(l.doc, raw...)
	return true
}

func (l *list) sign(o object) {
	if l.source == "" || l.source == Plain || l.source == OpenAI {
		if source := sourceOf(o); source != Plain || l.source == "" {
			l.source = source
		}
	}
}

// collect yields a chat of the messages in a list, if there are any.
func (r *reader) collect(l list) error {
	if l.doc != nil && !r.ended {
		r.noteConversation()
		r.yieldChat(r.vendor(append(l.doc, ']'), r.sourceOf(l, chatHead{}), chatHead{}))
	}
	return nil
}

// isMessage reports whether a value is one message.
func (r *reader) isMessage(raw []byte) bool {
	return raw[0] == '{' && r.takes(OpenAI) && isMessage(objectOf(raw))
}

// isMessage reports whether an object is a message: it has a role and content.
func isMessage(o object) bool {
	if stringOf(o["role"]) == "" {
		return o["parts"].Kind() == '[' // Gemini's user messages need no role
	}
	for _, name := range []string{"content", "tool_calls", "function_call", "refusal", "audio", "parts", "images"} {
		if _, ok := o[name]; ok {
			return true
		}
	}
	return false
}

// sourceOf returns the vendor that a message shows by its members. Without a sign of
// another vendor it is OpenAI.
func sourceOf(o object) string {
	for _, sign := range []struct{ name, source string }{{"parts", Gemini}, {"images", Ollama}, {"thinking", Ollama}, {"tool_name", Ollama}} {
		if _, ok := o[sign.name]; ok {
			return sign.source
		}
	}
	for _, v := range listOf(o["content"]) {
		switch stringOf(objectOf(v)["type"]) {
		case "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use":
			return Anthropic
		}
	}
	role := stringOf(o["role"])
	if len(o) == 2 && o["content"].Kind() == '"' && (role == "user" || role == "assistant" || role == "system") {
		return Plain
	}
	return OpenAI
}

// vendorChat reads a conversation: a list of messages, or an object with such a list.
func (r *reader) vendorChat(raw []byte) (*Chat, error) {
	var head chatHead
	all := listOf(raw)
	if all == nil {
		o := objectOf(raw)
		if all = listOf(o["messages"]); all == nil {
			all = listOf(o["contents"])
		}
		head.title = firstText(o, "title", "name")
		head.id = firstText(o, "id", "conversation_id", "uuid")
		head.model, head.format = firstText(o, "model"), firstText(o, "format")
		head.created = firstTime(o, "created_at", "created", "create_time")
		head.updated = firstTime(o, "updated_at", "updated", "update_time")
	}
	var l list
	for _, v := range all {
		o := objectOf(v)
		if !isMessage(o) {
			return nil, errors.New("one of its messages has no role or no content")
		}
		l.sign(o)
	}
	return r.vendor(raw, r.sourceOf(l, head), head)
}

// sourceOf returns the vendor in whose form messages are read: the requested one, the
// one that the conversation names, or the first that a message shows.
func (r *reader) sourceOf(l list, head chatHead) string {
	switch {
	case slices.Contains(Vendors(), r.Format) && r.Format != OpenAI:
		return r.Format
	case r.Format == Auto && slices.Contains(Vendors(), head.format):
		return head.format
	case r.Format != Auto && l.source != Plain:
		return OpenAI
	}
	return cmp.Or(l.source, Plain)
}

// vendor makes a chat of a document in a vendor's form.
func (r *reader) vendor(doc []byte, source string, head chatHead) (*Chat, error) {
	name := source
	if source == Plain {
		name = OpenAI
	}
	codec := r.Codecs[name]
	if codec == nil {
		return nil, fault.New(fault.Unsupported, "import_format_unknown", "this Steward does not read messages in the format of %s", name).
			WithHint("use one of its own exports, or those of ChatGPT and Claude")
	}
	got, err := codec.Import(doc)
	if err != nil {
		return nil, errors.New(fault.Of(err).Message)
	}
	if len(got.Messages) == 0 {
		return nil, emptyChat(head.title)
	}
	n := &notes{}
	for _, text := range got.Notes {
		n.add("%s", text)
	}
	c := &Chat{Title: head.title, Created: head.created, Updated: head.updated, Source: source, SourceID: head.id,
		Model: modelName("", head.model), Current: len(got.Messages) - 1, Notes: n.list}
	var last time.Time
	for i, m := range got.Messages {
		own := m.Role == message.User && !got.Nobodys[m]
		fillVendorMessage(source, m, own, c.Model)
		if m.At.IsZero() {
			m.At = last
		}
		last = m.At
		c.Nodes = append(c.Nodes, Node{Message: m, Parent: i - 1, Opens: own})
	}
	return c, nil
}

// fillVendorMessage sets a message's time and model from its other members, and the origin
// and labels of its blocks.
func fillVendorMessage(source string, m *message.Message, own bool, model string) {
	o := objectOf(m.Meta.Fields)
	for _, name := range []string{"created_at", "timestamp", "create_time", "created"} {
		if t := stamp(o[name]); m.At.IsZero() && !t.IsZero() {
			m.At = t
			delete(o, name)
		}
	}
	if m.Role == message.Assistant {
		m.Model = cmp.Or(modelName("", o.text("model")), model)
		if m.Stop == "" {
			m.Stop = message.StopEnd
			if len(m.Calls()) > 0 {
				m.Stop = message.StopTools
			}
		}
	}
	m.Meta = metaOf(source, o)
	markVendor(source, m.Blocks, own)
}

func markVendor(source string, blocks []message.Block, own bool) {
	for _, b := range blocks {
		c := b.Base()
		meta := metaOf(source, objectOf(c.Meta.Fields))
		if own && c.Labels == 0 {
			*c = message.Common{Origin: "user", Meta: meta}
		} else {
			*c = foreign(source)
			c.Meta = meta
		}
		if r, ok := b.(*message.ToolResult); ok {
			markVendor(source, r.Content, false)
		}
	}
}

func firstText(o object, names ...string) string {
	for _, n := range names {
		if s := stringOf(o[n]); s != "" {
			return valid(s)
		}
	}
	return ""
}

func firstTime(o object, names ...string) time.Time {
	for _, n := range names {
		if t := stamp(o[n]); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// argsOf returns a call's arguments, which may be the model's text or decoded JSON.
func argsOf(v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		return []byte(stringOf(v))
	case '{', '[':
		return strict(v)
	}
	return nil
}

func short(s string) string {
	r := []rune(s)
	return string(r[:min(len(r), 40)])
}

// modelName returns "provider/model".
func modelName(provider, model string) string {
	model = valid(strings.TrimSpace(model))
	if model == "" || provider == "" || strings.Contains(model, "/") {
		return model
	}
	return provider + "/" + model
}

// WriteVendor writes messages in a vendor's form, together with the conversation's
// title and the name of the format, so that Read can read them back.
func WriteVendor(out io.Writer, codec llm.Codec, format, title string, msgs []*message.Message) error {
	list, err := codec.Encode(msgs)
	if err != nil {
		return err
	}
	name := "messages"
	if format == Gemini {
		name = "contents"
	}
	head, err := json.Marshal(struct {
		Format string `json:"format"`
		Title  string `json:"title,omitzero"`
	}{format, valid(title)})
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	w.Write(bytes.TrimSuffix(head, []byte("}"))) //nolint:errcheck // Flush tells the first error
	w.WriteString(`,"` + name + `":`)
	w.Write(list) //nolint:errcheck
	w.WriteString("}\n")
	return w.Flush()
}
