package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	_ "steward/test/seed"
)

// typist is a model that answers the message "type" with the pieces that a test gives it, until an empty one.
type typist struct {
	scripted
	pieces chan string
}

func (m typist) Model(string) llm.Model { return m }

func (m typist) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	msgs := r.Transcript.Messages()
	if last := msgs[len(msgs)-1]; last.Role != message.User || last.Text() != "type" {
		return m.scripted.Stream(ctx, r)
	}
	return func(yield func(llm.Event, error) bool) {
		all := ""
		for {
			select {
			case piece := <-m.pieces:
				if piece == "" {
					yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/one", Stop: message.StopEnd, Usage: message.Usage{Input: 9, Output: 3}, Blocks: []message.Block{&message.Text{Text: all}}}}, nil)
					return
				}
				all += piece
				if !yield(llm.Event{Kind: llm.TextDelta, Text: piece}, nil) {
					return
				}
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
				return
			}
		}
	}
}

// browser is an open page: its document, to which it applies the patches of its stream, as assets/act.js does.
type browser struct {
	t      *testing.T
	doc    *html.Node
	stream *http.Response
	lines  *bufio.Reader
	cursor string // of the last event
}

// browse opens a page.
func (h *house) browse(user, path string) *browser {
	h.t.Helper()
	doc, err := html.Parse(strings.NewReader(h.get(user, path, 200)))
	if err != nil {
		h.t.Fatal(err)
	}
	b := &browser{t: h.t, doc: doc}
	b.follow(h, user, "")
	return b
}

// follow opens the event stream of the page, again after the last event.
func (b *browser) follow(h *house, user, last string) {
	b.t.Helper()
	params := ""
	for n := range b.doc.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "data-live" {
				params = a.Val
			}
		}
	}
	r, err := http.NewRequestWithContext(b.t.Context(), "GET", h.url+"/live?"+params, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-User", user)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	if b.stream, err = http.DefaultClient.Do(r); err != nil {
		b.t.Fatal(err)
	}
	b.lines = bufio.NewReader(b.stream.Body)
}

func (b *browser) close() { b.stream.Body.Close() }

func (b *browser) byID(id string) *html.Node {
	for n := range b.doc.Descendants() {
		if slices.Contains(n.Attr, html.Attribute{Key: "id", Val: id}) {
			return n
		}
	}
	return nil
}

// until reads events until something is so.
func (b *browser) until(so func() bool) {
	b.t.Helper()
	for !so() {
		line, err := b.lines.ReadString('\n')
		if err != nil {
			b.t.Fatalf("the stream has ended (%v), and the page shows:\n%s", err, b.thread())
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			b.cursor = strings.TrimSpace(id)
		}
		if data, ok := strings.CutPrefix(line, "data: ["); ok {
			b.apply("[" + data)
		}
	}
}

