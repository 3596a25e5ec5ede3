package gemini

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// skipSignature replaces a missing thought signature. Google documents
// "skip_thought_signature_validator" for calls of other models
// (https://ai.google.dev/gemini-api/docs/thought-signatures, FAQ). The field has the type bytes, so it is
// base64 on the wire.
var skipSignature = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))

// wrapper is the name of the member that holds arguments that are not an object.
const wrapper = "_malformed_arguments"

// mintedPrefix begins the call ids that Steward assigns if Gemini gives none. They are never sent to
// Gemini.
const mintedPrefix = "gemini-call-"

// encoder writes the wire form of messages. The form depends only on its fields, which codec names.
type encoder struct {
	provider string // whose metadata is sent back
	family   family
}

// codec is the name under which a transcript keeps this encoder's output.
func (e encoder) codec() string {
	if e.family.signed() {
		return "gemini/signed/" + e.provider
	}
	return "gemini/plain/" + e.provider
}

// group is an llm.GroupEncoder. A run of assistant messages becomes one content of the model. A run
// of others becomes one content of function responses and one of what was said after them.
func (e encoder) group(dst []byte, group []*message.Message) ([]byte, error) {
	if group[0].Role == message.Assistant {
		return content(dst, "model", e.modelParts(nil, group)), nil
	}
	var responses []byte
	results := wire.ResultsInCallOrder(group)
	for _, r := range results {
		responses = e.functionResponse(responses, r)
	}
	said := e.contentParts(nil, group, results)
	if len(responses)+len(said) == 0 { // a user's turn must stand between two of the model
		said = textPart(nil, wire.NoContent, nil)
	}
	return content(content(dst, "user", responses), "user", said), nil
}

// content appends a content with the parts, or nothing if there are none.
func content(dst []byte, role string, parts []byte) []byte {
	if len(parts) == 0 {
		return dst
	}
	return wire.Append(wire.Comma(dst), `{"role":$,"parts":[$]}`, role, parts)
}

// modelParts appends the parts of the model's messages that Gemini may see.
func (e encoder) modelParts(dst []byte, group []*message.Message) []byte {
	for _, m := range group {
		signed := !e.family.signed() // Gemini 3 checks the first call of each step only
		for _, b := range m.Blocks {
			dst = e.modelPart(dst, b, &signed)
		}
	}
	return dst
}

func (e encoder) modelPart(dst []byte, b message.Block, signed *bool) []byte {
	own := e.own(b.Base().Meta)
	switch b := b.(type) {
	case *message.Text:
		if b.Text == "" && !hasSignature(own) {
			return dst
		}
		return textPart(dst, b.Text, own)
	case *message.Reasoning:
		if own == nil || b.Text == "" && !hasSignature(own) { // do not send the thoughts of another provider
			return dst
		}
		return textPart(dst, b.Text, own)
	case *message.Vendor:
		if b.Meta.Provider != e.provider || vendorKind(inside(b.Meta.Fields)) == "" {
			return dst
		}
		return append(wire.Comma(dst), b.Meta.Fields...)
	case *message.ToolCall:
		dst = appendID(append(wire.Comma(dst), `{"functionCall":{`...), b.CallID)
		dst = wire.Append(wire.Comma(dst), `"name":$,"args":$}`, wireName(b.Name), wire.AppendArgs(nil, b.Args, wrapper))
		dst = wire.AppendInside(dst, own)
		if !*signed && !hasSignature(own) {
			dst = wire.Append(dst, `,"thoughtSignature":$`, skipSignature)
		}
		*signed = true
		return append(dst, '}')
	case *message.Image:
		if own != nil {
			return mediaPart(dst, b.MIME, b.Data, b.URL, own)
		}
	}
	return e.userPart(dst, b)
}

// own returns the members of a block's wire form that came from this provider, without those that
// belong to the call or the data inside the block.
func (e encoder) own(m message.Meta) []byte {
	if m.Provider != e.provider || len(m.Fields) == 0 {
		return nil
	}
	out := []byte{'{'}
	d := wire.Decode(m.Fields)
	d.Object(func(key []byte) {
		switch string(key) {
		case "functionCall", "inlineData", "fileData":
		default:
			out = wire.AppendMember(out, key, d.Raw())
		}
	})
	return append(out, '}')
}

// contentParts appends the parts of a group beside its function responses: user and system messages, and
// the media of results that a function response cannot carry.
func (e encoder) contentParts(dst []byte, group []*message.Message, results []*message.ToolResult) []byte {
	for _, r := range results {
		for _, b := range wire.Media(r.Content) {
			if !e.inResponse(b) {
				dst = e.userPart(dst, b)
			}
		}
	}
	for _, m := range group {
		switch m.Role {
		case message.User:
			for _, b := range m.Blocks {
				dst = e.userPart(dst, b)
			}
		case message.System:
			// Gemini has no system role inside contents, so the text stands in its place, marked.
			if s := m.Text(); s != "" {
				dst = textPart(dst, wire.SystemNote(s), nil)
			}
		}
	}
	return dst
}

