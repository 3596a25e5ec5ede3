package tokens_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/tokens"
)

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
