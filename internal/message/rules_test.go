package message_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/test/messagetest"
)

func hello() message.Block { return &message.Text{Text: "hello"} }

func user(blocks ...message.Block) *message.Message {
	return &message.Message{ID: id.New(), Role: message.User, Blocks: blocks}
}

func assistant(blocks ...message.Block) *message.Message {
	return &message.Message{ID: id.New(), Role: message.Assistant, Blocks: blocks}
}

func result() *message.ToolResult {
	return &message.ToolResult{Call: message.Ref{Message: id.New()}, CallID: "c", Name: "a.b", Status: message.OK}
}

func resultWith(f func(*message.ToolResult)) *message.Message {
	r := result()
	f(r)
	return &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{r}}
}

func with(m *message.Message, f func(*message.Message)) *message.Message {
	f(m)
	return m
}

func TestValidate(t *testing.T) {
	call := func() message.Block { return &message.ToolCall{Name: "a.b", Args: []byte(`{}`)} }
	textWith := func(c message.Common) *message.Message { return user(&message.Text{Common: c}) }
	for _, c := range []struct {
		code string // "" for a valid message
		m    *message.Message
	}{
		{"", user(hello())},
		{"", assistant()},
		{"", assistant(call(), &message.ToolCall{Name: "b", CallID: "x", Args: []byte("no JSON")})},
		{"", assistant(&message.Reasoning{})},
		{"", user(&message.File{MIME: "text/plain"})}, // an empty file
		{"", resultWith(func(r *message.ToolResult) { r.CallID = "" })},
		{"message_id_missing", with(user(hello()), func(m *message.Message) { m.ID = id.ID{} })},
		{"message_prev_invalid", with(user(hello()), func(m *message.Message) { m.Prev = m.ID })},
		{"message_role_unknown", with(user(hello()), func(m *message.Message) { m.Role = "admin" })},
		{"message_role_unknown", with(user(hello()), func(m *message.Message) { m.Role = "" })},
		{"message_empty", user()},
		{"message_empty", with(user(), func(m *message.Message) { m.Role = message.System })},
		{"message_stop_unknown", with(assistant(), func(m *message.Message) { m.Stop = "tired" })},
		{"message_usage_negative", with(assistant(), func(m *message.Message) { m.Usage.Reasoning = -1 })},
		{"message_took_negative", with(assistant(), func(m *message.Message) { m.Took = -time.Second })},
		{"message_final_outside_assistant", with(user(hello()), func(m *message.Message) { m.Final = true })},
		{"message_model_outside_assistant", with(user(hello()), func(m *message.Message) { m.Model = "a/b" })},
		{"message_stop_outside_assistant", with(user(hello()), func(m *message.Message) { m.Stop = message.StopEnd })},
		{"message_usage_outside_assistant", with(user(hello()), func(m *message.Message) { m.Usage.Input = 1 })},
		{"message_turn_outside_assistant", with(user(hello()), func(m *message.Message) { m.Approach = "direct" })},
		{"message_turn_outside_assistant", with(user(hello()), func(m *message.Message) { m.Took = 1 })},
		{"message_turn_outside_assistant", with(user(hello()), func(m *message.Message) { m.Turn.Input = 1 })},
		{"message_usage_negative", with(assistant(), func(m *message.Message) { m.Turn.Output = -1 })},
		{"message_final_with_calls", with(assistant(call()), func(m *message.Message) { m.Final = true })},
		{"message_call_outside_assistant", user(call())},
		{"message_reasoning_outside_assistant", user(&message.Reasoning{})},
		{"message_result_outside_tool", user(result())},
		{"message_result_outside_tool", assistant(result())},
		{"message_result_count", with(user(), func(m *message.Message) { m.Role = message.Tool })},
		{"message_result_count", with(user(hello()), func(m *message.Message) { m.Role = message.Tool })},
		{"message_result_count", with(user(result(), result()), func(m *message.Message) { m.Role = message.Tool })},
		{"message_call_outside_assistant", with(user(call()), func(m *message.Message) { m.Role = message.Tool })},
		{"message_result_call_missing", resultWith(func(r *message.ToolResult) { r.Call = message.Ref{} })},
		{"message_result_call_missing", resultWith(func(r *message.ToolResult) { r.Call.Block = -1 })},
		{"message_result_name_missing", resultWith(func(r *message.ToolResult) { r.Name = "" })},
		{"message_status_unknown", resultWith(func(r *message.ToolResult) { r.Status = "" })},
		{"message_result_content", resultWith(func(r *message.ToolResult) { r.Content = []message.Block{call()} })},
		{"message_result_content", resultWith(func(r *message.ToolResult) { r.Content = []message.Block{&message.Reasoning{}} })},
		{"message_result_content", resultWith(func(r *message.ToolResult) { r.Content = []message.Block{result()} })},
		{"message_block_missing", resultWith(func(r *message.ToolResult) { r.Content = []message.Block{nil} })},
		{"message_mime_missing", resultWith(func(r *message.ToolResult) { r.Content = []message.Block{&message.File{}} })},
		{"message_utf8_invalid", resultWith(func(r *message.ToolResult) { r.CallID = "\xff" })},
		{"message_block_missing", assistant(nil)},
		{"message_call_name_missing", assistant(&message.ToolCall{})},
		{"message_label_unknown", textWith(message.Common{Labels: 1 << 5})},
		{"message_data_missing", user(&message.Image{MIME: "image/png"})},
		{"message_mime_missing", user(&message.Image{URL: "u"})},
		{"message_data_and_url", user(&message.Image{MIME: "image/png", URL: "u", Data: []byte{1}})},
		{"message_utf8_invalid", user(&message.Text{Text: "a\xff"})},
		{"message_utf8_invalid", assistant(&message.Reasoning{Text: "a\xff"})},
		{"message_utf8_invalid", assistant(&message.ToolCall{Name: "a", Args: []byte("\xff")})},
		{"message_utf8_invalid", assistant(&message.ToolCall{Name: "\xff"})},
		{"message_utf8_invalid", user(&message.File{MIME: "a", Name: "\xff"})},
		{"message_utf8_invalid", textWith(message.Common{Origin: "\xff"})},
		{"message_utf8_invalid", textWith(message.Common{Meta: message.Meta{Provider: "\xff"}})},
		{"message_utf8_invalid", with(assistant(), func(m *message.Message) { m.Model = "\xff" })},
		{"message_meta_invalid", with(user(hello()), func(m *message.Message) { m.Meta.Fields = []byte(`{"a":`) })},
		{"message_meta_invalid", textWith(message.Common{Meta: message.Meta{Fields: []byte(`[]`)}})},
		{"message_meta_invalid", textWith(message.Common{Meta: message.Meta{Fields: []byte(`{"a":1,"a":2}`)}})},
		{"message_meta_invalid", textWith(message.Common{Meta: message.Meta{Fields: []byte(` {}`)}})},
		{"message_unknown_invalid", textWith(message.Common{Unknown: []byte(`"a"`)})},
		{"message_unknown_invalid", textWith(message.Common{Unknown: []byte(`"a":1},{"b":2`)})},
		{"message_unknown_invalid", textWith(message.Common{Unknown: []byte(`"text":"x"`)})},
		{"message_unknown_invalid", textWith(message.Common{Unknown: []byte(`"a":1,"l\u0061bels":[]`)})},
		{"message_unknown_invalid", textWith(message.Common{Unknown: []byte(`"type":"x"`)})},
		{"message_unknown_invalid", with(user(hello()), func(m *message.Message) { m.Unknown = []byte(`"role":"user"`) })},
		{"", with(user(hello()), func(m *message.Message) { m.Unknown = []byte(`"text":1`) })}, // known in blocks, not in messages
	} {
		err := message.Validate(c.m)
		if c.code == "" && err != nil || c.code != "" && (!fault.HasCode(err, c.code) || !fault.Is(err, fault.Invalid)) {
			t.Errorf("%s: Validate = %v", c.code, err)
		}
		// A valid message can be stored and read back.
		_, decodeErr := message.Decode(message.Append(nil, skipNil(c.m)))
		if c.code == "" && decodeErr != nil {
			t.Errorf("a valid message is not read back: %v", decodeErr)
		}
	}
}

