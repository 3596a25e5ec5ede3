// Package grpc turns gRPC methods into tools. It learns the methods from .proto files or from a
// server's own description (reflection), writes their JSON Schemas, and calls them with arguments
// and answers converted both ways.
//
// A method is an action unless its descriptor says NO_SIDE_EFFECTS or the declaration's effects
// say query: a name such as GetBook proves nothing. Methods that take a stream of messages cannot
// be tools; a stream that a server sends is collected, up to a limit.
package grpc

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

// Defaults and limits of a declaration.
const (
	DefaultMaxStreamed = 100     // messages of a stream
	DefaultMaxBytes    = 4 << 20 // bytes of an answer, on the wire
	maxBytes           = 64 << 20
)

// Declaration is a gRPC service, or one of its methods, as in agent.yaml under grpc: NAME, and in
// the settings under service.tool.endpoints: NAME.
//
// Tools are named NAME.method_in_snake_case, or NAME.service_method if two of the services have a
// method of the same name. A tool of the settings has the name that they give it, where that is free. Keys of Effects and Required name a method (Method, Service.Method or
// package.Service.Method) or a tool.
type Declaration struct {
	Host       string `yaml:"host" json:"host"`                        // HOST:PORT or unix:PATH; https:// or grpcs:// before it means TLS
	TLS        bool   `yaml:"tls" json:"tls,omitzero"`                 // with the system's roots, or CA
	CA         string `yaml:"ca" json:"ca,omitzero"`                   // file of PEM certificates to trust instead; means TLS
	ServerName string `yaml:"server_name" json:"server_name,omitzero"` // the name that the certificate must have; empty: the host's

	Call        string   `yaml:"call" json:"call,omitzero"`               // package.Service.Method: this one only
	Name        string   `yaml:"name" json:"name,omitzero"`               // with Call: the tool's name; without a dot it gets the category NAME
	Bare        bool     `yaml:"bare" json:"bare,omitzero"`               // with Call and Name, of the settings: the tool's name has no category
	Description string   `yaml:"description" json:"description,omitzero"` // with Call: the tool's; else put before each method's
	Services    []string `yaml:"services" json:"services,omitzero"`       // package.Service; none and no Call: all

	Protos     []string `yaml:"protos" json:"protos,omitzero"`         // files and globs; none: tools/*.proto of the folder, else reflection
	Imports    []string `yaml:"imports" json:"imports,omitzero"`       // folders to search for imports, as protoc's -I
	Reflection bool     `yaml:"reflection" json:"reflection,omitzero"` // ask the server, even if the folder has .proto files

	tool.Overrides `yaml:",inline"`
	Required       map[string][]string `yaml:"required" json:"required,omitzero"` // arguments that must be given, overriding the descriptor
	Dedupes        bool                `yaml:"dedupes" json:"dedupes,omitzero"`   // the server deduplicates calls by the metadata idempotency-key
	Trusted        bool                `yaml:"trusted" json:"trusted,omitzero"`   // answers are not labelled as foreign content

	Metadata    map[string]string `yaml:"metadata" json:"metadata,omitzero"` // sent with each call; ${NAME} is a secret
	Timeout     time.Duration     `yaml:"timeout" json:"timeout,omitzero"`   // of a call
	Async       bool              `yaml:"async" json:"async,omitzero"`
	AsyncAfter  time.Duration     `yaml:"async_after" json:"async_after,omitzero"`
	MaxStreamed int               `yaml:"max_streamed" json:"max_streamed,omitzero"` // messages of a stream that are collected
	MaxBytes    int               `yaml:"max_bytes" json:"max_bytes,omitzero"`       // of one answer, or of a stream as a whole
}

// Open is the tool.Opener of kind "grpc". It reads the declaration and the .proto files, and
// connects to nothing. Error codes: grpc_declaration_invalid, grpc_proto_invalid (with the
// details file, line and column), grpc_call_unknown and those of decode. The source has a method
// Warnings() []string, which returns what a person should know before allowing it.
func (k *Kit) Open(env tool.Env, decode func(into any) error) (tool.Source, error) {
	var d Declaration
	if err := decode(&d); err != nil {
		return nil, err
	}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	d, to, err := settle(env, d)
	if err != nil {
		return nil, err
	}
	s := newSource(k, env, d, to)
	if err := s.readProtos(); err != nil {
		return nil, err
	}
	for _, w := range s.Warnings() {
		env.Log.Warn(w, "source", env.Name)
	}
	return s, nil
}

func badDeclaration(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "grpc_declaration_invalid", format, args...)
}

