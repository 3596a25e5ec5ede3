// Package tokens counts the tokens of texts, messages and tools. It uses an estimate that is rather
// too high than too low and, once providers have reported how many tokens requests really had,
// corrects it per model.
package tokens

import (
	"strings"

	"steward/internal/message"
	"steward/internal/tool"
)

// The estimate is rather too high than too low. For prose in the world's larger scripts, code,
// JSON, numbers and random letters it is not below the count of OpenAI's vocabularies cl100k_base
// and o200k_base, and for prose not above twice the count of cl100k_base (the tests compare them).
// Newer vocabularies need far fewer tokens for many scripts, so for them the estimate is high until
// it is calibrated.

// Tokens of content other than text.
const (
	imageTokens   = 1600 // providers scale a picture down to about this
	messageTokens = 8    // what surrounds each message on the wire
	callTokens    = 16   // what surrounds a call, a result, a tool
)

// Parts is an estimate in sixteenths of a token. Add sums the Parts of several texts. The zero
// value is the empty text.
type Parts struct {
	text  int64 // with what surrounds it on the wire
	media int64 // pictures, documents, signatures
}

// sixteenths is the unit of Parts.
const sixteenths = 16

// Add returns the sum.
func (p Parts) Add(q Parts) Parts { return Parts{p.text + q.text, p.media + q.media} }

// Tokens returns the whole estimate, in tokens.
func (p Parts) Tokens() int64 { return (p.text + p.media + sixteenths - 1) / sixteenths }

// framing returns the Parts of the framing around text on the wire.
func framing(tokens int64) Parts { return Parts{text: tokens * sixteenths} }

// media returns the Parts of content other than text.
func media(tokens int64) Parts { return Parts{media: tokens * sixteenths} }

// Estimate returns an estimate of a text's tokens that is rather too high than too low.
func Estimate[T string | []byte](text T) int64 { return Of(text).Tokens() }

// Blocks returns an estimate of the blocks' tokens that is rather too high than too low.
func Blocks(blocks []message.Block) int64 { return OfBlocks(blocks).Tokens() }

// OfMessage returns the estimate of a message.
func OfMessage(m *message.Message) Parts {
	return OfBlocks(m.Blocks).Add(framing(messageTokens))
}

// OfTool returns the estimate of a tool's description.
func OfTool(s *tool.Spec) Parts {
	return framing(callTokens).Add(Of(s.Name)).Add(Of(s.Description)).Add(Of(s.Input))
}

// OfSchema returns the estimate of a schema that the answer must follow.
func OfSchema(json []byte) Parts { return framing(callTokens).Add(Of(json)) }

// OfSystem returns the estimate of a system prompt, including its framing.
func OfSystem(text string) Parts { return framing(messageTokens).Add(Of(text)) }

// OfBlocks returns the estimate of the blocks.
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
