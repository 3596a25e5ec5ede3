package importexport

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// gptMessage is one message while it is read.
type gptMessage struct {
	*gptReader
	o         object // the message without author, content and recipient
	content   object
	meta      object
	role      string
	name      string // of a tool
	recipient string // "all", or the tool that is called
	say       *blockMaker
	status    message.Status
}

// entry reads the message. It returns false if the message is empty.
func (m *gptMessage) entry() (entry, bool) {
	e := entry{at: seconds(m.o["create_time"])}
	kind := stringOf(m.content["content_type"])
	hidden := string(m.meta["is_visually_hidden_from_conversation"]) == "true"
	m.status = message.OK
	switch {
	case m.role == "user" && !hidden && kind != "user_editable_context":
		e.role, e.own = message.User, true
	case m.role == "assistant" && kind != "model_editable_context":
		e.role = message.Assistant
	case m.role == "tool":
		e.role = message.Tool
	case m.role == "user", m.role == "system", m.role == "assistant":
		e.role = message.System
	default:
		e.role = message.User
		m.notes.add("a message of the unknown role %q is kept as foreign text", short(m.role))
	}
	m.say = &blockMaker{source: ChatGPT, own: e.own}
	if e.role == message.Assistant && m.recipient != "" && m.recipient != "all" {
		m.call(kind)
	} else {
		m.read(kind, e.role)
	}
	m.attachments()
	if len(m.say.blocks) == 0 {
		return e, false
	}
	if e.role == message.Assistant {
		e.model, e.stop = m.model, m.stop()
		if s := modelName("openai", stringOf(m.meta["model_slug"])); s != "" {
			e.model = s
		}
	}
	delete(m.o, "create_time")
	for name, usual := range map[string]string{"weight": "1", "status": `"finished_successfully"`, "end_turn": "true"} {
		if v := string(m.o[name]); v == usual || v == usual+".0" || v == "false" {
			delete(m.o, name)
		}
	}
	e.rest, e.blocks = m.o, m.say.blocks
	if e.role == message.Tool {
		e.result = result{name: valid(m.name), status: m.status, content: m.say.blocks}
	}
	return e, true
}

func (m *gptMessage) stop() message.Stop {
	switch stringOf(objectOf(m.meta["finish_details"])["type"]) {
	case "max_tokens":
		return message.StopLength
	case "interrupted":
		return message.StopCancelled
	}
	return ""
}

// call reads the assistant's message to a tool.
func (m *gptMessage) call(kind string) {
	text := stringOf(m.content["text"])
	member := "code"
	if kind != "code" {
		member = "input"
		var parts []string
		for _, p := range listOf(m.content["parts"]) {
			if p.Kind() == '"' {
				parts = append(parts, stringOf(p))
				continue
			}
			m.part(p)
		}
		if len(parts) > 0 {
			text = strings.Join(parts, "\n")
		}
	}
	if text == "" && len(m.content) > 1 && kind != "code" && m.content["parts"] == nil {
		text = string(jsonOf(m.content))
	}
	args := []byte(strings.TrimSpace(text))
	if v := jsontext.Value(args); v.Kind() != '{' || !v.IsValid() {
		args = append([]byte(`{"`+member+`":`), quote(text)...)
		args = append(args, '}')
	}
	m.say.call("", m.recipient, args)
}

func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, valid(s)) // the only error is invalid UTF-8
	return b
}

func jsonOf(o object) []byte {
	var raw []byte
	for _, name := range sortedKeys(o) {
		raw = appendMember(raw, name, strict(o[name]))
	}
	if raw == nil {
		return []byte("{}")
	}
	return append(raw, '}')
}

