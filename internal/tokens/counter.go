package tokens

import (
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind says how well a count is known.
type Kind string

// The kinds of counts.
const (
	KindExact      Kind = "exact"      // with the model's own vocabulary
	KindCalibrated Kind = "calibrated" // the estimate, corrected by what was reported
	KindEstimated  Kind = "estimated"  // on the safe side
)

// Counter counts tokens for one model: exactly where its vocabulary is to be
// had, else as far as it is calibrated, else by the estimate. It holds what is
// known when it is made, so that one fitting to a window counts alike from
// beginning to end. Cheap to make; safe for concurrent use; the zero value
// estimates.
type Counter struct {
	exact exact
	fit   *fit
}

// For returns a counter for a model that nothing was learned of.
func For(model string) Counter { return (*Calibrator)(nil).For(model) }

// For returns a counter for a model ("provider/model", or the bare name).
func (c *Calibrator) For(model string) Counter {
	return Counter{exact: newExact(vocabulary(model)), fit: c.fit(model)}
}

// Kind says how well the counts are known.
func (c Counter) Kind() Kind {
	switch {
	case c.exact.encoding != none:
		return KindExact
	case c.fit != nil && c.fit.n >= leastRequests:
		return KindCalibrated
	}
	return KindEstimated
}

// Text returns the tokens of a text.
func (c Counter) Text(text string) int64 {
	if c.Kind() == KindExact {
		return c.exact.text(text)
	}
	return c.Parts(Of(text))
}

// Message returns the tokens of a message, with what surrounds it on the wire.
// An exact count reads about 3 MB of text a second: take it near the limit
// only, and AtMost before.
func (c Counter) Message(m *message.Message) int64 {
	if c.Kind() == KindExact {
		return c.exact.message(m)
	}
	return c.Parts(OfMessage(m))
}

// Tools returns the tokens of the tools' descriptions.
func (c Counter) Tools(specs ...tool.Spec) int64 {
	if c.Kind() != KindExact {
		var p Parts
		for i := range specs {
			p = p.Add(OfTool(&specs[i]))
		}
		return c.Parts(p)
	}
	n := int64(0)
	for i := range specs {
		n += c.exact.tool(&specs[i])
	}
	if n > 0 {
		n += exactTools
	}
	return n
}

// AtMost returns more than or as many tokens as Message, at half a gigabyte of
// text a second. (Of an exact count that holds for text; a made-up run of rare
// characters can take more.)
func (c Counter) AtMost(m *message.Message) int64 { return c.Parts(OfMessage(m)) }

// Parts returns the tokens of parts, which were estimated before: calibrated or
// as they are, never exact. To fit a conversation into a window, rather add up
// the parts and ask Request: what pieces come to one by one is more, or, while
// little is known, a little less.
func (c Counter) Parts(p Parts) int64 {
	if c.exact.encoding == none && c.fit != nil {
		return c.fit.count(p, false)
	}
	return p.Tokens()
}

// Overhead returns the tokens that a request takes beyond its messages and tools.
func (c Counter) Overhead() int64 {
	switch {
	case c.Kind() == KindExact:
		return exactReply
	case c.fit != nil:
		return c.fit.overhead()
	}
	return 0
}

// Request returns the tokens of a whole request of the parts, on the safe
// side: estimated or calibrated, never exact. Calibrated it is less than what
// its pieces and the overhead add up to.
func (c Counter) Request(p Parts) int64 {
	if c.exact.encoding == none && c.fit != nil {
		return c.fit.count(p, true)
	}
	return p.Tokens() + c.Overhead()
}
