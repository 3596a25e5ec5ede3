package importexport_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/test/messagetest"
	_ "steward/test/seed"
)

func all(chats []*importexport.Chat) string {
	var b strings.Builder
	for _, c := range chats {
		b.WriteString(dump(c))
	}
	return b.String()
}

// Read detects the format from the content, for all formats.
func TestFormats(t *testing.T) {
	for _, c := range []struct{ name, in, chats, errs string }{
		{"plain", `[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},{"role":"user","content":" "},{"role":"user","content":"Bye"}]`, `
plain "" from  
0<-1 user opens "Hi"
1<0 assistant final "Hello"!
2<1 user opens current "Bye"
- an empty message is left out`, ``},
		{"a mark of byte order", "\xef\xbb\xbf [{\"role\":\"system\",\"content\":\"Be nice\"}]", `
plain "" from  
0<-1 system current "Be nice"!`, ``},
		{"openai", `{"id":"c1","title":"T","model":"gpt-4","created":1700000000,"messages":[
{"role":"developer","content":"Be brief"},
{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
 {"type":"image_url","image_url":{"url":"https://x.example/a.jpg?x=1"}},{"type":"input_image","image_url":"https://x.example/b"},
 {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}},{"type":"file","file":{"filename":"n.txt","file_url":"https://x.example/n.txt"}},
 {"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},{"type":"hologram","rays":7},"bare"]},
{"role":"assistant","reasoning_content":"Hm.","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"feel","arguments":{"y":2}}},{"id":"e","type":"custom","custom":{"name":"sing","input":"la"}},{"id":"f","type":"dance"}]},
{"role":"tool","tool_call_id":"b","content":"soft"},
{"role":"tool","tool_call_id":"a","name":"look","content":[{"type":"text","text":"grey"}]},
{"role":"tool","tool_call_id":"zz","content":"stray"},
{"role":"assistant","content":null,"function_call":{"name":"old","arguments":"{}"}},
{"role":"function","name":"old","content":"worked"},
{"role":"assistant","content":"A stone.","refusal":null,"name":"stoner","annotations":[]},
{"role":"user","content":"More"},
{"role":"assistant","content":"","refusal":"No."},
{"role":"narrator","content":7},
{"role":"assistant","content":null,"tool_calls":[{"id":"g","type":"function","function":{"name":"","arguments":""}}]}]}`, `
openai "T" from c1 gpt-4
0<-1 system "Be brief"! +{"role":"developer"}
1<0 user opens "What is this?" image(image/png 8 ) image(image/jpeg 0 https://x.example/a.jpg?x=1) image(image/* 0 https://x.example/b) file(application/pdf a.pdf "%PDF-") file(text/plain n.txt ""https://x.example/n.txt) file(audio/wav  "RIFF") "[hologram]\n{\"type\":\"hologram\",\"rays\":7}"! "bare"
2<1 assistant gpt-4 tools (Hm.)+{"field":"reasoning_content"} look[a]{"x":1} feel[b]{"y":2} sing[e]la "[call]\n{\"id\":\"f\",\"type\":\"dance\"}"!
3<2 tool feel[b]=ok "soft"!
4<3 tool look[a]=ok "grey"!
5<4 tool sing[e]=interrupted "The export has no result for this call."!
6<5 user "[result of a tool]\n"! "stray"!
7<6 assistant gpt-4 tools old[call_c34f3f08b647-0]{}
8<7 tool old[call_c34f3f08b647-0]=ok "worked"!
9<8 assistant final gpt-4 "A stone."! +{"name":"stoner"}
10<9 user opens "More"
11<10 assistant final gpt-4 refused "No."!+{"refusal":true}
12<11 user "7"!
13<12 assistant gpt-4 tools unnamed[g]
14<13 tool current unnamed[g]=interrupted "The export has no result for this call."!
- content of the type "hologram" is kept as text
- a call of something other than a function is kept as text
- a result without a call is kept as text
- a call without a result is marked as interrupted (2 times)
- content that is neither text nor a list is kept as text
- a message of the unknown role "narrator" is kept as foreign text`, ``},
		{"several chats in a list", `[{"messages":[{"role":"user","content":"a"}]},{"messages":[{"content":"b"}]},{"x":1},[{"role":"user","content":"c"}],{"messages":[]}]`, `
plain "" from  
0<-1 user opens current "a"
plain "" from  
0<-1 user opens current "c"`, `
import_chat_broken x, byte 46: conversation 2 cannot be read: one of its messages has no role or no content
import_chat_broken x, byte 77: not a conversation in a known format
import_chat_empty the conversation has no messages`},
		{"chats on lines", `{"messages":[{"role":"user","content":"a"}]}
{"messages":

[{"role":"user","content":"b"}]
{"mapping":{"u":{"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["c"]}}}}}
`, `
plain "" from  
0<-1 user opens current "a"
plain "" from  
0<-1 user opens current "b"
chatgpt "" from  
0<-1 user opens current "c"`, `
import_chat_broken x: line 2 is not valid JSON`},
		{"messages on lines", `{"role":"user","content":"a"}
{"role":"assistant","content":"b"}
{"role":"user","content":"c"}`, `
plain "" from  
0<-1 user opens "a"
1<0 assistant final "b"!
2<1 user opens current "c"`, ``},
		{"one behind the other", "{\"messages\":[\n{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[\n{\"role\":\"user\",\"content\":\"b\"}]}", `
plain "" from  
0<-1 user opens current "a"
plain "" from  
0<-1 user opens current "b"`, ``},
		{"wrapped", `{"account":{"email":"x"},"conversations":[{"uuid":"u","chat_messages":[{"sender":"human","text":"a"}]}],"more":1}`, `
claude "" from u 
0<-1 user opens current "a"`, ``},
		{"strange ones first", `[{"x":1},{"messages":[{"role":"user","content":"a"}]}]`, `
plain "" from  
0<-1 user opens current "a"`, `
import_chat_broken x, byte 1: not a conversation in a known format`},
		{"a lone Claude", `{"uuid":"u","name":"N","current_leaf_message_uuid":"a","chat_messages":[{"uuid":"a","sender":"human","text":"a"},{"uuid":"b","sender":"human","text":"b","parent_message_uuid":"00000000-0000-4000-8000-000000000000"}]}`, `
claude "N" from u 
0<-1 user opens current "a"
1<-1 user opens "b"`, ``},
		{"names twice and broken text", "[{\"role\":\"user\",\"role\":\"user\",\"content\":\"\xff\",\"x\":{\"a\":1,\"a\":2}}]", `
openai "" from  
0<-1 user opens current "�" +{"x":"{\"a\":1,\"a\":2}"}`, ``},
		{"a result that breaks the order", `[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"},{"role":"tool","tool_call_id":"1","content":"late"}]`, `
openai "" from  
0<-1 assistant tools f[1]{}
1<0 tool f[1]=interrupted "The export has no result for this call."!
2<1 user opens "x"
3<2 user current "[result of a tool]\n"! "late"!
- a call without a result is marked as interrupted
- a result without a call is kept as text`, ``},
		{"cut off", `[{"messages":[{"role":"user","content":"a"}]},{"messages":[{"ro`, `
plain "" from  
0<-1 user opens current "a"`, `import_not_json x, byte 46: it ends in the middle`},
		{"cut off behind a comma", `[{"messages":[{"role":"user","content":"a"}]},`, `
plain "" from  
0<-1 user opens current "a"`, `import_not_json x, byte 46: it ends in the middle`},
		{"cut off before a comma", `[{"messages":[{"role":"user","content":"a"}]}`, `
plain "" from  
0<-1 user opens current "a"`, `import_not_json x, byte 45: it ends in the middle`},
		{"no comma", `[{"messages":[{"role":"user","content":"a"}]} {}]`, `
plain "" from  
0<-1 user opens current "a"`, `import_not_json x, byte 46: it is not valid JSON: invalid character '{' after array element (expecting ',' or ']')`},
		{"nothing", ``, ``, `import_format_unknown x contains no conversation in a known format`},
		{"something else", `[1,true,"a",null]`, ``, `import_format_unknown x contains no conversation in a known format`},
		{"a text", `Hello`, ``, `import_format_unknown x contains no conversation in a known format: it is not valid JSON`},
		{"gzip", "\x1f\x8b\x08\x00", ``, `import_format_unknown x is packed with gzip`},
		{"UTF-16", "\xff\xfe[\x00", ``, `import_format_unknown x is written in UTF-16`},
		{"a zip that is none", "PK\x03\x04 and so on", ``, `import_archive_broken x is not a readable zip file: zip: not a valid zip file`},
	} {
		t.Run(c.name, func(t *testing.T) {
			chats, errs := read(t, strings.NewReader(c.in), importexport.Options{Name: "x"})
			same(t, all(chats), c.chats)
			same(t, told(errs), c.errs)
			// The result does not depend on how the stream is split into reads.
			again, errs2 := read(t, iotest.OneByteReader(strings.NewReader(c.in)), importexport.Options{Name: "x"})
			if all(chats) != all(again) || told(errs) != told(errs2) {
				t.Errorf("byte by byte it is\n%s%s", all(again), told(errs2))
			}
		})
	}
}

