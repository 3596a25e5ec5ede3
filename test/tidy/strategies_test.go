package tidy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	tidy "steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

type readArgs struct {
	Room string `json:"room" jsonschema:"the room, for example kitchen"`
}

type setArgs struct {
	Room    string  `json:"room" jsonschema:"the room, for example kitchen"`
	Celsius float64 `json:"celsius" jsonschema:"how warm it is to be" min:"5" max:"30"`
}

type moveArgs struct {
	Event string `json:"event" jsonschema:"the event's name"`
	From  string `json:"from" jsonschema:"the day it is on, YYYY-MM-DD"`
	To    string `json:"to" jsonschema:"the day it moves to, YYYY-MM-DD"`
}

type dayArgs struct {
	Day string `json:"day" jsonschema:"YYYY-MM-DD"`
}

// house is the state that the example's tools work on.
type house struct {
	celsius map[string]float64
	events  map[string][]string // by day
}

// begin strategies
// heating returns the tools that read and set how warm a room is.
func (h *house) heating() ([]tool.Tool, error) {
	read, err := tool.New(tool.Spec{
		Name: "heating.read", Description: "How warm a room is, in °C.", Effect: tool.Query,
		Tidy: []tool.Strategy{
			// Reading a room again makes what was read of it before obsolete,
			{Kind: tool.ByParameters, Parameters: []string{"room"}},
			// and after half an hour nobody should rely on it any more.
			{Kind: tool.ByAge, MaxAge: 30 * time.Minute},
		},
	}, func(_ context.Context, _ tool.Invocation, a readArgs) (float64, error) {
		return h.celsius[a.Room], nil
	})
	if err != nil {
		return nil, err
	}
	set, err := tool.New(tool.Spec{
		Name: "heating.set", Description: "Sets how warm a room is to be, in °C.", Effect: tool.Action,
		Tidy: []tool.Strategy{
			// Setting a room makes what was read of it obsolete, and with it
			// what was said of the house as a whole.
			{Kind: tool.ByTool, Tools: []string{"heating.read"}, Parameters: []string{"room"}, Cascade: []string{"heating.overview"}},
		},
	}, func(_ context.Context, _ tool.Invocation, a setArgs) (string, error) {
		h.celsius[a.Room] = a.Celsius
		return "set", nil
	})
	return []tool.Tool{read, set}, err
}

// end strategies

// begin optimizer
// move is the tool that moves an event to another day. It knows itself which
// days look different then: no comparison of parameters would tell.
type move struct{ tool.Tool }

// Unwrap leads to the typed tool.
func (m *move) Unwrap() tool.Tool { return m.Tool }

// Obsolete implements tool.Optimizer.
func (m *move) Obsolete(_ context.Context, call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error) {
	var moved moveArgs
	if err := json.Unmarshal(call.Args, &moved); err != nil {
		return nil, err
	}
	var out []tool.Obsolete
	for _, e := range earlier {
		var seen dayArgs
		if err := json.Unmarshal(e.Args, &seen); err != nil {
			continue
		}
		if e.Name == "calendar.day" && (seen.Day == moved.From || seen.Day == moved.To) {
			out = append(out, tool.Obsolete{Ref: e.Ref, Reason: moved.Event + " was moved from " + moved.From + " to " + moved.To})
		}
	}
	return out, nil
}

func (h *house) mover() (tool.Tool, error) {
	t, err := tool.New(tool.Spec{
		Name: "calendar.move", Description: "Moves an event to another day.", Effect: tool.Action,
		Tidy: []tool.Strategy{{Kind: tool.Custom, Tools: []string{"calendar.day"}}},
	}, func(_ context.Context, _ tool.Invocation, a moveArgs) (string, error) {
		return "moved", h.move(a)
	})
	return &move{t}, err
}

// end optimizer

func (h *house) move(a moveArgs) error {
	i := slices.Index(h.events[a.From], a.Event)
	if i < 0 {
		return fault.New(fault.NotFound, "event_not_found", "there is no %s on %s", a.Event, a.From)
	}
	h.events[a.From] = slices.Delete(h.events[a.From], i, i+1)
	h.events[a.To] = append(h.events[a.To], a.Event)
	return nil
}

// rest returns the example's tools that the document does not show.
func (h *house) rest() ([]tool.Tool, error) {
	overview, err := tool.New(tool.Spec{Name: "heating.overview", Description: "How warm the house is.", Effect: tool.Query},
		func(context.Context, tool.Invocation, struct{}) (map[string]float64, error) { return h.celsius, nil })
	if err != nil {
		return nil, err
	}
	day, err := tool.New(tool.Spec{Name: "calendar.day", Description: "What is on a day.", Effect: tool.Query},
		func(_ context.Context, _ tool.Invocation, a dayArgs) (string, error) {
			return "events: " + strings.Join(h.events[a.Day], ", "), nil
		})
	return []tool.Tool{overview, day}, err
}

