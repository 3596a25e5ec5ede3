package conversations

import (
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/search"
)

func TestHitsOnATerminal(t *testing.T) {
	conv, at := id.ID{6: 0x70, 8: 0x80, 15: 1}, time.Date(2030, 1, 2, 3, 4, 0, 0, time.Local)
	long := strings.TrimSpace(strings.Repeat("trains and planes ", 8))
	hit := search.Hit{Line: search.Line{Role: message.Assistant, At: at, Text: "the train\x1b[31m " + long}, Conversation: conv, Title: "Ro\x07me",
		Spans:  []search.Span{{From: 4, To: 9}, {From: 0, To: 900}},
		Before: []search.Line{{Role: message.User, Text: "when?\x1b"}}, After: []search.Line{{Role: message.Tool, Tool: "web.get", Text: "日本"}}}
	again := hit
	again.Before, again.After, again.Conversation, again.Title, again.Text, again.Spans = nil, nil, id.ID{}, "", "short", nil
	p := hitPrinter{colour: true, width: 90}
	got := p.page(search.Page{Hits: []search.Hit{hit, hit, again}})
	one := "                    \x1b[2myou\x1b[0m        \x1b[2mwhen? \x1b[0m\n" +
		"  2030-01-02 03:04  assistant  the \x1b[1;33mtrain\x1b[0m [31m trains and planes trains and planes trains\n" +
		"                               and planes trains and planes trains and planes trains and\n" +
		"                               planes trains and planes trains and planes\n" +
		"                    \x1b[2mweb.get\x1b[0m    \x1b[2m日本\x1b[0m\n"
	want := "\x1b[1;36mRo me\x1b[0m  \x1b[2m00000000-0000-7000-8000-000000000001\x1b[0m\n" + one + "\n" + one +
		"\n\x1b[1;36m(no title)\x1b[0m  \n  2030-01-02 03:04  assistant  short\n"
	if got != want {
		t.Errorf("%q\nnot\n%q", got, want)
	}
	plain := hitPrinter{}
	if got := plain.page(search.Page{Hits: []search.Hit{again}}); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
