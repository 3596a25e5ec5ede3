package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

// shown describes the parts of a result.
func shown(r tool.Result) []string {
	var out []string
	for _, b := range r.Content {
		switch b := b.(type) {
		case *message.Text:
			out = append(out, b.Text)
		case *message.Image:
			out = append(out, "image "+b.MIME+" "+string(b.Data))
		case *message.File:
			out = append(out, "file "+b.MIME+" "+b.Name+" "+string(b.Data))
		}
	}
	return out
}

// What servers send instead of what the protocol says: the other parts stay, and what cannot be read is named.
func TestPartsThatServersSend(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	img := b64([]byte(png))
	for _, c := range []struct{ name, part, want string }{
		{"a data URL", `{"type":"image","mimeType":"image/png","data":"data:image/png;base64,` + img + `"}`, "image image/png " + png},
		{"a data URL without a type beside it", `{"type":"image","data":"data:image/png;base64,` + img + `"}`, "image image/png " + png},
		{"lines of base64", `{"type":"image","mimeType":"image/png","data":"` + img[:4] + `\n` + img[4:] + `"}`, "image image/png " + png},
		{"without padding", `{"type":"audio","mimeType":"audio/wav","data":"d2F2Lg"}`, "file audio/wav audio.wav wav."},
		{"the alphabet of URLs", `{"type":"audio","mimeType":"audio/wav","data":"-_8="}`, "file audio/wav audio.wav \xfb\xff"},
		{"an address", `{"type":"image","mimeType":"image/png","data":"https://example.com/x.png"}`, "[The image (image/png) could not be read: the server gives an address instead of its data: https://example.com/x.png]"},
		{"no base64", `{"type":"image","mimeType":"image/png","data":"%%%"}`, "[The image (image/png) could not be read: its data is not base64]"},
		{"no text", `{"type":"audio","mimeType":"audio/wav","data":7}`, "[The audio (audio/wav) could not be read: its data is not text]"},
		{"no data", `{"type":"image","mimeType":"image/png"}`, "[The image (image/png) has no data]"},
		{"null data", `{"type":"image","mimeType":null,"data":null}`, "[The image (application/octet-stream) has no data]"},
		{"no such image", `{"type":"image","mimeType":"image/png","data":"` + b64([]byte("<html>")) + `"}`, "[The image (image/png) could not be read: its 6 bytes are not such an image]"},
		{"another image", `{"type":"image","mimeType":"image/png","data":"` + b64([]byte(gif)) + `"}`, "image image/gif " + gif},
		{"a kind that is not known", `{"type":"video","data":"xx","uri":"http://v"}`, `[Content of the unknown kind "video" was left out (http://v)]`},
		{"its text", `{"type":"markdown","text":"# hi"}`, "[Content of the unknown kind \"markdown\"]\n# hi"},
		{"a kind of sampling", `{"type":"tool_use","id":"1","name":"x","input":{}}`, `[Content of the unknown kind "ToolUse" was left out]`},
		{"no kind", `{"text":"bare"}`, "[Content of the unknown kind \"\"]\nbare"},
		{"a text alone", `"bare"`, "bare"},
		{"a number", `17`, "[A part that is not content: 17]"},
		{"null", `null`, "[A part that is not content: null]"},
		{"JSON as text", `{"type":"text","text":{"n":1}}`, `{"n":1}`},
		{"odd annotations", `{"type":"text","text":"hi","annotations":"none","_meta":7}`, "hi"},
		{"a blob that is a data URL", `{"type":"resource","resource":{"uri":"x:/a.bin","blob":"data:application/zip;base64,emlw"}}`, "file application/zip a.bin zip"},
		{"a bad blob", `{"type":"resource","resource":{"uri":"x:/a.bin","mimeType":"application/zip","blob":"%"}}`, "[x:/a.bin]\n[The contents (application/zip) could not be read: its data is not base64]"},
		{"a blob beside a text", `{"type":"resource","resource":{"uri":"x:/a","text":"words","blob":5}}`, "[x:/a]\nwords\n[The contents could not be read: its data is not text]"},
		{"a resource without contents", `{"type":"resource","resource":7}`, "[]\n[A resource without contents]"},
		{"a link with an odd size", `{"type":"resource_link","uri":"x:/a","name":"a","size":"7 KB","icons":"none"}`, "[resource a: x:/a, to be read with srv.read_resource]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"before"},%s,{"type":"text","text":"after"}]}}`, c.part)
			if got := shown(read1(t, raw)); !slices.Equal(got, []string{"before", c.want, "after"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// read1 reads a response as a session does.
func read1(t *testing.T, raw string) tool.Result {
	t.Helper()
	var m struct{ Result json.RawMessage }
	must.Do(t, json.Unmarshal(lenientBytes([]byte(raw)), &m))
	var r sdk.CallToolResult
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("%s: %v", m.Result, err)
	}
	return must.Get(result("srv", &r))
}

func TestResultsThatServersSend(t *testing.T) {
	for _, c := range []struct {
		result string
		failed bool
		want   []string
	}{
		{`{"content":"words"}`, false, []string{"words"}},
		{`{"content":{"type":"text","text":"one"}}`, false, []string{"one"}},
		{`{"content":null,"structuredContent":{"n":1}}`, false, []string{`{"n":1}`}},
		{`{"structuredContent":[1]}`, false, []string{`[1]`}},
		{`{"content":[],"structuredContent":{"n":1},"isError":true}`, true, []string{`{"n":1}`}},
		{`{"content":[{"type":"text","text":"It failed."}],"structuredContent":{"code":7},"isError":true}`, true, []string{"It failed.", `{"code":7}`}},
		{`{"content":[{"type":"text","text":"{\"code\": 7}"}],"structuredContent":{"code":7},"isError":true}`, true, []string{`{"code": 7}`}},
		{`{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`, false, []string{`{"n":1}`}},
		{`{"content":[{"type":"text","text":"x"}],"isError":"true"}`, true, []string{"x"}},
		{`{"content":[{"type":"text","text":"x"}],"isError":"false","_meta":7}`, false, []string{"x"}},
	} {
		r := read1(t, `{"jsonrpc":"2.0","id":1,"result":`+c.result+`}`)
		if got := shown(r); r.Failed != c.failed || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v %q", c.result, r.Failed, got)
		}
	}
}

// oddPart is a result with a text that is no UTF-8 and an image that is no base64.
const oddPart = `{"content":[{"type":"text","text":"good ` + "\xff" + `"},{"type":"image","mimeType":"image/png","data":"%"}]}`

// Whatever the transport, a result is read leniently, and text that is no UTF-8 is marked.
func TestLenientTransports(t *testing.T) {
	want := []string{"good \uFFFD", "[The image (image/png) could not be read: its data is not base64]"}
	for name, w := range map[string]*world{
		"srv": start(t, "odd_part"),
		"far": remoteWorld(t, oddHTTP(oddPart, false)),
		"sse": remoteWorld(t, oddHTTP(oddPart, true), func(env *tool.Env, _ *Decl) { env.Name = "sse" }),
	} {
		r, err := call(t.Context(), w.tool(t, name+".work"), `{}`)
		if got := shown(r); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// oddHTTP is a server over HTTP that answers calls with a result, as JSON or as a stream.
func oddHTTP(result string, stream bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := map[string]string{"tools/list": oneTool, "tools/call": result,
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`}[m.Method]
		switch body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer); {
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		case answer == "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}`, m.ID)
		case stream:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hello\r\nevent: message\r\ndata: %s\r\n\r\n", body)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		}
	})
}

func TestEventsPassWhole(t *testing.T) {
	in := "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n: " + strings.Repeat("x", 200<<10) + "\ndata: no end"
	for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
		if got, err := io.ReadAll(newEvents(r)); err != nil || string(got) != in {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}
