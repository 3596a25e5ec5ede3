package importexport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// codecs are the vendors' forms, as the clients of their models have them.
func codecs() map[string]llm.Codec {
	return map[string]llm.Codec{
		importexport.OpenAI:    openai.New(openai.Options{}).Codec(""),
		importexport.Anthropic: anthropic.New(anthropic.Options{}).Codec(""),
		importexport.Gemini:    gemini.New(gemini.Options{}).Codec(""),
		importexport.Ollama:    ollama.New(ollama.Options{}).Codec(""),
	}
}

// read reads a whole file and checks the invariants of every chat.
func read(t testing.TB, in io.Reader, o importexport.Options) (chats []*importexport.Chat, errs []error) {
	t.Helper()
	o.Codecs = codecs()
	for c, err := range importexport.Read(context.Background(), in, o) {
		if (c == nil) == (err == nil) {
			t.Fatalf("a chat and an error at once, or neither: %v, %v", c, err)
		}
		if err != nil {
			if f := fault.Of(err); f.Code == "internal" || f.Remedy == "" {
				t.Errorf("an error without a code or remedy: %v", err)
			}
			errs = append(errs, err)
			continue
		}
		check(t, c)
		chats = append(chats, c)
	}
	return chats, errs
}

// check checks that every path of a foreign chat is a valid history, with all calls
// answered and no foreign text attributed to the user.
func check(t testing.TB, c *importexport.Chat) {
	t.Helper()
	if c.Own != nil {
		return
	}
	if len(c.Nodes) == 0 || c.Current < 0 || c.Current >= len(c.Nodes) {
		t.Fatalf("%q has %d nodes and goes on with %d", c.Title, len(c.Nodes), c.Current)
	}
	leaf := make([]bool, len(c.Nodes))
	for i, n := range c.Nodes {
		if leaf[i] = true; n.Parent >= i {
			t.Fatalf("node %d stands before its parent %d", i, n.Parent)
		}
		if n.Parent >= 0 {
			leaf[n.Parent] = false
		}
		if err := message.Validate(n.Message); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		if m, err := message.Decode(message.Append(nil, n.Message)); err != nil || m.ID != n.Message.ID {
			t.Fatalf("node %d is not read back: %v", i, err)
		}
		for _, b := range n.Message.Blocks {
			if c := b.Base(); c.Origin != "user" && (!strings.HasPrefix(c.Origin, "import:") || c.Labels != message.Untrusted) {
				t.Fatalf("node %d: a block of %q with the labels %v", i, c.Origin, c.Labels)
			} else if c.Origin == "user" && !n.Opens {
				t.Fatalf("node %d: the user's own words open no interaction", i)
			}
		}
	}
	for i := range c.Nodes {
		if !leaf[i] {
			continue
		}
		var path []*message.Message
		for j := i; j >= 0; j = c.Nodes[j].Parent {
			path = append([]*message.Message{c.Nodes[j].Message}, path...)
		}
		if err := message.CheckHistory(path); err != nil {
			t.Fatalf("%q: the path to node %d: %v", c.Title, i, err)
		}
		if d := message.Dangling(path); len(d) > 0 {
			t.Fatalf("%q: open calls at the end of the path to node %d", c.Title, i)
		}
	}
}

// dump shows a chat, a node per line.
func dump(c *importexport.Chat) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q from %s %s\n", c.Source, c.Title, c.SourceID, c.Model)
	for i, n := range c.Nodes {
		m := n.Message
		fmt.Fprintf(&b, "%d<%d %s", i, n.Parent, m.Role)
		for _, f := range []struct {
			set  bool
			word string
		}{{n.Opens, "opens"}, {m.Final, "final"}, {m.Model != "", m.Model}, {m.Stop != "" && m.Stop != message.StopEnd, string(m.Stop)}, {i == c.Current, "current"}} {
			if f.set {
				b.WriteString(" " + f.word)
			}
		}
		blocks(&b, m.Blocks)
		if m.Meta.Fields != nil {
			fmt.Fprintf(&b, " +%s", m.Meta.Fields)
		}
		b.WriteByte('\n')
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.String()
}

