// Package providertest holds what every provider must show alike: one table of
// behaviours (Suite), strict checkers of the vendors' published rules for
// requests, and conversations that began elsewhere.
package providertest

import (
	"net/http"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
)

// Vendor is a provider under test. Its answers stand in Dir, one raw HTTP
// exchange per scenario (SCENARIO.http): status line, headers, an empty line,
// body, without any framing of the body. The header X-Source names where it
// comes from: an address, or "handmade" with the page that it follows.
type Vendor struct {
	Name  string // the provider's
	Model string // the vendor's name of the model that is asked
	Dir   string // usually "testdata"
	New   func(Options) llm.Provider

	// Check is the strict checker of the vendor's rules for a request's body;
	// it gets every request that any test sends.
	Check func(body []byte) error

	// Usage is what the script of the scenario Usage reports.
	Usage message.Usage

	// Echo are strings that the script of a scenario says and that the next
	// request must say again, byte for byte: ids and signatures.
	Echo map[Scenario][]string

	// Meta returns the metadata that the vendor's own streams give such a
	// block, a JSON object, or "" for none; nil stands for the message itself.
	Meta func(b message.Block) string

	// Mask takes from a message what the wire form does not carry, by the
	// provider's table. Metadata of other providers and members that are not
	// known are gone already.
	Mask func(m *message.Message)

	// Joint is what stands on the wire between two turns of the user's that the
	// vendor takes for one, as after an answer that said nothing; empty for a
	// vendor that knows no turns.
	Joint string

	// Known returns the members of metadata that the vendor's rules allow in
	// such a block of a request; nil stands for the message itself. Check is not
	// asked about histories with others.
	Known func(b message.Block) []string

	// Lacks are scenarios that the vendor's API has no form for, with the
	// reason. A scenario that is neither here nor in Dir fails.
	Lacks map[Scenario]string
}

// Options are what the suite sets when it makes a provider. It gives a key
// that must never be seen in an error.
type Options struct {
	BaseURL   string
	Key       string
	HTTP      *http.Client // nil: the provider's own
	FirstByte time.Duration
	Idle      time.Duration
}

// Scenario names one behaviour and its script.
type Scenario string

// The scenarios of good streams. The comment is what the script must say; the
// constants and variables in want.go are the exact words.
const (
	Plain        Scenario = "text"          // WantText, stop: end
	Unicode      Scenario = "unicode"       // WantUnicode in several pieces
	Reasoning    Scenario = "reasoning"     // WantReasoning, then WantText
	OneCall      Scenario = "call"          // WantCalls[0]
	Parallel     Scenario = "parallel"      // WantCalls, all three
	TextCall     Scenario = "text_call"     // WantText, then WantCalls[0]
	BadArgs      Scenario = "bad_args"      // a call with the arguments WantBadArgs
	NoArgs       Scenario = "no_args"       // a call of time.now without any arguments ("" or {})
	Structured   Scenario = "structured"    // WantJSON as text, asked for by schema
	UsageReport  Scenario = "usage"         // WantText; Vendor.Usage
	Length       Scenario = "length"        // WantText, stop: length
	StopSequence Scenario = "stop_sequence" // WantText, stop: sequence
	Refused      Scenario = "refused"       // anything, stop: refused
	Empty        Scenario = "empty"         // nothing at all, stop: end
	ModelList    Scenario = "models"        // no stream: the list of models
)

// The scenarios of failures. All but MidStream are answers with a status. The
// suite puts its key in the place of {{KEY}}, to see that it is not shown.
const (
	Unauthorized Scenario = "err_auth"       // 401 → auth_failed
	NoModel      Scenario = "err_model"      // 404 → model_not_found
	RateLimit    Scenario = "err_rate"       // 429 with Retry-After: 7 → rate_limited
	ServerError  Scenario = "err_server"     // 500 → provider_error
	Overloaded   Scenario = "err_overloaded" // 529 or 503 → overloaded
	TooLong      Scenario = "err_context"    // context_too_long
	BadRequest   Scenario = "err_refused"    // 400 → request_refused
	MidStream    Scenario = "err_midstream"  // some text, then an error → Unavailable, no Done
)
