package request_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/request"
	_ "steward/test/seed"
)

func TestParseEnvelope(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		in   string
		want request.Envelope
	}{
		"request": {`{"type":"request","request_id":"r","parent_request_id":"p","action":"send","parameters":{"to":"x"},"sender":"a","target":"b","timestamp":"2026-01-02T03:04:05.6Z","traceparent":"00-1"}`,
			request.Envelope{Type: "request", RequestID: "r", ParentID: "p", Action: "send", Parameters: raw(`{"to":"x"}`), Sender: "a", Target: "b", Trace: "00-1"}},
		"status": {`{"request_id":"r","type":"status","status":"running","tool_name":"t","task_id":"k","message":"half","progress":0.5,"timestamp":"yesterday"}`,
			request.Envelope{Type: "status", RequestID: "r", Status: "running", Tool: "t", TaskID: "k", Message: "half", Progress: 0.5}},
		"progress in metadata": {`{"request_id":"r","status":"running","metadata":{"progress":40}}`,
			request.Envelope{Type: "status", RequestID: "r", Status: "running", Progress: 0.4, Metadata: raw(`{"progress":40}`)}},
		"progress beyond": {`{"request_id":"r","status":"acknowledged","progress":4000,"timestamp":7}`,
			request.Envelope{Type: "status", RequestID: "r", Status: "acknowledged", Progress: 1}},
		"progress below": {`{"request_id":"r","status":"running","progress":-1,"metadata":[]}`,
			request.Envelope{Type: "status", RequestID: "r", Status: "running", Metadata: raw(`[]`)}},
		"result": {`{"request_id":"r","type":"result","status":"partial","data":{"n":1},"message":"m","next_actions":["look", {"do":"it"}]}`,
			request.Envelope{Type: "result", RequestID: "r", Status: "partial", Data: raw(`{"n":1}`), Message: "m", NextActions: []json.RawMessage{raw(`"look"`), raw(`{"do":"it"}`)}}},
		"result without a type": {`{"request_id":"r","data":3,"next_actions":"look"}`,
			request.Envelope{Type: "result", RequestID: "r", Status: "success", Data: raw(`3`), NextActions: []json.RawMessage{raw(`"look"`)}}},
		"response": {`{"request_id":"r","type":"response","status":"completed","result":{"n":1},"metadata":{},"next_actions":[]}`,
			request.Envelope{Type: "response", RequestID: "r", Status: "success", Data: raw(`{"n":1}`), Metadata: raw(`{}`)}},
		"response that failed": {`{"request_id":"r","type":"response","status":"failed","data":null}`,
			request.Envelope{Type: "response", RequestID: "r", Status: "failure"}},
		"error": {`{"request_id":"r","type":"error","error_code":"E","message":"m","details":{"a":1},"recoverable":true,"retry_strategy":"after","retry_after":2.5}`,
			request.Envelope{Type: "error", RequestID: "r", Code: "E", Message: "m", Details: raw(`{"a":1}`), Recoverable: true, Retry: "after", RetryAfter: 2.5}},
		"error, other shape": {`{"request_id":"r","type":"error","status":"error","error":{"code":"E","message":"m","details":{}}}`,
			request.Envelope{Type: "error", RequestID: "r", Code: "E", Message: "m", Details: raw(`{}`)}},
		"response with an error": {`{"request_id":"r","type":"response","status":"error","error":{"code":500,"error_code":"E","message":"m","recoverable":true}}`,
			request.Envelope{Type: "error", RequestID: "r", Code: "E", Message: "m", Recoverable: true, Retry: "backoff"}},
		"error as text": {`{"request_id":"r","error":"it broke"}`,
			request.Envelope{Type: "error", RequestID: "r", Code: "tool_error", Message: "it broke"}},
		"status error": {`{"request_id":"r","status":"error","message":"it broke"}`,
			request.Envelope{Type: "error", RequestID: "r", Code: "tool_error", Message: "it broke"}},
		"unknown members": {`{"request_id":"r","type":"result","status":"success","Status":"x","more":{"x":[]}}`,
			request.Envelope{Type: "result", RequestID: "r", Status: "success"}},
	} {
		got, err := request.ParseEnvelope([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
}

func TestRetryStrategies(t *testing.T) {
	for in, want := range map[string]request.Envelope{
		`"retry_strategy":"backoff"`:                                                    {Recoverable: true, Retry: "backoff"},
		`"retry_strategy":"none","recoverable":true`:                                    {Retry: "none"},
		`"retry_strategy":"backoff","recoverable":false`:                                {Retry: "none"},
		`"retry_strategy":"after","retry_after":3`:                                      {Recoverable: true, Retry: "after", RetryAfter: 3},
		`"retry_strategy":"after","retry_after":-3`:                                     {Recoverable: true, Retry: "backoff"},
		`"retry_strategy":"Immediate","retry_after":3`:                                  {Recoverable: true, Retry: "immediate"},
		`"retry_strategy":"perhaps"`:                                                    {},
		`"retry_strategy":"perhaps","recoverable":true`:                                 {Recoverable: true, Retry: "backoff"},
		`"recoverable":false`:                                                           {Retry: "none"},
		`"error":{"retry_strategy":"after","retry_after":5,"recoverable":true}`:         {Recoverable: true, Retry: "after", RetryAfter: 5},
		`"error":{"recoverable":false},"retry_strategy":"immediate","recoverable":true`: {Recoverable: true, Retry: "immediate"},
		`"error":{"details":[1]},"retry_strategy":"immediate","details":{"a":"b"}`:      {Recoverable: true, Retry: "immediate", Details: json.RawMessage(`{"a":"b"}`)},
	} {
		want.Type, want.RequestID, want.Code = "error", "r", "tool_error"
		got, err := request.ParseEnvelope([]byte(`{"type":"error","request_id":"r",` + in + `}`))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", in, got, err, want)
		}
	}
}

func TestParseEnvelopeRefuses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, in := range []string{``, `{`, `[]`, `"x"`, `null`, `{} {}`, "\xff",
		`{"type":"result","type":"result","request_id":"r","status":"success"}`, // twice
		`{"type":"result","request_id":"r","status":"success","data":{"a":1,"a":2}}`,
		`{"type":"result","request_id":"r","status":"success","message":"\ud800"}`,
		`{"type":"result","status":"success"}`,                                // no id
		`{"type":"result","Request_ID":"r","status":"success"}`,               // not the member
		`{"type":"result","request_id":7,"status":"success"}`,                 // no text
		`{"type":"result","request_id":"` + long + `","status":"success"}`,    // too long
		`{"type":"result","request_id":"r","status":"splendid"}`,              // no such word
		`{"type":"status","request_id":"r","status":"success"}`,               // of another type
		`{"type":"request","request_id":"r"}`,                                 // no action
		`{"type":"request","request_id":"r","action":"a","parameters":["x"]}`, // no object
		`{"type":"event","request_id":"r"}`,
		`{"request_id":"r"}`,
		`{"type":"result","request_id":"r","status":"success","progress":"half"}`,
	} {
		if got, err := request.ParseEnvelope([]byte(in)); !fault.HasCode(err, "envelope_invalid") || !fault.Is(err, fault.Invalid) {
			t.Errorf("%.100s: %+v, %v", in, got, err)
		}
	}
	if _, err := request.ParseEnvelope(make([]byte, request.MaxEnvelope+1)); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a long one: %v", err)
	}
	for _, e := range []request.Envelope{{}, {Type: "error", RequestID: "r"}, {Type: "error", RequestID: "r", Code: "c", Retry: "never"},
		{Type: "result", RequestID: "r", Status: "success", Data: json.RawMessage(`{`)}} {
		if b, err := e.Encode(); !fault.HasCode(err, "envelope_invalid") {
			t.Errorf("%+v: %s, %v", e, b, err)
		}
	}
}

