//go:build long

package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	maxMemory = 512             // MiB that Steward may use; documents are read in processes of their own
	maxTime   = 2 * time.Minute // for one call: which only a hang reaches
)

// bomb is content that is made to use up time or memory, and what the tool's result must say about it.
type bomb struct{ name, want string }

// anything stands for content that is refused or read: what counts is what it costs.
const anything = `(?s).`

func (w *world) check(t *testing.T, b bomb, name string, a args) {
	t.Helper()
	begun := time.Now()
	answer := w.do(name, a)
	if took := time.Since(begun); took > maxTime {
		t.Errorf("%s took %v", b.name, took)
	}
	if len(answer.Text) > 100_000 || !regexp.MustCompile(b.want).MatchString(answer.Text) {
		t.Errorf("%s: %d bytes, want %s: %.400q %s", b.name, len(answer.Text), b.want, answer.Text, answer.Code)
	}
	t.Logf("%-30s %6d ms  peak %d MiB  %.100q", b.name, time.Since(begun).Milliseconds(), w.peak(), answer.Text)
}

// within checks that Steward is well after all that.
func (w *world) within(t *testing.T) {
	t.Helper()
	if status, _ := w.HTTP(http.MethodGet, "/readyz", nil); status != http.StatusOK {
		t.Errorf("/readyz answers %d", status)
	}
	if got := w.peak(); got > maxMemory {
		t.Errorf("it has used %d MiB, more than %d", got, maxMemory)
	}
}

// page is a bomb that a site serves.
type page struct {
	bomb
	media, encoding string
	body            func() io.Reader
}

func text(prefix, again string, n int64) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(prefix), repeated(again, n)) }
}

func bytesOf(b []byte) func() io.Reader { return func() io.Reader { return bytes.NewReader(b) } }

const (
	mega = int64(1 << 20)
	word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
)

// Pages, feeds and documents that are made to use up time and memory are refused, or read within limits.
func TestPagesThatAreBombs(t *testing.T) {
	t.Parallel()
	bombed(t, []page{
		{bomb{"100 MB of HTML", "extract_too_large"}, html, "", text("<p>", "<p>word ", 100*mega)},
		{bomb{"nested elements", "extract_damaged"}, html, "", text("", "<div>", 5*mega)},
		{bomb{"nested formatting", "extract_damaged"}, html, "", text("", "<b><i><a href=x>", mega)},
		{bomb{"many attributes", anything}, html, "", text("<p ", "a=b ", 5*mega)},
		{bomb{"nested JSON", anything}, "application/json", "", text("", "[", 5*mega)},
		{bomb{"a nested JSON feed", "extract_damaged"}, "application/feed+json", "", text(`{"version":"https://jsonfeed.org/version/1.1","items":`, `[{"a":`, 5*mega)},
		{bomb{"a million laughs", anything}, "application/rss+xml", "", text(laughs(), " ", 1)},
		{bomb{"a gzip bomb", "extract_too_large"}, html, "gzip", bytesOf(packed(t, "<p>word ", 64*mega, gzipped))},
		{bomb{"two encodings", "page_encoding"}, html, "gzip, gzip", bytesOf(packed(t, "x", mega, gzipped))},
		{bomb{"Brotli that was not requested", "page_encoding"}, html, "br", text("\x1b\x00\x00", "\xff", mega)},
		{bomb{"UTF-16 that is none", anything}, "text/html; charset=utf-16", "", text("", "<p>hello", mega)},
		{bomb{"an unknown encoding", "hello"}, "text/html; charset=x-none", "", text("<p>hello", "\xff\xfe\x80", mega)},
		{bomb{"invalid UTF-8", "hello"}, "text/plain; charset=utf-8", "", text("hello", "\xc0\xaf\xed\xa0\x80", mega)},
		{bomb{"a PDF that unpacks to much", anything}, "application/pdf", "", bytesOf(pdf(packed(t, "(a) Tj ", 8*mega, deflated), "/Filter/FlateDecode", "4 0 R"))},
		{bomb{"a PDF of many objects", "extract_damaged"}, "application/pdf", "", text("%PDF-1.4\n", "1 0 obj\n<</A[[[[[[", 5*mega)},
		{bomb{"a picture that claims to be huge", "extract_unsupported"}, "image/png", "", bytesOf(hugePNG())},
		{bomb{"a Word file that unpacks to much", anything}, word, "", bytesOf(docx(t, repeated("<w:p><w:r><w:t>a</w:t></w:r></w:p>", 64*mega)))},
		{bomb{"a nested Word file", "nested too deeply"}, word, "", bytesOf(docx(t, repeated("<w:p>", 64*mega)))},
	})
}

