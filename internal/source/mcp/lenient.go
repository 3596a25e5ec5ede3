package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/tool"
)

// The SDK refuses a whole result for one part that it cannot read, such as an image that is written as
// a data URL. So results are read leniently before the SDK sees them: what can be understood is written
// as the protocol wants it, and a text that names the fault takes the place of a part that cannot.

// lenient corrects the results of tool calls and the contents of resources in a message.
func lenient(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Response)
	if !ok || !bytes.Contains(r.Result, []byte(`"content`)) {
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(r.Result, &members) != nil {
		return
	}
	switch {
	case members["content"] != nil:
		if json.Unmarshal(r.Result, new(sdk.CallToolResult)) == nil {
			return
		}
		lenientResult(members)
	case members["contents"] != nil:
		if json.Unmarshal(r.Result, new(sdk.ReadResourceResult)) == nil {
			return
		}
		members["contents"] = encode(each(members["contents"], resourceParts))
	default:
		return
	}
	r.Result = encode(members)
}

// lenientResult corrects the result of a tool call.
func lenientResult(members map[string]json.RawMessage) {
	members["content"] = encode(each(members["content"], part))
	if raw, ok := members["isError"]; ok {
		text := strings.ToLower(strings.Trim(string(raw), `"`))
		members["isError"] = encode(text != "false" && text != "null" && text != "0" && text != "")
	}
	for _, name := range []string{"_meta", "resultType"} { // nothing of what is shown
		alone := map[string]json.RawMessage{"content": json.RawMessage("[]"), name: members[name]}
		if _, ok := members[name]; ok && json.Unmarshal(encode(alone), new(sdk.CallToolResult)) != nil {
			delete(members, name)
		}
	}
}

// each corrects the parts of a list. A value that is not a list is treated as its only part.
func each(raw json.RawMessage, correct func(json.RawMessage) json.RawMessage) []json.RawMessage {
	var parts []json.RawMessage
	if string(raw) != "null" && json.Unmarshal(raw, &parts) != nil {
		parts = []json.RawMessage{raw}
	}
	out := make([]json.RawMessage, len(parts))
	for i, p := range parts {
		out[i] = correct(p)
	}
	return out
}

// part corrects one part of a result.
func part(raw json.RawMessage) json.RawMessage {
	readable := func(raw json.RawMessage) bool {
		return json.Unmarshal(encode(map[string]any{"content": []json.RawMessage{raw}}), new(sdk.CallToolResult)) == nil
	}
	if readable(raw) {
		return raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		if text, ok := textOf(raw); ok {
			return inWords(text)
		}
		return inWords("[A part that is not content: " + tool.Clip(string(raw), 200) + "]")
	}
	kind, _ := textOf(members["type"])
	out := map[string]any{"type": kind}
	for _, name := range []string{"text", "mimeType", "uri", "name", "title", "description"} {
		if text, ok := textOf(members[name]); ok {
			out[name] = text
		}
	}
	switch kind {
	case "text":
		if _, ok := out["text"]; !ok && members["text"] != nil { // JSON instead of a text that holds it
			out["text"] = string(members["text"])
		}
	case "image", "audio":
		data, mime, why := binary(members["data"])
		if why != "" {
			return inWords(fmt.Sprintf("[The %s%s could not be read: %s]", kind, inBrackets(out["mimeType"]), why))
		}
		if out["data"] = data; mime != "" {
			out["mimeType"] = mime
		}
	case "resource":
		out["resource"] = resourceParts(members["resource"])
	case "resource_link":
	default:
		if text, ok := out["text"].(string); ok {
			return inWords(fmt.Sprintf("[Content of the unknown kind %q]\n%s", tool.Clip(kind, 40), text))
		}
		return inWords(fmt.Sprintf("[Content of the unknown kind %q was left out%s]", tool.Clip(kind, 40), inBrackets(out["uri"])))
	}
	if corrected := encode(out); readable(corrected) {
		return corrected
	}
	return inWords(fmt.Sprintf("[A part of the kind %q could not be read]", kind))
}

// resourceParts corrects the contents of one resource.
func resourceParts(raw json.RawMessage) json.RawMessage {
	if json.Unmarshal(raw, new(sdk.ResourceContents)) == nil && string(raw) != "null" {
		return raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return encode(map[string]any{"uri": "", "text": "[A resource without contents]"})
	}
	out := map[string]any{"uri": ""}
	for _, name := range []string{"uri", "mimeType", "text"} {
		if text, ok := textOf(members[name]); ok {
			out[name] = text
		}
	}
	if blob := members["blob"]; blob != nil && string(blob) != "null" {
		if data, mime, why := binary(blob); why != "" {
			out["text"] = strings.TrimSpace(fmt.Sprint(first(out["text"]), "\n[The contents", inBrackets(out["mimeType"]), " could not be read: ", why, "]"))
		} else if out["blob"] = data; mime != "" {
			out["mimeType"] = mime
		}
	}
	return encode(out)
}

