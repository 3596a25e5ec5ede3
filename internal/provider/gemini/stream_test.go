package gemini

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
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
	return New(Options{BaseURL: s.URL, Key: "k", HTTP: s.Client()})
}

func TestPromptRefused(t *testing.T) {
	reply, notices, err := apis.Collect(answering(t, "blocked").Model("gemini-3-flash-preview"), apis.Hello())
	if err != nil || reply.Stop != message.StopRefused || len(reply.Blocks) != 0 || reply.Usage.Input != 7 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "PROHIBITED_CONTENT") {
		t.Errorf("notices %q", notices)
	}
}

func TestAnswerRefusedSaysWhy(t *testing.T) {
	reply, notices, err := apis.Collect(answering(t, "refused").Model("gemini-3-flash-preview"), apis.Hello())
	if err != nil || reply.Stop != message.StopRefused || len(notices) != 1 || !strings.Contains(notices[0], "SAFETY") {
		t.Fatalf("%+v, %q, %v", reply, notices, err)
	}
}

func TestMalformedCallIsNoAnswer(t *testing.T) {
	reply, _, err := apis.Collect(answering(t, "malformed_call").Model("gemini-3-flash-preview"), apis.Hello())
	f := fault.Of(err)
	if reply != nil || err == nil || f.Code != "provider_error" || !f.Recoverable() || !strings.Contains(f.Error(), "math.multiply(6,") {
		t.Fatalf("%+v, %v", reply, err)
	}
}

// Parts that carry a signature stay the parts that they were; calls whose ids
// are the same get ids of their own.
func TestSignedParts(t *testing.T) {
	for name, want := range map[string]string{
		"signed_text": `{"role":"model","parts":[{"text":"Hel"},{"text":"lo","thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="},{"text":" you"},` +
			`{"functionCall":{"id":"same","name":"math__multiply","args":{"a": 6, "b": 7}},"thoughtSignature":"AY89a18Xk/9f+T0ZqQ=="},` +
			`{"functionCall":{"name":"time__now","args":{"zone": "Europe/Berlin"}}}]}`,
		"bare_signature": `{"role":"model","parts":[{"text":"Hello! How can I help you today?"},{"text":"","thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="}]}`,
		"image":          `{"role":"model","parts":[{"text":"Here it is: "},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="},"thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			reply, _, err := apis.Collect(answering(t, name).Model("gemini-3-flash-preview"), apis.Hello())
			if err != nil {
				t.Fatal(err)
			}
			m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
			got, err := encoder{provider: "gemini", family: familyOf("gemini-3-pro")}.group(nil, []*message.Message{m})
			if err != nil || string(got) != want {
				t.Errorf("sent back as\n%s\nwant\n%s, %v", got, want, err)
			}
		})
	}
}

func TestMintedIDsAreTheSameEachTime(t *testing.T) {
	m := answering(t, "parallel").Model("gemini-3-flash-preview")
	a, _, err := apis.Collect(m, apis.Hello())
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := apis.Collect(m, apis.Hello())
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v\n%v", a, b, err)
	}
	longer := apis.Hello()
	longer.Transcript.Append(longer.Transcript.Messages()[0])
	c, _, err := apis.Collect(m, longer)
	if err != nil || a.Blocks[0].(*message.ToolCall).CallID == c.Blocks[0].(*message.ToolCall).CallID {
		t.Errorf("the next turn has the same ids: %v", err)
	}
}

func TestMidStreamErrors(t *testing.T) {
	for body, code := range map[string]string{
		`data: {"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down","details":[{"retryDelay":"3s"}]}}`: "rate_limited",
		`data: {"error":{"message":"what?"}}`: "provider_error",
		`data: {"candidates":[`:               "stream_broken",
		`data: nonsense`:                      "stream_broken",
		`data: {"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}]}`: "stream_broken",
	} {
		p := serving(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write([]byte(body + "\n\n"))
		})
		if reply, _, err := apis.Collect(p.Model("gemini-3-pro"), apis.Hello()); reply != nil || !fault.HasCode(err, code) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// What comes after the end mark is usage at most: silence then is no failure.
func TestSilenceAfterTheEnd(t *testing.T) {
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}` + "\n\n"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if reply, _, err := apis.Collect(p.Model("gemini-3-pro"), apis.Hello()); err != nil || reply.Stop != message.StopEnd {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]message.Stop{
		"STOP": message.StopEnd, "MAX_TOKENS": message.StopLength, "CONTINUATION": message.StopLength,
		"SAFETY": message.StopRefused, "RECITATION": message.StopRefused, "LANGUAGE": message.StopRefused,
		"BLOCKLIST": message.StopRefused, "PROHIBITED_CONTENT": message.StopRefused, "SPII": message.StopRefused,
		"OTHER": message.StopRefused, "A_NEW_ONE": message.StopRefused,
		"MALFORMED_FUNCTION_CALL": "", "UNEXPECTED_TOOL_CALL": "", "TOO_MANY_TOOL_CALLS": "",
	} {
		p := serving(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"` + reason + `"}]}` + "\n\n"))
		})
		reply, _, err := apis.Collect(p.Model("gemini-3-pro"), apis.Hello())
		if want == "" {
			if !fault.HasCode(err, "provider_error") {
				t.Errorf("%s: %v", reason, err)
			}
		} else if err != nil || reply.Stop != want {
			t.Errorf("%s: %+v, %v", reason, reply, err)
		}
	}
}

