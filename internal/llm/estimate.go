package llm

import "steward/internal/llm/tokens"

// RequestParts returns the estimate of a request's input: system prompt,
// transcript, tools and schema. A tokens.Calibrator learns from it and
// what the provider then reports.
func RequestParts(r *Request) tokens.Parts {
	p := tokens.OfSystem(r.System).Add(r.Transcript.Parts()).Add(r.Tools.Parts())
	if r.Schema != nil {
		p = p.Add(tokens.OfSchema(r.Schema.JSON))
	}
	return p
}

// EstimateRequest returns about how many input tokens a request makes, on the
// safe side.
func EstimateRequest(r *Request) int64 { return RequestParts(r).Tokens() }
