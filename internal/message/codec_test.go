package message_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/test/messagetest"
	_ "steward/test/seed"
)

func TestWhatIsAppendedIsDecodedEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messagetest.Message().Draw(t, "message")
		if err := message.Validate(m); err != nil {
			t.Fatalf("the generator made an invalid message: %v", err)
		}
		b := message.Append(nil, m)
		if !json.Valid(b) {
			t.Fatalf("no JSON: %s", b)
		}
		got, err := message.Decode(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if !reflect.DeepEqual(m, got) {
			t.Fatalf("decoded %#v\nwant %#v\nfrom %s", got, m, b)
		}
		if again := message.Append(nil, got); !bytes.Equal(b, again) {
			t.Fatalf("appended again:\n%s\nwant\n%s", again, b)
		}
		blocks, err := message.DecodeBlocks(message.AppendBlocks(nil, m.Blocks))
		if err != nil || !reflect.DeepEqual(blocks, m.Blocks) {
			t.Fatalf("blocks alone: %#v, %v", blocks, err)
		}
	})
}

// whole is a message with every member set.
func whole() *message.Message {
	return &message.Message{
		ID: id.Derive("a"), Prev: id.Derive("b"), Role: message.Assistant, At: time.UnixMicro(1763740000123456).UTC(),
		Blocks: []message.Block{
			&message.Reasoning{Common: message.Common{Meta: message.Meta{Provider: "anthropic", Fields: []byte(`{"signature": "x"}`)}}, Text: "hm"},
			&message.Text{Common: message.Common{Origin: "model:a/b", Labels: message.Private | message.Secret, Unknown: []byte(`"new":[ 1]`)}, Text: "a \"b\"\n"},
			&message.ToolCall{CallID: "c1", Name: "math.add", Args: []byte(`{"a":1}`)},
		},
		Model: "a/b", Stop: message.StopTools, Usage: message.Usage{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5},
		Approach: "direct", Took: 12 * time.Millisecond, Turn: message.Usage{Input: 9}, Unknown: []byte(`"later":{"x":1}`),
	}
}

func TestTheStoredForm(t *testing.T) {
	got := string(message.Append(nil, whole()))
	a, b := id.Derive("a").String(), id.Derive("b").String()
	full := `{"id":"` + a + `","role":"assistant","at":1763740000123456,"prev":"` + b + `","blocks":[` +
		`{"type":"reasoning","text":"hm","meta":{"provider":"anthropic","fields":{"signature": "x"}}},` +
		`{"type":"text","text":"a \"b\"\n","origin":"model:a/b","labels":["private","secret"],"new":[ 1]},` +
		`{"type":"tool_call","call_id":"c1","name":"math.add","args":"{\"a\":1}"}],` +
		`"model":"a/b","stop":"tools","usage":{"input":1,"output":2,"reasoning":3,"cache_read":4,"cache_write":5},` +
		`"approach":"direct","took_ms":12,"turn_usage":{"input":9},"later":{"x":1}}`
	if got != full {
		t.Errorf("got  %s\nwant %s", got, full)
	}
	tool := &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
		Call: message.Ref{Message: id.Derive("a"), Block: 2}, CallID: "c1", Name: "math.add", Status: message.OK, Rest: "cld:a.B.c", Denied: []string{"a.b", "c.d"},
		Content: []message.Block{&message.Image{MIME: "image/png", Data: []byte{0, 255}}, &message.File{MIME: "text/plain", Name: "n", URL: "u"}},
	}}}
	full = `{"role":"tool","blocks":[{"type":"tool_result","call":"` + a + `/2","call_id":"c1","name":"math.add","status":"ok",` +
		`"content":[{"type":"image","mime":"image/png","data":"AP8="},{"type":"file","mime":"text/plain","name":"n","url":"u"}],"rest":"cld:a.B.c","denied":["a.b","c.d"]}]}`
	if got := string(message.Append(nil, tool)); got != full {
		t.Errorf("got  %s\nwant %s", got, full)
	}
	if got := string(message.Append([]byte("x"), &message.Message{})); got != "x{}" {
		t.Errorf("the zero message is %s", got)
	}
}

