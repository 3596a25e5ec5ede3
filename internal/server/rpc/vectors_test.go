package rpc

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/server/auth"
	pb "steward/test/rpc/vectorpb"
)

func TestQueryItems(t *testing.T) {
	s := serve(t, auth.Options{}, Options{})
	conv, inter, msg := id.New(), id.New(), id.New()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	var asked search.ItemQuery
	s.node.items = func(_ string, q search.ItemQuery) (search.ItemPage, error) {
		asked = q
		return search.ItemPage{By: search.BySemantic, Models: []string{"test/e"}, Behind: 3, Items: []search.Item{{URI: resource.Root("common.Message", "x"), Score: 0.5,
			Conversation: conv, Interaction: inter, Message: msg, Role: message.User, At: at, Text: "a car", Place: search.Span{From: 2, To: 7}, Tokens: 9, Labels: message.Untrusted}}}, nil
	}
	code, _, body := s.post("/vector.Vector/QueryItems", fmt.Sprintf(`{"text":"automobile","filter":{"threshold":-0.5,"limit":7,"max_tokens":100,"conversation":%q,"role":"user",
		"since":"2026-01-02T03:04:05Z","until":"2026-02-03T04:05:06Z"}}`, conv))
	want := search.ItemQuery{Text: "automobile", Threshold: -0.5, Limit: 7, MaxTokens: 100, Conversation: conv, Role: message.User,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Until: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	asked.Vector = nil // empty
	if code != 200 || !reflect.DeepEqual(asked, want) {
		t.Errorf("%d %s: asked %+v", code, body, asked)
	}
	if !sameJSON(t, body, `{"models":["test/e"],"by":"semantic","behind":"3","items":[{"identifier":"cld:common.Message.x","score":0.5,"conversation":"`+conv.String()+
		`","interaction":"`+inter.String()+`","message":"`+msg.String()+`","role":"user","time":"2026-03-04T05:06:07.000008Z","text":"a car","from":2,"to":7,"tokens":"9","labels":["untrusted"]}]}`) {
		t.Errorf("%s", body)
	}
	if _, _, body = s.do(http.MethodGet, "/vector.Vector/QueryItems?encoding=json&message="+url.QueryEscape(`{"text":"w"}`), nil); asked.Text != "w" {
		t.Errorf("by GET: %s, asked %+v", body, asked)
	}
	var out pb.QueryItemsResponse
	if err := s.grpc("/vector.Vector/QueryItems", &pb.QueryItemsRequest{Vector: []float32{1, -0.25}, Model: proto.String("test/e"), Filter: &pb.Filter{}}, &out); err != nil ||
		!reflect.DeepEqual(asked, search.ItemQuery{Vector: []float32{1, -0.25}, Model: "test/e"}) || len(out.Items) != 1 || out.Items[0].Identifier != "cld:common.Message.x" {
		t.Errorf("%v: asked %+v, got %v", err, asked, &out)
	}
	for _, c := range [][2]string{
		{`{}`, "SEARCH_EMPTY"}, {`{"text":" "}`, "SEARCH_EMPTY"}, {`{"text":"a","vector":[1]}`, "QUERY_AMBIGUOUS"}, {`{"vector":[0,0]}`, "VECTOR_INVALID"}, {`{"vector":["NaN"]}`, "REQUEST_INVALID"},
		{`{"text":"a","filter":{"role":"system"}}`, "ROLE_UNKNOWN"}, {`{"text":"a","filter":{"conversation":"x"}}`, "CONVERSATION_NOT_FOUND"}, {`{"text":"a","filter":{"limit":-1}}`, "LIMIT_INVALID"},
		{`{"text":"a","filter":{"limit":101}}`, "LIMIT_INVALID"}, {`{"text":"a","filter":{"threshold":1.5}}`, "THRESHOLD_INVALID"}, {`{"text":"a","filter":{"max_tokens":-1}}`, "MAX_TOKENS_INVALID"},
	} {
		if code, _, body := s.post("/vector.Vector/QueryItems", c[0]); code < 400 || code >= 500 || !strings.Contains(body, c[1]) {
			t.Errorf("%s: %d %s", c[0], code, body)
		}
	}
	s.node.items = func(string, search.ItemQuery) (search.ItemPage, error) {
		return search.ItemPage{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search by vectors")
	}
	if err := s.grpc("/vector.Vector/QueryItems", &pb.QueryItemsRequest{Text: proto.String("a")}, &out); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}
