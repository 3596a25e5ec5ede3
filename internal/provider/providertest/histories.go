package providertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/message/messagetest"
	"steward/internal/provider/wire"
)

// Historian is a provider that writes histories in its vendor's form, and
// reads them.
type Historian interface {
	EncodeHistory(model string, msgs []*message.Message) ([]byte, *wire.Manifest, error)
	DecodeHistory(b []byte) ([]*message.Message, error)
}

func (v Vendor) historian(t testing.TB) Historian {
	p, ok := v.provider(t, http.DefaultClient, Options{}).(Historian)
	if !ok {
		t.Fatalf("%s cannot write histories", v.Name)
	}
	return p
}

// Histories is the part of Suite that is about the way back: what was written
// for the vendor is read again as it was, but for what Mask says.
func Histories(t *testing.T, v Vendor) {
	h := v.historian(t)
	t.Run("round trip", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { v.roundTrip(rt, h, v.history(rt)) })
	})
	for _, c := range Conversations() {
		if valid(c.Messages) {
			t.Run(c.Name, func(t *testing.T) { v.roundTrip(t, h, c.Messages) })
		}
	}
	t.Run("as sent", func(t *testing.T) { v.asSent(t, h) })
	t.Run("manifests of others", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { v.misfits(rt, h) })
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

// roundTrip: domain → wire → domain gives the same messages, the wire that is
// made of them is the same bytes, and the vendor's rules accept it.
func (v Vendor) roundTrip(t reporter, h Historian, msgs []*message.Message) {
	t.Helper()
	sent, manifest, err := h.EncodeHistory(v.Model, msgs)
	if err != nil {
		t.Fatalf("cannot be written: %v", err)
	}
	for i := range manifest.Messages {
		manifest.Messages[i].State = "state " + strconv.Itoa(i)
		manifest.Messages[i].Interaction = "interaction " + strconv.Itoa(i/2)
	}
	manifest = v.stored(t, manifest, msgs)
	decoded, err := h.DecodeHistory(sent)
	if err != nil {
		t.Fatalf("cannot be read: %v\n%s", err, sent)
	}
	restored, err := wire.Restore(manifest, decoded)
	if err != nil {
		t.Fatalf("cannot be restored: %v\n%s\n%s", err, sent, storedAll(decoded))
	}
	v.compare(t, msgs, restored, sent)
	for i, e := range manifest.Messages {
		if e.State != "state "+strconv.Itoa(i) || e.Interaction != "interaction "+strconv.Itoa(i/2) {
			t.Fatalf("the state of message %d is %q, %q", i, e.State, e.Interaction)
		}
	}
	for name, again := range map[string][]*message.Message{"read": decoded, "restored": restored} {
		if name == "restored" && toldInResults(msgs, restored) {
			continue
		}
		got, _, err := h.EncodeHistory(v.Model, again)
		want := sent
		if name == "read" && v.Joint != "" {
			joint := []byte(v.Joint)
			got, want = bytes.ReplaceAll(got, joint, []byte{','}), bytes.ReplaceAll(sent, joint, []byte{','})
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("what was %s is written in another way (%v):\n%s\n%s", name, err, got, sent)
		}
		v.accepted(t, again)
	}
}

// toldInResults reports whether a result has words now where it had an image
// or a file: it says them itself then.
func toldInResults(before, after []*message.Message) bool {
	for i, m := range before {
		r := m.Result()
		if r == nil {
			continue
		}
		for j, b := range r.Content {
			_, was := b.(*message.Text)
			if _, is := after[i].Result().Content[j].(*message.Text); is && !was {
				return true
			}
		}
	}
	return false
}

// stored sends a manifest through JSON, and looks for content in it.
func (v Vendor) stored(t reporter, m *wire.Manifest, msgs []*message.Message) *wire.Manifest {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("the manifest cannot be stored: %v", err)
	}
	var out wire.Manifest
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("the manifest cannot be read: %v\n%s", err, b)
	}
	each(msgs, func(_ *message.Message, block message.Block) {
		switch block := block.(type) {
		case *message.Text:
			if len(block.Text) > 40 && bytes.Contains(b, []byte(block.Text)) {
				t.Fatalf("the manifest has content: %q", block.Text)
			}
		case *message.Image:
			if len(block.Data) > 9 && bytes.Contains(b, []byte(base64.StdEncoding.EncodeToString(block.Data))) {
				t.Fatalf("the manifest has a picture")
			}
		}
	})
	return &out
}

// each calls f for all blocks, those of results too.
func each(msgs []*message.Message, f func(*message.Message, message.Block)) {
	for _, m := range msgs {
		for _, b := range m.Blocks {
			f(m, b)
			if r, ok := b.(*message.ToolResult); ok {
				for _, c := range r.Content {
					f(m, c)
				}
			}
		}
	}
}

func storedAll(msgs []*message.Message) string {
	var out []byte
	for _, m := range msgs {
		out = append(message.Append(out, m), '\n')
	}
	return string(out)
}

