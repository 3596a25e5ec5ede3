package offline

import "steward/internal/llm"

// Vendor describes the offline provider.
func Vendor() llm.Vendor {
	return llm.Vendor{
		Name: ProviderName, Title: "the offline provider", Access: llm.BuiltIn,
		Presets: llm.Presets{Standard: ModelName, Embed: EmbedderName},
		Prices:  map[string]llm.Price{"*": {}},
		Open:    func(llm.Endpoint) llm.Provider { return New(Options{}) },
	}
}
