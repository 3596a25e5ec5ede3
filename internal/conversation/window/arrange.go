package window

import (
	"slices"
	"strconv"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// arrangement is the order in which the items are shown.
type arrangement struct {
	slots  []slot
	groups []group // of each item, by its index
	hidden bool    // some item is not shown
}

// slot is one shown message.
type slot struct {
	item   int              // the index of its item; -1 for an answer
	answer *message.Message // replaces a missing result
	of     int              // the index of its group's lead
}

// group is a set of items that are shown or hidden together: an assistant message
// with calls and their results.
type group struct {
	lead int // the index of the assistant message, or of the item itself
	last int // the highest index of the group; set at the lead
}

// arrange determines the groups and the order. It drops duplicates of a message,
// and the summary if it is among the items.
func arrange(items []Item, summary *message.Message) *arrangement {
	a := &arrangement{groups: make([]group, len(items)), slots: make([]slot, 0, len(items))}
	gone := make([]bool, len(items))
	calls := a.gather(items, summary, gone)
	o := open{a: a, items: items, calls: calls, put: make([]bool, len(items)), lead: -1}
	for i := range items {
		lead := a.groups[i].lead
		if gone[i] || gone[lead] || o.put[i] {
			continue
		}
		if r := items[i].Message.Role; r == message.User || r == message.Assistant {
			o.close(i)
		}
		o.put[i] = true
		a.slots = append(a.slots, slot{item: i, of: lead})
	}
	return a
}

// gather determines the groups and returns the calls. It sets gone for the items
// that are not shown: the leads of hidden groups, results without a call, and
// duplicates.
func (a *arrangement) gather(items []Item, summary *message.Message, gone []bool) map[message.Ref]*asked {
	seen := make(map[id.ID]bool, len(items))
	if summary != nil {
		seen[summary.ID] = true
	}
	calls := map[message.Ref]*asked{}
	for i := range items {
		m := items[i].Message
		a.groups[i] = group{i, i}
		if seen[m.ID] {
			gone[i] = true
			continue
		}
		seen[m.ID] = true
		switch m.Role {
		case message.Assistant:
			for _, c := range m.Calls() {
				calls[c.Ref] = &asked{call: c, lead: i, result: -1}
			}
		case message.Tool:
			r := m.Result()
			if r == nil || !calls[r.Call].takes(r) {
				gone[i] = true
				continue
			}
			c := calls[r.Call]
			c.result = i
			a.groups[i].lead = c.lead
			a.groups[c.lead].last = i
		}
		if hides(&items[i]) {
			gone[a.groups[i].lead], a.hidden = true, true
		}
	}
	return calls
}

// open is the assistant message whose results are currently being placed.
type open struct {
	a     *arrangement
	items []Item
	calls map[message.Ref]*asked
	put   []bool
	lead  int // -1: none
}

// close completes a group before the next message. It places the results that come
// later in the list and adds an answer for each call without a result.
func (o *open) close(next int) {
	if o.lead >= 0 {
		m := o.items[o.lead].Message
		var missing []message.Call
		var late []int
		for _, c := range m.Calls() {
			switch at := o.calls[c.Ref].result; {
			case at < 0:
				missing = append(missing, c)
			case !o.put[at]:
				late = append(late, at)
			}
		}
		slices.Sort(late)
		for _, i := range late {
			o.put[i] = true
			o.a.slots = append(o.a.slots, slot{item: i, of: o.lead})
		}
		for _, c := range missing {
			o.a.slots = append(o.a.slots, slot{item: -1, answer: unanswered(m, c), of: o.lead})
		}
	}
	o.lead = -1
	if o.items[next].Message.Role == message.Assistant {
		o.lead = next
	}
}

// asked is a call and the index of its result.
type asked struct {
	call   message.Call
	lead   int
	result int // -1: none
}

// takes reports whether a result answers the call, which may be nil.
func (c *asked) takes(r *message.ToolResult) bool {
	return c != nil && c.result < 0 && c.call.CallID == r.CallID && c.call.Name == r.Name
}

// hides reports whether an item's state keeps it out of view.
func hides(it *Item) bool {
	switch it.State.State {
	case record.Superseded, record.Archived, record.Deleted:
		return true
	case record.Invalidated:
		return it.Message.Role != message.Tool
	}
	return false
}

// unanswered returns a message that replaces the missing result of a call.
func unanswered(m *message.Message, c message.Call) *message.Message {
	own := message.Common{Origin: originSystem}
	return &message.Message{
		ID: id.Derive("view", "unanswered", c.Ref.Message.String(), strconv.Itoa(c.Ref.Block)), Role: message.Tool, At: m.At,
		Blocks: []message.Block{&message.ToolResult{Common: own, Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.Interrupted,
			Content: []message.Block{&message.Text{Common: own, Text: "[There is no result of this call.]"}}}},
	}
}
