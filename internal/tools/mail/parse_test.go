package mail

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever an e-mail is, its headers are single lines, its text is bounded, and ids survive.
func FuzzParse(f *testing.F) {
	f.Add([]byte("From: a@b.c\r\nSubject: =?utf-8?q?x=0Ay?=\r\n\r\ntext\r\n"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>x\r\n--b\r\nContent-Disposition: attachment; filename=\"a\r\n b\"\r\n\r\nx\r\n--b--\r\n"))
	f.Add([]byte("References: <a@b> <c@d>\r\nContent-Transfer-Encoding: base64\r\n\r\n&&&&"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := parse(raw)
		lines := []string{l.from, l.to, l.cc, l.replyTo, l.subject, l.problem}
		for _, a := range l.attached {
			lines = append(lines, a.name, a.media)
		}
		for _, s := range lines {
			if strings.ContainsAny(s, "\r\n") || !utf8.ValidString(s) {
				t.Errorf("%q is no line", s)
			}
		}
		if !utf8.ValidString(l.plain) || len(l.plain) > maxText*3 || len(l.html) > maxText {
			t.Errorf("%d bytes of text, %d of HTML", len(l.plain), len(l.html))
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("work/12-34/INBOX")
	f.Add("a/1-2/b/c d")
	f.Fuzz(func(t *testing.T, id string) {
		p, err := parsePlace(id)
		if err != nil {
			return
		}
		if again, err := parsePlace(p.String()); err != nil || again != p {
			t.Errorf("%q: %+v, then %+v, %v", id, p, again, err)
		}
	})
}