// FuzzStream: whatever comes, there is one end, no panic, and what was Done
// can be sent back under Google's rules.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"text", "unicode", "reasoning", "parallel", "signed_text", "bare_signature", "image", "blocked", "err_midstream"} {
		e, err := apis.Load(filepath.Join("testdata", name+".http"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := New(Options{BaseURL: "http://vendor.test", HTTP: &http.Client{Transport: &apis.Says{Bodies: []string{string(body)}}}})
		r := apis.Hello()
		reply, _, err := apis.Collect(p.Model("gemini-3-pro"), r)
		if (reply == nil) == (err == nil) {
			t.Fatalf("%+v and %v", reply, err)
		}
		if reply == nil {
			return
		}
		msgs := []*message.Message{r.Transcript.Messages()[0], {Role: message.Assistant, Blocks: reply.Blocks}}
		for _, c := range msgs[1].Calls() {
			msgs = append(msgs, &message.Message{Role: message.Tool, Blocks: []message.Block{
				&message.ToolResult{Call: c.Ref, CallID: c.CallID, Name: c.Name}}})
		}
		parts, _, err := p.Model("gemini-3-pro").(*model).body(&llm.Request{Transcript: llm.NewTranscript(msgs...)})
		if err != nil {
			t.Fatal(err)
		}
		foreign := bytes.Contains(body, []byte("inlineData")) || bytes.Contains(body, []byte("thoughtSignature")) // goes back as it came
		if err := apis.CheckGemini(bytes.Join(parts, nil)); err != nil && !foreign {
			t.Errorf("%v\n%s", err, bytes.Join(parts, nil))
		}
	})
}

// What Gemini's own tools ran and found goes back as it came, and its sources
// are named.
func TestServerToolsAndGroundingAreKept(t *testing.T) {
	const code = `{"executableCode":{"language": "PYTHON","code":"print(6*7)"},"thoughtSignature":"AAAA"}`
	const result = `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"42\n"}},` +
		`{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"a","args":{"q": "rain"}},"thoughtSignature":"BBBB"},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","id":"a","response":{}}}`
	const grounds = `{"webSearchQueries":["rain"],"groundingChunks":[{"web":{"uri":"https://w.test/1","title":"w.test"}},{"retrievedContext":{"uri":"gs://x","title":"X","text":"so"}}],"groundingSupports":[]}`
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[%s,%s,{\"text\":\"It is \"}]}}]}\n\n", code, result)
		fmt.Fprintf(w, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"42.\"}]},\"finishReason\":\"STOP\",\"groundingMetadata\":%s}]}\n\n", grounds)
	})
	reply, _, err := apis.Collect(p.Model("gemini-3-flash-preview"), apis.Hello())
	if err != nil || len(reply.Blocks) != 5 || string(reply.Meta.Fields) != `{"groundingMetadata":`+grounds+`}` {
		t.Fatalf("%+v, %v", reply, err)
	}
	m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
	want := []message.Citation{{URL: "https://w.test/1", Title: "w.test"}, {URL: "gs://x", Title: "X", Text: "so"}}
	if got := m.Citations(); !slices.Equal(got, want) || m.Text() != "It is 42." || !m.Foreign() {
		t.Errorf("%q, %+v", m.Text(), got)
	}
	const back = `{"role":"model","parts":[` + code + `,` + result + `,{"text":"It is 42."}]}`
	got, err := encoder{provider: "gemini", family: familyOf("gemini-3-pro")}.group(nil, []*message.Message{m})
	if err != nil || string(got) != back {
		t.Errorf("sent back as\n%s\nwant\n%s, %v", got, back, err)
	}
	if got, err := (encoder{provider: "other", family: familyOf("gemini-3-pro")}).group(nil, []*message.Message{m}); err != nil || strings.Contains(string(got), "42\\n") {
		t.Errorf("sent to another as %s, %v", got, err)
	}
	if read, err := p.Codec("").Decode([]byte("[" + back + "]")); err != nil || len(read[0].Blocks) != 5 || string(read[0].Blocks[0].Base().Meta.Fields) != code {
		t.Errorf("%+v, %v", read, err)
	}
}
