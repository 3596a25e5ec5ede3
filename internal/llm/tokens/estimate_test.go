package tokens_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/tool"
)

// The counts in the samples are the higher ones of OpenAI's vocabularies
// cl100k_base and o200k_base.
func TestEstimatesAreOnTheSafeSide(t *testing.T) {
	for _, s := range append(prose(), notProse()...) {
		got := tokens.Estimate(s.text)
		if got < s.tokens || got > 2*s.tokens+s.tokens/4 {
			t.Errorf("%s: estimated %d, counted %d", s.name, got, s.tokens)
		}
		if b := tokens.Estimate([]byte(s.text)); b != got {
			t.Errorf("%s: %d as bytes, %d as a string", s.name, b, got)
		}
	}
}

func TestLettersThatAreNoWordsAreOnTheSafeSideToo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the texts that were counted
	bytes := make([]byte, 3000)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	of := func(alphabet string) string {
		b := make([]byte, 3000)
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	const small, capitals = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, c := range []struct {
		name, text string
		counted    int64
	}{
		{"base64", base64.StdEncoding.EncodeToString(bytes), 2828}, {"small", of(small), 1634}, {"capitals", of(capitals), 1792},
		{"base32", of(small + "234567"), 1838}, {"all", of(small + capitals + "0123456789"), 2151}, {"genome", of("ACGT"), 1555},
		{"small genome", of("acgt"), 1462}, {"hex", of("0123456789abcdef"), 1715}, {"digits", of("0123456789"), 1000},
		{"signs", of("!@#$%^&*()[]{};:'<>,./?|"), 1970}, {"indents", strings.Repeat("        \n", 300), 300},
	} {
		if got := tokens.Estimate(c.text); got < c.counted {
			t.Errorf("%s: estimated %d, counted %d", c.name, got, c.counted)
		}
	}
}

func TestEstimatesGrowWithTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		whole := tokens.Estimate(a + b)
		if whole < max(tokens.Estimate(a), tokens.Estimate(b))*8/10 {
			t.Fatalf("%d for both, %d and %d for the parts", whole, tokens.Estimate(a), tokens.Estimate(b))
		}
		if whole == 0 && a+b != "" || whole > int64(4*len(a+b)) {
			t.Fatalf("%d tokens for %d bytes", whole, len(a+b))
		}
		p, q := tokens.Of(a), tokens.Of(b)
		if sum := p.Add(q); sum.Tokens() > p.Tokens()+q.Tokens() {
			t.Fatalf("%v and %v make %v", p, q, sum)
		}
	})
}

func FuzzEstimate(f *testing.F) {
	for _, s := range append(prose(), notProse()...) {
		f.Add([]byte(s.text))
	}
	f.Add([]byte("\xc3\xe4\xb8\xf0\x9f\x8e\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := tokens.Of(b)
		if p != tokens.Of(string(b)) {
			t.Fatal("bytes and string differ")
		}
		if n := p.Tokens(); n <= 0 && len(b) > 0 || n > int64(4*len(b)) {
			t.Fatalf("%d tokens for %d bytes", n, len(b))
		}
	})
}

func TestBlocks(t *testing.T) {
	text := strings.Repeat("a word ", 100)
	for _, c := range []struct {
		least, most int64
		b           message.Block
	}{
		{200, 600, &message.Text{Text: text}},
		{250, 600, &message.File{MIME: "text/plain", Data: []byte(text)}},
		{3000, 10000, &message.File{MIME: "application/pdf", Data: make([]byte, 100<<10)}},
		{10, 60, &message.ToolCall{Name: "math.multiply", Args: []byte(`{"a":1}`)}},
		{10, 60, &message.ToolResult{Name: "math.multiply", Content: []message.Block{&message.Text{Text: "42"}}}},
		{300, 400, &message.Reasoning{Text: "hm", Common: message.Common{Meta: message.Meta{Provider: "p", Fields: make([]byte, 1000)}}}},
		{1000, 3000, &message.Image{MIME: "image/png", Data: make([]byte, 1<<20)}},
	} {
		got := tokens.Blocks([]message.Block{c.b})
		if got < c.least || got > c.most {
			t.Errorf("%T makes %d tokens, want %d to %d", c.b, got, c.least, c.most)
		}
		m := &message.Message{Role: message.User, Blocks: []message.Block{c.b}}
		if whole := tokens.OfMessage(m).Tokens(); whole <= got || whole > got+20 {
			t.Errorf("%T makes %d tokens, the message %d", c.b, got, whole)
		}
	}
	spec := &tool.Spec{Name: "math.multiply", Description: "multiplies", Input: []byte(`{"type":"object"}`)}
	if n := tokens.OfTool(spec).Tokens(); n < 20 || n > 60 {
		t.Errorf("a tool makes %d tokens", n)
	}
	if n := tokens.OfSchema([]byte(`{"type":"object"}`)).Add(tokens.OfSystem("Be brief.")).Tokens(); n < 20 || n > 60 {
		t.Errorf("a schema and a prompt make %d tokens", n)
	}
}

func BenchmarkOf(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"english", strings.Repeat("All human beings are born free. ", 32)},
		{"russian", strings.Repeat("Все люди рождаются свободными и равными. ", 16)},
		{"chinese", strings.Repeat("人人生而自由，在尊严和权利上一律平等。", 16)},
		{"short", "hello there"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if tokens.Of(c.text) == (tokens.Parts{}) {
					b.Fatal("no tokens")
				}
			}
		})
	}
}
