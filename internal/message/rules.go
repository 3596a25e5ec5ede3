package message

import (
	"slices"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
)

// Validate checks the rules for a single message. Each violation has its own error
// code, of kind Invalid. Details["block"] is the index of the invalid block.
func Validate(m *Message) error {
	if err := checkHead(m); err != nil {
		return err
	}
	calls := false
	for i, b := range m.Blocks {
		if b == nil {
			return broken("message_block_missing", "the block is nil").Detail("block", i)
		}
		if err := checkPlace(m.Role, b); err != nil {
			return err.Detail("block", i)
		}
		if err := checkBlock(b); err != nil {
			return err.Detail("block", i)
		}
		if _, ok := b.(*ToolCall); ok {
			calls = true
		}
	}
	if m.Final && calls {
		return broken("message_final_with_calls", "a message with tool calls cannot be final")
	}
	return nil
}

// checkHead checks all but the blocks.
func checkHead(m *Message) *fault.Error {
	switch {
	case m.ID.Zero():
		return broken("message_id_missing", "the message has no id")
	case m.Prev == m.ID:
		return broken("message_prev_invalid", "the message refers to itself as its predecessor")
	case !slices.Contains(roles[:], m.Role):
		return unknownWord(string(m.Role), "message_role_unknown", roles[:])
	case m.Role == Tool && len(m.Blocks) != 1:
		return broken("message_result_count", "a tool message has exactly one result, not %d blocks", len(m.Blocks))
	case (m.Role == User || m.Role == System) && len(m.Blocks) == 0:
		return broken("message_empty", "a %s message has no content", m.Role)
	case m.Stop != "" && !slices.Contains(stops[:], m.Stop):
		return unknownWord(string(m.Stop), "message_stop_unknown", stops[:])
	case m.Usage.negative() || m.Turn.negative():
		return broken("message_usage_negative", "a token count is negative")
	case m.Took < 0:
		return broken("message_took_negative", "the duration is negative")
	}
	if m.Role != Assistant {
		if err := checkAssistantOnly(m); err != nil {
			return err
		}
	}
	if err := checkUTF8("message", m.Model, m.Approach); err != nil {
		return err
	}
	return checkExtras(m.Meta, m.Unknown, func(buf []member) []member { return m.members(buf) })
}

func checkAssistantOnly(m *Message) *fault.Error {
	for _, f := range [...]struct {
		set  bool
		code string
		what string
	}{
		{m.Final, "message_final_outside_assistant", "the mark of a final answer"},
		{m.Model != "", "message_model_outside_assistant", "a model's name"},
		{m.Stop != "", "message_stop_outside_assistant", "a stop reason"},
		{m.Usage != Usage{}, "message_usage_outside_assistant", "token counts"},
		{m.Approach != "" || m.Took != 0 || m.Turn != Usage{}, "message_turn_outside_assistant", "the approach and duration of a turn"},
	} {
		if f.set {
			return broken(f.code, "%s belongs on assistant messages only, not on a %s message", f.what, m.Role)
		}
	}
	return nil
}

// checkPlace checks that a message of the role may hold the block.
func checkPlace(r Role, b Block) *fault.Error {
	switch b.(type) {
	case *ToolCall:
		if r != Assistant {
			return broken("message_call_outside_assistant", "a tool call belongs on an assistant message, not on a %s message", r)
		}
	case *Vendor:
		if r != Assistant {
			return broken("message_vendor_outside_assistant", "a provider's part belongs on an assistant message, not on a %s message", r)
		}
	case *Reasoning:
		if r != Assistant {
			return broken("message_reasoning_outside_assistant", "reasoning belongs on an assistant message, not on a %s message", r)
		}
	case *ToolResult:
		if r != Tool {
			return broken("message_result_outside_tool", "a tool result belongs on a tool message, not on a %s message", r)
		}
	default:
		if r == Tool {
			return broken("message_result_count", "a tool message has exactly one result, not a %s block", b.kind())
		}
	}
	return nil
}

