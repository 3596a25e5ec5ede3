package mcp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

// sections are the members under which programs store their servers: the first is used by Claude
// Desktop, Claude Code, Cursor and most others, the second by VS Code.
var sections = [...]string{"mcpServers", "servers"}

func badServers(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "mcp_servers_invalid", "this is no list of MCP servers: "+format, args...).
		WithHint(`write {"mcpServers": {"NAME": {"command": "…", "args": […]}}}`)
}

// distinct refuses a second server whose tools would have the same names.
func distinct(words map[string]string, name string) error {
	word, err := tool.Word(name)
	if err != nil {
		return err
	}
	if other, taken := words[word]; taken {
		return fault.New(fault.Conflict, "mcp_server_conflict", "the tools of %s and of %s would have the same names", other, name)
	}
	words[word] = name
	return nil
}

// member is a member of a JSON object, with its text unchanged.
type member struct {
	name  string
	value jsontext.Value
}

// object is a JSON object whose members keep their order and their text.
type object []member

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *object) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return errors.New("an object is expected")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		*o = append(*o, member{name, value.Clone()})
	}
	_, err := dec.ReadToken()
	return err
}

// MarshalJSONTo implements json.MarshalerTo.
func (o object) MarshalJSONTo(enc *jsontext.Encoder) error {
	err := enc.WriteToken(jsontext.BeginObject)
	for _, m := range o {
		err = errors.Join(err, enc.WriteToken(jsontext.String(m.name)), enc.WriteValue(m.value))
	}
	return errors.Join(err, enc.WriteToken(jsontext.EndObject))
}

// commented matches what people write into JSON although it is not allowed: comments at the
// beginning of a line or after a brace or comma, and commas before a closing brace.
var commented = regexp.MustCompile(`(?m)(^|[{\[,])\s*(//|/\*)|,\s*[}\]]`)

// AddServer adds a server to a file of servers, and creates the file if there is none. Everything
// else in the file stays as it is, except for its indentation. Errors: mcp_server_exists
// (Conflict), mcp_decl_invalid, mcp_servers_invalid; a file with comments is not touched
// (mcp_file_comments).
func AddServer(file, name string, d Decl) error {
	if err := d.check(""); err != nil {
		return err
	}
	if _, err := tool.Word(name); err != nil {
		return err
	}
	entry, err := written(d)
	if err != nil {
		return err
	}
	return edit(file, func(servers object) (object, error) {
		words := map[string]string{}
		for _, m := range servers {
			if m.name == name {
				return nil, fault.New(fault.Conflict, "mcp_server_exists", "%s has a server %s already", file, name).
					WithHint("remove it first, or choose another name")
			}
			_ = distinct(words, m.name) // existing faults must not prevent this
		}
		if err := distinct(words, name); err != nil {
			return nil, err
		}
		return append(servers, member{name, entry}), nil
	})
}

// RemoveServer removes a server from a file of servers (mcp_server_unknown).
func RemoveServer(file, name string) error {
	return edit(file, func(servers object) (object, error) {
		rest := slices.DeleteFunc(slices.Clone(servers), func(m member) bool { return m.name == name })
		if len(rest) == len(servers) {
			return nil, fault.New(fault.NotFound, "mcp_server_unknown", "%s has no server %s", file, name)
		}
		return rest, nil
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
func edit(file string, change func(object) (object, error)) error {
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		b = []byte("{}")
	case err != nil:
		return fault.New(fault.Unavailable, "mcp_file_unreadable", "the file of MCP servers cannot be read: %w", err)
	}
	var top, servers object
	if err := jsonv2.Unmarshal(b, &top); err != nil {
		if commented.Match(b) {
			return fault.New(fault.Unsupported, "mcp_file_comments", "%s has comments or trailing commas, which would be lost", file).
				WithHint("change it by hand")
		}
		return badServers("%s: %w", file, err)
	}
	at := slices.IndexFunc(top, func(m member) bool { return slices.Contains(sections[:], m.name) })
	if at < 0 {
		at = len(top)
		top = append(top, member{sections[0], jsontext.Value("{}")})
	}
	if err := jsonv2.Unmarshal(top[at].value, &servers); err != nil {
		return badServers("%s: %s: %w", file, top[at].name, err)
	}
	if servers, err = change(servers); err != nil {
		return err
	}
	asTheyStand := jsontext.PreserveRawStrings(true)
	if top[at].value, err = jsonv2.Marshal(servers, asTheyStand); err != nil {
		return badServers("%w", err)
	}
	whole, err := jsonv2.Marshal(top, asTheyStand, jsontext.WithIndent("  "))
	if err != nil {
		return badServers("%w", err)
	}
	return replace(file, append(whole, '\n'))
}

// replace writes a file atomically, readable by its owner only.
func replace(file string, b []byte) (err error) {
	if to, e := filepath.EvalSymlinks(file); e == nil {
		file = to // change the target of a link, not the link
	}
	err = os.MkdirAll(filepath.Dir(file), 0o700)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	}
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), file)
		}
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to return
		}
	}
	if err != nil {
		return fault.New(fault.Unavailable, "mcp_file_unwritable", "the file of MCP servers cannot be written: %s", strings.TrimSpace(err.Error()))
	}
	return nil
}

// Declared returns the servers of files, by name. Files and servers that cannot be read are left out: the
// catalog reports them.
func Declared(files ...string) map[string]Decl {
	all := map[string]Decl{}
	for _, file := range files {
		text, err := strict.ReadFile(file, 1<<20)
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
