package tidy_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the document anew")

const document = "../../docs/concepts/messages.md"

// inDocument compares the text between the markers of a part of the document
// with want, or writes it.
func inDocument(t *testing.T, part, want string) {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part %s", document, part)
	}
	if got == want {
		return
	}
	if !*update {
		t.Errorf("the part %s of %s is\n%s\nand should be\n%s\nIf that is right: go test ./test/tidy -update", part, document, got, want)
		return
	}
	if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// snippet returns the text between the markers of a part of a source file.
func snippet(t *testing.T, file, part string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "// begin "+part+"\n")
	code, _, ok2 := strings.Cut(rest, "// end "+part+"\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no part %s", file, part)
	}
	return "```go\n" + strings.TrimSpace(code) + "\n```\n"
}
