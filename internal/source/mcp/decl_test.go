package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/test/must"
	_ "steward/test/seed"
)

func TestDeclRefused(t *testing.T) {
	for want, d := range map[string]Decl{
		"either a command or a url":        {},
		", not both":                       {Command: "x", URL: "http://x"},
		"SSE":                              {Type: "sse", URL: "http://x/sse"},
		`type is "carrier"`:                {Type: "carrier", Command: "x"},
		"stdio goes with a command":        {Type: "http", Command: "x"},
		"type is stdio: stdio goes":        {Type: "stdio", URL: "http://x"},
		"cannot be negative":               {Command: "x", Timeout: -1},
		"is not a tool pattern":            {Command: "x", Tools: []string{"["}},
		"the effect of a is":               {Command: "x", Overrides: tool.Overrides{Effects: map[string]tool.Effect{"a": "read"}}},
		"empty word":                       {Command: []string{"x", ""}},
		"headers and oauth need a url":     {Command: "x", Headers: map[string]string{"A": "b"}},
		"relative path":                    {Command: "./x"},
		"not a valid environment":          {Command: "x", Env: map[string]string{"A=B": "c"}},
		"sandbox and unsandboxed":          {Command: "x", Sandbox: &Sandbox{}, Unsandboxed: true},
		"not a text or a list":             {Command: 7},
		"need a command; use headers":      {URL: "http://x", Args: []string{"a"}},
		"cannot be sandboxed":              {URL: "http://x", Unsandboxed: true},
		"not a valid header":               {URL: "http://x", Headers: map[string]string{"A B": "c"}},
		"is set by the protocol":           {URL: "http://x", Headers: map[string]string{"mcp-session-id": "c"}},
		"http:// or https://":              {URL: "ftp://x"},
		"it is not a valid URL":            {URL: "http://\x7f"},
		"contains a user name or password": {URL: "http://a:hunter2@x"},
	} {
		_, err := Opener(Options{})(tool.Env{Name: "a"}, func(into any) error { *into.(*Decl) = d; return nil })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v; want %s", err, want)
		}
	}
	broken := errors.New("cannot be read")
	if _, err := Opener(Options{})(tool.Env{Name: "a"}, func(any) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := Opener(Options{})(tool.Env{Name: "ä"}, func(into any) error { *into.(*Decl) = Decl{Command: "x"}; return nil }); !fault.HasCode(err, "tool_name_invalid") {
		t.Error(err)
	}
	s, err := Opener(Options{})(tool.Env{Name: "a"}, func(into any) error { *into.(*Decl) = Decl{Command: "x"}; return nil })
	if err != nil || s.Close() != nil {
		t.Error(err)
	}
}

// Programs of an agent's folder are confined by default, and those of the settings are not.
func TestAllowed(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	for i, c := range []struct {
		env  tool.Env
		d    Decl
		want sandbox.Command
	}{
		{tool.Env{}, Decl{}, sandbox.Command{Unsandboxed: true, Limits: sandbox.Limits{Memory: 16 << 30, CPU: -1, Processes: 4096, Output: 2 * maxMessage, FileSize: 1 << 40, Files: 1024}}},
		{tool.Env{}, Decl{Sandbox: &Sandbox{Network: true, Read: []string{"/srv"}, Limits: sandbox.Limits{CPU: 1, Output: 2}}},
			sandbox.Command{Network: must.Get(egress.Declared(true)), Read: []string{"/srv"}, Limits: sandbox.Limits{CPU: 1, Output: 2}}},
		{tool.Env{Dir: dir, Data: data}, Decl{Sandbox: &Sandbox{Write: []string{"out"}}},
			sandbox.Command{Read: []string{dir}, Write: []string{filepath.Join(dir, "out")}, Data: data, Env: []string{"STEWARD_DATA=" + data}, Limits: sandbox.Limits{CPU: -1, Output: 2 * maxMessage}}},
		{tool.Env{Dir: dir}, Decl{Unsandboxed: true}, sandbox.Command{Unsandboxed: true, Read: []string{dir},
			Limits: sandbox.Limits{Memory: 16 << 30, CPU: -1, Processes: 4096, Output: 2 * maxMessage, FileSize: 1 << 40, Files: 1024}}},
	} {
		c.env.Name, c.d.Command = "a", "x"
		s := must.Get(open(c.env, c.d))
		var got sandbox.Command
		err := (&session{src: s, ctx: t.Context()}).allow(&got)
		got.Name, got.Log = "", nil
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d: %+v, %v\nwant %+v", i, got, err, c.want)
		}
		s.Close()
	}
	s, _ := open(tool.Env{Name: "a", Dir: dir, Data: "/dev/null/x"}, Decl{Command: "./x"})
	defer s.Close()
	if err := (&session{src: s, ctx: t.Context()}).allow(&sandbox.Command{}); !fault.HasCode(err, "sandbox_failed") {
		t.Error(err)
	}
}

func TestEditServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	all := Decl{Command: []string{"a", "b"}, Args: []string{"<&>"}, Env: map[string]string{"A": "b"}, Cwd: "/x", Tools: []string{"t"},
		Overrides: tool.Overrides{Effects: map[string]tool.Effect{"t": tool.Query}}, Timeout: time.Minute, Idle: time.Hour,
		Sandbox: &Sandbox{Network: true, Read: []string{"/r"}, Write: []string{"/w"}, Limits: sandbox.Limits{Memory: 1, CPU: time.Minute, Processes: 2, Output: 3, FileSize: 4, Files: 5}}}
	must.Do(t, AddServer(file, "one", all))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	b, _ := os.ReadFile(file)
	const want = `{"mcpServers": {"one": {"command": ["a", "b"], "args": ["<&>"], "env": {"A": "b"}, "cwd": "/x", "tools": ["t"], "effects": {"t": "query"},
		"timeout": "1m0s", "idle": "1h0m0s", "sandbox": {"network": true, "read": ["/r"], "write": ["/w"],
		"limits": {"memory": 1, "cpu": "1m0s", "processes": 2, "output": 3, "file_size": 4, "files": 5}}}}}`
	if !sameJSON(t, want, string(b)) {
		t.Errorf("%s\nwant %s", b, want)
	}
	for code, err := range map[string]error{
		"mcp_server_exists":   AddServer(file, "one", Decl{Command: "x"}),
		"mcp_server_conflict": AddServer(file, "One", Decl{Command: "x"}),
		"mcp_decl_invalid":    AddServer(file, "two", Decl{}),
		"tool_name_invalid":   AddServer(file, "ö", Decl{Command: "x"}),
		"mcp_server_unknown":  RemoveServer(file, "two"),
		"mcp_file_unwritable": AddServer("/proc/no/x.json", "a", Decl{Command: "x"}),
		"mcp_file_unreadable": RemoveServer(filepath.Dir(file), "a"),
	} {
		if !fault.HasCode(err, code) {
			t.Errorf("%v; want %s", err, code)
		}
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, b) {
		t.Errorf("what failed has changed the file: %s", after)
	}
	if err := AddServer(filepath.Join(filepath.Dir(file), "new", "x.json"), "a", Decl{Command: "x"}); err != nil {
		t.Errorf("in a folder that is not there yet: %v", err)
	}
	for text, code := range map[string]string{"// mine\n{}": "mcp_servers_invalid", "{": "mcp_servers_invalid", `{"mcpServers":1}`: "mcp_servers_invalid"} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		if err := AddServer(file, "a", Decl{Command: "x"}); !fault.HasCode(err, code) {
			t.Errorf("%v; want %s", err, code)
		}
		if after, _ := os.ReadFile(file); string(after) != text {
			t.Errorf("%s has become %s", text, after)
		}
	}
}

// Adding and removing a server keeps everything else in a file.
func TestEditKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "real.json"), []byte("{}"), 0o644))
	link := filepath.Join(dir, "link.json")
	must.Do(t, os.Symlink("real.json", link))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-y]{1,5}`), 0, 5, rapid.ID).Draw(t, "names")
		slices.Sort(names) // as they are written
		var b strings.Builder
		section := rapid.SampledFrom(sections[:]).Draw(t, "section")
		fmt.Fprintf(&b, `{"a": null, %q: {`, section)
		for i, n := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `%q: {"command": "x", "unknown": 12345678901234567890}`, n)
		}
		b.WriteString(`}, "z": [1, 2.50, "\u00e9"]}`)
		must.Do(t, os.WriteFile(filepath.Join(dir, "real.json"), []byte(b.String()), 0o600))
		must.Do(t, AddServer(link, "zz", Decl{Command: "x"}))
		with, _ := os.ReadFile(link)
		var file map[string]json.RawMessage
		var got map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(with, &file), json.Unmarshal(file[section], &got)); err != nil || len(got) != len(names)+1 {
			t.Fatalf("%s: %v", with, err)
		}
		must.Do(t, RemoveServer(link, "zz"))
		after, _ := os.ReadFile(link)
		var want, have bytes.Buffer
		if json.Compact(&want, []byte(b.String())) != nil || json.Compact(&have, after) != nil || want.String() != have.String() {
			t.Fatalf("%s\nhas become\n%s", want.String(), have.String())
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Fatal("the link is gone")
		}
	})
}

func sameJSON(t *testing.T, x, y string) bool {
	t.Helper()
	var a, b any
	must.Do(t, errors.Join(json.Unmarshal([]byte(x), &a), json.Unmarshal([]byte(y), &b)))
	return reflect.DeepEqual(a, b)
}
