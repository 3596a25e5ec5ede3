package tokens_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"

	"steward/internal/message"
	"steward/internal/tokens"
	"steward/internal/tool"
)

// vocabularies returns counts of OpenAI's vocabularies.
func vocabularies(t testing.TB) (cl100k, o200k func(string) int64) {
	t.Helper()
	count := func(e tokenizer.Encoding) func(string) int64 {
		codec, err := tokenizer.Get(e)
		if err != nil {
			t.Fatal(err)
		}
		return func(s string) int64 {
			n, err := codec.Count(s)
			if err != nil {
				t.Fatal(err)
			}
			return int64(n)
		}
	}
	return count(tokenizer.Cl100kBase), count(tokenizer.O200kBase)
}

func TestEstimatesAreOnTheSafeSide(t *testing.T) {
	cl100k, o200k := vocabularies(t)
	for _, s := range append(prose(), notProse()...) {
		got, old, current := tokens.Estimate(s.text), cl100k(s.text), o200k(s.text)
		if most := max(old, current); got < most || got > 2*most+most/4 {
			t.Errorf("%s: estimated %d, counted %d and %d", s.name, got, old, current)
		}
		if b := tokens.Estimate([]byte(s.text)); b != got {
			t.Errorf("%s: %d as bytes, %d as a string", s.name, b, got)
		}
	}
}

func TestLettersThatAreNoWordsAreOnTheSafeSideToo(t *testing.T) {
	cl100k, o200k := vocabularies(t)
	random := rand.New(rand.NewPCG(1, 2))
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
	for name, text := range map[string]string{
		"base64": base64.StdEncoding.EncodeToString(bytes), "small": of(small), "capitals": of(capitals), "base32": of(small + "234567"),
		"all": of(small + capitals + "0123456789"), "genome": of("ACGT"), "small genome": of("acgt"), "hex": of("0123456789abcdef"),
		"digits": of("0123456789"), "signs": of("!@#$%^&*()[]{};:'<>,./?|"), "indents": strings.Repeat("        \n", 300),
	} {
		if got, most := tokens.Estimate(text), max(cl100k(text), o200k(text)); got < most {
			t.Errorf("%s: estimated %d, counted %d", name, got, most)
		}
	}
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		text string
		want tokens.Script
	}{
		{"words", tokens.Latin}, {"été", tokens.OtherLatin}, {"1234", tokens.Symbols}, {"слова", tokens.Cyrillic}, {"բառեր", tokens.Rare},
		{"λέξεις", tokens.Greek}, {"ἦν", tokens.Greek}, {"מילים", tokens.Hebrew}, {"كلمات", tokens.Arabic}, {"शब्द", tokens.Indic}, {"คำ", tokens.SEAsian},
		{"ពាក្យ", tokens.SEAsian}, {"单词", tokens.Han}, {"ことば", tokens.Kana}, {"단어", tokens.Hangul}, {"სიტყვა", tokens.Rare}, {"🎉", tokens.Rare},
		{"—", tokens.Symbols}, {"\xff\xfe", tokens.Rare}, {"\xe4\xb8", tokens.Rare}, {"\xf0\x9f", tokens.Rare},
		{"Ik ging gisteren met mijn moeder naar de winkel om brood te kopen, maar de winkel was al dicht en daarom aten we soep.", tokens.OtherLatin},
		{"Yesterday I went to the shop with my mother because we wanted bread, and the shop was closed already, so we had soup.", tokens.Latin},
		{"func main() { for i := 0; i < len(args); i++ { fmt.Println(args[i], i*2) } if err := run(args); err != nil { panic(err) } }", tokens.Symbols},
	} {
		p := tokens.Of(c.text)
		most := tokens.Script(0)
		for s, n := range p {
			if n > p[most] {
				most = tokens.Script(s)
			}
		}
		if most != c.want {
			t.Errorf("%.20s: %s, want %s: %v", c.text, most, c.want, p)
		}
	}
	if got := tokens.Script(200).String(); got != "unknown" {
		t.Errorf("a script that is none is %q", got)
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
		if sum := p.Add(q); sum.Sub(q) != p || sum.Tokens() > p.Tokens()+q.Tokens() {
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
		for s, n := range p {
			if n < 0 {
				t.Fatalf("%s: %d", tokens.Script(s), n)
			}
		}
		if n := p.Tokens(); n == 0 && len(b) > 0 || n > int64(4*len(b)) {
			t.Fatalf("%d tokens for %d bytes", n, len(b))
		}
	})
}

func TestLongTextsAreSummedUpInPieces(t *testing.T) {
	piece := "The quick brown fox, 12 times. "
	text := strings.Repeat(piece, 200_000)
	got, want := tokens.Estimate(text), int64(200_000)*(tokens.Of(piece).Add(tokens.Of(piece)).Tokens())/2
	if got < want*97/100 || got > want*103/100 {
		t.Errorf("%d tokens, want about %d", got, want)
	}
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
		if whole := tokens.Message(m); whole <= got || whole > got+20 {
			t.Errorf("%T makes %d tokens, the message %d", c.b, got, whole)
		}
		// The exact count is not above the cheap one, by which it is decided
		// whether to take it.
		if exact := tokens.For("openai/gpt-4o"); exact.Message(m) > exact.AtMost(m) || exact.Message(m) == 0 {
			t.Errorf("%T makes %d tokens exactly, %d at most", c.b, exact.Message(m), exact.AtMost(m))
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
