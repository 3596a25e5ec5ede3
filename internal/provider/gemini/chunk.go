package gemini

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// chunk is one GenerateContentResponse of a stream. Its slices alias the event's data.
type chunk struct {
	parts    []part
	finish   string
	why      string // finishMessage
	blocked  string // promptFeedback.blockReason
	response string // responseId
	grounds  []byte // groundingMetadata
	pages    []byte // urlContextMetadata
	usage    *message.Usage
	failed   []byte // the whole event, if it is an error
}

// part is one part of a content. extra has the members that are not modelled, separated by commas.
type part struct {
	text    []byte
	thought bool
	call    *message.ToolCall
	mime    string
	data    []byte
	extra   []byte
}

func readChunk(data []byte) (c chunk, err error) {
	d := wire.Decode(data)
	d.Object(func(key []byte) {
		switch string(key) {
		case "candidates":
			d.Array(func(i int) {
				if i == 0 { // Steward asks for one
					c.candidate(d)
				}
			})
		case "promptFeedback":
			d.Object(func(key []byte) {
				if string(key) == "blockReason" {
					c.blocked = d.String()
				}
			})
		case "usageMetadata":
			c.usage = readUsage(d)
		case "responseId":
			c.response = d.String()
		case "error":
			if d.IsObject() {
				c.failed = data
			}
		}
	})
	return c, d.End()
}

func (c *chunk) candidate(d *wire.Decoder) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "finishReason":
			c.finish = d.String()
		case "finishMessage":
			c.why = d.String()
		case "groundingMetadata":
			if d.IsObject() {
				c.grounds = d.Raw()
			}
		case "urlContextMetadata":
			if d.IsObject() {
				c.pages = d.Raw()
			}
		case "content":
			d.Object(func(key []byte) {
				if string(key) == "parts" {
					d.Array(func(int) {
						if len(c.parts) == wire.MaxParts {
							d.Refuse()
							return
						}
						c.parts = append(c.parts, readPart(d))
					})
				}
			})
		}
	})
}

func readPart(d *wire.Decoder) (p part) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "text":
			p.text = d.Piece()
		case "thought":
			p.thought = d.Bool()
		case "functionCall":
			p.call, _ = functionCall(wire.Leniently(d.Raw()))
		case "inlineData":
			d.Object(func(key []byte) {
				switch string(key) {
				case "mimeType":
					p.mime = d.String()
				case "data":
					p.data, _ = base64.StdEncoding.AppendDecode(nil, d.Bytes()) // an image that cannot be read is none
				}
			})
		default:
			name := string(key)
			p.extra = wire.AppendMember(p.extra, name, d.Raw())
		}
	})
	return p
}

func readUsage(d *wire.Decoder) *message.Usage {
	u := &message.Usage{}
	d.Object(func(key []byte) {
		switch string(key) {
		case "promptTokenCount", "toolUsePromptTokenCount":
			u.Input += d.Int()
		case "candidatesTokenCount":
			u.Output += d.Int()
		case "thoughtsTokenCount":
			u.Reasoning = d.Int()
			u.Output += u.Reasoning
		case "cachedContentTokenCount":
			u.CacheRead = d.Int()
		}
	})
	return u
}

// writer assembles the message of a stream.
type writer struct {
	*wire.Assembly
	provider string
	tools    *llm.Toolset
	size     int  // bytes of the request, which identify the answer
	loose    bool // the model may be a local one, see wire.Assembly.Say

	last     *wire.Part // text or reasoning that may still grow
	kind     llm.Kind   // its kind
	ids      wire.CallIDs
	response string
	finish   string
	why      string
	blocked  string
	done     bool   // the last event has come, with or without a finishReason
	grounds  []byte // groundingMetadata: each is of the whole so far
	pages    []byte // urlContextMetadata likewise
	usage    message.Usage
}

func (w *writer) add(c chunk) {
	if c.response != "" {
		w.response = c.response
	}
	for _, p := range c.parts {
		w.part(p)
	}
	if len(c.grounds) > 2 && w.Keep(len(c.grounds)) {
		w.grounds = bytes.Clone(c.grounds)
	}
	if len(c.pages) > 2 && w.Keep(len(c.pages)) {
		w.pages = bytes.Clone(c.pages)
	}
	if c.usage != nil { // each chunk's counts are of the whole so far
		w.usage = *c.usage
	}
	if c.finish != "" && c.finish != "FINISH_REASON_UNSPECIFIED" {
		w.finish, w.why = c.finish, c.why
	}
	if c.blocked != "" {
		w.blocked = c.blocked
	}
}

