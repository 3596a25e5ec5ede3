package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/work"
	"steward/test/rpc/pb"
)

func multiply() tool.Spec {
	return tool.Spec{Name: "math.multiply", Description: "Multiplies.", Effect: tool.Query, Version: "2", Origin: "grpc:math", Asks: true,
		Input: []byte(`{"type":"object","properties":{"a":{"type":"number","maximum":9}},"required":["a"]}`)}
}

func TestListToolsByEveryProtocol(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	s.node.list = func(user, agent, namespace string) ([]tool.Spec, error) {
		if user != identity.Local || agent != "a/b" || namespace != "math" {
			return nil, fmt.Errorf("asked for %q of %q by %q", namespace, agent, user)
		}
		return []tool.Spec{multiply(), {Name: "math.reset", Description: "Resets.", Effect: tool.Action, Input: []byte(`{"type":"object"}`)}}, nil
	}
	in := &pb.ListToolsRequest{Namespace: proto.String("math"), Agent: proto.String("a/b")}
	var viaGRPC, viaWeb pb.ListToolsResponse
	if err := s.grpc("/tool.Tool/ListTools", in, &viaGRPC); err != nil {
		t.Fatal(err)
	}
	if got := s.web("/tool.Tool/ListTools", in, &viaWeb); got["grpc-status"] != "0" || !proto.Equal(&viaGRPC, &viaWeb) {
		t.Errorf("gRPC-Web: %v, %v", got, &viaWeb)
	}
	one, two := viaGRPC.Tools[0], viaGRPC.Tools[1]
	if one.GetName() != "math.multiply" || one.Function.Name != "math__multiply" || one.GetEffect() != pb.Effect_EFFECT_QUERY || !one.GetAsks() ||
		one.GetOrigin() != "grpc:math" || one.GetVersion() != "2" || one.GetAgent() != "a/b" || one.Function.GetDescription() != "Multiplies." ||
		two.GetEffect() != pb.Effect_EFFECT_ACTION || two.GetAsks() {
		t.Errorf("%v", &viaGRPC)
	}
	want := `{"type":"function","function":{"name":"math__multiply","description":"Multiplies.","parameters":` + string(multiply().Input) +
		`},"name":"math.multiply","agent":"a/b","effect":"EFFECT_QUERY","asks":true,"origin":"grpc:math","version":"2"}`
	_, h, posted := s.post("/tool.Tool/ListTools", `{"namespace":"math","agent":"a/b"}`)
	_, _, got := s.do(http.MethodGet, "/tool.Tool/ListTools"+"?encoding=json&message="+url.QueryEscape(`{"namespace":"math","agent":"a/b"}`), nil)
	for _, answer := range []string{posted, got} {
		var a struct{ Tools []json.RawMessage }
		if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a.Tools) != 2 || !sameJSON(t, string(a.Tools[0]), want) {
			t.Errorf("%v: %s", err, answer)
		}
	}
	if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", h)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

