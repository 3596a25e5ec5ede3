package intent

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	_ "steward/test/seed"
)

// legal is the table of all transitions, written down apart from the machine.
const legal = `
proposed          awaiting_approval approved executing denied cancelled failed
awaiting_approval awaiting_approval approved denied cancelled expired
approved          executing awaiting_approval denied cancelled expired
executing         executing done failed unknown
unknown           done failed
done
failed
denied
cancelled
expired`

func TestEveryTransition(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(legal), "\n")
	if len(lines) != len(States()) {
		t.Fatalf("the table has %d states, the machine %d", len(lines), len(States()))
	}
	for _, line := range lines {
		words := strings.Fields(line)
		from := State(words[0])
		for _, to := range States() {
			err := Advance(from, to)
			switch allowed := slices.Contains(words[1:], string(to)); {
			case allowed && err != nil:
				t.Errorf("%s to %s: %v", from, to, err)
			case !allowed && (!fault.HasCode(err, "intent_transition_illegal") || !fault.Is(err, fault.Conflict)):
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	for _, bad := range []State{"", "odd"} {
		if Advance(bad, Done) == nil || Advance(Proposed, bad) == nil {
			t.Errorf("%q is part of a legal transition", bad)
		}
	}
}

func TestPredicates(t *testing.T) {
	for _, s := range States() {
		open := s == Proposed || s == Awaiting || s == Approved || s == Executing
		if s.InFlight() != open || s.Settled() == open || !s.Known() {
			t.Errorf("%s: in flight %v, settled %v", s, s.InFlight(), s.Settled())
		}
		want := ""
		if open || s == Unknown {
			want = string(s)
		}
		if s.Mark() != want {
			t.Errorf("%s: mark %q", s, s.Mark())
		}
	}
	if State("odd").Settled() || State("odd").InFlight() || State("").Known() {
		t.Error("an unknown word is a state")
	}
}

func TestKey(t *testing.T) {
	ref := message.Ref{Message: id.Derive("m"), Block: 1}
	base := Key("mail.send", []byte(`{"to":"a"}`), CallIdentity(ref))
	if base != Key("mail.send", []byte(`{"to":"a"}`), CallIdentity(ref)) {
		t.Error("the same call has two keys")
	}
	for i, other := range []string{
		Key("mail.sent", []byte(`{"to":"a"}`), CallIdentity(ref)),
		Key("mail.send", []byte(`{"to":"b"}`), CallIdentity(ref)),
		Key("mail.send", []byte(`{"to":"a"}`), CallIdentity(message.Ref{Message: ref.Message, Block: 2})),
		Key("mail.send", []byte(`{"to":"a"}`), CallIdentity(message.Ref{Message: id.Derive("n"), Block: 1})),
		Key("mail.send", []byte(`{"to":"a"}`), "cld:x.Y.1"),
	} {
		if other == base {
			t.Errorf("key %d is the same", i)
		}
	}
	if a, b := RetryKey(base, "x"), RetryKey(base, "y"); a == b || a == base || b == base || a != RetryKey(base, "x") {
		t.Error("another attempt has no key of its own")
	}
	if _, ok := id.Parse(base); !ok {
		t.Errorf("%q is no UUID", base)
	}
}

func anyIntent() *rapid.Generator[Intent] {
	text := rapid.Map(rapid.String(), func(s string) string { return strings.ToValidUTF8(s, "?") })
	when := rapid.Map(rapid.Int64Range(0, 4e15), func(us int64) time.Time { return time.UnixMicro(us).UTC() })
	maybe := rapid.Map(rapid.Bool(), func(b bool) id.ID {
		if b {
			return id.New()
		}
		return id.ID{}
	})
	return rapid.Custom(func(t *rapid.T) Intent {
		args := `{"t":"` + strings.ReplaceAll(rapid.StringMatching(`[a-zé€😀 ]*`).Draw(t, "args"), `"`, "") + `"}`
		in := Intent{
			Key: text.Draw(t, "key"), Tool: text.Draw(t, "tool"), Version: text.Draw(t, "version"),
			Args: args, ArgsHash: HashArgs([]byte(args)),
			Call: message.Ref{Message: maybe.Draw(t, "message"), Block: rapid.IntRange(0, 99).Draw(t, "block")},
			User: text.Draw(t, "user"), Agent: text.Draw(t, "agent"),
			Request: maybe.Draw(t, "request"), Deferred: rapid.Bool().Draw(t, "deferred"),
			State: rapid.SampledFrom(States()).Draw(t, "state"), Reason: text.Draw(t, "reason"),
			Created: when.Draw(t, "created"), DeniedBy: text.Draw(t, "deniedby"),
			Labels: message.Labels(rapid.Uint8().Draw(t, "labels")), Rule: text.Draw(t, "rule"), Policy: text.Draw(t, "policy"),
			Approvers: text.Draw(t, "approvers"), Undoes: text.Draw(t, "undoes"), Undone: text.Draw(t, "undone"),
			Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
			Cap:      rapid.IntRange(0, 9000).Draw(t, "cap"), Fixed: rapid.Bool().Draw(t, "fixed"), Dead: rapid.Bool().Draw(t, "dead"),
			Retries: text.Draw(t, "retries"), Retried: text.Draw(t, "retried"),
		}
		if rapid.Bool().Draw(t, "asked") {
			in.Expires = when.Draw(t, "expires")
		}
		if rapid.Bool().Draw(t, "approved") {
			in.Approval = &Approval{By: text.Draw(t, "by"), At: when.Draw(t, "at"), ArgsHash: in.ArgsHash,
				Version: in.Version, Expires: when.Draw(t, "good until")}
		}
		if rapid.Bool().Draw(t, "masked") {
			in.Mask, in.Open = []string{text.Draw(t, "mask"), "/a/*"}, []string{text.Draw(t, "open")}
		}
		if rapid.Bool().Draw(t, "resolved") {
			in.Resolved = &Resolution{By: text.Draw(t, "resolver"), At: when.Draw(t, "resolved at"), Done: rapid.Bool().Draw(t, "as done"), Note: text.Draw(t, "note")}
		}
		if rapid.Bool().Draw(t, "has result") {
			in.Result = message.AppendBlocks(nil, []message.Block{&message.Text{Text: text.Draw(t, "result")}})
		}
		return in
	})
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyIntent().Draw(t, "intent")
		b, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("\n%+v became\n%+v", in, out)
		}
		again, err := Encode(out)
		if err != nil || !bytes.Equal(b, again) {
			t.Fatalf("%s\n%s\n%v", b, again, err)
		}
	})
}

