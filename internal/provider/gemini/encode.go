package gemini

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// skipSignature stands for a missing thought signature. Google documents
// "skip_thought_signature_validator" for calls that come from elsewhere
// (https://ai.google.dev/gemini-api/docs/thought-signatures, FAQ); the field
// is of type bytes, so on the wire it is base64.
var skipSignature = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))

// wrapper is the name under which arguments go that are no object.
const wrapper = "_malformed_arguments"

// The marks of what Steward says midway.
const (
	systemOpen  = "<system>\n"
	systemClose = "\n</system>"
)

// mintedPrefix begins the call ids that Steward gives where Gemini gave none.
// They stay here: Gemini never gets one back.
const mintedPrefix = "gemini-call-"

// encoder writes the wire form of messages. Its fields are all that the form
// depends on; codec names them.
type encoder struct {
	provider string // whose Meta goes back
	family   family
}

// codec is the name under which a transcript keeps this encoder's output.
func (e encoder) codec() string {
	if e.family.signed() {
		return "gemini/signed/" + e.provider
	}
	return "gemini/plain/" + e.provider
}

// group is an llm.GroupEncoder: a run of assistant messages becomes one model
// content; a run of others becomes one user content of function responses and
// one of what was said after them.
func (e encoder) group(dst []byte, group []*message.Message) ([]byte, error) {
	if group[0].Role == message.Assistant {
		return e.modelContent(dst, group), nil
	}
	start := len(dst)
	results := wire.ResultsInCallOrder(group)
	if len(results) > 0 {
		dst = append(dst, `{"role":"user","parts":[`...)
		for i, r := range results {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.functionResponse(dst, r)
		}
		dst = append(dst, `]}`...)
	}
	said := e.saidParts(nil, group, results)
	if len(said) == 0 && len(dst) == start { // between two model turns there must be one of the user's
		said = textPart(nil, wire.NoContent, nil)
	}
	if len(said) > 0 {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":"user","parts":[`...)
		dst = append(dst, said...)
		dst = append(dst, `]}`...)
	}
	return dst, nil
}

// modelContent appends one content of role model, or nothing where the
// messages have nothing that Gemini may see.
func (e encoder) modelContent(dst []byte, group []*message.Message) []byte {
	start := len(dst)
	dst = append(dst, `{"role":"model","parts":[`...)
	parts := len(dst)
	for _, m := range group {
		signed := !e.family.signed() // Gemini 3 checks the first call of each step only
		for _, b := range m.Blocks {
			before := len(dst)
			if before > parts {
				dst = append(dst, ',')
			}
			begin := len(dst)
			dst = e.modelPart(dst, b, &signed)
			if len(dst) == begin {
				dst = dst[:before]
			}
		}
	}
	if len(dst) == parts {
		return dst[:start]
	}
	return append(dst, `]}`...)
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
		if own == nil || b.Text == "" && !hasSignature(own) { // another provider's thoughts are not Gemini's
			return dst
		}
		return textPart(dst, b.Text, own)
	case *message.Vendor:
		if b.Meta.Provider != e.provider || vendorKind(inside(b.Meta.Fields)) == "" {
			return dst
		}
		return append(dst, b.Meta.Fields...)
	case *message.ToolCall:
		dst = append(dst, `{"functionCall":{`...)
		dst = appendID(dst, b.CallID)
		dst = append(dst, `"name":`...)
		dst = wire.AppendString(dst, wireName(b.Name))
		dst = append(dst, `,"args":`...)
		dst = wire.AppendArgs(dst, b.Args, wrapper)
		dst = append(dst, '}')
		dst = wire.AppendInside(dst, own)
		if !*signed && !hasSignature(own) {
			dst = append(dst, `,"thoughtSignature":"`...)
			dst = append(dst, skipSignature...)
			dst = append(dst, '"')
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

// own returns the members of a block's wire form that came from this provider.
func (e encoder) own(m message.Meta) []byte {
	if m.Provider != e.provider {
		return nil
	}
	return ofPart(m.Fields)
}

// saidParts appends what a group says besides tool results: user and system
// messages, and the media of results that a function response cannot carry.
func (e encoder) saidParts(dst []byte, group []*message.Message, results []*message.ToolResult) []byte {
	part := func(f func([]byte) []byte) {
		before := len(dst)
		if before > 0 {
			dst = append(dst, ',')
		}
		begin := len(dst)
		if dst = f(dst); len(dst) == begin {
			dst = dst[:before]
		}
	}
	for _, r := range results {
		for _, b := range r.Content {
			if _, isText := b.(*message.Text); !isText && !e.inResponse(b) {
				part(func(dst []byte) []byte { return e.userPart(dst, b) })
			}
		}
	}
	for _, m := range group {
		switch m.Role {
		case message.User:
			for _, b := range m.Blocks {
				part(func(dst []byte) []byte { return e.userPart(dst, b) })
			}
		case message.System:
			// Gemini has no system role inside contents: what Steward says
			// midway stands in its place, marked.
			if s := m.Text(); s != "" {
				part(func(dst []byte) []byte { return textPart(dst, systemOpen+s+systemClose, nil) })
			}
		}
	}
	return dst
}

// userPart appends what a user or a tool shows, or nothing.
func (e encoder) userPart(dst []byte, b message.Block) []byte {
	switch b := b.(type) {
	case *message.Text:
		if b.Text == "" {
			return dst
		}
		return textPart(dst, b.Text, nil)
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
			dst = append(dst, ',')
		}
		return mediaPart(dst, b.MIME, b.Data, b.URL, nil)
	}
	return dst
}

// takes reports whether Gemini reads a picture or file
// (https://ai.google.dev/gemini-api/docs/image-understanding and its
// neighbours for documents, audio and video). Text files go as text.
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
	case "": // found out from the data, or by Gemini from the address
		return true
	}
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// functionResponse appends a result. The keys "output" and "error" are the
// ones that Google's reference names (FunctionResponse.response).
func (e encoder) functionResponse(dst []byte, r *message.ToolResult) []byte {
	dst = append(dst, `{"functionResponse":{`...)
	dst = appendID(dst, r.CallID)
	dst = append(dst, `"name":`...)
	dst = wire.AppendString(dst, wireName(r.Name))
	switch r.Status {
	case message.OK, message.Queued, message.Accepted, "":
		dst = append(dst, `,"response":{"output":`...)
	default:
		dst = append(dst, `,"response":{"error":`...)
	}
	dst = wire.AppendString(dst, wire.ResultText(r))
	dst = append(dst, '}')
	open := false
	for _, b := range r.Content {
		if !e.inResponse(b) {
			continue
		}
		if open {
			dst = append(dst, ',')
		} else {
			dst, open = append(dst, `,"parts":[`...), true
		}
		dst = e.userPart(dst, b)
	}
	if open {
		dst = append(dst, ']')
	}
	return append(dst, `}}`...)
}

