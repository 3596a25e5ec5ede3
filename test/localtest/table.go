package localtest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// Register registers tools as Steward does.
func Register(tb testing.TB, tools []tool.Tool) *tool.Registry {
	tb.Helper()
	r := new(tool.Registry)
	for _, t := range tools {
		if err := r.Add(t); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// Call calls a tool for the user ann, and returns the text of its result.
func Call(tb testing.TB, r *tool.Registry, name, args string) (string, error) {
	tb.Helper()
	res, err := Invoke(tb, r, name, tool.Invocation{Args: []byte(args), User: "ann", Key: id.New().String()})
	if err != nil {
		return "", err
	}
	var texts []string
	for _, b := range res.Content {
		if x, ok := b.(*message.Text); ok {
			texts = append(texts, x.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// Invoke calls a tool.
func Invoke(tb testing.TB, r *tool.Registry, name string, in tool.Invocation) (tool.Result, error) {
	tb.Helper()
	t, ok := r.Get(name)
	if !ok {
		tb.Fatalf("there is no %s", name)
	}
	return t.Call(context.Background(), in)
}

// Row is the name of a tool, the arguments of a call, and the text of its result or the code of its error.
type Row [3]string

// Table makes the calls and checks what they return.
func Table(tb testing.TB, r *tool.Registry, rows []Row) {
	tb.Helper()
	for _, c := range rows {
		name, args, want := c[0], c[1], c[2]
		got, err := Call(tb, r, name, args)
		if err != nil {
			got = fault.Of(err).Code
		}
		if got != want {
			tb.Errorf("%s(%s) = %q, %v; want %q", name, args, got, err, want)
		}
	}
}

// Described checks the names of the tools, which of them are actions, and that each tool, each of its parameters
// and what the work log says of its calls is described. tool.CheckSpec checks the arguments in the work log's text.
func Described(tb testing.TB, r *tool.Registry, names string, actions ...string) {
	tb.Helper()
	if got := strings.Join(r.Names(), " "); got != names {
		tb.Errorf("the tools are %s; want %s", got, names)
	}
	for _, s := range r.Specs() {
		if len(s.Description) < 40 || s.Version != "1" {
			tb.Errorf("%s: %q, version %q", s.Name, s.Description, s.Version)
		}
		var schema struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(s.Input, &schema); err != nil {
			tb.Fatal(err)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				tb.Errorf("%s: %s has no description", s.Name, name)
			}
		}
		if (s.Effect == tool.Action) != slices.Contains(actions, s.Name) {
			tb.Errorf("%s is a %s", s.Name, s.Effect)
		}
		if s.Log.Summary == "" || strings.HasSuffix(s.Log.Summary, ".") {
			tb.Errorf("%s has the work log text %q", s.Name, s.Log.Summary)
		}
	}
}

// Session calls tools one after the other, and follows which results become obsolete.
type Session struct {
	tb    testing.TB
	reg   *tool.Registry
	track *window.Tracker
	at    time.Time
	pos   int64
	calls map[message.Ref]string
}

// NewSession begins a session with the tools of a registry.
func NewSession(tb testing.TB, r *tool.Registry) *Session {
	s := &Session{tb: tb, reg: r, track: window.NewTracker(r.Get, r.Names()...), at: time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC), calls: map[message.Ref]string{}}
	s.track.OnRefused = func(err error) { tb.Errorf("refused: %v", err) }
	return s
}

// Expect makes a call and checks which calls have obsolete results because of it.
func (s *Session) Expect(name, args string, obsolete ...string) {
	s.tb.Helper()
	slices.Sort(obsolete)
	if got := s.call(name, args); !slices.Equal(got, obsolete) {
		s.tb.Errorf("%s %s: fell %q, want %q", name, args, got, obsolete)
	}
}

// Aged returns the calls whose results have become too old after a while.
func (s *Session) Aged(after time.Duration) []string {
	s.at = s.at.Add(after)
	return s.named(s.track.Aged(s.at))
}

// call makes a call, and returns the calls whose results became obsolete.
func (s *Session) call(name, args string) []string {
	s.tb.Helper()
	s.at = s.at.Add(time.Second)
	status := message.OK
	res, err := Invoke(s.tb, s.reg, name, tool.Invocation{Args: []byte(args), Key: id.New().String()})
	if err != nil {
		status, res = message.Failed, tool.Text(err.Error())
	}
	m := &message.Message{ID: id.New(), Role: message.Assistant, At: s.at, Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: name, Args: []byte(args)}}}
	c := m.Calls()[0]
	s.calls[c.Ref] = name + args
	s.pos += 2
	s.track.Observe(context.Background(), m, s.pos-1)
	obsolete := s.track.Observe(context.Background(), &message.Message{ID: id.New(), Role: message.Tool, At: s.at,
		Blocks: []message.Block{&message.ToolResult{Call: c.Ref, CallID: "c", Name: name, Status: status, Content: res.Content}}}, s.pos)
	for _, o := range obsolete {
		if o.Reason == "" {
			s.tb.Errorf("%s fell without a reason", s.calls[o.Ref])
		}
	}
	return s.named(obsolete)
}

// named returns the calls of results, sorted.
func (s *Session) named(results []window.Obsolete) []string {
	var out []string
	for _, o := range results {
		out = append(out, s.calls[o.Ref])
	}
	slices.Sort(out)
	return out
}