func TestEncodeRefusesBrokenText(t *testing.T) {
	if _, err := Encode(Intent{Tool: "a\xff"}); !fault.HasCode(err, "intent_invalid") {
		t.Error(err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := Encode(Intent{Tool: "a.b", Args: "{}", ArgsHash: HashArgs([]byte("{}")), State: Proposed,
		Call: message.Ref{Message: id.New()}, Request: id.New()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(good); err != nil {
		t.Fatal(err)
	}
	change := func(old, to string) string {
		s := strings.Replace(string(good), old, to, 1)
		if s == string(good) {
			t.Fatalf("%s has no %s", good, old)
		}
		return s
	}
	for _, bad := range []string{
		"", "{}", "null", "[]", string(good[:len(good)-1]),
		change(`"state":"proposed"`, `"state":"odd"`),
		change(`"args":"{}"`, `"args":"{ }"`),
		change(`"message":"`, `"message":"x`),
		change(`"request":"`, `"request":"x`),
		change(`"tool":"a.b"`, `"tool":"a.b","tool":"c.d"`),
	} {
		if _, err := Decode([]byte(bad)); !fault.HasCode(err, "intent_broken") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := Encode(Intent{Tool: "a.b", Args: "{}", ArgsHash: HashArgs([]byte("{}")), State: Executing,
		Approval: &Approval{By: "ann"}, Created: time.Unix(1, 0), Result: []byte(`[]`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"state":"done"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := Decode(b)
		if err != nil {
			if !fault.HasCode(err, "intent_broken") {
				t.Fatal(err)
			}
			return
		}
		if !in.State.Known() || !utf8.ValidString(in.Args) {
			t.Fatalf("%+v", in)
		}
		again, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Decode(again)
		if err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%+v\n%+v\n%v", in, out, err)
		}
	})
}
