package llm_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/messagetest"
)

// encodeGroup writes one value per message, in brackets per group; groups of
// system messages only have nothing to say.
func encodeGroup(dst []byte, group []*message.Message) ([]byte, error) {
	start := len(dst)
	for _, m := range group {
		if m.Role == message.System {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		} else {
			dst = append(dst, '[')
		}
		dst = message.Append(dst, m)
	}
	if len(dst) > start {
		dst = append(dst, ']')
	}
	return dst, nil
}

func join(head, tail []byte) string {
	switch {
	case len(head) == 0:
		return string(tail)
	case len(tail) == 0:
		return string(head)
	}
	return string(head) + "," + string(tail)
}

// atOnce encodes the messages without anything kept.
func atOnce(t *rapid.T, msgs []*message.Message) string {
	var parts []string
	for len(msgs) > 0 {
		n := 1
		for n < len(msgs) && (msgs[n].Role == message.Assistant) == (msgs[0].Role == message.Assistant) {
			n++
		}
		b, err := encodeGroup(nil, msgs[:n])
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 {
			parts = append(parts, string(b))
		}
		msgs = msgs[n:]
	}
	return strings.Join(parts, ",")
}

func TestWhatIsKeptEqualsEncodingEverythingAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var msgs []*message.Message
		tr := llm.NewTranscript()
		type seen struct {
			head []byte
			copy string
		}
		var heads []seen
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			add := rapid.SliceOfN(messagetest.Message(), 0, 3).Draw(t, "added")
			tr.Append(add...)
			msgs = append(msgs, add...)
			codec := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "codec")
			head, tail, err := tr.Encoded(codec, encodeGroup)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := join(head, tail), atOnce(t, msgs); got != want {
				t.Fatalf("in parts  %s\nat once   %s", got, want)
			}
			heads = append(heads, seen{head, string(head)})
			for _, h := range heads {
				if string(h.head) != h.copy {
					t.Fatalf("kept bytes were written to: %s, had been %s", h.head, h.copy)
				}
			}
		}
		if got := tr.Messages(); len(got) != len(msgs) {
			t.Fatalf("%d messages, want %d", len(got), len(msgs))
		}
	})
}

func textMessage(role message.Role, text string) *message.Message {
	return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{&message.Text{Text: text}}}
}

func TestAMessageIsEncodedOncePerCodec(t *testing.T) {
	count := map[*message.Message]int{}
	encode := func(dst []byte, group []*message.Message) ([]byte, error) {
		for _, m := range group {
			count[m]++
		}
		return encodeGroup(dst, group)
	}
	tr := llm.NewTranscript()
	for i := range 50 {
		tr.Append(textMessage(message.User, fmt.Sprint(i)), textMessage(message.Assistant, "yes"))
		if _, _, err := tr.Encoded("a", encode); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range tr.Messages() {
		if count[m] > 2 { // once as the tail, once when its group is closed
			t.Errorf("message %d was encoded %d times", i, count[m])
		}
	}
	size := tr.Size()
	head, _, err := tr.Encoded("b", encodeGroup)
	if grown := tr.Size() - size; err != nil || grown != len(head) {
		t.Errorf("an encoding of %d bytes more makes %d more, %v", len(head), grown, err)
	}
}

// A transcript that lets go of what is encoded encodes, counts and gives the
// same as one that holds everything, and holds little.
func TestLettingGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*message.Message
		read := 0
		lean, full := llm.NewTranscript(), llm.NewTranscript()
		lean.Again(func() ([]*message.Message, error) { read++; return slices.Clone(all), nil })
		t.Repeat(map[string]func(*rapid.T){
			"turn": func(t *rapid.T) {
				ask := textMessage(message.User, "ask")
				ask.Blocks[0].Base().Origin = "user"
				msgs := []*message.Message{ask}
				for range rapid.IntRange(0, 20).Draw(t, "rounds") {
					msgs = append(msgs, textMessage(message.Assistant, "call"), textMessage(message.Tool, "result"))
				}
				all = append(all, msgs...)
				lean.Append(msgs...)
				full.Append(msgs...)
			},
			"encode": func(t *rapid.T) {
				codec := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "codec")
				h, tail, err := lean.Encoded(codec, encodeGroup)
				fh, ft, ferr := full.Encoded(codec, encodeGroup)
				if err != nil || ferr != nil || join(h, tail) != join(fh, ft) {
					t.Fatalf("%s, %v\nand in full\n%s, %v", join(h, tail), err, join(fh, ft), ferr)
				}
			},
			"count": func(t *rapid.T) {
				if lean.Tokens() != full.Tokens() {
					t.Fatalf("%d tokens, and in full %d", lean.Tokens(), full.Tokens())
				}
			},
			"all": func(t *rapid.T) {
				if got, err := lean.All(); err != nil || !slices.Equal(got, all) {
					t.Fatalf("%d messages, %v, and in full %d", len(got), err, len(all))
				}
			},
			"": func(t *rapid.T) {
				held := lean.Messages()
				if n := len(held); n > 0 && !slices.Equal(held, all[len(all)-n:]) {
					t.Fatal("what is held is not the end")
				}
				if i := slices.IndexFunc(held, func(m *message.Message) bool { return m.Role == message.User }); i < 0 && len(held) > 0 {
					t.Fatal("what the person said last is gone")
				}
			},
		})
	})
}

