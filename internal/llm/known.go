package llm

import (
	_ "embed"
	"strings"

	"github.com/go-json-experiment/json"
)

//go:embed known.json
var knownFile []byte // read only

// Known is what is known of models without asking their servers: known.json. Prices are by
// "provider/model", see Price. Families are by the beginning of a model's own name; the longest one
// that matches a name counts.
type Known struct {
	AsOf     string            `json:"as_of"` // the day on which it was right, YYYY-MM-DD
	Sources  []string          `json:"sources"`
	Prices   map[string]Price  `json:"prices"`
	Families map[string]Family `json:"families"`
}

// Family describes models whose names begin alike.
type Family struct {
	Window int       `json:"window"`        // the maximum input in tokens; 0: unknown
	Can    []Ability `json:"can,omitempty"` // nil: unknown; abilities that it lacks are known to be missing
}

// Ability is something that not every model can do.
type Ability string

// The abilities. Steward adapts its requests to models that lack one of the first three.
const (
	CanTools  Ability = "tools"
	CanImages Ability = "images"
	CanSchema Ability = "schema" // structured output
	CanPDF    Ability = "pdf"
	CanAudio  Ability = "audio"
	CanReason Ability = "reasoning"
)

// DefaultKnown returns what is built in. The caller may modify it.
func DefaultKnown() Known {
	var k Known
	if err := json.Unmarshal(knownFile, &k, json.RejectUnknownMembers(true)); err != nil {
		panic("llm: known.json is broken: " + err.Error())
	}
	return k
}

// family returns the family of a model ("openai/gpt-4o", "claude-sonnet-4-5",
// "anthropic.claude-opus-4-6-v1", "qwen3:8b"). What the provider itself reports (Info.Window) is
// more reliable: names can be wrong, and a server may give a model less than it supports. Ollama
// does so: if neither the settings nor the Modelfile set num_ctx, the server's own value applies,
// by default 4,096 tokens with less than 24 GiB of video memory
// (https://docs.ollama.com/context-length).
func (k Known) family(model string) Family {
	name := bare(model)
	if i := strings.Index(name, "claude"); i >= 0 { // Bedrock puts words before it, others write 4.6
		name = strings.ReplaceAll(name[i:], ".", "-")
	}
	name = strings.TrimPrefix(name, "ft:")
	for end := len(name); end > 0; end-- {
		f, ok := k.Families[name[:end]]
		if ok && (name[end-1] == '.' || whole(name[end:])) {
			return f
		}
	}
	return Family{}
}

// whole reports whether a prefix ends at the end of a part of the name. rest is what follows the
// prefix: llama3 does not match llama3.1, nor phi3 phi35.
func whole(rest string) bool {
	return rest == "" || strings.ContainsRune("-:@_", rune(rest[0])) || rest[0] == '.' && !newer(rest)
}

// newer reports whether the rest continues a version number, as .1 does.
func newer(rest string) bool { return len(rest) > 1 && '0' <= rest[1] && rest[1] <= '9' }

// bare returns a model's own name in lower case: the part after the last '/'.
func bare(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}
