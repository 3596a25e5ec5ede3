package worklog_test

import (
	"fmt"
	"testing"

	"steward/internal/conversation/worklog"
	"steward/internal/message"
	"steward/internal/record"
)

// A page of 50 entries of a conversation with 100,000 messages: the newest,
// one from its middle, and one across all conversations.
func BenchmarkPage(b *testing.B) {
	st := openStore(b)
	c := newChat(b, st, ana, "Long")
	c.hold = true
	for i := 0; c.pos < 100_000; i++ {
		c.turn("Please look at this file for me.")
		k := c.calls(call{"files.read", fmt.Sprintf(`{"path":"notes/%d.txt"}`, i)})
		m := c.result(k[0], message.OK, "The content of the file, which is of some length, as contents are.")
		if i%3 == 0 {
			c.mark(m.ID, c.pos, record.Change{State: record.Invalidated, Tool: "files.read", Branch: "main", Pos: c.pos})
		}
		c.final("It says that all is well.")
		if i%500 == 0 {
			c.flush()
		}
	}
	c.flush()
	e := engine(b, st)
	f := worklog.Filter{Conversation: c.id}
	_, middle := page(b, e, ana, f, "", 1000)
	for name, run := range map[string]func() []worklog.Entry{
		"newest": func() []worklog.Entry { l, _ := page(b, e, ana, f, "", 50); return l },
		"middle": func() []worklog.Entry { l, _ := page(b, e, ana, f, middle, 50); return l },
		"across": func() []worklog.Entry { l, _ := page(b, e, ana, worklog.Filter{}, "", 50); return l },
		"failing": func() []worklog.Entry {
			l, _ := page(b, e, ana, worklog.Filter{Conversation: c.id, Outcome: worklog.Failure}, "", 50)
			return l
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if l := run(); len(l) != 50 && name != "failing" {
					b.Fatalf("%d entries", len(l))
				}
			}
		})
	}
}
