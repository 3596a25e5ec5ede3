package edge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/test/apis"
)

// goodKey is the key that openAI takes; to any other it says wrongKey, as OpenAI does.
const (
	goodKey  = "sk-test-0123456789abcdef"
	wrongKey = `{"error":{"message":"Incorrect API key provided: sk-wrong*******cdef. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`
)

// openAI is api.openai.com itself, as a machine sees it behind a company's proxy: its certificate is
// trusted by SSL_CERT_FILE, and HTTPS_PROXY leads to it. It speaks the Responses API, with the events
// of https://platform.openai.com/docs/api-reference/responses-streaming, and checks each request.
// reply returns a text or a call. The result is the environment of a person with a key.
func openAI(t *testing.T, reply func(asked, result string) (text, call, args string)) []string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+goodKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, wrongKey)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-5.4","object":"model","created":1,"owned_by":"openai"}]}`)
	})
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+goodKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, wrongKey)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was cancelled
		}
		if err := apis.CheckResponses(body); err != nil {
			t.Errorf("%v: %s", err, body)
			http.Error(w, `{"error":{"message":"refused"}}`, http.StatusBadRequest)
			return
		}
		var in struct {
			Model string
			Input []struct {
				Role    string
				Content any // a text, or parts
				Output  any
			}
		}
		json.Unmarshal(body, &in) //nolint:errcheck // it was checked
		asked, result := "", ""
		for _, x := range in.Input {
			if x.Role == "user" {
				asked, result = apis.Written(x.Content), ""
			}
			if x.Output != nil {
				result = fmt.Sprint(x.Output)
			}
		}
		text, call, args := reply(asked, result)
		streamResponse(w, in.Model, text, call, args)
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"api.openai.com"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(mux)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "api.openai.com:443" {
			t.Errorf("asked for %s %s", r.Method, r.Host)
			return
		}
		there, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(there, here); there.Close() }() //nolint:errcheck // either side may leave
		io.Copy(here, there)                                //nolint:errcheck // likewise
		here.Close()
	}))
	t.Cleanup(proxy.Close)
	return []string{"OPENAI_API_KEY=" + goodKey, "HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + trusted}
}

// streamResponse writes the events of one response: a text, or a call if it is not empty.
func streamResponse(w http.ResponseWriter, model, text, call, args string) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	send := func(typ string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = typ, n
		n++
		b, _ := json.Marshal(fields)                      // what is sent can be marshalled
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", typ, b) //nolint:errcheck // the caller may be gone
	}
	type object = map[string]any
	response := object{"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": model, "output": []any{}}
	send("response.created", object{"response": response})
	var item object
	if call != "" {
		item = object{"type": "function_call", "id": "fc_1", "call_id": fmt.Sprintf("call_%d", time.Now().UnixNano()), "name": strings.ReplaceAll(call, ".", "__"), "arguments": "", "status": "in_progress"}
		send("response.output_item.added", object{"output_index": 0, "item": item})
		send("response.function_call_arguments.delta", object{"item_id": "fc_1", "output_index": 0, "delta": args})
		send("response.function_call_arguments.done", object{"item_id": "fc_1", "output_index": 0, "arguments": args})
		item["arguments"] = args
	} else {
		part := object{"type": "output_text", "text": "", "annotations": []any{}}
		item = object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{}, "status": "in_progress"}
		send("response.output_item.added", object{"output_index": 0, "item": item})
		send("response.content_part.added", object{"item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part})
		send("response.output_text.delta", object{"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text})
		send("response.output_text.done", object{"item_id": "msg_1", "output_index": 0, "content_index": 0, "text": text})
		part["text"], item["content"] = text, []any{part}
		send("response.content_part.done", object{"item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part})
	}
	item["status"] = "completed"
	send("response.output_item.done", object{"output_index": 0, "item": item})
	response["status"], response["output"] = "completed", []any{item}
	response["usage"] = object{"input_tokens": 9000, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 50,
		"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 9050}
	send("response.completed", object{"response": response})
}
