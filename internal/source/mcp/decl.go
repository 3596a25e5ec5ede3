package mcp

import (
	"maps"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// The transports.
const (
	Stdio = "stdio" // a program that talks over its standard input and output
	HTTP  = "http"  // streamable HTTP; also written "streamable-http"
)

// Decl declares an MCP server: a program (Command) or an address (URL). ${NAME} in URL and in the
// values of Args, Env and Headers stands for the secret of that name, and ${NAME:-TEXT} for TEXT
// if there is no such secret.
type Decl struct {
	Type    string            `yaml:"type" json:"type,omitempty"`      // empty: derived from the other fields
	Command any               `yaml:"command" json:"command,omitzero"` // a program, or a list: a program and its first arguments; never split at spaces
	Args    []string          `yaml:"args" json:"args,omitempty"`
	Env     map[string]string `yaml:"env" json:"env,omitempty"`
	Cwd     string            `yaml:"cwd" json:"cwd,omitempty"` // empty: the agent's folder
	URL     string            `yaml:"url" json:"url,omitempty"`
	Headers map[string]string `yaml:"headers" json:"headers,omitempty"`
	OAuth   *OAuth            `yaml:"oauth" json:"oauth,omitzero"`

	Sampling bool `yaml:"sampling" json:"sampling,omitzero"` // it may ask for the model, each time with the person's consent

	Tools          []string `yaml:"tools" json:"tools,omitempty"` // names and globs of the tools that are used; none: all
	tool.Overrides `yaml:",inline"`
	// Dedupes and Status say what the server does with the idempotency key of an action: Dedupes
	// names the tools (names and globs) that recognise it; Status maps a name or glob to the tool
	// that reports the outcome for a key. With either, Steward can settle after a crash what
	// would otherwise be left to a person.
	Dedupes []string          `yaml:"dedupes" json:"dedupes,omitempty"`
	Status  map[string]string `yaml:"status" json:"status,omitempty"`
	Timeout time.Duration     `yaml:"timeout" json:"timeout,omitzero"` // of a call; zero: DefaultTimeout
	Idle    time.Duration     `yaml:"idle" json:"idle,omitzero"`       // a server that is unused for this long is stopped; zero: DefaultIdle

	// Sandbox confines the program. A program of an agent's folder is confined in any case,
	// unless it is Unsandboxed; one that the settings name is not.
	Sandbox     *Sandbox `yaml:"sandbox" json:"sandbox,omitzero"`
	Unsandboxed bool     `yaml:"unsandboxed" json:"unsandboxed,omitzero"`
}

// Sandbox is what a confined program may do.
type Sandbox = sandbox.Grants

// words returns the program and its first arguments.
func (d *Decl) words() ([]string, error) {
	words, bad := sandbox.Words(d.Command)
	if bad != nil {
		return nil, badDecl("%s", bad.Message).WithHint("%s", bad.Remedy)
	}
	return words, nil
}

func badDecl(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "mcp_decl_invalid", format, args...)
}

// check validates a declaration. dir is the base of relative paths; if it is empty, paths must be
// absolute.
func (d *Decl) check(dir string) error {
	if d.Type == "sse" {
		return fault.New(fault.Unsupported, "mcp_sse_unsupported", "the server uses SSE, a deprecated MCP transport").
			WithHint("use the server's streamable HTTP address: type: http, and a url that usually ends in /mcp")
	}
	switch d.Type {
	case "", Stdio, HTTP, "streamable-http":
	default:
		return badDecl("type is %.40q", d.Type).WithHint("it is stdio or http")
	}
	words, err := d.words()
	if err != nil {
		return err
	}
	program := len(words) > 0
	switch {
	case program == (d.URL != ""):
		return badDecl("a server needs either a command or a url, not both")
	case d.Type != "" && program != (d.Type == Stdio):
		return badDecl("type is %s: stdio goes with a command, and http with a url", d.Type).WithHint("leave the type out")
	}
	if bad := d.Overrides.Check(); bad != nil {
		return badDecl("%s", bad.Message).WithHint("%s", bad.Remedy)
	}
	if d.Timeout < 0 || d.Idle < 0 {
		return badDecl("timeout and idle cannot be negative")
	}
	for _, g := range d.patterns() {
		if _, err := path.Match(g, ""); err != nil {
			return badDecl("%q is not a tool pattern", g).WithHint("write names, or globs such as read_*")
		}
	}
	if program {
		return d.checkProgram(dir, words)
	}
	return d.checkURL()
}

// patterns returns the names and globs by which the declaration refers to tools.
func (d *Decl) patterns() []string {
	named := slices.Concat(d.Tools, d.Dedupes, slices.Collect(maps.Keys(d.Status)), d.Overrides.Patterns())
	slices.Sort(named)
	return slices.Compact(named)
}

func (d *Decl) checkProgram(dir string, words []string) error {
	if slices.Contains(words, "") {
		return badDecl("command has an empty word")
	}
	if len(d.Headers) > 0 || d.OAuth != nil {
		return badDecl("headers and oauth need a url; use env for a command")
	}
	for _, p := range []string{words[0], d.Cwd} {
		if dir == "" && strings.Contains(p, "/") && !filepath.IsAbs(p) {
			return badDecl("%s is a relative path, which is not allowed here", p).WithHint("write an absolute path")
		}
	}
	for name, v := range d.Env {
		if !sandbox.GoodVariable(name, v) {
			return badDecl("env: %.80q is not a valid environment variable", name)
		}
	}
	if d.Sandbox == nil {
		return nil
	}
	if d.Unsandboxed {
		return badDecl("sandbox and unsandboxed exclude each other")
	}
	_, err := egress.Declared(d.Sandbox.Network)
	return err
}

func (d *Decl) checkURL() error {
	switch {
	case len(d.Args) > 0 || len(d.Env) > 0 || d.Cwd != "":
		return badDecl("args, env and cwd need a command; use headers for a url")
	case d.Sandbox != nil || d.Unsandboxed:
		return badDecl("a server at a url cannot be sandboxed: sandbox needs a command")
	}
	for name, v := range d.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v):
			return badDecl("headers: %.80q is not a valid header", name)
		case strings.HasPrefix(name, "Mcp-") || slices.Contains([]string{"Accept", "Connection", "Content-Length", "Content-Type",
			"Host", "Last-Event-Id", "Transfer-Encoding", "Upgrade"}, name):
			return badDecl("headers: %s is set by the protocol", name)
		}
	}
	if d.OAuth != nil {
		if err := d.OAuth.check(); err != nil {
			return err
		}
	}
	if strings.Contains(d.URL, "${") {
		return nil // it is checked when the secrets are known
	}
	_, err := parseURL(d.URL)
	return err
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, badDecl("url: it is not a valid URL") // not with the parser's message, which contains the whole URL, including secrets
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, badDecl("url: it must begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, badDecl("url: it contains a user name or password").WithHint("use headers: Authorization: …")
	}
	u.Fragment = ""
	return u, nil
}
