package llm

import "steward/internal/llm/tokens"

// RequestParts returns the token estimate of a request's input: system prompt, transcript, tools
// and schema. A tokens.Calibrator learns by comparing it with what the provider reports.
func RequestParts(r *Request) tokens.Parts {
	p := tokens.OfSystem(r.System).Add(r.Transcript.Parts()).Add(r.Tools.Parts())
	if r.Schema != nil {
		p = p.Add(tokens.OfSchema(r.Schema.JSON))
	}
	return p
}

// EstimateRequest returns an estimate of a request's input tokens that is rather too high than too
// low.
func EstimateRequest(r *Request) int64 { return RequestParts(r).Tokens() }
