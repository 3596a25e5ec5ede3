package tokens_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm/tokens"
	"steward/internal/message"
	_ "steward/test/seed"
)

// vendor is a simulated provider: it makes so many tokens of what is estimated,
// with noise, and puts something hidden before each request.
type vendor struct {
	ratio, hidden, noise float64
	random               *rand.Rand
}

func newVendor(seed uint64) *vendor {
	v := &vendor{random: rand.New(rand.NewPCG(seed, 1))}
	v.ratio = 0.4 + 1.2*v.random.Float64()
	return v
}

// request is some text of 500 to 20,000 words.
func (v *vendor) request() tokens.Parts { return words(500 + v.random.IntN(20_000)) }

func (v *vendor) reports(p tokens.Parts) int64 {
	return int64(math.Ceil(v.ratio*float64(p.Tokens())*(1+v.noise*v.random.NormFloat64()) + v.hidden))
}

func (v *vendor) teach(c *tokens.Calibrator, model string, requests int) {
	for range requests {
		p := v.request()
		c.Learn(model, p, v.reports(p))
	}
}

func words(n int) tokens.Parts { return tokens.Of(strings.Repeat("word ", n)) }

func picture() tokens.Parts {
	return tokens.OfBlocks([]message.Block{&message.Image{MIME: "image/png", URL: "https://example.org/a.png"}})
}

// factor returns what the estimate is multiplied with.
func factor(c *tokens.Calibrator, model string) float64 {
	p := words(100_000)
	return float64(c.For(model).Parts(p)) / float64(p.Tokens())
}

func TestCalibratedCountsAreALittleOnTheSafeSide(t *testing.T) {
	for seed := range uint64(40) {
		v := newVendor(seed)
		v.noise, v.hidden = 0.01*float64(seed%4), 100*float64(seed%5)
		var c tokens.Calibrator
		v.teach(&c, "m", 4)
		if c.For("m").Kind() != tokens.KindEstimated || factor(&c, "m") != 1 {
			t.Fatal("four requests are enough")
		}
		v.teach(&c, "m", 100)
		if got := factor(&c, "m") / v.ratio; got < 1.02 || got > 1.35 || c.For("m").Kind() != tokens.KindCalibrated {
			t.Errorf("seed %d: counted at %.3f of what it is", seed, got)
		}
	}
}

func TestPiecesAddUpToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVendor(rapid.Uint64().Draw(t, "seed"))
		var c tokens.Calibrator
		v.teach(&c, "m", rapid.IntRange(0, 40).Draw(t, "requests"))
		k := c.For("m")
		var whole tokens.Parts
		var sum int64
		pieces := rapid.IntRange(1, 20).Draw(t, "pieces")
		for range pieces {
			p := v.request().Add(picture())
			whole = whole.Add(p)
			sum += k.Parts(p)
		}
		if got := k.Parts(whole); sum < got || sum > got+int64(pieces) {
			t.Fatalf("the pieces make %d tokens, the whole %d", sum, got)
		}
	})
}

func TestWhatIsNoCountIsIgnored(t *testing.T) {
	var c tokens.Calibrator
	text := words(2000)
	n := text.Tokens()
	for range 20 {
		c.Learn("m", text, 0)
		c.Learn("m", text, -5)
		c.Learn("m", text, n/10)              // what was not cached
		c.Learn("m", text, 1_000_000)         // who knows
		c.Learn("m", words(10), 8)            // too small to tell
		c.Learn("m", text.Add(picture()), 10) // mostly a picture
		c.Learn("other", text, n/2)
	}
	if factor(&c, "m") != 1 || c.For("m").Kind() != tokens.KindEstimated || c.For("m").Parts(tokens.Parts{}) != 0 {
		t.Errorf("the factor is %f", factor(&c, "m"))
	}
	var zero tokens.Counter
	m := &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "some words"}}}
	if zero.Kind() != tokens.KindEstimated || zero.Message(m) != tokens.OfMessage(m).Tokens() || zero.Text("some words") != tokens.Estimate("some words") {
		t.Error("the zero counter does not estimate")
	}
}

