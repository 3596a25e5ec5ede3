// Package importexport reads conversations from the files of others, and reads
// and writes Steward's own export. It knows Steward's exports (versions 1 and
// 2), plain lists of {"role","content"}, lists of messages in the forms of
// OpenAI, Anthropic, Gemini and Ollama, one chat or one message per line
// (JSONL), and the exports of ChatGPT and Claude, as JSON or as the zip file in
// which they come. What a file is, is seen from its content, not from its name.
package importexport

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// The sources of chats.
const (
	Steward   = "steward"
	ChatGPT   = "chatgpt"   // the export of ChatGPT's data controls
	Claude    = "claude"    // the export of Claude's privacy settings
	OpenAI    = "openai"    // messages as OpenAI's chat completions take them
	Anthropic = "anthropic" // messages as Anthropic's API takes them
	Gemini    = "gemini"    // contents as Gemini's API takes them
	Ollama    = "ollama"    // messages as Ollama's API takes them
	Plain     = "plain"     // {"role","content"} and nothing else
)

// Auto is the format that is found by looking at the content.
const Auto = "auto"

// Formats returns the formats that Options.Format takes.
func Formats() []string {
	return []string{Auto, Steward, ChatGPT, Claude, OpenAI, Anthropic, Gemini, Ollama, Plain}
}

// Chat is one conversation. Of Steward's own export only Own is filled in
// besides the title, times, source and notes.
type Chat struct {
	Title            string
	Created, Updated time.Time // zero where the source does not say
	Source           string
	SourceID         string // the source's id of the conversation, or empty
	Model            string // "provider/model", where the source names one for the whole
	Number           int    // counted from 1 in what was read
	Nodes            []Node // parents stand before their children
	Current          int    // the node with which the chat goes on; -1 without nodes
	Notes            []Note // what became of that which has no place in a message
	Own              *Own   // Steward's own export
}

// Node is a message and its place in the tree of a chat's messages. All
// paths from a root to a leaf pass message.CheckHistory, with every call
// answered.
type Node struct {
	Message *message.Message // its id is fresh, its Prev its parent
	Parent  int              // -1 for a root
	Opens   bool             // an interaction begins here: the user's own message
}

// Note says what became of something that has no place in a message.
type Note struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

func (n Note) String() string {
	if n.Count == 1 {
		return n.Text
	}
	return fmt.Sprintf("%s (%d times)", n.Text, n.Count)
}

// Options of Read. The zero value reads what it finds, with bounds that suit
// the exports of many years.
type Options struct {
	Name     string               // the file's name, for errors
	Format   string               // one of Formats; empty: Auto
	MaxChat  int                  // bytes of JSON of one chat (or of one message of Steward's own); 0: 64 MiB
	MaxTotal int64                // bytes of the whole, unpacked; 0: 4 GiB
	Codecs   map[string]llm.Codec // by Vendors; without one its form is not read
	Seal     Seal                 // under which exports of our own verify; nil: none does
	TempDir  string               // where a zip file that comes as a stream is kept meanwhile; empty: the system's place

	// Tell is told what concerns no single chat, such as files of an archive
	// that hold no conversations. It may be nil.
	Tell func(note string)
}

const (
	defaultMaxChat  = 64 << 20
	defaultMaxTotal = 4 << 30
)

func (o Options) filled() Options {
	o.Format, o.Name = cmp.Or(o.Format, Auto), cmp.Or(o.Name, "the input")
	o.MaxChat, o.MaxTotal = cmp.Or(max(o.MaxChat, 0), defaultMaxChat), cmp.Or(max(o.MaxTotal, 0), defaultMaxTotal)
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return o
}

// Read yields the conversations of a file, one at a time: no more than one is
// in memory. An error that concerns one conversation does not end the
// sequence; after one that concerns the rest of the file it ends by itself.
// Every error names the place and what to do. Codes, all Invalid unless said
// otherwise: import_format_unknown, import_format_other, import_not_json, import_chat_broken,
// import_chat_empty, import_too_large (TooLarge), import_version_unknown
// (Unsupported), import_archive_broken, import_unreadable (Unavailable).
//
// Own.Messages of a chat is read from the same stream: it must be consumed
// before the next chat is asked for; what is left of it is skipped.
func Read(r io.Reader, o Options) iter.Seq2[*Chat, error] {
	o = o.filled()
	return func(yield func(*Chat, error) bool) {
		rd := &reader{Options: o, yield: yield}
		if !slices.Contains(Formats(), o.Format) {
			yield(nil, fault.New(fault.Invalid, "import_format_unknown", "there is no import format %.40q", o.Format).
				WithHint("use one of %v, or leave it away", Formats()))
			return
		}
		rd.file(r)
	}
}

// notes collects what is told of a chat: each text once, counted.
type notes struct{ list []Note }

func (n *notes) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i := range n.list {
		if n.list[i].Text == text {
			n.list[i].Count++
			return
		}
	}
	n.list = append(n.list, Note{text, 1})
}

// left tells of the members of a conversation that are not kept.
func (n *notes) left(o object) {
	var names []string
	for _, name := range sortedKeys(o) {
		if !empty(o[name]) && string(o[name]) != "0" {
			names = append(names, short(valid(name)))
		}
	}
	if len(names) > 0 {
		n.add("not kept of the conversation itself: %s", strings.Join(names, ", "))
	}
}
