package wyoming

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "steward/test/seed"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"It is on.":                     "It is on.",
		"**Bold** and _thin_ `code`":    "Bold and thin code",
		"# Title\n\nText":               "Title. Text",
		"- one\n- two\n\n1. three":      "one. two. three",
		"See [the page](https://x.y/z)": "See the page",
		"See https://x.y/z, please.":    "See please.",
		"<b>Hi</b> there":               "Hi there",
		"![a cat](http://x/y.png) here": "a cat here",
		"```go\nx := 1\n```\nDone.":     "Done.",
		"Sunny 🌞, 21 °C.":               "Sunny, 21 °C.",
		"Lamp (light.hall_1, in Hall): on, Door (lock.door): locked": "Lamp in Hall: on, Door: locked",
		"Done (at last), e.g. (now)":                                 "Done (at last), e.g. (now)",
		"a\nb":                                                       "a b",
		"":                                                           "",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := plain(strings.Repeat("This is a sentence. ", 100)); utf8.RuneCountInString(got) > maxSpoken || !strings.HasSuffix(got, "sentence.") {
		t.Errorf("%q", got)
	}
}

func TestPlainIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"**", "[a](http://b)", "https://x.y", "# ", "\n", "- ", "`", "```\n", "<b>", "![", "|a|b|\n|-|-|\n"}))).Draw(t, "parts"), "")
		got := plain(in)
		if !utf8.ValidString(got) && utf8.ValidString(in) || utf8.RuneCountInString(got) > maxSpoken || strings.ContainsAny(got, "*`#|_~\n") || strings.Contains(strings.ToLower(got), "https://") {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
