package window

import (
	"slices"
	"sort"
	"strings"

	"steward/internal/message"
	"steward/internal/record"
)

// fitter computes the tokens of the items for each start and clip size.
type fitter struct {
	items []Item
	b     Budget
	count func(*message.Message) int64
	a     *arrangement

	start  int    // where the view starts now
	most   int    // the latest possible start
	last   int    // a later one, at a person's newest message, for when nothing else helps; 0: none
	must   []bool // by lead: its group is always shown
	needed []bool // by item: it must be pinned if the view starts after it
	cuts   []int  // possible starts after start, in order
	turns  []bool // by item: a person wrote it

	tokens map[int][]int64 // of each slot, by clip size
	fronts [2]int64        // tokens of the summary or notice before the items: now, and if the start moves
}

func newFitter(items []Item, b Budget, count func(*message.Message) int64) *fitter {
	f := &fitter{items: items, b: b, count: count, a: arrange(items, b.Summary), start: startOf(items, b.Start),
		must: make([]bool, len(items)), needed: make([]bool, len(items)), turns: make([]bool, len(items)), tokens: map[int][]int64{}}
	now := make([]int64, len(f.a.slots))
	for at, s := range f.a.slots {
		m := s.answer
		if s.item >= 0 {
			m = show(&items[s.item], b.Clip)
			f.turns[s.item] = person(items[s.item].Message)
		}
		now[at] = count(m)
	}
	f.tokens[b.Clip] = now
	f.findRequired()
	f.findLatestStart()
	f.findCuts()
	f.countFronts()
	return f
}

// startOf returns the index of the item at a position. If that item has left the
// branch, it returns the index of the first item that is not pinned.
func startOf(items []Item, pos int64) int {
	if pos == 0 {
		return 0
	}
	for i := range items {
		if items[i].Pos == pos {
			return i
		}
	}
	for i := range items { // its message is no longer on the branch
		if !items[i].Pinned {
			return i
		}
	}
	return 0
}

// person reports whether a person wrote the message.
func person(m *message.Message) bool {
	if m.Role != message.User {
		return false
	}
	for _, b := range m.Blocks {
		origin := b.Base().Origin
		if origin == record.OriginUser || origin == "" || strings.HasPrefix(origin, "import:") {
			return true
		}
	}
	return false
}

// findRequired finds the items that stay, whatever the start of the view.
func (f *fitter) findRequired() {
	for i := range f.items {
		if f.items[i].Pinned {
			f.must[f.a.groups[i].lead] = true
		}
	}
	for i := range f.items { // a pinned message keeps its whole group
		if f.must[f.a.groups[i].lead] && !f.items[i].Pinned {
			f.needed[i] = true
		}
	}
	need := func(i int) { f.must[i], f.needed[i] = true, true }
	for _, s := range f.a.slots {
		if s.item < 0 || f.items[s.item].Message.Role != message.System {
			break
		}
		need(s.item)
	}
	newest, opener := f.turn()
	if newest >= 0 {
		need(newest)
	}
	if opener >= 0 {
		need(opener)
	}
}

// turn returns the indices of the newest message of a person and of the one that
// opened the running turn, or -1. A person's message between calls belongs to the
// turn that makes the calls.
func (f *fitter) turn() (newest, opener int) {
	newest, opener = -1, -1
	running := true // scanning from the end, no answer that ends a turn has been found
	for at := len(f.a.slots) - 1; at >= 0; at-- {
		i := f.a.slots[at].item
		if i < 0 {
			continue
		}
		m := f.items[i].Message
		switch {
		case m.Role == message.Assistant && len(m.Calls()) == 0:
			running = false
		case f.turns[i]:
			if newest < 0 {
				newest = i
			}
			if running {
				opener = i
			}
		}
		if !running && newest >= 0 {
			break
		}
	}
	return newest, opener
}