func TestDecodeIsFreeInSpaceAndOrderAndKeepsTheUnknown(t *testing.T) {
	in := "\n { \"z\" : { \"a\" : [ 1 , \"]\" ] } , \"blocks\" : [ { \"b\\u006fld\" : true , \"text\" : \"\\u0061\\\\\" , \"type\" : \"text\" } ,\t{\"type\":\"reasoning\"}] , \"final\" : false ,\"r\\u006fle\":\"assistant\", \"n\" : -1.5e3 } \n"
	m, err := message.Decode([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if m.Role != message.Assistant || m.Text() != `a\` || len(m.Blocks) != 2 {
		t.Errorf("decoded %#v", m)
	}
	if got := string(m.Unknown); got != `"z":{ "a" : [ 1 , "]" ] },"n":-1.5e3` {
		t.Errorf("unknown members: %s", got)
	}
	if got := string(m.Blocks[0].Base().Unknown); got != `"b\u006fld":true` {
		t.Errorf("unknown members of the block: %s", got)
	}
	if got := string(message.Append(nil, m)); got != `{"role":"assistant","blocks":[{"type":"text","text":"a\\","b\u006fld":true},{"type":"reasoning"}],"z":{ "a" : [ 1 , "]" ] },"n":-1.5e3}` {
		t.Errorf("appended: %s", got)
	}
	for _, empty := range []string{"[]", " [ ] "} {
		if blocks, err := message.DecodeBlocks([]byte(empty)); err != nil || len(blocks) != 0 {
			t.Errorf("DecodeBlocks(%q) = %v, %v", empty, blocks, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	block := func(s string) string { return `{"blocks":[` + s + `]}` }
	for _, c := range []struct{ in, code string }{
		{``, "message_invalid"},
		{`{`, "message_invalid"},
		{`{}{}`, "message_invalid"},
		{`{"id":}`, "message_invalid"},
		{`{"role":"user",}`, "message_invalid"},
		{`"x"`, "message_member_invalid"},
		{`[]`, "message_member_invalid"},
		{`null`, "message_member_invalid"},
		{`{"role":"user","role":"user"}`, "message_name_repeated"},
		{`{"role":"user","r\u006fle":"user"}`, "message_name_repeated"},
		{`{"x":{"a":1,"a":2}}`, "message_name_repeated"},
		{"{\"model\":\"\xff\"}", "message_utf8_invalid"},
		{`{"model":"\ud800"}`, "message_invalid"},
		{`{"role":"admin"}`, "message_role_unknown"},
		{`{"role":""}`, "message_role_unknown"},
		{`{"role":1}`, "message_member_invalid"},
		{`{"stop":"tired"}`, "message_stop_unknown"},
		{`{"id":"x"}`, "message_member_invalid"},
		{`{"id":7}`, "message_member_invalid"},
		{`{"prev":"0198C9A2-7F3E-7B11-8C7E-5A3F1D2B4C6D"}`, "message_member_invalid"},
		{`{"at":1.5}`, "message_member_invalid"},
		{`{"at":"now"}`, "message_member_invalid"},
		{`{"at":99999999999999999999}`, "message_member_invalid"},
		{`{"took_ms":9223372036854775807}`, "message_member_invalid"},
		{`{"took_ms":null}`, "message_member_invalid"},
		{`{"final":1}`, "message_member_invalid"},
		{`{"final":null}`, "message_member_invalid"},
		{`{"model":null}`, "message_member_invalid"},
		{`{"approach":{}}`, "message_member_invalid"},
		{`{"usage":[]}`, "message_member_invalid"},
		{`{"usage":{"input":"1"}}`, "message_member_invalid"},
		{`{"usage":{"audio":1}}`, "message_member_unknown"},
		{`{"meta":1}`, "message_member_invalid"},
		{`{"meta":{"fields":[]}}`, "message_member_invalid"},
		{`{"meta":{"fields":null}}`, "message_member_invalid"},
		{`{"meta":{"other":1}}`, "message_member_unknown"},
		{`{"blocks":{}}`, "message_member_invalid"},
		{block(`1`), "message_member_invalid"},
		{block(`{}`), "message_member_invalid"},
		{block(`{"type":1}`), "message_member_invalid"},
		{block(`{"type":"hologram","data":1}`), "message_block_unknown"},
		{block(`{"type":"text","text":1}`), "message_member_invalid"},
		{block(`{"type":"reasoning","text":[]}`), "message_member_invalid"},
		{block(`{"type":"text","origin":1}`), "message_member_invalid"},
		{block(`{"type":"text","labels":"private"}`), "message_member_invalid"},
		{block(`{"type":"text","labels":[1]}`), "message_member_invalid"},
		{block(`{"type":"text","labels":["public"]}`), "message_label_unknown"},
		{block(`{"type":"text","meta":""}`), "message_member_invalid"},
		{block(`{"type":"tool_call","args":{"a":1}}`), "message_member_invalid"},
		{block(`{"type":"tool_call","name":1}`), "message_member_invalid"},
		{block(`{"type":"tool_result","call":1}`), "message_member_invalid"},
		{block(`{"type":"tool_result","call":"x/1"}`), "message_member_invalid"},
		{block(`{"type":"tool_result","status":"great"}`), "message_status_unknown"},
		{block(`{"type":"tool_result","content":[{"type":"tool_result"}]}`), "message_result_content"},
		{block(`{"type":"tool_result","content":[{"type":"reasoning"}]}`), "message_result_content"},
		{block(`{"type":"image","data":"!"}`), "message_member_invalid"},
		{block(`{"type":"image","data":1}`), "message_member_invalid"},
		{block(`{"type":"file","data":"QQ"}`), "message_member_invalid"},
		{block(`{"type":"file","name":1}`), "message_member_invalid"},
	} {
		before := c.in
		m, err := message.Decode([]byte(c.in))
		if !fault.HasCode(err, c.code) || m != nil {
			t.Errorf("Decode(%s) = %v, %v; want the code %s", c.in, m, err, c.code)
		}
		if err != nil && (fault.Is(err, fault.Internal) || err.Error() == "") {
			t.Errorf("Decode(%s): %#v", c.in, err)
		}
		if c.in != before {
			t.Errorf("the input was changed")
		}
	}
	if _, err := message.DecodeBlocks([]byte(`[{"type":"text"`)); !fault.HasCode(err, "message_invalid") {
		t.Errorf("DecodeBlocks: %v", err)
	}
	if _, err := message.DecodeBlocks([]byte(`{}`)); !fault.HasCode(err, "message_member_invalid") {
		t.Errorf("DecodeBlocks: %v", err)
	}
}

func TestDecodeDoesNotHoldOnToItsInput(t *testing.T) {
	m := whole()
	m.Meta = message.Meta{Provider: "p", Fields: []byte(`{"k":"v"}`)}
	b := message.Append(nil, m)
	got, err := message.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = '#'
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("changed with the input: %s", message.Append(nil, got))
	}
}

// Nesting is bounded, so a hostile input is refused.
func TestDeepInput(t *testing.T) {
	deep := strings.Repeat(`{"type":"tool_result","content":[`, 3000) + strings.Repeat(`]}`, 3000)
	if _, err := message.DecodeBlocks([]byte("[" + deep + "]")); !fault.HasCode(err, "message_result_content") {
		t.Errorf("deep results: %v", err)
	}
	array := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	if _, err := message.Decode([]byte(`{"x":` + array + `}`)); !fault.HasCode(err, "message_invalid") {
		t.Errorf("deep arrays: %v", err)
	}
}

func TestAppendNeverLosesALabelInSilence(t *testing.T) {
	m := &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Labels: 1 << 6}}}}
	if _, err := message.Decode(message.Append(nil, m)); !fault.HasCode(err, "message_label_unknown") {
		t.Errorf("an unknown label: %v", err)
	}
}

func TestRefs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := message.Ref{Message: messagetest.ID().Draw(t, "id"), Block: rapid.IntRange(0, 1<<40).Draw(t, "block")}
		if got, ok := message.ParseRef(r.String()); !ok || got != r {
			t.Fatalf("%s is read as %v, %v", r, got, ok)
		}
	})
	u := id.Derive("a").String()
	for _, s := range []string{"", "/0", u, u + "/", u + "/-1", u + "/01", u + "/+1", u + "/x", u + "/99999999999999999999", strings.ToUpper(u) + "/1", u + "x1"} {
		if r, ok := message.ParseRef(s); ok {
			t.Errorf("ParseRef(%q) = %v", s, r)
		}
	}
}

func TestLabels(t *testing.T) {
	for l := range message.AllLabels + 1 {
		got, err := message.ParseLabels(l.String())
		if err != nil || got != l {
			t.Errorf("%q is read as %v, %v", l, got, err)
		}
	}
	if got, err := message.ParseLabels(" secret , private"); err != nil || got != message.Secret|message.Private {
		t.Errorf("with spaces: %v, %v", got, err)
	}
	for _, s := range []string{"x", "private,", "Private", "bit5"} {
		if _, err := message.ParseLabels(s); !fault.HasCode(err, "message_label_unknown") {
			t.Errorf("ParseLabels(%q): %v", s, err)
		}
	}
	if l := message.Private | message.Secret; !l.Has(message.Secret) || l.Has(message.Untrusted|message.Secret) || !l.Has(0) {
		t.Error("Has")
	}
	if got := message.Labels(0x81).String(); got != "private,bit7" {
		t.Errorf("an unknown bit is shown as %q", got)
	}
}

// FuzzDecode: each message that Decode accepts is equal after encoding and decoding,
// including unknown members.
func FuzzDecode(f *testing.F) {
	f.Add(message.Append(nil, whole()))
	f.Add([]byte(`{"id":"` + id.Derive("a").String() + `","role":"tool","blocks":[{"type":"tool_result","call":"` + id.Derive("b").String() + `/0","status":"ok","content":[{"type":"image","data":"AP8=","mime":"x"}]}]}`))
	f.Add([]byte(" { \"at\" : -62135596800000000 , \"x\" : [ {} , \"\\\"\" , 1E+2 ] , \"blocks\":[{\"labels\":[\"secret\",\"secret\"],\"type\":\"file\",\"meta\":{\"fields\":{ }}}]}\n"))
	f.Add([]byte(`{"role":"user","role":"tool"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := message.Decode(in)
		if err != nil {
			if fault.Is(err, fault.Internal) {
				t.Fatalf("no coded error: %v", err)
			}
			return
		}
		out := message.Append(nil, m)
		again, err := message.Decode(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !reflect.DeepEqual(m, again) {
			t.Fatalf("%#v\n%#v\n%s", m, again, out)
		}
		if third := message.Append(nil, again); !bytes.Equal(out, third) {
			t.Fatalf("%s\n%s", out, third)
		}
	})
}

// FuzzParseLabels: parsed labels have one text form, which parses to the same labels.
func FuzzParseLabels(f *testing.F) {
	f.Add("private,secret")
	f.Add(" untrusted , untrusted")
	f.Fuzz(func(t *testing.T, s string) {
		if l, err := message.ParseLabels(s); err == nil {
			if again, err := message.ParseLabels(l.String()); err != nil || again != l {
				t.Fatalf("%q: %v, then %v, %v", s, l, again, err)
			}
		}
	})
}

func short() *message.Message {
	return &message.Message{ID: id.New(), Prev: id.New(), Role: message.User, At: time.Now(),
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: "What is 6 times 7, and why does it matter so much?"}}}
}

func BenchmarkAppend(b *testing.B) {
	m, buf := short(), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = message.Append(buf[:0], m)
	}
}

func BenchmarkDecode(b *testing.B) {
	in := message.Append(nil, short())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := message.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	m := short()
	b.ReportAllocs()
	for b.Loop() {
		if err := message.Validate(m); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCitationsAndVendorsParts(t *testing.T) {
	m := &message.Message{ID: id.Derive("a"), Role: message.Assistant, Final: true, Blocks: []message.Block{
		&message.Vendor{Common: message.Common{Labels: message.Untrusted, Meta: message.Meta{Provider: "p", Fields: []byte(`{"type": "search"}`)}}, Kind: "search"},
		&message.Text{Text: "It rains.", Citations: []message.Citation{{URL: "https://w.test/1", Title: "Rain\nnow", Text: "all day"}, {Title: "Book"}}},
		&message.Text{Text: " So.", Citations: []message.Citation{{URL: "https://w.test/1", Title: "Rain\nnow"}, {URL: "https://w.test/2"}}},
	}}
	const want = `[{"type":"vendor","kind":"search","labels":["untrusted"],"meta":{"provider":"p","fields":{"type": "search"}}},` +
		`{"type":"text","text":"It rains.","citations":[{"url":"https://w.test/1","title":"Rain\nnow","text":"all day"},{"title":"Book"}]},` +
		`{"type":"text","text":" So.","citations":[{"url":"https://w.test/1","title":"Rain\nnow"},{"url":"https://w.test/2"}]}]`
	if got := string(message.AppendBlocks(nil, m.Blocks)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	read, err := message.Decode(message.Append(nil, m))
	if err != nil || !reflect.DeepEqual(read, m) || message.Validate(m) != nil {
		t.Errorf("%+v, %v, %v", read, err, message.Validate(m))
	}
	if got := fmt.Sprint(m.Citations()); got != "[Rain now, https://w.test/1 Book https://w.test/2]" || !m.Foreign() {
		t.Error(got)
	}
	if (&message.Message{Blocks: []message.Block{&message.Text{Text: "x"}}}).Foreign() {
		t.Error("a text without sources is not of others")
	}
	for body, code := range map[string]string{
		`[{"type":"text","citations":[{"page":1}]}]`: "message_member_unknown", `[{"type":"text","citations":[{"url":1}]}]`: "message_member_invalid",
		`[{"type":"text","citations":{}}]`: "message_member_invalid", `[{"type":"vendor","kind":1}]`: "message_member_invalid",
	} {
		if _, err := message.DecodeBlocks([]byte(body)); !fault.HasCode(err, code) {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
	bad := &message.Message{ID: id.Derive("a"), Role: message.User, Blocks: []message.Block{&message.Vendor{}}}
	if err := message.Validate(bad); !fault.HasCode(err, "message_vendor_outside_assistant") {
		t.Error(err)
	}
	bad = &message.Message{ID: id.Derive("a"), Role: message.Assistant, Blocks: []message.Block{&message.Text{Citations: []message.Citation{{Title: "\xff"}}}}}
	if err := message.Validate(bad); !fault.HasCode(err, "message_utf8_invalid") {
		t.Error(err)
	}
}
