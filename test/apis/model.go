package apis

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// Says is a transport that answers with its bodies in order and repeats the
// last one. It records the requests.
type Says struct {
	Status int    // zero: 200
	Type   string // content type of the bodies
	Bodies []string
	Check  func(body []byte) error // checks each request body; nil: accept all

	Sent   []string
	Asked  []string // URLs
	Header http.Header
}

// RoundTrip implements http.RoundTripper.
func (s *Says) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if s.Check != nil {
			err = s.Check(b)
		}
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, b)
		}
		s.Sent = append(s.Sent, string(b))
	}
	s.Asked, s.Header = append(s.Asked, r.URL.String()), r.Header
	body := s.Bodies[0]
	if len(s.Bodies) > 1 {
		s.Bodies = s.Bodies[1:]
	}
	h := http.Header{}
	if s.Type != "" {
		h.Set("Content-Type", s.Type)
	}
	return &http.Response{StatusCode: cmp.Or(s.Status, http.StatusOK), Header: h, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Hello returns a request with one user message.
func Hello(more ...message.Block) *llm.Request {
	return &llm.Request{Transcript: llm.NewTranscript(&message.Message{ID: id.New(),
		Role: message.User, Blocks: append([]message.Block{&message.Text{Text: "Hello"}}, more...)})}
}

// Collect reads a model's answer to its end.
func Collect(m llm.Model, r *llm.Request) (reply *llm.Reply, notices []string, err error) {
	for ev, e := range m.Stream(context.Background(), r) {
		switch {
		case e != nil:
			err = e
		case ev.Kind == llm.Done:
			reply = ev.Reply
		case ev.Kind == llm.Notice:
			notices = append(notices, ev.Text)
		}
	}
	return reply, notices, err
}

// Tell describes a reply as text.
func Tell(r *llm.Reply) string {
	var b strings.Builder
	for _, x := range r.Blocks {
		switch x := x.(type) {
		case *message.Text:
			fmt.Fprintf(&b, "text %q;", x.Text)
		case *message.Reasoning:
			fmt.Fprintf(&b, "reasoning %q %s;", x.Text, x.Meta.Fields)
		case *message.ToolCall:
			fmt.Fprintf(&b, "call %s %s %s;", x.CallID, x.Name, x.Args)
		}
	}
	return b.String() + string(r.Stop)
}
