package window

import "steward/internal/message"

// Budget is the budget for a branch's messages in tokens, and how the branch is
// shown so far.
type Budget struct {
	Window        int64 // for messages
	Target        int64 // size after fitting, below Window so that the view has room to grow; 0: 0.7 * Window
	SummaryTokens int64 // reserved for a summary of the messages that leave the view; 0: no summary is made

	Start   int64            // the position at which the view starts now; 0: at the first item
	Clip    int              // the present Options.Clip, which only ever shrinks; 0: none
	Summary *message.Message // the present Options.Summary, which stays unless Start moves
	Cut     bool             // the present Options.Cut
}

// Span is the range of items from From up to, but not including, To.
type Span struct{ From, To int }

// Plan is a new view of a branch.
type Plan struct {
	StartIndex int   // the first item shown; 0 if the start does not move
	Start      int64 // its position; Budget.Start if the start does not move
	Clip       int   // Options.Clip
	Pins       []int // items before StartIndex that must be pinned, including those that already are
	Summarize  Span  // the items that leave the view, including pinned ones; empty if the start does not move
	Tokens     int64 // of the new view, including SummaryTokens for a new summary (or the notice in its place, if that takes more)
	Fits       bool  // Tokens is at most Window
}

// Fit decides how much of a branch is shown, so that the view fits the budget. The
// items are those of the present view (pinned items before its start, and all
// items from the start on) with all recorded changes. If the view is already
// within the target, Fit changes nothing. Otherwise it first clips oversized
// results. Then it moves the start forward: to a person's message if at least
// half the target remains, otherwise to the beginning of a group. If even the
// minimum that must stay exceeds the target, Fit clips results further.
//
// A call is never separated from its results. These always stay: pinned messages,
// system messages at the beginning, open calls, a person's newest message, and the
// message that opened the running turn. Messages that the model has not answered yet
// stay too, unless the view could not fit with those before a person's newest message. count returns the tokens of a message as it is shown. Fit is
// deterministic.
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
	// What the model has not answered leaves only when nothing else helps, and a person has written since.
	for _, c := range steps {
		if f.last > f.most && f.total(f.last, c) <= b.Window {
			return f.plan(f.last, c)
		}
	}
	return f.plan(f.most, steps[len(steps)-1])
}

// ladder returns the clip sizes to try, largest first. gentle begins with the
// present size and goes down to about a sixteenth of the target per result; harsh
// continues below it, for when nothing else helps.
func ladder(present int, target int64) (gentle, harsh []int) {
	const most = 1 << 16
	floor := most // the highest power of two that is at most target/4 bytes
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

// plan returns the plan for a start and a clip size. It keeps the present clip size
// if the new one saves nothing.
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
