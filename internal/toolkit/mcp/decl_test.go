package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"steward/internal/tool"
	"steward/internal/toolkit/sandbox"
)

func TestDeclRefused(t *testing.T) {
	for want, d := range map[string]Decl{
		"either a command or a url":  {},
		"and not both":               {Command: "x", URL: "http://x"},
		"SSE":                        {Type: "sse", URL: "http://x/sse"},
		`type is "carrier"`:          {Type: "carrier", Command: "x"},
		"talked to over stdio":       {Type: "http", Command: "x"},
		"there is no command":        {Type: "stdio", URL: "http://x"},
		"cannot be negative":         {Command: "x", Timeout: -1},
		"is no pattern":              {Command: "x", Tools: []string{"["}},
		"the effect of a is":         {Command: "x", Effects: map[string]tool.Effect{"a": "read"}},
		"empty word":                 {Command: []string{"x", ""}},
		"headers are for a url":      {Command: "x", Headers: map[string]string{"A": "b"}},
		"relative path":              {Command: "./x"},
		"no variable":                {Command: "x", Env: map[string]string{"A=B": "c"}},
		"confined by sandbox, or":    {Command: "x", Sandbox: &Sandbox{}, Unsandboxed: true},
		"7 is no text":               {Command: []any{"x", 7}},
		"neither a text nor a list":  {Command: 7},
		"are for a command":          {URL: "http://x", Args: []string{"a"}},
		"cannot be confined":         {URL: "http://x", Unsandboxed: true},
		"no header":                  {URL: "http://x", Headers: map[string]string{"A B": "c"}},
		"belongs to the protocol":    {URL: "http://x", Headers: map[string]string{"mcp-session-id": "c"}},
		"http:// or https://":        {URL: "ftp://x"},
		"this is none":               {URL: "http://\x7f"},
		"holds a name or a password": {URL: "http://a:hunter2@x"},
	} {
		_, err := Open(tool.Env{Name: "a"}, func(into any) error { *into.(*Decl) = d; return nil })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v; want %s", err, want)
		}
	}
	broken := errors.New("cannot be read")
	if _, err := Open(tool.Env{Name: "a"}, func(any) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := Open(tool.Env{Name: "ä"}, func(into any) error { *into.(*Decl) = Decl{Command: "x"}; return nil }); !fault.HasCode(err, "tool_name_invalid") {
		t.Error(err)
	}
	s, err := Open(tool.Env{Name: "a"}, func(into any) error { *into.(*Decl) = Decl{Command: "x"}; return nil })
	if err != nil || s.Close() != nil {
		t.Error(err)
	}
}

// Programs of an agent's folder are confined unless they say otherwise, those
// that the settings name the other way round.
func TestAllowed(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	for i, c := range []struct {
		env  tool.Env
		d    Decl
		want sandbox.Command
	}{
		{tool.Env{}, Decl{}, sandbox.Command{Unsandboxed: true, Limits: sandbox.Limits{Memory: 16 << 30, CPU: -1, Processes: 4096, Output: 2 * maxSkipped, FileSize: 1 << 40, Files: 1024}}},
		{tool.Env{}, Decl{Sandbox: &Sandbox{Network: true, Read: []string{"/srv"}, Limits: sandbox.Limits{CPU: 1, Output: 2}}},
			sandbox.Command{Network: egress.Public(), Read: []string{"/srv"}, Limits: sandbox.Limits{CPU: 1, Output: 2}}},
		{tool.Env{Dir: dir, Data: data}, Decl{Sandbox: &Sandbox{Write: []string{"out"}}},
			sandbox.Command{Read: []string{dir}, Write: []string{filepath.Join(dir, "out")}, Data: data, Env: []string{"STEWARD_DATA=" + data}, Limits: sandbox.Limits{CPU: -1, Output: 2 * maxSkipped}}},
		{tool.Env{Dir: dir}, Decl{Unsandboxed: true}, sandbox.Command{Unsandboxed: true, Read: []string{dir},
			Limits: sandbox.Limits{Memory: 16 << 30, CPU: -1, Processes: 4096, Output: 2 * maxSkipped, FileSize: 1 << 40, Files: 1024}}},
	} {
		c.env.Name, c.d.Command = "a", "x"
		s, err := open(c.env, c.d, confined)
		if err != nil {
			t.Fatal(err)
		}
		var got sandbox.Command
		err = (&session{src: s}).allow(&got)
		got.Name, got.Log = "", nil
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d: %+v, %v\nwant %+v", i, got, err, c.want)
		}
		s.Close()
	}
	s, _ := open(tool.Env{Name: "a", Dir: dir, Data: "/dev/null/x"}, Decl{Command: "./x"}, confined)
	defer s.Close()
	if err := (&session{src: s}).allow(&sandbox.Command{}); !fault.HasCode(err, "mcp_start_failed") {
		t.Error(err)
	}
}

