package importexport_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/importexport"
)

// A signed export verifies under the same key for the same space. It does not verify
// after a byte has changed or a line was moved, removed or added, unless the result
// decodes to the same content.
func TestOnlyWhatWasExportedVerifies(t *testing.T) {
	seal := importexport.NewSeal([]byte("key"), "user:ana")
	rapid.Check(t, func(t *rapid.T) {
		w := generated(t)
		text, plain := sealed(t, w, seal), written(t, w)
		verifies := func(text string, seal importexport.Seal) bool {
			got, errs := readOwn(t, text, importexport.Options{Seal: seal})
			return len(errs) == 0 && len(got) == 1 && got[0].Signed
		}
		if !verifies(text, seal) || verifies(plain, seal) {
			t.Fatalf("signed %v, unsigned %v\n%s", verifies(text, seal), verifies(plain, seal), text)
		}
		for _, other := range []importexport.Seal{nil, importexport.NewSeal([]byte("kez"), "user:ana"), importexport.NewSeal([]byte("key"), "user:anb")} {
			if verifies(text, other) {
				t.Fatal("it verifies for another")
			}
		}
		changed := tampered(t, text)
		got, errs := readOwn(t, changed, importexport.Options{Seal: seal})
		if len(errs) == 0 && len(got) == 1 && got[0].Signed && (sealed(t, &got[0], seal) != text || strings.TrimSpace(changed) == strings.TrimSpace(plain)) {
			t.Fatalf("it was\n%s\nand verifies as\n%s", text, changed)
		}
	})
}

// tampered changes a text at some place.
func tampered(t *rapid.T, text string) string {
	lines := strings.SplitAfter(text, "\n")
	pick := func(label string) int { return rapid.IntRange(0, len(lines)-1).Draw(t, label) }
	switch i, j := pick("line"), pick("other"); rapid.SampledFrom([]string{"byte", "swap", "remove", "add"}).Draw(t, "what") {
	case "byte":
		b := []byte(text)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		return string(b)
	case "swap":
		lines[i], lines[j] = lines[j], lines[i]
	case "remove":
		lines[i] = ""
	default:
		lines[i] += lines[j]
	}
	return strings.Join(lines, "")
}
