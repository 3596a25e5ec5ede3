package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"steward/internal/fault"
	_ "steward/test/seed"
)

func masker(t testing.TB, values ...string) *Masker {
	t.Helper()
	m := &Masker{}
	for i, v := range values {
		if err := m.Add(fmt.Sprint("S", i), v); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// A secret is found in each of its forms.
func TestMaskForms(t *testing.T) {
	secret := `p<ss/wörd & "more"+\x`
	m := masker(t, secret)
	jsonOf := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	basic := func(before string) string {
		return base64.StdEncoding.EncodeToString([]byte(before + secret + " and after"))
	}
	for name, text := range map[string]string{
		"plain":     "it is " + secret + "!",
		"JSON":      jsonOf(map[string]string{"k": secret}),
		"JSON²":     jsonOf(jsonOf(map[string]string{"k": secret})),
		"raw JSON":  `{"k":"` + jsonText(secret) + `"}`,
		"Go":        strconv.Quote("a" + secret + "b"),
		"ASCII":     strconv.QuoteToASCII("a" + secret + "b"),
		"query":     "https://x/?q=" + url.QueryEscape(secret),
		"path":      "https://x/" + url.PathEscape(secret) + "/y",
		"lower":     lowerEscapes("https://x/?q=" + url.QueryEscape(secret)),
		"%20":       "https://x/?q=" + strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
		"base64":    base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"basic 0":   basic("ada:"),
		"basic 1":   basic("ada1:"),
		"basic 2":   basic("ada22:"),
		"hex":       hex.EncodeToString([]byte(secret)),
		"HEX":       strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		got := m.Mask(text)
		if !strings.Contains(got, "«secret:S0»") {
			t.Errorf("%s: %s is not masked: %s", name, text, got)
		}
		for _, f := range spellings(secret) {
			if strings.Contains(got, f) {
				t.Errorf("%s: %s is left in %s", name, f, got)
			}
		}
		if strings.HasPrefix(name, "JSON") && !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON any more: %s", name, got)
		}
		if m.Mask(got) != got {
			t.Errorf("%s: masked twice it is %s", name, m.Mask(got))
		}
	}
}

// Other languages escape different characters than Go does.
func TestMaskFormsOfOthers(t *testing.T) {
	m := masker(t, `p@ss w/rd&é😀!(x)*'`)
	for name, text := range map[string]string{
		"encodeURIComponent": `https://x/?q=p%40ss%20w%2Frd%26%C3%A9%F0%9F%98%80!(x)*'`,
		"encodeURI":          `https://x/?q=p@ss%20w/rd&%C3%A9%F0%9F%98%80!(x)*'`,
		"Python's quote":     `https://x/?q=p%40ss%20w/rd%26%C3%A9%F0%9F%98%80%21%28x%29%2A%27`,
		"PHP's JSON":         `{"a":"p@ss w\/rd&\u00e9\ud83d\ude00!(x)*'"}`,
		"Python's JSON":      `{"a":"p@ss w/rd&\u00e9\ud83d\ude00!(x)*'"}`,
		"slashes":            `{"a":"p@ss w\/rd&é😀!(x)*'"}`,
		"large digits":       `{"a":"p@ss w/rd&\u00E9\uD83D\uDE00!(x)*'"}`,
		"twice":              `"{\"a\":\"p@ss w/rd&\\u00e9\\ud83d\\ude00!(x)*'\"}"`,
	} {
		if got := m.Mask(text); !strings.Contains(got, "«secret:S0»") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A name may have any characters, and masked JSON stays valid.
func TestMaskNames(t *testing.T) {
	var m Masker
	m.Add("my \"key\"\\\n\xff", "correct-horse")
	got := m.Mask(`{"a":"correct-horse"}`)
	if !json.Valid([]byte(got)) || got != `{"a":"«secret:my _key____»"}` {
		t.Error(got)
	}
}

// A secret of digits may occur in numbers by chance: for days, times in
// microseconds begin with the same six digits. Masked JSON stays valid.
func TestMaskKeepsJSON(t *testing.T) {
	m := masker(t, "171234", `a"b\c:1`)
	for text, want := range map[string]string{
		`{"at":1712345678901234,"text":"it is 171234"}`: `{"at":1712345678901234,"text":"it is «secret:S0»"}`,
		`[171234,"a\"","\\","171234",{"171234":null}]`:  `[171234,"a\"","\\","«secret:S0»",{"«secret:S0»":null}]`,
		`{"n":171234,"x":"y a\"b\\c:1 z"}`:              `{"n":171234,"x":"y «secret:S1» z"}`,
		`{"n":1712340}`:                                 `{"n":1712340}`,
		`n=1712340`:                                     `n=«secret:S0»0`, // not JSON
		`{"t":"1712340"}`:                               `{"t":"«secret:S0»0"}`,
	} {
		if got := string(m.MaskBytes([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

func TestMaskLines(t *testing.T) {
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n"
	m := masker(t, key)
	got := m.Mask("one line: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC, short, -----BEGIN KEY-----")
	if got != "one line: «secret:S0», short, -----BEGIN KEY-----" {
		t.Error(got)
	}
}

func TestMaskOverlaps(t *testing.T) {
	m := masker(t, "abcdef", "abcdefgh", "efghijkl", "xyzabcdef")
	for text, want := range map[string]string{
		"abcdef":            "«secret:S0»",
		"abcdefgh.":         "«secret:S1».",
		"abcdefghijkl!":     "«secret:S1»!", // two overlapping secrets
		"xyzabcdefghijklmn": "«secret:S3»mn",
		"abcde abcdef":      "abcde «secret:S0»",
		"":                  "",
		"a":                 "a",
	} {
		if got := m.Mask(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if got := string(m.MaskBytes([]byte(text))); got != want {
			t.Errorf("bytes %q become %q, want %q", text, got, want)
		}
	}
	if got := m.Found("abcdef efghijkl abcdef"); fmt.Sprint(got) != "[S0 S2]" {
		t.Errorf("found %v", got)
	}
}

func TestMaskerRefuses(t *testing.T) {
	var m Masker
	for value, code := range map[string]string{"short": "secret_short", "": "secret_short", "  abc   ": "secret_short", "abc\x00defg": "secret_invalid"} {
		if err := m.Add("x", value); !fault.HasCode(err, code) {
			t.Errorf("%q: %v", value, err)
		}
	}
	if m.Any() || m.Mask("short") != "short" || m.Found("short") != nil {
		t.Error("what was refused is masked")
	}
	var none *Masker
	if none.Any() || none.Mask("x") != "x" || none.Add("x", "abcdefgh") != nil || string(none.MaskBytes([]byte("x"))) != "x" {
		t.Error("a nil masker masks")
	}
	m.Add("first", "the value")
	m.Add("second", "the value")
	if got := m.Mask("the value"); got != "«secret:first»" {
		t.Error(got)
	}
}

// Nothing of overlapping secrets is written, however the text is split.
func TestWriterOverlaps(t *testing.T) {
	m := masker(t, "abcdef", "defghi", "hijklmn")
	for _, text := range []string{"abcdefghi.", "abcdefgh", "abcdefghijklmn", "abcdefghijklm"} {
		var b bytes.Buffer
		w := m.Writer(&b)
		for _, c := range []byte(text) {
			w.Write([]byte{c})
		}
		w.Flush()
		if b.String() != m.Mask(text) {
			t.Errorf("%s in pieces is %s, and whole %s", text, &b, m.Mask(text))
		}
	}
}

// However a stream is split, the output equals Mask of the whole text. Text that
// cannot be part of a secret any more is written at once.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ab"/]{6,9}`), 1, 3).Draw(t, "secrets")
		m := &Masker{}
		for i, v := range values {
			m.Add(fmt.Sprint("S", i), v)
		}
		var parts []string
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			if rapid.Bool().Draw(t, "is") {
				v := rapid.SampledFrom(values).Draw(t, "secret")
				parts = append(parts, " ", v, " ")
			} else {
				parts = append(parts, rapid.StringMatching(`[a-c"/ ]{0,12}`).Draw(t, "text"))
			}
		}
		text := strings.Join(parts, "")
		for _, v := range values { // skips overlapping secrets: their masks may begin elsewhere
			for _, u := range values {
				for k := 1; k < len(v); k++ {
					if strings.HasPrefix(u, v[k:]) || strings.Contains(u[1:], v) {
						return
					}
				}
			}
		}
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if k, err := w.Write([]byte(rest[:n])); err != nil || k != n {
				t.Fatalf("%d, %v", k, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), m.Mask(text); got != want {
			t.Fatalf("%q with %q becomes %q, want %q", text, values, got, want)
		}
		cut := iotest.DataErrReader(iotest.HalfReader(strings.NewReader(text)))
		if found, err := m.In(cut); err != nil || found != (out.String() != text) {
			t.Fatalf("found in %q with %q: %v, %v", text, values, found, err)
		}
	})
}

// A secret is found wherever the end of the buffer splits it, even if it is longer
// than the buffer.
func TestInFindsSecretsAcrossReads(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 3<<10)
	for _, value := range []string{"hunter2hunter2", long} {
		m := masker(t, value)
		for at := 32<<10 - len(value) - 2; at <= 32<<10+2; at++ {
			if at < 0 || len(value) > 100 && at%4001 != 0 {
				continue
			}
			text := strings.Repeat(".", at) + value + "."
			if found, err := m.In(strings.NewReader(text)); !found || err != nil {
				t.Fatalf("%d bytes at %d: %v, %v", len(value), at, found, err)
			}
		}
		if found, err := m.In(strings.NewReader(strings.Repeat("hunter2", 20<<10))); found != (value != long) || err != nil {
			t.Fatalf("%v, %v", found, err)
		}
	}
	if _, err := masker(t, "hunter2hunter2").In(iotest.ErrReader(io.ErrUnexpectedEOF)); err != io.ErrUnexpectedEOF {
		t.Fatalf("a body that cannot be read: %v", err)
	}
}

func TestWriterHoldsBackLittle(t *testing.T) {
	m := masker(t, "abcdefgh")
	var out bytes.Buffer
	w := m.Writer(&out)
	for _, step := range []struct{ in, out string }{
		{"hello ", "hello "}, {"abc", "hello "}, {"xyz", "hello abcxyz"}, {"abcdef", "hello abcxyz"},
		{"gh", "hello abcxyz"}, // h may begin a base64 form of the secret
		{"ab", "hello abcxyz«secret:S0»"},
	} {
		if _, err := w.Write([]byte(step.in)); err != nil || out.String() != step.out {
			t.Fatalf("after %q: %q, %v", step.in, out.String(), err)
		}
	}
	if err := w.Flush(); err != nil || w.Flush() != nil || out.String() != "hello abcxyz«secret:S0»ab" {
		t.Errorf("%q, %v", out.String(), err)
	}
	none := (&Masker{}).Writer(&out)
	out.Reset()
	if _, err := none.Write([]byte("x")); err != nil || out.String() != "x" {
		t.Error(err)
	}
	broken := m.Writer(failing{})
	if _, err := broken.Write([]byte("hello")); err == nil {
		t.Error("a failure is not told")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no") }

func FuzzMask(f *testing.F) {
	f.Add("secret value", "a secret value b")
	f.Add("aaaaaa", "aaaaaaaaaaaaaaa")
	f.Add("%2f%2f%2f", "%2F%2F%2F%2f")
	f.Fuzz(func(t *testing.T, value, text string) {
		var m Masker
		if m.Add("N", value) != nil || strings.Contains("«secret:N»", strings.TrimSpace(value)) {
			return
		}
		v := strings.TrimSpace(value)
		got := m.Mask(text + value + text)
		if strings.Count(got, v) > 0 && !strings.ContainsAny(v, "«»") && !strings.Contains(v, "secret:N") {
			t.Errorf("%q is left in %q", v, got)
		}
	})
}