// The same, with what takes longer. scripts/test-long runs it.
func TestPagesThatAreLargerBombs(t *testing.T) {
	t.Parallel()
	feed := func() io.Reader {
		return io.MultiReader(strings.NewReader(`<rss version="2.0"><channel><title>News</title>`), repeated("<item/>", 7_000_000), strings.NewReader("</channel></rss>"))
	}
	once := packed(t, "<p>word ", 1024*mega, gzipped)
	bombed(t, []page{
		{bomb{"10 MB of HTML", anything}, html, "", text("<p>", "<p>word ", 10*mega-10)},
		{bomb{"nested tables", "extract_damaged"}, html, "", text("", "<table><tr><td>", 5*mega)},
		{bomb{"nested XML", anything}, "text/xml", "", text(`<?xml version="1.0"?><rss version="2.0"><channel>`, "<a>", 5*mega)},
		{bomb{"a feed of a million entries", anything}, "application/rss+xml", "", feed},
		{bomb{"a gzip bomb of 1 GB", "extract_too_large"}, html, "gzip", bytesOf(once)},
		{bomb{"a gzip bomb in gzip", anything}, html, "gzip", bytesOf(packed(t, string(once), 8*mega, gzipped))},
		{bomb{"a PDF whose pages are its parents", "extract_timeout|extract_damaged"}, "application/pdf", "", bytesOf(pdf([]byte("BT ET"), "", "2 0 R 2 0 R"))},
		{bomb{"a PDF that unpacks to 640 MB", anything}, "application/pdf", "", bytesOf(pdf(packed(t, "(a) Tj ", 640*mega, deflated), "/Filter/FlateDecode", "4 0 R"))},
		{bomb{"a Word file of 1 GB", anything}, word, "", bytesOf(docx(t, repeated("<w:p/>", 1024*mega)))},
	})
}

// bombed serves the pages and has the model read each.
func bombed(t *testing.T, pages []page) {
	t.Helper()
	w := newWorld(t, "")
	for i, p := range pages {
		w.mux.HandleFunc(fmt.Sprintf("/bomb%d", i), func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", p.media)
			if p.encoding != "" {
				rw.Header().Set("Content-Encoding", p.encoding)
			}
			io.Copy(rw, p.body()) //nolint:errcheck // the caller may have heard enough
		})
	}
	w.Serve()
	for i, p := range pages {
		w.check(t, p.bomb, "web.fetch", args{"url": fmt.Sprintf("%s/bomb%d", w.site, i)})
	}
	w.within(t)
}

// laughs returns XML whose entities expand to a thousand million words.
func laughs() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY l0 "ha">`)
	for i := range 9 {
		fmt.Fprintf(&b, `<!ENTITY l%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	return b.String() + `]><rss version="2.0"><channel><title>&l9;</title></channel></rss>`
}

