package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

func packs(u ...resource.URI) (out []store.Change) {
	for _, u := range u {
		out = append(out, store.Change{Op: store.Pack, URI: u})
	}
	return out
}

// shortMessage is about 300 bytes as it is stored, a sentence of which is its own.
func shortMessage() []byte {
	return message.Append(nil, &message.Message{ID: id.New(), Prev: id.New(), Role: message.Assistant, At: time.UnixMicro(1763740000123456).UTC(),
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "model:openai/gpt-5"}, Text: "Nine trains leave for Utrecht before noon."}},
		Model:  "openai/gpt-5", Stop: message.StopEnd, Final: true, Usage: message.Usage{Input: 2345, Output: 17}})
}

// What is packed is shorter, short messages too; what would gain nothing is
// left as it is; and nothing comes to need more of its row's page.
func TestPackedForm(t *testing.T) {
	s := open1(t, dbPath(t))
	noise := make([]byte, 30_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	text := bytes.Repeat([]byte("All happy families are alike; each unhappy one is so in its own way. "), 1000)
	for name, c := range map[string]struct {
		body  []byte
		marks int64
	}{
		"a short message":  {shortMessage(), packed},
		"a text":           {text[:3000], packed},
		"a text of a page": {text[:4096], packed | apart},
		"a long text":      {text, packed | apart},
		"noise":            {noise[:300], 0},
		"much noise":       {noise, 0},
		"next to nothing":  {[]byte(`{"role":"user"}`), 0},
		"nothing":          {nil, 0},
	} {
		u := conv(name)
		commit(t, s, store.Change{URI: u, Body: c.body})
		was := rawBodies(t, s, u)[0]
		for range 2 {
			commit(t, s, packs(u)...)
			raw := rawBodies(t, s, u)[0]
			st := s.writer.c.prepare("SELECT op, length(body) FROM log WHERE key = ?")
			if _, err := st.argBlob(u.Key()).step(); err != nil {
				t.Fatal(err)
			}
			op, inRow := st.int(0), st.int(1)
			st.reset()
			if op != int64(resource.OpPut)|c.marks {
				t.Errorf("%s: the operation is %#x", name, op)
			}
			if c.marks == 0 && !bytes.Equal(raw, was) || c.marks != 0 && len(raw) > len(was)*9/10 || inRow > int64(len(was)) {
				t.Errorf("%s: %d bytes became %d, %d in the row", name, len(was), len(raw), inRow)
			}
			if got, err := s.Get(t.Context(), ada, u); err != nil || !bytes.Equal(got.Body, c.body) {
				t.Errorf("%s comes back as %q, %v", name, got.Body, err)
			}
		}
	}
	if n, err := s.writer.c.number("SELECT count(*) FROM pack"); err != nil || n != 2 {
		t.Errorf("%d bodies stand apart (%v)", n, err)
	}
	b := shortMessage()
	k := must(s.codec())
	if f := k.pack(b); len(b) > 350 || len(f) > len(b)*6/10 {
		t.Errorf("a message of %d bytes is packed to %d", len(b), len(f))
	}
	if k.pack(make([]byte, maxPack+1)) != nil {
		t.Error("a body is packed that is too large for it")
	}
}

// A database of the first version is read and packed like any other.
func TestPackInAnOldDatabase(t *testing.T) {
	t.Parallel()
	steps := must(schema())
	path := dbPath(t)
	old := open1(t, path)
	long := strings.Repeat("what was written by an earlier Steward; ", 200)
	for first := range 256 {
		commit(t, old, put(conv(fmt.Sprint(first)), string([]byte{byte(first)})+long[:300+40*(first%2)*100]))
	}
	log, tree := contents(t, old)
	if _, err := old.Seal(t.Context()); err != nil { // then the writer rests
		t.Fatal(err)
	}
	if err := old.writer.c.exec("DROP TABLE pack; DROP TABLE seal; DROP TABLE salt; DROP TABLE scar; PRAGMA user_version=1"); err != nil {
		t.Fatal(err)
	}
	close1(t, old)
	s := open1(t, path)
	for range 2 {
		if log2, tree2 := contents(t, s); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
			t.Fatal("it has something else")
		}
		for first := range 256 {
			commit(t, s, packs(conv(fmt.Sprint(first)))...)
		}
	}
	close1(t, s)
	// The earlier one refuses what it would misread.
	_, err := open(t.Context(), Options{Path: path}, steps[:1])
	wantCode(t, err, "database_too_new")
}