// read reads the content, of any type.
func (m *gptMessage) read(kind string, role message.Role) {
	c := m.content
	text := stringOf(c["text"])
	switch kind {
	case "text", "multimodal_text":
		for _, p := range listOf(c["parts"]) {
			m.part(p)
		}
		if c["parts"] == nil {
			m.say.text(text)
		}
	case "code":
		if text != "" {
			lang := stringOf(c["language"])
			if lang == "unknown" {
				lang = ""
			}
			m.say.text("```" + lang + "\n" + strings.TrimRight(text, "\n") + "\n```")
		}
	case "execution_output":
		m.say.text(text)
	case "system_error":
		m.status = message.Failed
		m.say.text(joined(c, "name", "text"))
	case "thoughts":
		for _, v := range listOf(c["thoughts"]) {
			m.think(joined(objectOf(v), "summary", "content"), role)
		}
	case "reasoning_recap":
		m.think(stringOf(c["content"]), role)
	case "user_editable_context":
		m.titled("About the user", stringOf(c["user_profile"]))
		m.titled("Custom instructions", stringOf(c["user_instructions"]))
	case "model_editable_context":
		m.titled("Memory", stringOf(c["model_set_context"]))
	case "tether_quote", "sonic_webpage", "tether_browsing_display":
		m.say.text(joined(c, "title", "url", "summary", "result", "text"))
	default:
		m.unknown(kind)
	}
}

// unknown keeps content of an unknown type as JSON.
func (m *gptMessage) unknown(kind string) {
	if len(m.content) == 0 {
		return
	}
	m.notes.add("content of the type %q is kept as text", short(kind))
	m.say.quoted("[" + kind + "]\n" + string(jsonOf(m.content)))
}

func (m *gptMessage) titled(title, text string) {
	if strings.TrimSpace(text) != "" {
		m.say.text(title + ":\n" + text)
	}
}

// joined returns the texts of members that are not blank, each on a line.
func joined(o object, names ...string) string {
	var out []string
	for _, name := range names {
		if s := stringOf(o[name]); strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// think adds reasoning. Only an assistant's message may hold it; elsewhere it is text.
func (m *gptMessage) think(text string, role message.Role) {
	if role == message.Assistant {
		m.say.reasoning(text)
		return
	}
	m.say.text(text)
}

// part reads a part of the content: a text, a picture, a recording and so on.
func (m *gptMessage) part(v jsontext.Value) {
	if v.Kind() == '"' {
		m.say.text(stringOf(v))
		return
	}
	p := objectOf(v)
	switch kind := firstText(p, "content_type", "type"); kind {
	case "text", "audio_transcription":
		m.say.text(stringOf(p["text"]))
	case "image_asset_pointer":
		m.asset("picture", stringOf(p["asset_pointer"]), "")
	case "audio_asset_pointer", "video_container_asset_pointer":
		m.asset("recording", stringOf(p["asset_pointer"]), "")
	case "real_time_user_audio_video_asset_pointer":
		m.asset("recording", stringOf(objectOf(p["audio_asset_pointer"])["asset_pointer"]), "")
	default:
		if v.Kind() == 'n' {
			return
		}
		m.notes.add("content of the type %q is kept as text", short(kind))
		m.say.quoted("[" + kind + "]\n" + valid(string(v)))
	}
}

// asset adds a file of the export, or text that says that the export does not have it.
func (m *gptMessage) asset(what, pointer, name string) {
	_, id, ok := strings.Cut(pointer, "://")
	if !ok {
		id = pointer
	}
	if data, file, ok := m.assets.get(id); ok {
		if name == "" {
			name = file
		}
		m.say.media(sniffMIME(data, name), name, data)
		return
	}
	m.notes.add("a %s that is not in the export is named in its message", what)
	if name == "" {
		name = id
	}
	m.say.quoted("[" + what + " " + name + ", not in the export]")
}

// attachments adds attached files that are not also parts of the content.
func (m *gptMessage) attachments() {
	shown := string(jsonOf(object{"parts": m.content["parts"]}))
	for _, v := range listOf(m.meta["attachments"]) {
		a := objectOf(v)
		id := firstText(a, "id")
		if id == "" || !strings.Contains(shown, id) {
			m.asset("file", id, firstText(a, "name"))
		}
	}
}