// inResponse reports whether a block of a result can stand inside the function
// response: inline images of three types, with Gemini 3 and later
// (https://ai.google.dev/gemini-api/docs/function-calling, multimodal responses).
func (e encoder) inResponse(b message.Block) bool {
	img, ok := b.(*message.Image)
	return ok && e.family.signed() && img.URL == "" &&
		slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, img.MIME)
}

func textPart(dst []byte, text string, members []byte) []byte {
	dst = append(dst, `{"text":`...)
	dst = wire.AppendString(dst, text)
	dst = wire.AppendInside(dst, members)
	return append(dst, '}')
}

// mediaPart appends inline data or a reference by URI. A data: URL is inline.
func mediaPart(dst []byte, mime string, data []byte, url string, members []byte) []byte {
	if head, body, ok := strings.Cut(url, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		if raw, err := base64.StdEncoding.DecodeString(body); err == nil {
			mime, data, url = cmp.Or(strings.TrimPrefix(head, "data:"), mime), raw, ""
		}
	}
	if url != "" {
		dst = append(dst, `{"fileData":{`...)
		if mime != "" {
			dst = append(dst, `"mimeType":`...)
			dst = wire.AppendString(dst, mime)
			dst = append(dst, ',')
		}
		dst = append(dst, `"fileUri":`...)
		dst = wire.AppendString(dst, url)
	} else {
		if mime == "" {
			mime, _, _ = strings.Cut(http.DetectContentType(data), ";")
		}
		dst = append(dst, `{"inlineData":{"mimeType":`...)
		dst = wire.AppendString(dst, mime)
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, data)
		dst = append(dst, '"')
	}
	dst = append(dst, '}')
	dst = wire.AppendInside(dst, members)
	return append(dst, '}')
}

// appendID appends the id of a call, unless there is none that Gemini knows.
func appendID(dst []byte, id string) []byte {
	if id == "" || strings.HasPrefix(id, mintedPrefix) {
		return dst
	}
	dst = append(dst, `"id":`...)
	dst = wire.AppendString(dst, id)
	return append(dst, ',')
}

// ofPart returns the members that belong to a part itself: not those kept of
// the call or data in it.
func ofPart(object []byte) []byte {
	if !bytes.Contains(object, []byte(`"functionCall":`)) && !bytes.Contains(object, []byte(`"inlineData":`)) &&
		!bytes.Contains(object, []byte(`"fileData":`)) {
		return object
	}
	var out []byte
	d := wire.Decode(object)
	d.Object(func(key []byte) {
		switch string(key) {
		case "functionCall", "inlineData", "fileData":
		default:
			out = wire.AppendMember(out, key, d.Raw())
		}
	})
	return append(append([]byte{'{'}, out...), '}')
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

// wireName is the name under which Gemini knows a tool: wire.ToolName, and
// never a digit or hyphen first.
func wireName(name string) string {
	w := wire.ToolName(tool.WireName(name))
	if c := w[0] | 0x20; w[0] == '_' || 'a' <= c && c <= 'z' {
		return w
	}
	return "_" + w[:min(len(w), 63)]
}
