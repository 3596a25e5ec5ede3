package app

import (
	"iter"
	"strings"
	"sync"

	"steward/internal/llm"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/offline"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// Vendors is the table of the providers of models, the preferred one first: a provider is a folder with a
// Vendor, and a line here. Servers with a name of one's own speak the first one's API.
var Vendors = sync.OnceValue(func() llm.Vendors {
	return llm.Vendors{
		openai.Vendor(),
		anthropic.Vendor(),
		gemini.Vendor(),
		ollama.Vendor(),
		offline.Vendor(),
	}
})

// AnyOf returns what some vendors have, as a list in a sentence: "a, b or c".
func AnyOf(all iter.Seq[llm.Vendor], of func(v llm.Vendor) string) string {
	var have []string
	for v := range all {
		if s := of(v); s != "" {
			have = append(have, s)
		}
	}
	if len(have) < 2 {
		return strings.Join(have, "")
	}
	return strings.Join(have[:len(have)-1], ", ") + " or " + have[len(have)-1]
}

// IsBuiltIn reports whether a provider is always there.
func IsBuiltIn(provider string) bool {
	v, _ := Vendors().Named(provider)
	return v.Access == llm.BuiltIn
}

// KeyEnv returns the variable that people set to a vendor's key; empty: there is none.
func KeyEnv(v llm.Vendor) string {
	if len(v.KeyEnv) == 0 {
		return ""
	}
	return v.KeyEnv[len(v.KeyEnv)-1]
}

// Starter returns the vendor whose models people are advised to run themselves.
func Starter() llm.Vendor {
	for _, v := range Vendors() {
		if v.Starter != nil {
			return v
		}
	}
	panic("no vendor says how to get a local model") // a test looks at the table
}