func TestPicturesArePutDownToTheText(t *testing.T) {
	var c tokens.Calibrator
	v := newVendor(7)
	v.ratio = 0.6
	for range 100 {
		p := v.request()
		reported := v.reports(p)
		if v.random.IntN(2) == 0 { // of the 1600 a picture takes what it takes
			p = p.Add(picture())
			reported += int64(100 + v.random.IntN(1400))
		}
		c.Learn("m", p, reported)
	}
	if got := factor(&c, "m"); got < 0.6 || got > 0.9 {
		t.Errorf("the factor is %f", got)
	}
	if got := c.For("m").Parts(picture()); got != picture().Tokens() {
		t.Errorf("a picture is counted as %d", got)
	}
}

func TestFactorsAreBounded(t *testing.T) {
	for _, ratio := range []float64{0.21, 0.25, 3.9, 6} {
		v := newVendor(1)
		v.ratio = ratio
		var c tokens.Calibrator
		v.teach(&c, "m", 20)
		if got := factor(&c, "m"); got < 0.25 || got > 4 {
			t.Errorf("the ratio %f gives the factor %f", ratio, got)
		}
	}
}

func TestAnotherVocabularyUnderTheSameNameIsLearned(t *testing.T) {
	var c tokens.Calibrator
	v := newVendor(8)
	v.ratio = 0.6
	v.teach(&c, "m", 200)
	v.ratio = 0.85 // a third more tokens
	v.teach(&c, "m", 20)
	if got := factor(&c, "m"); got < 0.85 || got > 1.1 {
		t.Errorf("the factor is %f", got)
	}
}

func TestCalibratingFromManyGoroutines(t *testing.T) {
	var c tokens.Calibrator
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			v := newVendor(g)
			v.ratio = 0.5
			for range 20 {
				p := v.request()
				counter := c.For("m")
				first := counter.Parts(p)
				v.teach(&c, "m", 2)
				if counter.Parts(p) != first {
					t.Error("a counter counts now so, now so")
				}
				c.Save()
			}
		})
	}
	wg.Wait()
	if got := factor(&c, "m"); got < 0.5 || got > 0.6 {
		t.Errorf("the ratio 0.5 gives the factor %f", got)
	}
}

func TestWhatWasSavedIsLoaded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVendor(rapid.Uint64().Draw(t, "seed"))
		v.noise = 0.02
		var c, again tokens.Calibrator
		for i := range 2 {
			v.teach(&c, fmt.Sprintf("m%d", i), rapid.IntRange(0, 60).Draw(t, "requests"))
		}
		saved := c.Save()
		if err := again.Load(saved); err != nil {
			t.Fatal(err)
		}
		if c.For("m0") != again.For("m0") || string(again.Save()) != string(saved) {
			t.Fatalf("saved again:\n%s\n%s", again.Save(), saved)
		}
	})
}

func TestLoadIsCareful(t *testing.T) {
	var c tokens.Calibrator
	newVendor(1).teach(&c, "m", 20)
	before := c.For("m")
	for _, bad := range []string{
		"", "[]", "{", `{"models":{"m":{}}}`, `{"models":{"m":{"requests":-1,"estimated":1,"reported":1}}}`,
		`{"models":{"m":{"requests":9,"estimated":1e308,"reported":1e308,"squares":1}}}`, `{"models":{` + manyModels(600) + `}}`,
	} {
		if err := c.Load([]byte(bad)); err == nil || c.For("m") != before || !strings.Contains(err.Error(), "calibration") {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

func manyModels(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"m%d":{"requests":1,"estimated":1,"reported":1}`, i)
	}
	return strings.Join(all, ",")
}

func TestTheMemoryOfModelsIsBounded(t *testing.T) {
	var c tokens.Calibrator
	for i := range 2000 {
		c.Learn(fmt.Sprint("model ", i), words(1000), 600)
	}
	if n := strings.Count(string(c.Save()), "model "); n == 0 || n > 512 {
		t.Errorf("%d models are remembered", n)
	}
}
