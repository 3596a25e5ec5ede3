package math

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/localtest"
	"steward/test/must"
	_ "steward/test/seed"
)

// registered returns the tools in a registry.
func registered(t testing.TB) *tool.Registry {
	t.Helper()
	return localtest.Register(t, must.Get(Tools()))
}

func TestCalculator(t *testing.T) {
	localtest.Table(t, registered(t), []localtest.Row{
		{"math.multiply", `{"a":12345678901234567890,"b":98765432109876543210}`, "1219326311370217952237463801111263526900"},
		{"math.multiply", `{"a":0.1234567890123456789,"b":10}`, "1.234567890123456789"},
		{"math.multiply", `{"a":"6","b":7}`, "args_invalid"},
		{"math.add", `{"a":0.1,"b":0.2}`, "0.3"},
		{"math.add", `{"a":9007199254740993,"b":1}`, "9007199254740994"},
		{"math.subtract", `{"a":0.3,"b":0.1}`, "0.2"},
		{"math.divide", `{"a":1,"b":3}`, "0.333333333333333 (rounded)"},
		{"math.divide", `{"a":1,"b":0}`, "division_by_zero"},
		{"math.evaluate", `{"expression":"(-7) mod (3)"}`, "2"},
		{"math.evaluate", `{"expression":"(7) mod (-3)"}`, "-2"},
		{"math.evaluate", `{"expression":"(2)^100"}`, "1267650600228229401496703205376"},
		{"math.evaluate", `{"expression":"(9)^0.5"}`, "3"},
		{"math.evaluate", `{"expression":"(8)^1.5"}`, "22.6274169979695 (rounded)"},
		{"math.evaluate", `{"expression":"(2)^0.1234567"}`, "1.08934180314708 (rounded)"},
		{"math.evaluate", `{"expression":"(-8)^0.2"}`, "-1.5157165665104 (rounded)"},
		{"math.evaluate", `{"expression":"(-2)^0.5"}`, "no_real_result"},
		{"math.evaluate", `{"expression":"(0)^0"}`, "1"},
		{"math.evaluate", `{"expression":"(0)^-1"}`, "division_by_zero"},
		{"math.evaluate", `{"expression":"(-1)^10000000000000000000000000000001"}`, "-1"},
		{"math.evaluate", `{"expression":"(10)^1000000"}`, "number_too_large"},
		{"math.evaluate", `{"expression":"root(2, 2)"}`, "1.4142135623731 (rounded)"},
		{"math.evaluate", `{"expression":"root(27, 3)"}`, "3"},
		{"math.evaluate", `{"expression":"root(-27, 3)"}`, "-3"},
		{"math.evaluate", `{"expression":"root(-4, 2)"}`, "no_real_result"},
		{"math.evaluate", `{"expression":"root(1e-300, 2)"}`, "1e-150"},
		{"math.evaluate", `{"expression":"root(2e-301, 2)"}`, "4.47213595499958e-151 (rounded)"},
		{"math.evaluate", `{"expression":"15 % of 80"}`, "12"},
		{"math.evaluate", `{"expression":"1e300 % of 1e300"}`, "1" + strings.Repeat("0", 598)},
	})
}

