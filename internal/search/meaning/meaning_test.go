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
	for word, want := range map[string]string{"drizzle": "rain", "erase": "delete", "piano": "guitar", "railway": "train", "baking": "flour", "delete": "delete"} {
		near, known := v.Near(word, 0.2, 2)
		if !known || len(near) == 0 || list[near[0].Number] != want || near[len(near)-1].Alike < 0.2 {
			t.Errorf("%s is most like %v", word, near)
		}
	}
	for _, word := range []string{"qqqq", "", "incomprehensibility"} {
		if near, known := v.Near(word, -1, 9); known || near != nil || v.Add(word) != -1 {
			t.Errorf("what is no word is like %v", near)
		}
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
