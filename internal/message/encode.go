package message

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/id"
)

// Append appends the stored form of m to dst: one JSON object without white
// space, zero values left out, times in microseconds since 1970 ("at"), data
// in base64, a tool call's arguments as a string (the model's own bytes, which
// need not be JSON). It does not check m: what Validate accepts, Decode reads
// back equal. Bytes that are no UTF-8, which Validate refuses, become U+FFFD.
func Append(dst []byte, m *Message) []byte {
	dst = append(dst, '{')
	dst = appendID(dst, `"id":`, m.ID)
	dst = appendText(dst, `"role":`, string(m.Role))
	if !m.At.IsZero() {
		dst = appendInt(dst, `"at":`, m.At.UnixMicro())
	}
	dst = appendID(dst, `"prev":`, m.Prev)
	if len(m.Blocks) > 0 {
		dst = AppendBlocks(appendName(dst, `"blocks":`), m.Blocks)
	}
	if m.Final {
		dst = append(appendName(dst, `"final":`), "true"...)
	}
	dst = appendText(dst, `"model":`, m.Model)
	dst = appendText(dst, `"stop":`, string(m.Stop))
	dst = appendUsage(dst, `"usage":`, m.Usage)
	dst = appendText(dst, `"approach":`, m.Approach)
	if ms := m.Took / time.Millisecond; ms != 0 {
		dst = appendInt(dst, `"took_ms":`, int64(ms))
	}
	dst = appendUsage(dst, `"turn_usage":`, m.Turn)
	dst = appendMeta(dst, m.Meta)
	dst = appendUnknown(dst, m.Unknown)
	return append(dst, '}')
}

// AppendBlocks appends the stored form of a list of blocks to dst: a JSON array.
func AppendBlocks(dst []byte, blocks []Block) []byte {
	dst = append(dst, '[')
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"`...)
		dst = append(dst, b.kind()...)
		dst = append(dst, '"')
		dst = b.appendOwn(dst)
		c := b.Base()
		dst = appendText(dst, `"origin":`, c.Origin)
		dst = appendLabels(dst, c.Labels)
		dst = appendTexts(dst, `"sources":`, c.Sources)
		dst = appendMeta(dst, c.Meta)
		dst = appendUnknown(dst, c.Unknown)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func (b *Text) appendOwn(dst []byte) []byte {
	dst = appendText(dst, `"text":`, b.Text)
	if len(b.Citations) == 0 {
		return dst
	}
	return AppendCitations(appendName(dst, `"citations":`), b.Citations)
}

// AppendCitations appends the stored form of sources to dst: a JSON array.
func AppendCitations(dst []byte, list []Citation) []byte {
	dst = append(dst, '[')
	for i, c := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, '{'), `"url":`, c.URL)
		dst = appendText(dst, `"title":`, c.Title)
		dst = append(appendText(dst, `"text":`, c.Text), '}')
	}
	return append(dst, ']')
}

func (b *Vendor) appendOwn(dst []byte) []byte    { return appendText(dst, `"kind":`, b.Kind) }
func (b *Reasoning) appendOwn(dst []byte) []byte { return appendText(dst, `"text":`, b.Text) }

func (b *ToolCall) appendOwn(dst []byte) []byte {
	dst = appendText(dst, `"call_id":`, b.CallID)
	dst = appendText(dst, `"name":`, b.Name)
	return appendText(dst, `"args":`, b.Args)
}

func (b *ToolResult) appendOwn(dst []byte) []byte {
	if b.Call != (Ref{}) {
		dst = append(appendName(dst, `"call":`), '"')
		dst = append(b.Call.AppendText(dst), '"')
	}
	dst = appendText(dst, `"call_id":`, b.CallID)
	dst = appendText(dst, `"name":`, b.Name)
	dst = appendText(dst, `"status":`, string(b.Status))
	if len(b.Content) > 0 {
		dst = AppendBlocks(appendName(dst, `"content":`), b.Content)
	}
	dst = appendText(dst, `"rest":`, b.Rest)
	return appendTexts(dst, `"denied":`, b.Denied)
}

func (b *Image) appendOwn(dst []byte) []byte {
	dst = appendText(dst, `"mime":`, b.MIME)
	dst = appendText(dst, `"url":`, b.URL)
	return appendData(dst, b.Data)
}

func (b *File) appendOwn(dst []byte) []byte {
	dst = appendText(dst, `"mime":`, b.MIME)
	dst = appendText(dst, `"name":`, b.Name)
	dst = appendText(dst, `"url":`, b.URL)
	return appendData(dst, b.Data)
}

// appendName appends a member's name, given quoted and with its colon, and
// the comma that it needs.
func appendName(dst []byte, quoted string) []byte {
	if last := dst[len(dst)-1]; last != '{' {
		dst = append(dst, ',')
	}
	return append(dst, quoted...)
}

func appendText[T string | []byte](dst []byte, name string, s T) []byte {
	if len(s) == 0 {
		return dst
	}
	dst, _ = jsontext.AppendQuote(appendName(dst, name), s) // the error is of UTF-8; see Append
	return dst
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

func appendID(dst []byte, name string, x id.ID) []byte {
	if x.Zero() {
		return dst
	}
	dst = append(appendName(dst, name), '"')
	return append(x.AppendText(dst), '"')
}

func appendData(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = append(appendName(dst, `"data":`), '"')
	return append(base64.StdEncoding.AppendEncode(dst, data), '"')
}

func appendUsage(dst []byte, name string, u Usage) []byte {
	if u == (Usage{}) {
		return dst
	}
	dst = append(appendName(dst, name), '{')
	for _, f := range [...]struct {
		name string
		n    int64
	}{
		{`"input":`, u.Input}, {`"output":`, u.Output}, {`"reasoning":`, u.Reasoning},
		{`"cache_read":`, u.CacheRead}, {`"cache_write":`, u.CacheWrite},
	} {
		if f.n != 0 {
			dst = appendInt(dst, f.name, f.n)
		}
	}
	return append(dst, '}')
}

func appendLabels(dst []byte, l Labels) []byte {
	if l == 0 {
		return dst
	}
	dst = append(appendName(dst, `"labels":`), '[')
	first := true
	for i := range 8 {
		if l&(1<<i) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		dst = append(append(dst, labelName(i)...), '"')
	}
	return append(dst, ']')
}

func appendTexts(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, s) // the error is of UTF-8; see Append
	}
	return append(dst, ']')
}

func appendMeta(dst []byte, m Meta) []byte {
	if m.Provider == "" && len(m.Fields) == 0 {
		return dst
	}
	dst = append(appendName(dst, `"meta":`), '{')
	dst = appendText(dst, `"provider":`, m.Provider)
	if len(m.Fields) > 0 {
		dst = append(appendName(dst, `"fields":`), m.Fields...)
	}
	return append(dst, '}')
}

func appendUnknown(dst, unknown []byte) []byte {
	if len(unknown) == 0 {
		return dst
	}
	return append(appendName(dst, ""), unknown...)
}

// AppendText appends the text form of the reference, "MESSAGE/BLOCK".
func (r Ref) AppendText(dst []byte) []byte {
	dst = append(r.Message.AppendText(dst), '/')
	return strconv.AppendInt(dst, int64(r.Block), 10)
}

// String returns the text form, "MESSAGE/BLOCK".
func (r Ref) String() string { return string(r.AppendText(nil)) }

// ParseRef reads the text form of a reference. It reports false for all but
// the one spelling that String gives.
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
