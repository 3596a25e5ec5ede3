package llm

import (
	"strings"
	"unicode/utf8"

	"steward/internal/message"
)

// Tokens cannot be counted without a model's own vocabulary, so they are
// estimated, on the safe side: for prose in the world's larger scripts, code,
// JSON and numbers the estimate is not below what OpenAI's vocabularies
// cl100k_base and o200k_base make of it, and not above twice the former (the
// measured samples stand in the tests). Newer vocabularies need far fewer
// tokens for many scripts, so there the estimate is high. Random letters can
// take up to two thirds more tokens than estimated.

// What characters weigh, in sixteenths of a token.
const (
	weightStart   = 9 // where a word or number begins, or a capital or digit inside a word
	weightSpace   = 1
	weightLetter  = 5 // a–z
	weightCapital = 8
	weightDigit   = 10 // some vocabularies have single digits only
	weightSign    = 14 // punctuation
	weightLine    = 8  // line breaks and tabs
	weightAccent  = 22 // Latin with accents, phonetic letters
	weightAlpha   = 11 // Cyrillic, Armenian
	weightAbjad   = 20 // Greek, Hebrew, Arabic
	weightIndic   = 24 // scripts of South and Southeast Asia
	weightCJK     = 24 // Chinese, Japanese, Korean
	weightOther   = 48 // Georgian, Ethiopic, emoji, mathematics, rare scripts
)

// Tokens of what is not text.
const (
	imageTokens   = 1600 // providers scale a picture down to about this
	messageTokens = 8    // what surrounds each message on the wire
	callTokens    = 16   // what surrounds a call, a result, a tool
)

// EstimateTokens returns about how many tokens a text makes, on the safe side.
func EstimateTokens[T string | []byte](text T) int64 {
	weight, last := int64(0), uint8(0)
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			w := ascii[c]
			if w.class != last && w.class != between && (w.class != lower || last != upper) {
				weight += weightStart
			}
			weight += int64(w.weight)
			last = w.class
			i++
			continue
		}
		r, n := decodeRune(text[i:])
		weight += runeWeight(r)
		last = lower
		i += n
	}
	return (weight + 15) / 16
}

func decodeRune[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

// Classes of ASCII characters. Where the class changes, a token ends.
const (
	between uint8 = iota // space, signs
	lower
	upper
	digit
)

type asciiClass struct{ weight, class uint8 }

var ascii = func() (table [utf8.RuneSelf]asciiClass) {
	for c := range table {
		switch {
		case c == ' ':
			table[c] = asciiClass{weightSpace, between}
		case 'a' <= c && c <= 'z':
			table[c] = asciiClass{weightLetter, lower}
		case 'A' <= c && c <= 'Z':
			table[c] = asciiClass{weightCapital, upper}
		case '0' <= c && c <= '9':
			table[c] = asciiClass{weightDigit, digit}
		case c < ' ':
			table[c] = asciiClass{weightLine, between}
		default:
			table[c] = asciiClass{weightSign, between}
		}
	}
	return table
}()

func runeWeight(r rune) int64 {
	switch {
	case r < 0x0370:
		return weightAccent
	case r < 0x0400:
		return weightAbjad // Greek
	case r < 0x0590:
		return weightAlpha
	case r < 0x0900:
		return weightAbjad
	case r < 0x10A0 || 0x1780 <= r && r < 0x1800: // up to Myanmar; Khmer
		return weightIndic
	case 0x1E00 <= r && r < 0x2070: // Vietnamese and polytonic Greek letters, typographic signs
		return weightIndic
	case 0x1100 <= r && r < 0x1200, 0x2E80 <= r && r < 0xE000, 0xF900 <= r && r < 0xFB00, 0xFE30 <= r && r < 0xFFF0:
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
