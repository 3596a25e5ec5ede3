package steward_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureIsTrue: each file that ARCHITECTURE.md names is there, each
// package stands among its rooms, and there are no more rooms than a reader
// can know. A family, which is a folder with those below it, is one room.
func TestArchitectureIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:internal/)?[a-z/]+\\.go)`").FindAllSubmatch(text, -1) {
		file := string(m[1])
		if !strings.HasPrefix(file, "cmd/") {
			file = "internal/" + strings.TrimPrefix(file, "internal/")
		}
		if _, err := os.Stat(file); err != nil && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
	_, table, _ := strings.Cut(string(text), "## Rooms")
	rooms, listed := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [0-9] \| (.*?) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			front, members, family := strings.Cut(strings.TrimSuffix(name[1], "}"), "{")
			listed[strings.TrimSuffix(front, "/")] = true
			for _, member := range strings.Split(members, ", ") {
				if family {
					listed[front+member] = true
				}
			}
			if room, _, nested := strings.Cut(front, "/"); nested && room != "cmd" {
				rooms[room] = true
			} else {
				rooms[front] = true
			}
		}
	}
	if len(rooms) > 46 {
		t.Errorf("%d rooms: at most 46", len(rooms))
	}
	for name := range floors() {
		name = strings.TrimPrefix(name, "internal/")
		if !listed[name] && !strings.HasPrefix(name, "proto/") && !strings.HasSuffix(name, "test") {
			t.Errorf("%s is missing among the rooms of ARCHITECTURE.md", name)
		}
	}
}