// skipNil returns the message without its nil blocks, which cannot be appended.
func skipNil(m *message.Message) *message.Message {
	c := *m
	isNil := func(b message.Block) bool { return b == nil }
	c.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), isNil)
	for i, b := range c.Blocks {
		if r, ok := b.(*message.ToolResult); ok {
			r := *r
			r.Content = slices.DeleteFunc(slices.Clone(r.Content), isNil)
			c.Blocks[i] = &r
		}
	}
	return &c
}

func TestValidateNamesTheBlock(t *testing.T) {
	err := message.Validate(user(hello(), &message.Image{}))
	if got := fault.Of(err).Details["block"]; got != 1 {
		t.Errorf("the block at fault is %v", got)
	}
}

// chainOf links the messages.
func chainOf(msgs ...*message.Message) []*message.Message {
	for i := 1; i < len(msgs); i++ {
		msgs[i].Prev = msgs[i-1].ID
	}
	return msgs
}

func answer(c message.Call) *message.Message {
	return resultWith(func(r *message.ToolResult) { r.Call, r.CallID, r.Name = c.Ref, c.CallID, c.Name })
}

func TestCheckHistory(t *testing.T) {
	two := func() *message.Message {
		return assistant(hello(), &message.ToolCall{CallID: "1", Name: "a.b"}, &message.ToolCall{CallID: "2", Name: "a.c"})
	}
	for _, c := range []struct {
		name, code string
		open       int // calls without a result
		msgs       func() []*message.Message
	}{
		{"nothing", "", 0, func() []*message.Message { return nil }},
		{"a window", "", 0, func() []*message.Message {
			m := user(hello())
			m.Prev = id.New()
			return []*message.Message{m}
		}},
		{"answered in another order", "", 0, func() []*message.Message {
			a := two()
			return chainOf(user(hello()), a, answer(a.Calls()[1]), answer(a.Calls()[0]), assistant(hello()), user(hello()))
		}},
		{"one open", "", 1, func() []*message.Message {
			a := two()
			return chainOf(user(hello()), a, answer(a.Calls()[0]))
		}},
		{"all open", "", 2, func() []*message.Message { return chainOf(user(hello()), two()) }},
		{"a system message between", "", 1, func() []*message.Message {
			a, s := two(), user(hello())
			s.Role = message.System
			return chainOf(a, answer(a.Calls()[1]), s)
		}},
		{"a broken link", "message_prev_broken", 0, func() []*message.Message {
			return []*message.Message{user(hello()), assistant(hello())}
		}},
		{"twice the same", "message_id_repeated", 0, func() []*message.Message {
			m := user(hello())
			return []*message.Message{m, m}
		}},
		{"no such call", "message_result_call_unknown", 0, func() []*message.Message {
			return chainOf(user(hello()), assistant(hello()), resultWith(func(*message.ToolResult) {}))
		}},
		{"the call is no call", "message_result_call_unknown", 0, func() []*message.Message {
			a := two()
			r := answer(a.Calls()[0])
			r.Result().Call.Block = 0
			return chainOf(a, r)
		}},
		{"answered before it is asked", "message_result_call_unknown", 0, func() []*message.Message {
			a := two()
			return chainOf(answer(a.Calls()[0]), a)
		}},
		{"answered twice", "message_result_repeated", 0, func() []*message.Message {
			a := two()
			return chainOf(a, answer(a.Calls()[0]), answer(a.Calls()[0]))
		}},
		{"another id", "message_result_mismatch", 0, func() []*message.Message {
			a := two()
			r := answer(a.Calls()[0])
			r.Result().CallID = "2"
			return chainOf(a, r)
		}},
		{"another name", "message_result_mismatch", 0, func() []*message.Message {
			a := two()
			r := answer(a.Calls()[0])
			r.Result().Name = "a.c"
			return chainOf(a, r)
		}},
		{"the user comes too early", "message_call_unanswered", 0, func() []*message.Message {
			a := two()
			return chainOf(a, answer(a.Calls()[0]), user(hello()))
		}},
		{"the assistant comes too early", "message_call_unanswered", 0, func() []*message.Message {
			return chainOf(two(), assistant(hello()))
		}},
		{"answered late", "message_call_unanswered", 0, func() []*message.Message {
			a := two()
			return chainOf(a, answer(a.Calls()[0]), user(hello()), answer(a.Calls()[1]))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			msgs := c.msgs()
			err := message.CheckHistory(msgs)
			if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
				t.Errorf("CheckHistory = %v, want %q", err, c.code)
			}
			if got := message.Dangling(msgs); c.code == "" && len(got) != c.open {
				t.Errorf("Dangling = %v, want %d", got, c.open)
			}
		})
	}
}

