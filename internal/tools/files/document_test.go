package files

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/test/localtest"
	"steward/test/must"
)

func TestReadDocuments(t *testing.T) {
	dir, _ := sandbox(t)
	r := kitOf(t, Options{Folders: []Folder{{Name: "notes", Path: dir}}, Reader: &extract.Reader{}})
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w := must.Get(z.Create("[Content_Types].xml"))
	must.Get(w.Write([]byte(`<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`)))
	w = must.Get(z.Create("word/document.xml"))
	must.Get(w.Write([]byte(`<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>` +
		strings.Repeat("Tulips. ", 5000) + `</w:t></w:r></w:p></w:body></w:document>`)))
	must.Do(t, z.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "garden.docx"), b.Bytes(), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "broken.pdf"), []byte("%PDF-1.7\n broken"), 0o600))
	got := must.Get(localtest.Call(t, r, "files.read", `{"path":"notes/garden.docx"}`))
	if !strings.HasPrefix(got, "notes/garden.docx (docx, ") || !strings.Contains(got, "Tulips. Tulips.") || !strings.Contains(got, "Read on at line 2.") {
		t.Errorf("%.200s", got)
	}
	if got := must.Get(localtest.Call(t, r, "files.read", `{"path":"notes/garden.docx","line":2}`)); !strings.Contains(got, "Tulips.") || strings.Contains(got, "Read on") {
		t.Errorf("%.200s", got)
	}
	if _, err := localtest.Call(t, r, "files.read", `{"path":"notes/garden.docx","line":9}`); !fault.HasCode(err, "line_invalid") {
		t.Error(err)
	}
	if _, err := localtest.Call(t, r, "files.read", `{"path":"notes/broken.pdf"}`); !fault.HasCode(err, "extract_damaged") {
		t.Error(err)
	}
}
