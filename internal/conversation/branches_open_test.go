package conversation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
)

// A branch does not take over calls without results: an agent that continued there
// would repeat them.
func TestAForkWhileCallsAreOpen(t *testing.T) {
	k := newTalk(t)
	s := k.session()
	asked := k.begin(s, "order tea and salt")
	calls := &message.Message{ID: id.New(), Role: message.Assistant}
	for _, what := range []string{"tea", "salt"} {
		calls.Blocks = append(calls.Blocks, &message.ToolCall{Common: message.Common{Origin: "model:test/m"}, CallID: what, Name: "shop.order", Args: fmt.Appendf(nil, `{"what":%q}`, what)})
	}
	_, err := s.Append(t.Context(), calls)
	k.ok(err)
	var last id.ID
	for _, c := range calls.Calls() {
		for _, f := range []conversation.Fork{{}, {Message: calls.ID}, {Message: last}} { // without a message: at the end
			_, err := k.e.Fork(t.Context(), anna, k.conv, f)
			k.code(err, "call_open")
		}
		_, err := k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{Message: calls.ID, Before: true})
		k.ok(err)
		k.ok(k.e.Switch(t.Context(), anna, k.conv, record.MainBranch))
		r := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
			Common: message.Common{Origin: "tool:" + c.Name}, Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK, Content: []message.Block{&message.Text{Text: "ordered"}}}}}
		_, err = s.Append(t.Context(), r)
		k.ok(err)
		last = r.ID
	}
	_, err = k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{})
	k.ok(err)
	_, err = k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{Message: asked})
	k.ok(err)
}

// Obsolete results are recorded on the branch that continues first. Another branch
// shows them as obsolete when it is refreshed, not at some later change.
func TestObsoleteOnABranchThatIsNotRefreshedAsOften(t *testing.T) {
	k := newTalk(t)
	known := k.e
	k.e = conversation.New(k.db, conversation.Options{ // the tools have no rules yet
		Tools: func(string, string) (tool.Tool, bool) { return nil, false }, Names: func(string) []string { return nil }})
	k.turn("look", "file.read a")
	k.turn("change", "file.write a")
	_, err := k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{})
	k.ok(err)
	k.e = known
	for range 3 {
		k.ok(second(k.e.Refresh(t.Context(), anna, k.conv)))
	}
	k.turn("on with the fork", "web.get x")
	k.ok(k.e.Switch(t.Context(), anna, k.conv, record.MainBranch))
	k.ok(second(k.e.Refresh(t.Context(), anna, k.conv)))
	before := k.view()
	if !slices.ContainsFunc(before, func(line string) bool { return strings.Contains(line, "obsolete") }) {
		t.Errorf("refreshed, and what is obsolete is shown: %s", strings.Join(before, "\n"))
	}
	for range 3 {
		k.ok(second(k.e.Refresh(t.Context(), anna, k.conv)))
		k.expect("the view after more changes", k.view(), before...)
	}
}