func TestFormatIsHeeded(t *testing.T) {
	for _, c := range []struct{ format, in, code string }{
		{importexport.Claude, `[{"role":"user","content":"a"}]`, "import_format_unknown"},
		{importexport.Claude, `{"messages":[{"role":"user","content":"a"}]}`, "import_format_other"},
		{importexport.ChatGPT, `{"messages":[{"role":"user","content":"a"}]}`, "import_format_other"},
		{importexport.ChatGPT, `{"steward_export":2,"id":"x"}`, "import_format_other"},
		{importexport.Plain, `{"messages":[{"role":"user","content":"a"}]}`, ""},
		{importexport.OpenAI, `[{"role":"user","content":"a"}]`, ""},
		{"word", `[{"role":"user","content":"a"}]`, "import_format_unknown"},
	} {
		chats, errs := read(t, strings.NewReader(c.in), importexport.Options{Format: c.format})
		if c.code == "" && len(chats) != 1 || c.code != "" && (len(errs) != 1 || fault.Of(errs[0]).Code != c.code) {
			t.Errorf("%s: %d chats, %v", c.format, len(chats), errs)
		}
	}
}

// Chats that are too large are skipped, and the following ones are read.
func TestBounds(t *testing.T) {
	big := strings.Repeat("x", 3000)
	small := `{"messages":[{"role":"user","content":"a"}]}`
	large := `{"messages":[{"role":"user","content":"` + big + `"}]}`
	for name, c := range map[string]struct{ in, want string }{
		"in a list":          {`[` + small + `,` + large + `,` + small + `]`, "3 import_too_large"},
		"as an object":       {strings.Replace(large, "{", "{\n", 1) + small, "2 import_too_large"},
		"a member of one":    {"{\n\"a\":1,\"x\":\"" + big + "\",\"b\":[1,2]}" + small, "2 import_too_large"},
		"on a line":          {small + "\n" + large + "\n" + small, "3 import_too_large"},
		"a list of messages": {`[` + strings.Repeat(`{"role":"user","content":"`+big[:400]+`"},`, 6) + `]`, "0 import_too_large"},
		"messages on lines":  {strings.Repeat(`{"role":"user","content":"`+big[:400]+`"}`+"\n", 6), "0 import_too_large"},
		"all of it":          {`[` + strings.Repeat(small+",", 2000) + small + `]`, "1955 import_too_large"},
	} {
		chats, errs := read(t, strings.NewReader(c.in), importexport.Options{MaxChat: 2000, MaxTotal: 88000})
		number := 0
		for _, x := range chats {
			number = x.Number
		}
		if len(errs) != 1 || fmt.Sprint(number, " ", fault.Of(errs[0]).Code) != c.want {
			t.Errorf("%s: chat %d is the last, %v", name, number, errs)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, in := range []io.Reader{
		iotest.ErrReader(errors.New("the cable")),
		io.MultiReader(strings.NewReader(`[{"messages":`), iotest.ErrReader(errors.New("the cable"))),
		io.MultiReader(strings.NewReader("PK\x03\x04"), iotest.ErrReader(errors.New("the cable"))),
		io.MultiReader(strings.NewReader(`{"messages":[]}`+"\n"+`{"a`), iotest.ErrReader(errors.New("the cable"))),
	} {
		_, errs := read(t, in, importexport.Options{})
		if len(errs) == 0 || fault.Of(errs[len(errs)-1]).Code != "import_unreadable" {
			t.Errorf("%v", errs)
		}
	}
	own := fault.New(fault.TooLarge, "too_large", "no more").WithHint("send less")
	if _, errs := read(t, io.MultiReader(strings.NewReader("[{"), iotest.ErrReader(own)), importexport.Options{}); len(errs) != 1 || !fault.HasCode(errs[0], "too_large") {
		t.Errorf("%v", errs)
	}
}

// Read stops when the caller stops the iteration.
func TestStop(t *testing.T) {
	for _, in := range []string{
		`[{"x":1},{"messages":[{"role":"user","content":"a"}]},{"messages":[]}]`,
		`{"messages":[{"role":"user","content":"a"}]}` + "\n" + `{"messages":[]}`,
		`{"conversations":[{"messages":[]},{"messages":[]}]}`,
		string(archive(t, map[string]string{"a/conversations.json": `[{"messages":[]},{"messages":[]}]`, "b/conversations.json": `[{"messages":[]}]`})),
	} {
		n := 0
		for range importexport.Read(context.Background(), strings.NewReader(in), importexport.Options{Codecs: codecs()}) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%.20s: %d", in, n)
		}
	}
}

func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		must(t, err)
		must(t, second(io.WriteString(f, text)))
	}
	must(t, w.Close())
	return b.Bytes()
}

