package llm

import (
	"strings"
	"unicode/utf8"

	"steward/internal/message"
)

// Tokens cannot be counted without a model's own vocabulary, so they are
// estimated, on the safe side: the estimate of ordinary text is not below the
// count of the field's tokenizers (o200k_base and cl100k_base were measured),
// and rarely above twice that. It is reckoned per character, by script,
// because the scripts differ by a factor of ten: four Latin letters make a
// token, and so does half a Chinese character in older vocabularies.

// What characters weigh, in sixteenths of a token.
const (
	weightSpace   = 1
	weightLetter  = 5  // a–z
	weightCapital = 10 // words in capitals and camelCase fall apart
	weightDigit   = 8
	weightSign    = 11 // punctuation
	weightLine    = 8  // line breaks and tabs
	weightAlpha   = 12 // Latin with accents, Greek, Cyrillic, Hebrew, Arabic, Armenian
	weightIndic   = 24 // scripts of South and Southeast Asia, Georgian, Ethiopic
	weightCJK     = 24 // Chinese, Japanese, Korean
	weightOther   = 48 // emoji, rare scripts, historic characters
)

// Tokens of what is not text.
const (
	imageTokens   = 1600 // providers scale a picture down to about this
	messageTokens = 8    // what surrounds each message on the wire
	callTokens    = 16   // what surrounds a call, a result, a tool
)

// EstimateTokens returns about how many tokens a text makes, on the safe side.
func EstimateTokens[T string | []byte](text T) int64 {
	weight := int64(0)
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			weight += int64(asciiWeight[c])
			i++
			continue
		}
		r, n := decodeRune(text[i:])
		weight += runeWeight(r)
		i += n
	}
	return (weight + 15) / 16
}

func decodeRune[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

var asciiWeight = func() (w [utf8.RuneSelf]uint8) {
	for c := range w {
		switch {
		case c == ' ':
			w[c] = weightSpace
		case 'a' <= c && c <= 'z':
			w[c] = weightLetter
		case 'A' <= c && c <= 'Z':
			w[c] = weightCapital
		case '0' <= c && c <= '9':
			w[c] = weightDigit
		case c < ' ':
			w[c] = weightLine
		default:
			w[c] = weightSign
		}
	}
	return w
}()

func runeWeight(r rune) int64 {
	switch {
	case r < 0x0900: // up to Arabic
		return weightAlpha
	case r < 0x1E00:
		if 0x1100 <= r && r < 0x1200 { // Hangul Jamo
			return weightCJK
		}
		return weightIndic
	case r < 0x2000: // Vietnamese and classical Greek letters
		return weightIndic
	case r < 0x2C00: // punctuation, arrows, mathematics, boxes
		return weightIndic
	case r >= 0x2E80 && r < 0xE000:
		return weightCJK
	case r >= 0xF900 && r < 0xFB00, r >= 0xFE30 && r < 0xFFF0:
		return weightCJK
	}
	return weightOther
}

// EstimateRequest returns about how many input tokens a request makes, on the
// safe side: system prompt, transcript, tools and schema.
func EstimateRequest(r *Request) int64 {
	n := messageTokens + EstimateTokens(r.System) + r.Transcript.Tokens() + r.Tools.Tokens()
	if r.Schema != nil {
		n += callTokens + EstimateTokens(r.Schema.JSON)
	}
	return n
}

// estimateMessage returns about how many tokens a message makes.
func estimateMessage(m *message.Message) int64 { return messageTokens + estimateBlocks(m.Blocks) }

func estimateBlocks(blocks []message.Block) int64 {
	n := int64(0)
	for _, b := range blocks {
		n += estimateBlock(b)
	}
	return n
}

func estimateBlock(b message.Block) int64 {
	switch b := b.(type) {
	case *message.Text:
		return EstimateTokens(b.Text)
	case *message.Reasoning:
		return EstimateTokens(b.Text) + int64(len(b.Meta.Fields))/3
	case *message.ToolCall:
		return callTokens + EstimateTokens(b.Name) + EstimateTokens(b.Args)
	case *message.ToolResult:
		return callTokens + EstimateTokens(b.Name) + estimateBlocks(b.Content)
	case *message.Image:
		return imageTokens
	case *message.File:
		if strings.HasPrefix(b.MIME, "text/") || b.MIME == "application/json" {
			return callTokens + EstimateTokens(b.Name) + EstimateTokens(b.Data)
		}
		// A page of a PDF takes up to 3,000 tokens and seldom less than 48 KB.
		return imageTokens + int64(len(b.Data))/16
	}
	return 0
}
