package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	ada = store.ForUser("ada")
	bob = store.ForUser("bob")
	all = Reader{User: "local", All: true}
)

func TestExportVerifies(t *testing.T) {
	w := newWorld(t, Options{})
	head := w.fill(600)
	for _, q := range []Query{{}, {Bodies: true}, {User: "ada"}, {Under: note(7)}, {User: "nobody"}} {
		b := w.export(all, q)
		c := w.verified(b, head)
		if c.Head != head || c.Entries+c.Omitted != 600 || c.Beyond != nil {
			t.Errorf("%+v: %+v", q, c)
		}
		if q.Bodies != (c.Bodies == 600) {
			t.Errorf("%+v: %d bodies", q, c.Bodies)
		}
		for _, e := range w.entries(b) {
			if q.User != "" && e.Who != q.User || !e.URI.Under(q.Under) || e.Request.Zero() || e.Did != "put" || e.Type != "test.Note" {
				t.Errorf("%+v: %+v", q, e)
			}
		}
	}
}

// A user sees his own, and can check it all the same.
func TestExportOfOwnEntries(t *testing.T) {
	w := newWorld(t, Options{})
	head := w.fill(40)
	b := w.export(Reader{User: "bob"}, Query{Bodies: true})
	if c := w.verified(b, head); c.Entries != 20 || c.Omitted != 20 {
		t.Errorf("%+v", c)
	}
	if bytes.Contains(b, []byte(`"ada"`)) || bytes.Contains(b, []byte("user:ada")) || bytes.Contains(b, []byte(`{\"n\":2}`)) || bytes.Contains(b, []byte("test.Note.2\"")) {
		t.Errorf("bob is told of ada:\n%s", b)
	}
}

func TestExportBetweenTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	head := w.fill(700)
	e := w.entries(w.export(all, Query{}))
	q := Query{Since: e[299].At, Until: e[309].At}
	b := w.export(all, q)
	got := w.entries(b)
	if len(got) == 0 || got[0].At.Before(q.Since) || !got[len(got)-1].At.Before(q.Until) || len(got) > 700 {
		t.Fatalf("%d entries", len(got))
	}
	c := w.verified(b)
	if c.After.Seq == 0 || c.After.Seq >= 300 || c.Head.Seq != 512 {
		t.Errorf("%+v", c)
	}
	// Its ends can be held against the whole, and heads outside are told.
	w.verified(w.export(all, Query{}), c.After, c.Head)
	if c := w.verified(b, head, store.Head{Seq: 3}); fmt.Sprint(c.Beyond) != "[3 700]" {
		t.Errorf("beyond: %v", c.Beyond)
	}
	if b := w.export(all, Query{Since: time.Now().Add(time.Hour)}); len(w.entries(b)) != 0 || w.verified(b).After != head {
		t.Errorf("of the future:\n%s", b)
	}
}

// While whoever takes an export is slow, the store is there for others, and
// what large bodies are told of is not all in memory.
func TestExportDoesNotBlockWriters(t *testing.T) {
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	l, err := New(st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, st, l}
	w.fill(300)
	w.put(ada, id.New(), store.Change{URI: note(1000), Body: bytes.Repeat([]byte("x"), sliceBytes)}, store.Change{URI: note(1001), Body: []byte("{}")})
	var b bytes.Buffer
	lines := writing(func(p []byte) (int, error) {
		if _, err := st.Get(t.Context(), ada, note(0)); err != nil {
			t.Error(err)
		}
		return b.Write(p)
	})
	if err := l.Export(t.Context(), all, Query{Bodies: true}, lines); err != nil {
		t.Fatal(err)
	}
	if c := w.verified(b.Bytes()); c.Entries != 302 || c.Bodies != 302 || c.Head.Seq != 302 {
		t.Errorf("%+v", c)
	}
	// It ends, however much is written meanwhile.
	more := writing(func(p []byte) (int, error) {
		w.put(ada, id.New(), store.Change{URI: note(2000), Body: []byte("{}")})
		return len(p), nil
	})
	if err := l.Export(t.Context(), all, Query{}, more); err != nil {
		t.Error(err)
	}
}

type writing func(p []byte) (int, error)

func (w writing) Write(p []byte) (int, error) { return w(p) }