// Every generated history is valid, and removing, repeating or swapping a result is
// detected where it matters.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := messagetest.History().Draw(t, "history")
		for _, m := range msgs {
			if err := message.Validate(m); err != nil {
				t.Fatalf("the generator made an invalid message: %v", err)
			}
		}
		if err := message.CheckHistory(msgs); err != nil {
			t.Fatalf("the generator made an invalid history: %v", err)
		}
		open := map[message.Ref]bool{}
		for _, m := range msgs {
			for _, c := range m.Calls() {
				open[c.Ref] = true
			}
			if r := m.Result(); r != nil {
				delete(open, r.Call)
			}
		}
		dangling := message.Dangling(msgs)
		if len(dangling) != len(open) {
			t.Fatalf("dangling: %v, want %v", dangling, open)
		}
		for _, c := range dangling {
			if !open[c.Ref] {
				t.Fatalf("%v is said to dangle", c.Ref)
			}
		}
		at := rapid.IntRange(0, len(msgs)-1).Draw(t, "at")
		if msgs[at].Role != message.Tool {
			return
		}
		double := *msgs[at]
		double.ID, double.Prev = id.New(), msgs[at].ID
		msgs = slices.Insert(slices.Clone(msgs[:at+1]), at+1, &double)
		if err := message.CheckHistory(msgs); !fault.HasCode(err, "message_result_repeated") || fault.Of(err).Details["message"] != at+1 {
			t.Fatalf("a doubled result: %v", err)
		}
	})
}