func (b *browser) apply(data string) {
	b.t.Helper()
	var list []struct {
		ID, In, HTML string
		First        bool
	}
	if err := json.Unmarshal([]byte(data), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, p := range list {
		old, into := b.byID(p.ID), b.byID(p.In)
		fresh, err := html.ParseFragment(strings.NewReader(p.HTML), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, n := range fresh {
			switch {
			case old != nil:
				old.Parent.InsertBefore(n, old)
			case into != nil && p.First:
				into.InsertBefore(n, into.FirstChild)
			case into != nil:
				into.AppendChild(n)
			}
		}
		if old != nil {
			old.Parent.RemoveChild(old)
		}
	}
}

// thread is the text of the messages, without what the page says about them.
func (b *browser) thread() string {
	var out strings.Builder
	for n := range b.byID("thread").Descendants() {
		if n.Type != html.TextNode {
			continue
		}
		for up := n.Parent; up != nil; up = up.Parent {
			if slices.ContainsFunc(up.Attr, func(a html.Attribute) bool { return a.Key == "id" && strings.HasPrefix(a.Val, "b-") }) {
				out.WriteString(n.Data + " ")
				break
			}
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// answers counts the answers that are complete.
func (b *browser) answers() (n int) {
	for x := range b.byID("thread").Descendants() {
		if slices.Contains(x.Attr, html.Attribute{Key: "data-do", Val: "regenerate"}) {
			n++
		}
	}
	return n
}

// Pages that are opened, closed and reconnected at any time, while an answer is being written, show all of it once.
func TestReloadingWhileAnAnswerIsWritten(t *testing.T) {
	model := typist{pieces: make(chan string)}
	h := newHouse(t, model)
	rapid.Check(t, func(r *rapid.T) {
		chat := h.say("ana", "hello", "")
		said := "hello you said: hello"
		first := h.browse("ana", chat)
		defer first.close()
		first.until(func() bool { return first.thread() == said })
		if out := h.do("ana", "send", map[string]string{"conversation": strings.TrimPrefix(chat, "/chat/"), "text": "type"}); out.Error.Code != "" {
			t.Fatalf("%+v", out)
		}
		said += " type"
		pages := []*browser{first}
		n := rapid.IntRange(1, 8).Draw(r, "pieces")
		for i := range n {
			piece := rapid.SampledFrom([]string{"word ", "**bold** ", "\n\nparagraph ", "\n- item ", "\n\n> quote ", "half**", "\n===\n\n", "`code` "}).Draw(r, "piece")
			mark := fmt.Sprintf("z%dz", i)
			piece += mark
			model.pieces <- piece
			switch rapid.IntRange(0, 3).Draw(r, "then") {
			case 0:
				p := h.browse("ana", chat)
				defer p.close()
				pages = append(pages, p)
			case 1:
				p := rapid.SampledFrom(pages).Draw(r, "page")
				p.close()
				p.follow(h, "ana", p.cursor)
			case 2: // it is shown everywhere
				for _, p := range pages {
					p.until(func() bool { return strings.Contains(p.thread(), mark) })
				}
			}
		}
		model.pieces <- ""
		late := h.browse("ana", chat)
		defer late.close()
		for _, p := range append(pages, late) {
			p.until(func() bool { return p.answers() == 2 })
		}
		fresh := h.browse("ana", chat)
		defer fresh.close()
		want := fresh.thread()
		if !strings.HasPrefix(want, said) {
			r.Fatalf("a fresh page shows %q", want)
		}
		for i, p := range append(pages, late) {
			if got := p.thread(); got != want {
				r.Errorf("page %d shows\n%s\nnot\n%s", i, got, want)
			}
		}
	})
}

// Nothing of one person comes to the page of another, whatever it asks for.
func TestPagesOfOthersStayQuiet(t *testing.T) {
	h := newHouse(t, scripted{})
	chat := h.say("ana", "my secret plan", "")
	conv := strings.TrimPrefix(chat, "/chat/")
	ana := h.browse("ana", "/")
	defer ana.close()
	res := h.request("eve", "GET", "/live?of=chat&cursor=0&conversation="+conv, nil)
	b, err := io.ReadAll(res.Body) // it ends by itself
	if err != nil || !strings.Contains(string(b), "event: failed") || strings.Contains(string(b), "secret plan") {
		t.Error(err, string(b))
	}
	eve := h.browse("eve", "/")
	defer eve.close()
	h.say("ana", "another secret", "")
	ana.until(func() bool { return has(ana.byID("conversation-list"), "another secret") })
	h.say("eve", "of my own", "")
	eve.until(func() bool { return has(eve.byID("conversation-list"), "of my own") })
	if has(eve.doc, "secret") || has(ana.doc, "of my own") {
		t.Error("a person sees what another has said")
	}
}

// An open page does not keep the server from stopping.
func TestStreamsEndWhenTheServerStops(t *testing.T) {
	h := newHouse(t, scripted{})
	ana := h.browse("ana", "/")
	defer ana.close()
	close(h.closing)
	if _, err := io.Copy(io.Discard, ana.lines); err != nil {
		t.Error(err)
	}
}

// What somebody may not see, or what is gone, is told in words that need no command line.
func TestErrorPagesArePlain(t *testing.T) {
	h := newHouse(t, scripted{})
	for path, want := range map[string]string{"/nothing": "This does not exist", h.say("ana", "my own", ""): "This does not exist", "/shared/ana/gone": "This link has ended"} {
		if got := h.get("eve", path, http.StatusNotFound); !strings.Contains(got, want) || strings.Contains(got, "/api/v1") || strings.Contains(got, "steward conversations") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// has reports whether an element has a text in it.
func has(n *html.Node, text string) bool {
	var b strings.Builder
	if err := html.Render(&b, n); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return strings.Contains(b.String(), text)
}