func TestExecuteTool(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	req := id.New()
	var asked work.Execution
	s.node.execute = func(_ context.Context, user string, e work.Execution) (work.Executed, error) {
		asked = e
		return work.Executed{Request: req, ClientID: "call_1", Tool: "math.multiply", Cut: true, Recorded: true,
			Result: &message.ToolResult{Common: message.Common{Labels: message.Untrusted}, Status: message.OK, Rest: "cld:a.B.c", Content: []message.Block{
				&message.Text{Text: "4"}, &message.Text{Common: message.Common{Labels: message.Private}, Text: "2 for " + user + "\xff"},
				&message.Image{MIME: "image/png", Data: []byte{1}}, &message.File{MIME: "text/plain", Name: "x", URL: "https://x.example"}}}}, nil
	}
	want := &pb.ToolCallResult{Id: "call_1", Name: "math.multiply", Status: pb.CallStatus_CALL_STATUS_OK, Content: "42 for local\uFFFD",
		Attachments: []*pb.Attachment{{MimeType: "image/png", Data: []byte{1}}, {MimeType: "text/plain", Name: "x", Url: "https://x.example"}},
		Labels:      []string{"private", "untrusted"}, Truncated: true, Rest: "cld:a.B.c", Recorded: true, RequestId: req.String()}
	for _, c := range []struct {
		in   *pb.Tool
		want work.Execution
	}{
		{&pb.Tool{Id: proto.String("call_1"), Type: proto.String("function"), Agent: proto.String("a/b"), Function: &pb.Function{Name: "math__multiply", Arguments: proto.String(`{"a":1}`)}},
			work.Execution{ClientID: "call_1", Agent: "a/b", Tool: "math__multiply", Args: []byte(`{"a":1}`)}},
		{&pb.Tool{Name: proto.String("math.multiply")}, work.Execution{Tool: "math.multiply"}},
		{&pb.Tool{}, work.Execution{}},
	} {
		var got pb.ToolCallResult
		if err := s.grpc("/tool.Tool/ExecuteTool", c.in, &got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(asked) != fmt.Sprint(c.want) || !proto.Equal(&got, want) {
			t.Errorf("%v: asked %+v, told %v", c.in, asked, &got)
		}
	}
	// A tool call in OpenAI's form, with its additional members.
	_, _, body := s.post("/tool.Tool/ExecuteTool", `{"index":0,"id":"call_1","type":"function","function":{"name":"math__multiply","arguments":"{\"a\":1}"}}`)
	if !strings.Contains(body, `"status":"CALL_STATUS_OK"`) || string(asked.Args) != `{"a":1}` || asked.ClientID != "call_1" {
		t.Errorf("asked %+v, told %s", asked, body)
	}
	if err := s.grpc("/tool.Tool/ExecuteTool", &pb.Tool{Type: proto.String("custom")}, &pb.ToolCallResult{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another type: %v", err)
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	for kind, want := range map[fault.Kind]codes.Code{
		fault.Invalid: codes.InvalidArgument, fault.NotFound: codes.NotFound, fault.Conflict: codes.Aborted, fault.Denied: codes.PermissionDenied,
		fault.Unauthentic: codes.Unauthenticated, fault.TooLarge: codes.ResourceExhausted, fault.RateLimited: codes.ResourceExhausted,
		fault.Exhausted: codes.ResourceExhausted, fault.NoSpace: codes.ResourceExhausted, fault.Unsupported: codes.Unimplemented, fault.Unavailable: codes.Unavailable,
		fault.Timeout: codes.DeadlineExceeded, fault.Cancelled: codes.Canceled, fault.Internal: codes.Internal,
	} {
		e := fault.New(kind, "some_code", "it went wrong").WithHint("do this").Retrying(fault.RetryAfter, 1500*time.Millisecond).
			Detail("id", "x").Detail("limit", 7).Detail("kind", "not this").Detail("long", strings.Repeat("é", 600)).Detail("fn", func() {})
		s.node.execute = func(context.Context, string, work.Execution) (work.Executed, error) {
			return work.Executed{}, fmt.Errorf("calling: %w", e)
		}
		err := s.grpc("/tool.Tool/ExecuteTool", &pb.Tool{}, &pb.ToolCallResult{})
		st := status.Convert(err)
		if st.Code() != want || st.Message() != "it went wrong (do this)" || len(st.Details()) != 2 {
			t.Errorf("%s: %v, %v", kind, err, st.Details())
			continue
		}
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		retry, ok2 := st.Details()[1].(*errdetails.RetryInfo)
		if !ok || !ok2 || info.Reason != "SOME_CODE" || info.Domain != "steward" || retry.RetryDelay.AsDuration() != 1500*time.Millisecond {
			t.Errorf("%v, %v", info, retry)
		}
		for key, want := range map[string]string{"error_code": "some_code", "kind": string(kind), "remedy": "do this", "retry_strategy": "after",
			"retry_after_ms": "1500", "recoverable": "true", "id": "x", "limit": "7", "long": strings.Repeat("é", 250)} {
			if info.Metadata[key] != want {
				t.Errorf("%s is %q", key, info.Metadata[key])
			}
		}
	}
	s.node.execute = func(context.Context, string, work.Execution) (work.Executed, error) {
		return work.Executed{}, errors.New("open /home/anna/secret: no such file")
	}
	code, _, body := s.post("/tool.Tool/ExecuteTool", `{}`)
	if code != 500 || strings.Contains(body, "secret") || !strings.Contains(body, `"code":"internal"`) || !strings.Contains(s.logs.String(), "/home/anna/secret") {
		t.Errorf("%d: %s; logged: %s", code, body, s.logs)
	}
	many := fault.New(fault.Invalid, "many", "many")
	for i := range 50 {
		many = many.Detail(fmt.Sprint("detail_", i), strings.Repeat("x", 600))
	}
	if got := facts(many); len(got) != maxFacts {
		t.Errorf("%d facts", len(got))
	}
}

func TestAPanicIsAnError(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	s.node.execute = func(context.Context, string, work.Execution) (work.Executed, error) { panic("oh no") }
	for range 2 {
		err := s.grpc("/tool.Tool/ExecuteTool", &pb.Tool{}, &pb.ToolCallResult{})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "oh no") {
			t.Error(err)
		}
	}
	if !strings.Contains(s.logs.String(), "oh no") {
		t.Errorf("logged: %s", s.logs)
	}
}

// TestWhoIsLetIn tries every protocol with and without keys, from foreign
// origins and under foreign host names.
func TestWhoIsLetIn(t *testing.T) {
	s := serve(t, auth.Options{Keys: keys{}, Token: func() (string, error) { return "admin", nil }, Hosts: []string{"127.0.0.1"}, Origins: []string{"https://app.example"}}, Options{})
	var user string
	s.node.list = func(u, _, _ string) ([]tool.Spec, error) { user = u; return nil, nil }
	s.node.find = func(u string, _ search.Query) (search.Page, error) { user = u; return search.Page{}, nil }
	for _, c := range []struct {
		name   string
		header []string
		code   codes.Code
		reason string
		http   int
		user   string
	}{
		{"no key", nil, codes.Unauthenticated, "KEY_MISSING", 401, ""},
		{"a wrong key", []string{"Authorization", "Bearer " + identity.Prefix + "berts"}, codes.Unauthenticated, "KEY_UNKNOWN", 401, ""},
		{"anna's key", []string{"Authorization", "Bearer " + annas}, codes.OK, "", 200, "anna"},
		{"the admin's token", []string{"Authorization", "Bearer admin"}, codes.OK, "", 200, identity.Local},
		{"a foreign page", []string{"Authorization", "Bearer " + annas, "Origin", "https://evil.example"}, codes.PermissionDenied, "ORIGIN_REFUSED", 403, ""},
		{"a page of ours", []string{"Authorization", "Bearer " + annas, "Origin", "https://app.example"}, codes.OK, "", 200, "anna"},
		{"a foreign name", []string{"Authorization", "Bearer " + annas, "Host", "evil.example"}, codes.PermissionDenied, "HOST_REFUSED", 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			for _, procedure := range []string{"/tool.Tool/ListTools", "/search.Search/QueryMessages"} {
				user = ""
				code, h, body := s.post(procedure, "{}", c.header...)
				if code != c.http || user != c.user || !strings.Contains(body, c.reason) || (code == 401) != (h.Get("WWW-Authenticate") != "") {
					t.Errorf("JSON: %d for %q, %v: %s", code, user, h, body)
				}
				user = ""
				if code, _, body = s.do(http.MethodGet, procedure+"?encoding=json&message=%7B%7D", nil, c.header...); code != c.http || user != c.user {
					t.Errorf("GET: %d for %q: %s", code, user, body)
				}
				user = ""
				if got := s.web(procedure, &pb.ListToolsRequest{}, &pb.ListToolsResponse{}, c.header...); got["grpc-status"] != fmt.Sprint(int(c.code)) || user != c.user {
					t.Errorf("gRPC-Web: %v for %q", got, user)
				}
				if slices.Contains(c.header, "Host") {
					continue // grpc-go names the host itself
				}
				user = ""
				err := s.grpc(procedure, &pb.ListToolsRequest{}, &pb.ListToolsResponse{}, c.header...)
				if status.Code(err) != c.code || user != c.user {
					t.Errorf("gRPC: %v for %q", err, user)
				}
				for _, d := range status.Convert(err).Details() {
					if info, ok := d.(*errdetails.ErrorInfo); !ok || info.Reason != c.reason {
						t.Errorf("gRPC: %v", d)
					}
				}
			}
		})
	}
	s.t = t
	if code, _, body := s.do(http.MethodPut, "/tool.Tool/ListTools", nil); code != 401 || !strings.Contains(body, `{"error":{"code":"key_missing"`) {
		t.Errorf("in no protocol of ours: %d %s", code, body)
	}
	code, h, _ := s.do(http.MethodOptions, "/tool.Tool/ListTools", nil, "Origin", "https://app.example",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-grpc-web,content-type")
	if code != http.StatusNoContent || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "X-Grpc-Web") || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Grpc-Status") {
		t.Errorf("a browser's question: %d, %v", code, h)
	}
}