// TestCheckView: omitted messages break the chain of Prev only, not the pairs of
// calls and results.
func TestCheckView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := messagetest.History().Draw(t, "history")
		for from, m := range msgs {
			if m.Role != message.User {
				continue
			}
			view := slices.Concat(msgs[:0:0], msgs[:1], msgs[max(1, from):])
			if err := message.CheckView(view); err != nil {
				t.Fatalf("from message %d: %v", from, err)
			}
			if err := message.CheckHistory(view); from > 1 && !fault.HasCode(err, "message_prev_broken") {
				t.Fatalf("as a history, from message %d: %v", from, err)
			}
		}
	})
	ask := assistant(&message.ToolCall{CallID: "1", Name: "a.b"})
	for code, msgs := range map[string][]*message.Message{
		"message_result_call_unknown": {answer(ask.Calls()[0])},
		"message_call_unanswered":     {ask, user(hello())},
		"message_id_repeated":         {ask, ask},
	} {
		if err := message.CheckView(msgs); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestReading(t *testing.T) {
	r := resultWith(func(r *message.ToolResult) {
		r.Labels = message.Untrusted
		r.Content = []message.Block{&message.Text{Text: "4"}, &message.Image{Common: message.Common{Labels: message.Private}}, &message.Text{}, &message.Text{Text: "2"}, &message.Text{Text: "!"}}
	})
	if got := r.Text(); got != "42!" {
		t.Errorf("Text = %q", got)
	}
	if got := message.LabelsOf(r.Blocks); got != message.Untrusted|message.Private {
		t.Errorf("LabelsOf = %v", got)
	}
	if r.Result() != r.Blocks[0] || user(hello()).Result() != nil || (&message.Message{Role: message.Tool}).Result() != nil {
		t.Error("Result")
	}
	a := assistant(hello(), &message.ToolCall{Name: "x"})
	want := []message.Call{{Ref: message.Ref{Message: a.ID, Block: 1}, ToolCall: a.Blocks[1].(*message.ToolCall)}}
	if got := a.Calls(); !reflect.DeepEqual(got, want) {
		t.Errorf("Calls = %v", got)
	}
	if got := (message.Usage{1, 2, 3, 4, 5, 6}).Add(message.Usage{10, 20, 30, 40, 50, 60}); got != (message.Usage{11, 22, 33, 44, 55, 66}) {
		t.Errorf("Add = %v", got)
	}
}

// FuzzCheckHistory: the rules do not panic on any list of decodable messages.
func FuzzCheckHistory(f *testing.F) {
	a := assistant(&message.ToolCall{CallID: "1", Name: "a.b"})
	f.Add(message.Append(nil, a), message.Append(nil, answer(a.Calls()[0])))
	f.Add([]byte(`{"role":"tool"}`), []byte(`{"role":"assistant","blocks":[{"type":"tool_call"}]}`))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var msgs []*message.Message
		for _, b := range [][]byte{x, y, x} {
			m, err := message.Decode(b)
			if err != nil {
				return
			}
			_ = message.Validate(m)
			msgs = append(msgs, m)
		}
		if err := message.CheckHistory(msgs); err == nil {
			t.Fatal("the same message twice went unnoticed")
		}
		message.Dangling(msgs)
	})
}
