// Package importexport reads conversations from the files of other programs, and reads and writes
// Steward's own export. It supports Steward's exports (versions 1 and 2), plain lists of
// {"role","content"}, lists of messages in the forms of OpenAI, Anthropic, Gemini and Ollama, one
// chat or one message per line (JSONL), and the exports of ChatGPT and Claude, as JSON or as the
// zip file in which they are delivered. The format is detected from the content, not from the
// file's name.
package importexport

import (
	"cmp"
	"context"
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
	OpenAI    = "openai"    // messages in the form of OpenAI's chat completions
	Anthropic = "anthropic" // messages in the form of Anthropic's API
	Gemini    = "gemini"    // contents in the form of Gemini's API
	Ollama    = "ollama"    // messages in the form of Ollama's API
	Plain     = "plain"     // {"role","content"} and nothing else
)

// Auto selects the format by looking at the content.
const Auto = "auto"

// Formats returns the values that Options.Format accepts.
func Formats() []string {
	return []string{Auto, Steward, ChatGPT, Claude, OpenAI, Anthropic, Gemini, Ollama, Plain}
}

// Chat is one conversation. For Steward's own export, only Own, the title, the times, the source
// and the notes are set.
type Chat struct {
	Title            string
	Created, Updated time.Time // zero if the source has none
	Source           string
	SourceID         string // the source's id of the conversation, or empty
	Model            string // "provider/model", if the source names one for the whole chat
	Number           int    // its number in the input, from 1
	Nodes            []Node // parents come before their children
	Current          int    // the node where the chat continues; -1 without nodes
	Notes            []Note // about content that has no place in a message
	Own              *Own   // Steward's own export
	Mine             bool   // as in Options
}

// Node is a message and its place in the tree of a chat's messages. Every path from a root to a
// leaf passes message.CheckHistory, with every call answered.
type Node struct {
	Message *message.Message // it has a new id; its Prev is its parent
	Parent  int              // -1 for a root
	Opens   bool             // an interaction begins here: a message of the user
}

// Note says how something was imported that has no place in a message.
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

// Options configure Read. The zero value detects the format, with limits that suit exports of many
// years.
type Options struct {
	Name     string               // the file's name, for errors
	Format   string               // one of Formats; empty: Auto
	MaxChat  int                  // size limit of one chat's JSON (or one message of Steward's own export), in bytes; 0: 64 MiB
	MaxTotal int64                // size limit of the whole input, unpacked, in bytes; 0: 4 GiB
	Codecs   map[string]llm.Codec // by Vendors; forms without a codec are not read
	Seal     Seal                 // verifies Steward's own exports; nil: none is verified
	Mine     bool                 // the person who imports says that the file is the person's own export, unchanged
	TempDir  string               // where a zip file that is read from a stream is stored temporarily; empty: the system's default

	// Tell receives notes that concern no single chat, such as files of an archive that hold no
	// conversations. It may be nil.
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

// Read yields the conversations of a file one at a time and keeps only one in memory. An error that
// concerns one conversation does not end the sequence; an error that concerns the rest of the file
// does. Every error names the place and a remedy. Codes, all Invalid unless stated otherwise:
// import_format_unknown, import_format_other, import_not_json, import_chat_broken,
// import_chat_empty, import_too_large (TooLarge), import_version_unknown (Unsupported),
// import_archive_broken, import_unreadable (Unavailable).
//
// When ctx is done, the sequence ends with its error.
//
// The messages in Own.Messages are read from the same stream, so they must be consumed before the
// next chat is requested. The rest is skipped.
func Read(ctx context.Context, r io.Reader, o Options) iter.Seq2[*Chat, error] {
	o = o.filled()
	return func(yield func(*Chat, error) bool) {
		rd := &reader{Options: o, ctx: ctx, yield: yield}
		if !slices.Contains(Formats(), o.Format) {
			yield(nil, fault.New(fault.Invalid, "import_format_unknown", "there is no import format %.40q", o.Format).
				WithHint("use one of %v, or omit it", Formats()))
			return
		}
		rd.file(contextReader{ctx, r})
	}
}

// contextReader is a reader that lasts as long as a context.
type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, fault.Of(r.ctx.Err())
	}
	return r.Reader.Read(p)
}

// notes collects the notes of a chat: each text once, with a count.
type notes struct{ list []Note }

// maxNotes bounds the different texts, because each new one is compared with all before.
const maxNotes = 200

func (n *notes) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i := range n.list {
		if n.list[i].Text == text {
			n.list[i].Count++
			return
		}
	}
	if len(n.list) >= maxNotes {
		n.list[maxNotes-1].Text = "and other things"
		n.list[maxNotes-1].Count++
		return
	}
	n.list = append(n.list, Note{text, 1})
}

// noteDropped notes the members of a conversation that are not kept.
func (n *notes) noteDropped(o object) {
	var names []string
	for _, name := range sortedKeys(o) {
		if !empty(o[name]) && string(o[name]) != "0" {
			names = append(names, short(valid(name)))
		}
	}
	if len(names) > 0 {
		n.add("fields of the conversation that are not kept: %s", strings.Join(names, ", "))
	}
}
