package wire

import (
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/message"
)

func TestCallID(t *testing.T) {
	takes := func(s string) bool { return strings.HasPrefix(s, "ok") }
	a, b := message.Ref{Message: id.New(), Block: 1}, message.Ref{Message: id.New(), Block: 1}
	if CallID("ok1", a, "p_", takes) != "ok1" {
		t.Error("an id that is taken was changed")
	}
	ids := map[string]bool{}
	for _, r := range []message.Ref{a, b, {Message: a.Message, Block: 2}} {
		s := CallID("0", r, "p_", takes)
		if ids[s] || s != CallID("1", r, "p_", takes) || !IsID(s, 40) || !strings.HasPrefix(s, "p_") {
			t.Errorf("%q", s)
		}
		ids[s] = true
	}
	if x, y := NewCallID("c_"), NewCallID("c_"); x == y || !IsID(x, 40) {
		t.Errorf("%q, %q", x, y)
	}
}

func TestAppendObjectSchema(t *testing.T) {
	for in, want := range map[string]string{
		``:                    `{"type":"object","properties":{}}`,
		`{}`:                  `{"type":"object","properties":{}}`,
		`nonsense`:            `{"type":"object","properties":{}}`,
		`{"type":"object"}`:   `{"properties":{},"type":"object"}`,
		`{"properties":{}}`:   `{"type":"object","properties":{}}`,
		` {"required":["a"]}`: `{"type":"object","properties":{},"required":["a"]}`,
		`{"type":"object","properties":{"a":{}}}`: `{"type":"object","properties":{"a":{}}}`,
	} {
		if got := string(AppendObjectSchema(nil, []byte(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