func first(v any) string {
	s, _ := v.(string)
	return s
}

// binary reads data in any form in which servers write it: base64 of either alphabet, with or without
// padding and white space, and as a data URL, whose type it returns. Otherwise it says why not.
func binary(raw json.RawMessage) (data []byte, mime, why string) {
	text, ok := textOf(raw)
	switch {
	case raw == nil || string(raw) == "null":
		return nil, "", "it has no data"
	case !ok:
		return nil, "", "its data is not text"
	case strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://"):
		return nil, "", "the server gives an address instead of its data: " + tool.Clip(text, 500)
	}
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		head, body, comma := strings.Cut(rest, ",")
		if !comma || !strings.Contains(head, ";base64") {
			return nil, "", "its data URL is not base64"
		}
		mime, _, _ = strings.Cut(head, ";")
		text = body
	}
	text = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n', '=':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, text)
	data, err := base64.RawStdEncoding.DecodeString(text)
	switch {
	case err != nil:
		return nil, "", "its data is not base64"
	case len(data) == 0:
		return nil, "", "it has no data"
	}
	return data, mime, ""
}

// inBrackets returns a text in brackets, if there is one.
func inBrackets(v any) string {
	if s := first(v); s != "" {
		return " (" + tool.Clip(s, 200) + ")"
	}
	return ""
}

// textOf returns a JSON string. It returns false for any other value.
func textOf(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

func inWords(text string) json.RawMessage {
	return encode(map[string]string{"type": "text", "text": text})
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of texts and of JSON that was read
	}
	return b
}

// lenientBytes is lenient for one message as it is sent. A message that needs no correction is returned unchanged.
func lenientBytes(data []byte) []byte {
	if !bytes.Contains(data, []byte(`"content`)) || !bytes.Contains(data, []byte(`"result"`)) {
		return data
	}
	m, err := jsonrpc.DecodeMessage(data)
	r, ok := m.(*jsonrpc.Response)
	if err != nil || !ok {
		return data
	}
	before := r.Result
	lenient(r)
	if bytes.Equal(before, r.Result) {
		return data
	}
	if out, err := jsonrpc.EncodeMessage(r); err == nil {
		return out
	}
	return data
}

// events is a stream of server-sent events whose messages are read leniently. A message in several
// lines passes as it is.
type events struct {
	r    *bufferedLines
	left []byte
}

func newEvents(r io.Reader) *events { return &events{r: &bufferedLines{r: r}} }

func (e *events) Read(p []byte) (int, error) {
	if len(e.left) == 0 {
		line, err := e.r.next()
		if len(line) == 0 {
			return 0, err
		}
		e.left = lenientLine(line)
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// lenientLine corrects one line of a stream.
func lenientLine(line []byte) []byte {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return line
	}
	body := bytes.TrimSpace(data)
	got := lenientBytes(valid(body))
	if bytes.Equal(got, body) {
		return line
	}
	return append(append([]byte("data: "), got...), '\n')
}

// valid returns text in UTF-8: what is none is marked.
func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// bufferedLines reads lines with their ends as soon as they have come. A line that is too long for a
// message comes in pieces.
type bufferedLines struct {
	r   io.Reader
	buf []byte
	err error
}

func (b *bufferedLines) next() ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(b.buf[seen:], '\n'); i >= 0 {
			return b.take(seen + i + 1), nil
		}
		if seen = len(b.buf); seen > maxMessage || b.err != nil && seen > 0 {
			return b.take(seen), nil
		}
		if b.err != nil {
			return nil, b.err
		}
		if cap(b.buf)-seen < 4<<10 {
			b.buf = append(make([]byte, 0, max(64<<10, 2*cap(b.buf))), b.buf...)
		}
		n, err := b.r.Read(b.buf[seen:cap(b.buf)])
		b.buf, b.err = b.buf[:seen+n], err
	}
}

// take removes the first n bytes.
func (b *bufferedLines) take(n int) []byte {
	line := bytes.Clone(b.buf[:n])
	b.buf = b.buf[:copy(b.buf, b.buf[n:])]
	return line
}
