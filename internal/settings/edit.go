package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tools/local"
)

// Change sets one setting in a file.
type Change struct {
	Key   string // such as "models.default"; a part with a dot stands in brackets, as in steward config show
	Value string
	Word  bool // Value is true, false or a number, not a text
	Unset bool // the setting is removed, so that the other sources or the default count
}

// scalar returns the value as it is written.
func (c Change) scalar() string {
	if c.Word {
		return c.Value
	}
	return quoted(c.Value)
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// splitKey returns the parts of a key, which join has joined.
func splitKey(key string) (parts []string) {
	for key != "" {
		var part string
		if inner, ok := strings.CutPrefix(key, "["); ok {
			part, key, _ = strings.Cut(inner, "]")
			key = strings.TrimPrefix(key, ".")
		} else {
			part, key, _ = strings.Cut(key, ".")
		}
		parts = append(parts, part)
	}
	return parts
}

// kind is what YAML reads the value as.
func (c Change) kind() strict.Kind {
	switch {
	case !c.Word:
		return strict.Text
	case c.Value == "true" || c.Value == "false":
		return strict.Bool
	case strings.ContainsAny(c.Value, ".e"):
		return strict.Float
	}
	return strict.Integer
}

// UserFile returns the path of the user's settings file; empty: there is no place for one.
func UserFile(environ []string) string {
	l := &loading{env: environment(environ)}
	l.home = l.env["HOME"]
	if d := l.base("XDG_CONFIG_HOME", ".config"); d != "" {
		return filepath.Join(d, "steward", FileName)
	}
	return ""
}

// Edit makes changes to a settings file, which need not exist. Comments, unknown keys and the
// order of the lines stay as they are. Either all changes are made or none. Error codes:
// settings_unreadable, settings_uneditable (with the lines to write by hand), settings_unwritable.
func Edit(path string, changes ...Change) error {
	return rewrite(path, func(text []byte) ([]byte, string, error) {
		for _, c := range changes {
			var err error
			if text, err = edited(text, c); err != nil {
				return nil, nested(splitKey(c.Key), "", c.scalar()), err
			}
		}
		return text, "", nil
	})
}

// rewrite replaces a file by what change makes of it. If change fails, it returns what a person can
// write by hand.
func rewrite(path string, change func([]byte) (out []byte, byHand string, err error)) error {
	text, err := strict.ReadText(path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Invalid, "settings_unreadable", "%s cannot be read: %w", path, err).WithHint("fix or move the file")
	}
	text, byHand, err := change(text)
	if err != nil {
		return fault.New(fault.Invalid, "settings_uneditable", "%s cannot be changed without rewriting it: %w", path, err).
			WithHint("add to it by hand:\n%s", strings.TrimSpace(byHand))
	}
	if err := local.ReplaceTarget(path, text); err != nil {
		return fault.New(fault.Unavailable, "settings_unwritable", "the settings cannot be written: %w", err).WithHint("let yourself write %s", path)
	}
	return nil
}

var errForm = errors.New("it cannot be edited line by line")

// edited makes one change to the text of a YAML file, line by line. The result is read again: it
// must differ from the text by the change and nothing else.
func edited(text []byte, c Change) ([]byte, error) {
	root, err := parsed(text)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	parts := splitKey(c.Key)
	var parent *strict.Field // the innermost section of the key that the file has
	at := root
	for len(parts) > 0 {
		f := member(at, parts[0])
		if f == nil {
			break
		}
		parent, at, parts = f, f.Value, parts[1:]
	}
	switch {
	case c.Unset && len(parts) > 0:
		return text, nil // it is not there
	case c.Unset && at.Line == parent.Line && !at.Block && at.Kind != strict.Map:
		lines[at.Line-1] = ""
	case c.Unset:
		err = errors.New("the setting takes several lines")
	case len(parts) == 0 && at.Kind != strict.Map && at.Kind != strict.List && !at.Block:
		err = replaceScalar(lines, at.Position, c.scalar())
	case len(parts) == 0:
		err = errors.New("the setting has several values")
	case parent == nil: // a new section, at the end
		if n := len(lines) - 1; lines[n] != "" {
			lines[n] += "\n"
		}
		lines = append(lines, nested(parts, "", c.scalar()))
	default: // the first line of a section
		indent := strings.Repeat(" ", parent.Column+1)
		if at.Kind == strict.Map && len(at.Fields) > 0 {
			indent = strings.Repeat(" ", at.Fields[0].Column-1)
		}
		i := parent.Line - 1
		if !strings.HasSuffix(lines[i], "\n") {
			lines[i] += "\n"
		}
		lines[i] += nested(parts, indent, c.scalar())
	}
	if err != nil {
		return nil, err
	}
	out := []byte(strings.Join(lines, ""))
	after, err := parsed(out)
	if err != nil {
		return nil, err
	}
	if got, want := flat(after), flat(root); !changed(want, got, c) {
		return nil, errForm
	}
	return out, nil
}

