package message

import (
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// labelNames holds the text forms in bit order.
var labelNames = [...]string{"private", "untrusted", "secret"}

// AllLabels is the set of every known label.
const AllLabels = Private | Untrusted | Secret

// Names returns the labels' names in a fixed order. An unknown bit is shown as
// "bitN", which ParseLabel refuses, so that a label is never dropped silently.
func (l Labels) Names() []string {
	var out []string
	for i := range 8 {
		if l&(1<<i) != 0 {
			out = append(out, labelName(i))
		}
	}
	return out
}

// String returns the names joined by commas, "" for the empty set.
func (l Labels) String() string { return strings.Join(l.Names(), ",") }

// Has reports whether all labels of m are in l.
func (l Labels) Has(m Labels) bool { return l&m == m }

func labelName(bit int) string {
	if bit < len(labelNames) {
		return labelNames[bit]
	}
	return "bit" + strconv.Itoa(bit)
}

// ParseLabel parses the name of one label. Error code: message_label_unknown.
func ParseLabel(name string) (Labels, error) {
	for i, n := range labelNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fault.New(fault.Invalid, "message_label_unknown", "unknown label %.40q", name).
		WithHint("use %s", strings.Join(labelNames[:], ", "))
}

// ParseLabels parses the output of String. Spaces around the names are allowed.
func ParseLabels(s string) (Labels, error) {
	if strings.TrimSpace(s) == "" {
		return 0, nil
	}
	var l Labels
	for name := range strings.SplitSeq(s, ",") {
		one, err := ParseLabel(strings.TrimSpace(name))
		if err != nil {
			return 0, err
		}
		l |= one
	}
	return l, nil
}

// Sources of private data that are no tools.
const (
	UnknownSource = "?"      // it may be anybody's
	SourceMemory  = "memory" // what the person has said, in whatever conversation
)

// SourcesOf returns the sorted sources of the private data that blocks may hold.
func SourcesOf(blocks []Block) []string {
	var out []string
	for _, b := range blocks {
		l := b.Base().Labels
		if r, ok := b.(*ToolResult); ok {
			l |= LabelsOf(r.Content)
		}
		switch list := b.Base().Sources; {
		case !l.Has(Private):
		case len(list) == 0:
			out = JoinSources(out, []string{UnknownSource})
		default:
			out = JoinSources(out, list)
		}
	}
	return out
}

// JoinSources returns the union of two lists of sources.
func JoinSources(x, y []string) []string {
	for _, s := range y {
		if i, found := slices.BinarySearch(x, s); !found {
			x = slices.Insert(slices.Clip(x), i, s)
		}
	}
	return x
}
