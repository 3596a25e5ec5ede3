package importexport

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/message"
)

func emptyChat(title string) error {
	what := "the conversation"
	if title != "" {
		what = fmt.Sprintf("the conversation %.80q", title)
	}
	return fault.New(fault.Invalid, "import_chat_empty", "%s has no messages", what).WithHint("nothing is lost: there is nothing in it to import")
}

// claudeChat is a conversation in Claude's conversations.json, with the names of
// exports seen from 2024 to 2026.
type claudeChat struct {
	UUID     jsontext.Value `json:"uuid"`
	Name     jsontext.Value `json:"name"`
	Model    jsontext.Value `json:"model"`
	Created  jsontext.Value `json:"created_at"`
	Updated  jsontext.Value `json:"updated_at"`
	Leaf     jsontext.Value `json:"current_leaf_message_uuid"`
	Messages []object       `json:"chat_messages"`
	Rest     object         `json:",embed"`
}

// claude reads one conversation. If messages name their predecessors, edits and
// retries become branches.
func (r *reader) claude(raw []byte) (*Chat, error) {
	var in claudeChat
	if err := json.Unmarshal(raw, &in, lenient()); err != nil {
		return nil, err
	}
	c := &Chat{Title: valid(stringOf(in.Name)), Source: Claude, SourceID: valid(stringOf(in.UUID)),
		Created: stamp(in.Created), Updated: stamp(in.Updated), Model: modelName("anthropic", stringOf(in.Model))}
	b := &claudeReader{treeBuilder: treeBuilder{source: Claude}, model: c.Model}
	number := map[string]int{}
	for i, m := range in.Messages {
		if u := stringOf(m["uuid"]); u != "" {
			number[u] = i
		}
	}
	parent := make([]int, len(in.Messages))
	for i, m := range in.Messages {
		p, ok := number[stringOf(m["parent_message_uuid"])]
		if parent[i] = p; !ok || p == i {
			parent[i] = -1
		}
	}
	newest := -1
	ends := b.tree(parent, func(i, before int) int {
		m := in.Messages[i]
		p := m.text("parent_message_uuid")
		if _, known := number[p]; !known && p != claudeRoot { // it names no predecessor, or a missing one
			before = len(b.entries) - 1
			if p != "" && before >= 0 {
				b.notes.add("a message whose predecessor is missing follows the one before it")
			}
		}
		end := b.message(m, before)
		if end >= 0 {
			newest = end
		}
		return end
	})
	b.notes.noteDropped(in.Rest)
	if i, ok := number[stringOf(in.Leaf)]; ok && ends[i] >= 0 {
		newest = ends[i]
	}
	return b.chat(c, newest)
}

// claudeRoot is the predecessor that first messages name.
const claudeRoot = "00000000-0000-4000-8000-000000000000"

// claudeReader turns messages into entries. One of Claude's messages may hold text,
// calls and their results, which are separate messages here.
type claudeReader struct {
	treeBuilder
	model string
}

// message adds a message after an entry, and returns the entry with which it ends.
func (b *claudeReader) message(m object, before int) int {
	delete(m, "uuid")
	role, own := message.Assistant, false
	switch s := m.text("sender"); s {
	case "human", "user":
		role, own = message.User, true
	case "assistant":
	default:
		role = message.User
		b.notes.add("a message of the unknown sender %q is kept as foreign text", short(s))
	}
	t := &claudeTurn{claudeReader: b, role: role, own: own, parent: before, head: entry{at: stamp(m["created_at"])}}
	t.say = &blockMaker{source: Claude, own: own}
	delete(m, "created_at")
	delete(m, "updated_at")
	text := m.text("text")
	blocks := listOf(m.take("content"))
	for _, v := range blocks {
		t.block(v)
	}
	if len(blocks) == 0 {
		t.say.text(text)
	}
	t.attached(m)
	delete(m, "index")
	t.flush(m)
	return t.parent
}

// claudeTurn is one of Claude's messages while it is split into entries.
type claudeTurn struct {
	*claudeReader
	role   message.Role
	own    bool
	parent int
	head   entry
	say    *blockMaker
}

// flush adds an entry with the blocks that have been read.
func (t *claudeTurn) flush(rest object) {
	if len(t.say.blocks) == 0 {
		return
	}
	e := t.head
	e.role, e.own, e.blocks, e.parent, e.rest = t.role, t.own, t.say.blocks, t.parent, rest
	if t.role == message.Assistant {
		e.model = t.model
	}
	t.entries = append(t.entries, e)
	t.parent = len(t.entries) - 1
	t.say.blocks = nil
}

