package message

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/id"
)

// Append appends the stored form of m to dst: one JSON object without white
// space or zero values. Times are in microseconds since 1970 ("at"), data is in
// base64, and a tool call's arguments are a string (the model's own bytes, which
// need not be JSON). Append does not check m. If Validate accepts m, Decode
// reads back an equal message. Invalid UTF-8, which Validate refuses, becomes
// U+FFFD.
func Append(dst []byte, m *Message) []byte {
	var buf buffer
	dst = appendMembers(append(dst, '{'), m.members(buf[:0]))
	return append(appendUnknown(dst, m.Unknown), '}')
}

// AppendBlocks appends the stored form of a list of blocks to dst: a JSON array.
func AppendBlocks(dst []byte, blocks []Block) []byte {
	return appendList(dst, blocks, func(dst []byte, b Block) []byte {
		dst = append(append(append(dst, `{"type":"`...), b.kind()...), '"')
		var buf buffer
		dst = appendMembers(dst, members(b, buf[:0]))
		return append(appendUnknown(dst, b.Base().Unknown), '}')
	})
}

// AppendCitations appends the stored form of sources to dst: a JSON array.
func AppendCitations(dst []byte, list []Citation) []byte {
	return appendList(dst, list, func(dst []byte, c Citation) []byte {
		return append(appendMembers(append(dst, '{'), c.members(nil)), '}')
	})
}

// appendMembers appends the members that are not zero.
func appendMembers(dst []byte, list []member) []byte {
	for _, m := range list {
		before := len(dst)
		if dst[before-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':')
		start := len(dst)
		if dst = appendValue(dst, m.at); len(dst) == start {
			dst = dst[:before]
		}
	}
	return dst
}

// appendValue appends the value of a member. It appends nothing for a zero value.
func appendValue(dst []byte, at any) []byte {
	switch p := at.(type) {
	case *string:
		return appendText(dst, *p)
	case *bool:
		if *p {
			return append(dst, "true"...)
		}
	case *int64:
		return appendInt(dst, *p)
	case *id.ID:
		if !p.Zero() {
			return append(p.AppendText(append(dst, '"')), '"')
		}
	case *Role:
		return appendText(dst, string(*p))
	case *Stop:
		return appendText(dst, string(*p))
	case *Status:
		return appendText(dst, string(*p))
	case *Ref:
		if *p != (Ref{}) {
			return append(p.AppendText(append(dst, '"')), '"')
		}
	case *Labels:
		if *p != 0 {
			return appendList(dst, p.Names(), appendQuoted)
		}
	case *[]string:
		if len(*p) > 0 {
			return appendList(dst, *p, appendQuoted)
		}
	case *[]Citation:
		if len(*p) > 0 {
			return AppendCitations(dst, *p)
		}
	default:
		return appendStored(dst, at)
	}
	return dst
}

// appendStored appends a value whose stored form does not follow from its Go type.
func appendStored(dst []byte, at any) []byte {
	var buf buffer
	switch p := at.(type) {
	case *micros:
		if t := time.Time(*p); !t.IsZero() {
			return strconv.AppendInt(dst, t.UnixMicro(), 10)
		}
	case *millis:
		return appendInt(dst, int64(time.Duration(*p)/time.Millisecond))
	case *argsText:
		return appendText(dst, *p)
	case *data:
		if len(*p) > 0 {
			return append(base64.StdEncoding.AppendEncode(append(dst, '"'), *p), '"')
		}
	case *object:
		return append(dst, *p...)
	case *blockList:
		if len(*p) > 0 {
			return AppendBlocks(dst, *p)
		}
	case *content:
		if len(*p) > 0 {
			return AppendBlocks(dst, *p)
		}
	case *Usage:
		if *p != (Usage{}) {
			return append(appendMembers(append(dst, '{'), p.members(buf[:0])), '}')
		}
	case *Meta:
		if p.Provider != "" || len(p.Fields) > 0 {
			return append(appendMembers(append(dst, '{'), p.members(buf[:0])), '}')
		}
	default:
		panic(fmt.Sprintf("message: no form for %T", at))
	}
	return dst
}

func appendList[T any](dst []byte, list []T, one func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, x := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, x)
	}
	return append(dst, ']')
}

func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	if len(s) == 0 {
		return dst
	}
	return appendQuoted(dst, s)
}

func appendQuoted[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the only error is invalid UTF-8; see Append
	return dst
}

func appendInt(dst []byte, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(dst, n, 10)
}

func appendUnknown(dst, unknown []byte) []byte {
	if len(unknown) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(dst, unknown...)
}

// AppendText appends the text form of the reference, "MESSAGE/BLOCK".
func (r Ref) AppendText(dst []byte) []byte {
	dst = append(r.Message.AppendText(dst), '/')
	return strconv.AppendInt(dst, int64(r.Block), 10)
}

// String returns the text form, "MESSAGE/BLOCK".
func (r Ref) String() string { return string(r.AppendText(nil)) }

// ParseRef parses the text form of a reference. It accepts only the canonical
// spelling that String returns, and reports false for any other.
func ParseRef(s string) (Ref, bool) {
	if len(s) < 38 || s[36] != '/' {
		return Ref{}, false
	}
	m, ok := id.Parse(s[:36])
	n, err := strconv.Atoi(s[37:])
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != s[37:] {
		return Ref{}, false
	}
	return Ref{m, n}, true
}
