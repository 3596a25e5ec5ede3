package tokens_test

import (
	"fmt"
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

func TestWhatWasSavedIsLoaded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVendor(rapid.Uint64().Draw(t, "seed"))
		v.noise = 0.02
		var c, again tokens.Calibrator
		for i := range rapid.IntRange(0, 60).Draw(t, "requests") {
			p := v.request()
			c.Learn(fmt.Sprintf("m%d", i%2), p, v.reports(p))
		}
		saved := c.Save()
		if err := again.Load(saved); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			p := v.request()
			if a, b := c.Count("m0", p), again.Count("m0", p); math.Abs(float64(a-b)) > 1+0.001*float64(a) {
				t.Fatalf("counted %d, loaded %d", a, b)
			}
		}
		if a, b := c.For("m0").Kind(), again.For("m0").Kind(); a != b {
			t.Fatalf("%s, loaded %s", a, b)
		}
		if len(saved) > 5000 {
			t.Fatalf("two models take %d bytes", len(saved))
		}
		if string(again.Save()) != string(saved) {
			t.Fatalf("saved again:\n%s\n%s", again.Save(), saved)
		}
	})
}

func TestLoadIsCareful(t *testing.T) {
	var c tokens.Calibrator
	text := only(tokens.Latin, 1000)
	for range 20 {
		c.Learn("m", text, 600)
	}
	before := c.Count("m", text)
	good := string(c.Save())
	for _, bad := range []string{
		"", "[]", "{", `{"models":{"m":{}}}`, `{"models":{"m":{"noise":0.1,"requests":-1}}}`, `{"models":{"m":{"noise":9}}}`,
		strings.Replace(good, `"latin",`, "", 1),
		strings.Replace(good, `"info":[[`, `"info":[[-`, 1),
		strings.Replace(good, `"info":[[`, `"info":[[1,`, 1),
		`{"parameters":["latin","symbols"],"models":{"m":{"requests":9,"noise":0.1,"pull":[1,1],"info":[[1],[5,1]]}}}`,
		`{"parameters":["latin"],"models":{"m":{"requests":9,"noise":0.1,"pull":[1e308],"info":[[1e308]]}}}`,
		`{"models":{` + strings.Repeat(`"%":{"noise":0.1},`, 0) + manyModels(600) + `}}`,
	} {
		err := c.Load([]byte(bad))
		if c.Count("m", text) > 4000 || c.Count("m", text) < 250 {
			t.Errorf("%.60s: 1000 tokens are counted as %d", bad, c.Count("m", text))
		}
		if err == nil && !strings.Contains(bad, "1e308") {
			t.Errorf("%.60s was loaded", bad)
		}
		if err != nil && (c.Count("m", text) != before || !strings.Contains(err.Error(), "learned anew")) {
			t.Errorf("%.60s: %v", bad, err)
		}
		if err := c.Load([]byte(good)); err != nil {
			t.Fatal(err)
		}
		before = c.Count("m", text)
	}
	// Of another version: what it knows beyond this one is left out.
	other := strings.NewReplacer(`"han"`, `"seal script"`).Replace(good)
	if err := c.Load([]byte(other)); err != nil || c.Count("m", text) != before {
		t.Errorf("%v, %d, want %d", err, c.Count("m", text), before)
	}
}

func manyModels(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"m%d":{"noise":0.1}`, i)
	}
	return strings.Join(all, ",")
}

func FuzzLoad(f *testing.F) {
	var c tokens.Calibrator
	c.Learn("m", only(tokens.Latin, 1000), 600)
	f.Add(c.Save())
	f.Add([]byte(`{"parameters":["latin","overhead"],"models":{"m":{"requests":9,"noise":0.1,"pull":[1,1],"info":[[1],[0.5,1]]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c tokens.Calibrator
		if c.Load(b) != nil {
			return
		}
		for s := range tokens.Media {
			if got := c.Factor("m", s); !(got >= 0.25 && got <= 4) {
				t.Fatalf("%s has the factor %f", s, got)
			}
		}
		c.Learn("m", only(tokens.Latin, 1000), 600)
		if err := c.Load(c.Save()); err != nil {
			t.Fatalf("what was saved cannot be loaded: %v", err)
		}
	})
}

func TestModelsAreForgottenWhenThereAreTooMany(t *testing.T) {
	var c tokens.Calibrator
	text := only(tokens.Latin, 1000)
	learn := func(model string) {
		for i := range int64(10) {
			c.Learn(model, only(tokens.Latin, 1000*(1+7*i%10)), 600*(1+7*i%10))
		}
	}
	learn("first")
	learn("second")
	for i := range 511 {
		c.Learn(fmt.Sprint("model ", i), text, 600)
		if i == 250 {
			learn("first")
		}
	}
	if c.Count("first", text) > 700 || c.Count("second", text) != 1000 {
		t.Errorf("the one used is counted at %d, the one not used at %d", c.Count("first", text), c.Count("second", text))
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

func TestCounters(t *testing.T) {
	var c tokens.Calibrator
	m := text(message.User, prose()[0].text)
	p := tokens.OfMessage(m)
	if k := c.For("a/b"); k.Kind() != tokens.KindEstimated || k.Message(m) != tokens.Message(m) || k.AtMost(m) != tokens.Message(m) || k.Overhead() != 0 || k.Request(p) != p.Tokens() {
		t.Errorf("%s: %d, %d, %d", k.Kind(), k.Message(m), k.AtMost(m), k.Overhead())
	}
	before := c.For("a/b")
	for i := range int64(20) {
		var many tokens.Parts
		for range i + 1 {
			many = many.Add(p)
		}
		c.Learn("a/b", many, many.Tokens()*6/10+500)
	}
	k := c.For("a/b")
	if got, whole := k.Message(m), tokens.Message(m); k.Kind() != tokens.KindCalibrated || got < whole*58/100 || got > whole*8/10 || k.AtMost(m) != got {
		t.Errorf("%s: %d of %d", k.Kind(), got, whole)
	}
	if got := k.Overhead(); got < 480 || got > 600 {
		t.Errorf("a request takes %d more", got)
	}
	if k.Text(prose()[0].text) >= tokens.Estimate(prose()[0].text) || k.Tools(weather()) == 0 {
		t.Error("texts and tools are not calibrated")
	}
	if before.Kind() != tokens.KindEstimated || before.Message(m) != tokens.Message(m) {
		t.Error("a counter changed under the hand")
	}
	// A sum of counts is on the safe side of the count of the sum.
	if one, two := k.Parts(p), k.Parts(p.Add(p)); 2*one < two {
		t.Errorf("%d twice, %d together", one, two)
	}
	var zero tokens.Counter
	if zero.Kind() != tokens.KindEstimated || zero.Message(m) != tokens.Message(m) {
		t.Error("the zero counter does not estimate")
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

func BenchmarkCount(b *testing.B) {
	v := newVendor(1)
	var c tokens.Calibrator
	for range 50 {
		p := v.request()
		c.Learn("m", p, v.reports(p))
	}
	k, p := c.For("m"), v.request()
	for b.Loop() {
		k.Parts(p)
	}
}
