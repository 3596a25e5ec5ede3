package rpc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"steward/test/must"
	"steward/test/rpc/pb"
	"steward/test/rpc/vectorpb"
)

func call(name, args string) *pb.Tool {
	return &pb.Tool{Function: &pb.Function{Name: name, Arguments: &args}}
}

// TestOnePort uses all of Steward's protocols at one address.
func TestOnePort(t *testing.T) {
	s := serve(t, t.TempDir(), "127.0.0.1:0", "")
	var list pb.ListToolsResponse
	must.Do(t, s.grpc("/tool.Tool/ListTools", &pb.ListToolsRequest{Namespace: proto.String("math")}, &list))
	at := slices.IndexFunc(list.Tools, func(t *pb.Tool) bool { return t.GetName() == "math.multiply" })
	if at < 0 || list.Tools[at].GetFunction().GetName() != "math__multiply" || list.Tools[at].GetEffect() != pb.Effect_EFFECT_QUERY ||
		list.Tools[at].GetFunction().GetParameters().GetFields()["type"].GetStringValue() != "object" {
		t.Errorf("%v", list.Tools)
	}
	var viaGRPC, viaWeb pb.ToolCallResult
	in := call("math__multiply", `{"a": 6, "b": 7}`)
	if err := s.grpc("/tool.Tool/ExecuteTool", in, &viaGRPC); err != nil || viaGRPC.Content != "42" || viaGRPC.Status != pb.CallStatus_CALL_STATUS_OK {
		t.Errorf("gRPC: %v, %v", &viaGRPC, err)
	}
	if got := s.web("/tool.Tool/ExecuteTool", in, &viaWeb); viaWeb.Content != "42" || !strings.Contains(strings.ToLower(got), "grpc-status: 0") {
		t.Errorf("gRPC-Web: %v, %q", &viaWeb, got)
	}
	got := s.json("/tool.Tool/ExecuteTool", `{"function":{"name":"math.multiply","arguments":"{\"a\":6,\"b\":7}"}}`)
	if got["content"] != "42" || got["status"] != "CALL_STATUS_OK" || got["id"] == "" {
		t.Errorf("JSON: %v", got)
	}
	err := s.grpc("/tool.Tool/ExecuteTool", call("math.multipy", ""), &viaGRPC)
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "math.multiply") {
		t.Errorf("an unknown tool: %v", err)
	}
	check, err := health.NewHealthClient(s.conn).Check(t.Context(), &health.HealthCheckRequest{})
	if err != nil || check.Status != health.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", check, err)
	}

	s.streams("HTTP/1.1", http.DefaultClient)
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	s.streams("HTTP/2.0", &http.Client{Transport: h2})

	ctx := t.Context()
	ws, _, err := websocket.Dial(ctx, s.url+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {s.bearer()}}})
	must.Do(t, err)
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"nothing_known"}`)); err != nil {
		t.Error(err)
	}
	if _, frame, err := ws.Read(ctx); err != nil || !json.Valid(frame) {
		t.Errorf("WebSocket: %s, %v", frame, err)
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}

	// A client that watches for ever does not keep Steward from ending, nor is it
	// given the time that running turns have.
	watch, err := health.NewHealthClient(s.conn).Watch(t.Context(), &health.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.end(t)
	if _, err := watch.Recv(); err == nil {
		t.Error("the watch goes on")
	}
}

// streams has an answer streamed by OpenAI's API.
func (s *steward) streams(version string, client *http.Client) {
	s.t.Helper()
	r := must.Get(client.Get(s.url + "/healthz"))
	r.Body.Close()
	code, body := s.post(client, "/v1/chat/completions", "application/json",
		[]byte(`{"model":"default","stream":true,"messages":[{"role":"user","content":"Hello, who are you?"}]}`))
	if code != http.StatusOK || r.Proto != version || strings.Count(string(body), "\ndata: ") < 2 || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		s.t.Errorf("streamed over %s: %d %s", r.Proto, code, body)
	}
}

// TestActionsAreNotDoneUnasked checks that actions are denied if nobody is there to approve them. The denial
// is recorded under the call's id and survives a restart.
func TestActionsAreNotDoneUnasked(t *testing.T) {
	dir := t.TempDir()
	settings := fmt.Sprintf("folders:\n  - {name: notes, path: %q, write: true}\n", t.TempDir())
	s := serve(t, dir, "127.0.0.1:0", settings)
	in := call("files.write", `{"path":"notes/a.txt","content":"hello"}`)
	in.Id = proto.String("call-1")
	var first, again pb.ToolCallResult
	must.Do(t, s.grpc("/tool.Tool/ExecuteTool", in, &first))
	if first.Status != pb.CallStatus_CALL_STATUS_DENIED || !strings.Contains(first.Content, "steward chat") || first.Recorded || first.Id != "call-1" {
		t.Errorf("%v", &first)
	}
	s.end(t)
	s = serve(t, dir, "127.0.0.1:0", settings)
	must.Do(t, s.grpc("/tool.Tool/ExecuteTool", in, &again))
	again.Recorded = !again.Recorded
	if !proto.Equal(&first, &again) {
		t.Errorf("first %v, then %v", &first, &again)
	}
	err := s.grpc("/tool.Tool/ExecuteTool", &pb.Tool{Id: in.Id, Function: &pb.Function{Name: "math.add", Arguments: proto.String(`{"a":1,"b":2}`)}}, &again)
	if status.Code(err) != codes.Aborted {
		t.Errorf("the id for another call: %v", err)
	}
	if got := s.command("search", "--json", "hello"); strings.Contains(got, "hello") && strings.Contains(got, "files.write") {
		t.Errorf("a call from outside is no message: %s", got)
	}
}

// TestServicesAsTools declares a foreign service and Steward's own search as tools. They are unused before
// approval, then listed and called, and unavailable once the service has stopped.
func TestServicesAsTools(t *testing.T) {
	hash := start(t, nil, "steward/examples/hash", "--listen", "127.0.0.1:0")
	line := must.Get(hash.out.ReadString('\n'))
	server := strings.TrimSpace(line[strings.LastIndex(line, " "):])
	own := free(t)
	s := serve(t, t.TempDir(), own, fmt.Sprintf(`
