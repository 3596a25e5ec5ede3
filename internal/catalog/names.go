package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

const (
	nameRemedy = "use a-z, 0-9 and single '_', beginning with a letter"
	maxName    = 40 // bytes: NAME.ask and NAME.tool must fit where providers take 64
)

var goodName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// badName says what is wrong with the name of an agent or a source, or returns "".
func badName(name string) string {
	for _, r := range name {
		switch {
		case r > unicode.MaxASCII:
			return fmt.Sprintf("it contains U+%04X, which looks like another letter", r)
		case r >= 'A' && r <= 'Z':
			return "it contains an upper-case letter"
		}
	}
	switch {
	case len(name) > maxName:
		return fmt.Sprintf("it has more than %d characters", maxName)
	case !goodName.MatchString(name):
		return "only a-z, 0-9 and single underscores are allowed"
	}
	return ""
}

// matchesFolder reports whether an agent's name matches that of its folder.
func matchesFolder(name, folder string) bool { return folder == name || folder == name+"_agent" }

// reservedNames are reserved names: Steward uses them itself. For example, the private folders of an
// agent's sources are in a folder sources, beside those of the agents below it.
var reservedNames = []string{"conversation", "result", "skill", "sources", "steward"}

// nameConflict says why a name cannot be used on a level, or returns "". tools are the names of the node's
// own tools.
func nameConflict(name string, tools []string) string {
	for _, t := range tools {
		if category, _, _ := strings.Cut(t, "."); category == name {
			return fmt.Sprintf("it is the name of Steward's own tools, such as %s", t)
		}
	}
	if slices.Contains(reservedNames, name) {
		return "it is reserved"
	}
	return ""
}

// skeleton maps names that look alike to the same text.
func skeleton(name string) string {
	return strings.NewReplacer("rn", "m", "vv", "w", "cl", "d", "0", "o", "1", "l", "i", "l", "5", "s", "_", "").Replace(name)
}

// looksAlike reports whether two different names can be mistaken for each other.
func looksAlike(a, b string) bool {
	if a == b {
		return false
	}
	if skeleton(a) == skeleton(b) {
		return true
	}
	return min(len(a), len(b)) >= 5 && fault.Distance(a, b) == 1
}

// SourcePath returns the path under which a source is listed, such as "mcp:brave_search" (error:
// Invalid, name_invalid).
func SourcePath(kind, name string) (string, error) {
	word, err := sourceName(name)
	return kind + ":" + word, err
}

// sourceName converts the name of a server from another program's file.
func sourceName(name string) (string, error) {
	word, err := tool.Word(name)
	if err != nil {
		word = name // badName reports what is wrong with it
	}
	if why := badName(word); why != "" {
		return "", fault.New(fault.Invalid, "name_invalid", "%q cannot be the name of a source: %s", strict.Clip(visible(name)), why).WithHint(nameRemedy)
	}
	return word, err
}
