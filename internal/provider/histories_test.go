package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
	"steward/test/apis"
	"steward/test/messagetest"
	_ "steward/test/seed"
)

// codec is the vendor's form of histories, as the model under test is shown them.
func (v vendor) codec(t testing.TB) llm.Codec {
	p, ok := v.provider(t, options{http: http.DefaultClient}).(interface{ Codec(model string) wire.Codec })
	if !ok {
		t.Fatalf("%s has no codec", v.name)
	}
	return p.Codec(v.model)
}

// TestHistories: what was written for the vendor is read again as it was.
func TestHistories(t *testing.T) {
	each(t, append(providers(), generations()[:2]...), func(t *testing.T, v vendor) {
		h := v.codec(t)
		t.Run("round trip", func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				msgs := v.history(rt)
				v.roundTrip(rt, h, msgs, true)
			})
		})
		for _, c := range apis.Conversations() {
			if valid(c.Messages) {
				v.roundTrip(t, h, c.Messages, true)
				v.asSent(t, h, c)
			}
		}
	})
}

func valid(msgs []*message.Message) bool {
	for _, m := range msgs {
		if message.Validate(m) != nil {
			return false
		}
	}
	return message.CheckHistory(msgs) == nil
}

// reporter is what *testing.T and *rapid.T share.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// roundTrip: what is written of a history says all of it, in order; what is read
// of that is written as the same bytes, and can be imported. Of a history with
// no others' members the vendor's rules accept what is written.
func (v vendor) roundTrip(t reporter, h llm.Codec, msgs []*message.Message, clean bool) {
	t.Helper()
	sent, err := h.Encode(msgs)
	if err != nil {
		t.Fatalf("cannot be written: %v", err)
	}
	decoded, err := h.Decode(sent)
	if err != nil {
		t.Fatalf("cannot be read: %v\n%s", err, sent)
	}
	v.saysAll(t, msgs, decoded, clean)
	got, err := h.Encode(decoded)
	want := sent
	if v.joint != "" {
		joint := []byte(v.joint)
		got, want = bytes.ReplaceAll(got, joint, []byte{','}), bytes.ReplaceAll(sent, joint, []byte{','})
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what was read is written in another way (%v):\n%s\n%s", err, got, sent)
	}
	again, err := h.Import(sent)
	if err != nil || !valid(again.Messages) || len(message.Dangling(again.Messages)) > 0 {
		t.Fatalf("it is not imported: %v\n%s\n%s", err, stored(again.Messages), sent)
	}
	if clean {
		v.accepted(t, msgs)
	}
}

// saysAll: all calls, what the results and the model say, and what others say
// and show. A vendor's form joins and reorders what a turn says, so each of
// these is looked for by itself. Reasoning, signatures and other metadata go
// back where they came from, byte for byte: that is for the round trip's bytes
// and for the scripts' echoes to show.
func (v vendor) saysAll(t reporter, msgs, decoded []*message.Message, media bool) {
	t.Helper()
	want, got := contentOf(msgs), contentOf(decoded)
	if len(want.calls) != len(got.calls) || len(want.results) != len(got.results) {
		t.Fatalf("%d calls and %d results came back as %d and %d", len(want.calls), len(want.results), len(got.calls), len(got.results))
	}
	for i, c := range want.calls {
		if g := got.calls[i]; !sameTool(c.Name, g.Name) || args(c) != args(g) {
			t.Fatalf("the call %s %s came back as %s %s", c.Name, c.Args, g.Name, g.Args)
		}
	}
	said := strings.Join(got.said, "")
	all := said + strings.Join(append(got.media, got.files...), "")
	for i, r := range want.results {
		for _, s := range r {
			if back := strings.Join(got.results[i], ""); !strings.Contains(back, s) && !strings.Contains(all, s) {
				t.Fatalf("of result %d, %.200q did not come back: %.500q", i, s, back)
			}
		}
	}
	for _, s := range want.model { // a refusal goes after all else
		if model := strings.Join(got.model, ""); !strings.Contains(model, s) {
			t.Fatalf("of the model's words, %.200q did not come back: %.500q", s, model)
		}
	}
	rest := said
	for _, s := range want.said {
		_, after, ok := strings.Cut(rest, s)
		if !ok {
			t.Fatalf("%.200q did not come back in its place: %.500q", s, rest)
		}
		rest = after
	}
	if v.name != "ollama" { // which takes no files: they go in words
		want.media = append(want.media, want.files...)
	}
	for _, s := range want.media {
		if media && !strings.Contains(all, s) {
			t.Fatalf("a picture or file did not come back: %.200q", s)
		}
	}
}

// content is what a history says: the model's words, its calls, by call what
// its result says, and what others say and show.
type content struct {
	model, said, media, files []string
	calls                     []message.Call
	results                   [][]string
}

func contentOf(msgs []*message.Message) (s content) {
	nth := map[message.Ref]int{}
	for _, m := range msgs {
		for _, c := range m.Calls() {
			nth[c.Ref] = len(s.calls)
			s.calls, s.results = append(s.calls, c), append(s.results, nil)
		}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case *message.ToolResult:
				said := []string{"[" + string(b.Status) + "]"}
				for _, c := range b.Content {
					if t, ok := c.(*message.Text); ok && strings.TrimSpace(t.Text) != "" {
						said = append(said, t.Text)
					}
				}
				s.results[nth[b.Call]] = said
			case *message.Text:
				if strings.TrimSpace(b.Text) == "" {
				} else if m.Role == message.Assistant {
					s.model = append(s.model, b.Text)
				} else {
					s.said = append(s.said, b.Text)
				}
			case *message.Image:
				if m.Role == message.User {
					s.media = append(s.media, b.URL+string(b.Data))
				}
			case *message.File:
				if m.Role == message.User && b.MIME == "application/pdf" {
					s.files = append(s.files, b.URL+string(b.Data))
				}
			}
		}
	}
	return s
}

