package email

import (
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/tool"
	_ "steward/test/seed"
)

var now = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func options() Options {
	return Options{Now: func() time.Time { return now }, Zone: func(string) *time.Location { return time.FixedZone("X", 3600) }}
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(content, "\n", "\r\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

const lunch = `{"to":["ann@example.com"],"subject":"Lunch","body":"Shall we meet at noon?\nBob"}`

func TestWhatIsSentLandsInTheOutboxOnce(t *testing.T) {
	env := localtest.Env(t, "email")
	s := localtest.Open(t, Opener(options()), env, "outbox: ./sent\nfrom: Bob Bee <bob@example.com>")
	if happened, _ := s.Settle("a", "email.send", lunch); happened {
		t.Error("settled before it was sent")
	}
	for range 3 { // a call is repeated after a crash before its result was recorded
		if got := s.Call("a", "email.send", lunch); got != `Sent the e-mail "Lunch" to ann@example.com.` {
			t.Errorf("told %q", got)
		}
	}
	if happened, told := s.Settle("a", "email.send", lunch); !happened || told == "" {
		t.Errorf("settled as %v %q", happened, told)
	}
	sent := filepath.Join(env.Dir, "sent")
	if got := entries(t, sent); len(got) != 1 || !strings.HasSuffix(got[0], ".eml") {
		t.Fatalf("the outbox has %v", got)
	}
	raw, err := os.ReadFile(filepath.Join(sent, entries(t, sent)[0]))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	for name, want := range map[string]string{"From": `"Bob Bee" <bob@example.com>`, "To": "<ann@example.com>", "Subject": "Lunch",
		"Date": "Wed, 04 Mar 2026 10:00:00 +0000", "Mime-Version": "1.0", "Content-Type": "text/plain; charset=utf-8"} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	s.Call("b", "email.send", lunch) // another wish, the same words
	if got := entries(t, sent); len(got) != 2 {
		t.Errorf("two wishes gave %v", got)
	}
	if got := s.Call("q", "email.list", `{"folder":"outbox"}`); strings.Count(got, "to ann@example.com, \"Lunch\", Wed 4 Mar 2026 11:00") != 2 {
		t.Errorf("the outbox is listed as\n%s", got)
	}
}

// A write that is cut off leaves no e-mail, or a whole one.
func TestACrashWhileSendingLeavesNoHalfMail(t *testing.T) {
	env := localtest.Env(t, "email")
	s := localtest.Open(t, Opener(options()), env, "outbox: ./sent")
	put(t, filepath.Join(env.Dir, "sent"), ".steward-123.tmp", "From: half")
	if got := s.Call("q", "email.list", `{"folder":"outbox"}`); got != "The outbox is empty." {
		t.Errorf("listed %q", got)
	}
	if happened, _ := s.Settle("a", "email.send", lunch); happened {
		t.Error("half an e-mail counts as sent")
	}
}

func TestUsersHaveMailboxesOfTheirOwn(t *testing.T) {
	env := localtest.Env(t, "email")
	s := localtest.Open(t, Opener(options()), env, "")
	s.Call("a", "email.send", lunch)
	in := s.Invocation("q", "email.list", `{"folder":"outbox"}`)
	in.User = "eve/../ann"
	tl, _ := s.Registry.Get("email.list")
	res, err := tl.Call(t.Context(), in)
	if got := localtest.TextOf(res); err != nil || got != "The outbox is empty." {
		t.Errorf("%q, %v", got, err)
	}
	if got := entries(t, filepath.Join(env.Data, "ann", "outbox")); len(got) != 1 {
		t.Errorf("the outbox of ann has %v", got)
	}
}

func inbox(t *testing.T, dir string) {
	put(t, dir, "1.eml", `From: =?utf-8?q?J=C3=B6rg?= <joerg@example.org>
To: ann@example.com
Subject: =?iso-8859-1?q?Gr=FC=DFe?= und mehr
Date: Tue, 03 Mar 2026 08:15:00 +0100
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: multipart/alternative; boundary=y

--y
Content-Type: text/html; charset=utf-8

<html><head><style>p{}</style></head><body><p>Hello <b>Ann</b></p><script>alert(1)</script></body></html>
--y
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Gr=FC=DFe aus K=F6ln
--y--
--x
Content-Type: application/pdf; name=plan.pdf
Content-Disposition: attachment; filename=plan.pdf
Content-Transfer-Encoding: base64

QUJD
--x--
`)
	put(t, dir, "2.eml", `From: Carla <carla@example.org>
Subject: Invoice 77
Date: Mon, 02 Mar 2026 08:15:00 +0000
Content-Type: text/html

<h1>Invoice</h1><p>Please pay 5 &euro; &amp; smile.<br>Carla</p>
`)
	put(t, dir, "3.eml", "this is no e-mail\n")
	put(t, dir, "4.eml", `From: Dave <dave@example.org>
Subject: Cut
Content-Type: multipart/mixed; boundary=z

--z
Content-Type: text/plain

the beginning
`)
	put(t, dir, "notes.txt", "no e-mail")
}

func TestTheInboxIsRead(t *testing.T) {
	env := localtest.Env(t, "mail")
	inbox(t, filepath.Join(env.Dir, "in"))
	s := localtest.Open(t, Opener(options()), env, "inbox: in")
	list := s.Call("q", "mail.list", `{}`)
	for _, want := range []string{`from Jörg <joerg@example.org>, "Grüße und mehr", Tue 3 Mar 2026 08:15 (id inbox/1)`, `from Carla <carla@example.org>, "Invoice 77"`, "inbox/3: cannot be read: it is no e-mail", "Cut"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	if strings.Index(list, "inbox/1") > strings.Index(list, "inbox/2") {
		t.Errorf("the newest is not first:\n%s", list)
	}
	for id, want := range map[string][]string{
		"inbox/1":       {"From: Jörg <joerg@example.org>", "Grüße aus Köln", "Attachments: plan.pdf (application/pdf, 3 bytes)"},
		"inbox/2.eml":   {"Invoice\n", "Please pay 5 € & smile.\nCarla"},
		"3":             {"this is no e-mail", "Problem: "},
		"4":             {"the beginning"},
		"invoice carla": {"Subject: Invoice 77"},
	} {
		got := s.Call("q", "mail.read", map[string]string{"id": id})
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q:\n%s", id, w, got)
			}
		}
		if strings.Contains(got, "alert") || strings.Contains(got, "p{}") {
			t.Errorf("%s shows what is no text:\n%s", id, got)
		}
	}
	for query, want := range map[string]string{"köln": "inbox/1", "invoice": "inbox/2", "nothing like it": "No e-mail has", "!!": "No e-mail has"} {
		if got := s.Call("q", "mail.search", map[string]string{"query": query}); !strings.Contains(got, want) || strings.Count(got, "(id ") > 1 {
			t.Errorf("searching %q found %s", query, got)
		}
	}
	for _, id := range []string{"inbox/9", "../secret", "inbox/../x", ".hidden", "inbox/"} {
		if _, err := s.Try("q", "mail.read", map[string]string{"id": id}); !fault.HasCode(err, "email_not_found") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := s.Try("q", "mail.read", `{"id":"example.org"}`); !fault.HasCode(err, "email_ambiguous") {
		t.Errorf("several: %v", err)
	}
	if got := s.Call("q", "mail.list", `{"folder":"outbox"}`); got != "The outbox is empty." {
		t.Errorf("no outbox yet: %q", got)
	}
}

func TestDraftsAreChecked(t *testing.T) {
	s := localtest.Open(t, Opener(options()), localtest.Env(t, "email"), "")
	for args, code := range map[string]string{
		`{"to":["ann"],"subject":"x","body":"y"}`:                                  "email_address_invalid",
		`{"to":["a@b.c\nBcc: d@e.f"],"subject":"x","body":"y"}`:                    "email_address_invalid",
		`{"to":["a@b.c"],"cc":["x@y.z, d@e.f"],"subject":"x","body":"y"}`:          "email_address_invalid",
		`{"to":["a@b.c"],"subject":"  ","body":"y"}`:                               "email_subject_missing",
		`{"to":[],"subject":"x","body":"y"}`:                                       "args_invalid",
		`{"to":["a@b.c"],"subject":"x","body":"y","bcc":["d@e.f"]}`:                "args_invalid",
		`{"to":["a@b.c"],"subject":"` + strings.Repeat("x", 201) + `","body":"y"}`: "args_invalid",
	} {
		if _, err := s.Try("a", "email.send", args); !fault.HasCode(err, code) {
			t.Errorf("%s: %v, want %s", args, err, code)
		}
	}
}

func TestAFolderThatCannotBeWrittenChangesNothing(t *testing.T) {
	env := localtest.Env(t, "email")
	put(t, env.Dir, "sent", "a file where the folder should be")
	s := localtest.Open(t, Opener(options()), env, "outbox: sent")
	if _, err := s.Try("a", "email.send", lunch); err == nil || !tool.Certain(err) {
		t.Errorf("%v", err)
	}
	if _, err := s.Try("q", "email.list", `{"folder":"outbox"}`); err == nil {
		t.Error("a file was listed as a folder")
	}
	if _, err := s.Try("q", "email.read", `{"id":"outbox/x"}`); err == nil {
		t.Error("a file was read as a folder")
	}
}

func TestDeclarations(t *testing.T) {
	env := localtest.Env(t, "email")
	for text, code := range map[string]string{"outbox: ../out": "path_invalid", "from: nobody": "email_address_invalid", "inbox: \"a\\0b\"": "path_invalid"} {
		if _, err := Opener(Options{})(env, localtest.Decoder(text)); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Opener(Options{})(env, localtest.Decoder("outbx: x")); err == nil {
		t.Error("an unknown member was accepted")
	}
	if got := sender("Zoë Q"); got.Address != "Zo--Q@localhost" && got.Address != "Zo-Q@localhost" {
		t.Errorf("the sender is %s", got)
	}
	if got := sender(""); got.Address != "user@localhost" {
		t.Errorf("the sender is %s", got)
	}
}

// Whatever is sent is read back as it was, and every line of the file is short
// and of ASCII.
func TestRoundTrip(t *testing.T) {
	text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\n =?_.\t\"<>@,äß漢🙂\r")))).Filter(func(s string) bool {
		return strings.ToValidUTF8(s, "") == s
	})
	rapid.Check(t, func(t *rapid.T) {
		a := sendArgs{Subject: text.Filter(func(s string) bool { return strings.TrimSpace(s) != "" }).Draw(t, "subject"), Body: text.Draw(t, "body")}
		for range rapid.IntRange(1, 5).Draw(t, "recipients") {
			a.To = append(a.To, address(rapid.StringMatching(`[a-z0-9.]{0,20}[a-z]@[a-z]{1,20}\.example`).Filter(func(s string) bool {
				_, err := mail.ParseAddress(s)
				return err == nil
			}).Draw(t, "to")))
		}
		d, err := a.draft()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := encode(d, &mail.Address{Name: text.Draw(t, "from"), Address: "me@example.com"}, "id", now)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(raw), "\r\n\r\n")
		for line := range strings.SplitSeq(head, "\r\n") {
			if len(line) > 998 || strings.ContainsFunc(line, func(r rune) bool { return r > 126 || r < ' ' && r != '\t' }) {
				t.Fatalf("a bad line %q", line)
			}
		}
		e := decode(raw)
		want := strings.ReplaceAll(strings.ReplaceAll(a.Body, "\r\n", "\n"), "\r", "\n")
		if e.Problem != "" || e.Subject != d.Subject || strings.TrimSuffix(e.Text, "\n") != want && e.Text != want {
			t.Fatalf("read back %q %q %q, want %q %q\n%s", e.Problem, e.Subject, e.Text, d.Subject, want, raw)
		}
		if len(e.To) != len(a.To) || e.To[0] != string(a.To[0]) || !e.Date.Equal(now) {
			t.Fatalf("to %v at %v", e.To, e.Date)
		}
	})
}

