package importexport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// reader reads one file (or one archive) and yields its chats.
type reader struct {
	Options
	ctx    context.Context
	yield  func(*Chat, error) bool
	ended  bool    // the consumer has stopped
	number int     // of the chat being read
	found  int     // recognised conversations, including broken ones
	odd    []error // values before the first conversation that were not conversations
	loose  list    // messages on lines of their own
	assets *assets
}

// yieldChat yields a chat or its error.
func (r *reader) yieldChat(c *Chat, err error) {
	if r.ended {
		return
	}
	if c != nil {
		c.Number = r.number
	}
	if r.ctx.Err() != nil {
		c, err, r.ended = nil, fault.Of(r.ctx.Err()), true
		r.yield(c, err)
		return
	}
	r.ended = !r.yield(c, err)
}

// noteConversation counts a recognised conversation. Since the file therefore holds conversations, it also
// reports the earlier values that were not conversations.
func (r *reader) noteConversation() {
	r.found++
	r.number++
	odd := r.odd
	r.odd = nil
	for _, err := range odd {
		r.yieldChat(nil, err)
	}
}

// file reads a file from a stream: JSON, or an archive.
func (r *reader) file(in io.Reader) {
	buf := bufio.NewReaderSize(in, 64<<10)
	head, err := buf.Peek(4)
	if len(head) == 0 && err != nil && err != io.EOF {
		r.yieldChat(nil, newStream(nil, r.Name, 0).fault(err))
		return
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK")):
		r.archive(in, buf)
		return
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		r.yieldChat(nil, fault.New(fault.Invalid, "import_format_unknown", "%s is packed with gzip", r.Name).WithHint("unpack it and import what was in it"))
		return
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		r.yieldChat(nil, fault.New(fault.Invalid, "import_format_unknown", "%s is written in UTF-16", r.Name).WithHint("save it as UTF-8 and import it again"))
		return
	}
	if err := r.values(newStream(buf, r.Name, r.MaxTotal)); err != nil {
		r.yieldChat(nil, err)
	} else if r.found == 0 {
		r.yieldChat(nil, r.unknown(""))
	}
}

// values reads all values of a file: one, or several in a row. If the first is on one line, the
// others are expected to be, too, so that a broken line affects only itself. It returns the error
// that ends the file early.
func (r *reader) values(s *stream) error {
	r.loose = list{}
	for n := 0; !r.ended; n++ {
		c, err := s.next()
		if err == io.EOF {
			break
		}
		switch {
		case err != nil && n == 0 && s.InputOffset() == 0 && fault.Of(err).Code == "import_not_json":
			return r.unknown(": it is not valid JSON")
		case err != nil:
			return err
		case c == '[' || c == '{':
			err = r.top(s, c)
		default:
			return r.unknown(": it is neither a list nor an object")
		}
		if err != nil {
			return err
		}
		if rest := s.UnreadBuffer(); n == 0 && s.in.lines == bytes.Count(rest, []byte{'\n'}) {
			if err := r.lines(s); err != nil {
				return err
			}
			break
		}
	}
	return r.collect(r.loose)
}

func (r *reader) top(s *stream, c jsontext.Kind) error {
	if c == '[' {
		return r.array(s)
	}
	return r.object(s)
}

// lines reads the rest of a JSONL file. A broken line is reported and skipped.
func (r *reader) lines(s *stream) error {
	in := s.lines()
	for n := s.line; !r.ended; n++ {
		raw, err := lineBytes(in, r.MaxChat)
		if err == io.EOF {
			return nil
		}
		line := newStream(bytes.NewReader(raw), r.Name, int64(len(raw)))
		line.line = n
		switch raw = bytes.TrimSpace(raw); {
		case errors.Is(err, errOversize):
			r.tooLarge(line.at())
		case err != nil:
			return s.fault(err)
		case len(raw) == 0:
		case !jsontext.Value(raw).IsValid(lenientText()...):
			r.noteConversation()
			r.yieldChat(nil, fault.New(fault.Invalid, "import_chat_broken", "%s: line %d is not valid JSON", r.Name, n).
				WithHint("the other lines are imported; check that the file is complete"))
		case raw[0] != '{' && raw[0] != '[':
			return r.unknown(": one of its lines is neither a list nor an object")
		default:
			if err := r.top(line, jsontext.Kind(raw[0])); err != nil {
				return err
			}
		}
	}
	return nil
}

// array reads a list of conversations, or of the messages of one.
func (r *reader) array(s *stream) error {
	if err := s.expect('['); err != nil {
		return err
	}
	var msgs list
	for !r.ended {
		more, err := s.more()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		at := s.at()
		raw, err := s.value(r.MaxChat)
		switch {
		case errors.Is(err, errOversize):
			r.tooLarge(at)
		case err != nil:
			return err
		case !r.isMessage(raw):
			r.chat(raw, at)
		case !msgs.add(raw, r.MaxChat):
			return r.oversize(at)
		}
	}
	return r.collect(msgs)
}

// object reads an object: a conversation, a message on a line of its own, or a wrapper around a
// list of conversations. Steward's own export is streamed.
func (r *reader) object(s *stream) error {
	at := s.at()
	if err := s.expect('{'); err != nil {
		return err
	}
	var raw []byte // the object without the part that was already read
	wrapped := false
	for !r.ended {
		more, err := s.more()
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
		if len(raw) == 0 && name == "steward_export" && r.takes(Steward) {
			return r.own(s, r.Seal.begin())
		}
		if name == "conversations" && s.PeekKind() == '[' {
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
			return s.leave(s.StackDepth()-1, r.MaxChat)
		}
		raw = appendMember(raw, name, v)
	}
	if len(raw) == 0 || r.ended {
		return nil
	}
	raw = append(raw, '}')
	switch {
	case wrapped && sniff(raw) == "": // what surrounds the list of conversations, for example an account
	case !r.isMessage(raw):
		r.chat(raw, at)
	case !r.loose.add(raw, r.MaxChat):
		return r.oversize(at)
	}
	return nil
}

