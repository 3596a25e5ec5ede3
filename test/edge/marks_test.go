package edge_test

import (
	"strings"
	"testing"

	"steward/test/edge"
)

// Files that people write may begin with a byte order mark, as editors on Windows write it.
func TestFilesWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	n := edge.New(t, edge.Options{Settings: mark + "profile:\n  units: metric\n"})
	n.Write(mark+"---\r\nname: greet\r\ndescription: Greets people: use it in the morning\r\n---\r\nSay hello.\r\n", "greet", "SKILL.md")
	n.Must("skills", "add", "greet", "--yes")
	// Each command reads the settings first.
	if got := n.Must("skills", "list"); !strings.Contains(got, "Greets people: use it in the morning") {
		t.Error(got)
	}
}
