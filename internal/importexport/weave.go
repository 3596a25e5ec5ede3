package importexport

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// entry is a message as its source has it, before it is made to obey the rules of a
// history. A tool's entry has a result and no blocks.
type entry struct {
	parent int // an earlier entry; -1: none
	role   message.Role
	at     time.Time
	own    bool // the user's own words
	model  string
	stop   message.Stop
	blocks []message.Block
	result result
	rest   object // members of the source that have no other place
}

// result is a tool's result.
type result struct {
	callID  string // empty: it answers the oldest open call of this name
	name    string
	status  message.Status
	content []message.Block
}

// treeBuilder makes a tree of messages from entries. On each path of the tree, calls are
// answered before the next message, and results answer calls. A result that does not
// fit is kept as text.
type treeBuilder struct {
	source  string
	notes   notes
	entries []entry
	nodes   []Node
	ends    []end // by entry: the end of its path
	broken  error // the first message that the rules refuse, which is a bug in this package
}

// tree adds the nodes of a tree, each after its parent. parent has the number of each
// node's parent, or -1. put adds a node after an entry (-1: none) and returns the
// entry with which the node ends. tree returns these ends. Circles are cut before
// their first node, and noted.
func (w *treeBuilder) tree(parent []int, put func(node, before int) int) []int {
	walk := make([]int, len(parent)) // by node: the walk that visited it, counted from 1
	for i := range parent {
		at := i
		for ; at >= 0 && walk[at] == 0; at = parent[at] {
			walk[at] = i + 1
		}
		if at < 0 || walk[at] != i+1 {
			continue
		}
		first := at
		for j := parent[at]; j != at; j = parent[j] {
			first = min(first, j)
		}
		parent[first] = -1
		w.notes.add("messages that form a cycle are kept, and the cycle is cut before the oldest")
	}
	children := make([][]int, len(parent)+1) // the last element has the roots
	for i, p := range parent {
		if p < 0 {
			p = len(parent)
		}
		children[p] = append(children[p], i)
	}
	ends := make([]int, len(parent))
	for stack := []int{len(parent)}; len(stack) > 0; {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i < len(parent) {
			before := -1
			if parent[i] >= 0 {
				before = ends[parent[i]]
			}
			ends[i] = put(i, before)
		}
		for _, c := range slices.Backward(children[i]) {
			stack = append(stack, c)
		}
	}
	return ends
}

// end is the end of a path.
type end struct {
	node int // -1: nothing yet
	open []message.Call
	last time.Time
}

// chat completes a chat with the nodes of the entries. The chat continues at the entry
// current (-1: the last one).
func (w *treeBuilder) chat(c *Chat, current int) (*Chat, error) {
	w.ends = make([]end, len(w.entries))
	leaf := slices.Repeat([]bool{true}, len(w.entries))
	for i := range w.entries {
		e := &w.entries[i]
		at := end{node: -1}
		if e.parent >= 0 {
			at = w.ends[e.parent]
			leaf[e.parent] = false
		}
		w.ends[i] = w.put(at, e)
	}
	for i := range w.entries {
		if leaf[i] {
			w.ends[i] = w.interrupt(w.ends[i])
		}
	}
	w.finish()
	if len(w.nodes) == 0 {
		return nil, emptyChat(c.Title)
	}
	if current < 0 {
		current = len(w.entries) - 1
	}
	c.Nodes, c.Notes, c.Current = w.nodes, w.notes.list, w.ends[current].node
	if c.Current < 0 && w.broken == nil {
		return nil, errors.New("its current message is before all messages")
	}
	return c, w.broken
}

// put adds an entry at the end of a path.
func (w *treeBuilder) put(at end, e *entry) end {
	if e.at.IsZero() {
		e.at = at.last
	}
	at.last = e.at
	if e.role == message.Tool {
		return w.answer(at, e)
	}
	if len(e.blocks) == 0 {
		return at // the message is empty
	}
	m := &message.Message{Role: e.role, At: e.at, Blocks: e.blocks, Meta: metaOf(w.source, e.rest), Model: e.model, Stop: e.stop}
	if m.Role != message.System {
		at = w.interrupt(at)
	}
	at = w.add(at, m, e.own && m.Role == message.User)
	if m.Role == message.Assistant {
		at.open = m.Calls()
	}
	return at
}

