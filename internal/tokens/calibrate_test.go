package tokens_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/message"
	"steward/internal/tokens"
)

// vendor is a simulated provider: a tokenizer that makes so many tokens of each
// script, something hidden that it puts before each request, and noise.
type vendor struct {
	ratio    [tokens.Media + 1]float64
	hidden   float64
	noise    float64
	outliers float64 // share of requests that are reported at random
	random   *rand.Rand
}

func newVendor(seed uint64) *vendor {
	v := &vendor{random: rand.New(rand.NewPCG(seed, 1))}
	for s := range v.ratio {
		v.ratio[s] = 0.3 + 1.2*v.random.Float64()
	}
	v.hidden = float64(v.random.IntN(3000))
	return v
}

// request is some text in one to three scripts, as it is in requests: with
// signs and numbers, in messages.
func (v *vendor) request() (p tokens.Parts) {
	for range 1 + v.random.IntN(3) {
		p[v.random.IntN(int(tokens.Framing))] += int64(16 * math.Exp(4+5*v.random.Float64()))
	}
	p[tokens.Framing] = int64(16 * 8 * (1 + v.random.IntN(30)))
	p[tokens.Symbols] += int64(v.random.IntN(16 * 500))
	return p
}

// makes returns how many tokens it makes of the parts.
func (v *vendor) makes(p tokens.Parts) float64 {
	n := 0.0
	for s, weight := range p {
		n += v.ratio[s] * float64(weight) / 16
	}
	return n
}

func (v *vendor) reports(p tokens.Parts) int64 {
	n := v.makes(p)*(1+v.noise*v.random.NormFloat64()) + v.hidden
	if v.random.Float64() < v.outliers {
		n *= []float64{0, 0.3, 2, 3}[v.random.IntN(4)]
	}
	return int64(math.Ceil(n))
}

func only(s tokens.Script, n int64) (p tokens.Parts) {
	p[s] = 16 * n
	return p
}

func TestCalibratedCountsAreALittleOnTheSafeSide(t *testing.T) {
	for seed := range uint64(40) {
		v := newVendor(seed)
		v.noise = 0.005 * float64(seed%4)
		var c tokens.Calibrator
		for n := 1; n <= 200; n++ {
			p := v.request()
			c.Learn("m", p, v.reports(p))
			if n%20 != 0 {
				continue
			}
			for s := range tokens.Framing {
				text := only(s, 5000)
				got := float64(c.Count("m", text)) / v.makes(text)
				if c.Learned("m", text) && got < 0.98 {
					t.Fatalf("seed %d: after %d requests %s is counted at %.3f of what it is", seed, n, s, got)
				}
				if n == 200 && (!c.Learned("m", text) || got < 1 || got > 1.12) {
					t.Fatalf("seed %d: after %d requests %s is counted at %.3f of what it is (known well: %v)", seed, n, s, got, c.Learned("m", text))
				}
			}
		}
		for range 50 {
			p := v.request()
			got := float64(c.Request("m", p)) / (v.makes(p) + v.hidden)
			if got < 1 || got > 1.12 {
				t.Fatalf("seed %d: a request is counted at %.3f of what it is: %v", seed, got, p)
			}
		}
	}
}

func TestPiecesAddUpToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVendor(rapid.Uint64().Draw(t, "seed"))
		v.noise = 0.02
		var c tokens.Calibrator
		for range rapid.IntRange(0, 40).Draw(t, "requests") {
			p := v.request()
			c.Learn("m", p, v.reports(p))
		}
		k := c.For("m")
		var whole tokens.Parts
		sum := k.Overhead()
		for range rapid.IntRange(1, 20).Draw(t, "pieces") {
			p := v.request()
			whole = whole.Add(p)
			sum += k.Parts(p)
		}
		for what, got := range map[string]int64{"text": k.Parts(whole) + k.Overhead(), "request": k.Request(whole)} {
			if float64(sum) < 0.75*float64(got) { // a few noisy requests do not tell more
				t.Fatalf("the pieces make %d tokens, the %s %d", sum, what, got)
			}
		}
	})
}

func TestOutliersDoNotMatter(t *testing.T) {
	for seed := range uint64(30) {
		v := newVendor(seed)
		v.noise, v.outliers = 0.02, 0.05
		var c tokens.Calibrator
		for range 300 {
			p := v.request()
			c.Learn("m", p, v.reports(p))
		}
		for s := range tokens.Framing {
			text := only(s, 5000)
			if got := float64(c.Count("m", text)) / v.makes(text); got < 0.98 || got > 1.25 {
				t.Errorf("seed %d: %s is counted at %.3f of what it is", seed, s, got)
			}
		}
	}
}