// checkBlock checks a block independently of its message.
func checkBlock(b Block) *fault.Error {
	c := b.Base()
	if c.Labels&^AllLabels != 0 {
		return broken("message_label_unknown", "the labels %v contain an unknown label", c.Labels)
	}
	if err := checkUTF8("the sources", c.Sources...); err != nil {
		return err
	}
	if err := checkUTF8("the origin", c.Origin); err != nil {
		return err
	}
	if c.Meta.Provider != "" || len(c.Meta.Fields) > 0 || len(c.Unknown) > 0 {
		err := checkExtras(c.Meta, c.Unknown, func(buf []member) []member { return append(members(b, buf), member{name: "type"}) })
		if err != nil {
			return err
		}
	}
	switch b := b.(type) {
	case *Text:
		for _, c := range b.Citations {
			if err := checkUTF8("a citation", c.URL, c.Title, c.Text); err != nil {
				return err
			}
		}
		return checkUTF8("text", b.Text)
	case *Vendor:
		return checkUTF8("a provider's part", b.Kind)
	case *Reasoning:
		return checkUTF8("reasoning", b.Text)
	case *ToolCall:
		if b.Name == "" {
			return broken("message_call_name_missing", "a tool call has no name")
		}
		if !utf8.Valid(b.Args) {
			return broken("message_utf8_invalid", "the arguments are not valid UTF-8")
		}
		return checkUTF8("a tool call", b.CallID, b.Name)
	case *ToolResult:
		return checkResult(b)
	case *Image:
		if len(b.Data) == 0 && b.URL == "" {
			return broken("message_data_missing", "an image has neither data nor a URL")
		}
		return checkMedia(b.MIME, "", b.URL, b.Data)
	case *File:
		return checkMedia(b.MIME, b.Name, b.URL, b.Data)
	}
	return nil
}

func checkResult(r *ToolResult) *fault.Error {
	switch {
	case r.Call.Message.Zero() || r.Call.Block < 0:
		return broken("message_result_call_missing", "a tool result has no call")
	case r.Name == "":
		return broken("message_result_name_missing", "a tool result has no name")
	case !slices.Contains(statuses[:], r.Status):
		return unknownWord(string(r.Status), "message_status_unknown", statuses[:])
	}
	for _, b := range r.Content {
		if b == nil {
			return broken("message_block_missing", "a block of the result is nil")
		}
		if !contentBlock(b) {
			return contentFault(b)
		}
		if err := checkBlock(b); err != nil {
			return err
		}
	}
	if err := checkUTF8("a tool result", r.Denied...); err != nil {
		return err
	}
	return checkUTF8("a tool result", r.CallID, r.Name, r.Rest)
}

// contentBlock reports whether a result may hold the block.
func contentBlock(b Block) bool {
	switch b.(type) {
	case *Text, *Image, *File:
		return true
	}
	return false
}

func contentFault(b Block) *fault.Error {
	return broken("message_result_content", "a tool result can contain only text, images and files, not %s", b.kind())
}

func checkMedia(mime, name, url string, data []byte) *fault.Error {
	switch {
	case mime == "":
		return broken("message_mime_missing", "an image or file has no media type").WithHint("give its MIME type, such as image/png")
	case len(data) > 0 && url != "":
		return broken("message_data_and_url", "an image or file has both data and a URL")
	}
	return checkUTF8("an image or file", mime, name, url)
}

func checkUTF8(what string, texts ...string) *fault.Error {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return broken("message_utf8_invalid", "%s is not valid UTF-8", what)
		}
	}
	return nil
}

