package content

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"testing"
)

// pdf makes a PDF of one page with a content stream (ISO 32000-1, 7.5). kids replaces its list of pages.
func pdf(content []byte, filter, kids string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, object := range []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[" + kids + "]/Count 1>>",
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R>>",
		fmt.Sprintf("<</Length %d %s>>\nstream\n%s\nendstream", len(content), filter, content)} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer <</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF", len(at)+1, xref)
	return b.Bytes()
}

// words makes a PDF that says a text.
func words(text string) []byte {
	return pdf(fmt.Appendf(nil, "BT /F1 12 Tf 72 720 Td (%s) Tj ET", text), "", "4 0 R")
}

// docx makes a Word file whose body is r.
func docx(t testing.TB, r io.Reader) []byte {
	const ns = `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>`
	return zipped(t, "word/document.xml", io.MultiReader(strings.NewReader(ns), r, strings.NewReader("</w:body></w:document>")))
}

func zipped(t testing.TB, name string, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create(name)
	if err == nil {
		_, err = io.Copy(f, r)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// repeated is n bytes of a text again and again.
func repeated(text string, n int64) io.Reader { return io.LimitReader(&again{text: text}, n) }

type again struct {
	text string
	at   int
}

func (a *again) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], a.text[a.at:])
		n += k
		a.at = (a.at + k) % len(a.text)
	}
	return n, nil
}

// packed is n bytes of a text, compressed.
func packed(t *testing.T, text string, n int64, by func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	z := by(&b)
	if _, err := io.Copy(z, repeated(text, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(w io.Writer) io.WriteCloser  { return gzip.NewWriter(w) }
func deflated(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
