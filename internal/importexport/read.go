package importexport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// lenient is how the files of others are decoded: they hold what their
// authors' programs wrote.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// reader reads one file (or one archive) and yields its chats.
type reader struct {
	Options
	yield  func(*Chat, error) bool
	ended  bool    // the caller has seen enough
	number int     // of the chat being read
	found  int     // conversations recognised, broken ones too
	odd    []error // what was no conversation before the first that is one
	loose  int     // bytes of messages that stand on lines of their own
	assets *assets
}

// give yields a chat or its error.
func (r *reader) give(c *Chat, err error) {
	if r.ended {
		return
	}
	if c != nil {
		c.Number = r.number
	}
	r.ended = !r.yield(c, err)
}

// see counts a conversation that was recognised: so the file is one of
// conversations, and what was none before it is told, too.
func (r *reader) see() {
	r.found++
	r.number++
	odd := r.odd
	r.odd = nil
	for _, err := range odd {
		r.give(nil, err)
	}
}

// stream reads a file from a stream: JSON, or an archive.
func (r *reader) stream(in io.Reader) {
	buf := bufio.NewReaderSize(in, 64<<10)
	head, err := buf.Peek(4)
	if len(head) == 0 && err != nil && err != io.EOF {
		r.give(nil, newSplitter(nil, r.Name, 0).ioError(err))
		return
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK")):
		r.archive(in, buf)
		return
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		r.give(nil, fault.New(fault.Invalid, "import_format_unknown", "%s is packed with gzip", r.Name).WithHint("unpack it and import what was in it"))
		return
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		r.give(nil, fault.New(fault.Invalid, "import_format_unknown", "%s is written in UTF-16", r.Name).WithHint("save it as UTF-8 and import it again"))
		return
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")): // a mark that Windows programs leave
		buf.Discard(3) //nolint:errcheck // it is buffered
	}
	if err := r.values(newSplitter(buf, r.Name, r.MaxTotal)); err != nil {
		r.give(nil, err)
		return
	}
	if r.found == 0 {
		r.give(nil, r.unknown(""))
	}
}

// values reads all values of a file: one, or several one behind the other. If
// the first stands on one line, so do the others: then a broken line spoils
// only itself. It returns what ends the file early.
func (r *reader) values(s *splitter) error {
	var loose []wireMessage // JSONL of messages: the whole file is one chat
	lines := false
	for n := 0; !r.ended; n++ {
		c, err := s.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		from := s.line
		switch {
		case lines:
			err = r.line(s, &loose)
		case c == '[':
			err = r.array(s)
		case c == '{':
			err = r.object(s, &loose)
		default:
			return r.unknown(": it begins with %q", c)
		}
		if err != nil {
			return err
		}
		lines = lines || n == 0 && s.line == from
	}
	if len(loose) > 0 && !r.ended {
		r.see()
		r.give(r.collected(loose))
	}
	return nil
}

