package message

import (
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/fault"
)

// Decode reads the stored form of one message. It is strict: white space is
// free, but a name given twice, invalid UTF-8, a known member of a wrong type,
// an unknown role, label or type of block is refused, each with its code
// (message_invalid, message_name_repeated, message_utf8_invalid,
// message_member_invalid, message_role_unknown, message_stop_unknown,
// message_status_unknown, message_label_unknown, message_block_unknown,
// message_result_content), and nothing is lost: the bytes are still the
// caller's. Members that this version does not know are kept as they came.
// The rules between the parts of a message are Validate's. Decode does not
// hold on to b.
func Decode(b []byte) (*Message, error) {
	if err := check(b); err != nil {
		return nil, err
	}
	m := &Message{}
	err := value(skipSpace(b)).each(func(name []byte, quoted, v value) error {
		known, err := m.set(name, v)
		if !known {
			m.Unknown = appendMember(m.Unknown, quoted, v)
		}
		return err
	})
	if err != nil {
		return nil, ofMember("the message", err)
	}
	return m, nil
}

// DecodeBlocks reads the stored form of a list of blocks, as Decode does.
func DecodeBlocks(b []byte) ([]Block, error) {
	if err := check(b); err != nil {
		return nil, err
	}
	blocks, err := decodeBlocks(skipSpace(b), false)
	return blocks, ofMember("the list of blocks", err)
}

// set stores a known member of the message's object.
func (m *Message) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "id":
		m.ID, err = v.id()
	case "role":
		m.Role, err = decodeWord(v, "message_role_unknown", roles[:])
	case "at":
		var n int64
		n, err = v.integer()
		m.At = time.UnixMicro(n).UTC()
	case "prev":
		m.Prev, err = v.id()
	case "blocks":
		m.Blocks, err = decodeBlocks(v, false)
	case "final":
		m.Final, err = v.boolean()
	case "model":
		m.Model, err = v.text()
	case "stop":
		m.Stop, err = decodeWord(v, "message_stop_unknown", stops[:])
	case "usage":
		m.Usage, err = decodeUsage(v)
	case "approach":
		m.Approach, err = v.text()
	case "took_ms":
		m.Took, err = decodeMillis(v)
	case "turn_usage":
		m.Turn, err = decodeUsage(v)
	case "meta":
		m.Meta, err = decodeMeta(v)
	default:
		return false, nil
	}
	return true, err
}

var (
	roles    = [...]Role{System, User, Assistant, Tool}
	stops    = [...]Stop{StopEnd, StopTools, StopLength, StopSequence, StopRefused, StopCancelled, StopBound}
	statuses = [...]Status{OK, Failed, DeniedCall, Queued, Accepted, Unavailable, UnknownEnd, Interrupted}
)

// newBlock returns an empty block of the kind, or nil.
func newBlock(kind string) Block {
	switch kind {
	case "text":
		return &Text{}
	case "reasoning":
		return &Reasoning{}
	case "tool_call":
		return &ToolCall{}
	case "tool_result":
		return &ToolResult{}
	case "image":
		return &Image{}
	case "file":
		return &File{}
	case "vendor":
		return &Vendor{}
	}
	return nil
}

// decodeBlocks reads a list of blocks. Inside a result only those that may
// stand there are read, so that nesting is bounded.
func decodeBlocks(v value, inResult bool) ([]Block, error) {
	var out []Block
	err := v.items(func(v value) error {
		b, err := decodeBlock(v, inResult)
		if err == nil {
			out = append(out, b)
		}
		return err
	})
	return out, err
}

