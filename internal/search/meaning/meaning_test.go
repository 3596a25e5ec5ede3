package meaning_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"steward/internal/search/meaning"
)

func TestSimilar(t *testing.T) {
	t.Parallel()
	var v meaning.Vocabulary
	list := strings.Fields("rain delete guitar train flour the")
	for i, w := range list {
		if n := v.Add(w); n != i || v.Add(w) != i {
			t.Fatalf("%s is number %d", w, n)
		}
	}
	similar := make([]float32, v.Len())
	for word, want := range map[string]string{"drizzle": "rain", "erase": "delete", "piano": "guitar", "railway": "train", "baking": "flour", "delete": "delete"} {
		if says := v.Compare(word, similar); says <= 0 || says > 8.1 {
			t.Fatalf("%s says %v", word, says)
		}
		best := 0
		for i, s := range similar {
			if s > similar[best] {
				best = i
			}
		}
		if list[best] != want {
			t.Errorf("%s is most like %s: %v", word, list[best], similar)
		}
	}
	if v.Add("qqqq") != -1 || v.Compare("qqqq", similar) != 0 || v.Compare("", similar) != 0 || v.Compare("incomprehensibility", similar) != 0 {
		t.Error("what is no word has a vector")
	}
	var sum, other meaning.Sum
	sum.Add("qqqq", 1)
	if sum.Unit(); sum != (meaning.Sum{}) {
		t.Errorf("%v", sum)
	}
	sum.Add("rain", 2)
	sum.Unit()
	other.Add("rain", 1)
	if other.Unit(); sum.Dot(&other) < 0.999 {
		t.Errorf("%v", sum.Dot(&other))
	}
}

// The file is the one that README.md describes.
func TestVectorsAreFresh(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("vectors.bin")
	if err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	if hash := hex.EncodeToString(sum[:]); !strings.Contains(string(about), hash) {
		t.Errorf("vectors.bin has the hash %s, which README.md does not name", hash)
	}
}
