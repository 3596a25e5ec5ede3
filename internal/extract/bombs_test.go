//go:build long

package extract

import (
	"bytes"
	"compress/zlib"
	"io"
	"testing"

	"steward/internal/fault"
)

// Hostile documents end soon, within the limits, and take nothing down.
func TestHostileDocuments(t *testing.T) {
	r := outside(t)
	for name, in := range map[string]Input{
		"deep HTML":       {Data: bytes.Repeat([]byte("<div>"), MaxBytes/5), MediaType: "text/html"},
		"many elements":   {Data: bytes.Repeat([]byte("<b>a</b>\n"), MaxBytes/9), MediaType: "text/html"},
		"many attributes": {Data: append(append([]byte("<p "), bytes.Repeat([]byte("a=b "), MaxBytes/4-10)...), '>'), MediaType: "text/html"},
		"open formatting": {Data: bytes.Repeat([]byte("<a><b><i><u><font>"), MaxBytes/18), MediaType: "text/html"},
		"tables":          {Data: bytes.Repeat([]byte("<table><tr><td>"), MaxBytes/15), MediaType: "text/html"},
		"lists":           {Data: bytes.Repeat([]byte("<ul><li>"), MaxBytes/8), MediaType: "text/html"},
		"bomb in a DOCX":  {Data: zipped(t, "word/document.xml", append([]byte(`<w:document xmlns:w="w"><w:p><w:r><w:t>`), bytes.Repeat([]byte("a"), 200<<20)...))},
		"bomb in a PDF":   {Data: pdfWith(deflated(200<<20), "/Filter /FlateDecode")},
		"PDF of loops":    {Data: []byte("%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[2 0 R]/Count 999999999/Parent 2 0 R>> endobj\ntrailer <</Root 1 0 R>>\nstartxref\n0\n%%EOF")},
		"deep PDF":        {Data: append([]byte("%PDF-1.4\n1 0 obj "), bytes.Repeat([]byte("["), 5<<20)...)},
		"XML entities":    {Data: []byte(`<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><rss version="2.0"><channel><title>&b;</title></channel></rss>`), MediaType: "application/rss+xml"},
		"a long word":     {Data: bytes.Repeat([]byte("a"), MaxBytes), MediaType: "text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := r.Read(t.Context(), in)
			if err != nil && fault.Of(err).Code != "extract_damaged" && fault.Of(err).Code != "extract_timeout" && fault.Of(err).Code != "extract_unsupported" {
				t.Error(err)
			}
			if len(d.Text) > MaxText || len(d.Links) > MaxLinks {
				t.Errorf("%d bytes of text, %d links", len(d.Text), len(d.Links))
			}
		})
	}
}

func deflated(n int) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.CopyN(w, endless{}, int64(n)) //nolint:errcheck // into memory
	w.Close()                        //nolint:errcheck // into memory
	return b.Bytes()
}

// endless is text operators without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "(a) Tj "[i%7]
	}
	return len(p), nil
}
