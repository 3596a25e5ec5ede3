package tokens

import (
	"math"

	"steward/internal/message"
	"steward/internal/tool"
)

// Kind says how well a count is known.
type Kind string

// The kinds of counts.
const (
	KindCalibrated Kind = "calibrated" // the estimate, corrected by what was reported
	KindEstimated  Kind = "estimated"  // on the safe side
)

// Counter counts tokens for one model: the estimate, corrected by the factor
// that was known when it was made, so that one fitting to a window counts alike
// from beginning to end. The zero value estimates. Safe for concurrent use.
type Counter struct {
	factor float64 // of what is text; 0: nothing was learned
}

// Kind says how well the counts are known.
func (c Counter) Kind() Kind {
	if c.factor == 0 {
		return KindEstimated
	}
	return KindCalibrated
}

// Text returns the tokens of a text.
func (c Counter) Text(text string) int64 { return c.Parts(Of(text)) }

// Message returns the tokens of a message, with what surrounds it on the wire.
func (c Counter) Message(m *message.Message) int64 { return c.Parts(OfMessage(m)) }

// Tools returns the tokens of the tools' descriptions.
func (c Counter) Tools(specs ...tool.Spec) int64 {
	var p Parts
	for i := range specs {
		p = p.Add(OfTool(&specs[i]))
	}
	return c.Parts(p)
}

// Parts returns the tokens of what was estimated before.
func (c Counter) Parts(p Parts) int64 {
	if c.factor == 0 {
		return p.Tokens()
	}
	return int64(math.Ceil((float64(p.text)*c.factor + float64(p.media)) / sixteenths))
}