func TestZip(t *testing.T) {
	chat := `[{"title":"Pictures","mapping":{"u":{"message":{"author":{"role":"user"},"metadata":{"attachments":[{"id":"file-Doc","name":"table.pdf"},{"id":"file-Gone","name":"gone.txt"}]},"content":{"content_type":"multimodal_text","parts":[
{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-AbC"},{"content_type":"audio_asset_pointer","asset_pointer":"sediment://file_00"},{"content_type":"image_asset_pointer","asset_pointer":"sediment://file_big"}]}}}}}]`
	files := map[string]string{
		"export/conversations.json":     chat,
		"export/conversations-001.json": `[{"messages":[{"role":"user","content":"second"}]}]`,
		"export/user.json":              `{"id":"u"}`,
		"../../etc/passwd\n":            "x",
		"export/file-AbC-my.png":        "\x89PNG\r\n\x1a\n!",
		"export/file_00.dat":            "RIFF____WEBPVP8 ",
		"export/file-Doc-table.pdf":     "%PDF-",
		"export/file_big.png":           strings.Repeat("x", 4000),
		"export/dir/":                   "",
	}
	for i := range 9 {
		files[fmt.Sprintf("other/%d.html", i)] = "x"
	}
	z := archive(t, files)
	var said []string
	o := importexport.Options{Name: "x.zip", MaxChat: 3000, Tell: func(s string) { said = append(said, s) }}
	want := `
openai "" from  
0<-1 user opens current "second"
chatgpt "Pictures" from  
0<-1 user opens current image(image/png 9 ) image(image/webp 16 ) "[picture file_big, not in the export]"! file(application/pdf table.pdf "%PDF-") "[file gone.txt, not in the export]"! +{"metadata":{"attachments":[{"id":"file-Doc","name":"table.pdf"},{"id":"file-Gone","name":"gone.txt"}]}}
- a picture that is not in the export is named in its message
- a file that is not in the export is named in its message`
	want = strings.Replace(want, "openai", "plain", 1)
	chats, errs := read(t, bytes.NewReader(z), o)
	same(t, all(chats), want)
	same(t, told(errs), "")
	if len(said) != 1 || !strings.Contains(said[0], "and 3 more") || strings.Contains(said[0], "..") || strings.Contains(said[0], "\n") || strings.Contains(said[0], "AbC") {
		t.Errorf("%q", said)
	}
	// The same from a file, which is read in place.
	path := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(path, z, 0o600))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	chats, _ = read(t, f, o)
	same(t, all(chats), want)
}

