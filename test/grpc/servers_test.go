package grpc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/source/grpc"
	"steward/internal/tool"
	"steward/test/must"
)

const examples = "google.golang.org/grpc/examples"

// patience bounds the wait until a server listens.
const patience = 5 * time.Minute

// start builds and runs a server of grpc-go's examples until the test ends,
// and returns its port.
func start(t *testing.T, pkg string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "server")
	if out, err := exec.Command("go", "build", "-o", program, examples+"/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	cmd := exec.Command(program, append([]string{"-port", "0"}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if port := listens(cmd.Process.Pid); port != "" {
			return port
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("%s has ended: %s", pkg, said.String())
		case <-late:
			t.Fatalf("%s does not listen", pkg)
		}
	}
}

// listens returns the port on which a process listens, or "". Not every server reports the port that it was
// assigned.
func listens(pid int) string {
	own := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is right
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil { // it may be closed meanwhile
			own[to] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			const local, state, inode, listening = 1, 3, 9, "0A"
			f := strings.Fields(line)
			if len(f) <= inode || f[state] != listening || !own["socket:["+f[inode]+"]"] {
				continue
			}
			_, hex, _ := strings.Cut(f[local], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				return fmt.Sprint(port)
			}
		}
	}
	return ""
}

func open(t *testing.T, env tool.Env, decl string) tool.Source {
	t.Helper()
	s := must.Get(new(grpc.Kit).Open(env, func(into any) error { return yaml.UnmarshalWithOptions([]byte(decl), into, yaml.Strict()) }))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tools registers the announced tools of a source.
func tools(t *testing.T, s tool.Source, refused int, names ...string) *tool.Registry {
	t.Helper()
	a := must.Get(s.Announce(t.Context()))
	reg := new(tool.Registry)
	for _, spec := range a.Specs {
		if err := reg.Add(s.Tool(spec)); err != nil {
			t.Error(err)
		}
	}
	if got := reg.Names(); !slices.Equal(got, names) || len(a.Refused) != refused {
		t.Fatalf("tools %v, refused %v", got, a.Refused)
	}
	return reg
}

func call(t *testing.T, reg *tool.Registry, name, args string) (string, error) {
	t.Helper()
	tl, ok := reg.Get(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	res, err := tl.Call(t.Context(), tool.Invocation{Args: []byte(args)})
	var out []string
	for _, b := range res.Content {
		out = append(out, b.(*message.Text).Text)
	}
	return strings.Join(out, "\n"), err
}

func TestServerWithReflection(t *testing.T) {
	port := start(t, "features/reflection/server")
	s := open(t, tool.Env{Name: "examples"}, "host: localhost:"+port)
	reg := tools(t, s, 2, "examples.say_hello", "examples.server_streaming_echo", "examples.unary_echo")
	tl, _ := reg.Get("examples.say_hello")
	want := `{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":false,"required":["name"]}`
	if spec := tl.Spec(); string(spec.Input) != want || spec.Effect != tool.Action || spec.Origin != "grpc:examples" {
		t.Errorf("spec = %+v\n%s", spec, spec.Input)
	}
	if got, err := call(t, reg, "examples.say_hello", `{"name":"Ann"}`); err != nil || got != `{"message":"Hello Ann"}` {
		t.Errorf("say_hello = %s, %v", got, err)
	}
	if got, err := call(t, reg, "examples.unary_echo", `{"message":"é\n"}`); err != nil || got != `{"message":"é\n"}` {
		t.Errorf("unary_echo = %s, %v", got, err)
	}
	_, err := call(t, reg, "examples.say_hello", `{"nome":"Ann"}`)
	if !fault.HasCode(err, "args_invalid") || !strings.Contains(err.Error(), "did you mean name?") {
		t.Errorf("an unknown field: %v", err)
	}
	_, err = call(t, reg, "examples.server_streaming_echo", `{"message":"x"}`)
	if !fault.Is(err, fault.Unsupported) || !fault.HasCode(err, "grpc_unimplemented") {
		t.Errorf("server_streaming_echo: %v", err)
	}
}

func TestServerWithProtosAndTLS(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", examples).Output())
	module := strings.TrimSpace(string(out))
	x509 := filepath.Join(module, "data/x509")
	port := start(t, "route_guide/server", "-tls", "-cert_file", x509+"/server_cert.pem", "-key_file", x509+"/server_key.pem")
	decl := `
host: localhost:` + port + `
protos: [` + filepath.Join(module, "route_guide/routeguide/*.proto") + `]
ca: ` + x509 + `/ca_cert.pem
server_name: x.test.example.com
max_streamed: 5
effects: {GetFeature: query, ListFeatures: query}
`
	s := open(t, tool.Env{Name: "guide"}, decl)
	reg := tools(t, s, 2, "guide.get_feature", "guide.list_features")
	tl, _ := reg.Get("guide.list_features")
	if d := tl.Spec().Description; !strings.HasPrefix(d, "A server-to-client streaming RPC.") || !strings.Contains(string(tl.Spec().Input), "One corner of the rectangle.") {
		t.Errorf("spec = %s\n%s", d, tl.Spec().Input)
	}
	got, err := call(t, reg, "guide.get_feature", `{"latitude":407838351,"longitude":-746143763}`)
	if err != nil || got != `{"name":"Patriots Path, Mendham, NJ 07945, USA","location":{"latitude":407838351,"longitude":-746143763}}` {
		t.Errorf("get_feature = %s, %v", got, err)
	}
	got, err = call(t, reg, "guide.list_features", `{"lo":{"latitude":400000000,"longitude":-750000000},"hi":{"latitude":420000000,"longitude":-730000000}}`)
	if err != nil || strings.Count(got, `"name"`) != 5 || !strings.Contains(got, "cut after 5 messages") {
		t.Errorf("list_features = %s, %v", got, err)
	}
	// The system's roots do not know it, and another name is not in its certificate.
	for _, wrong := range []string{
		strings.Replace(decl, "ca: "+x509+"/ca_cert.pem", "tls: true", 1),
		strings.Replace(decl, "server_name: x.test.example.com", "", 1),
	} {
		_, err = call(t, tools(t, open(t, tool.Env{Name: "guide"}, wrong), 2, "guide.get_feature", "guide.list_features"), "guide.get_feature", `{"latitude":1,"longitude":1}`)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "certificate") || !tool.CertainlyNotDone(err) {
			t.Errorf("a wrong certificate: %v", err)
		}
	}
	_, err = open(t, tool.Env{Name: "guide"}, "host: https://localhost:"+port+"\nca: "+x509+"/ca_cert.pem\nserver_name: x.test.example.com").Announce(t.Context())
	if !fault.HasCode(err, "grpc_no_reflection") {
		t.Errorf("Announce = %v", err)
	}
}

func TestServerWithErrorDetails(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "tools"), 0o700))
	source := `syntax = "proto3"; package helloworld;
service Greeter { rpc SayHello (HelloRequest) returns (HelloReply); }
message HelloRequest { string name = 1; }
message HelloReply { string message = 1; }`
	must.Do(t, os.WriteFile(filepath.Join(dir, "tools/hello.proto"), []byte(source), 0o600))
	port := start(t, "features/error_details/server")
	s := open(t, tool.Env{Name: "greet", Dir: dir}, "host: localhost:"+port+"\ncall: helloworld.Greeter.SayHello\nname: greet_once")
	reg := tools(t, s, 0, "greet.greet_once")
	if got, err := call(t, reg, "greet.greet_once", `{"name":"Ann"}`); err != nil || got != `{"message":"Hello Ann"}` {
		t.Errorf("greet_once = %s, %v", got, err)
	}
	_, err := call(t, reg, "greet.greet_once", `{"name":"Ann"}`)
	e := fault.Of(err)
	if e.Kind != fault.RateLimited || e.Code != "grpc_resource_exhausted" || !strings.Contains(e.Message, "name:Ann: Limit one greeting per person") || !e.Recoverable() {
		t.Errorf("error = %+v", e)
	}
}
