package tokens

import (
	"encoding/json"
	"math"
	"sync"

	"steward/internal/fault"
)

// Calibrator learns, from the token counts that providers report, the factor by which the estimate of a
// model's requests is corrected. The zero value is ready to use. It is safe for concurrent use.
//
// The factor is the ratio of reported to estimated tokens over about the last twenty requests of a model,
// weighted by size, plus a margin of two standard deviations. It includes constant overhead, such as a
// prompt of the provider's own, and the tokens of pictures, so it is rather too high. It is the same for
// all languages, because the estimate already accounts for the script.
type Calibrator struct {
	mu     sync.Mutex
	models map[string]learned
}

const (
	minFactor   = 0.25
	maxFactor   = 4
	minTokens   = 32   // smaller requests are ignored
	maxMedia    = 0.25 // requests with a larger share of pictures are ignored
	minReported = 0.2  // a smaller share of the estimate cannot be a count of all tokens
	maxHidden   = 64_000
	minRequests = 5    // before a model counts as calibrated
	memory      = 0.95 // the weight of earlier requests

	// The margin, as a share of the expected value.
	minMargin = 0.05
	maxMargin = 0.25

	maxModels = 512 // names come from outside, so the number is bounded
)

// learned holds sums over the requests of one model.
type learned struct {
	Requests  int     `json:"requests"`
	Estimated float64 `json:"estimated"` // tokens of text
	Reported  float64 `json:"reported"`
	Squares   float64 `json:"squares"` // of reported/estimated, weighed by estimated
}

// Learn records the input tokens, including cached ones (message.Usage.Input), that a model's provider
// reported for a request of the given parts. Implausible counts are ignored.
func (c *Calibrator) Learn(model string, parts Parts, reportedInput int64) {
	size, reported := float64(parts.Tokens()), float64(reportedInput)
	text := float64(parts.text) / sixteenths
	if size < minTokens || size-text > maxMedia*size || reported < minReported*size || reported > maxFactor*size+maxHidden {
		return
	}
	ratio := min(reported/text, maxFactor)
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.models[model]
	if !ok && (c.models == nil || len(c.models) >= maxModels) {
		c.models = map[string]learned{}
	}
	c.models[model] = learned{l.Requests + 1, memory*l.Estimated + text, memory*l.Reported + text*ratio, memory*l.Squares + text*ratio*ratio}
}

// factor returns the correction of the estimate, or 0 if too little is known.
func (l learned) factor() float64 {
	if l.Requests < minRequests {
		return 0
	}
	mean := l.Reported / l.Estimated
	spread := math.Sqrt(max(0, l.Squares/l.Estimated-mean*mean)) / mean
	return min(max(mean*(1+min(max(2*spread, minMargin), maxMargin)), minFactor), maxFactor)
}

// For returns a counter for a model ("provider/model").
func (c *Calibrator) For(model string) Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counter{c.models[model].factor()}
}

// state is the saved form of a Calibrator.
type state struct {
	Models map[string]learned `json:"models"`
}

// Save returns what was learned as JSON, for Load.
func (c *Calibrator) Save() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := json.Marshal(state{Models: c.models})
	if err != nil { // NaN is never learned
		panic("tokens: " + err.Error())
	}
	return b
}

// Load replaces what was learned by what Save returned. If something is wrong (calibration_invalid),
// nothing changes.
func (c *Calibrator) Load(saved []byte) error {
	in, err := readState(saved)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models = in.Models
	return nil
}

// Join adds what another Calibrator has saved. Of each model, what was learned from more requests counts.
func (c *Calibrator) Join(saved []byte) error {
	in, err := readState(saved)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, theirs := range in.Models {
		if own, ok := c.models[name]; ok && own.Requests < theirs.Requests || !ok && len(c.models) < maxModels {
			if c.models == nil {
				c.models = in.Models
				return nil
			}
			c.models[name] = theirs
		}
	}
	return nil
}

// readState reads what Save has returned.
func readState(saved []byte) (in state, err error) {
	if err := json.Unmarshal(saved, &in); err != nil {
		return in, invalid("the calibration of token counts cannot be read: %w", err)
	}
	for name, l := range in.Models {
		if f := l.factor(); l.Requests < 1 || !(l.Estimated > 0) || !(l.Reported > 0) || f != f || l.Estimated > math.MaxInt64 {
			return in, invalid("the calibration of token counts for %.80q is damaged", name)
		}
	}
	if len(in.Models) > maxModels {
		return in, invalid("the calibration of token counts has %d models, more than %d", len(in.Models), maxModels)
	}
	return in, nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "calibration_invalid", format, args...).
		WithHint("delete it: it is rebuilt from the usage that providers report")
}