// appendMember appends a member to an object that is being reassembled.
func appendMember(raw []byte, name string, v []byte) []byte {
	if len(raw) == 0 {
		raw = append(raw, '{')
	} else {
		raw = append(raw, ',')
	}
	raw, _ = jsontext.AppendQuote(raw, name) // the only error is invalid UTF-8, which it replaces
	return append(append(raw, ':'), v...)
}

// sniff returns the source of a conversation, or "".
func sniff(raw []byte) string {
	if raw[0] == '[' {
		return OpenAI
	}
	o := objectOf(raw)
	switch {
	case len(o["steward_export"]) > 0:
		return Steward
	case o["mapping"].Kind() == '{':
		return ChatGPT
	case o["chat_messages"].Kind() == '[':
		return Claude
	case o["messages"].Kind() == '[', o["contents"].Kind() == '[':
		return OpenAI
	}
	return ""
}

// takes reports whether the requested format accepts the source that was detected.
func (r *reader) takes(source string) bool {
	return r.Format == Auto || r.Format == source || isVendor(source) && isVendor(r.Format)
}

// chat reads one conversation that is completely in memory.
func (r *reader) chat(raw []byte, at string) {
	source := sniff(raw)
	if source == "" {
		r.noteUnrecognized(at)
		return
	}
	if source == Steward && r.takes(Steward) {
		r.wrapped(raw, at)
		return
	}
	r.noteConversation()
	if !r.takes(source) {
		r.yieldChat(nil, fault.New(fault.Invalid, "import_format_other", "%sconversation %d is of the format %s, not %s", at, r.number, source, r.Format).
			WithHint("omit the format: Steward recognises it"))
		return
	}
	var c *Chat
	var err error
	switch source {
	case ChatGPT:
		c, err = r.chatgpt(raw)
	case Claude:
		c, err = r.claude(raw)
	default:
		c, err = r.vendorChat(raw)
	}
	if err != nil {
		o := objectOf(raw)
		r.yieldChat(nil, r.chatFault(at, firstText(o, "title", "name"), err))
		return
	}
	r.yieldChat(c, nil)
}

// wrapped reads a Steward export inside a list. Its signature is not valid there.
func (r *reader) wrapped(raw []byte, at string) {
	s := newStream(bytes.NewReader(raw), r.Name, int64(len(raw)))
	err := s.expect('{')
	name := ""
	if err == nil {
		name, err = s.memberName()
	}
	if err == nil && name != "steward_export" {
		r.noteConversation()
		err = r.chatFault(at, "", errors.New("it does not begin with steward_export"))
	}
	if err == nil {
		err = r.own(s, nil)
	}
	if err != nil {
		r.yieldChat(nil, err)
	}
}

// noteUnrecognized reports a value that is not a conversation, but only once a conversation has been found:
// without one, the whole file is something else.
func (r *reader) noteUnrecognized(at string) {
	err := fault.New(fault.Invalid, "import_chat_broken", "%snot a conversation in a known format", at).
		WithHint("the others are imported; if this one was edited by hand, compare it with docs/guides/import.md")
	const most = 100
	if r.found > 0 {
		r.number++
		r.yieldChat(nil, err)
	} else if len(r.odd) < most {
		r.number++
		r.odd = append(r.odd, err)
	}
}

// chatFault returns the error for one conversation.
func (r *reader) chatFault(at, title string, err error) error {
	if f := fault.Of(err); f.Code != "internal" {
		return err
	}
	what := fmt.Sprintf("conversation %d", r.number)
	if title != "" {
		what += fmt.Sprintf(" (%.80q)", title)
	}
	return fault.New(fault.Invalid, "import_chat_broken", "%s%s cannot be read: %s", at, what, plainError(err)).
		WithHint("the others are imported; if this one was edited by hand, compare it with docs/guides/import.md")
}

// plainError returns a decoder's message without the parts that matter only to programmers.
func plainError(err error) string {
	var se *json.SemanticError
	if !errors.As(err, &se) {
		return err.Error()
	}
	if se.JSONPointer == "" {
		return "it has an unexpected form"
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(se.JSONPointer), "/"), "/", ".") + " has an unexpected form"
}

func (r *reader) tooLarge(at string) {
	r.noteConversation()
	r.yieldChat(nil, fault.New(fault.TooLarge, "import_too_large", "%sconversation %d is larger than %d bytes", at, r.number, r.MaxChat).
		WithHint("the others are imported; split this one, or import it without its pictures"))
}

// oversize stops reading a list of messages that is too large.
func (r *reader) oversize(at string) error {
	return fault.New(fault.TooLarge, "import_too_large", "%sthe list of messages is larger than %d bytes", at, r.MaxChat).
		WithHint("split it and import the parts")
}

func (r *reader) unknown(why string) error {
	return fault.New(fault.Invalid, "import_format_unknown", "%s contains no conversation in a known format%s", r.Name, why).
		WithHint("Steward reads its own exports, lists of messages as models' APIs take them, and conversations.json of ChatGPT and Claude, also in their zip files")
}