// block reads a block of content.
func (t *claudeTurn) block(v jsontext.Value) {
	o := objectOf(v)
	kind, before := stringOf(o["type"]), len(t.say.blocks)
	switch {
	case kind == "text", kind == "voice_note":
		t.say.text(stringOf(o["text"]))
	case kind == "thinking" && t.role == message.Assistant:
		t.say.reasoning(stringOf(o["thinking"]))
	case kind == "thinking":
		t.say.text(stringOf(o["thinking"]))
	case kind == "tool_use" && t.role == message.Assistant:
		t.say.call(stringOf(o["id"]), stringOf(o["name"]), argsOf(o["input"]))
		delete(o, "name")
	case kind == "tool_result":
		t.result(o)
		return
	case kind == "token_budget":
		t.notes.add("a mark of the token budget is left out")
		return
	default:
		t.unknown(kind, v)
		return
	}
	if o.drop("text", "thinking", "id", "input"); len(t.say.blocks) > before { // keep members that have no other place
		t.say.blocks[before].Base().Meta = metaOf(Claude, o)
	}
}

// drop removes members that have been read, and those without meaning.
func (o object) drop(names ...string) {
	for _, name := range append(names, "type", "start_timestamp", "stop_timestamp", "flags") {
		delete(o, name)
	}
}

func (t *claudeTurn) unknown(kind string, v jsontext.Value) {
	t.notes.add("content of the type %q is kept as text", short(kind))
	t.say.quoted("[" + kind + "]\n" + string(v))
}

// result reads a tool's result. The blocks before it become a message.
func (t *claudeTurn) result(o object) {
	t.flush(nil)
	s := &blockMaker{source: Claude}
	if c := o["content"]; c.Kind() == '"' {
		s.text(stringOf(c))
	}
	for _, v := range listOf(o["content"]) {
		t.resultPart(s, v)
	}
	r := result{callID: valid(stringOf(o["tool_use_id"])), name: valid(stringOf(o["name"])), status: message.OK, content: s.blocks}
	if string(o["is_error"]) == "true" {
		r.status = message.Failed
	}
	o.drop("content", "tool_use_id", "name", "is_error")
	e := t.head
	e.role, e.parent, e.result, e.rest = message.Tool, t.parent, r, o
	t.entries = append(t.entries, e)
	t.parent = len(t.entries) - 1
}

func (t *claudeTurn) resultPart(s *blockMaker, v jsontext.Value) {
	p := objectOf(v)
	src := objectOf(p["source"])
	switch kind := stringOf(p["type"]); {
	case kind == "text":
		s.text(stringOf(p["text"]))
	case kind == "image" && stringOf(src["data"]) != "":
		if data, ok := base64Bytes(stringOf(src["data"])); ok {
			s.media(sniffMIME(data, ""), "", data)
			return
		}
		s.quoted(string(v))
	default: // search results and the like: titles, URLs, texts
		t.notes.add("part of a result of the type %q is kept as text", short(kind))
		s.quoted(string(v))
	}
}

// attached adds the user's attachments. The export holds texts, but only the names of
// files.
func (t *claudeTurn) attached(m object) {
	for _, v := range listOf(m.take("attachments")) {
		a := objectOf(v)
		name := firstText(a, "file_name", "name")
		if text := stringOf(a["extracted_content"]); text != "" {
			f := &message.File{Common: foreign(Claude), MIME: message.MediaType(name, "text/plain"), Name: name, Data: []byte(valid(text))}
			if !strings.HasPrefix(f.MIME, "text/") && f.MIME != "application/json" {
				f.MIME = "text/plain" // what was extracted is text, whatever it was before
			}
			t.say.blocks = append(t.say.blocks, f)
			continue
		}
		t.absent(name)
	}
	seen := map[string]bool{} // files_v2 repeats what files says
	for _, list := range []string{"files", "files_v2"} {
		for _, v := range listOf(m.take(list)) {
			if name := firstText(objectOf(v), "file_name", "name"); !seen[name] {
				seen[name] = true
				t.absent(name)
			}
		}
	}
}

func (t *claudeTurn) absent(name string) {
	if name == "" {
		name = "without a name"
	}
	t.notes.add("a file that is not in the export is named in its message")
	t.say.quoted("[file " + name + ", not in the export]")
}
