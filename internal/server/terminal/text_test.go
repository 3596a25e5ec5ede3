package terminal

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAScreenPutsTogetherWhatWritesCut: characters and line ends that two
// writes share are whole again, and nothing unsafe comes of pieces.
func TestAScreenPutsTogetherWhatWritesCut(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "tty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := NewScreen(f)
	for _, piece := range []string{"a\r", "\nb\r", "c\xe2\x80", "\xae", "d\xf0\x9f", "\x91\x8d", "\xc2", "\x9b", "\tok\xff\n\U000e0041", "👨‍👩‍👧\xe2"} {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\nb␍c<U+202E>d👍<U+009B>\tok<FF>\n<U+E0041>👨‍👩‍👧<E2>"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
