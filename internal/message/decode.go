package message

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
)

// Decode reads the stored form of one message. It is strict: white space is
// ignored, but a repeated name, invalid UTF-8, a known member of the wrong
// type, and an unknown role, label or block type are refused, each with its code
// (message_invalid, message_name_repeated, message_utf8_invalid,
// message_member_invalid, message_role_unknown, message_stop_unknown,
// message_status_unknown, message_label_unknown, message_block_unknown,
// message_result_content). Members that this version does not know are kept
// unchanged. Decode does not check the rules of Validate. It neither modifies nor
// retains b.
func Decode(b []byte) (*Message, error) {
	if err := check(b); err != nil {
		return nil, err
	}
	m := &Message{}
	var buf buffer
	err := decodeMembers(skipSpace(b), m.members(buf[:0]), &m.Unknown)
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

// decodeMembers reads an object into its members. Unknown members are appended
// to unknown unchanged.
func decodeMembers(v value, list []member, unknown *[]byte) error {
	return v.each(func(name []byte, quoted, v value) error {
		if known := find(list, name); known != nil {
			return decodeValue(v, known.at)
		}
		dst := *unknown
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, quoted...), ':')
		*unknown = append(dst, v...)
		return nil
	})
}

// decodeStrictly reads an object whose type has no place for unknown members, and
// returns an error for one. A newer version may have written it.
func decodeStrictly(v value, where string, list []member) error {
	return v.each(func(name []byte, _, v value) error {
		if known := find(list, name); known != nil {
			return decodeValue(v, known.at)
		}
		return fault.New(fault.Unsupported, "message_member_unknown", "%s has the unknown member %.40q", where, name).
			WithHint("use the newer version of Steward that wrote it").Detail("member", string(name))
	})
}

// decodeValue reads the value of a member.
func decodeValue(v value, at any) (err error) {
	switch p := at.(type) {
	case *string:
		*p, err = v.text()
	case *bool:
		*p, err = v.boolean()
	case *int64:
		*p, err = v.integer()
	case *id.ID:
		*p, err = v.id()
	case *Role:
		*p, err = decodeWord(v, "message_role_unknown", roles[:])
	case *Stop:
		*p, err = decodeWord(v, "message_stop_unknown", stops[:])
	case *Status:
		*p, err = decodeWord(v, "message_status_unknown", statuses[:])
	case *Ref:
		*p, err = v.ref()
	case *Labels:
		err = v.items(func(v value) error {
			s, err := v.text()
			if err != nil {
				return err
			}
			one, err := ParseLabel(s)
			*p |= one
			return err
		})
	case *[]string:
		err = v.items(func(v value) error {
			s, err := v.text()
			*p = append(*p, s)
			return err
		})
	case *[]Citation:
		err = v.items(func(v value) error {
			*p = append(*p, Citation{})
			return decodeStrictly(v, "a citation", (*p)[len(*p)-1].members(nil))
		})
	default:
		return decodeStored(v, at)
	}
	return err
}

// decodeStored reads a value whose stored form does not follow from its Go type.
func decodeStored(v value, at any) (err error) {
	var buf buffer
	switch p := at.(type) {
	case *micros:
		var n int64
		n, err = v.integer()
		*p = micros(time.UnixMicro(n).UTC())
	case *millis:
		var n int64
		n, err = v.integer()
		if limit := int64(math.MaxInt64 / time.Millisecond); err == nil && (n > limit || n < -limit) {
			err = mistyped("a duration of less than 290 years")
		}
		*p = millis(time.Duration(n) * time.Millisecond)
	case *argsText:
		var s string
		if s, err = v.text(); s != "" {
			*p = argsText(s)
		}
	case *data:
		*p, err = v.data()
	case *object:
		if v[0] != '{' {
			return mistyped("an object")
		}
		*p = object(bytes.Clone(v))
	case *blockList:
		*p, err = decodeBlocks(v, false)
	case *content:
		*p, err = decodeBlocks(v, true)
	case *Usage:
		err = decodeStrictly(v, "usage", p.members(buf[:0]))
	case *Meta:
		err = decodeStrictly(v, "meta", p.members(buf[:0]))
	default:
		panic(fmt.Sprintf("message: no form for %T", at))
	}
	return err
}

var (
	roles    = [...]Role{System, User, Assistant, Tool}
	stops    = [...]Stop{StopEnd, StopTools, StopLength, StopSequence, StopRefused, StopCancelled, StopBound}
	statuses = [...]Status{OK, Failed, DeniedCall, Queued, Accepted, Unavailable, UnknownEnd, Interrupted}
)

// newBlock returns an empty block of the kind, or nil for an unknown kind.
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

// decodeBlocks reads a list of blocks. Inside a result it accepts only the
// block types allowed there, which bounds the nesting.
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
			"a block has the unknown type %.40q", kind).
			WithHint("use the newer version of Steward that wrote it")
	case inResult && !contentBlock(b):
		return nil, contentFault(b)
	}
	var buf buffer
	list := append(members(b, buf[:0]), member{"type", &kind})
	if err := decodeMembers(v, list, &b.Base().Unknown); err != nil {
		return nil, err
	}
	return b, nil
}

// blockKind finds the type of a block. The member may be at any position in it.
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

// decodeWord reads a string that must be one of the given words.
func decodeWord[T ~string](v value, code string, words []T) (T, error) {
	s, err := v.text()
	if err != nil || slices.Contains(words, T(s)) {
		return T(s), err
	}
	return "", unknownWord(s, code, words)
}

func unknownWord[T ~string](s, code string, words []T) *fault.Error {
	return fault.New(fault.Invalid, code, "unknown value %.40q", s).
		WithHint("%s", fmt.Sprintf("use one of %v", words))
}
