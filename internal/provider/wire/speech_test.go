package wire_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// However the pieces are cut, what a local model says is split in the same way, and what was shown is what
// is stored.
func TestSay(t *testing.T) {
	for in, want := range map[string][2]string{
		"<think>hm</think>yes":                 {"hm", "yes"},
		"\n <think>\na < b\n</think>\n\nyes\n": {"\na < b\n", "yes\n"},
		"<think></think>yes":                   {"", "yes"},
		"<think>never ends </thin":             {"never ends </thin", ""},
		"<thinking about it":                   {"", "<thinking about it"},
		"yes <think>no</think>":                {"", "yes <think>no</think>"},
		"<think>a</think>b<think>c</think>":    {"a", "b<think>c</think>"},
		" <thi":                                {"", " <thi"},
		"":                                     {"", ""},
		"  ":                                   {"", "  "},
		"<think>ü</think> \n":                  {"ü", ""},
		"[THINK]hm[/THINK]yes":                 {"hm", "yes"},
		"<seed:think>hm</seed:think>yes":       {"hm", "yes"},
		"◁think▷hm◁/think▷yes":                 {"hm", "yes"},

		"First I add. </think> It is 4.":              {"First I add. ", "It is 4."},
		"\n</think>\n\nIt is 4.":                      {"", "It is 4."},
		"Close it with `</think>`, not \"</think>\".": {"", "Close it with `</think>`, not \"</think>\"."},
		"```\n</think> <|im_end|>\n```\nDone.":        {"", "```\n</think> <|im_end|>\n```\nDone."},

		"Hello!<|im_end|>":                           {"", "Hello!"},
		"Hello!<|im_end|>\n<|im_start|>user\nMore?":  {"", "Hello!"},
		"<|im_start|>assistant\nHello!<|im_end|>\n":  {"", "Hello!"},
		"Hello!<｜end▁of▁sentence｜>":                  {"", "Hello!"},
		"Hello!</s>":                                 {"", "Hello!"},
		"<s>old</s> new":                             {"", "<s>old</s> new"},
		"Hello!<end_of_turn>\n<start_of_turn>user\n": {"", "Hello!"},
		"<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>": {"", "Hello!"},
		"a <| b |> c <|> d": {"", "a <| b |> c <|> d"},

		"<|channel|>analysis<|message|>I greet.<|end|><|start|>assistant<|channel|>final<|message|>Hello!<|return|>": {"I greet.", "Hello!"},
		"<|channel|>analysis<|message|>I greet.": {"I greet.", ""},
		"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.time__now <|constrain|>json<|message|>{\"zone\":\"UTC\"}<|call|>": {
			"I look.", `<tool_call>{"name":"time__now","arguments":{"zone":"UTC"}}</tool_call>`},
		"analysisI greet.assistantfinalHello!": {"I greet.", "Hello!"},
		"analysis of it":                       {"", "analysis of it"},
		"analysisOf is a name.":                {"", "analysisOf is a name."},
	} {
		rapid.Check(t, func(t *rapid.T) {
			shown := map[llm.Kind]string{}
			asm := wire.Assemble(func(ev llm.Event, err error) bool {
				if ev.Kind == llm.Reset {
					clear(shown)
				}
				shown[ev.Kind] += ev.Text
				return err == nil
			})
			for rest := in; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
				asm.AddMixedText([]byte(rest[:n]))
				rest = rest[n:]
			}
			reply := &llm.Reply{}
			asm.Done(reply)
			var think, text strings.Builder
			for _, b := range reply.Blocks {
				switch b := b.(type) {
				case *message.Reasoning:
					think.WriteString(b.Text)
				case *message.Text:
					text.WriteString(b.Text)
				}
			}
			if think.String() != want[0] || text.String() != want[1] {
				t.Fatalf("%q was split into %q and %q", in, think.String(), text.String())
			}
			if shown[llm.ReasoningDelta] != want[0] || shown[llm.TextDelta] != want[1] {
				t.Fatalf("%q was shown as %q and %q", in, shown[llm.ReasoningDelta], shown[llm.TextDelta])
			}
		})
	}
}

// A character that is cut between two pieces is joined, and one that is never completed is replaced.
func TestPiecesOfCharacters(t *testing.T) {
	for _, test := range []struct {
		want   string
		pieces []string // JSON strings
	}{
		{"a😀b", []string{`"a\ud83d"`, `"\ude00b"`}},
		{"a😀b", []string{"\"a\xf0\x9f\"", "\"\x98\x80b\""}},
		{"a😀b", []string{"\"a\xf0\"", "\"\x9f\"", "\"\x98\"", "\"\x80b\""}},
		{"😀\n\"\\", []string{`"\ud83d\ude00\n\"\\"`}},
		{"a\uFFFDb", []string{`"a\ud83d"`, `"b"`}},
		{"a\uFFFD", []string{`"a\ud83d"`}},
		{"a\uFFFD", []string{`"a\ude00"`}},
		{"a\uFFFD", []string{"\"a\xf0\x9f\""}},
		{"\uFFFD😀", []string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}},
		{"ü", []string{"\"\xc3\"", `""`, "\"\xbc\""}},
	} {
		for _, kind := range []llm.Kind{llm.TextDelta, llm.ReasoningDelta, llm.CallArgs} {
			var shown strings.Builder
			asm := wire.Assemble(func(ev llm.Event, _ error) bool {
				shown.WriteString(ev.Text)
				return true
			})
			part := asm.Open(kind)
			for _, p := range test.pieces {
				part.Add(wire.Decode([]byte(p)).Piece())
			}
			asm.Blocks()
			if part.Text() != test.want || shown.String() != test.want {
				t.Errorf("%q became %q, shown as %q; want %q", test.pieces, part.Text(), shown.String(), test.want)
			}
		}
	}
}
