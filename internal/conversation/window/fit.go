package window

import "steward/internal/message"

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
	Tokens     int64 // of what is shown then, with SummaryTokens for a summary that is to be made (or with the notice in its place, if that takes more)
	Fits       bool  // Tokens is not above Window
}

// Fit decides how much of a branch is shown so that it fits. The items are
// those of the present view (what is pinned before its start, and all from
// there on), with all changes that are recorded: where these alone bring the
// view down to the target, nothing else is done. Then oversized results are
// clipped; then the start moves forward, to where a person's message begins a
// turn if that keeps half the target or more, else to a group's beginning.
// Where even the least that must stay is too much, results are clipped further.
//
// A call is never parted from its results. Pinned messages stay, and so do
// system messages at the beginning, open calls, what the model has not
// answered, the newest message of a person, and the one that opened the
// running turn. count returns the tokens of a message as it is shown. The same
// arguments give the same plan.
func Fit(items []Item, b Budget, count func(*message.Message) int64) Plan {
	if b.Target <= 0 || b.Target > b.Window {
		b.Target = b.Window / 10 * 7
	}
	f := newFitter(items, b, count)
	gentle, harsh := ladder(b.Clip, b.Target)
	for _, c := range gentle {
		if f.total(f.start, c) <= b.Target {
			return f.plan(f.start, c)
		}
	}
	steps := append(gentle[len(gentle)-1:], harsh...)
	for _, c := range steps {
		if f.total(f.most, c) <= b.Target {
			return f.plan(f.choose(c), c)
		}
	}
	for _, c := range steps {
		if f.total(f.most, c) <= b.Window {
			return f.plan(f.most, c)
		}
	}
	return f.plan(f.most, steps[len(steps)-1])
}

// ladder returns the clips that are tried, the present one first: gentle ones,
// down to about a sixteenth of the target for one result, and harsher ones for
// when nothing else helps.
func ladder(present int, target int64) (gentle, harsh []int) {
	const most = 1 << 16
	floor := most // the highest power of two that is not above target/4 bytes
	for floor > MinClip && int64(floor) > target/4 {
		floor /= 2
	}
	gentle = []int{present}
	for c := most; c >= MinClip; c /= 2 {
		switch {
		case present > 0 && c >= present:
		case c >= floor:
			gentle = append(gentle, c)
		default:
			harsh = append(harsh, c)
		}
	}
	return gentle, harsh
}

// plan returns the plan that starts at an item and clips so, if that is of use.
func (f *fitter) plan(start, clip int) Plan {
	if f.total(start, clip) == f.total(start, f.b.Clip) {
		clip = f.b.Clip
	}
	p := Plan{Start: f.b.Start, Clip: clip, Tokens: f.total(start, clip)}
	p.Fits = p.Tokens <= f.b.Window
	if start != f.start {
		p.StartIndex, p.Start, p.Summarize = start, f.items[start].Pos, Span{f.start, start}
	}
	for i := range start {
		if f.needed[i] {
			p.Pins = append(p.Pins, i)
		}
	}
	return p
}
