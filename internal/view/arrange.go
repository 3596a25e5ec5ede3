package view

import (
	"strconv"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// arrangement is the order in which items are shown.
type arrangement struct {
	slots  []slot
	groups []group // of each item, by its index
	hidden bool    // something is not shown
}

// slot is a message that is shown.
type slot struct {
	item   int              // the index of an item; -1 for an answer
	answer *message.Message // stands for a result that is not there
	of     int              // the index of the item that leads its group
}

// group is what lives and falls with an item: an assistant message with calls
// and their results.
type group struct {
	lead int // the index of the assistant message, or the item itself
	last int // the highest index of the group; set at the lead
}

// arrange finds the groups and the order. Messages that appear a second time
// are left out, as is the summary among the items.
func arrange(items []Item, summary *message.Message) *arrangement {
	a := &arrangement{groups: make([]group, len(items)), slots: make([]slot, 0, len(items))}
	seen := make(map[id.ID]bool, len(items))
	if summary != nil {
		seen[summary.ID] = true
	}
	calls := map[message.Ref]*asked{}
	results := map[int][]int{} // of a lead
	gone := make([]bool, len(items))
	last := -1 // the last assistant or user message
	for i := range items {
		m := items[i].Message
		a.groups[i] = group{i, i}
		again := seen[m.ID]
		seen[m.ID] = true
		if again {
			gone[i] = true
			continue
		}
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
			results[c.lead] = append(results[c.lead], i)
		}
		if hides(&items[i]) {
			gone[a.groups[i].lead], a.hidden = true, true
		}
	}
	for i := range items {
		if m := items[i].Message; (m.Role == message.User || m.Role == message.Assistant) && !gone[i] {
			last = i
		}
	}
	for i := range items {
		if gone[i] || a.groups[i].lead != i {
			continue
		}
		a.slots = append(a.slots, slot{item: i, of: i})
		if items[i].Message.Role == message.Assistant {
			a.answer(items, i, results[i], calls, i == last)
		}
	}
	return a
}

// asked is a call and where its result stands.
type asked struct {
	call   message.Call
	lead   int
	result int // -1: there is none
}

// takes reports whether a result answers the call, which may be nil.
func (c *asked) takes(r *message.ToolResult) bool {
	return c != nil && c.result < 0 && c.call.CallID == r.CallID && c.call.Name == r.Name
}

// hides reports whether the state of an item keeps it out of view.
func hides(it *Item) bool {
	switch it.State.State {
	case record.Superseded, record.Archived, record.Deleted:
		return true
	case record.Invalidated:
		return it.Message.Role != message.Tool
	}
	return false
}

// answer adds the results of an assistant message, and answers for calls that
// have none unless they are open.
func (a *arrangement) answer(items []Item, lead int, results []int, calls map[message.Ref]*asked, open bool) {
	for _, i := range results {
		a.slots = append(a.slots, slot{item: i, of: lead})
	}
	if open {
		return
	}
	for _, c := range items[lead].Message.Calls() {
		if calls[c.Ref].result < 0 {
			a.slots = append(a.slots, slot{item: -1, answer: unanswered(items[lead].Message, c), of: lead})
		}
	}
}

// unanswered stands for the result of a call that has none.
func unanswered(m *message.Message, c message.Call) *message.Message {
	own := message.Common{Origin: originSystem}
	return &message.Message{
		ID: id.Derive("view", "unanswered", c.Ref.Message.String(), strconv.Itoa(c.Ref.Block)), Role: message.Tool, At: m.At,
		Blocks: []message.Block{&message.ToolResult{Common: own, Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.Interrupted,
			Content: []message.Block{&message.Text{Common: own, Text: "[There is no result of this call.]"}}}},
	}
}
