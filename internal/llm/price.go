package llm

import (
	"cmp"
	"regexp"
	"strings"

	"steward/internal/message"
)

// Rates are token prices in USD per million tokens.
type Rates struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read,omitzero"`  // zero: the same as Input
	CacheWrite float64 `json:"cache_write,omitzero"` // zero: the same as Input
}

// Price is the price of a model. It is looked up under "provider/model", also for a dated version
// of the model ("-2026-01-31", "-20260131"), and then under "provider/*", which matches every model
// of a provider.
type Price struct {
	Rates
	Search   float64 `json:"search,omitzero"`    // USD of one search of the web by the provider
	LongFrom int64   `json:"long_from,omitzero"` // calls with more input tokens are priced by Long, unless zero
	Long     Rates   `json:"long,omitzero"`
}

// Free reports whether the model costs nothing.
func (p Price) Free() bool { return p.Rates == (Rates{}) && p.Long == (Rates{}) }

// Cost returns the cost of a call in USD.
func (p Price) Cost(u message.Usage) float64 {
	r := p.rates(u.Input)
	plain := max(u.Input-u.CacheRead-u.CacheWrite, 0)
	return (float64(plain)*r.Input+float64(u.Output)*r.Output+
		float64(u.CacheRead)*cmp.Or(r.CacheRead, r.Input)+float64(u.CacheWrite)*cmp.Or(r.CacheWrite, r.Input))/1e6 + float64(u.Searches)*p.Search
}

// most returns the highest possible cost of a call with these token counts: it assumes that nothing
// is read from a prompt cache, and that writing to one may cost more than plain input.
func (p Price) most(input, output int64) float64 {
	r := p.rates(input)
	return (float64(input)*max(r.Input, r.CacheWrite) + float64(output)*r.Output) / 1e6
}

func (p Price) rates(input int64) Rates {
	if p.LongFrom > 0 && input > p.LongFrom {
		return p.Long
	}
	return p.Rates
}

var dated = regexp.MustCompile(`-(20\d\d-\d\d-\d\d|20\d{6})$`)

// priceOf looks up the price of a "provider/model".
func priceOf(prices map[string]Price, name string) (Price, bool) {
	if p, ok := prices[name]; ok {
		return p, true
	}
	if at := dated.FindStringIndex(name); at != nil {
		if p, ok := prices[name[:at[0]]]; ok {
			return p, true
		}
	}
	provider, _, _ := strings.Cut(name, "/")
	p, ok := prices[provider+"/*"]
	return p, ok
}