func TestZipBounds(t *testing.T) {
	bomb := archive(t, map[string]string{"a/conversations.json": `[{"messages":[{"role":"user","content":"a"}]},"` + strings.Repeat("0", 5<<20) + `"]`})
	if len(bomb) > 10<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	chats, errs := read(t, bytes.NewReader(bomb), importexport.Options{MaxTotal: 1 << 20})
	if len(chats) != 1 || len(errs) != 1 || !fault.HasCode(errs[0], "import_too_large") {
		t.Errorf("%d chats, %v", len(chats), errs)
	}
	// Two files share the limit.
	half := `[{"messages":[{"role":"user","content":"` + strings.Repeat("0", 600<<10) + `"}]}]`
	chats, errs = read(t, bytes.NewReader(archive(t, map[string]string{"conversations-1.json": half, "conversations-2.json": half})), importexport.Options{MaxTotal: 1 << 20})
	if len(chats) != 1 || len(errs) != 1 || !fault.HasCode(errs[0], "import_too_large") {
		t.Errorf("%d chats, %v", len(chats), errs)
	}
	// An archive that is itself too large.
	_, errs = read(t, bytes.NewReader(bomb), importexport.Options{MaxTotal: 100})
	if len(errs) != 1 || !fault.HasCode(errs[0], "import_too_large") {
		t.Errorf("%v", errs)
	}
	_, errs = read(t, bytes.NewReader(bomb), importexport.Options{TempDir: filepath.Join(t.TempDir(), "no", "such")})
	if len(errs) != 1 || !fault.HasCode(errs[0], "import_unreadable") {
		t.Errorf("%v", errs)
	}
	_, errs = read(t, bytes.NewReader(archive(t, map[string]string{"a.txt": "x", "b.json": "{}"})), importexport.Options{})
	if len(errs) != 1 || !fault.HasCode(errs[0], "import_format_unknown") {
		t.Errorf("%v", errs)
	}
	// Without a conversations.json, whatever looks like JSON is tried.
	chats, errs = read(t, bytes.NewReader(archive(t, map[string]string{"a.jsonl": `{"role":"user","content":"x"}`, "b.json": "not so"})), importexport.Options{})
	if len(chats) != 1 || len(errs) != 0 {
		t.Errorf("%d chats, %v", len(chats), errs)
	}
	// A damaged member.
	z := archive(t, map[string]string{"conversations.json": `[{"messages":[{"role":"user","content":"` + strings.Repeat("ab", 500) + `"}]}]`})
	z[60] ^= 0xff
	if chats, errs = read(t, bytes.NewReader(z), importexport.Options{}); len(errs) == 0 {
		t.Errorf("%d chats, %v", len(chats), errs)
	}
}

