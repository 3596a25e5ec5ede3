package tool

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Width is a range of calls around one call that a standing approval can be given for. Arguments that
// it does not name stay exactly as they are in that call; if the call does not have them, other calls
// may not have them either.
type Width struct {
	Name   string            // in words, a template as in LogSpec.Summary: "add any task[ to the list {list}]"
	Any    []string          // arguments that may have any value, or none; never recipients or destinations
	Folder []string          // paths that may lead to other files in the same folder
	Host   []string          // addresses that may lead to other pages of the same host
	Like   map[string]string // arguments that may be anything that a glob matches; see intent.Pattern
}

// Widener is an action that knows which widths make sense for a call, where Spec.Widths cannot tell.
type Widener interface {
	Widths(args []byte) []Width
}

// WidthsOf returns the widths that make sense for a call of a tool, the narrowest first: those that the
// tool offers, or else those that its schema and its targets tell.
func WidthsOf(t Tool, args []byte) []Width {
	if w, ok := unwrapped[Widener](t); ok {
		return w.Widths(args)
	}
	s := t.Spec()
	if s.Widths != nil {
		return s.Widths
	}
	if _, divides := DividerOf(t); divides {
		return nil
	}
	return s.derivedWidths(args)
}

// Words in the names of arguments. Words that only say something to people may vary; code may not.
var (
	freeWords = strings.Fields("title subject text body content message note notes description comment summary caption label")
	codeWords = strings.Fields("command commands cmd code script sql query expression program eval shell argv args statement js javascript python")
	pathWords = strings.Fields("path file filename filepath")
)

func hasWord(name string, words []string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' }),
		func(w string) bool { return slices.Contains(words, w) })
}

// derivedWidths returns the widths that the schema and the targets tell: the same call with other words in
// it, in another file of the folder, or to another page of the host. A tool that takes code gets none.
func (s Spec) derivedWidths(args []byte) []Width {
	var given map[string]any
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	if json.Unmarshal(args, &given) != nil || json.Unmarshal(s.Input, &schema) != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(schema.Properties))
	var free, folder, host []string
	for _, name := range names {
		text, isText := given[name].(string)
		switch u, err := url.Parse(text); {
		case hasWord(name, codeWords):
			return nil
		case isText && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
			host = append(host, name)
		case isText && hasWord(name, pathWords) && strings.Contains(text, "/"):
			folder = append(folder, name)
		case schema.Properties[name].Type == "string" && hasWord(name, freeWords) && !slices.Contains(s.Targets, name):
			free = append(free, name)
		}
	}
	var said []string // of the free arguments, those that the call has
	for _, name := range free {
		if _, there := given[name]; there {
			said = append(said, spaced(name))
		}
	}
	var out []Width
	if len(said) > 0 {
		out = append(out, Width{Name: "any " + strings.Join(said, " and "), Any: free})
	}
	if len(folder) > 0 {
		out = append(out, Width{Name: "any file in {" + folder[0] + AsFolder + "}", Any: free, Folder: folder})
	}
	if len(host) > 0 {
		out = append(out, Width{Name: "any page of {" + host[0] + AsHost + "}", Any: free, Host: host})
	}
	return out
}
