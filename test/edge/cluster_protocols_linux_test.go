package edge_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"steward/test/edge"
	"steward/test/must"
	"steward/test/rpc/pb"
	"steward/test/rpc/workpb"
)

// passesOn is a node that does not work on the user: it passes on what it is asked. The model begins every answer with
// "It is ", and goes on with the next text of answers.
type passesOn struct {
	*testing.T
	*edge.Node
	answers        chan<- string
	ollama, device string // addresses of the servers without a credential
}

// everyProtocol speaks to the node by each protocol.
func (e *passesOn) everyProtocol() {
	for _, p := range []struct {
		name string
		try  func() error
	}{
		{"HTTP API", e.api},
		{"WebSocket", e.socket},
		{"OpenAI", e.openAI},
		{"OpenAI, streamed", e.openAIStream},
		{"MCP", e.mcp},
		{"gRPC", e.unary},
		{"gRPC, a stream that ends", e.process},
		{"gRPC, a stream that does not end", e.subscribe},
		{"Connect", e.connect},
		{"Connect, a stream", e.connectStream},
		{"Ollama", e.ollamaChat},
		{"Wyoming", e.wyoming},
	} {
		if err := p.try(); err != nil {
			e.T.Errorf("%s: %v", p.name, err)
		}
	}
}

// wrong is the error of an answer that is not the right one; nil if it is.
func wrong(got, want any) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("got %#v, want %#v", got, want)
}

func (e *passesOn) api() error {
	var list struct{ Conversations []struct{ ID string } }
	e.Get("/api/v1/conversations", &list)
	if len(list.Conversations) == 0 {
		return errors.New("there are no conversations")
	}
	path := "/api/v1/conversations/" + list.Conversations[0].ID
	if status, body := e.HTTP(http.MethodPatch, path, map[string]any{"title": "Where?"}); status != http.StatusOK {
		return fmt.Errorf("%d %s", status, body)
	}
	var got struct{ Title string }
	e.Get(path, &got)
	return wrong(got.Title, "Where?")
}

func (e *passesOn) socket() error {
	e.answers <- "on a socket."
	return wrong(e.Ask("Where?", nil).Text, "It is on a socket.")
}

// question is the body of a request to an endpoint as OpenAI has it.
func question(stream bool) map[string]any {
	return map[string]any{"model": "default", "stream": stream, "messages": []map[string]any{{"role": "user", "content": "Where?"}}}
}

func (e *passesOn) openAI() error {
	e.answers <- "here."
	status, said := complete(e.T, e.Node, question(false))
	if status != http.StatusOK {
		return fmt.Errorf("%d %+v", status, said)
	}
	return wrong(said.Choices[0].Message.Content, "It is here.")
}

// openAIStream reads the beginning of the answer while the model has not said the end.
func (e *passesOn) openAIStream() error {
	res, err := e.post("/v1/chat/completions", "application/json", must.Get(json.Marshal(question(true))))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, last := "", ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		last = data
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(data), &chunk) != nil || len(chunk.Choices) == 0 {
			continue
		}
		if said += chunk.Choices[0].Delta.Content; said == "It is " && chunk.Choices[0].Delta.Content != "" {
			e.answers <- "streamed."
		}
	}
	return wrong(said+last, "It is streamed.[DONE]")
}

// post sends a body with the token, and returns the answer as it begins.
func (e *passesOn) post(path, kind string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(e.T.Context(), http.MethodPost, e.URL+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+e.Token())
	r.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body) //nolint:errcheck // the status says enough
		return nil, fmt.Errorf("%s %s", res.Status, text)
	}
	return res, err
}

// tokenHeader adds the token to each request.
type tokenHeader string