func TestWhatWasNotLearnedIsTheEstimate(t *testing.T) {
	var c tokens.Calibrator
	for i := range int64(50) {
		n := 1000 * (1 + 17*i%50)
		c.Learn("a/model", only(tokens.Latin, n).Add(only(tokens.Framing, n/10)), n*55/100)
	}
	for s := range tokens.Media {
		if got := c.Factor("another/model", s); got != 1 {
			t.Errorf("another model: %s has the factor %f", s, got)
		}
		if got := c.Factor("a/model", s); s != tokens.Latin && s != tokens.Framing && math.Abs(got-1) > 1e-6 {
			t.Errorf("%s was not learned and has the factor %f", s, got)
		}
	}
	if got := c.Factor("a/model", tokens.Latin); got < 0.5 || got > 0.7 {
		t.Errorf("Latin has the factor %f", got)
	}
	if c.Learned("another/model", only(tokens.Latin, 1)) || c.Learned("a/model", only(tokens.Han, 1)) || c.Learned("a/model", tokens.Parts{}) {
		t.Error("what was not learned is said to be")
	}
	mixed := only(tokens.Latin, 1000).Add(only(tokens.Han, 1000))
	if got := c.Count("a/model", mixed); got < 1500 || got > 1750 {
		t.Errorf("half known, half not: %d", got)
	}
	var none *tokens.Calibrator
	if none.Count("x", mixed) != 2000 || none.Request("x", mixed) != 2000 || none.Overhead("x") != 0 || none.For("x").Kind() != tokens.KindEstimated {
		t.Error("no calibrator knows something")
	}
	if n := c.Count("a/model", tokens.Parts{}); n != 0 {
		t.Errorf("nothing makes %d tokens", n)
	}
}

func TestScriptsThatAlwaysComeTogether(t *testing.T) {
	// Of each nobody can tell; what both make is plain.
	v := newVendor(5)
	v.ratio[tokens.Latin], v.ratio[tokens.Symbols], v.hidden = 0.5, 0.9, 700
	var c tokens.Calibrator
	of := func(n int64) tokens.Parts { return only(tokens.Latin, 9*n).Add(only(tokens.Symbols, n)) }
	for range 100 {
		p := of(int64(20 + v.random.IntN(2000)))
		c.Learn("m", p, v.reports(p))
	}
	text := of(1000)
	if got := float64(c.Count("m", text)) / v.makes(text); got < 1 || got > 1.1 || !c.Learned("m", text) {
		t.Errorf("what both make is counted at %.3f", got)
	}
	if c.Learned("m", only(tokens.Symbols, 1000)) {
		t.Error("what one makes cannot be known")
	}
	if got := c.Overhead("m"); got < 690 || got > 800 {
		t.Errorf("the hidden prompt is counted as %d", got)
	}
}

func TestAHiddenPromptIsNoRatio(t *testing.T) {
	v := newVendor(6)
	v.hidden = 12_000
	v.ratio[tokens.Cyrillic] = 0.45
	var c tokens.Calibrator
	for range 100 { // small requests, of which the hidden prompt is the most
		p := only(tokens.Cyrillic, int64(50+v.random.IntN(4000)))
		c.Learn("m", p, v.reports(p))
	}
	if got := c.Factor("m", tokens.Cyrillic); got < 0.45 || got > 0.51 {
		t.Errorf("the ratio is %f", got)
	}
	if got := c.Overhead("m"); got < 12_000 || got > 13_000 {
		t.Errorf("the hidden prompt is counted as %d", got)
	}
}

func TestWhatIsNoCountIsIgnored(t *testing.T) {
	var c tokens.Calibrator
	text := only(tokens.Latin, 1000)
	for range 20 {
		c.Learn("m", text, 0)
		c.Learn("m", text, -5)
		c.Learn("m", text, 100)                                // what was not cached
		c.Learn("m", text, 1_000_000)                          // who knows
		c.Learn("m", only(tokens.Latin, 10), 8)                // too small to tell
		c.Learn("m", text.Add(only(tokens.Media, 1600)), 1500) // mostly a picture
	}
	if got := c.Count("m", text); got != 1000 || c.For("m").Kind() != tokens.KindEstimated {
		t.Errorf("1000 tokens are counted as %d", got)
	}
}

func TestPicturesAreNotTakenForText(t *testing.T) {
	var c tokens.Calibrator
	v := newVendor(7)
	v.hidden, v.ratio[tokens.Latin] = 0, 0.6
	for range 100 {
		p := only(tokens.Latin, int64(100+v.random.IntN(8000)))
		reported := v.reports(p)
		if v.random.IntN(2) == 0 { // of the 1600 a picture takes what it takes
			p = p.Add(only(tokens.Media, 1600))
			reported += int64(100 + v.random.IntN(1400))
		}
		c.Learn("m", p, reported)
	}
	if got := c.Factor("m", tokens.Latin); got < 0.6 || got > 0.7 {
		t.Errorf("the ratio is %f", got)
	}
	if got := c.Count("m", only(tokens.Media, 1600)); got < 1600 {
		t.Errorf("a picture is counted as %d", got)
	}
}