func TestADeadlineReachesTheNode(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	s.node.execute = func(ctx context.Context, _ string, _ work.Execution) (work.Executed, error) {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
			return work.Executed{}, errors.New("there is no deadline")
		}
		<-ctx.Done()
		return work.Executed{}, fault.New(fault.Of(ctx.Err()).Kind, "call_goes_on", "it goes on").Detail("id", "x")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.conn.Invoke(ctx, "/tool.Tool/ExecuteTool", &pb.Tool{}, &pb.ToolCallResult{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("gRPC: %v", err)
	}
	// A short deadline may pass before the call reaches the node.
	for ms := 50; ; ms *= 4 {
		code, _, body := s.post("/tool.Tool/ExecuteTool", `{}`, "Connect-Timeout-Ms", strconv.Itoa(ms))
		reached := strings.Contains(body, "CALL_GOES_ON")
		if code != http.StatusGatewayTimeout || !strings.Contains(body, "deadline_exceeded") || !reached && ms > 10_000 {
			t.Fatalf("JSON: %d %s", code, body)
		}
		if reached {
			break
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	big := &pb.Tool{Function: &pb.Function{Arguments: proto.String(strings.Repeat("x", maxRequest))}}
	if err := s.grpc("/tool.Tool/ExecuteTool", big, &pb.ToolCallResult{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large request: %.200v", err)
	}
	for _, c := range []struct {
		path, body string
		http       int
		has        string
	}{
		{"/tool.Tool/ExecuteTool", `{"function":`, 400, "invalid_argument"},
		{"/tool.Tool/ExecuteTool", `{"function":"x"}`, 400, "invalid_argument"},
		{"/tool.Tool/Nothing", `{}`, 501, "METHOD_UNKNOWN"},
		{"/tool.Tool/", `{}`, 501, "METHOD_UNKNOWN"},
		{"/search.Search/QueryMessages/more", `{}`, 501, "METHOD_UNKNOWN"},
	} {
		if code, _, body := s.post(c.path, c.body); code != c.http || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: %d %s", c.path, c.body, code, body)
		}
	}
	if err := s.grpc("/tool.Tool/Nothing", &pb.Tool{}, &pb.Tool{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
}

func TestQueryMessages(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	conv, inter, msg := id.New(), id.New(), id.New()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	var asked search.Query
	s.node.find = func(_ string, q search.Query) (search.Page, error) {
		asked = q
		line := search.Line{Message: msg, Role: message.Tool, Tool: "a.b", At: at, Text: "a word\xff"}
		return search.Page{Next: "more", By: search.ByLexical, Notice: "n", Hits: []search.Hit{{Line: line, Score: 0.5, Seq: 9, URI: resource.Root("common.Message", "x"), Conversation: conv, Title: "T",
			Interaction: inter, Labels: message.Private, Spans: []search.Span{{From: 2, To: 6}}, Before: []search.Line{line}, After: []search.Line{line, line}}}}, nil
	}
	code, _, body := s.post("/search.Search/QueryMessages", fmt.Sprintf(`{"query":"word","conversation":%q,"role":"tool","tool":"a.b",
		"since":"2026-01-02T03:04:05Z","until":"2026-02-03T04:05:06Z","around":2,"limit":7,"after":"c","order":"newest","mode":"text","threshold":0.5,
		"agent":"cook","labels":["private"],"without":["untrusted"],"message":%q}`, conv, msg))
	want := search.Query{Text: "word", Conversation: conv, Role: message.Tool, Tool: "a.b", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Until: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Around: 2, Limit: 7, After: "c",
		Order: search.Newest, Mode: search.ByText, Threshold: 0.5, Agent: "cook", Labels: message.Private, Without: message.Untrusted, Message: msg}
	if code != 200 || asked != want {
		t.Errorf("%d %s: asked %+v", code, body, asked)
	}
	line := `{"message":"` + msg.String() + `","role":"tool","tool":"a.b","time":"2026-03-04T05:06:07.000008Z","text":"a word�"}`
	if !sameJSON(t, body, `{"next":"more","by":"lexical","notice":"n","hits":[{"line":`+line+`,"spans":[{"from":2,"to":6}],"before":[`+line+`],"after":[`+line+`,`+line+
		`],"conversation":"`+conv.String()+`","title":"T","interaction":"`+inter.String()+`","uri":"cld:common.Message.x","labels":["private"],"score":0.5,"seq":"9"}]}`) {
		t.Errorf("%s", body)
	}
	if _, _, body = s.do(http.MethodGet, "/search.Search/QueryMessages"+"?encoding=json&message="+url.QueryEscape(`{"query":"w"}`), nil); asked != (search.Query{Text: "w"}) {
		t.Errorf("by GET: %s, asked %+v", body, asked)
	}
	for _, c := range [][2]string{
		{`{"role":"system"}`, "ROLE_UNKNOWN"}, {`{"conversation":"x"}`, "CONVERSATION_NOT_FOUND"}, {`{"limit":-1}`, "LIMIT_INVALID"},
		{`{"limit":101}`, "LIMIT_INVALID"}, {`{"around":6}`, "AROUND_INVALID"}, {`{"since":"yesterday"}`, "invalid_argument"},
		{`{"order":"oldest"}`, "ORDER_UNKNOWN"}, {`{"mode":"magic"}`, "MODE_UNKNOWN"}, {`{"threshold":1.5}`, "THRESHOLD_INVALID"},
		{`{"labels":["x"]}`, "LABEL"}, {`{"without":["x"]}`, "LABEL"}, {`{"message":"x"}`, "MESSAGE_NOT_FOUND"},
	} {
		if code, _, body := s.post("/search.Search/QueryMessages", c[0]); code < 400 || code >= 500 || !strings.Contains(body, c[1]) {
			t.Errorf("%s: %d %s", c[0], code, body)
		}
	}
	for _, in := range []*pb.QueryMessagesRequest{{Since: badTime()}, {Until: badTime()}} {
		if err := s.grpc("/search.Search/QueryMessages", in, &pb.QueryMessagesResponse{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", in, err)
		}
	}
	s.node.find = func(string, search.Query) (search.Page, error) {
		return search.Page{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search")
	}
	if err := s.grpc("/search.Search/QueryMessages", &pb.QueryMessagesRequest{}, &pb.QueryMessagesResponse{}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// FuzzJSON sends arbitrary bodies: every answer is JSON with a code, or a result.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"function":{"name":"a.b","arguments":"{}"}}`, `{"query":"x","limit":3}`, `[1]`, `{"id":1e400}`, "\xff", `{"agent":"\u0000"}`} {
		f.Add(true, s)
		f.Add(false, s)
	}
	n := &node{execute: func(_ context.Context, _ string, e work.Execution) (work.Executed, error) {
		return work.Executed{ClientID: e.ClientID, Tool: e.Tool, Result: &message.ToolResult{Status: message.OK, Content: []message.Block{&message.Text{Text: string(e.Args)}}}}, nil
	}, find: func(_ string, q search.Query) (search.Page, error) {
		return search.Page{Hits: []search.Hit{{Title: q.Text, Line: search.Line{Text: q.Tool, At: q.Since}}}, Next: q.After}, nil
	}}
	server := New(Options{Node: n, Guard: auth.New(auth.Options{Token: func() (string, error) { return "token", nil }})})
	mux := http.NewServeMux()
	if err := server.Mount(mux); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, execute bool, body string) {
		path := "/search.Search/QueryMessages"
		if execute {
			path = "/tool.Tool/ExecuteTool"
		}
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 500 || w.Code != 200 && answer["code"] == nil {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