func blocks(w *strings.Builder, list []message.Block) {
	for _, b := range list {
		switch b := b.(type) {
		case *message.Text:
			fmt.Fprintf(w, " %q", b.Text)
			if b.Origin != "user" {
				w.WriteByte('!')
			}
		case *message.Reasoning:
			fmt.Fprintf(w, " (%s)", b.Text)
		case *message.ToolCall:
			fmt.Fprintf(w, " %s[%s]%s", b.Name, b.CallID, b.Args)
		case *message.ToolResult:
			fmt.Fprintf(w, " %s[%s]=%s", b.Name, b.CallID, b.Status)
			blocks(w, b.Content)
		case *message.Image:
			fmt.Fprintf(w, " image(%s %d %s)", b.MIME, len(b.Data), b.URL)
		case *message.File:
			fmt.Fprintf(w, " file(%s %s %q%s)", b.MIME, b.Name, b.Data, b.URL)
		}
		if b.Base().Meta.Fields != nil {
			fmt.Fprintf(w, "+%s", b.Base().Meta.Fields)
		}
	}
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	return b
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got = strings.TrimSpace(got); got != strings.TrimSpace(want) {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func told(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		e := *fault.Of(err)
		e.Remedy = ""
		fmt.Fprintln(&b, e.Code, e.Error())
	}
	return b.String()
}

func TestChatGPT(t *testing.T) {
	chats, errs := read(t, bytes.NewReader(file(t, "chatgpt.json")), importexport.Options{Name: "x.json"})
	same(t, told(errs), `
import_chat_broken x.json, line 71: conversation 2 ("Handmade: broken") cannot be read: mapping.x.children has an unexpected form
import_chat_empty the conversation "Handmade: empty" has no messages`)
	if len(chats) != 2 || chats[0].Number != 1 || chats[1].Number != 4 {
		t.Fatalf("%d chats", len(chats))
	}
	if c := chats[0]; c.Created.Format(time.RFC3339Nano) != "2023-11-14T22:13:20.123456Z" || c.Updated.Unix() != 1700000100 {
		t.Errorf("times: %v %v", c.Created, c.Updated)
	}
	same(t, dump(chats[0]), `
chatgpt "Handmade: tides" from c0ffee openai/gpt-4o
0<-1 system "About the user:\nI sail."! "Custom instructions:\nBe short."! +{"id":"ctx","metadata":{"is_visually_hidden_from_conversation":true}}
1<0 user opens "[picture file-AbC123, not in the export]"! "When is high tide in this picture?" "Tell me quickly." "[recording file_00aa, not in the export]"! "[moon_phase]\n{\"content_type\": \"moon_phase\", \"phase\": 3}"! "[file table.pdf, not in the export]"! +{"id":"u1","metadata":{"attachments":[{"id":"file-AbC123","name":"tide.png","mime_type":"image/png"},{"id":"file-Doc9","name":"table.pdf"}]}}
2<1 assistant final openai/gpt-4 cancelled "At noon."! +{"id":"a1","metadata":{"model_slug":"gpt-4","finish_details":{"type":"interrupted"}}}
3<1 assistant openai/o3 (Looking
I look at the moon.) +{"id":"t1","metadata":{"model_slug":"o3"}}
4<3 assistant openai/gpt-4o (Thought for 3s) +{"id":"r1"}
5<4 assistant openai/o3 tools python[]{"code":"print(12)"} +{"id":"c1","metadata":{"model_slug":"o3"}}
6<5 tool python[]=ok "12"! "and a plot"! +{"id":"o1","metadata":{"aggregate_result":{"status":"success"}}}
7<6 user "[result of browser]\n"! "Tides\nhttps://tides.example\nHigh at 12."! +{"id":"q1"}
8<7 assistant openai/gpt-4o tools web.run[]{"q":"moon"} +{"id":"b1"}
9<8 tool web.run[]=error "Timeout\nno answer"! +{"id":"e1"}
10<9 assistant final openai/o3 length "High tide is at 12."! +{"id":"a2","metadata":{"model_slug":"o3","finish_details":{"type":"max_tokens"}}}
11<10 user opens current "Thanks!" +{"id":"u2"}
- a picture that is not in the export is named in its message
- a recording that is not in the export is named in its message
- content of the type "moon_phase" is kept as text
- a file that is not in the export is named in its message
- fields of the conversation that are not kept: gizmo_id
- a result without a call is kept as text`)
	same(t, dump(chats[1]), `
chatgpt "Handmade: rings and strays" from c1 
0<-1 user opens "one"
1<0 assistant final current "two"!
2<1 system "Memory:\nLikes boats."!
3<2 assistant "[hologram]\n{\"content_type\":\"hologram\",\"rays\":7}"!
4<3 assistant tools "!"! dalle.text2im[]{"input":"draw"}
5<4 tool dalle.text2im[]=interrupted "The export has no result for this call."!
6<5 user "hm"!
7<-1 user opens "ring"
8<7 assistant final "ring"!
- messages that form a cycle are kept, and the cycle is cut before the oldest
- content of the type "hologram" is kept as text
- a message of the unknown role "critic" is kept as foreign text
- a call without a result is marked as interrupted`)
}

func TestClaude(t *testing.T) {
	chats, errs := read(t, bytes.NewReader(file(t, "claude.json")), importexport.Options{Name: "x.json"})
	same(t, told(errs), `import_chat_empty the conversation "Handmade: empty" has no messages`)
	var all string
	for _, c := range chats {
		all += dump(c)
	}
	same(t, all, `
claude "Handmade: a report" from 11111111-0000-4000-8000-000000000001 
0<-1 user opens "Read it." file(text/markdown report.md "# Report\nAll is well.") "[file empty.docx, not in the export]"! "[file photo.png, not in the export]"!
1<0 assistant tools (I should look.)+{"summaries":[{"summary":"Looking."}]} "Let me look."!+{"citations":[{"url":"https://example.org"}]} view[toolu_1]{"path":"report.md"}+{"message":"Viewing"} lost[toolu_2]{}
2<1 tool view[toolu_1]=ok "All is well."! image(image/png 8 ) "{\"type\": \"knowledge\", \"title\": \"T\", \"url\": \"https://example.org\"}"!
3<2 tool lost[toolu_2]=interrupted "The export has no result for this call."!
4<3 user "[result of never]\n"! "Nobody asked."!
5<4 assistant final "[hologram]\n{\"type\": \"hologram\", \"rays\": 7}"! "It says all is well."!
6<0 assistant final "It says something else."!
7<6 user opens current "Thanks."
- a file that is not in the export is named in its message (2 times)
- part of a result of the type "knowledge" is kept as text
- a mark of the token budget is left out
- content of the type "hologram" is kept as text
- fields of the conversation that are not kept: account, summary
- a result without a call is kept as text
- a call without a result is marked as interrupted
claude "Handmade: old, without content" from 33333333-0000-4000-8000-000000000003 
0<-1 user opens "Hello"
1<0 assistant final current "Hi there"!
claude "Handmade: rings" from 55555555-0000-4000-8000-000000000005 
0<-1 user opens "A"
1<0 assistant final "B"!
2<-1 user opens "R"
3<2 assistant final "R"!
4<3 user "Z"!
5<4 user opens current "mine" "[tool_use]\n{\"type\": \"tool_use\", \"id\": \"u\", \"name\": \"n\", \"input\": {}}"!
- messages that form a cycle are kept, and the cycle is cut before the oldest
- a message whose predecessor is missing follows the one before it
- a message of the unknown sender "bot" is kept as foreign text
- content of the type "tool_use" is kept as text`)
}

// endless repeats a text for ever, and calls after once it was read so many times.
type endless struct {
	text   string
	reads  int
	cancel context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	if e.reads--; e.reads == 0 {
		e.cancel()
	}
	return copy(p, e.text), nil
}

// TestAnImportEndsWithItsRequest: whatever a file holds, its reading ends once nobody waits for it.
func TestAnImportEndsWithItsRequest(t *testing.T) {
	for name, c := range map[string][2]string{ // the beginning, and what follows for ever
		"broken lines":  {"{\"messages\":[]}\n", "{\"messages\": broken}\n"},
		"odd values":    {"", "{\"a\":1}\n"},
		"conversations": {"", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n"},
		"blanks":        {"[", "          "},
		"a long text":   {"[\"", "aaaaaaaaaa"},
		"many values":   {"{\"mapping\":[", "1, 2, 3,  "},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		in := io.MultiReader(strings.NewReader(c[0]), &endless{c[1], 1000, cancel})
		var last error
		for _, err := range importexport.Read(ctx, in, importexport.Options{MaxTotal: 1 << 40, Codecs: codecs()}) {
			last = err
		}
		cancel()
		if !fault.Is(last, fault.Cancelled) {
			t.Errorf("%s: %v", name, last)
		}
	}
}
