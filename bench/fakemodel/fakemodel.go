// Package fakemodel is an OpenAI-compatible model server for the benchmark. It
// answers at once: with a tool call if the last message is a user's, with a
// sentence if it is a tool's.
package fakemodel

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Answer is the model's text after a tool result, one token per chunk.
var Answer = []string{"The", " product", " of", " the", " two", " numbers", " is", " what", " the", " tool", " said", "."}

// FirstPath is where the server returns the first request that a model was sent.
const FirstPath = "/first"

// Handler returns the server. tool is the wire name of the tool that it calls.
func Handler(tool string) http.Handler {
	call, text := callStream(tool), textStream()
	var first atomic.Pointer[[]byte]
	bodies := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == FirstPath {
			if body := first.Load(); body != nil {
				w.Write(*body)
			}
			return
		}
		b := bodies.Get().(*bytes.Buffer)
		defer bodies.Put(b)
		b.Reset()
		if _, err := io.Copy(b, r.Body); err != nil {
			return
		}
		if first.Load() == nil {
			body := bytes.Clone(b.Bytes())
			first.CompareAndSwap(nil, &body)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := call
		if lastRole(b.Bytes()) == "tool" {
			out = text
		}
		w.Write(out)
	})
}

// lastRole finds the role of the last message without reading the whole body.
func lastRole(body []byte) string {
	const mark = `"role":"`
	i := bytes.LastIndex(body, []byte(mark))
	if i < 0 {
		return ""
	}
	rest := body[i+len(mark):]
	return string(rest[:bytes.IndexByte(rest, '"')])
}

func chunk(b *bytes.Buffer, delta, finish string) {
	if finish == "" {
		finish = "null"
	}
	fmt.Fprintf(b, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
}

func end(b *bytes.Buffer) []byte {
	b.WriteString(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":12,"total_tokens":112}}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

func callStream(tool string) []byte {
	var b bytes.Buffer
	chunk(&b, `{"role":"assistant","content":null}`, "")
	chunk(&b, `{"tool_calls":[{"index":0,"id":"call_bench","type":"function","function":{"name":`+strconv.Quote(tool)+`,"arguments":""}}]}`, "")
	for _, part := range []string{`{"a":`, ` 12, `, `"b": 7}`} {
		chunk(&b, `{"tool_calls":[{"index":0,"function":{"arguments":`+strconv.Quote(part)+`}}]}`, "")
	}
	chunk(&b, `{}`, `"tool_calls"`)
	return end(&b)
}

func textStream() []byte {
	var b bytes.Buffer
	chunk(&b, `{"role":"assistant","content":""}`, "")
	for _, t := range Answer {
		chunk(&b, `{"content":`+strconv.Quote(t)+`}`, "")
	}
	chunk(&b, `{}`, `"stop"`)
	return end(&b)
}
