package files

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// session calls tools for real and follows what becomes obsolete.
type session struct {
	t     *testing.T
	reg   *tool.Registry
	track *window.Tracker
	at    time.Time
	pos   int64
	calls map[message.Ref]string
}

func newSession(t *testing.T, r *tool.Registry) *session {
	s := &session{t: t, reg: r, track: window.NewTracker(r.Get, r.Names()...), at: time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC), calls: map[message.Ref]string{}}
	s.track.OnRefused = func(err error) { t.Errorf("refused: %v", err) }
	return s
}

// call makes a call, and returns the calls whose results became obsolete.
func (s *session) call(name, args string) []string {
	s.t.Helper()
	s.at = s.at.Add(time.Second)
	status := message.OK
	res, err := invoke(s.t, s.reg, name, tool.Invocation{Args: []byte(args), Key: id.New().String()})
	if err != nil {
		status, res = message.Failed, tool.Text(err.Error())
	}
	m := &message.Message{ID: id.New(), Role: message.Assistant, At: s.at, Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: name, Args: []byte(args)}}}
	c := m.Calls()[0]
	s.calls[c.Ref] = name + args
	s.pos += 2
	s.track.Observe(context.Background(), m, s.pos-1)
	fell := s.track.Observe(context.Background(), &message.Message{ID: id.New(), Role: message.Tool, At: s.at,
		Blocks: []message.Block{&message.ToolResult{Call: c.Ref, CallID: "c", Name: name, Status: status, Content: res.Content}}}, s.pos)
	var out []string
	for _, o := range fell {
		if o.Reason == "" {
			s.t.Errorf("%s fell without a reason", s.calls[o.Ref])
		}
		out = append(out, s.calls[o.Ref])
	}
	slices.Sort(out)
	return out
}

func (s *session) expect(name, args string, fell ...string) {
	s.t.Helper()
	slices.Sort(fell)
	if got := s.call(name, args); !slices.Equal(got, fell) {
		s.t.Errorf("%s %s: fell %q, want %q", name, args, got, fell)
	}
}

func TestWhatReadingAndWritingMakeObsolete(t *testing.T) {
	_, r := sandbox(t)
	s := newSession(t, r)
	const (
		a, b     = `{"path":"notes/a.txt"}`, `{"path":"notes/sub/b.txt"}`
		page     = `{"path":"notes/a.txt","lines":3}`
		top, sub = `{"path":"notes"}`, `{"path":"notes/sub"}`
	)
	s.expect("files.read", a)
	s.expect("files.read", b)
	s.expect("files.read", page) // reading the whole file does not make a page obsolete
	s.expect("files.read", a, "files.read"+a)
	s.expect("files.list", top)
	s.expect("files.list", sub)
	s.expect("files.list", `{}`)
	s.expect("files.list", top, "files.list"+top)
	s.expect("files.write", `{"path":"notes/a.txt","content":"x"}`) // the file exists: the write is refused, and nothing becomes obsolete
	s.expect("files.write", `{"path":"notes/a.txt","content":"x","overwrite":true}`, "files.read"+a, "files.read"+page, "files.list"+top)
	s.expect("files.list", top)
	s.expect("files.read", a)
	s.expect("files.write", `{"path":"notes/sub/new.txt","content":"x"}`, "files.list"+sub) // the listing of the folder above is unchanged
	s.expect("files.write", `{"path":"notes/fresh/new.txt","content":"x"}`, "files.list"+top)
	s.expect("files.list", `{"path":"notes/"}`)
	s.expect("files.write", `{"path":"notes/c.txt","content":"x"}`, `files.list{"path":"notes/"}`)
	s.expect("files.list", `{}`, "files.list{}")
	s.expect("files.read", b, "files.read"+b)
}

func TestAListingThatCannotBeUnderstoodStays(t *testing.T) {
	_, r := sandbox(t)
	w, _ := r.Get("files.write")
	o, ok := tool.OptimizerOf(w)
	if !ok {
		t.Fatal("files.write is no optimizer")
	}
	earlier := []tool.Past{{Name: "files.list", Args: []byte(`{"path":`)}, {Name: "files.read", Args: []byte(`{"path":"notes"}`)}}
	got, err := o.Obsolete(context.Background(), tool.Past{Args: []byte(`{"path":"notes/a.txt"}`)}, earlier)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := o.Obsolete(context.Background(), tool.Past{Args: []byte(`[]`)}, earlier); err == nil {
		t.Error("a call without a path was understood")
	}
}

func TestWhatTheClockMakesObsolete(t *testing.T) {
	s := newSession(t, kitOf(t, clockKit(t)))
	s.expect("time.now", `{}`)
	s.expect("time.now", `{"zone":"Tokyo"}`) // both zones were asked for
	s.expect("time.now", `{}`, "time.now{}")
	s.expect("time.convert", `{"time":"15:30","to":"Tokyo"}`)
	s.expect("time.convert", `{"time":"15:30","to":"UTC"}`)
	s.expect("time.convert", `{"time":"15:30","to":"UTC"}`, `time.convert{"time":"15:30","to":"UTC"}`)
	s.expect("math.add", `{"a":1,"b":2}`)
	s.expect("math.add", `{"a":1,"b":2}`) // an earlier sum stays valid
	s.at = s.at.Add(maxClockAge)
	var fell []string
	for _, o := range s.track.Aged(s.at) {
		fell = append(fell, s.calls[o.Ref])
	}
	slices.Sort(fell)
	if !slices.Equal(fell, []string{`time.now{"zone":"Tokyo"}`, "time.now{}"}) {
		t.Errorf("too old are %q", fell)
	}
}

// Every tool describes its calls for the work log. tool.CheckSpec checks the arguments in it.
func TestEveryToolIsTold(t *testing.T) {
	_, r := sandbox(t)
	for _, sp := range r.Specs() {
		if sp.Log.Summary == "" || strings.HasSuffix(sp.Log.Summary, ".") {
			t.Errorf("%s has the work log text %q", sp.Name, sp.Log.Summary)
		}
	}
	if w, _ := r.Get("files.write"); slices.Contains(w.Spec().Log.Parameters, "content") {
		t.Error(fmt.Sprint("the log keeps whole files: ", w.Spec().Log))
	}
}
