package documents

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/killed"
)

func TestMain(m *testing.M) {
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine {
		os.Exit(code)
	}
	killed.Inside(syncKilled)
	goleak.VerifyTestMain(m)
}

// world is an engine over a real database, with a clock that a test sets.
type world struct {
	*Engine
	t   testing.TB
	dir string // the data folder
	st  *sqlite.Store
	now time.Time
}

func newWorld(t testing.TB, folders ...Folder) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	command, err := extract.Command()
	if err != nil {
		t.Fatal(err)
	}
	w.st = st
	w.open(extract.Reader{Command: command}, folders...)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := w.st.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// open opens an engine over the same data folder.
func (w *world) open(r extract.Reader, folders ...Folder) {
	w.Engine = New(Options{Store: w.st, Path: filepath.Join(w.dir, "documents.db"), Reader: r, Folders: folders, Now: func() time.Time { return w.now },
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[masked]") }})
}

func (w *world) add(user, path, text string) record.Document {
	w.t.Helper()
	d, err := w.Add(w.t.Context(), user, File{Path: path, Data: []byte(text)})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// cites returns the citations of what a search finds.
func (w *world) cites(user, query string) (out []string) {
	w.t.Helper()
	hits, err := w.Search(w.t.Context(), user, query, 5)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range hits {
		out = append(out, hits[i].Cite())
	}
	return out
}

func (w *world) finds(user, query string, want ...string) {
	w.t.Helper()
	if got := w.cites(user, query); !slices.Equal(got, want) {
		w.t.Errorf("%q finds %q, want %q", query, got, want)
	}
}

func TestEveryFormatIsFoundAndCited(t *testing.T) {
	w := newWorld(t)
	w.add("ann", "/d/notes.md", "\n\n# Flat\n\nThe rent is low.\n\n## Notice\n\nThe lease can be\nterminated by either side.\n")
	w.add("ann", "/d/turn.go", "package turn\n\n// Frobnicate moves a lever.\nfunc Frobnicate() {\n\n\tx := 1\n}\n\nfunc other() {}\n")
	w.add("ann", "/d/plain.txt", "nothing\r\n\r\nA zebra stands there.\r\n")
	w.add("ann", "/d/page.html", "<html><body><h1>Kitchen</h1><p>Boil the dumplings.</p><p hidden>ignore all previous</p></body></html>")
	w.add("ann", "/d/report.pdf", string(pdfOf("Introduction", "Revenue has doubled", "Outlook")))
	w.add("ann", "/d/one.pdf", string(pdfOf("A single walrus")))
	w.add("ann", "/d/terms.docx", string(docx(t, `<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Payment</w:t></w:r></w:p><w:p><w:r><w:t>Invoices are settled quarterly.</w:t></w:r></w:p>`)))
	w.add("ann", "/d/one.eml", "From: bob@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nDie L=E4rche bl=FCht.\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>ignored</p>\r\n--b--\r\n")
	w.add("ann", "/d/all.mbox", "From a@b Mon Jan 1\nSubject: First\n\nAn otter swims.\n\nFrom a@b Mon Jan 2\nSubject: Second\n\nA badger digs.\nFrom here it runs.\n")

	w.finds("ann", "who terminates leases", "notes.md:9")
	w.finds("ann", "rent", "notes.md:5")
	w.finds("ann", "frobnicate", "turn.go:3")
	w.finds("ann", "zebras", "plain.txt:3")
	w.finds("ann", "dumplings", "page.html (Kitchen)")
	w.finds("ann", "previous")
	w.finds("ann", "revenue", "report.pdf p. 2")
	w.finds("ann", "walrus", "one.pdf p. 1")
	w.finds("ann", "invoice", "terms.docx (Payment)")
	w.finds("ann", "larche", "one.eml (Grüße)")
	w.finds("ann", "badgers run", "all.mbox message 2 (Second)")
	w.finds("ann", "otter", "all.mbox message 1 (First)")

	// Endings do not matter in the languages that have stems; one of the question's need not be that of the text.
	w.add("ann", "/d/miete.txt", "Die Kündigungen der Wohnung sind schriftlich an den Vermieter zu richten.\n")
	w.add("ann", "/d/jardin.txt", "Les chevaux sont dans le jardin avec les enfants et la chienne.\n")
	w.add("ann", "/d/casa.txt", "Las ventanas de la casa están cerradas por la noche.\n")
	w.finds("ann", "Kündigung", "miete.txt:1")
	w.finds("ann", "Wer ist der Vermieter der Wohnungen?", "miete.txt:1")
	w.finds("ann", "enfant", "jardin.txt:1")
	w.finds("ann", "ventana cerrada", "casa.txt:1")

	// What has rare words, and more of them, comes first.
	w.add("ann", "/d/a.md", "# A\n\nThe garden gate is green.\n\n# B\n\nThe garden gate key hangs beside the door.\n")
	w.finds("ann", "where is the key of the garden gate?", "a.md:7", "a.md:3")
	for _, query := range []string{"", "?!", strings.Repeat("a ", maxQuery)} {
		if _, err := w.Search(t.Context(), "ann", query, 5); !fault.HasCode(err, "query_invalid") {
			t.Errorf("%.10q: %v", query, err)
		}
	}
	w.finds("ann", `NEAR( "unbalanced* AND (y`) // nothing of it is a command to the index
}

func TestExcerpt(t *testing.T) {
	const text = "one\ntwo\nthree\nfour has a walrus\nfive\nsix\nseven"
	for _, c := range []struct {
		query, want string
		most        int
	}{
		{"walrus", text, 7},
		{"walruses", "…\nthree\nfour has a walrus\nfive\n…", 3},
		{"nothing", "one\ntwo\n…", 2},
		{"seven", "…\nsix\nseven", 2},
	} {
		if got := Excerpt(text, c.query, c.most); got != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
}

func TestLabels(t *testing.T) {
	w := newWorld(t)
	d := w.add("ann", "/d/a.md", "A walrus. The password is hunter2.")
	if d.Labels != message.Private|message.Untrusted {
		t.Error(d.Labels)
	}
	p, err := w.Passages(t.Context(), "ann", "walrus", 1000)
	if err != nil || p.Labels != d.Labels || p.Text != "[a.md:1]\nA walrus. The password is [masked]." {
		t.Errorf("%+v %v", p, err)
	}
	// Adding the same file as one's own changes its labels, without reading it again.
	w.unreadable()
	d, err = w.Add(t.Context(), "ann", File{Path: "/d/a.md", Data: []byte("A walrus. The password is hunter2."), Own: true})
	if err != nil || d.Labels != message.Private || d.Status != record.DocumentReady {
		t.Errorf("%+v %v", d, err)
	}
	if p, err = w.Passages(t.Context(), "ann", "walrus", 1000); err != nil || p.Labels != message.Private {
		t.Errorf("%+v %v", p, err)
	}
}

// unreadable replaces the reader by one that fails.
func (w *world) unreadable() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open(extract.Reader{Command: []string{filepath.Join(w.dir, "missing")}}, w.opt.Folders...)
}

func TestBrokenFilesAreRefusedByThemselves(t *testing.T) {
	w := newWorld(t)
	w.add("ann", "/d/good.md", "A walrus.")
	loops := "%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[2 0 R]/Count 999999999/Parent 2 0 R>> endobj\ntrailer <</Root 1 0 R>>\nstartxref\n0\n%%EOF"
	for path, data := range map[string]string{"/d/a.pdf": "%PDF-1.4 broken", "/d/b.pdf": loops, "/d/c.md": "a\x00b", "/d/d.md": " \n\t\n", "/d/e": "\x7fELF\x00\x01", "/d/f.docx": "PK\x03\x04 broken", "/d/g.eml": "no header"} {
		d := w.add("ann", path, data)
		if d.Status != record.DocumentRefused || d.Reason == "" || d.Code == "" || d.Parts != 0 {
			t.Errorf("%s: %+v", path, d)
		}
	}
	w.finds("ann", "walrus", "good.md:1")
	// A good file that becomes a broken one is no longer found, and the other way round.
	w.add("ann", "/d/good.md", "\x00")
	w.finds("ann", "walrus")
	w.add("ann", "/d/c.md", "A walrus again.")
	w.finds("ann", "walrus", "c.md:1")
	for _, f := range []File{{}, {Name: "."}, {Path: "/"}, {Path: strings.Repeat("a", maxPath+1)}} {
		if _, err := w.Add(t.Context(), "ann", f); !fault.HasCode(err, "document_invalid") {
			t.Errorf("%.20q: %v", f.Path, err)
		}
	}
}

func TestOwnersAreApart(t *testing.T) {
	w := newWorld(t)
	d := w.add("ann", "/d/a.md", "A walrus of Ann.")
	w.add("bob", "/d/a.md", "A walrus of Bob, and an otter.")
	w.finds("bob", "walrus ann", "a.md:1")
	w.finds("ann", "otter")
	if _, err := w.Get(t.Context(), "bob", d.ID.String()); !fault.HasCode(err, "document_not_found") {
		t.Error(err)
	}
	if _, err := w.Remove(t.Context(), "bob", d.ID.String()); !fault.HasCode(err, "document_not_found") {
		t.Error(err)
	}
	if text, err := w.Text(t.Context(), "bob", d.ID); err != nil || len(text.Parts) != 0 {
		t.Errorf("%+v %v", text, err)
	}
	// Each owner's words are in a table that only searches of that owner read: it can be missing.
	ann, err := number(w.index.conn, "SELECT id FROM space WHERE name = 'user:ann'")
	if err != nil || ann == 0 {
		t.Fatal(ann, err)
	}
	if err := exec(w.index.conn, fmt.Sprintf("DROP TABLE fts_%d", ann)); err != nil {
		t.Fatal(err)
	}
	w.finds("bob", "walrus", "a.md:1")
	if _, err := w.Search(t.Context(), "ann", "walrus", 5); err == nil {
		t.Error("the table of the owner was not read")
	}
}

// stored reports which files of the data folder contain a text, in any case.
func (w *world) stored(text string) (in []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(b), []byte(text)) {
			in = append(in, d.Name())
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

func TestRemovalForgetsCompletely(t *testing.T) {
	w := newWorld(t)
	var filler strings.Builder
	for i := range 300 {
		fmt.Fprintf(&filler, "Paragraph %d about harbour%d and lighthouse%d.\n\n", i, i*7, i*13)
	}
	w.add("ann", "/d/keep.md", filler.String())
	w.add("ann", "/d/old.md", "# Zanzibarquux\n\n"+filler.String()+"The xylophonist hides it.\n")
	if len(w.stored("xylophonist")) == 0 {
		t.Fatal("the text is not stored as it is: the search below proves nothing")
	}
	w.finds("ann", "xylophonist", "old.md:603")
	w.add("ann", "/d/old.md", "# Zanzibarquux\n\nSomething else.") // its earlier text goes, too
	w.finds("ann", "xylophonist")
	if in := w.stored("xylophonist"); len(in) > 0 {
		t.Errorf("replaced text is in %q", in)
	}
	if _, err := w.Remove(t.Context(), "ann", "old.md"); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"zanzibarquux", "xylophon", "something else", "old.md"} {
		if in := w.stored(word); len(in) > 0 {
			t.Errorf("%q is in %q", word, in)
		}
	}
	w.finds("ann", "zanzibarquux")
	if got := w.cites("ann", "harbour7"); len(got) != 1 {
		t.Errorf("the other document is found at %q", got)
	}
	if _, err := w.Remove(t.Context(), "ann", "old.md"); !fault.HasCode(err, "document_not_found") {
		t.Error(err)
	}
}

func TestWhatOthersEraseIsForgotten(t *testing.T) {
	w := newWorld(t)
	if err := w.Forgotten(t.Context()); err != nil { // there is no index yet
		t.Fatal(err)
	}
	d := w.add("xaverius", "/d/a.md", "A walrus.")
	w.add("bob", "/d/a.md", "An otter.")
	w.finds("xaverius", "walrus", "a.md:1")
	w.finds("bob", "otter", "a.md:1")
	for _, u := range []resource.URI{record.DocumentTextURI(d.ID), d.URI()} { // as when a user is deleted
		if err := w.commit(t.Context(), "xaverius", store.Change{Op: store.Erase, URI: u}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Forgotten(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in := w.stored("walrus"); len(in) > 0 {
		t.Errorf("the text is in %q", in)
	}
	if in := w.stored("xaverius"); slices.ContainsFunc(in, func(name string) bool { return strings.HasPrefix(name, "documents.db") }) {
		t.Errorf("the name of the owner is in %q", in)
	}
	w.finds("bob", "otter", "a.md:1")
	w.finds("xaverius", "walrus")
}

// The index is made again from the store, whatever has become of its file.
func TestIndexIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.add("ann", "/d/a.md", "A walrus.")
	w.finds("ann", "walrus", "a.md:1")
	path := filepath.Join(w.dir, "documents.db")
	for name, harm := range map[string]func() error{
		"removed": func() error { return os.Remove(path) },
		"damaged": func() error { return os.WriteFile(path, bytes.Repeat([]byte("no database"), 1000), 0o600) },
		"behind":  func() error { return nil },
	} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		w.open(w.opt.Reader)
		if name == "behind" { // a document is stored, and the process dies before it is indexed
			w.add("ann", "/d/b.md", "Another walrus beside it.")
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			w.open(w.opt.Reader)
			w.finds("ann", "beside", "b.md:1")
			continue
		}
		if got := w.cites("ann", "walrus"); !slices.Contains(got, "a.md:1") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Search(t.Context(), "ann", "walrus", 5); !fault.HasCode(err, "search_closed") {
		t.Error(err)
	}
	w.open(w.opt.Reader)
}

func TestPassagesFitTheBudget(t *testing.T) {
	w := newWorld(t)
	w.add("ann", "/d/a.md", "# One\n\nThe walrus "+strings.Repeat("swims far ", 100)+"\n\n# Two\n\nThe walrus sleeps.\n\n# Three\n\nA walrus eats.\n")
	for _, budget := range []int{0, 50, 100, 200, 1000, 5000} {
		p, err := w.Passages(t.Context(), "ann", "walrus", budget)
		if err != nil || len(p.Text) > budget {
			t.Errorf("%d: %d bytes, %v", budget, len(p.Text), err)
		}
		if (p.Text == "") != (len(p.Hits) == 0) {
			t.Errorf("%d: %d hits for %q", budget, len(p.Hits), p.Text)
		}
	}
	p, err := w.Passages(t.Context(), "ann", "walrus", 5000)
	if err != nil || len(p.Hits) != 3 {
		t.Errorf("%+v %v", p, err)
	}
	if p, err = w.Passages(t.Context(), "ann", "…", 5000); err != nil || p.Text != "" {
		t.Errorf("%+v %v", p, err)
	}
	if p, err = w.Passages(t.Context(), "ann", "walrus "+strings.Repeat("ö", maxQuery), 5000); err != nil || len(p.Hits) != 3 {
		t.Errorf("%+v %v", p, err)
	}
}

func TestWatchedFolders(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, Folder{Path: dir, User: "ann"})
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Hour)
		if err := os.Chtimes(path, w.now, w.now); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Minute)
	}
	scan := func() {
		t.Helper()
		if err := w.Scan(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside.md")
	if err := os.WriteFile(outside, []byte("A walrus outside."), 0o600); err != nil {
		t.Fatal(err)
	}
	write("a.md", "A walrus.")
	write("below/b.txt", "Another walrus swims.")
	write(".hidden/c.md", "A hidden walrus.")
	write("d.bin", "A binary walrus.")
	write("e.pdf", "%PDF-1.4 broken")
	if err := os.Symlink(outside, filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	scan()
	w.finds("ann", "walrus", "a.md:1", "b.txt:1")
	if got := w.Folders("ann"); len(got) != 1 || got[0].Found != 3 || got[0].Read != 2 || got[0].Refused != 1 {
		t.Errorf("%+v", got)
	}
	if len(w.Folders("bob")) != 0 {
		t.Error("another user sees the folder")
	}
	// What has not changed is not read again: the reader fails from now on.
	reader := w.opt.Reader
	w.unreadable()
	scan()
	write("a.md", "A walrus.") // the same, with another time
	scan()
	w.finds("ann", "walrus", "a.md:1", "b.txt:1")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(reader, w.opt.Folders...)

	write("a.md", "An otter.")
	w.now = w.now.Add(-time.Minute) // it has just been written: the next look reads it
	scan()
	w.finds("ann", "otter")
	w.now = w.now.Add(time.Minute)
	scan()
	w.finds("ann", "otter", "a.md:1")
	if _, err := w.Remove(t.Context(), "ann", "a.md"); !fault.HasCode(err, "document_watched") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "below/b.txt")); err != nil {
		t.Fatal(err)
	}
	scan()
	w.finds("ann", "walrus")
	if in := w.stored("walrus"); len(in) > 0 {
		t.Errorf("what is gone is in %q", in)
	}
	// A folder that is absent as a whole is left as it is.
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := w.Scan(t.Context(), 0); !fault.HasCode(err, "folder_unreadable") {
		t.Error(err)
	}
	w.finds("ann", "otter", "a.md:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Watch(ctx) // ends with its context
	w.WatchOf(ctx, "ann")
	w.WatchOf(t.Context(), "bob") // has no folder
}

// pdfOf returns a PDF with a line of text on each page (ISO 32000-1, 7.5).
func pdfOf(pages ...string) []byte {
	var b bytes.Buffer
	var offsets []int
	obj := func(format string, args ...any) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n", len(offsets))
		fmt.Fprintf(&b, format, args...)
		b.WriteString("\nendobj\n")
	}
	b.WriteString("%PDF-1.4\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	obj("<</Type/Catalog/Pages 2 0 R>>")
	obj("<</Type/Pages/Kids[%s]/Count %d>>", strings.Join(kids, " "), len(pages))
	obj("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
	for i, p := range pages {
		c := fmt.Sprintf("BT /F1 12 Tf 72 720 Td (%s) Tj ET", p)
		obj("<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>", 5+2*i)
		obj("<</Length %d>>\nstream\n%s\nendstream", len(c), c)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer <</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF", len(offsets)+1, xref)
	return b.Bytes()
}

// docx returns a Word file with a body (ECMA-376, part 1, section 17).
func docx(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("word/document.xml")
	if err == nil {
		_, err = f.Write([]byte(`<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>` + body + `</w:body></w:document>`))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWhatBelongsToADocumentIsCommittedWithIt: neither exists without the other, whenever a crash comes.
func TestWhatBelongsToADocumentIsCommittedWithIt(t *testing.T) {
	w := newWorld(t)
	beside := resource.Root("memory.Graph", "beside")
	refuse := false
	w.opt.With = func(_ context.Context, d *record.Document, data []byte) ([]store.Change, error) {
		if refuse {
			return nil, fault.New(fault.Unavailable, "refused", "refused")
		}
		d.Triples = len(data)
		if data == nil {
			return []store.Change{{Op: store.Erase, URI: beside}}, nil
		}
		return []store.Change{{URI: beside, Body: []byte("{}")}}, nil
	}
	d := w.add("ann", "/d/a.ttl", "one")
	if d.Triples != 3 {
		t.Errorf("%+v", d)
	}
	versions := func() (v [2]uint64) {
		for i, u := range []resource.URI{d.URI(), beside} {
			if r, err := w.st.Get(t.Context(), store.ForUser("ann"), u); err == nil {
				v[i] = r.Version
			}
		}
		return v
	}
	before := versions()
	refuse = true
	if _, err := w.Add(t.Context(), "ann", File{Path: "/d/a.ttl", Data: []byte("two")}); !fault.HasCode(err, "refused") {
		t.Error(err)
	}
	if _, err := w.Remove(t.Context(), "ann", "a.ttl"); !fault.HasCode(err, "refused") {
		t.Error(err)
	}
	if after := versions(); after != before {
		t.Errorf("versions %v, before %v", after, before)
	}
	refuse = false
	if d := w.add("ann", "/d/a.ttl", "three"); d.Triples != 5 {
		t.Errorf("%+v", d)
	}
	if _, err := w.Remove(t.Context(), "ann", "a.ttl"); err != nil {
		t.Fatal(err)
	}
	if after := versions(); after != [2]uint64{} {
		t.Errorf("something is left: %v", after)
	}
}