// answer adds a result to its call, or as text if there is no such call.
func (w *treeBuilder) answer(at end, e *entry) end {
	r := e.result
	i := slices.IndexFunc(at.open, func(c message.Call) bool {
		if r.callID != "" {
			return c.CallID == r.callID
		}
		return r.name == "" || c.Name == r.name
	})
	if i < 0 && r.callID == "" && len(at.open) == 1 {
		i = 0
	}
	m := &message.Message{At: e.at, Meta: metaOf(w.source, e.rest)}
	if i < 0 {
		w.notes.add("a result without a call is kept as text")
		m.Role = message.User
		m.Blocks = append([]message.Block{w.text("[result of " + cmp.Or(r.name, "a tool") + "]\n")}, r.content...)
		return w.add(w.interrupt(at), m, false)
	}
	c := at.open[i]
	at.open = slices.Delete(slices.Clone(at.open), i, i+1)
	m.Role = message.Tool
	m.Blocks = []message.Block{&message.ToolResult{Common: foreign(w.source), Call: c.Ref, CallID: c.CallID, Name: c.Name,
		Status: r.status, Content: r.content}}
	return w.add(at, m, false)
}

// interrupt answers the calls that have no result.
func (w *treeBuilder) interrupt(at end) end {
	for _, c := range at.open {
		w.notes.add("a call without a result is marked as interrupted")
		m := &message.Message{Role: message.Tool, At: at.last}
		m.Blocks = []message.Block{&message.ToolResult{Common: foreign(w.source), Call: c.Ref, CallID: c.CallID, Name: c.Name,
			Status: message.Interrupted, Content: []message.Block{w.text("The export has no result for this call.")}}}
		at = w.add(at, m, false)
	}
	at.open = nil
	return at
}

// add appends a message to a path.
func (w *treeBuilder) add(at end, m *message.Message, opens bool) end {
	m.ID = id.New()
	m.At = m.At.UTC().Truncate(time.Microsecond)
	if at.node >= 0 {
		m.Prev = w.nodes[at.node].Message.ID
	}
	if err := message.Validate(m); err != nil && w.broken == nil {
		w.broken = fmt.Errorf("message %d is invalid: %s", len(w.nodes)+1, fault.Of(err).Message)
	}
	w.nodes = append(w.nodes, Node{Message: m, Parent: at.node, Opens: opens})
	at.node = len(w.nodes) - 1
	return at
}

// finish marks the answers that end their turns: those without calls that no further
// message of the assistant or a tool follows.
func (w *treeBuilder) finish() {
	more := make([]bool, len(w.nodes))
	for _, n := range w.nodes {
		if r := n.Message.Role; n.Parent >= 0 && (r == message.Assistant || r == message.Tool) {
			more[n.Parent] = true
		}
	}
	for i, n := range w.nodes {
		m := n.Message
		if m.Role != message.Assistant {
			continue
		}
		calls := len(m.Calls()) > 0
		m.Final = !calls && !more[i]
		if m.Stop == "" || m.Stop == message.StopTools {
			m.Stop = message.StopEnd
			if calls {
				m.Stop = message.StopTools
			}
		}
	}
}

func foreign(source string) message.Common {
	return message.Common{Origin: "import:" + source, Labels: message.Untrusted}
}

func (w *treeBuilder) text(s string) message.Block {
	return &message.Text{Common: foreign(w.source), Text: s}
}

// blockMaker makes the blocks of one message, either of the user's own words or of foreign
// content.
type blockMaker struct {
	source string
	own    bool
	blocks []message.Block
}

func (s *blockMaker) common() message.Common {
	if s.own {
		return message.Common{Origin: "user"}
	}
	return foreign(s.source)
}

func (s *blockMaker) text(t string) {
	if strings.TrimSpace(t) != "" {
		s.blocks = append(s.blocks, &message.Text{Common: s.common(), Text: valid(t)})
	}
}

// quoted adds a text that is not the user's own, even in a message of the user.
func (s *blockMaker) quoted(t string) {
	own := s.own
	s.own = false
	s.text(t)
	s.own = own
}

func (s *blockMaker) reasoning(t string) {
	if strings.TrimSpace(t) != "" {
		s.blocks = append(s.blocks, &message.Reasoning{Common: s.common(), Text: valid(t)})
	}
}

func (s *blockMaker) call(callID, name string, args []byte) {
	if name == "" {
		name = "unnamed"
	}
	if len(args) == 0 {
		args = []byte("{}")
	}
	s.blocks = append(s.blocks, &message.ToolCall{Common: foreign(s.source), CallID: valid(callID), Name: valid(name), Args: []byte(valid(string(args)))})
}

// valid replaces invalid UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