const servers = "\xef\xbb\xbf" + `{
	// as editors write it
	"$schema": "https://example.org/x.json",
	"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"], "env": {"A": "${env:A}"}, "autoApprove": ["x"], "timeout": 30000,},
		"Git Hub": {"type": "streamableHttp", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${input:token}"}, "timeout": "90s", "idle": "1h"},
		"own": {"command": ["python", "x.py"], "cwd": "/srv", "tools": ["read_*"], "effects": {"write": "query"}, "sandbox": {"network": true, "limits": {"memory": 1000, "cpu": "2m"}}}, /* all
		of it */
		"off": {"command": "x", "disabled": true}, "off2": {"command": "x", "enabled": false}, "un": {"command": "x", "unsandboxed": true, "transport": "stdio"},
	},
	"inputs": [],
}`

func TestParseServers(t *testing.T) {
	got, notes, err := ParseServers([]byte(servers))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Decl{
		"files":   {Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/data"}, Env: map[string]string{"A": "${env:A}"}},
		"Git Hub": {Type: "http", URL: "https://example.org/mcp", Headers: map[string]string{"Authorization": "Bearer ${input:token}"}, Timeout: 90 * time.Second, Idle: time.Hour},
		"own": {Command: []any{"python", "x.py"}, Cwd: "/srv", Tools: []string{"read_*"}, Effects: map[string]tool.Effect{"write": "query"},
			Sandbox: &Sandbox{Network: true, Limits: sandbox.Limits{Memory: 1000, CPU: 2 * time.Minute}}},
		"un": {Type: "stdio", Command: "x", Unsandboxed: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(notes, []string{"files: autoApprove is not understood", `files: timeout is a number, which may mean seconds or less: write "90s"`,
		"off: it is disabled", "off2: it is disabled", "inputs is not understood"}) {
		t.Errorf("%q", notes)
	}
	if got, _, err := ParseServers([]byte(`{"servers":{"a":{"command":"x"}}}`)); err != nil || got["a"].Command != "x" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseServersRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "EOF",
		`[]`:                                "an object is expected",
		`{}`:                                "there is no member mcpServers",
		`{"mcpServers":{}} x`:               "something follows",
		`{"mcpServers":{}`:                  "EOF",
		`{"mcpServers":{},"mcpServers":{}}`: "duplicate",
		`{"mcpServers":[]}`:                 "an object is expected",
		`{"mcpServers":{"a":1}}`:            "an object is expected",
		`{"mcpServers":{"a":{}}}`:           "either a command or a url",
		`{"mcpServers":{"a":{"command":"x","args":"y"}}}`:              "args",
		`{"mcpServers":{"a":{"command":"x","timeout":"soon"}}}`:        "no duration",
		`{"mcpServers":{"a":{"command":"x","sandbox":{"sky":1}}}}`:     "sandbox",
		`{"mcpServers":{"a-b":{"command":"x"},"a_b":{"command":"x"}}}`: "the same names",
		`{"mcpServers":{"ä":{"command":"x"}}}`:                         "look like others",
		`{"mcpServers":{"a":{"command":"x"} /* open`:                   "",
	} {
		if _, _, err := ParseServers([]byte(text)); !fault.HasCode(err, "mcp_servers_invalid") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestEditServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	all := Decl{Command: []string{"a", "b"}, Args: []string{"<&>"}, Env: map[string]string{"A": "b"}, Cwd: "/x", Tools: []string{"t"},
		Effects: map[string]tool.Effect{"t": tool.Query}, Timeout: time.Minute, Idle: time.Hour,
		Sandbox: &Sandbox{Network: true, Read: []string{"/r"}, Write: []string{"/w"}, Limits: sandbox.Limits{Memory: 1, CPU: time.Minute, Processes: 2, Output: 3, FileSize: 4, Files: 5}}}
	if err := AddServer(file, "one", all); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	b, _ := os.ReadFile(file)
	got, notes, err := ParseServers(b)
	all.Command = []any{"a", "b"}
	if err != nil || len(notes) > 0 || !reflect.DeepEqual(got["one"], all) {
		t.Errorf("%s\n%+v, %v, %v", b, got, notes, err)
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
	for text, code := range map[string]string{"// mine\n{}": "mcp_file_comments", "{": "mcp_servers_invalid", `{"mcpServers":1}`: "mcp_servers_invalid"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddServer(file, "a", Decl{Command: "x"}); !fault.HasCode(err, code) {
			t.Errorf("%v; want %s", err, code)
		}
		if after, _ := os.ReadFile(file); string(after) != text {
			t.Errorf("%s has become %s", text, after)
		}
	}
}

// Whatever else is in a file, adding and removing a server loses none of it.
func TestEditKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink("real.json", link); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-y]{1,5}`), 0, 5, rapid.ID).Draw(t, "names")
		var b strings.Builder
		section := rapid.SampledFrom(sections[:]).Draw(t, "section")
		fmt.Fprintf(&b, `{"z": [1, 2.50, "\u00e9"], %q: {`, section)
		for i, n := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `%q: {"command": "x", "unknown": 12345678901234567890}`, n)
		}
		b.WriteString(`}, "a": null}`)
		if err := os.WriteFile(filepath.Join(dir, "real.json"), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddServer(link, "zz", Decl{Command: "x"}); err != nil {
			t.Fatal(err)
		}
		with, _ := os.ReadFile(link)
		got, _, err := ParseServers(with)
		if err != nil || len(got) != len(names)+1 {
			t.Fatalf("%s: %v", with, err)
		}
		if err := RemoveServer(link, "zz"); err != nil {
			t.Fatal(err)
		}
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

func FuzzParseServers(f *testing.F) {
	f.Add([]byte(servers))
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x" // y
	,}}}`))
	f.Add([]byte(`{"servers":/*`))
	f.Fuzz(func(t *testing.T, b []byte) {
		servers, _, err := ParseServers(b)
		if err != nil && !fault.HasCode(err, "mcp_servers_invalid") {
			t.Fatal(err)
		}
		for name, d := range servers {
			if err := d.check(""); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

func FuzzWord(f *testing.F) {
	for _, s := range []string{"readFile", "HTTPServer", "a__b", "_", "é", "a.b-c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := tool.Word(s)
		if err != nil {
			return
		}
		if again, err := tool.Word(w); err != nil || again != w {
			t.Fatalf("%q, then %q, %v", w, again, err)
		}
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || strings.Contains(w, "__") || strings.HasPrefix(w, "_") || strings.HasSuffix(w, "_") {
			t.Fatalf("%q", w)
		}
	})
}

// The outline of a message finds its id, wherever it stands.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":12,"result":{"id":13,"method":"x","a":["\"id\":14"]}}`), 3)
	f.Add([]byte(`{"result":{},"id":7}`), 1)
	f.Add([]byte(`{"id":7,"method":"x"}`), 9)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var o outline
		cut = max(0, min(cut, len(b)))
		o.feed(b[:cut])
		o.feed(b[cut:])
		got := o.response()
		var m struct {
			ID     *int64           `json:"id"`
			Method *json.RawMessage `json:"method"`
		}
		list, err := members(b)
		if err != nil || json.Unmarshal(b, &m) != nil || strings.Contains(string(b), `\`) || strings.ContainsAny(string(b), "ſK") {
			return // what is no message may give anything
		}
		for _, x := range list {
			if strings.EqualFold(x.name, "id") && x.name != "id" || strings.EqualFold(x.name, "method") && x.name != "method" {
				return // encoding/json does not look at case
			}
		}
		has := slices.ContainsFunc(list, func(x member) bool { return x.name == "method" })
		switch {
		case has || m.ID == nil || *m.ID < 0 || *m.ID > 1<<50:
			if has && got != nil {
				t.Fatalf("%s: %v", b, got)
			}
		case got != float64(*m.ID):
			t.Fatalf("%s: %v, want %d", b, got, *m.ID)
		}
	})
}

func TestReadLine(t *testing.T) {
	big := strings.Repeat("x", maxMessage)
	r := bufio.NewReader(strings.NewReader("a\n\n" + big[1:] + "\n" + `{"id":5,"x":"` + big + `"}` + "\n" + big + "xx\n" + "last"))
	for _, want := range []string{"a", "", big[1:], "5", "<nil>", "last", "EOF"} {
		line, err := readLine(r)
		got := string(line)
		if large, ok := errors.AsType[*tooLarge](err); ok {
			got = fmt.Sprint(large.id)
		} else if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Fatalf("%.40q; want %.40q", got, want)
		}
	}
	if _, err := readLine(bufio.NewReader(io.LimitReader(endless{}, 2*maxSkipped))); !errors.Is(err, errFlood) {
		t.Error(err)
	}
	if _, err := readLine(bufio.NewReader(io.LimitReader(endless{}, maxMessage+10))); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