// args are a call's arguments; those that are none, and those that are wrapped
// for vendors that take objects only, as such a vendor shows them.
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

func stored(msgs []*message.Message) string {
	var out []byte
	for _, m := range msgs {
		out = append(message.Append(out, m), '\n')
	}
	return string(out)
}

// history draws a history in which this vendor's own models may have spoken:
// its metadata as its streams give it, ids of calls as it makes them, and
// within one message different ones, as all streams see to.
func (v vendor) history(t *rapid.T) []*message.Message {
	msgs := messagetest.History().Draw(t, "history")
	for len(message.Dangling(msgs)) > 0 && msgs[len(msgs)-1].Role != message.Assistant { // cut between results
		msgs = msgs[:len(msgs)-1]
	}
	ids, n := map[message.Ref]string{}, 0
	for _, m := range msgs {
		own := m.Role == message.Assistant && rapid.Bool().Draw(t, "own")
		v.sign(t, &m.Meta, own, nil)
		if own {
			m.Model = v.name + "/" + v.model
		}
		used := map[string]bool{}
		for _, c := range m.Calls() {
			if n++; rapid.Bool().Draw(t, "a vendor's id") {
				c.CallID = rapid.SampledFrom([]string{"toolu_", "call_", "gemini-call-", "ollama-call-"}).Draw(t, "prefix") + strconv.Itoa(n)
			}
			if used[c.CallID] && c.CallID != "" {
				c.CallID += "#" + strconv.Itoa(n)
			}
			used[c.CallID] = true
			ids[c.Ref] = c.CallID
		}
		if r := m.Result(); r != nil {
			r.CallID = ids[r.Call]
			for _, b := range r.Content {
				v.sign(t, &b.Base().Meta, false, b)
			}
		}
		for _, b := range m.Blocks {
			v.sign(t, &b.Base().Meta, own, b)
		}
	}
	return msgs
}

// sign gives metadata that was drawn at random to another provider, or makes it
// such as this vendor's streams bring.
func (v vendor) sign(t *rapid.T, m *message.Meta, own bool, b message.Block) {
	if m.Provider == v.name {
		m.Provider = "another"
	}
	if fields := v.meta(b); own && fields != "" && rapid.Bool().Draw(t, "signed") {
		*m = message.Meta{Provider: v.name, Fields: compact(fields)}
	}
}

// compact leaves out white space between members, as streams do.
func compact(object string) []byte {
	var out []byte
	d := wire.Decode([]byte(object))
	d.Object(func(key []byte) { out = wire.AppendMember(out, string(key), d.Raw()) })
	return fmt.Appendf(nil, "{%s}", out)
}

// asSent: what the codec writes is what a request shows the model; and a
// whole body is read, its system prompt first.
func (v vendor) asSent(t *testing.T, h llm.Codec, c apis.Conversation) {
	body := v.sends(t, v.script(t, "text"), &llm.Request{
		Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: apis.Tools(),
	})
	list, err := h.Encode(c.Messages)
	if err != nil {
		t.Fatal(err)
	}
	// A mark for the prompt cache may stand at the end.
	inside := bytes.TrimRight(list[1:len(list)-1], "]}")
	if !bytes.Contains(body, inside) {
		t.Errorf("%s: the request does not show\n%s\nbut\n%s", c.Name, inside, body)
	}
	whole, err := h.Decode(body)
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.Name, err, body)
	}
	if whole[0].Role != message.System || whole[0].Text() != "Be brief." {
		t.Errorf("%s: the system prompt was read as %s", c.Name, stored(whole[:1]))
	}
	alone, err := h.Decode(list)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(whole) - 1 - len(alone); n < 0 || n > 2 { // words of the request around the history
		t.Errorf("%s: %d messages are read of the list, %d of the body", c.Name, len(alone), len(whole))
	}
}

// accepted holds what is sent of a history against the vendor's rules.
func (v vendor) accepted(t reporter, msgs []*message.Message) {
	t.Helper()
	if len(msgs) == 0 || len(message.Dangling(msgs)) > 0 {
		return
	}
	if msgs[len(msgs)-1].Role == message.Assistant {
		end := apis.User("Go on.")
		end.ID, end.Prev = id.New(), msgs[len(msgs)-1].ID
		msgs = append(msgs[:len(msgs):len(msgs)], end)
	}
	kept := &keeper{}
	m := v.open(options{base: "http://vendor.test", http: &http.Client{Transport: kept}}).Model(v.model)
	for range m.Stream(context.Background(), &llm.Request{Transcript: llm.NewTranscript(msgs...), Tools: apis.Tools()}) {
		// ends with the error of a vendor that is not there
	}
	if err := v.check(kept.body); err != nil {
		t.Fatalf("the vendor's rules refuse it: %v\n%s", err, kept.body)
	}
}

// keeper keeps the last body that it is sent and answers nothing.
type keeper struct{ body []byte }

var errNobody = errors.New("nobody is there")

func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		k.body, err = b, errNobody
	}
	return nil, err
}