// line reads one line of a JSONL file. A broken one is told and left out.
func (r *reader) line(s *splitter, loose *[]wireMessage) error {
	line := s.line
	at := s.at()
	raw, err := s.lineBytes(r.MaxChat)
	switch {
	case errors.Is(err, errOversize):
		r.tooLarge(at)
		return nil
	case err != nil && err != io.EOF:
		return err
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	if !jsontext.Value(raw).IsValid(lenientText()...) {
		r.see()
		r.give(nil, fault.New(fault.Invalid, "import_chat_broken", "%s: line %d is no JSON", r.Name, line).
			WithHint("the other lines are read all the same; see that the file is whole"))
		return nil
	}
	in := newSplitter(bytes.NewReader(raw), r.Name, int64(len(raw)))
	in.line = line
	if raw[0] == '[' {
		return r.array(in)
	}
	return r.object(in, loose)
}

func lenientText() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// array reads a list: of conversations, or of the messages of one.
func (r *reader) array(s *splitter) error {
	if err := s.expect('['); err != nil {
		return err
	}
	var msgs []wireMessage
	size := 0
	for first := true; !r.ended; first = false {
		more, err := s.more(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		at := s.at()
		raw, err := s.value(r.MaxChat)
		if errors.Is(err, errOversize) {
			r.tooLarge(at)
			continue
		}
		if err != nil {
			return err
		}
		if m, ok := r.asMessage(raw); ok {
			if size += len(raw); size > r.MaxChat {
				return r.oversize(at)
			}
			msgs = append(msgs, m)
			continue
		}
		r.chat(raw, at)
	}
	if len(msgs) > 0 && !r.ended {
		r.see()
		r.give(r.collected(msgs))
	}
	return nil
}

// object reads an object: a conversation, a message on a line of its own, or
// a wrapper around a list of conversations. Steward's own export is read as
// it comes.
func (r *reader) object(s *splitter, loose *[]wireMessage) error {
	at := s.at()
	if err := s.expect('{'); err != nil {
		return err
	}
	var raw []byte // the object without what has been read of it already
	wrapped := false
	for first := true; !r.ended; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name, err := s.memberName()
		if err != nil {
			return err
		}
		if first && name == "steward_export" && r.takes(Steward) {
			return r.own(s)
		}
		if c, err := s.next(); err == nil && c == '[' && name == "conversations" {
			if err := r.array(s); err != nil {
				return err
			}
			wrapped = true
			continue
		}
		v, err := s.value(r.MaxChat)
		if err != nil && !errors.Is(err, errOversize) {
			return err
		}
		if err != nil || len(raw)+len(v) > r.MaxChat {
			r.tooLarge(at)
			return s.skipObject()
		}
		raw = appendMember(raw, name, v)
	}
	if len(raw) == 0 || r.ended {
		return nil
	}
	raw = append(raw, '}')
	if wrapped && sniff(raw) == "" {
		return nil // what stands beside the list of conversations: an account, say
	}
	if m, ok := r.asMessage(raw); ok {
		if r.loose += len(raw); r.loose > r.MaxChat {
			return r.oversize(at)
		}
		*loose = append(*loose, m)
		return nil
	}
	r.chat(raw, at)
	return nil
}

// memberName takes a member's name and its colon.
func (s *splitter) memberName() (string, error) {
	raw, err := s.value(1 << 10)
	if err != nil && !errors.Is(err, errOversize) {
		return "", err
	}
	var name string
	if err != nil || json.Unmarshal(raw, &name, lenient()) != nil {
		return "", s.broken("the name of a member is no text")
	}
	return name, s.expect(':')
}

// skipObject takes the rest of an object.
func (s *splitter) skipObject() error {
	for {
		more, err := s.more('}', false)
		if err != nil || !more {
			return err
		}
		if _, err := s.memberName(); err != nil {
			return err
		}
		if _, err := s.value(0); !errors.Is(err, errOversize) && err != nil {
			return err
		}
	}
}

// appendMember adds a member to an object that is being put together again.
func appendMember(raw []byte, name string, v []byte) []byte {
	if len(raw) == 0 {
		raw = append(raw, '{')
	} else {
		raw = append(raw, ',')
	}
	raw, _ = jsontext.AppendQuote(raw, name) // the error is of UTF-8, which it mends
	return append(append(raw, ':'), v...)
}

// signs are the members by which the kinds of conversations are told apart.
type signs struct {
	Own      jsontext.Value `json:"steward_export"`
	Mapping  jsontext.Value `json:"mapping"`
	Chat     jsontext.Value `json:"chat_messages"`
	Messages jsontext.Value `json:"messages"`
	Contents jsontext.Value `json:"contents"`
}

// sniff returns the source of a conversation, or "".
func sniff(raw []byte) string {
	if raw[0] == '[' {
		return OpenAI
	}
	var s signs
	if json.Unmarshal(raw, &s, lenient()) != nil {
		return ""
	}
	switch {
	case len(s.Own) > 0:
		return Steward
	case s.Mapping.Kind() == '{':
		return ChatGPT
	case s.Chat.Kind() == '[':
		return Claude
	case s.Messages.Kind() == '[', s.Contents.Kind() == '[':
		return OpenAI
	}
	return ""
}

// takes reports whether the wanted format admits what was found.
func (r *reader) takes(source string) bool {
	return r.Format == Auto || r.Format == source || isVendor(source) && isVendor(r.Format)
}

// chat reads one conversation that is wholly there.
func (r *reader) chat(raw []byte, at string) {
	source := sniff(raw)
	if source == "" {
		r.strange(at)
		return
	}
	r.see()
	if !r.takes(source) {
		r.give(nil, fault.New(fault.Invalid, "import_format_other", "%sconversation %d is of the format %s, not %s", at, r.number, source, r.Format).
			WithHint("leave the format away, and it is taken for what it is"))
		return
	}
	var c *Chat
	var err error
	switch source {
	case Steward:
		c, err = r.ownWhole(raw)
	case ChatGPT:
		c, err = r.chatgpt(raw)
	case Claude:
		c, err = r.claude(raw)
	default:
		c, err = r.vendorChat(raw)
	}
	if err != nil {
		r.give(nil, r.chatFault(at, titleIn(raw), err))
		return
	}
	r.give(c, nil)
}

// strange tells of what is no conversation, as soon as there is one: without
// one, the whole file is something else.
func (r *reader) strange(at string) {
	err := fault.New(fault.Invalid, "import_chat_broken", "%swhat stands there is no conversation that Steward knows", at).
		WithHint("the others are read all the same; if this one was edited by hand, compare it with docs/guides/import.md")
	const most = 100
	if r.found > 0 {
		r.number++
		r.give(nil, err)
	} else if len(r.odd) < most {
		r.number++
		r.odd = append(r.odd, err)
	}
}

// titleIn finds the title of a conversation that could not be read.
func titleIn(raw []byte) string {
	var h struct {
		Title jsontext.Value `json:"title"`
		Name  jsontext.Value `json:"name"`
	}
	if json.Unmarshal(raw, &h, lenient()) != nil {
		return ""
	}
	if s := stringOf(h.Title); s != "" {
		return s
	}
	return stringOf(h.Name)
}

// chatFault is an error of one conversation.
func (r *reader) chatFault(at, title string, err error) error {
	if f := fault.Of(err); f.Code != "internal" {
		return err
	}
	what := fmt.Sprintf("conversation %d", r.number)
	if title != "" {
		what += fmt.Sprintf(" (%.80q)", title)
	}
	return fault.New(fault.Invalid, "import_chat_broken", "%s%s cannot be read: %s", at, what, plainError(err)).
		WithHint("the others are read all the same; if this one was edited by hand, compare it with docs/guides/import.md")
}

// plainError is what a decoder says, without what only its authors care for.
func plainError(err error) string {
	var se *json.SemanticError
	if errors.As(err, &se) {
		if se.JSONPointer != "" {
			return fmt.Sprintf("%s is not as it should be", strings.ReplaceAll(strings.TrimPrefix(string(se.JSONPointer), "/"), "/", "."))
		}
		return "it is not built as it should be"
	}
	var sy *jsontext.SyntacticError
	if errors.As(err, &sy) {
		return "it is no JSON"
	}
	return err.Error()
}

func (r *reader) tooLarge(at string) {
	r.see()
	r.give(nil, fault.New(fault.TooLarge, "import_too_large", "%sconversation %d is larger than %d bytes", at, r.number, r.MaxChat).
		WithHint("the others are read all the same; split this one, or import it without its pictures"))
}

// oversize ends the reading of a list of messages that is too large.
func (r *reader) oversize(at string) error {
	return fault.New(fault.TooLarge, "import_too_large", "%sthe list of messages is larger than %d bytes", at, r.MaxChat).
		WithHint("split it and import the parts")
}

func (r *reader) unknown(format string, args ...any) error {
	e := fault.New(fault.Invalid, "import_format_unknown", format, args...)
	e.Message = r.Name + " holds no conversation that Steward knows" + e.Message
	return e.WithHint("Steward reads its own exports, lists of messages as models' APIs take them, and conversations.json of ChatGPT and Claude, also in their zip files")
}

// place is the beginning of an error message.
func place(name string, line int, off int64) string {
	if line > 1 {
		return fmt.Sprintf("%s, line %d: ", name, line)
	}
	return fmt.Sprintf("%s, byte %d: ", name, off)
}