// userPart appends what a user or a tool shows, or nothing.
func (e encoder) userPart(dst []byte, b message.Block) []byte {
	switch b := b.(type) {
	case *message.Text:
		if b.Text != "" {
			return textPart(dst, b.Text, nil)
		}
	case *message.Image:
		if !takes(b) {
			return textPart(dst, "[an image that cannot be shown here: "+cmp.Or(b.URL, b.MIME)+"]", nil)
		}
		return mediaPart(dst, b.MIME, b.Data, b.URL, nil)
	case *message.File:
		if told, whole := wire.FileText(b); whole || !takes(b) {
			return textPart(dst, told, nil)
		}
		if b.Name != "" {
			dst = textPart(dst, "File "+b.Name+":", nil)
		}
		return mediaPart(dst, b.MIME, b.Data, b.URL, nil)
	}
	return dst
}

// takes reports whether Gemini accepts a picture or file
// (https://ai.google.dev/gemini-api/docs/image-understanding and the pages for documents, audio and
// video). Text files are sent as text.
func takes(b message.Block) bool {
	mime, empty := "", false
	switch b := b.(type) {
	case *message.Image:
		mime, empty = b.MIME, len(b.Data) == 0 && b.URL == ""
	case *message.File:
		if _, whole := wire.FileText(b); whole {
			return true
		}
		mime, empty = b.MIME, len(b.Data) == 0 && b.URL == ""
	}
	if empty {
		return false
	}
	switch mime {
	case "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain":
		return true
	case "": // detected from the data, or by Gemini from the URL
		return true
	}
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// functionResponse appends a result as a part. Google's reference names the keys "output" and "error"
// (FunctionResponse.response).
func (e encoder) functionResponse(dst []byte, r *message.ToolResult) []byte {
	key := "output"
	if wire.Failed(r.Status) {
		key = "error"
	}
	dst = appendID(append(wire.Comma(dst), `{"functionResponse":{`...), r.CallID)
	dst = wire.Append(wire.Comma(dst), `"name":$,"response":{$:$}`, wireName(r.Name), key, wire.ResultText(r))
	var parts []byte
	for _, b := range r.Content {
		if e.inResponse(b) {
			parts = e.userPart(parts, b)
		}
	}
	if len(parts) > 0 {
		dst = wire.Append(dst, `,"parts":[$]`, parts)
	}
	return append(dst, `}}`...)
}

// inResponse reports whether the function response can contain a block of a result: Gemini 3 and later
// accept inline images of three types (https://ai.google.dev/gemini-api/docs/function-calling,
// multimodal responses).
func (e encoder) inResponse(b message.Block) bool {
	img, ok := b.(*message.Image)
	return ok && e.family.signed() && img.URL == "" &&
		slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, img.MIME)
}

func textPart(dst []byte, text string, members []byte) []byte {
	return append(wire.AppendInside(wire.Append(wire.Comma(dst), `{"text":$`, text), members), '}')
}

// mediaPart appends inline data, which may be that of a data URL, or a reference by URI.
func mediaPart(dst []byte, mime string, data []byte, url string, members []byte) []byte {
	if kind, inline, ok := wire.DataURL(url); ok {
		mime, data, url = cmp.Or(kind, mime), inline, ""
	}
	dst = append(wire.Comma(dst), '{')
	switch {
	case url != "" && mime != "":
		dst = wire.Append(dst, `"fileData":{"mimeType":$,"fileUri":$}`, mime, url)
	case url != "":
		dst = wire.Append(dst, `"fileData":{"fileUri":$}`, url)
	default:
		if mime == "" {
			mime, _, _ = strings.Cut(http.DetectContentType(data), ";")
		}
		dst = wire.Append(dst, `"inlineData":{"mimeType":$,"data":$}`, mime, base64.StdEncoding.EncodeToString(data))
	}
	return append(wire.AppendInside(dst, members), '}')
}

// appendID appends the id of a call, unless Gemini does not know it.
func appendID(dst []byte, id string) []byte {
	if id == "" || strings.HasPrefix(id, mintedPrefix) {
		return dst
	}
	return wire.Append(dst, `"id":$`, id)
}

// inside returns the members of an object, without its braces.
func inside(object []byte) []byte {
	if len(object) < 2 {
		return nil
	}
	return object[1 : len(object)-1]
}

func hasSignature(members []byte) bool {
	return strings.Contains(string(members), `"thoughtSignature":`)
}

// wireName returns a tool's name on the wire: wire.ToolName, but never with a digit or hyphen first.
func wireName(name string) string {
	w := wire.ToolName(tool.WireName(name))
	if c := w[0] | 0x20; w[0] == '_' || 'a' <= c && c <= 'z' {
		return w
	}
	return "_" + w[:min(len(w), 63)]
}
