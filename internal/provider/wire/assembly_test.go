package wire

import (
	"bytes"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

func TestARepliesBounds(t *testing.T) {
	mib := bytes.Repeat([]byte("x"), 1<<20)
	for name, grow := range map[string]func(a *Assembly, i int){
		"text":      func(a *Assembly, _ int) { a.Last(llm.TextDelta).Add(mib) },
		"reasoning": func(a *Assembly, i int) { a.Open(llm.ReasoningDelta).Add(mib) },
		"arguments": func(a *Assembly, _ int) { a.Last(llm.CallArgs).Add(mib) },
		"calls":     func(a *Assembly, _ int) { a.Open(llm.CallArgs).Add(mib) },
		"images":    func(a *Assembly, _ int) { a.Show(&message.Image{Data: mib}) },
		"names":     func(a *Assembly, _ int) { a.Open(llm.CallArgs).Name = string(mib) },
		"members":   func(a *Assembly, _ int) { a.Open(llm.TextDelta).Meta.Fields = mib },
		"kept":      func(a *Assembly, _ int) { a.Keep(len(mib)) },
		"parts": func(a *Assembly, _ int) {
			for range 1 << 10 {
				a.Open(llm.CallArgs)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failed []error
			a := Assemble(func(_ llm.Event, err error) bool {
				if err != nil {
					failed = append(failed, err)
				}
				return true
			})
			for i := range 4 {
				grow(a, i)
			}
			if a.Gone {
				t.Fatalf("4 MiB are too much: %v", failed)
			}
			for i := range 60 {
				grow(a, i)
			}
			if len(failed) != 1 || fault.Of(failed[0]).Code != CodeTooLarge || fault.Of(failed[0]).Retry != fault.RetryNone {
				t.Fatalf("%v", failed)
			}
			size := 0
			for _, b := range a.Blocks() {
				switch b := b.(type) {
				case *message.Text:
					size += len(b.Text)
				case *message.Reasoning:
					size += len(b.Text)
				case *message.ToolCall:
					size += len(b.Args)
				case *message.Image:
					size += len(b.Data)
				}
			}
			if size > 32<<20 || len(a.parts) > MaxParts {
				t.Errorf("%d bytes in %d parts are kept of a reply that was refused", size, len(a.parts))
			}
		})
	}
}
