// Package tokens counts the tokens of texts, messages and tools: exactly where
// the model's vocabulary is to be had (OpenAI's), else by an estimate that is
// on the safe side and, once providers have reported what requests really
// took, corrected per model and script.
package tokens

import (
	"strings"

	"steward/internal/message"
	"steward/internal/tool"
)

// The estimate is on the safe side: for prose in the world's larger scripts,
// code, JSON, numbers and random letters it is not below what OpenAI's
// vocabularies cl100k_base and o200k_base make of it, and for prose not above
// twice the former (the tests compare). Newer vocabularies need far fewer
// tokens for many scripts, so there the estimate is high until calibrated.

// Tokens of what is not text.
const (
	imageTokens   = 1600 // providers scale a picture down to about this
	messageTokens = 8    // what surrounds each message on the wire
	callTokens    = 16   // what surrounds a call, a result, a tool
)

// Parts is an estimate by script, in sixteenths of a token. Parts of several
// texts are added up with Add; the zero value is the empty text.
type Parts [scripts]int64

// sixteenths is the unit of Parts.
const sixteenths = 16

// Add returns the sum.
func (p Parts) Add(q Parts) Parts {
	for i, n := range q {
		p[i] += n
	}
	return p
}

// Sub returns what p has beyond q, which is part of it: of a conversation, what
// is left when a message is taken out.
func (p Parts) Sub(q Parts) Parts {
	for i, n := range q {
		p[i] -= n
	}
	return p
}

// Tokens returns the whole estimate, in tokens.
func (p Parts) Tokens() int64 {
	sum := int64(0)
	for _, n := range p {
		sum += n
	}
	return (sum + sixteenths - 1) / sixteenths
}

// framing returns what surrounds text on the wire.
func framing(tokens int64) (p Parts) {
	p[Framing] = tokens * sixteenths
	return p
}

// media returns what is not text.
func media(tokens int64) (p Parts) {
	p[Media] = tokens * sixteenths
	return p
}

// Estimate returns about how many tokens a text makes, on the safe side.
func Estimate[T string | []byte](text T) int64 { return Of(text).Tokens() }

// Message returns about how many tokens a message makes, on the safe side.
func Message(m *message.Message) int64 { return OfMessage(m).Tokens() }

// Blocks returns about how many tokens the blocks make, on the safe side.
func Blocks(blocks []message.Block) int64 { return OfBlocks(blocks).Tokens() }

// OfMessage returns the estimate of a message by script.
func OfMessage(m *message.Message) Parts {
	p := OfBlocks(m.Blocks)
	p[Framing] += messageTokens * sixteenths
	return p
}

// OfTool returns the estimate of a tool's description by script.
func OfTool(s *tool.Spec) Parts {
	return framing(callTokens).Add(Of(s.Name)).Add(Of(s.Description)).Add(Of(s.Input))
}

// OfSchema returns the estimate of a schema that the answer must follow.
func OfSchema(json []byte) Parts { return framing(callTokens).Add(Of(json)) }

// OfSystem returns the estimate of a system prompt, with what surrounds it.
func OfSystem(text string) Parts { return framing(messageTokens).Add(Of(text)) }

// OfBlocks returns the estimate of the blocks by script.
func OfBlocks(blocks []message.Block) (p Parts) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			p = p.Add(Of(b.Text))
		case *message.Reasoning:
			// Signatures and encrypted thoughts.
			p = p.Add(Of(b.Text)).Add(media(int64(len(b.Meta.Fields)) / 3))
		case *message.Vendor:
			p = p.Add(media(int64(len(b.Meta.Fields)) / 3))
		case *message.ToolCall:
			p = p.Add(framing(callTokens)).Add(Of(b.Name)).Add(Of(b.Args))
		case *message.ToolResult:
			p = p.Add(framing(callTokens)).Add(Of(b.Name)).Add(OfBlocks(b.Content))
		case *message.Image:
			p = p.Add(media(imageTokens))
		case *message.File:
			p = p.Add(ofFile(b))
		}
	}
	return p
}

func ofFile(b *message.File) Parts {
	if isText(b.MIME) {
		return framing(callTokens).Add(Of(b.Name)).Add(Of(b.Data))
	}
	// A page of a PDF takes up to 3,000 tokens and seldom less than 48 KB.
	return media(imageTokens + int64(len(b.Data))/16)
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "application/json"
}
