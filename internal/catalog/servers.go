package catalog

import (
	"errors"
	"io/fs"
	"path/filepath"

	"steward/internal/fault"
	"steward/internal/strict"
)

const maxServers = 1 << 20 // bytes of a file of servers

// servers reads an mcpServers JSON file, which other programs use too. Each entry becomes a source
// of the root level. It returns the problems of the file as a whole.
func (r *reader) servers(file string) []Problem {
	r.dirs[filepath.Dir(file)] = true
	var problems []Problem
	bad := reporter(file, &problems)
	text, err := strict.ReadText(file, maxServers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		bad(strict.Position{}, "file_unreadable", "fix or remove it", "it cannot be read: %v", err)
		return problems
	}
	root := strict.ReadJSON(text, bad)
	list := root.Get("mcpServers")
	if root != nil && list == nil {
		list = root.Get("servers") // VS Code's name for it
	}
	switch {
	case root == nil:
	case list == nil || list.Kind != strict.Map:
		bad(root.Position, "servers_missing", `write {"mcpServers": {"NAME": {"command": "…"}}}`, "there is no mcpServers object in it")
	default:
		for _, f := range list.Fields {
			r.server(file, f, bad)
		}
	}
	return problems
}

// broken lists an unreadable file of servers with its problems, so that it does not look empty.
func (r *reader) broken(file string, problems []Problem) {
	if len(problems) > 0 {
		name := filepath.Base(file)
		r.units = append(r.units, &unit{kind: KindSource, path: "mcp:" + name, name: name, file: file, problems: problems})
	}
}

// isBroken reports whether u stands for an unreadable file of servers.
func (u *unit) isBroken() bool { return u.kind == KindSource && len(u.decls) == 0 }

// server adds the source of an entry.
func (r *reader) server(file string, f strict.Field, bad strict.Report) {
	name, err := sourceName(f.Key)
	if err != nil {
		bad(f.Position, "name_invalid", "rename it", "%s", withoutRemedy(fault.Of(err)))
		return
	}
	if off := f.Value.Get("disabled"); off != nil && off.Text == "true" {
		return
	}
	f.Value.Position = f.Position
	r.source("mcp", name, file, f.Value, f.Value.JSON(), true)
}

// root adds a source that the settings declare.
func (r *reader) root(s RootSource) {
	var problems []Problem
	n := strict.ReadJSON(s.Definition, reporter(s.File, &problems))
	if n == nil {
		n = &strict.Node{}
	}
	n.Position = strict.Position{}
	r.source(s.Kind, s.Name, s.File, n, s.Definition, false)
	u := r.units[len(r.units)-1]
	u.problems = append(u.problems, problems...)
	if why := badName(s.Name); why != "" {
		u.add(strict.Position{}, "name_invalid", nameRemedy, "%q is not a valid source name: %s", strict.Clip(s.Name), why)
	}
}

func (r *reader) source(kind, name, file string, n *strict.Node, definition []byte, lenient bool) {
	u := &unit{kind: KindSource, path: kind + ":" + name, name: name, file: file}
	u.pins = []pin{{name: "declaration", path: file, data: masked(n), hash: hashOf(definition), size: int64(len(definition))}}
	u.decls = []decl{{kind, name, declaration{file: file, node: n, lenient: lenient}}}
	r.units = append(r.units, u)
}
