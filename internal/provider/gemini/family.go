package gemini

import (
	"strconv"
	"strings"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// family holds the capabilities of a model by its name, because Google's API has no field for them.
//
// Sources: https://ai.google.dev/gemini-api/docs/thinking,
// https://ai.google.dev/gemini-api/docs/thought-signatures.
type family struct {
	name  string
	major int  // 0 for models other than Gemini
	minor int  // of 2.5 the 5
	lite  bool // flash-lite
	flash bool
}

// familyOf reads a model's name. A Gemini without a number (gemini-flash-latest) counts as a current one.
func familyOf(model string) family {
	name := strings.TrimPrefix(model, "models/")
	f := family{name: name, lite: strings.Contains(name, "flash-lite"), flash: strings.Contains(name, "flash")}
	rest, ok := strings.CutPrefix(name, "gemini-")
	if !ok {
		return f
	}
	number, _, _ := strings.Cut(rest, "-")
	major, minor, _ := strings.Cut(number, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		f.major = 3
		return f
	}
	f.major = n
	f.minor, _ = strconv.Atoi(minor) // no minor, no number: 0
	return f
}

// signed reports whether the model refuses a step whose first call has no thought signature, as Gemini 3
// and later do.
func (f family) signed() bool { return f.major >= 3 }

// thinks reports whether the model accepts a thinkingConfig. Image models of 2.5 and speech models do not.
func (f family) thinks() bool {
	if strings.Contains(f.name, "-tts") {
		return false
	}
	return f.signed() || f.major == 2 && f.minor >= 5 && !strings.Contains(f.name, "-image")
}

// schemaWithTools reports whether the model supports structured output together with tools.
func (f family) schemaWithTools() bool { return f.signed() }

// thinking returns the thinkingConfig for an effort, or nil, and a notice if the effort is not supported.
func (f family) thinking(effort llm.Effort) (config []byte, notice string) {
	if !f.thinks() {
		if effort == "" || effort == llm.EffortNone {
			return nil, ""
		}
		return nil, f.name + " does not think: the reasoning effort is not sent."
	}
	m := wire.Members(`"includeThoughts":true`)
	if f.signed() {
		var level string
		if level, notice = f.level(effort); level != "" {
			m.String("thinkingLevel", level)
		}
	} else if effort != "" {
		var budget int
		budget, notice = f.budget(effort)
		m.Int("thinkingBudget", int64(budget))
	}
	return append(append([]byte{'{'}, m...), '}'), notice
}

// level returns the thinkingLevel for Gemini 3 and later, which always think. Only the lightest models
// accept MINIMAL, and only the first 3 Pro lacks MEDIUM.
func (f family) level(effort llm.Effort) (level, notice string) {
	switch effort {
	case llm.EffortNone:
		if f.lite || strings.HasPrefix(f.name, "gemini-3-flash") {
			return "MINIMAL", ""
		}
		return "LOW", f.name + " cannot stop thinking: the reasoning effort is low instead."
	case llm.EffortLow:
		return "LOW", ""
	case llm.EffortMedium:
		if strings.HasPrefix(f.name, "gemini-3-pro") {
			return "HIGH", f.name + " knows no medium reasoning effort: it is high instead."
		}
		return "MEDIUM", ""
	case llm.EffortHigh:
		return "HIGH", ""
	}
	return "", ""
}

// budget returns the thinkingBudget for Gemini 2.5, in tokens. The values are those of Google's
// OpenAI-compatible API. 2.5 Pro thinks for at least 128 tokens.
func (f family) budget(effort llm.Effort) (tokens int, notice string) {
	switch effort {
	case llm.EffortNone:
		if !f.flash {
			return 128, f.name + " cannot stop thinking: it gets the least budget instead."
		}
		return 0, ""
	case llm.EffortLow:
		return 1024, ""
	case llm.EffortMedium:
		return 8192, ""
	}
	return 24576, ""
}
