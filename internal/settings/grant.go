package settings

import (
	"maps"
	"slices"
	"strings"

	"steward/internal/strict"
)

// Grant adds a folder to the folders of a settings file. If the file has its path already, the folder
// may be written to from now on. It keeps everything else, and fails as Edit does.
func Grant(path string, f Folder) error {
	return rewrite(path, func(text []byte) ([]byte, string, error) {
		out, err := granted(text, f)
		return out, "folders:\n" + entry(f, "  "), err
	})
}

// entry writes a folder as an item of a list.
func entry(f Folder, indent string) string {
	s := indent + "- name: " + f.Name + "\n" + indent + "  path: " + quoted(f.Path) + "\n"
	if f.Write {
		s += indent + "  write: true\n"
	}
	return s
}

// granted makes the change in the text of a file. The expected file is computed from its nodes,
// and compared.
func granted(text []byte, f Folder) ([]byte, error) {
	root, err := parsed(text)
	if err != nil {
		return nil, err
	}
	if root == nil || root.Kind == strict.Null {
		root = &strict.Node{Kind: strict.Map}
	}
	wrote := strict.Field{Key: "write", Value: &strict.Node{Kind: strict.Bool, Text: "true"}}
	item := &strict.Node{Kind: strict.Map, Fields: []strict.Field{
		{Key: "name", Value: &strict.Node{Kind: strict.Text, Text: f.Name}}, {Key: "path", Value: &strict.Node{Kind: strict.Text, Text: f.Path}}}}
	if f.Write {
		item.Fields = append(item.Fields, wrote)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] != "" {
		lines[last] += "\n"
	}
	field := member(root, "folders")
	switch {
	case field == nil:
		root.Fields = append(root.Fields, strict.Field{Key: "folders", Value: &strict.Node{Kind: strict.List, List: []*strict.Node{item}}})
		lines = append(lines, "folders:\n"+entry(f, "  "))
	case field.Value.Kind == strict.Null:
		*field.Value = strict.Node{Kind: strict.List, List: []*strict.Node{item}}
		lines[field.Line-1] += entry(f, "  ")
	case field.Value.Kind == strict.List:
		list := field.Value
		i := slices.IndexFunc(list.List, func(n *strict.Node) bool { p := n.Get("path"); return p != nil && p.Text == f.Path })
		if i >= 0 {
			old := list.List[i]
			insertBefore(lines, old.Fields[0].Position, "write: true")
			old.Fields = append(old.Fields, wrote)
			break
		}
		if line := lines[list.Line-1]; line[list.Column-1] == '[' {
			text := strings.ReplaceAll(strings.TrimSpace(entry(f, ""))[2:], "\n  ", ", ")
			lines[list.Line-1] = line[:list.Column] + "{" + text + "}, " + line[list.Column:]
		} else {
			lines[field.Line-1] += entry(f, line[:list.Column-1])
		}
		list.List = slices.Insert(list.List, 0, item)
	default:
		return nil, errForm
	}
	out := []byte(strings.Join(lines, ""))
	after, err := parsed(out)
	if err == nil && !maps.Equal(flat(after), flat(root)) {
		err = errForm
	}
	return out, err
}

// insertBefore adds a member before the first one of a map, in the map's own form.
func insertBefore(lines []string, first strict.Position, member string) {
	line, at := lines[first.Line-1], first.Column-1
	sep := "\n" + strings.Repeat(" ", at)
	if strings.HasSuffix(strings.TrimSpace(line[:at]), "{") {
		sep = ", "
	}
	lines[first.Line-1] = line[:at] + member + sep + line[at:]
}