// anyEnvelope draws one that Check accepts.
func anyEnvelope() *rapid.Generator[request.Envelope] {
	word := rapid.StringMatching(`[a-zA-Z0-9_.:<>& é-]{1,20}`)
	raw := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":[1,2.5e3,"<x>"]}`), json.RawMessage(`[]`), json.RawMessage(`"text"`), json.RawMessage(`0`)})
	return rapid.Custom(func(t *rapid.T) request.Envelope {
		e := request.Envelope{RequestID: word.Draw(t, "id"), ParentID: word.Draw(t, "parent"), Sender: word.Draw(t, "sender"),
			Target: word.Draw(t, "target"), Trace: word.Draw(t, "trace"), Message: rapid.String().Draw(t, "message"),
			Metadata: raw.Draw(t, "metadata")}
		e.Message = strings.ToValidUTF8(e.Message, "?")
		e.Type = rapid.SampledFrom([]string{"request", "response", "status", "result", "error"}).Draw(t, "type")
		switch e.Type {
		case request.TypeRequest:
			e.Action = word.Draw(t, "action")
			e.Parameters = json.RawMessage(`{"x":1}`)
		case request.TypeStatus:
			e.Status = rapid.SampledFrom([]string{"acknowledged", "running", "completed"}).Draw(t, "status")
			e.Progress = rapid.Float64Range(0, 1).Draw(t, "progress")
			e.Tool, e.TaskID = word.Draw(t, "tool"), word.Draw(t, "task")
		case request.TypeError:
			e.Code, e.Details = word.Draw(t, "code"), raw.Draw(t, "details")
			e.Retry = rapid.SampledFrom([]string{"", "none", "immediate", "backoff", "after"}).Draw(t, "retry")
			e.Recoverable = e.Retry != "" && e.Retry != "none"
			if e.Retry == "after" {
				e.RetryAfter = rapid.Float64Range(0.001, 1e6).Draw(t, "after")
			}
		default:
			e.Status = rapid.SampledFrom([]string{"success", "partial", "failure"}).Draw(t, "status")
			e.Data = raw.Draw(t, "data")
			if rapid.Bool().Draw(t, "suggests") {
				e.NextActions = []json.RawMessage{json.RawMessage(`"look"`), json.RawMessage(`{"do":"it"}`)}
			}
		}
		return e
	})
}

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEnvelope().Draw(t, "envelope")
		line, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("not one line: %q", line)
		}
		got, err := request.ParseEnvelope(line)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%s\n got %+v, %v\nwant %+v", line, got, err, e)
		}
	})
}

func FuzzParseEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"type":"request","request_id":"r","action":"a","parameters":{"a":1}}`,
		`{"request_id":"r","status":"running","metadata":{"progress":4}}`,
		`{"request_id":"r","type":"error","error":{"code":"E","message":"m","details":[1]},"retry_strategy":{"type":"after","delay":1e300}}`,
		`{"request_id":"r","type":"result","status":"success","data":{"a":"b"},"next_actions":[1,"x"]}`,
		`{"request_id":"r","error":"x","recoverable":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := request.ParseEnvelope(in)
		if err != nil {
			if !fault.HasCode(err, "envelope_invalid") {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		line, err := e.Encode()
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		again, err := request.ParseEnvelope(line)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%q\n first %+v\n again %+v, %v", in, e, again, err)
		}
		if ef := e.Fault(); (ef == nil) != (e.Type != request.TypeError) || ef != nil && (ef.Code == "" || ef.Kind == "" || ef.Message == "" || ef.After < 0) {
			t.Fatalf("%q: %#v", in, ef)
		}
	})
}

func TestFaultOfEnvelope(t *testing.T) {
	for code, want := range map[string]fault.Kind{"VALIDATION_ERROR": fault.Invalid, "FileNotFoundError": fault.NotFound, "not_found": fault.NotFound,
		"Permission Denied": fault.Denied, "AUTH_FAILED": fault.Unauthentic, "TIMEOUT": fault.Timeout, "rate-limited": fault.RateLimited,
		"connection_refused": fault.Unavailable, "conflict": fault.Conflict, "not_implemented": fault.Unsupported, "quota": fault.Exhausted,
		"too_large": fault.TooLarge, "cancelled": fault.Cancelled, "internal_error": fault.Internal, "odd": fault.Invalid, "": fault.Invalid} {
		e := request.Envelope{Type: "error", RequestID: "r", Code: code, Message: "m"}
		if got := e.Fault(); got.Kind != want {
			t.Errorf("%s: %s, want %s", code, got.Kind, want)
		}
	}
	e := request.Envelope{Type: "error", Code: "SMTP Down!", Recoverable: true, Retry: "after", RetryAfter: 1e300,
		Details: json.RawMessage(`{"host":"x","remedy":"wait"}`), Message: strings.Repeat("é", 9000)}
	f := e.Fault()
	if f.Code != "smtp_down" || f.Kind != fault.Unavailable || f.Retry != fault.RetryAfter || f.After != 24*time.Hour || f.Remedy != "wait" ||
		f.Details["host"] != "x" || len(f.Message) > 5000 {
		t.Errorf("%#v", f)
	}
	if f := (&request.Envelope{Type: "error", Code: "!!", Details: json.RawMessage(`[1]`)}).Fault(); f.Code != "tool_error" || f.Message != "tool error" || f.Details["details"] == nil {
		t.Errorf("%#v", f)
	}
	if f := (&request.Envelope{Type: "error", Code: "x", Details: json.RawMessage(`{`), Retry: "none"}).Fault(); f.Details != nil || f.Recoverable() {
		t.Errorf("%#v", f)
	}
	if (&request.Envelope{Type: "result"}).Fault() != nil {
		t.Error("a result is no error")
	}
}
