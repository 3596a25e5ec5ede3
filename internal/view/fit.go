package view

import (
	"steward/internal/message"
)

// Budget is what the messages of a branch must fit into, in tokens, and how
// the branch is shown until now.
type Budget struct {
	Window        int64 // for messages
	Target        int64 // fit down to this, so that it does not happen again at once; 0: 0.7 * Window
	SummaryTokens int64 // set aside for the summary of what falls out of view; 0: none is made

	Start   int64            // the position at which the view starts now; 0: at the first item
	Clip    int              // Options.Clip now: it does not grow again; 0: none
	Summary *message.Message // Options.Summary now: it stays unless Start moves
	Cut     bool             // Options.Cut now
}

// Span are the items from From up to, not including, To.
type Span struct{ From, To int }

// Plan is a new view of a branch.
type Plan struct {
	StartIndex int   // the first item that is shown; 0 where the start stays where it is
	Start      int64 // its position; Budget.Start where the start stays where it is
	Clip       int   // Options.Clip
	Pins       []int // items before StartIndex that must be pinned, whether they are or not
	Summarize  Span  // what falls out of view, pinned ones included; empty where the start stays
	Tokens     int64 // of what is shown then, with SummaryTokens for a summary that is to be made
	Fits       bool  // Tokens is not above Window
}

func Fit(items []Item, b Budget, count func(*message.Message) int64) Plan { return Plan{} }