func TestEvaluate(t *testing.T) {
	r := registered(t)
	for expr, want := range map[string]string{
		"1 + 2 * 3":                     "7",
		"0.1 + 0.2":                     "0.3",
		"-2^2":                          "-4",
		"2^3^2":                         "512",
		"2 - -3":                        "5",
		"7 mod 3":                       "1",
		"-7 % 3":                        "2",
		"50%":                           "0.5",
		"15% of 80":                     "12",
		"200 * (1 + 10%)":               "220",
		"10%%":                          "0.001",
		"9 % √4":                        "1",
		"2 × 3 ÷ 4 − 1":                 "0.5",
		"√16 + √2^2":                    "6",
		"SQRT(16)":                      "4",
		"root(2, -1)":                   "root_invalid",
		"floor(-1.5)":                   "-2",
		"ceil(-1.2)":                    "-1",
		"round(2.5)":                    "3",
		"round(-2.5)":                   "-3",
		"round(3.14159, 2)":             "3.14",
		"min(3, 1, 2)":                  "1",
		"sum(1, 2, 3.5)":                "6.5",
		"avg(1, 2, 4)":                  "2.33333333333333 (rounded)",
		"pi":                            "3.14159265358979 (rounded)",
		"round(e, 3)":                   "2.718",
		"sin(pi)":                       "0 (rounded)",
		"tan(pi/4)":                     "1 (rounded)",
		"atan(1) * 4":                   "3.14159265358979 (rounded)",
		"ln(e)":                         "1 (rounded)",
		"log(1000)":                     "3 (rounded)",
		"log(8, 2)":                     "3 (rounded)",
		"1e3 + 1E-2":                    "1000.01",
		".5 + 5.":                       "5.5",
		"2^64":                          "18446744073709551616",
		"100000000000000000000 / 3":     "3.33333333333333e19 (rounded)",
		"  1 +\n 1\t":                   "2",
		"1 / 0":                         "division_by_zero",
		"0 ^ -1":                        "division_by_zero",
		"sqrt(-1)":                      "no_real_result",
		"ln(0)":                         "number_too_large",
		"9^9^9":                         "number_too_large",
		"1e9999 * 1e9999 * 1e9999":      "number_too_large",
		"root(2, 0)":                    "root_invalid",
		"round(1, 1.5)":                 "places_invalid",
		"":                              "args_invalid",
		"1 +":                           "expression_invalid",
		"(1":                            "expression_invalid",
		"()":                            "expression_invalid",
		"1 2":                           "expression_invalid",
		"sqrt 4":                        "expression_invalid",
		"sqrt(1, 2)":                    "expression_invalid",
		"round(1,2,3)":                  "expression_invalid",
		"-(1/0)":                        "division_by_zero",
		"foo(1)":                        "expression_invalid",
		"x":                             "expression_invalid",
		"1,000":                         "expression_invalid",
		"1.2.3":                         "expression_invalid",
		".":                             "expression_invalid",
		"1 = 1":                         "expression_invalid",
		"import os":                     "expression_invalid",
		"2$":                            "expression_invalid",
		"\x00":                          "expression_invalid",
		strings.Repeat("(", 5000):       "args_invalid",
		strings.Repeat("(", 4000):       "expression_invalid",
		strings.Repeat("-", 4000) + "1": "expression_invalid",
		strings.Repeat("2^", 300) + "2": "expression_invalid",
	} {
		args, _ := json.Marshal(map[string]string{"expression": expr})
		got, err := localtest.Call(t, r, "math.evaluate", string(args))
		if err != nil {
			got = fault.Of(err).Code
		}
		if got != want {
			t.Errorf("%.60s = %s, %v; want %s", expr, got, err, want)
		}
	}
}

func TestExpressionErrorsSayWhere(t *testing.T) {
	for expr, says := range map[string]string{
		"1 + * 2":    `at character 5: expected a number, got "*"`,
		"√π + foo":   `at character 6: there is no function or constant "foo"`,
		"(1 + 2":     `at character 7: ")" is missing at the end`,
		"1 2":        `at character 3: expected an operator, got "2"`,
		"log(1,2,3)": "log takes 1 to 2 arguments, got 3",
		"sin(1,2)":   "sin takes 1 arguments, got 2",
		"root(1)":    "root takes 2 arguments, got 1",
		"sum()":      `expected a number, got ")"`,
		"1 # 2":      `unexpected '#'`,
		"2 +":        "sqrt",
	} {
		if _, err := evaluate(expr); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", expr, err, says)
		}
	}
	if _, err := evaluate(strings.Repeat("1", maxExpression+1)); !fault.HasCode(err, "expression_invalid") {
		t.Error(err)
	}
	if got := (function{1, 1000, nil}).takes(); got != "1 or more" {
		t.Error(got)
	}
}

// term is a random expression with its value, computed independently of the parser.
type term struct {
	text string
	r    *big.Rat
}

func terms(depth int) *rapid.Generator[term] {
	leaf := rapid.Custom(func(t *rapid.T) term {
		s := rapid.StringMatching(`(0|[1-9][0-9]{0,12})(\.[0-9]{1,6})?`).Draw(t, "number")
		r, _ := new(big.Rat).SetString(s)
		return term{s, r}
	})
	if depth == 0 {
		return leaf
	}
	sub := terms(depth - 1)
	return rapid.Custom(func(t *rapid.T) term {
		a, b := sub.Draw(t, "a"), sub.Draw(t, "b")
		space := rapid.SampledFrom([]string{"", " ", "  "}).Draw(t, "space")
		join := func(op string) string { return "(" + a.text + ")" + space + op + space + "(" + b.text + ")" }
		switch op := rapid.SampledFrom([]string{"+", "-", "*", "/", "neg", "leaf"}).Draw(t, "op"); op {
		case "+":
			return term{join("+"), new(big.Rat).Add(a.r, b.r)}
		case "-":
			return term{join("-"), new(big.Rat).Sub(a.r, b.r)}
		case "*":
			return term{join("*"), new(big.Rat).Mul(a.r, b.r)}
		case "/":
			if b.r.Sign() != 0 {
				return term{join("/"), new(big.Rat).Quo(a.r, b.r)}
			}
			return a
		case "neg":
			return term{"-(" + a.text + ")", new(big.Rat).Neg(a.r)}
		}
		return a
	})
}

func TestExpressionsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := terms(4).Draw(t, "expression")
		n, err := evaluate(x.text)
		if len(x.text) > maxExpression {
			return
		}
		if err != nil || n.rounded || n.Cmp(x.r) != 0 {
			t.Fatalf("%s = %v, %v; want %s", x.text, n, err, x.r)
		}
	})
}

func TestWrittenNumbersAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.Int64().Draw(t, "num")
		den := rapid.Int64Range(1, math.MaxInt64).Draw(t, "den")
		r := big.NewRat(num, den)
		s := exact(r).String()
		text, rounded := strings.CutSuffix(s, " (rounded)")
		got, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s is written %q", r, s)
		}
		if !rounded {
			if got.Cmp(r) != 0 {
				t.Fatalf("%s is written %s", r, s)
			}
			return
		}
		diff := new(big.Rat).Sub(got, r)
		diff.Abs(diff).Quo(diff, new(big.Rat).Abs(r))
		if diff.Cmp(big.NewRat(1, 1e14)) > 0 {
			t.Fatalf("%s is written %s", r, s)
		}
	})
}

func TestRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.Int64Range(1, 12).Draw(t, "degree")
		num := rapid.Int64Range(0, 1e12).Draw(t, "num")
		den := rapid.Int64Range(1, 1e12).Draw(t, "den")
		base := exact(big.NewRat(num, den))
		raised := must.Get(powInt(base, whole(big.NewInt(k))))
		back, err := root(raised, whole(big.NewInt(k)))
		if err != nil || back.rounded || back.Cmp(base.Rat) != 0 {
			t.Fatalf("the root of degree %d of %s is %s, %v", k, raised.RatString(), back.RatString(), err)
		}
		near := must.Get(root(base, whole(big.NewInt(k))))
		got, _ := near.Float64()
		x, _ := base.Float64()
		if want := math.Pow(x, 1/float64(k)); math.Abs(got-want) > 1e-12*math.Max(want, 1e-12) {
			t.Fatalf("the root of degree %d of %g is %g; want %g", k, x, got, want)
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	for _, s := range []string{"1+2*3", "-2^2", "15% of 80", "max(1,2,√3)", "1e9999^9", "((((", "ln(0)", "0^0", "9^9^9", "root(1e-9999,1000)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := evaluate(s)
		if err != nil {
			if k := fault.Of(err).Kind; k != fault.Invalid && k != fault.TooLarge {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if n.String() == "" || n.size() > maxBits {
			t.Fatalf("%q = %q", s, n)
		}
	})
}

func TestHash(t *testing.T) {
	localtest.Table(t, registered(t), []localtest.Row{
		{"text.hash", `{"text":"abc"}`, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"text.hash", `{"text":"abc","algorithm":"sha256"}`, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"text.hash", `{"text":""}`, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"text.hash", `{"text":"abc","algorithm":"md5"}`, "900150983cd24fb0d6963f7d28e17f72"},
		{"text.hash", `{"text":"abc","algorithm":"sha1"}`, "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{"text.hash", `{"text":"abc","algorithm":"sha224"}`, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"},
		{"text.hash", `{"text":"abc","algorithm":"sha384"}`, "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"},
		{"text.hash", `{"text":"abc","algorithm":"sha512"}`, "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
		{"text.hash", `{"text":"abc","algorithm":"sha3-256"}`, "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"},
		{"text.hash", `{"text":"abc","algorithm":"sha3-512"}`, "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0"},
		{"text.hash", `{"text":"abc","algorithm":"crc32"}`, "args_invalid"},
		{"text.hash", `{"algorithm":"md5"}`, "args_invalid"},
	})
}

func TestNumbersOfAnySpelling(t *testing.T) {
	r := registered(t)
	for i := range 50 {
		f := math.Pow(-1.37, float64(i))
		s := strconv.FormatFloat(f, 'g', -1, 64)
		got := must.Get(localtest.Call(t, r, "math.add", fmt.Sprintf(`{"a":%s,"b":0}`, s)))
		if back, err := strconv.ParseFloat(got, 64); err != nil || back != f {
			t.Errorf("%s became %s", s, got)
		}
	}
	var n number
	if err := n.UnmarshalJSON([]byte("x")); !fault.HasCode(err, "args_invalid") {
		t.Error(err)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	localtest.Described(t, registered(t), "math.add math.divide math.evaluate math.multiply math.subtract text.hash")
}

func TestAnEarlierSumStaysValid(t *testing.T) {
	s := localtest.NewSession(t, registered(t))
	s.Expect("math.add", `{"a":1,"b":2}`)
	s.Expect("math.add", `{"a":1,"b":2}`)
}