// checkExtras checks the raw JSON that the stored form contains unchanged.
func checkExtras(m Meta, unknown []byte, known func([]member) []member) *fault.Error {
	if err := checkUTF8("the provider's name", m.Provider); err != nil {
		return err
	}
	if len(m.Fields) > 0 && (m.Fields[0] != '{' || m.Fields[len(m.Fields)-1] != '}' || check(m.Fields) != nil) {
		return broken("message_meta_invalid", "the provider's fields are not one strict JSON object")
	}
	if len(unknown) == 0 {
		return nil
	}
	object := value("{" + string(unknown) + "}")
	if check(object) != nil {
		return broken("message_unknown_invalid", "the unknown members are not strict JSON")
	}
	list := known(nil)
	var bad *fault.Error
	_ = object.each(func(name []byte, _, _ value) error { // f returns no error
		if find(list, name) != nil {
			bad = broken("message_unknown_invalid", "the known member %q is among the unknown members", name)
		}
		return nil
	})
	return bad
}

func broken(code, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, code, format, args...)
}

// CheckHistory checks the messages of one branch, oldest first, against each other.
// Each must be valid by itself. Prev of each message must be the ID of the message
// before it (the first may name one that is not in msgs), and the rules of
// CheckView apply. Codes, all Invalid: message_prev_broken and those of CheckView.
// Details["message"] is the index in msgs.
func CheckHistory(msgs []*Message) error { return checkPairs(msgs, true) }

// CheckView checks the messages of a view against each other. A view may omit
// messages of its branch. IDs must be unique. Each result must answer an earlier
// call, with the same CallID and Name, and each call has at most one result. Calls
// must be answered before the next user or assistant message, so only calls of the
// last one may be open (see Dangling). Codes, all Invalid: message_id_repeated,
// message_result_call_unknown, message_result_repeated, message_result_mismatch,
// message_call_unanswered. Details["message"] is the index in msgs.
func CheckView(msgs []*Message) error { return checkPairs(msgs, false) }

func checkPairs(msgs []*Message, linked bool) error {
	seen := make(map[id.ID]bool, len(msgs))
	calls := map[Ref]*ToolCall{}
	answered := map[Ref]bool{}
	var open []Call
	for i, m := range msgs {
		if seen[m.ID] {
			return broken("message_id_repeated", "message %s appears twice", m.ID).Detail("message", i)
		}
		seen[m.ID] = true
		if linked && i > 0 && m.Prev != msgs[i-1].ID {
			return broken("message_prev_broken", "message %s does not follow %s, which precedes it", m.ID, msgs[i-1].ID).Detail("message", i)
		}
		if r := m.Result(); r != nil {
			if err := checkAnswer(r, calls, answered); err != nil {
				return err.Detail("message", i)
			}
			answered[r.Call] = true
		}
		if m.Role != User && m.Role != Assistant {
			continue
		}
		for _, c := range open {
			if !answered[c.Ref] {
				return broken("message_call_unanswered", "the call %s of %.80q has no result before message %s", c.Ref, c.Name, m.ID).Detail("message", i)
			}
		}
		open = m.Calls()
		for _, c := range open {
			calls[c.Ref] = c.ToolCall
		}
	}
	return nil
}

func checkAnswer(r *ToolResult, calls map[Ref]*ToolCall, answered map[Ref]bool) *fault.Error {
	c := calls[r.Call]
	switch {
	case c == nil:
		return broken("message_result_call_unknown", "a result answers %s, but there is no such call", r.Call)
	case answered[r.Call]:
		return broken("message_result_repeated", "the call %s already has a result", r.Call)
	case c.CallID != r.CallID || c.Name != r.Name:
		return broken("message_result_mismatch", "a result of %.80q (id %.80q) cannot answer the call of %.80q (id %.80q)", r.Name, r.CallID, c.Name, c.CallID)
	}
	return nil
}

// Dangling returns the calls of the last assistant message that have no
// result yet, in order.
func Dangling(msgs []*Message) []Call {
	answered := map[Ref]bool{}
	for i := len(msgs) - 1; i >= 0; i-- {
		m := msgs[i]
		if r := m.Result(); r != nil {
			answered[r.Call] = true
		}
		if m.Role != Assistant {
			continue
		}
		var open []Call
		for _, c := range m.Calls() {
			if !answered[c.Ref] {
				open = append(open, c)
			}
		}
		return open
	}
	return nil
}