func (b tokenHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// mcp has a session over Streamable HTTP: several requests, and a stream of what the server tells.
func (e *passesOn) mcp() error {
	ctx := e.T.Context()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&sdk.StreamableClientTransport{Endpoint: e.URL + "/mcp", HTTPClient: &http.Client{Transport: tokenHeader(e.Token())}, MaxRetries: -1}, nil)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // what was asked was answered
	list, err := s.ListTools(ctx, nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == "ask_assistant" }) {
		return fmt.Errorf("%v, %v", list, err)
	}
	conversation := ""
	for _, where := range []string{"in a session.", "in the same one."} {
		e.answers <- where
		args := map[string]any{"message": "Where?"}
		if conversation != "" {
			args["conversation"] = conversation
		}
		got, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "ask_assistant", Arguments: args})
		if err != nil {
			return err
		}
		var out struct {
			Answer       string
			Conversation string `json:"conversation_id"`
		}
		if err := json.Unmarshal(must.Get(json.Marshal(got.StructuredContent)), &out); err != nil || out.Answer != "It is "+where || conversation != "" && out.Conversation != conversation {
			return fmt.Errorf("%+v, %v", got, err)
		}
		conversation = out.Conversation
	}
	return nil
}

// rpc connects as a gRPC client does.
func (e *passesOn) rpc() (*grpc.ClientConn, context.Context) {
	c := must.Get(grpc.NewClient(strings.TrimPrefix(e.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials())))
	e.T.Cleanup(func() { c.Close() })
	return c, metadata.AppendToOutgoingContext(e.T.Context(), "authorization", "Bearer "+e.Token())
}

func (e *passesOn) unary() error {
	c, ctx := e.rpc()
	var out pb.ToolCallResult
	in := &pb.Tool{Function: &pb.Function{Name: "math__multiply", Arguments: proto.String(`{"a": 6, "b": 7}`)}}
	if err := c.Invoke(ctx, "/tool.Tool/ExecuteTool", in, &out); err != nil {
		return err
	}
	return wrong(out.Content, "42")
}

// process reads the message as it was recorded while the model has not said the end of its answer.
func (e *passesOn) process() error {
	c, ctx := e.rpc()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/assistant.Assistant/Process")
	if err != nil {
		return err
	}
	var said []string
	if err := s.SendMsg(&workpb.MessageV2{Content: "Where?"}); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for {
		var m workpb.MessageV2
		err := s.RecvMsg(&m)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if said = append(said, m.GetContent()); len(said) == 1 {
			e.answers <- "processed."
		}
	}
	return wrong(strings.Join(said, " "), "Where? It is processed.")
}

func (e *passesOn) subscribe() error {
	c, ctx := e.rpc()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/event.Event/Subscribe")
	if err != nil {
		return err
	}
	if err := s.SendMsg(&pb.SubscribeRequest{}); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	var first pb.Occurrence
	if err := s.RecvMsg(&first); err != nil || first.GetCursor() == "" {
		return fmt.Errorf("%v, %v", &first, err)
	}
	return nil
}

func (e *passesOn) connect() error {
	res, err := e.post("/tool.Tool/ExecuteTool", "application/json", []byte(`{"function":{"name":"math.multiply","arguments":"{\"a\":6,\"b\":7}"}}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var out struct{ Content string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return err
	}
	return wrong(out.Content, "42")
}

// connectStream is process by the protocol of Connect: each message after its length, and the end after a flag.
func (e *passesOn) connectStream() error {
	in := []byte(`{"content":"Where?"}`)
	res, err := e.post("/assistant.Assistant/Process", "application/connect+json", append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(in))), in...))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var said []string
	for {
		var head [5]byte
		if _, err := io.ReadFull(res.Body, head[:]); err != nil {
			return err
		}
		text := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(res.Body, text); err != nil {
			return err
		}
		if head[0] != 0 {
			return wrong(strings.Join(said, " ")+string(text), "Where? It is connected.{}")
		}
		var m struct{ Content string }
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if said = append(said, m.Content); len(said) == 1 {
			e.answers <- "connected."
		}
	}
}

func (e *passesOn) ollamaChat() error {
	e.answers <- "there."
	res, err := http.Post("http://"+e.ollama+"/api/chat", "application/json", strings.NewReader(string(must.Get(json.Marshal(question(false))))))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var out struct{ Message struct{ Content string } }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return err
	}
	return wrong(out.Message.Content, "It is there.")
}

func (e *passesOn) wyoming() error {
	c, err := net.Dial("tcp", e.device)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"type":"describe"}`+"\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "info") {
		return fmt.Errorf("%q, %v", line, err)
	}
	return nil
}