func parsed(text []byte) (*strict.Node, error) {
	var err error
	n := strict.ReadYAML(text, func(p strict.Position, _, _, format string, args ...any) {
		err = errors.Join(err, fmt.Errorf("line %d: %s", p.Line, fmt.Sprintf(format, args...)))
	})
	if n != nil && n.Kind != strict.Map && n.Kind != strict.Null {
		err = errors.Join(err, errors.New("the file is not a mapping of settings"))
	}
	return n, err
}

func member(n *strict.Node, key string) *strict.Field {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return &n.Fields[i]
		}
	}
	return nil
}

var plainScalar = regexp.MustCompile(`^[A-Za-z~/][A-Za-z0-9_./~:-]*[A-Za-z0-9_/]$`)

// quoted writes a text as a YAML scalar. A value that YAML could read as something else is quoted as in JSON, which
// YAML understands.
func quoted(text string) string {
	if plainScalar.MatchString(text) && strings.ContainsAny(text, "/:") {
		return text
	}
	b, _ := json.Marshal(text) // a string always can be
	return string(b)
}

// nested writes a key and its value, each part of the key in a line of its own.
func nested(parts []string, indent, value string) string {
	var b strings.Builder
	for i, p := range parts {
		if !plainKey.MatchString(p) {
			p = quoted(p)
		}
		b.WriteString(indent + strings.Repeat("  ", i) + p + ":")
		if i == len(parts)-1 {
			b.WriteString(" " + value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// replaceScalar replaces the value that begins at a position, and keeps the comment behind it.
func replaceScalar(lines []string, at strict.Position, value string) error {
	line := lines[at.Line-1]
	if at.Column > len(line) {
		return errors.New("its value is not at the expected position")
	}
	head, tail := line[:at.Column-1], line[at.Column-1:]
	rest := tail[len(strings.TrimRight(tail, "\r\n")):]
	if i := strings.Index(tail, " #"); i >= 0 {
		rest = tail[i:]
	}
	lines[at.Line-1] = head + value + rest
	return nil
}

// flat returns the values of a file by their paths.
func flat(n *strict.Node) map[string]string {
	out := map[string]string{}
	var walk func(n *strict.Node, path string)
	walk = func(n *strict.Node, path string) {
		if n == nil {
			return
		}
		switch n.Kind {
		case strict.Map:
			for _, f := range n.Fields {
				walk(f.Value, path+"."+f.Key)
			}
		case strict.List:
			for i, e := range n.List {
				walk(e, fmt.Sprintf("%s[%d]", path, i))
			}
		case strict.Null: // an empty section says nothing
		default:
			out[path] = fmt.Sprint(n.Kind, n.Text)
		}
	}
	walk(n, "")
	return out
}

// changed reports whether a file has become what a change makes of it.
func changed(before, after map[string]string, c Change) bool {
	if c.Unset {
		delete(before, "."+strings.Join(splitKey(c.Key), "."))
	} else {
		before["."+strings.Join(splitKey(c.Key), ".")] = fmt.Sprint(c.kind(), c.Value)
	}
	if len(before) != len(after) {
		return false
	}
	for k, v := range before {
		if after[k] != v {
			return false
		}
	}
	return true
}
