package mcp

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// Known is a server that can be added by its name alone.
type Known struct {
	Name    string            `json:"name"`
	Title   string            `json:"title"`  // what its tools reach
	Folder  bool              `json:"folder"` // {folder} in its arguments stands for a folder of the user's
	Decl    Decl              `json:"decl"`
	Secrets map[string]string `json:"secrets"` // by name: what it is and where to get it
	Source  string            `json:"source"`
	Date    string            `json:"date"` // when the source was read
}

//go:embed known.json
var knownFile []byte // read only

// KnownServers returns the servers that can be added by name.
func KnownServers() []Known {
	var list []Known
	if err := json.Unmarshal(knownFile, &list); err != nil {
		panic(err) // a test reads it
	}
	return list
}

// KnownServer returns a server by its name, with '-' for '_' if the user prefers that.
func KnownServer(name string) (Known, bool) {
	list := KnownServers()
	i := slices.IndexFunc(list, func(k Known) bool { return k.Name == strings.ReplaceAll(name, "-", "_") })
	if i < 0 {
		return Known{}, false
	}
	return list[i], true
}

// In returns the declaration for a folder.
func (k Known) In(folder string) Decl {
	d := k.Decl
	d.Args = slices.Clone(d.Args)
	for i := range d.Args {
		d.Args[i] = strings.ReplaceAll(d.Args[i], "{folder}", folder)
	}
	return d
}
