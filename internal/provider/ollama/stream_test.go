package ollama

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/test/apis"
)

// answering returns a provider whose every request gets the file's answer.
func answering(t testing.TB, name string) *Provider {
	t.Helper()
	e, err := apis.Load(filepath.Join("testdata", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, e.ServeHTTP)
}

func serving(t testing.TB, h http.HandlerFunc) *Provider {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return New(Options{Host: s.URL, Key: "k", HTTP: s.Client()})
}

func TestLoadedIsNoAnswer(t *testing.T) {
	if reply, _, err := apis.Collect(answering(t, "load").Model("m"), apis.Hello()); reply != nil || !fault.HasCode(err, "provider_error") {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestPictureInAnswer(t *testing.T) {
	reply, _, err := apis.Collect(answering(t, "image").Model("m"), apis.Hello())
	if err != nil || len(reply.Blocks) != 2 || reply.Blocks[1].(*message.Image).MIME != "image/png" {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestMintedIDsAreTheSameEachTime(t *testing.T) {
	m := answering(t, "parallel").Model("m")
	a, _, err := apis.Collect(m, apis.Hello())
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := apis.Collect(m, apis.Hello())
	if err != nil || !reflect.DeepEqual(a, b) || !strings.HasPrefix(a.Blocks[0].(*message.ToolCall).CallID, mintedPrefix) {
		t.Errorf("%+v\n%+v\n%v", a, b, err)
	}
}

// said returns the reply to a stream of one line.
func said(t *testing.T, line string) (*llm.Reply, error) {
	t.Helper()
	p := serving(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(line + "\n")) })
	reply, _, err := apis.Collect(p.Model("m"), apis.Hello())
	return reply, err
}

func TestUnknownMembersOfCallsGoBack(t *testing.T) {
	reply, err := said(t, `{"message":{"tool_calls":[{"id":"x","type":"function","sig":"a\/b","function":{"index":3,"name":"a","arguments":null,"k":[1]}},`+
		`{"id":"x","more":{},"function":{"name":"a","arguments":{"b":1}}}]},"done":true,"done_reason":"stop"}`)
	if err != nil {
		t.Fatal(err)
	}
	got := encoder{}.assistant(nil, &message.Message{Role: message.Assistant, Blocks: reply.Blocks})
	want := `{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"a","arguments":{},"index":3,"k":[1]},"sig":"a\/b"},` +
		`{"function":{"name":"a","arguments":{"b":1}},"more":{}}]}`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestErrorsInStream(t *testing.T) {
	for line, code := range map[string]string{
		`{"error":"rate limit exceeded","status":429}`:            "rate_limited",
		`{"error":"an error was encountered"}`:                    "provider_error",
		`{"error":{"message":"odd"}}`:                             "provider_error",
		`{"error":"the input length exceeds the context length"}`: "context_too_long",
		`{"message":{"content":"Hel`:                              "stream_broken",
		`{"message":{"content":"Hello"},"done":false}`:            "stream_broken",
		`nonsense`: "stream_broken",
	} {
		if reply, err := said(t, line); reply != nil || !fault.HasCode(err, code) {
			t.Errorf("%s: %+v, %v", line, reply, err)
		}
	}
}

func TestRemedies(t *testing.T) {
	for _, c := range []struct {
		status             int
		text, code, remedy string
	}{
		{404, `model 'm' not found`, "model_not_found", "ollama pull m"},
		{404, `model "m" not found, try pulling it first`, "model_not_found", "ollama pull m"},
		{400, `registry.ollama.ai/library/m does not support tools`, "tools_unsupported", ""},
		{400, `"m" does not support vision`, "images_unsupported", ""},
		{400, `"m" does not support chat`, "request_refused", ""},
		{500, `model requires more system memory (9.1 GiB) than is available (2.0 GiB)`, "request_refused", "smaller model"},
		{500, `invalid JSON schema in format`, "schema_unsupported", ""},
		{400, `the input length exceeds the context length`, "context_too_long", "num_ctx"},
		{401, `unauthorized`, "auth_failed", "ollama signin"},
		{404, `page gone`, "request_refused", ""},
		{503, `server busy, please try again.  maximum pending requests exceeded`, "overloaded", ""},
	} {
		p := serving(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			w.Write(append(wire.AppendString([]byte(`{"error":`), c.text), '}'))
		})
		_, _, err := apis.Collect(p.Model("m"), apis.Hello())
		if f := fault.Of(err); err == nil || f.Code != c.code || !strings.Contains(f.Remedy, c.remedy) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if _, _, err := apis.Collect(New(Options{Host: "127.0.0.1:1"}).Model("m"), apis.Hello()); !strings.Contains(err.Error(), "ollama serve") {
		t.Error(err)
	}
}

// FuzzStream: whatever comes, there is one end, no panic, and what was Done
// can be sent back.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"text", "unicode", "reasoning", "parallel", "call", "image", "load", "err_midstream"} {
		e, err := apis.Load(filepath.Join("testdata", name+".http"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := New(Options{Host: "http://vendor.test", HTTP: &http.Client{Transport: &apis.Says{Bodies: []string{string(body)}}}})
		r := apis.Hello()
		reply, _, err := apis.Collect(p.Model("m"), r)
		if (reply == nil) == (err == nil) {
			t.Fatalf("%+v and %v", reply, err)
		}
		if reply == nil {
			return
		}
		msgs := []*message.Message{r.Transcript.Messages()[0], {Role: message.Assistant, Model: reply.Model, Blocks: reply.Blocks}}
		for _, c := range msgs[1].Calls() {
			msgs = append(msgs, &message.Message{Role: message.Tool, Blocks: []message.Block{
				&message.ToolResult{Call: c.Ref, CallID: c.CallID, Name: c.Name}}})
		}
		msgs = append(msgs, r.Transcript.Messages()[0])
		history := llm.NewTranscript(msgs...)
		enc := encoder{}
		head, tail, err := history.Encoded(enc.codec(), enc.group)
		if err != nil {
			t.Fatal(err)
		}
		whole := bytes.Join([][]byte{[]byte(`{"model":"m","stream":true,"messages":[`), head, []byte(","), tail, []byte(`]}`)}, nil)
		if err := apis.CheckOllama(whole); err != nil {
			t.Errorf("%v\n%s", err, whole)
		}
	})
}