func TestWhatWasLetGoIsHadAnewOrNotAtAll(t *testing.T) {
	tr := llm.NewTranscript()
	lost := errors.New("the store is closed")
	tr.Again(func() ([]*message.Message, error) { return nil, lost })
	for range 30 {
		ask := textMessage(message.User, "ask")
		ask.Blocks[0].Base().Origin = "user"
		tr.Append(ask, textMessage(message.Assistant, "answer"))
	}
	if _, _, err := tr.Encoded("a", encodeGroup); err != nil {
		t.Fatal(err)
	}
	if n := len(tr.Messages()); n > 4 {
		t.Fatalf("%d messages are held", n)
	}
	if _, err := tr.All(); !errors.Is(err, lost) {
		t.Errorf("all: %v", err)
	}
	if _, _, err := tr.Encoded("b", encodeGroup); !errors.Is(err, lost) {
		t.Errorf("another encoding: %v", err)
	}
	if _, _, err := tr.Encoded("a", encodeGroup); err != nil {
		t.Errorf("the encoding that is kept: %v", err)
	}
	tr.Again(func() ([]*message.Message, error) { return nil, nil })
	if _, err := tr.All(); !fault.HasCode(err, "transcript_broken") {
		t.Errorf("too few: %v", err)
	}
}

func TestAnEncodersErrorLosesNothing(t *testing.T) {
	tr := llm.NewTranscript(textMessage(message.User, "1"), textMessage(message.Assistant, "2"), textMessage(message.User, "3"))
	want := errors.New("no")
	fail := 2
	encode := func(dst []byte, group []*message.Message) ([]byte, error) {
		if fail--; fail == 0 {
			return append(dst, "half a mess"...), want
		}
		return encodeGroup(dst, group)
	}
	if _, _, err := tr.Encoded("a", encode); !errors.Is(err, want) {
		t.Fatalf("Encoded = %v", err)
	}
	head, tail, err := tr.Encoded("a", encode)
	fresh, freshTail, _ := llm.NewTranscript(tr.Messages()...).Encoded("a", encodeGroup)
	if err != nil || join(head, tail) != join(fresh, freshTail) {
		t.Errorf("after the error: %s, %v", join(head, tail), err)
	}
	fail = 1
	if _, _, err := tr.Encoded("a", encode); !errors.Is(err, want) {
		t.Errorf("an error of the last group: %v", err)
	}
}

func TestTranscriptAndItsUsersDoNotShareASlice(t *testing.T) {
	first := make([]*message.Message, 1, 10)
	first[0] = textMessage(message.User, "1")
	tr := llm.NewTranscript(first...)
	before := tr.Messages()
	tr.Append(textMessage(message.User, "2"))
	if first[:2][1] != nil {
		t.Error("the transcript writes to the caller's slice")
	}
	_ = append(before, nil)
	if tr.Messages()[1] == nil {
		t.Error("an append to Messages reaches the transcript")
	}
}

func TestTranscriptIsSafeForConcurrentUse(t *testing.T) {
	tr := llm.NewTranscript(textMessage(message.User, "0"))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				tr.Append(textMessage([]message.Role{message.User, message.Assistant}[i%2], "x"))
				head, tail, err := tr.Encoded(fmt.Sprint(g%2), encodeGroup)
				if err != nil || bytes.Count(head, []byte("[")) == 0 && len(tail) == 0 {
					t.Errorf("%s %s %v", head, tail, err)
				}
				tr.Tokens()
				tr.Size()
			}
		})
	}
	wg.Wait()
	if n := len(tr.Messages()); n != 401 {
		t.Errorf("%d messages", n)
	}
}

func TestToolset(t *testing.T) {
	s := llm.NewToolset(tool.Spec{Name: "math.multiply", Description: "Multiplies.", Input: []byte(`{"type":"object"}`)}, tool.Spec{Name: "time.now"})
	if len(s.Specs()) != 2 || s.Name("math__multiply") != "math.multiply" || s.Name("no__such") != "no.such" {
		t.Errorf("%v, %q, %q", s.Specs(), s.Name("math__multiply"), s.Name("no__such"))
	}
	calls, fail := 0, errors.New("no")
	encode := func(specs []tool.Spec) ([]byte, error) {
		if calls++; calls == 1 {
			return nil, fail
		}
		return []byte(specs[0].Name), nil
	}
	if _, err := s.Encoded("a", encode); !errors.Is(err, fail) {
		t.Errorf("the first: %v", err)
	}
	for range 3 {
		if b, err := s.Encoded("a", encode); err != nil || string(b) != "math.multiply" {
			t.Errorf("Encoded = %s, %v", b, err)
		}
	}
	if calls != 2 {
		t.Errorf("encoded %d times", calls)
	}
	if s.Tokens() < 40 {
		t.Errorf("Tokens = %d", s.Tokens())
	}
	var none *llm.Toolset
	if none.Specs() != nil || none.Name("a__b") != "a.b" || none.Tokens() != 0 {
		t.Error("the nil set")
	}
}

func BenchmarkEncodedLongHistory(b *testing.B) {
	tr := llm.NewTranscript()
	for i := range 4000 {
		tr.Append(textMessage([]message.Role{message.User, message.Assistant}[i%2], strings.Repeat("word ", 50)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := tr.Encoded("a", encodeGroup); err != nil {
			b.Fatal(err)
		}
	}
}
