package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"steward/internal/tools/local"
)

// Limits of an outline.
const (
	maxOutline = 1 << 20 // bytes
	maxDepth   = 600     // of the tree; Chromium itself nests elements 512 deep
	maxName    = 2000    // characters of one line
)

// node is a node of the accessibility tree, as Accessibility.getFullAXTree returns it.
type node struct {
	NodeID, ParentID string
	Ignored          bool
	Role, Name       axValue
	Value            axValue
	Properties       []struct {
		Name  string
		Value axValue
	}
	ChildIDs         []string
	BackendDOMNodeID int
}

// axValue is a value of the tree.
type axValue struct{ Value json.RawMessage }

// text returns a value as text on one line.
func (v axValue) text() string {
	if len(v.Value) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) != nil {
		s = string(v.Value) // a number or a boolean
	}
	return oneLine(s)
}

func oneLine(s string) string { return local.Line(s, maxName) }

// plain are roles without a line of their own.
func plain(role string) bool {
	switch role {
	case "", "none", "generic", "paragraph", "InlineTextBox", "LineBreak", "RootWebArea", "LayoutTable", "LayoutTableRow", "LayoutTableCell", "LabelText", "strong", "emphasis":
		return true
	}
	return false
}

// usable are roles of elements that can be clicked or filled in.
func usable(role string) bool {
	switch role {
	case "link", "button", "textbox", "searchbox", "combobox", "checkbox", "radio", "switch", "slider", "spinbutton", "listbox", "option",
		"menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "DisclosureTriangle", "Date", "DateTime", "InputTime", "ColorWell":
		return true
	}
	return false
}

// outline writes a tree as an indented list: role, name, the element's id in brackets, and its
// state. Text is in quotes on a line of its own.
func outline(nodes []node) string {
	byID := make(map[string]*node, len(nodes))
	for i := range nodes {
		byID[nodes[i].NodeID] = &nodes[i]
	}
	w := writer{nodes: byID, seen: map[string]bool{}}
	for i := range nodes {
		if byID[nodes[i].ParentID] == nil {
			w.node(nodes[i].NodeID, 0, 0, "")
		}
	}
	return w.String()
}

type writer struct {
	strings.Builder
	nodes map[string]*node
	seen  map[string]bool // a tree has each node once; what the browser says need not be one
}

// node writes a node and those below it. above is the name of the nearest line above, which
// often repeats the text below it.
func (w *writer) node(id string, depth, indent int, above string) {
	n := w.nodes[id]
	if n == nil || w.seen[id] || depth > maxDepth || w.Len() > maxOutline {
		return
	}
	w.seen[id] = true
	role, name := n.Role.text(), n.Name.text()
	switch {
	case n.Ignored || plain(role):
	case role == "StaticText":
		if name != "" && !strings.Contains(above, name) {
			fmt.Fprintf(w, "%s%q\n", strings.Repeat("  ", indent), name)
		}
		return
	default:
		w.line(n, role, name, indent)
		indent, above = indent+1, name
	}
	for _, c := range n.ChildIDs {
		w.node(c, depth+1, indent, above)
	}
}

func (w *writer) line(n *node, role, name string, indent int) {
	fmt.Fprintf(w, "%s- %s", strings.Repeat("  ", indent), role)
	if name != "" {
		fmt.Fprintf(w, " %q", name)
	}
	if usable(role) && n.BackendDOMNodeID > 0 {
		fmt.Fprintf(w, " [e%d]", n.BackendDOMNodeID)
	}
	if v := n.Value.text(); v != "" && v != name {
		fmt.Fprintf(w, " value=%q", v)
	}
	for _, p := range n.Properties {
		v := p.Value.text()
		switch {
		case p.Name == "url" && role == "link":
			fmt.Fprintf(w, " %s", v)
		case slices.Contains([]string{"checked", "pressed", "expanded", "selected"}, p.Name):
			fmt.Fprintf(w, " %s=%s", p.Name, v)
		case slices.Contains([]string{"disabled", "required", "invalid"}, p.Name) && v == "true":
			fmt.Fprintf(w, " %s", p.Name)
		}
	}
	w.WriteByte('\n')
}
