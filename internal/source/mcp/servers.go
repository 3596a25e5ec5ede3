package mcp

import (
	"errors"
	"io/fs"
	"os"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// sections are the members under which programs store their servers: the first is used by Claude
// Desktop, Claude Code, Cursor and most others, the second by VS Code.
var sections = [...]string{"mcpServers", "servers"}

func badServers(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "mcp_servers_invalid", "this is not a list of MCP servers: "+format, args...).
		WithHint(`write {"mcpServers": {"NAME": {"command": "…", "args": […]}}}; files with comments cannot be edited by commands`)
}

// AddServer adds a server to a file of servers, and creates the file if there is none. Everything
// else in the file stays as it is, except for its indentation and order. Errors: mcp_server_exists and
// mcp_server_conflict (Conflict), mcp_decl_invalid, mcp_servers_invalid, also for a file with comments,
// which would be lost.
func AddServer(file, name string, d Decl) error {
	if err := d.check(""); err != nil {
		return err
	}
	word, err := tool.Word(name)
	if err != nil {
		return err
	}
	entry, err := written(d)
	if err != nil {
		return err
	}
	return edit(file, func(servers map[string]jsontext.Value) error {
		if servers[name] != nil {
			return fault.New(fault.Conflict, "mcp_server_exists", "%s already has a server %s", file, name).
				WithHint("remove it first, or choose another name")
		}
		for other := range servers {
			if w, err := tool.Word(other); err == nil && w == word {
				return fault.New(fault.Conflict, "mcp_server_conflict", "the tools of %s and of %s would have the same names", other, name)
			}
		}
		servers[name] = entry
		return nil
	})
}

// RemoveServer removes a server from a file of servers (mcp_server_unknown).
func RemoveServer(file, name string) error {
	return edit(file, func(servers map[string]jsontext.Value) error {
		if servers[name] == nil {
			return fault.New(fault.NotFound, "mcp_server_unknown", "%s has no server %s", file, name)
		}
		delete(servers, name)
		return nil
	})
}

// written returns a declaration in the form of a file, with durations as people write them.
func written(d Decl) (jsontext.Value, error) {
	durations := jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
		return enc.WriteToken(jsontext.String(d.String()))
	}))
	b, err := jsonv2.Marshal(d, durations, jsonv2.Deterministic(true))
	if err != nil {
		return nil, badDecl("it cannot be written: %w", err)
	}
	return b, nil
}

// edit changes the servers of a file.
func edit(file string, change func(map[string]jsontext.Value) error) error {
	b, err := os.ReadFile(file)
	switch b = strict.Unmarked(b); {
	case errors.Is(err, fs.ErrNotExist):
		b = []byte("{}")
	case err != nil:
		return fault.New(fault.Unavailable, "mcp_file_unreadable", "the file of MCP servers cannot be read: %w", err)
	}
	top, servers := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if err := jsonv2.Unmarshal(b, &top); err != nil || top == nil {
		return badServers("%s: %w", file, err)
	}
	section := sections[0]
	if top[section] == nil && top[sections[1]] != nil {
		section = sections[1]
	}
	if old := top[section]; old != nil {
		if err := jsonv2.Unmarshal(old, &servers); err != nil || servers == nil {
			return badServers("%s: %s: %w", file, section, err)
		}
	}
	if err := change(servers); err != nil {
		return err
	}
	asTheyStand := jsonv2.JoinOptions(jsontext.PreserveRawStrings(true), jsonv2.Deterministic(true))
	if top[section], err = jsonv2.Marshal(servers, asTheyStand); err != nil {
		return badServers("%w", err)
	}
	whole, err := jsonv2.Marshal(top, asTheyStand, jsontext.WithIndent("  "))
	if err != nil {
		return badServers("%w", err)
	}
	if err := local.ReplaceTarget(file, append(whole, '\n')); err != nil {
		return fault.New(fault.Unavailable, "mcp_file_unwritable", "the file of MCP servers cannot be written: %w", err)
	}
	return nil
}

// Declared returns the servers of files, by name. Files and servers that cannot be read are left out: the
// catalog reports them.
func Declared(files ...string) map[string]Decl {
	all := map[string]Decl{}
	for _, file := range files {
		text, err := strict.ReadText(file, 1<<20)
		if err != nil {
			continue
		}
		bad := false
		note := func(strict.Position, string, string, string, ...any) { bad = true }
		root := strict.ReadJSON(text, note)
		for _, section := range sections {
			list := root.Get(section)
			if list == nil {
				continue
			}
			for _, f := range list.Fields {
				var d Decl
				bad = false
				if (strict.Decoder{Bad: note, Lenient: true}).Decode(f.Value, &d); !bad {
					all[f.Key] = d
				}
			}
			break
		}
	}
	return all
}
