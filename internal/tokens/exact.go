package tokens

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"

	"steward/internal/message"
	"steward/internal/tool"
)

// encoding is one of OpenAI's vocabularies.
type encoding uint8

const (
	none encoding = iota
	cl100k
	o200k
)

// vocabulary returns OpenAI's encoding for a model, none for other models. A name
// may have a provider before it ("openai/gpt-4o") and ft: for a tuned model.
//
// Source: https://github.com/openai/tiktoken/blob/main/tiktoken/model.py; gpt-4.5
// and later have what gpt-4o has, gpt-oss has it with further special tokens.
func vocabulary(model string) encoding {
	name := strings.TrimPrefix(bare(model), "ft:")
	has := func(prefixes ...string) bool {
		for _, p := range prefixes {
			// A prefix ends where a part of the name does: o1 is not o10.
			if rest, ok := strings.CutPrefix(name, p); ok && (rest == "" || strings.ContainsRune("-:.", rune(rest[0]))) {
				return true
			}
		}
		return false
	}
	switch {
	case has("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "chatgpt-4o", "gpt-oss", "o1", "o3", "o4"):
		return o200k
	case has("gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada-002"):
		return cl100k
	}
	return none
}

// bare returns a model's own name, in lower case: what follows the last '/'.
func bare(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}

// Exact reports whether a model's vocabulary is to be had, so that text is
// counted as its provider counts it.
func Exact(model string) bool { return vocabulary(model) != none }

// What OpenAI puts around messages and tools, as
// https://developers.openai.com/cookbook/examples/how_to_count_tokens_with_tiktoken
// has it. Calls and results are not documented; they are put on the safe side.
const (
	exactMessage  = 4 // with the role
	exactCall     = 8
	exactReply    = 3 // of each request: the answer's beginning
	exactTool     = 7
	exactToolOld  = 10 // of the models before gpt-4o
	exactTools    = 12 // of each request that has some
	exactProps    = 3
	exactProp     = 3
	exactEnum     = -3
	exactEnumItem = 3
)

// exact counts with a vocabulary.
type exact struct {
	encoding encoding
	codec    func() *codec.Codec
}

// newExact returns what counts with a vocabulary, which is loaded at the first
// count: 15 ms and 4 MB of memory for cl100k_base, 35 ms and 7 MB for
// o200k_base, which the tokenizer keeps for the life of the process.
func newExact(e encoding) exact {
	switch e {
	case cl100k:
		return exact{e, sync.OnceValue(codec.NewCl100kBase)}
	case o200k:
		return exact{e, sync.OnceValue(codec.NewO200kBase)}
	}
	return exact{}
}

// text returns the tokens of a text. About 3 MB a second.
func (e exact) text(text string) int64 {
	n, err := e.codec().Count(text)
	if err != nil { // it gave up on the text; the estimate is on the safe side
		return Estimate(text)
	}
	return int64(n)
}

func (e exact) message(m *message.Message) int64 { return exactMessage + e.blocks(m.Blocks) }

func (e exact) blocks(blocks []message.Block) (n int64) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			n += e.text(b.Text)
		case *message.Reasoning:
			n += e.text(b.Text) + int64(len(b.Meta.Fields))/3
		case *message.Vendor:
			n += int64(len(b.Meta.Fields)) / 3
		case *message.ToolCall:
			n += exactCall + e.text(b.Name) + e.text(string(b.Args))
		case *message.ToolResult:
			n += exactCall + e.blocks(b.Content)
		case *message.File:
			if isText(b.MIME) {
				n += exactCall + e.text(b.Name) + e.text(string(b.Data))
			} else {
				n += ofFile(b).Tokens()
			}
		case *message.Image:
			n += imageTokens
		}
	}
	return n
}

// tool returns the tokens of a tool's description. Objects inside objects are
// not documented; each of their properties is taken as one of the tool's.
func (e exact) tool(s *tool.Spec) int64 {
	n := int64(exactTool)
	if e.encoding == cl100k {
		n = exactToolOld
	}
	n += e.text(tool.WireName(s.Name) + ":" + strings.TrimSuffix(s.Description, "."))
	var schema property
	if err := json.Unmarshal(s.Input, &schema); err != nil {
		return n + e.text(string(s.Input)) // shown as it is
	}
	return n + e.properties(&schema)
}

// property is what of a JSON Schema is shown to a model.
type property struct {
	Type        any                 `json:"type"`
	Description string              `json:"description"`
	Enum        []any               `json:"enum"`
	Properties  map[string]property `json:"properties"`
	Items       *property           `json:"items"`
	AnyOf       []property          `json:"anyOf"`
}

func (e exact) properties(p *property) (n int64) {
	if len(p.Properties) > 0 {
		n += exactProps
	}
	for name, q := range p.Properties {
		n += exactProp + e.text(name+":"+words(q.Type)+":"+strings.TrimSuffix(q.Description, "."))
		n += e.properties(&q)
	}
	if len(p.Enum) > 0 {
		n += exactEnum
	}
	for _, item := range p.Enum {
		n += exactEnumItem + e.text(words(item))
	}
	if p.Items != nil {
		n += e.properties(p.Items)
	}
	for i := range p.AnyOf {
		n += e.text(words(p.AnyOf[i].Type)) + e.properties(&p.AnyOf[i])
	}
	return n
}

// words returns a value of a schema as it is shown: text without quotes.
func words(v any) string {
	if s, ok := v.(string); ok || v == nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil { // it was read from JSON
		panic("tokens: " + err.Error())
	}
	return string(b)
}