// compare holds a restored history against the one that was written: equal,
// but for what Mask takes.
func (v Vendor) compare(t reporter, msgs, restored []*message.Message, sent []byte) {
	t.Helper()
	if len(restored) != len(msgs) {
		t.Fatalf("%d messages became %d", len(msgs), len(restored))
	}
	for i, m := range msgs {
		want := string(message.Append(nil, v.masked(t, m)))
		if got := string(message.Append(nil, restored[i])); got != want {
			t.Fatalf("message %d came back as\n%s\nand should be\n%s\non the wire:\n%s", i, got, want, sent)
		}
	}
}

// masked is a copy of a message without what no wire form carries and what
// this one does not.
func (v Vendor) masked(t reporter, m *message.Message) *message.Message {
	t.Helper()
	c, err := message.Decode(message.Append(nil, m))
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.Unknown = nil
	c.Meta = v.ownMeta(c.Meta)
	each([]*message.Message{c}, func(_ *message.Message, b message.Block) {
		b.Base().Unknown = nil
		b.Base().Meta = v.ownMeta(b.Base().Meta)
	})
	v.Mask(c)
	return c
}

// ownMeta is this vendor's metadata without white space between its members.
func (v Vendor) ownMeta(m message.Meta) message.Meta {
	fields := Members(m.Fields)
	if m.Provider != v.Name || fields == nil {
		return message.Meta{}
	}
	return message.Meta{Provider: m.Provider, Fields: fields}
}

// Members returns an object without the members that are named, and without
// white space between those that are left; nil if none is.
func Members(object []byte, but ...string) []byte {
	var out []byte
	d := wire.Decode(object)
	d.Object(func(key []byte) {
		for _, b := range but {
			if string(key) == b {
				return
			}
		}
		out = wire.AppendMember(out, string(key), d.Raw())
	})
	if out == nil {
		return nil
	}
	return append(append([]byte{'{'}, out...), '}')
}

// Bare empties a block: what comes back of one that left nothing on the wire.
func Bare(b message.Block) message.Block {
	c := b.Base()
	c.Meta = message.Meta{}
	switch b := b.(type) {
	case *message.Text:
		b.Text = ""
	case *message.Reasoning:
		b.Text = ""
	case *message.Image:
		return &message.File{Common: *c, MIME: b.MIME}
	case *message.File:
		b.Data, b.URL = nil, ""
	}
	return b
}

// Told is what comes back of a block of which the model was told in words:
// these, or the file of whose address they told.
func Told(b message.Block, words string) message.Block {
	c := *b.Base()
	c.Meta = message.Meta{}
	if f, ok := b.(*message.File); ok && f.URL != "" {
		f.Meta = c.Meta
		return f
	}
	return &message.Text{Common: c, Text: words}
}

// history draws a history in which this vendor's own models may have spoken:
// its metadata as its streams give it, ids of calls as it makes them, and
// within one message different ones, as all streams see to.
func (v Vendor) history(t *rapid.T) []*message.Message {
	msgs := messagetest.History().Draw(t, "history")
	for len(message.Dangling(msgs)) > 0 && msgs[len(msgs)-1].Role != message.Assistant { // cut between results
		msgs = msgs[:len(msgs)-1]
	}
	ids, n := map[message.Ref]string{}, 0
	tidy := func(m *message.Meta) { // as streams keep it: without white space between members
		if m.Provider == v.Name {
			m.Fields = Members(m.Fields)
		}
	}
	each(msgs, func(_ *message.Message, b message.Block) { tidy(&b.Base().Meta) })
	for _, m := range msgs {
		tidy(&m.Meta)
		own := m.Role == message.Assistant && rapid.Bool().Draw(t, "own")
		if own {
			m.Model = v.Name + "/" + v.Model
			v.sign(t, &m.Meta, nil)
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
		}
		for _, b := range m.Blocks {
			if own {
				v.sign(t, &b.Base().Meta, b)
			}
		}
	}
	return msgs
}

func (v Vendor) sign(t *rapid.T, m *message.Meta, b message.Block) {
	if fields := v.Meta(b); fields != "" && rapid.Bool().Draw(t, "signed") {
		*m = message.Meta{Provider: v.Name, Fields: []byte(fields)}
	}
}

// asSent: what EncodeHistory writes is what a request shows the model; and a
// whole body is read, its system prompt first.
func (v Vendor) asSent(t *testing.T, h Historian) {
	for _, c := range Conversations() {
		if !valid(c.Messages) {
			continue
		}
		body := v.sends(t, v.script(t, Plain), &llm.Request{
			Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: Tools(),
		})
		list, _, err := h.EncodeHistory(v.Model, c.Messages)
		if err != nil {
			t.Fatal(err)
		}
		// A mark for the prompt cache may stand at the end.
		inside := bytes.TrimRight(list[1:len(list)-1], "]}")
		if !bytes.Contains(body, inside) {
			t.Errorf("%s: the request does not show\n%s\nbut\n%s", c.Name, inside, body)
		}
		whole, err := h.DecodeHistory(body)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.Name, err, body)
		}
		if whole[0].Role != message.System || whole[0].Text() != "Be brief." {
			t.Errorf("%s: the system prompt was read as %s", c.Name, message.Append(nil, whole[0]))
		}
		alone, err := h.DecodeHistory(list)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(whole) - 1 - len(alone); n < 0 || n > 2 { // words of the request around the history
			t.Errorf("%s: %d messages are read of the list, %d of the body", c.Name, len(alone), len(whole))
		}
	}
}

