package openai_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

// canned answers every request with the same body, without a network, so that
// what is measured is encoding, the client's own work and parsing.
type canned struct{ body []byte }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(c.body)),
	}, nil
}

func benchmark(b *testing.B, script string, history int) {
	e, err := apis.Load("testdata/" + script + ".http")
	if err != nil {
		b.Fatal(err)
	}
	p := openai.New(openai.Options{BaseURL: "http://vendor.test", HTTP: &http.Client{Transport: canned{e.Body}}})
	var msgs []*message.Message
	for range history {
		msgs = append(msgs,
			&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "What is six times seven?"}}},
			&message.Message{Role: message.Assistant, Blocks: []message.Block{&message.Text{Text: "It is forty-two."}}})
	}
	msgs = append(msgs, &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "Hello!"}}})
	r := &llm.Request{System: "You are a helpful assistant.", Tools: apis.Tools(), Transcript: llm.NewTranscript(msgs...)}
	m := p.Model("m")
	b.ReportAllocs()
	before, n := cpu(b), 0
	for b.Loop() {
		n++
		for _, err := range m.Stream(context.Background(), r) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(n), "cpu-ns/op")
}

// cpu returns the CPU time that the process has used: on a busy machine it
// says more than the clock.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkText(b *testing.B)    { benchmark(b, "unicode", 0) }
func BenchmarkCall(b *testing.B)    { benchmark(b, "call", 0) }
func BenchmarkHistory(b *testing.B) { benchmark(b, "call", 1000) }