// findLatestStart finds the latest possible start: the messages that the model has not
// answered yet must stay.
func (f *fitter) findLatestStart() {
	last := -1 // the last assistant message
	f.most = f.start
	for _, s := range f.a.slots {
		if s.item < 0 {
			continue
		}
		if m := f.items[s.item].Message; m.Role == message.Assistant {
			last = s.item
		}
	}
	at := last
	if last < 0 || len(f.items[last].Message.Calls()) == 0 {
		for i := len(f.items) - 1; i > last; i-- {
			if f.turns[i] {
				at = i
				break
			}
		}
	}
	f.most = max(f.most, at)
	for i := len(f.items) - 1; i > f.most; i-- {
		if f.turns[i] {
			f.last = i
			break
		}
	}
}

// findCuts finds the possible starts: shown items that lead their group, where no
// other group extends across the cut. It lowers most to the last of them.
func (f *fitter) findCuts() {
	shown := make([]bool, len(f.items))
	for _, s := range f.a.slots {
		if s.item >= 0 {
			shown[s.item] = true
		}
	}
	reach := -1 // the highest end of the groups before i
	last := 0
	for i := range f.items {
		g := f.a.groups[i]
		if i > f.start && g.lead == i && reach < i && shown[i] {
			if i <= f.most {
				f.cuts = append(f.cuts, i)
			} else if i == f.last {
				last = i
			}
		}
		reach = max(reach, g.last)
	}
	f.last = last
	f.most = f.start
	if n := len(f.cuts); n > 0 {
		f.most = f.cuts[n-1]
	}
}

// countFronts counts the tokens of the summary or notice before the items.
func (f *fitter) countFronts() {
	notice := func(cut bool) int64 {
		if n := f.a.notice(f.items, cut); n != nil {
			return f.count(n)
		}
		return 0
	}
	switch {
	case f.b.Summary != nil:
		f.fronts[0] = f.count(asUser(f.b.Summary))
	default:
		f.fronts[0] = notice(f.b.Cut)
	}
	switch {
	case f.b.SummaryTokens > 0:
		f.fronts[1] = max(f.b.SummaryTokens, notice(true)) // if no summary can be made, the notice takes its place
	case f.b.Summary != nil:
		f.fronts[1] = f.fronts[0]
	default:
		f.fronts[1] = notice(true)
	}
}

// clipped returns the tokens of each slot for a clip size.
func (f *fitter) clipped(clip int) []int64 {
	if known := f.tokens[clip]; known != nil {
		return known
	}
	out := slices.Clone(f.tokens[f.b.Clip])
	for at, s := range f.a.slots {
		if s.item < 0 {
			continue
		}
		if it := &f.items[s.item]; clips(it, clip) || clips(it, f.b.Clip) {
			out[at] = f.count(show(it, clip))
		}
	}
	f.tokens[clip] = out
	return out
}

// total returns the tokens of a view with this start and clip size.
func (f *fitter) total(start, clip int) int64 {
	n := f.fronts[1]
	if start == f.start {
		n = f.fronts[0]
	}
	for at, tokens := range f.clipped(clip) {
		if of := f.a.slots[at].of; of >= start || f.must[of] {
			n += tokens
		}
	}
	return n
}

// choose returns the start that brings the view within the target: the next
// beginning of a turn if that keeps at least half the target, otherwise the
// earliest possible start.
func (f *fitter) choose(clip int) int {
	if f.total(f.start, clip) <= f.b.Target {
		return f.start
	}
	at := sort.Search(len(f.cuts)-1, func(i int) bool { return f.total(f.cuts[i], clip) <= f.b.Target })
	for _, i := range f.cuts[at:] {
		if !f.turns[i] {
			continue
		}
		kept := int64(0)
		for slot, tokens := range f.clipped(clip) {
			if f.a.slots[slot].of >= i {
				kept += tokens
			}
		}
		if kept >= f.b.Target/2 {
			return i
		}
		break
	}
	return f.cuts[at]
}
