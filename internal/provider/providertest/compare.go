package providertest

import (
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// compare holds what was read against the history that was written. A vendor's
// form joins and reorders what a turn says; so it is compared by its streams
// (see streams), in each of which all that Mask leaves has to stand, in order.
func (v Vendor) compare(t reporter, msgs, decoded []*message.Message, sent []byte) {
	t.Helper()
	var kept []*message.Message
	for _, m := range msgs {
		kept = append(kept, v.masked(t, m))
	}
	want, got := streamsOf(kept), streamsOf(decoded)
	if len(want.calls) != len(got.calls) || len(want.results) != len(got.results) {
		t.Fatalf("%d calls and %d results came back as %d and %d\n%s", len(want.calls), len(want.results), len(got.calls), len(got.results), sent)
	}
	for i, c := range want.calls {
		if g := got.calls[i]; !sameTool(c.Name, g.Name) || args(c) != args(g) {
			t.Fatalf("the call %s %s came back as %s %s\n%s", c.Name, c.Args, g.Name, g.Args, sent)
		}
	}
	all := strings.Join(got.said, "") + strings.Join(got.media, "")
	for i, r := range want.results {
		for _, s := range r {
			if !strings.Contains(strings.Join(got.results[i], ""), s) && !strings.Contains(all, s) {
				t.Fatalf("of result %d, %.200q did not come back\n%q\n%s", i, s, got.results[i], sent)
			}
		}
	}
	model := strings.Join(got.model, "") + strings.Join(got.thoughts, "") // some thoughts come back as text
	for _, s := range append(want.model, want.thoughts...) {
		if !strings.Contains(model, s) {
			t.Fatalf("of the model's words, %.200q did not come back\n%q\n%s", s, got.model, sent)
		}
	}
	for _, s := range want.media {
		if !strings.Contains(all, s) {
			t.Fatalf("a picture or file did not come back: %.200q\n%s", s, sent)
		}
	}
	rest := strings.Join(got.said, "")
	for _, s := range want.said {
		_, after, ok := strings.Cut(rest, s)
		if !ok {
			t.Fatalf("%.200q did not come back in its place\n%q\n%s", s, got.said, sent)
		}
		rest = after
	}
}

// streams are what a history says: the model's words and thoughts, its calls,
// by call what its result says, and what others say and show.
type streams struct {
	model, thoughts, said, media []string
	calls                        []message.Call
	results                      [][]string
}

func streamsOf(msgs []*message.Message) (s streams) {
	nth := map[message.Ref]int{}
	for _, m := range msgs {
		for _, c := range m.Calls() {
			nth[c.Ref] = len(s.calls)
			s.calls, s.results = append(s.calls, c), append(s.results, nil)
		}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case *message.Reasoning:
				s.thoughts = append(s.thoughts, b.Text)
			case *message.ToolResult:
				said := []string{}
				if b.Status != message.OK {
					said = append(said, "["+string(b.Status)+"]", " ")
				}
				for _, c := range b.Content {
					words, media := spoken(c)
					said = append(said, words+media)
				}
				s.results[nth[b.Call]] = said
			default:
				words, media := spoken(b)
				if m.Role == message.Assistant {
					s.model = append(s.model, words+media)
				} else {
					s.said, s.media = append(s.said, words), append(s.media, media)
				}
			}
		}
	}
	return s
}

// spoken are a block's words, or the picture or file that it is.
func spoken(b message.Block) (words, media string) {
	switch b := b.(type) {
	case *message.Text:
		return b.Text, ""
	case *message.Image:
		return "", picture(b.URL, b.Data)
	case *message.File:
		if words, whole := wire.FileText(b); whole {
			return words, ""
		}
		return "", picture(b.URL, b.Data)
	}
	return "", ""
}

func picture(url string, data []byte) string {
	if _, inline, ok := wire.DataURL(url); ok {
		data, url = inline, ""
	}
	return url + string(data)
}

// args are a call's arguments, those that are none and those that are wrapped
// for vendors that take objects only.
func args(c message.Call) string {
	raw := []byte(strings.TrimSpace(string(c.Args)))
	if len(raw) == 0 {
		return "{}"
	}
	return string(wire.Args(wire.Args(raw, "_malformed_arguments"), "malformed_arguments"))
}

// sameTool reports whether two names of tools are one to a vendor.
func sameTool(a, b string) bool {
	short := func(s string) string {
		s = strings.TrimLeft(wire.ToolName(tool.WireName(s)), "_")
		return s[:min(len(s), 63)]
	}
	return short(a) == short(b)
}