// Whatever is changed in an export is found, at the place.
func TestExportTampered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	head := w.fill(300)
	good := bytes.Split(bytes.TrimSpace(w.export(all, Query{Bodies: true})), []byte("\n"))
	r := rand.New(rand.NewPCG(1, 2))
	edit := func(t *testing.T, b []byte, do func(*line)) []byte {
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			t.Fatal(err)
		}
		do(&l)
		out, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	field := func(do func(*Entry)) func(*testing.T, [][]byte, int) [][]byte {
		return func(t *testing.T, b [][]byte, at int) [][]byte {
			b[at] = edit(t, b[at], func(l *line) { do(l.Entry) })
			return b
		}
	}
	other := "other"
	for name, do := range map[string]func(t *testing.T, b [][]byte, at int) [][]byte{
		"who":      field(func(e *Entry) { e.Who = "mallory" }),
		"when":     field(func(e *Entry) { e.At = e.At.Add(time.Microsecond) }),
		"what":     field(func(e *Entry) { e.URI = note(9999) }),
		"type":     field(func(e *Entry) { e.Type = "test.Other" }),
		"did":      field(func(e *Entry) { e.Did = "delete" }),
		"odd did":  field(func(e *Entry) { e.Did = "undo" }),
		"space":    field(func(e *Entry) { e.Space = "user:eve" }),
		"request":  field(func(e *Entry) { e.Request = id.New() }),
		"state":    field(func(e *Entry) { e.State += "x" }),
		"version":  field(func(e *Entry) { e.Version++ }),
		"before":   field(func(e *Entry) { e.Before++ }),
		"body":     field(func(e *Entry) { e.Body = &other }),
		"binary":   field(func(e *Entry) { e.Body, e.Binary = nil, &other }),
		"salt":     field(func(e *Entry) { e.Salt = "AAAA" }),
		"hash":     field(func(e *Entry) { e.Hash[0]++ }),
		"bodyhash": field(func(e *Entry) { e.BodyHash[0]++ }),
		"taken out": func(t *testing.T, b [][]byte, at int) [][]byte {
			return append(b[:at:at], b[at+1:]...)
		},
		"swapped": func(t *testing.T, b [][]byte, at int) [][]byte {
			b[at], b[at+1] = b[at+1], b[at]
			return b
		},
		"twice": func(t *testing.T, b [][]byte, at int) [][]byte {
			return append(b[:at+1:at+1], b[at:]...)
		},
		"no line":    func(t *testing.T, b [][]byte, at int) [][]byte { b[at] = []byte("{"); return b },
		"odd line":   func(t *testing.T, b [][]byte, at int) [][]byte { b[at] = []byte("{}"); return b },
		"broken off": func(t *testing.T, b [][]byte, at int) [][]byte { return b[:at] },
	} {
		at := 5 + r.IntN(200)
		b := do(t, append([][]byte{}, good...), at)
		c, err := VerifyExport(bytes.NewReader(bytes.Join(b, []byte("\n"))))
		if err != nil || c.Flaw == nil || c.Flaw.Seq < uint64(at) || c.Flaw.Seq > uint64(at)+1 {
			t.Errorf("%s at %d: %+v, %v", name, at, c.Flaw, err)
		}
	}
	// What is consistent in itself is found by the seals, or by an anchor.
	whole := func(skip int, change func(*line)) []byte {
		var out [][]byte
		for i, b := range good {
			if i != skip {
				out = append(out, edit(t, b, change))
			}
		}
		return bytes.Join(out, []byte("\n"))
	}
	for name, b := range map[string][]byte{
		"end": whole(-1, func(l *line) {
			if l.Kind == kindEnd {
				l.Head = &store.Head{Seq: 300}
			}
		}),
		"count": whole(-1, func(l *line) {
			if l.Kind == kindEnd {
				l.Entries++
			}
		}),
		"seal": whole(-1, func(l *line) {
			if l.Kind == kindSeal {
				l.Head.Hash[3]++
			}
		}),
		"start": whole(-1, func(l *line) {
			if l.Kind == kindBegin {
				l.After.Hash[3]++
			}
		}),
		"more": append(whole(-1, func(*line) {}), []byte("\n{}")...),
	} {
		if c, err := VerifyExport(bytes.NewReader(b)); err != nil || c.Flaw == nil {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	head.Hash[0]++
	c, err := VerifyExport(bytes.NewReader(bytes.Join(good, []byte("\n"))), head)
	if err != nil || c.Flaw == nil || max(c.Flaw.Seq, c.Flaw.Through) != 300 {
		t.Errorf("another anchor: %+v, %v", c.Flaw, err)
	}
	for _, bad := range []string{"", "nonsense", `{"kind":"begin","format":"x"}`, `{"kind":"entry"}`} {
		if _, err := VerifyExport(strings.NewReader(bad)); !fault.HasCode(err, "export_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzVerifyExport(f *testing.F) {
	f.Add([]byte(`{"kind":"begin","format":"steward.audit/1","after":{"seq":0,"hash":"` + strings.Repeat("0", 64) + `"}}` + "\n" + `{"kind":"omitted","from":1,"hashes":"AAAA"}`))
	f.Add([]byte(`{"kind":"begin","format":"steward.audit/1","after":{"seq":0,"hash":"` + strings.Repeat("0", 64) + `"}}` + "\n" + `{"kind":"entry","seq":1,"did":"put"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := VerifyExport(bytes.NewReader(b))
		if err == nil && c.Flaw == nil && c.Entries > 0 && !bytes.Contains(b, []byte("entry")) {
			t.Errorf("%+v", c)
		}
	})
}

// Who decided what, by which rule and version of the policy, is told in plain
// fields; arguments only with bodies, and secrets never.
func TestExportShowsDecisions(t *testing.T) {
	w := newWorld(t, Options{Mask: func(s string) string { return strings.ReplaceAll(s, "hunter22", "«secret:PASS»") }})
	args := `{"to":"eve","text":"hunter22"}`
	in := intent.Intent{Key: "k", Tool: "mail.send", Version: "3", Args: args, ArgsHash: intent.HashArgs([]byte(args)),
		Call: message.Ref{Message: id.New(), Block: 2}, User: "ada", Agent: "post", Lineage: []string{"boss"}, State: intent.Approved,
		Reason: "it leaves", Rule: "ask/out", Policy: "v7", Labels: message.Private | message.Untrusted | message.Secret, Approvers: "parents",
		Approval: &intent.Approval{By: "bob", At: time.Unix(1e9, 0).UTC(), ArgsHash: intent.HashArgs([]byte(args)), Version: "3", Grant: "cld:effect.Grant.1"},
		Resolved: &intent.Resolution{By: "ada", Done: true}}
	body, err := intent.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	u := resource.Root("common.Conversation", "c").Child("effect.Intent", "0")
	w.put(ada, id.New(), store.Change{URI: u, Body: body, State: "approved"},
		store.Change{URI: resource.Root("effect.Grant", "1"), Body: []byte(`{"tool":"mail.send","args":"hunter22"}`)},
		store.Change{URI: resource.Root("effect.Intent", "odd"), Body: []byte("no intent")},
		store.Change{URI: resource.Root("test.Blob", "x"), Body: []byte{0xff, 0xfe}})
	b := w.export(all, Query{})
	e := w.entries(b)
	d := e[0].Decision
	if d == nil || d.Tool != "mail.send" || d.Approved != "bob" || d.Rule != "ask/out" || d.Policy != "v7" || d.Approvers != "parents" ||
		strings.Join(d.Labels, " ") != "private untrusted secret" || d.Args != "" || d.ArgsHash != in.ArgsHash || d.Grant == "" || d.Resolved != "ada" {
		t.Errorf("%+v", d)
	}
	if string(e[1].Grant) != `{"tool":"mail.send","args":"«secret:PASS»"}` || e[2].Decision != nil || bytes.Contains(b, []byte("hunter22")) {
		t.Errorf("%s", b)
	}
	b = w.export(all, Query{Bodies: true})
	e = w.entries(b)
	if c := w.verified(b); c.Bodies != 2 || bytes.Contains(b, []byte("hunter22")) {
		t.Errorf("%+v\n%s", c, b)
	}
	if e[0].Decision.Args != `{"to":"eve","text":"«secret:PASS»"}` || !e[0].Masked || e[2].Masked || e[3].Binary == nil {
		t.Errorf("%s", b)
	}
}

// What a model was shown before it wrote is told in order, by reference and
// with bodies by text.
func TestExportShowsWhatAModelWasShown(t *testing.T) {
	w := newWorld(t, Options{})
	conv, turn := id.New(), id.New()
	iu := record.InteractionURI(conv, turn)
	earlier := id.New()
	say := func(prev id.ID, role message.Role, blocks ...message.Block) (id.ID, store.Change) {
		m := &message.Message{ID: id.New(), Role: role, Prev: prev, At: time.Now().UTC(), Blocks: blocks}
		if role == message.Assistant {
			m.Model = "offline/rules"
		}
		return m.ID, store.Change{URI: iu.ChildID(record.TypeMessage, m.ID), Body: message.Append(nil, m)}
	}
	branch := record.BranchURI(conv, "side")
	w.put(ada, id.New(),
		store.Change{URI: iu.Child(record.TypeRun, "r"), Body: record.Encode(record.Run{Agent: "assistant", Branch: "side"})},
		store.Change{URI: branch, Body: record.Encode(record.Branch{View: record.View{Revision: 4, Clip: 100}})})
	a, user := say(earlier, message.User, &message.Text{Text: "what time is it?"})
	w.put(ada, turn, user)
	b, call := say(a, message.Assistant, &message.ToolCall{Name: "time.now", Args: []byte("{}")})
	w.put(ada, turn, call)
	c, res := say(b, message.Tool, &message.ToolResult{Call: message.Ref{Message: b}, Name: "time.now", Content: []message.Block{&message.Text{Text: "noon"}}})
	w.put(ada, turn, res)
	_, answer := say(c, message.Assistant, &message.Reasoning{Text: "hm"}, &message.Text{Text: "It is noon."})
	w.put(ada, turn, answer)
	w.put(ada, turn, store.Change{URI: branch, Body: record.Encode(record.Branch{View: record.View{Revision: 5}})})
	e := w.entries(w.export(Reader{User: "ada"}, Query{Bodies: true}))
	s := e[len(e)-2].Shown
	if s == nil || s.After != earlier || s.Model != "offline/rules" || len(s.Messages) != 3 || s.View == nil || s.View.Revision != 4 {
		t.Fatalf("%+v", s)
	}
	for i, want := range []string{"what time is it?", "time.now {}", "noon"} {
		if s.Messages[i].Text != want {
			t.Errorf("message %d: %+v", i, s.Messages[i])
		}
	}
	if e[2].Shown != nil || e[3].Shown == nil || len(e[3].Shown.Messages) != 1 {
		t.Errorf("%+v %+v", e[2].Shown, e[3].Shown)
	}
	if e = w.entries(w.export(all, Query{})); e[5].Shown.Messages[0].Text != "" || e[5].Shown.Messages[0].URI != user.URI {
		t.Errorf("without bodies: %+v", e[5].Shown)
	}
}

func TestShownOutsideOfATurn(t *testing.T) {
	w := newWorld(t, Options{})
	m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.Text{Text: "x"}}}
	w.put(ada, id.New(), store.Change{URI: resource.Root(record.TypeMessage, m.ID.String()), Body: message.Append(nil, m)},
		store.Change{URI: resource.Root(record.TypeMessage, "odd"), Body: []byte("{")})
	e := w.entries(w.export(all, Query{}))
	if e[0].Shown == nil || e[0].Shown.Messages != nil || e[1].Shown != nil {
		t.Errorf("%+v %+v", e[0], e[1])
	}
}

// What was erased is told as erased, and the export verifies.
func TestExportShowsErasures(t *testing.T) {
	w := newWorld(t, Options{})
	w.put(ada, id.New(), store.Change{URI: note(1), Body: []byte("private")})
	before := w.export(all, Query{})
	w.put(ada, id.New(), store.Change{Op: store.Erase, URI: note(1)})
	b := w.export(all, Query{Bodies: true})
	e := w.entries(b)
	if !e[0].Erased || e[0].Body != nil || e[1].Did != "erase" || e[1].Erased || w.verified(b).Bodies != 0 {
		t.Errorf("%s", b)
	}
	w.verified(b, w.verified(before).Head)
	if v, err := w.log.Verify(t.Context(), w.verified(before).Head); err != nil || v.Flaw != nil || v.Erased != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAnchors(t *testing.T) {
	w := newWorld(t, Options{})
	file := filepath.Join(t.TempDir(), "elsewhere", "heads")
	if err := w.log.Anchor(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAnchors(file); !fault.HasCode(err, "anchors_missing") {
		t.Errorf("an empty log is anchored: %v", err)
	}
	first := w.fill(3)
	for range 2 {
		if err := w.log.Anchor(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n2030-01-01T00:00:00Z 12:ab"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	w.put(ada, id.New(), store.Change{URI: note(77)})
	if err := w.log.Anchor(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAnchors(file)
	if err != nil || len(got) != 2 || got[0] != first || got[1].Seq != 4 {
		t.Fatalf("%v, %v", got, err)
	}
	if v, err := w.log.Verify(t.Context(), got...); err != nil || v.Flaw != nil {
		t.Errorf("%+v, %v", v, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(file, []byte("no heads here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAnchors(file); !fault.HasCode(err, "head_invalid") {
		t.Errorf("%v", err)
	}
	if err := w.log.Anchor(t.Context(), filepath.Join(file, "x")); !fault.HasCode(err, "anchors_missing") && !fault.HasCode(err, "anchor_unwritable") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "1", "x:" + first.Hash.String(), "1:zz", FormatHead(first) + "0"} {
		if _, err := ParseHead(bad); !fault.HasCode(err, "head_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if h, err := ParseHead(FormatHead(first)); err != nil || h != first {
		t.Errorf("%v, %v", h, err)
	}
}

// One Verify at a time; who does not want to wait does not.
func TestVerifyWaits(t *testing.T) {
	w := newWorld(t, Options{})
	w.log.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.log.Verify(ctx); err != context.Canceled {
		t.Errorf("%v", err)
	}
	<-w.log.turn
	if v, err := w.log.Verify(t.Context()); err != nil || v.Flaw != nil || v.Head.Seq != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

type plain struct{ store.Store }

func TestStoreWithoutSeals(t *testing.T) {
	if _, err := New(plain{}, Options{}); !fault.HasCode(err, "audit_unsupported") {
		t.Error(err)
	}
}