service:
  tool:
    endpoints:
      sha256_hash: {call: toolbox.HashTools.Sha256Hash, host: %q, name: calculate_sha256, description: Calculate SHA-256 hash of input text}
      md5_hash: {call: toolbox.HashTools.Md5Hash, host: %q}
      messages: {call: search.Search.QueryMessages, host: %q, metadata: {authorization: "Bearer ${MESSAGES_KEY}"}}
`, server, server, own))
	key := exec.Command(path(t, "steward/cmd/steward"), "secrets", "set", "MESSAGES_KEY", "--data", filepath.Join(s.dir, "data"))
	key.Env, key.Dir, key.Stdin = s.env, s.dir, strings.NewReader(s.command("keys", "create", "-q"))
	if out, err := key.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.command("ask", "-q", "What is 6 times 7?")
	var list pb.ListToolsResponse
	if err := s.grpc("/tool.Tool/ListTools", &pb.ListToolsRequest{Namespace: proto.String("sha256_hash")}, &list); err != nil || len(list.Tools) != 0 {
		t.Errorf("before anybody has approved it: %v, %v", list.Tools, err)
	}
	s.command("agents", "approve", "--yes", "grpc:sha256_hash", "grpc:md5_hash", "grpc:messages")

	if err := s.grpc("/tool.Tool/ListTools", &pb.ListToolsRequest{Namespace: proto.String("sha256_hash")}, &list); err != nil || len(list.Tools) != 1 {
		t.Fatalf("%v, %v", list.Tools, err)
	}
	def := list.Tools[0]
	schema, err := def.GetFunction().GetParameters().MarshalJSON()
	if err != nil || def.GetName() != "calculate_sha256" || def.GetFunction().GetDescription() != "Calculate SHA-256 hash of input text" ||
		def.GetEffect() != pb.Effect_EFFECT_QUERY || def.GetOrigin() != "grpc:sha256_hash" || !strings.Contains(strings.ReplaceAll(string(schema), " ", ""), `"required":["input"]`) {
		t.Errorf("%v, %s", def, schema)
	}
	sum := sha256.Sum256([]byte("grüß dich"))
	var res pb.ToolCallResult
	must.Do(t, s.grpc("/tool.Tool/ExecuteTool", call("calculate_sha256", `{"input":"grüß dich"}`), &res))
	if res.Status != pb.CallStatus_CALL_STATUS_OK || !strings.Contains(res.Content, hex.EncodeToString(sum[:])) || !slices.Contains(res.Labels, "untrusted") {
		t.Errorf("%v", &res)
	}
	if got := s.json("/tool.Tool/ExecuteTool", `{"function":{"name":"md5_hash.md5_hash","arguments":"{\"input\":\"abc\"}"}}`); !strings.Contains(fmt.Sprint(got["content"]), "900150983cd24fb0d6963f7d28e17f72") {
		t.Errorf("%v", got)
	}

	// Steward's own search, called directly and as a tool.
	var direct pb.QueryMessagesResponse
	if err := s.grpc("/search.Search/QueryMessages", &pb.QueryMessagesRequest{Query: "times", Role: proto.String("user")}, &direct); err != nil || len(direct.Hits) != 1 {
		t.Fatalf("%v, %v", &direct, err)
	}
	must.Do(t, s.grpc("/tool.Tool/ExecuteTool", call("messages.query_messages", `{"query":"times","role":"user"}`), &res))
	if hit := direct.Hits[0]; res.Status != pb.CallStatus_CALL_STATUS_OK || !strings.Contains(res.Content, hit.Line.Message) || hit.Line.Text != "What is 6 times 7?" {
		t.Errorf("directly %v, as a tool %v", hit, &res)
	}

	// What the next call of that conversation sends.
	var window pb.Window
	must.Do(t, s.grpc("/memory.Memory/GetWindow", &pb.WindowRequest{For: direct.Hits[0].Conversation}, &window))
	if len(window.Allocation) != 7 || window.Tokens == 0 || !slices.ContainsFunc(window.Pieces, func(p *pb.Piece) bool { return p.Name == "What is 6 times 7?" && p.Role == "user" }) {
		t.Errorf("%v", &window)
	}

	// By vectors: with a text that the server embeds, as the tool of that name, and refused with a foreign vector.
	var similar vectorpb.QueryItemsResponse
	for similar.By == "" || similar.Behind > 0 { // vectors are made in the background
		must.Do(t, s.grpc("/vector.Vector/QueryItems", &vectorpb.QueryItemsRequest{Text: proto.String("multiplying 6 by 7"), Filter: &vectorpb.Filter{Role: proto.String("user")}}, &similar))
	}
	if len(similar.Items) != 1 || similar.Items[0].Text != "What is 6 times 7?" || similar.By != "lexical" || similar.Items[0].Message != direct.Hits[0].Line.Message {
		t.Errorf("%v", &similar)
	}
	must.Do(t, s.grpc("/tool.Tool/ExecuteTool", call("search_similar_content", `{"text":"6 times 7"}`), &res))
	if res.Status != pb.CallStatus_CALL_STATUS_OK || !strings.Contains(res.Content, similar.Items[0].Identifier) {
		t.Errorf("%v", &res)
	}
	if err := s.grpc("/vector.Vector/QueryItems", &vectorpb.QueryItemsRequest{Vector: []float32{1, 2, 3}}, &similar); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a vector of three dimensions: %v", err)
	}

	hash.kill()
	if err := s.grpc("/tool.Tool/ExecuteTool", call("calculate_sha256", `{"input":"x"}`), &res); err != nil || res.Status != pb.CallStatus_CALL_STATUS_UNAVAILABLE {
		t.Errorf("without its server: %v, %v", &res, err)
	}
}

// free returns an unused address that no other process gets: a port at a loopback address that only this
// process uses.
func free(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	ln := must.Get(net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16, pid>>8%256, pid%256)))
	defer ln.Close()
	return ln.Addr().String()
}
