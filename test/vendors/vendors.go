// Package vendors lists the vendors of models for tests.
package vendors

import (
	"steward/internal/llm"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/offline"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// All returns the vendors that tests of the formats of messages and of the settings know.
func All() llm.Vendors {
	return llm.Vendors{openai.Vendor(), anthropic.Vendor(), gemini.Vendor(), ollama.Vendor(), offline.Vendor()}
}
