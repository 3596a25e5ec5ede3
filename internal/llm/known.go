package llm

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
)

//go:embed known.json
var knownFile []byte // read only

// Known is what is known of models without asking their servers: known.json, or a newer file of the
// same form. Prices are by "provider/model", see Price. Families are by the beginning of a model's
// own name; the longest one that matches a name counts.
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

// Limits of a file of known models.
const (
	maxName   = 200 // bytes of a name
	maxWindow = 100_000_000
	maxPrice  = 100_000
)

// DefaultKnown returns what is built in. The caller may modify it.
func DefaultKnown() Known {
	k, err := ReadKnown(knownFile)
	if err != nil {
		panic("llm: known.json is broken: " + err.Error())
	}
	return k
}

// ReadKnown reads a file of known models strictly. Error code: known_models_invalid.
func ReadKnown(b []byte) (Known, error) {
	var k Known
	err := json.Unmarshal(b, &k, json.RejectUnknownMembers(true))
	if err == nil {
		err = k.check()
	}
	if err != nil {
		return Known{}, fault.New(fault.Invalid, "known_models_invalid", "not a file of known models: %w", err).
			WithHint("its form is that of internal/llm/known.json; docs/guides/models.md describes it")
	}
	return k, nil
}

func (k Known) check() error {
	if _, err := time.Parse(time.DateOnly, k.AsOf); err != nil {
		return fmt.Errorf("as_of: %w", err)
	}
	if len(k.Sources) == 0 || len(k.Prices)+len(k.Families) == 0 {
		return fmt.Errorf("it names no source or no model")
	}
	named := func(s string) bool {
		return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	}
	for name, p := range k.Prices {
		sound := named(name) && strings.Contains(name, "/") && p.LongFrom >= 0
		for _, n := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite, p.Search, p.Long.Input, p.Long.Output, p.Long.CacheRead, p.Long.CacheWrite} {
			sound = sound && n >= 0 && n <= maxPrice && !math.IsNaN(n)
		}
		if !sound {
			return fmt.Errorf("prices: %.100q must be provider/model with prices from 0 to %d", name, maxPrice)
		}
	}
	abilities := []Ability{CanTools, CanImages, CanSchema, CanPDF, CanAudio, CanReason}
	for name, f := range k.Families {
		unknown := slices.ContainsFunc(f.Can, func(a Ability) bool { return !slices.Contains(abilities, a) })
		if !named(name) || name != bare(name) || f.Window < 0 || f.Window > maxWindow || unknown {
			return fmt.Errorf("families: %.100q has no valid name, window or ability", name)
		}
	}
	return nil
}

// With returns k with the entries of another file. Of two entries, that of the newer file counts.
func (k Known) With(other Known) Known {
	older, newer := k, other
	if other.AsOf < k.AsOf {
		older, newer = other, k
	}
	out := Known{AsOf: newer.AsOf, Sources: newer.Sources, Prices: maps.Clone(older.Prices), Families: maps.Clone(older.Families)}
	maps.Copy(out.Prices, newer.Prices)
	maps.Copy(out.Families, newer.Families)
	return out
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

// Changes returns one line for each entry of next that k lacks or has otherwise, sorted.
func (k Known) Changes(next Known) []string {
	lines := append(changes("price", k.Prices, next.Prices), changes("family", k.Families, next.Families)...)
	slices.Sort(lines)
	return lines
}

func changes[V any](kind string, before, after map[string]V) (lines []string) {
	for name, v := range after {
		now, err := json.Marshal(v)
		if old, had := before[name]; had && err == nil {
			was, _ := json.Marshal(old) // an entry that the file had can be written
			if string(was) != string(now) {
				lines = append(lines, fmt.Sprintf("%s of %s: %s, was %s", kind, name, now, was))
			}
			continue
		}
		lines = append(lines, fmt.Sprintf("%s of %s: %s, new", kind, name, now))
	}
	return lines
}
