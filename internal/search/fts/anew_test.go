//go:build long

package fts_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"steward/internal/record"
	"steward/internal/search/fts"
	"steward/internal/store"
)

// The file may be removed, truncated, overwritten or replaced by another version at
// any time: searches still find the same, and a message is logged.
func TestTheFileIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"empty":   func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"cut":     func(t *testing.T, path string) { must(t, os.Truncate(path, 5000)) },
		"no database": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
		},
		"overwritten": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			for i := 4096; i < len(b); i++ {
				b[i] ^= 0x5a
			}
			must(t, os.WriteFile(path, b, 0o600))
		},
		"of another version": func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 99") },
		"of another program": func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 0") },
		"of another log":     func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET key = x'00'") },
		"ahead of the log":   func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET seq = 1000000") },
		"with a bad cursor":  func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET cursor = 'bad'") },
		"without a table":    func(t *testing.T, path string) { tamper(t, path, "DROP TABLE doc_1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.talk("ana", "fruit")
			for i := range 50 {
				c.say(fmt.Sprintf("a quince of number %d", i))
			}
			w.expect("ana", "quince 49", "a [quince] of number [49]")
			must(t, w.index.Close())
			spoil(t, w.path())
			w.index = w.another(fts.Options{})
			w.expect("ana", "quince 7", "a [quince] of number [7]")
			if told := strings.Contains(w.log.String(), "is rebuilt"); told == (name == "removed" || name == "empty") {
				t.Errorf("the log says %q", w.log.String())
			}
			c.say("a quince more")
			w.expect("ana", "more", "a quince [more]")
		})
	}
}

// Once Catch has returned, the file contains no byte of erased text.
func TestErasedForGood(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		w := newWorld(t)
		c, d := w.talk("ana", "kept"), w.talk("ana", "erased")
		for i := range 2000 {
			c.say(fmt.Sprintf("common words and word%d", i))
			if i%100 == 0 {
				must(t, w.index.CatchUp(context.Background())) // creates and merges many segments
			}
		}
		secret := d.say("the xylophonequartet plays")
		w.expect("ana", "xylophonequartet", "the [xylophonequartet] plays")
		for i := range 500 {
			c.say(fmt.Sprintf("more words and word%d", i))
		}
		must(t, w.index.CatchUp(context.Background()))
		if !bytes.Contains(w.bytesOf(t), []byte("xylophonequ")) {
			t.Fatal("the test looks for what is never there")
		}
		if whole {
			w.commit("ana", store.Change{Op: store.Erase, URI: record.ConversationURI(d.ID)})
		} else {
			w.commit("ana", store.Change{Op: store.Erase, URI: d.uri(secret)})
		}
		w.expect("ana", "xylophonequartet") // does not wait for expunging
		must(t, w.index.CatchUp(context.Background()))
		if at := bytes.Index(w.bytesOf(t), []byte("phonequ")); at >= 0 {
			t.Errorf("whole %v: it is still there at byte %d", whole, at)
		}
		w.expect("ana", "word7", "common words and [word7]"[:0]+"more words and [word7]", "common words and [word7]")
		must(t, w.index.Close())
		must(t, os.Remove(w.path()))
		w.index = w.another(fts.Options{})
		w.expect("ana", "xylophonequartet")
		w.expect("ana", "word1999", "common words and [word1999]")
	}
}