// TestStrategies calls the tools that the document shows and checks which
// results become obsolete.
func TestStrategies(t *testing.T) {
	inDocument(t, "strategies", snippet(t, "strategies_test.go", "strategies"))
	inDocument(t, "optimizer", snippet(t, "strategies_test.go", "optimizer"))
	h := &house{celsius: map[string]float64{"kitchen": 19, "bath": 22}, events: map[string][]string{"2026-05-04": {"dentist"}}}
	heating, err := h.heating()
	if err != nil {
		t.Fatal(err)
	}
	rest, err := h.rest()
	if err != nil {
		t.Fatal(err)
	}
	mover, err := h.mover()
	if err != nil {
		t.Fatal(err)
	}
	var r tool.Registry
	for _, x := range append(append(heating, rest...), mover) {
		if err := r.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	b := &branch{t: t, tools: &r, tracker: tidy.NewTracker(r.Get, r.Names()...), at: time.Unix(1_790_000_000, 0).UTC(), calls: map[message.Ref]string{}}
	b.tracker.OnRefused = func(err error) { t.Error(err) }
	for _, c := range []struct{ tool, args, want string }{
		{"heating.read", `{"room":"kitchen"}`, ""},
		{"heating.read", `{"room":"bath"}`, ""},
		{"heating.read", `{"room":"kitchen"}`, "1: heating.read of kitchen was made obsolete by a later heating.read with the same room"},
		{"heating.overview", `{}`, ""},
		{"heating.set", `{"room":"kitchen","celsius":50}`, ""}, // refused: nothing has changed
		{"heating.set", `{"room":"kitchen","celsius":21}`, "3: heating.read of kitchen was made obsolete by a later heating.set with the same room; " +
			"4: heating.overview was made obsolete by a later heating.set, together with heating.read of kitchen"},
		{"calendar.day", `{"day":"2026-05-04"}`, ""},
		{"calendar.day", `{"day":"2026-05-05"}`, ""},
		{"calendar.day", `{"day":"2026-05-06"}`, ""},
		{"calendar.move", `{"event":"dentist","from":"2026-05-04","to":"2026-05-06"}`, "7: dentist was moved from 2026-05-04 to 2026-05-06; 9: dentist was moved from 2026-05-04 to 2026-05-06"},
		{"calendar.move", `{"event":"dentist","from":"2026-05-04","to":"2026-05-05"}`, ""}, // no longer there
	} {
		if got := b.call(c.tool, c.args); got != c.want {
			t.Errorf("call %d, %s %s: %q, want %q", b.n, c.tool, c.args, got, c.want)
		}
	}
	if got := b.told(b.tracker.Aged(b.at.Add(29 * time.Minute))); got != "" {
		t.Errorf("too old already: %q", got)
	}
	if got := b.told(b.tracker.Aged(b.at.Add(31 * time.Minute))); !strings.HasPrefix(got, "2: heating.read of bath is older than 30m") {
		t.Errorf("too old: %q", got)
	}
}

// branch calls tools and reports them to a tracker.
type branch struct {
	t       *testing.T
	tools   *tool.Registry
	tracker *tidy.Tracker
	at      time.Time
	n       int
	calls   map[message.Ref]string // number of each call
}

// call calls a tool and returns what became obsolete.
func (b *branch) call(name, args string) string {
	b.t.Helper()
	b.n++
	b.at = b.at.Add(time.Second)
	ask := &message.Message{ID: id.New(), Role: message.Assistant, At: b.at,
		Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: name, Args: []byte(args)}}}
	ref := ask.Calls()[0].Ref
	b.calls[ref] = string(rune('0' + b.n))
	res := &message.ToolResult{Call: ref, Name: name, Status: message.OK}
	x, ok := b.tools.Get(name)
	if !ok {
		b.t.Fatalf("there is no %s", name)
	}
	out, err := x.Call(b.t.Context(), tool.Invocation{Args: []byte(args)})
	if res.Content = out.Content; err != nil {
		res.Status, res.Content = message.Failed, []message.Block{&message.Text{Text: err.Error()}}
	}
	answer := &message.Message{ID: id.New(), Role: message.Tool, At: b.at, Blocks: []message.Block{res}}
	gone := b.tracker.Observe(b.t.Context(), ask, int64(2*b.n-1))
	return b.told(append(gone, b.tracker.Observe(b.t.Context(), answer, int64(2*b.n))...))
}

func (b *branch) told(gone []tidy.Obsolete) string {
	var out []string
	for _, o := range gone {
		out = append(out, b.calls[o.Ref]+": "+o.Reason)
	}
	return strings.Join(out, "; ")
}