// hugePNG is a picture of a few bytes that says it has 100,000 x 100,000 pixels (PNG, section 11.2.1).
func hugePNG() []byte {
	return []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x01\x86\xa0\x00\x01\x86\xa0\x08\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00IEND\xaeB`\x82")
}

// Mail that is made to use up time and memory is read within limits, and does not hide other mail.
func TestMailThatIsABomb(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	const multipart = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n"
	var nested strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&nested, "Content-Type: multipart/mixed; boundary=B%d\r\n\r\n--B%d\r\n", i, i)
	}
	encoded := "=?utf-8?B?" + base64.StdEncoding.EncodeToString([]byte("hello ")) + "?= "
	for i, m := range []struct{ name, subject, rest string }{
		{"10,000 parts", "Parts", multipart + strings.Repeat("--B\r\nContent-Type: text/plain\r\n\r\nhello\r\n", 10_000) + "--B--\r\n"},
		{"parts in parts", "Nested", "MIME-Version: 1.0\r\n" + nested.String()},
		{"a message in a message", "Messages", "MIME-Version: 1.0\r\n" + strings.Repeat("Content-Type: message/rfc822\r\n\r\nSubject: x\r\n", 1000) + "\r\nhello"},
		{"encoded words without an end", strings.Repeat(encoded+"\r\n ", 5000) + "x", "\r\nhello"},
		{"an encoding that lies", "=?utf-16?B?//8=?= =?x-none?Q?=FF?= =?utf-8?Q?=80=80?=", "Content-Type: text/plain; charset=utf-16\r\n\r\nhello\xff\xfe\x00"},
		{"a name in many pieces", "Name", multipart + "--B\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment" + pieces(5000) + "\r\n\r\nx\r\n--B--\r\n"},
		{"10,000 recipients", "Recipients", "Cc: " + strings.Repeat("a@example.com,\r\n ", 10_000) + "b@example.com\r\n\r\nhello"},
		{"HTML without an end", "HTML", "Content-Type: text/html\r\n\r\n" + strings.Repeat("<div><b>\r\n", 100_000)},
		{"base64 that is none", "Base64", "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + strings.Repeat("====\r\n", 100_000)},
		{"quotes without an end", "Quotes", "Content-Type: text/plain; charset=\"\\\r\n\r\nhello"},
	} {
		from := fmt.Sprintf("Bomb%d <bomb%d@example.com>", i, i)
		w.letter(from, m.subject, m.rest)
	}
	w.letter("Bob <bob@example.com>", "Thursday", "\r\nSee you on Thursday.")
	w.Serve()
	w.check(t, bomb{"the list of them", "Thursday"}, "mail.search", args{})
	for i := range 10 {
		say := fmt.Sprintf("Read the bomb %d", i)
		w.wants(say, wish{does: []step{call("mail.search", args{"from": fmt.Sprintf("bomb%d@", i)}), found("mail.read", "id", `id (home/[^\s)]+)\)`)}})
		begun := time.Now()
		a := w.Ask(say, nil)
		if len(a.Results) != 2 || len(a.Text) > 100_000 || !strings.Contains(a.Text, "Bomb") || time.Since(begun) > maxTime {
			t.Errorf("%d: %d results, %d bytes after %v: %.300q", i, len(a.Results), len(a.Text), time.Since(begun), a.Text)
		}
		t.Logf("%d %v %d MiB %.200q", i, time.Since(begun), w.peak(), a.Text[max(0, len(a.Text)-200):])
	}
	w.within(t)
}

// pieces is the name of a file in n pieces (RFC 2231, section 3).
func pieces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ";\r\n filename*%d*=%%C3%%BC", i)
	}
	return b.String()
}

// Files of the workspace, calendars and reminders are no better than mail and pages.
func TestFilesThatAreBombs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.file("bomb.docx", docx(t, repeated("<w:p>", 64*mega)))
	w.file("bomb.pdf", pdf(packed(t, "(a) Tj ", 8*mega, deflated), "/Filter/FlateDecode", "4 0 R"))
	w.file("bomb.png", hugePNG())
	w.file("long.txt", []byte(strings.Repeat("a", 20_000_000)))
	w.file("lies.txt", []byte("\xff\xfehello\xd8\x00\xd8\x00\x00"))
	if err := os.Symlink("/proc/self/environ", filepath.Join(w.Dir, "Steward", "link.txt")); err != nil {
		t.Fatal(err)
	}
	event := func(lines string) string {
		return "BEGIN:VEVENT\r\nUID:1\r\nDTSTART:20300102T100000Z\r\nSUMMARY:Hostile\r\n" + lines + "\r\nEND:VEVENT\r\n"
	}
	w.private("BEGIN:VCALENDAR\r\n"+event("RRULE:FREQ=SECONDLY")+event("RRULE:FREQ=HOURLY;INTERVAL=24;BYHOUR=1")+
		event("RRULE:FREQ=DAILY\r\nEXDATE:\r\n "+strings.Repeat("20300102T100000Z,20300102T100000Z,20300102T100000Z,\r\n ", 250_000)+"20300102T100000Z")+
		"BEGIN:VEVENT\r\nUID:2\r\nDTSTART:20300102T120000Z\r\nSUMMARY:Mine\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", "calendar", "local", "calendar.ics")
	w.Serve()
	for _, c := range []struct {
		bomb
		tool string
		args args
	}{
		{bomb{"a Word file", anything}, "files.read", args{"path": "workspace/bomb.docx"}},
		{bomb{"a PDF", anything}, "files.read", args{"path": "workspace/bomb.pdf"}},
		{bomb{"a picture", anything}, "files.read", args{"path": "workspace/bomb.png"}},
		{bomb{"a long line", anything}, "files.read", args{"path": "workspace/long.txt"}},
		{bomb{"an encoding that lies", anything}, "files.read", args{"path": "workspace/lies.txt"}},
		{bomb{"a link", "path_refused"}, "files.read", args{"path": "workspace/link.txt"}},
		{bomb{"a search", anything}, "files.search", args{"query": "a"}},
		{bomb{"a calendar", `"Mine"`}, "calendar.list", args{"date": "2030-01-02"}},
		{bomb{"free time", `(?s)Free on.*"Mine"`}, "calendar.free", args{"date": "2030-01-02"}},
		{bomb{"a reminder each second", "rule_unsupported"}, "reminder.set", args{"text": "x", "at": "09:00", "repeat": "FREQ=SECONDLY"}},
		{bomb{"a reminder that never comes", "rule_"}, "reminder.set", args{"text": "x", "at": "09:00", "repeat": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"}},
	} {
		w.check(t, c.bomb, c.tool, c.args)
	}
	w.within(t)
}

// Archives of skills are taken as a whole or not at all; nothing of them is written elsewhere, and nothing
// of a skill is shown to a model before a person has approved it.
func TestArchivesOfSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	const skill = "---\nname: forms\ndescription: " + order + "\n---\n" + order + "\n"
	w.Write(skill, "skill", "SKILL.md")
	for name, data := range map[string][]byte{
		"slip.zip": zipped(t, "../../slipped.txt", strings.NewReader("x")),
		"bomb.zip": zipped(t, "SKILL.md", io.MultiReader(strings.NewReader(skill), repeated("x", 64<<20))),
		"bad.zip":  []byte("PK\x03\x04 and nothing else"),
	} {
		w.Write(string(data), name)
		if r := w.Run("skills", "add", filepath.Join(w.Dir, name), "--yes"); r.Code == 0 || !strings.Contains(r.Err, "(skill_") {
			t.Errorf("%s: exit %d: %s%s", name, r.Code, r.Out, r.Err)
		}
	}
	if r := w.Run("skills", "add", filepath.Join(w.Dir, "skill")); r.Code == 0 {
		t.Errorf("it was taken without a person: %s", r.Out)
	}
	if found, err := filepath.Glob(filepath.Join(w.Dir, "*slipped*")); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
	w.Serve()
	w.do("time.now", args{})
	if seen := w.read(); strings.Contains(seen, "ZEBRA") || !strings.Contains(seen, "time__now") {
		t.Error("a skill that nobody has approved was shown to the model")
	}
}
