package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	_ "steward/test/seed"
)

// The hashes are what docs/operations/audit.md says: made here by hand. They are in
// people's databases and exports, and never change.
func TestHashesOfTheChain(t *testing.T) {
	of := func(parts ...string) (h Hash) {
		s := sha256.New()
		for _, p := range parts {
			s.Write([]byte(p))
		}
		return Hash(s.Sum(nil))
	}
	salt := Salt([]byte("0123456789abcdef"))
	body := Hash(sha256.Sum256([]byte("body")))
	mark := MarkBody(&salt, body)
	if mark != of("\x01", "0123456789abcdef", string(body[:])) {
		t.Error("the hash of a body is another")
	}
	if MarkGone(&salt) != of("\x02", "0123456789abcdef") {
		t.Error("the hash of a body that is gone is another")
	}
	req, ok := id.Parse("01020304-0506-7708-890a-0b0c0d0e0f10")
	uri, err := resource.Parse("cld:home.Note.ä/home.Part.01020304-0506-7708-890a-0b0c0d0e0f10")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	s := Sealed{Prev: 3, Mark: mark, Entry: resource.Entry{Seq: 300, At: time.UnixMicro(64).UTC(), Op: resource.OpDelete, Version: 2,
		Space: "user:ada", Actor: "ada", State: "open", Request: req, URI: uri}}
	text := uri.String()
	want := of("\x03", "\xac\x02", "\x80\x01", "\x02", "\x02", "\x03", "\x08user:ada", "\x03ada", "\x04open", string(req[:]), string(rune(len(text))), text, string(mark[:]))
	if s.Sum() != want {
		t.Errorf("the hash of an entry is %s, want %s", s.Sum(), want)
	}
	if (Hash{}).Link(want) != of("\x04", string(make([]byte, 32)), string(want[:])) {
		t.Error("the hash of the chain is another")
	}
}

// Whatever an entry tells makes its hash another one.
func TestSumIsOverEverything(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) Sealed {
		word := rapid.StringMatching(`[a-c]{0,3}`)
		return Sealed{Prev: rapid.Uint64Range(0, 3).Draw(t, "prev"), Mark: Hash{rapid.Byte().Draw(t, "mark")}, Entry: resource.Entry{
			Seq: rapid.Uint64Range(0, 300).Draw(t, "seq"), At: time.UnixMicro(rapid.Int64Range(-200, 200).Draw(t, "at")).UTC(),
			Op: resource.Op(rapid.IntRange(1, 3).Draw(t, "op")), Version: rapid.Uint64Range(0, 3).Draw(t, "version"),
			Space: resource.Space(word.Draw(t, "space")), Actor: word.Draw(t, "actor"), State: word.Draw(t, "state"),
			Request: id.ID{rapid.ByteRange(0, 2).Draw(t, "request")}, URI: resource.Root("a.B", rapid.StringMatching(`[a-c]{1,3}`).Draw(t, "uri")),
		}}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		ja, _ := json.Marshal(a)
		jb, _ := json.Marshal(b)
		if same := string(ja) == string(jb); same != (a.Sum() == b.Sum()) {
			t.Fatalf("%s and %s", ja, jb)
		}
	})
}

func TestHashText(t *testing.T) {
	h := Hash(sha256.Sum256([]byte("x")))
	if h.String() != hex.EncodeToString(h[:]) {
		t.Error(h.String())
	}
	var back Head
	b, err := json.Marshal(Head{Seq: 7, Hash: h})
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back != (Head{7, h}) {
		t.Errorf("%s %v %v", b, back, err)
	}
	for _, bad := range []string{"", "zz", h.String()[1:], h.String() + "00", h.String()[:62] + "zz"} {
		kept := h
		if err := kept.UnmarshalText([]byte(bad)); !fault.HasCode(err, "hash_invalid") || kept != h {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
