package cli

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wordFile is a DOCX file with one paragraph.
func wordFile(t *testing.T, text string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("word/document.xml")
	if err == nil {
		_, err = fmt.Fprintf(w, `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body></w:document>`, text)
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAskAboutAWordFile(t *testing.T) {
	v := newVendor(t)
	env := v.env(t)
	file := filepath.Join(t.TempDir(), "letter.docx")
	if err := os.WriteFile(file, wordFile(t, "The rent is 700 pounds."), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := buildProgram(t, env, "ask", "-q", "--file", file, "what is the rent?")
	cmd.Stdin = strings.NewReader("")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "The rent is 700 pounds.") || !strings.Contains(string(out), "letter.docx") {
		t.Errorf("%v %s", err, out)
	}
	if err := os.WriteFile(file, []byte("PK\x03\x04 broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = buildProgram(t, env, "ask", "-q", "--file", file, "what is the rent?")
	cmd.Stdin = strings.NewReader("")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "letter.docx cannot be attached") {
		t.Errorf("%v %s", err, out)
	}
}