// misfits: a manifest of another history is refused with a code, or restores
// something valid; it never makes content up.
func (v Vendor) misfits(t *rapid.T, h Historian) {
	a, b := v.history(t), v.history(t)
	_, manifest, err := h.EncodeHistory(v.Model, a)
	if err != nil {
		t.Fatalf("%v", err)
	}
	sent, _, err := h.EncodeHistory(v.Model, b)
	if err != nil {
		t.Fatalf("%v", err)
	}
	decoded, err := h.DecodeHistory(sent)
	if err != nil {
		t.Fatalf("%v", err)
	}
	restored, err := wire.Restore(manifest, decoded)
	if err != nil {
		if !fault.HasCode(err, wire.CodeMismatch) || !fault.Is(err, fault.Invalid) {
			t.Fatalf("the error has another code: %v", err)
		}
		return
	}
	if !valid(restored) || len(restored) != len(a) {
		t.Fatalf("what was restored is not valid:\n%s", storedAll(restored))
	}
}

// FuzzHistory reads what others write, as it is and as edits of the seeds (see
// garden): it never panics; its errors are coded and name the place; what is
// read can be written, and is read again as it was; and the vendor's rules
// accept what is written.
func FuzzHistory(f *testing.F, v Vendor, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	h := v.historian(f)
	for _, c := range Conversations() {
		if b, _, err := h.EncodeHistory(v.Model, c.Messages); err == nil {
			f.Add(b)
			seeds = append(seeds, string(b))
		}
	}
	g := plant(seeds)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		b := make([]byte, 4*(1+n%20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v.reads(t, h, b)
		v.reads(t, h, g.grow(b))
	})
}

func (v Vendor) reads(t *testing.T, h Historian, b []byte) {
	t.Helper()
	msgs, err := h.DecodeHistory(b)
	if err != nil {
		f := fault.Of(err)
		if at, _ := f.Details["at"].(string); !strings.HasPrefix(f.Code, "history_") || at != "" && !strings.Contains(err.Error(), at) {
			t.Fatalf("the code is %q, the place %q: %v", f.Code, at, err)
		}
		return
	}
	if !valid(msgs) {
		t.Fatalf("what was read is not valid:\n%s", storedAll(msgs))
	}
	if open := message.Dangling(msgs); len(open) > 0 && msgs[len(msgs)-1].Role != message.Assistant {
		return
	}
	sent, _, err := h.EncodeHistory(v.Model, msgs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.DecodeHistory(sent)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, sent)
	}
	v.roundTrip(t, h, again)
	v.roundTrip(t, h, msgs)
}

// accepted holds what is written of a history against the vendor's rules.
func (v Vendor) accepted(t reporter, msgs []*message.Message) {
	t.Helper()
	if len(msgs) == 0 || len(message.Dangling(msgs)) > 0 || !v.plain(t, msgs) {
		return
	}
	if msgs[len(msgs)-1].Role == message.Assistant {
		end := user("Go on.")
		end.ID, end.Prev = id.New(), msgs[len(msgs)-1].ID
		msgs = append(msgs[:len(msgs):len(msgs)], end)
	}
	body := v.body(&llm.Request{Transcript: llm.NewTranscript(msgs...), Tools: Tools()})
	if body == nil {
		t.Fatalf("nothing was sent")
	}
	if err := v.Check(body); err != nil {
		t.Fatalf("the vendor's rules refuse it: %v\n%s", err, body)
	}
}

// plain reports whether the metadata that is sent has only members that the
// rules know.
func (v Vendor) plain(t reporter, msgs []*message.Message) bool {
	ok := true
	look := func(m message.Meta, b message.Block) {
		if Members(m.Fields, v.Known(b)...) != nil {
			ok = false
		}
	}
	for _, m := range msgs {
		m = v.masked(t, m)
		look(m.Meta, nil)
		each([]*message.Message{m}, func(_ *message.Message, b message.Block) { look(b.Base().Meta, b) })
	}
	return ok
}

// body returns what is sent for a request. Nobody answers it.
func (v Vendor) body(r *llm.Request) []byte {
	kept := &keeper{}
	m := v.New(Options{BaseURL: "http://vendor.test", Key: testKey, HTTP: &http.Client{Transport: kept}}).Model(v.Model)
	for range m.Stream(context.Background(), r) { // ends with the error of a vendor that is not there
	}
	return kept.body
}

type keeper struct{ body []byte }

var errNobody = errors.New("nobody is there")

func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		k.body, err = b, errNobody
	}
	return nil, err
}
