package providertest

import (
	"bytes"
	"context"
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

// codec is the vendor's form of histories, as the model under test is shown them.
func (v Vendor) codec(t testing.TB) wire.Codec {
	p, ok := v.provider(t, http.DefaultClient, Options{}).(interface{ Codec(model string) wire.Codec })
	if !ok {
		t.Fatalf("%s cannot write histories", v.Name)
	}
	return p.Codec(v.Model)
}

// Histories is the part of Suite that is about the way back: what was written
// for the vendor is read again as it was, but for what Mask says.
func Histories(t *testing.T, v Vendor) {
	h := v.codec(t)
	t.Run("round trip", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { v.roundTrip(rt, h, v.history(rt)) })
	})
	for _, c := range Conversations() {
		if valid(c.Messages) {
			t.Run(c.Name, func(t *testing.T) { v.roundTrip(t, h, c.Messages) })
		}
	}
	t.Run("as sent", func(t *testing.T) { v.asSent(t, h) })
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
// of that is written as the same bytes; and the vendor's rules accept it.
func (v Vendor) roundTrip(t reporter, h wire.Codec, msgs []*message.Message) {
	t.Helper()
	sent, err := h.Encode(msgs)
	if err != nil {
		t.Fatalf("cannot be written: %v", err)
	}
	decoded, err := h.Decode(sent)
	if err != nil {
		t.Fatalf("cannot be read: %v\n%s", err, sent)
	}
	v.compare(t, msgs, decoded, sent)
	got, err := h.Encode(decoded)
	want := sent
	if v.Joint != "" {
		joint := []byte(v.Joint)
		got, want = bytes.ReplaceAll(got, joint, []byte{','}), bytes.ReplaceAll(sent, joint, []byte{','})
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what was read is written in another way (%v):\n%s\n%s", err, got, sent)
	}
	v.accepted(t, decoded)
	again, err := h.Import(sent)
	if err != nil || !valid(again.Messages) || len(message.Dangling(again.Messages)) > 0 {
		t.Fatalf("it is not imported: %v\n%s\n%s", err, storedAll(again.Messages), sent)
	}
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

// asSent: what the codec writes is what a request shows the model; and a
// whole body is read, its system prompt first.
func (v Vendor) asSent(t *testing.T, h wire.Codec) {
	for _, c := range Conversations() {
		if !valid(c.Messages) {
			continue
		}
		body := v.sends(t, v.script(t, Plain), &llm.Request{
			Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: Tools(),
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
			t.Errorf("%s: the system prompt was read as %s", c.Name, message.Append(nil, whole[0]))
		}
		alone, err := h.Decode(list)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(whole) - 1 - len(alone); n < 0 || n > 2 { // words of the request around the history
			t.Errorf("%s: %d messages are read of the list, %d of the body", c.Name, len(alone), len(whole))
		}
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
	h := v.codec(f)
	for _, c := range Conversations() {
		if b, err := h.Encode(c.Messages); err == nil {
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

func (v Vendor) reads(t *testing.T, h wire.Codec, b []byte) {
	t.Helper()
	if got, err := h.Import(b); err == nil && (!valid(got.Messages) || len(message.Dangling(got.Messages)) > 0) {
		t.Fatalf("what was imported is not valid:\n%s", storedAll(got.Messages))
	}
	msgs, err := h.Decode(b)
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
	sent, err := h.Encode(msgs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Decode(sent)
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
