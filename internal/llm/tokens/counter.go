package tokens

import (
	"math"

	"steward/internal/message"
)

// Kind says how accurate a count is.
type Kind string

// The kinds of counts.
const (
	KindCalibrated Kind = "calibrated" // the estimate, corrected by what providers reported
	KindEstimated  Kind = "estimated"  // rather too high than too low
)

// Counter counts tokens for one model. It uses the estimate, corrected by the factor that was known
// when the Counter was made, so that counts stay consistent while messages are fitted to a window.
// The zero value only estimates. It is safe for concurrent use.
type Counter struct {
	factor float64 // applied to text; 0: nothing was learned
}

// Kind returns how accurate the counts are.
func (c Counter) Kind() Kind {
	if c.factor == 0 {
		return KindEstimated
	}
	return KindCalibrated
}

// Text returns the tokens of a text.
func (c Counter) Text(text string) int64 { return c.Parts(Of(text)) }

// Message returns the tokens of a message, including its framing on the wire.
func (c Counter) Message(m *message.Message) int64 { return c.Parts(OfMessage(m)) }

// Parts returns the tokens of an earlier estimate.
func (c Counter) Parts(p Parts) int64 {
	if c.factor == 0 {
		return p.Tokens()
	}
	return int64(math.Ceil((float64(p.text)*c.factor + float64(p.media)) / sixteenths))
}