func TestFactorsAreBounded(t *testing.T) {
	for _, ratio := range []float64{0.21, 0.25, 3.9} {
		var c tokens.Calibrator
		for i := range int64(60) {
			n := 1000 * (1 + 17*i%60)
			c.Learn("m", only(tokens.Han, n), int64(ratio*float64(n)))
		}
		if got := c.Factor("m", tokens.Han); got < 0.25 || got > 4 || got < ratio*0.98 || got > max(ratio, 0.25)*1.2 {
			t.Errorf("the ratio %f gives the factor %f", ratio, got)
		}
	}
}

func TestAnotherVocabularyUnderTheSameNameIsLearned(t *testing.T) {
	var c tokens.Calibrator
	v := newVendor(8)
	v.noise = 0.01
	learn := func(n int) {
		for range n {
			p := only(tokens.Latin, int64(500+v.random.IntN(5000))).Add(only(tokens.Framing, 100))
			c.Learn("m", p, v.reports(p))
		}
	}
	v.ratio[tokens.Latin] = 0.6
	learn(200)
	v.ratio[tokens.Latin] = 0.85 // a third more tokens
	learn(150)
	if got := c.Factor("m", tokens.Latin); got < 0.83 || got > 1.1 {
		t.Errorf("the factor is %f", got)
	}
}

// conversation is a growing request, as a chat has it.
type conversation struct {
	messages []*message.Message
	parts    tokens.Parts
	exact    int64
}

func (c *conversation) add(counter tokens.Counter, role message.Role, s string) {
	m := text(role, s)
	c.messages = append(c.messages, m)
	c.parts = c.parts.Add(tokens.OfMessage(m))
	c.exact += counter.Message(m)
}

// What a real vocabulary makes of real texts is learned from conversations in
// many languages that report what they took, with a prompt nobody sees.
func TestAVocabularyIsLearnedFromConversations(t *testing.T) {
	for _, model := range []string{"gpt-4", "gpt-4o"} {
		vocabulary := tokens.For(model)
		random := rand.New(rand.NewPCG(3, 4))
		all := prose()
		var c tokens.Calibrator
		talk := func(name string, turns int) *conversation {
			one := all[slices.IndexFunc(all, func(s sample) bool { return s.name == name })]
			conv := &conversation{}
			for turn := range turns {
				role := []message.Role{message.User, message.Assistant}[turn%2]
				conv.add(vocabulary, role, strings.Repeat(one.text+" ", 1+random.IntN(8)))
				if role == message.User {
					c.Learn("m", conv.parts, conv.exact+346)
				}
			}
			return conv
		}
		names := []string{"english", "russian", "chinese", "hindi", "arabic", "korean", "japanese", "thai", "greek", "hebrew", "german"}
		for range 5 {
			for _, name := range names {
				talk(name, 8)
			}
		}
		for _, name := range names {
			conv := talk(name, 10) // learned from as it grows
			got := float64(c.Request("m", conv.parts)) / float64(conv.exact+346)
			plain := float64(conv.parts.Tokens()) / float64(conv.exact+346)
			if got < 0.98 || got > 1.25 || got > max(plain, 1.1) {
				t.Errorf("%s, %s: counted at %.2f, estimated at %.2f of what it is", model, name, got, plain)
			}
		}
	}
}

func TestCalibratingFromManyGoroutines(t *testing.T) {
	var c tokens.Calibrator
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			v := newVendor(9)
			v.random = rand.New(rand.NewPCG(g, g))
			for i := range 50 {
				p := v.request()
				c.Learn("m", p, v.reports(p))
				counter := c.For("m")
				first := counter.Parts(p)
				c.Learn("m", p, v.reports(p))
				if counter.Parts(p) != first || counter.Overhead() < 0 {
					t.Error("a counter counts now so, now so")
				}
				if i%10 == 0 {
					var other tokens.Calibrator
					if err := other.Load(c.Save()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	v := newVendor(9)
	if got := c.Factor("m", tokens.Latin); got < v.ratio[tokens.Latin] || got > 1.1*v.ratio[tokens.Latin] {
		t.Errorf("the ratio %f gives the factor %f", v.ratio[tokens.Latin], got)
	}
}

func BenchmarkLearn(b *testing.B) {
	v := newVendor(1)
	v.noise = 0.02
	var c tokens.Calibrator
	for b.Loop() {
		p := v.request()
		c.Learn("m", p, v.reports(p))
	}
}