// part adds one part. A part with a signature must be sent back unchanged, so nothing is joined to it.
func (w *writer) part(p part) {
	switch {
	case p.call != nil:
		w.call(p)
	case p.data != nil:
		w.Show(&message.Image{Common: message.Common{Meta: w.meta(p)}, MIME: p.mime, Data: p.data})
	case len(p.text) == 0 && vendorKind(p.extra) != "":
		v := w.Vendor(vendorKind(p.extra))
		v.Meta, w.last = wire.MetaOf(w.provider, p.extra), nil
	case len(p.text) == 0 && !hasSignature(p.extra): // nothing, or a kind of part that Steward never asks for
	case len(p.text) == 0: // a signature alone, as the last part of a stream often is
		w.Open(llm.ReasoningDelta).Meta = w.meta(p)
		w.last = nil
	case w.loose && !p.thought && len(p.extra) == 0:
		w.AddMixedText(p.text)
		w.last = nil
	default:
		w.text(p)
	}
}

func (w *writer) text(p part) {
	kind := llm.TextDelta
	if p.thought {
		kind = llm.ReasoningDelta
	}
	part := w.last
	if part == nil || len(p.extra) > 0 || w.kind != kind {
		part = w.Open(kind)
		part.Meta = w.meta(p)
	}
	part.Add(p.text)
	w.last, w.kind = part, kind
	if len(p.extra) > 0 {
		w.last = nil
	}
}

// meta returns the members of a part that are not modelled, and whether it was a thought: a bare
// signature may be either.
func (w *writer) meta(p part) message.Meta {
	members := p.extra
	if p.thought {
		members = append([]byte(`"thought":true`), wire.After([]byte{'{'}, p.extra)...)
	}
	return wire.MetaOf(w.provider, members)
}

func (w *writer) call(p part) {
	c := w.Open(llm.CallArgs)
	c.Meta, c.Name = w.meta(p), w.tools.Name(p.call.Name)
	c.CallID = w.ids.Next(p.call.CallID, "gemini", w.response, strconv.Itoa(w.size))
	c.Add(p.call.Args)
	w.last = nil
}

// hosted reports whether a member holds what a tool of Gemini's own did: code that ran at Google, a search
// or the like (toolCall), or the result. It goes back to the API as it came.
//
// Source: https://ai.google.dev/api/caching#Part.
func hosted(member string) bool {
	switch member {
	case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
		return true
	}
	return false
}

// vendorKind returns which of Gemini's own tools a part's members belong to, or "" for other parts.
func vendorKind(members []byte) (kind string) {
	d := wire.Decode(append(append([]byte{'{'}, members...), '}'))
	d.Object(func(key []byte) {
		if hosted(string(key)) {
			kind = string(key)
		}
	})
	return kind
}

// pages returns the addresses that the model has read with urlContext.
//
// Source: https://ai.google.dev/api/generate-content#UrlContextMetadata.
func pages(metadata []byte) (list []message.Citation) {
	d := wire.Decode(metadata)
	d.Object(func(key []byte) {
		if string(key) == "urlMetadata" {
			d.Array(func(int) {
				d.Object(func(key []byte) {
					if string(key) == "retrievedUrl" {
						list = append(list, message.Citation{URL: d.String()})
					}
				})
			})
		}
	})
	return list
}

// grounding returns the sources that an answer is grounded on, and how many searches it took: Gemini 3 and
// later are billed by the query.
//
// Source: https://ai.google.dev/gemini-api/docs/pricing.
func grounding(grounds []byte) (list []message.Citation, searches int64) {
	d := wire.Decode(grounds)
	d.Object(func(key []byte) {
		switch string(key) {
		case "webSearchQueries":
			d.Array(func(int) { searches++ })
		case "groundingChunks":
			d.Array(func(int) {
				d.Object(func([]byte) { list = append(list, chunkCitation(d)) }) // web, retrievedContext or maps
			})
		}
	})
	return list, searches
}

func chunkCitation(d *wire.Decoder) (c message.Citation) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "uri":
			c.URL = d.String()
		case "title":
			c.Title = d.String()
		case "text":
			c.Text = d.String()
		}
	})
	return c
}