// For any history, reading a list of messages returns every text, call and result, in
// order.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := messagetest.History().Draw(t, "history")
		var list []map[string]any
		var said []string
		for i, m := range history {
			o := map[string]any{"role": string(m.Role), "content": fmt.Sprint("text ", i)}
			var calls []any
			for _, c := range m.Calls() {
				ref := fmt.Sprint(c.Message, "-", c.Block)
				calls = append(calls, map[string]any{"id": ref, "type": "function", "function": map[string]any{"name": c.Name, "arguments": "{}"}})
			}
			if calls != nil {
				o["tool_calls"] = calls
			}
			if r := m.Result(); r != nil {
				o["tool_call_id"] = fmt.Sprint(r.Call.Message, "-", r.Call.Block)
			}
			list = append(list, o)
			said = append(said, fmt.Sprint(m.Role, " text ", i, " ", len(calls)))
		}
		raw, err := json.Marshal(list)
		must(t, err)
		var got []string
		for c, err := range importexport.Read(context.Background(), bytes.NewReader(raw), importexport.Options{Codecs: codecs()}) {
			must(t, err)
			for _, n := range c.Nodes {
				if r := n.Message.Result(); r == nil || r.Status != message.Interrupted {
					got = append(got, fmt.Sprint(n.Message.Role, " ", n.Message.Text(), " ", len(n.Message.Calls())))
				}
			}
		}
		if !slices.Equal(got, said) {
			t.Fatalf("%q\nbecame\n%q", said, got)
		}
	})
}