// settle validates a declaration, fills in the defaults and makes paths absolute.
func settle(env tool.Env, d Declaration) (Declaration, target, error) {
	var to target
	if word(env.Name) == "" {
		return d, to, badDeclaration("%q is not a source name", env.Name).WithHint("use letters a-z and digits")
	}
	address, err := hostOf(d.Host)
	if err != nil {
		return d, to, err
	}
	to.address, to.serverName = address, d.ServerName
	scheme, _, _ := strings.Cut(d.Host, "://")
	to.tls = d.TLS || d.CA != "" || scheme == "https" || scheme == "grpcs"
	if d.CA != "" {
		d.CA = absolute(env.Dir, d.CA)
		pem, err := os.ReadFile(d.CA)
		pem = strict.Unmarked(pem)
		if err != nil {
			return d, to, badDeclaration("the file of certificates cannot be read: %w", err).WithHint("correct ca, or leave it out to trust the system's")
		}
		if to.ca = string(pem); !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return d, to, badDeclaration("the file %s has no certificates", d.CA).WithHint("give ca a file of PEM certificates")
		}
	}
	if err := checkChoice(env, &d); err != nil {
		return d, to, err
	}
	if d.Timeout < 0 || d.AsyncAfter < 0 || d.MaxStreamed < 0 || d.MaxBytes < 0 || d.MaxBytes > maxBytes {
		return d, to, badDeclaration("timeout, async_after, max_streamed and max_bytes must not be negative, and max_bytes must be at most %d", maxBytes).
			WithHint("correct them, or leave them out")
	}
	if d.MaxStreamed == 0 {
		d.MaxStreamed = DefaultMaxStreamed
	}
	if d.MaxBytes == 0 {
		d.MaxBytes = DefaultMaxBytes
	}
	return d, to, checkMetadata(d.Metadata)
}

// checkChoice checks which part of the service is chosen and how it is named.
func checkChoice(env tool.Env, d *Declaration) error {
	d.Call = strings.ReplaceAll(strings.TrimPrefix(d.Call, "/"), "/", ".")
	if d.Call != "" && len(d.Services) > 0 {
		return badDeclaration("call and services exclude each other").WithHint("leave one of them out")
	}
	if d.Call != "" && !strings.Contains(d.Call, ".") {
		return badDeclaration("call is %q, which is not a method", d.Call).WithHint("write call: package.Service.Method")
	}
	if d.Call == "" && d.Name != "" {
		return badDeclaration("name applies to one tool: it needs call").WithHint("write call: package.Service.Method, or leave name out")
	}
	if d.Bare && (d.Name == "" || strings.Contains(d.Name, ".") || env.Dir != "" || env.Agent != "") {
		return badDeclaration("bare applies only to named tools of the settings").WithHint("leave it out")
	}
	if category, rest, dotted := strings.Cut(d.Name, "."); dotted && (category != word(env.Name) || rest == "") {
		return badDeclaration("the tool's name %q is in a category that is not %s, this source's own", d.Name, word(env.Name)).
			WithHint("name it without a dot: it becomes %s.%s", word(env.Name), word(rest))
	}
	if bad := d.Overrides.Check(); bad != nil {
		return badDeclaration("%s", bad.Message).WithHint("%s", bad.Remedy)
	}
	return nil
}

// hostOf returns the address of a host as declared.
func hostOf(host string) (string, error) {
	bad := func(why string) error {
		return badDeclaration("the host %q %s", host, why).WithHint("write host: name:port, or https://name:port for TLS")
	}
	if path, ok := strings.CutPrefix(host, "unix:"); ok && filepath.IsAbs(path) {
		return "unix:" + path, nil
	}
	scheme, rest, found := strings.Cut(host, "://")
	if !found {
		scheme, rest = "", host
	}
	if !slices.Contains([]string{"", "https", "grpcs", "http", "grpc"}, scheme) {
		return "", bad("has an unknown scheme")
	}
	rest = strings.TrimSuffix(rest, "/")
	if rest == "" {
		return "", bad("is missing")
	}
	name, port, err := net.SplitHostPort(rest)
	if err != nil && (scheme == "https" || scheme == "grpcs") && !strings.ContainsAny(rest, "/:") {
		name, port, err = rest, "443", nil
	}
	if err != nil || name == "" || port == "" || strings.ContainsAny(name, "/@?# ") {
		return "", bad("is not HOST:PORT")
	}
	return net.JoinHostPort(name, port), nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

var (
	headerName = regexp.MustCompile(`^[a-z0-9_.-]{1,128}$`)
	secretName = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// ownMetadata are the headers that Steward itself sends.
func ownMetadata() []string {
	return []string{"traceparent", "x-request-id", "x-parent-request-id", "idempotency-key"}
}

func checkMetadata(md map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(md)) {
		switch {
		case !headerName.MatchString(name) || strings.HasPrefix(name, "grpc-"):
			return badDeclaration("%q is not a metadata name", name).WithHint("use a-z, 0-9, '-', '_' and '.'; grpc-* is reserved")
		case slices.Contains(ownMetadata(), name):
			return badDeclaration("the metadata %s is set by Steward", name).WithHint("leave it out")
		}
		if rest := secretName.ReplaceAllString(md[name], ""); strings.Contains(rest, "${") {
			return badDeclaration("the metadata %s has a ${ without the name of a secret", name).WithHint("write ${NAME}")
		} else if !strings.HasSuffix(name, "-bin") && !printable(rest) {
			return badDeclaration("the metadata %s contains characters other than printable ASCII", name).WithHint("name it %s-bin to send bytes", name)
		}
	}
	return nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// secretsIn returns the names of the secrets in a declaration's metadata.
func secretsIn(md map[string]string) (names []string) {
	for _, v := range md {
		for _, m := range secretName.FindAllStringSubmatch(v, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// warningsOf returns what a person should know before allowing calls.
func warningsOf(d Declaration, to target) (out []string) {
	if to.tls || to.local() {
		return nil
	}
	out = append(out, fmt.Sprintf("calls to %s are not encrypted, and the server's identity is not verified: use https:// if it supports TLS", to.address))
	if names := secretsIn(d.Metadata); len(names) > 0 {
		out = append(out, fmt.Sprintf("the secrets %s go to %s unencrypted", strings.Join(names, ", "), to.address))
	}
	return out
}