func decodeBlock(v value, inResult bool) (Block, error) {
	kind, err := blockKind(v)
	if err != nil {
		return nil, err
	}
	b := newBlock(kind)
	switch {
	case b == nil:
		return nil, fault.New(fault.Unsupported, "message_block_unknown",
			"a block has the type %.40q, which this version of Steward does not know", kind).
			WithHint("if a newer version wrote it, read it with that one")
	case inResult && !contentBlock(b):
		return nil, contentFault(b)
	}
	c := b.Base()
	err = v.each(func(name []byte, quoted, v value) error {
		known, err := b.set(name, v)
		if !known {
			known, err = c.setCommon(name, v)
		}
		if !known && string(name) != "type" {
			c.Unknown = appendMember(c.Unknown, quoted, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// blockKind finds the type of a block, which may stand anywhere in it.
func blockKind(v value) (kind string, err error) {
	found := false
	err = v.each(func(name []byte, _, v value) error {
		if string(name) != "type" || found {
			return nil
		}
		found = true
		kind, err = v.text()
		return err
	})
	if err == nil && !found {
		err = fault.New(fault.Invalid, "message_member_invalid", "a block has no type").Detail("member", "type")
	}
	return kind, err
}

func (b *Text) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "text":
		b.Text, err = v.text()
	case "citations":
		err = v.items(func(v value) error {
			c, err := decodeCitation(v)
			b.Citations = append(b.Citations, c)
			return err
		})
	default:
		return false, nil
	}
	return true, err
}

func decodeCitation(v value) (c Citation, err error) {
	err = v.each(func(name []byte, _, v value) (err error) {
		switch string(name) {
		case "url":
			c.URL, err = v.text()
		case "title":
			c.Title, err = v.text()
		case "text":
			c.Text, err = v.text()
		default:
			err = unknownMember("a citation", name)
		}
		return err
	})
	return c, err
}

func (b *Vendor) set(name []byte, v value) (known bool, err error) {
	if string(name) != "kind" {
		return false, nil
	}
	b.Kind, err = v.text()
	return true, err
}

func (b *Reasoning) set(name []byte, v value) (known bool, err error) {
	if string(name) != "text" {
		return false, nil
	}
	b.Text, err = v.text()
	return true, err
}

func (b *ToolCall) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "call_id":
		b.CallID, err = v.text()
	case "name":
		b.Name, err = v.text()
	case "args":
		var s string
		if s, err = v.text(); s != "" {
			b.Args = []byte(s)
		}
	default:
		return false, nil
	}
	return true, err
}

func (b *ToolResult) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "call":
		var s string
		var ok bool
		if s, err = v.text(); err == nil {
			if b.Call, ok = ParseRef(s); !ok {
				err = mistyped("a message's UUID, '/' and the number of a block")
			}
		}
	case "call_id":
		b.CallID, err = v.text()
	case "name":
		b.Name, err = v.text()
	case "status":
		b.Status, err = decodeWord(v, "message_status_unknown", statuses[:])
	case "content":
		b.Content, err = decodeBlocks(v, true)
	case "rest":
		b.Rest, err = v.text()
	case "denied":
		b.Denied, err = v.texts()
	default:
		return false, nil
	}
	return true, err
}

func (b *Image) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "mime":
		b.MIME, err = v.text()
	case "url":
		b.URL, err = v.text()
	case "data":
		b.Data, err = v.data()
	default:
		return false, nil
	}
	return true, err
}

func (b *File) set(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "mime":
		b.MIME, err = v.text()
	case "name":
		b.Name, err = v.text()
	case "url":
		b.URL, err = v.text()
	case "data":
		b.Data, err = v.data()
	default:
		return false, nil
	}
	return true, err
}

// setCommon stores a known member of those that all blocks share.
func (c *Common) setCommon(name []byte, v value) (known bool, err error) {
	switch string(name) {
	case "origin":
		c.Origin, err = v.text()
	case "labels":
		err = v.items(func(v value) error {
			s, err := v.text()
			if err != nil {
				return err
			}
			one, err := ParseLabel(s)
			c.Labels |= one
			return err
		})
	case "sources":
		c.Sources, err = v.texts()
	case "meta":
		c.Meta, err = decodeMeta(v)
	default:
		return false, nil
	}
	return true, err
}

// texts is a list of texts.
func (v value) texts() (out []string, err error) {
	err = v.items(func(v value) error {
		s, err := v.text()
		out = append(out, s)
		return err
	})
	return out, err
}

func decodeUsage(v value) (u Usage, err error) {
	err = v.each(func(name []byte, _, v value) (err error) {
		switch string(name) {
		case "input":
			u.Input, err = v.integer()
		case "output":
			u.Output, err = v.integer()
		case "reasoning":
			u.Reasoning, err = v.integer()
		case "cache_read":
			u.CacheRead, err = v.integer()
		case "cache_write":
			u.CacheWrite, err = v.integer()
		default:
			err = unknownMember("usage", name)
		}
		return err
	})
	return u, err
}

func decodeMeta(v value) (m Meta, err error) {
	err = v.each(func(name []byte, _, v value) (err error) {
		switch string(name) {
		case "provider":
			m.Provider, err = v.text()
		case "fields":
			if v[0] != '{' {
				return mistyped("an object")
			}
			m.Fields = slices.Clone(v)
		default:
			err = unknownMember("meta", name)
		}
		return err
	})
	return m, err
}

func decodeMillis(v value) (time.Duration, error) {
	n, err := v.integer()
	if limit := int64(math.MaxInt64 / time.Millisecond); err == nil && (n > limit || n < -limit) {
		err = mistyped("a duration of less than 290 years")
	}
	return time.Duration(n) * time.Millisecond, err
}

// decodeWord reads a string that must be one of the words.
func decodeWord[T ~string](v value, code string, words []T) (T, error) {
	s, err := v.text()
	if err != nil || slices.Contains(words, T(s)) {
		return T(s), err
	}
	return "", unknownWord(s, code, words)
}

func unknownWord[T ~string](s, code string, words []T) *fault.Error {
	return fault.New(fault.Invalid, code, "there is no %.40q here", s).
		WithHint("%s", fmt.Sprintf("use one of %v", words))
}

// unknownMember refuses what could not be kept: usage and meta have no place
// for members of a newer version.
func unknownMember(where string, name []byte) error {
	return fault.New(fault.Unsupported, "message_member_unknown", "%s has a member %.40q, which this version of Steward does not know", where, name).
		WithHint("if a newer version wrote it, read it with that one").Detail("member", string(name))
}

func appendMember(dst []byte, quoted, v value) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, quoted...)
	dst = append(dst, ':')
	return append(dst, v...)
}