// A damaged frame, one that is missing, and one that unpacks to more than a
// body may have are told of, and harm nothing else.
func TestPackedDamage(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	long := strings.Repeat("as long as it takes to stand apart from all the others; ", 200)
	commit(t, s, put(conv("garbage"), long[:1000]), put(conv("missing"), long), put(conv("bomb"), long[:1000]), put(conv("fine"), long))
	commit(t, s, packs(conv("garbage"), conv("missing"), conv("bomb"), conv("fine"))...)
	c := s.writer.c
	for _, sql := range []string{
		"UPDATE log SET body = x'28b52ffd00112233445566' WHERE seq = 1",
		"DELETE FROM pack WHERE id = 1",
		// 600 MB of content are announced.
		"UPDATE log SET body = x'28b52ffda0004cc32301000003000100' WHERE seq = 3",
	} {
		if err := c.exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"garbage", "missing", "bomb"} {
		_, err := s.Get(t.Context(), ada, conv(name))
		wantCode(t, err, "store_broken")
		_, err = s.Query(t.Context(), ada, store.Query{Under: conv(name)})
		wantCode(t, err, "store_broken")
		_, err = s.Log(t.Context(), ada, store.LogQuery{Of: conv(name)})
		wantCode(t, err, "store_broken")
	}
	if got, err := s.Get(t.Context(), ada, conv("fine")); err != nil || string(got.Body) != long {
		t.Errorf("got %d bytes, %v", len(got.Body), err)
	}
	if p, err := s.Query(t.Context(), ada, store.Query{NoBody: true}); err != nil || len(p.Items) != 4 {
		t.Errorf("got %v, %v", p.Items, err)
	}
}

// The bound on what is unpacked holds, whatever a frame says of itself.
func TestBombs(t *testing.T) {
	k := must(newCodec(1 << 20))
	announced := must(zstd.NewWriter(nil))
	var silent bytes.Buffer
	w := must(zstd.NewWriter(&silent, zstd.WithWindowSize(1<<17)))
	for range 64 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(announced.EncodeAll(make([]byte, 1<<19), nil), 64)
	for name, frame := range map[string][]byte{
		"announced": announced.EncodeAll(make([]byte, 2<<20), nil), "silent": silent.Bytes(), "many frames": many,
	} {
		if len(frame) > 1<<14 {
			t.Errorf("%s: no bomb, of %d bytes", name, len(frame))
		}
		if b, err := k.unpack(frame); err == nil {
			t.Errorf("%s: %d bytes of %d", name, len(b), len(frame))
		}
	}
	if b, err := k.unpack(k.pack(make([]byte, 1<<19))); err != nil || len(b) != 1<<19 {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

func FuzzUnpack(f *testing.F) {
	k, err := newCodec(1 << 20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil))
	f.Add(shortMessage())
	f.Add(k.pack(shortMessage()))
	f.Add(k.pack(make([]byte, 1<<19)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := k.unpack(b); err == nil && len(out) > 1<<20 {
			t.Errorf("%d bytes became %d", len(b), len(out))
		}
		if frame := k.pack(b); frame != nil {
			if out, err := k.unpack(frame); err != nil || !bytes.Equal(out, b) {
				t.Errorf("%q comes back as %q, %v", b, out, err)
			}
		}
	})
}

// The dictionary stays as it is: what was packed with it needs it.
func TestDictionary(t *testing.T) {
	b, err := os.ReadFile("dictionaries/001.txt")
	if err != nil || id.Derive(string(b)).String() != dictionarySum {
		t.Errorf("the dictionary is %s, %v", id.Derive(string(b)), err)
	}
}

const dictionarySum = "e81c59b4-c00c-85d9-bf16-2dcc1d7830b2"