// FuzzDecode: no file breaks the reader, and a header never makes a second line.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("From: a@b.c\r\nSubject: =?utf-8?q?x=0Ay?=\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n<p>a<br"))
	f.Add([]byte("Content-Type: text/plain; charset=utf-16\r\nContent-Transfer-Encoding: base64\r\n\r\n!!"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e := decode(raw)
		for _, v := range append(append([]string{e.From, e.Subject}, e.To...), e.Cc...) {
			if strings.ContainsAny(v, "\r\n") {
				t.Fatalf("a line break in %q", v)
			}
		}
		if strings.ToValidUTF8(e.Text, "") != e.Text {
			t.Fatal("the text is no UTF-8")
		}
	})
}

// A process that is killed in the middle of sending, and does again what was
// not acknowledged, sends nothing twice and loses nothing.
func TestKilled(t *testing.T) {
	const n = 25
	args := func(i int) string { return `{"to":["ann@example.com"],"subject":"Lunch","body":"the same each time"}` }
	env := func(dir string) tool.Env {
		e := localtest.Env(t, "email")
		e.Dir, e.Data = dir, dir
		return e
	}
	dir := localtest.Killed(t, n, func(dir string, i int) {
		s := localtest.Open(t, Opener(options()), env(dir), "")
		call := "call " + strings.Repeat("x", i)
		if done, _ := s.Settle(call, "email.send", args(i)); !done {
			s.Call(call, "email.send", args(i))
		}
	})
	sent := 0
	for _, name := range entries(t, filepath.Join(dir, "ann", "outbox")) {
		if strings.HasSuffix(name, ".eml") {
			sent++
		}
	}
	if sent != n {
		t.Errorf("%d e-mails were sent, want %d", sent, n)
	}
}
