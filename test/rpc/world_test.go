// Package rpc starts a real Steward and a gRPC service that is not part of it,
// and calls them as other programs do: with grpc-go, with curl's JSON, and with
// a browser's gRPC-Web.
package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"steward/test/built"
	"steward/test/must"
)

// path returns the path of a built program.
func path(t *testing.T, pkg string) string {
	t.Helper()
	file := must.Get(built.Program(pkg))
	return file
}

// program is a server that runs.
type program struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start starts a program and waits until it says where it is.
func start(t *testing.T, env []string, pkg string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(path(t, pkg), args...)
	cmd.Env, cmd.Dir = env, t.TempDir()
	out := must.Get(cmd.StdoutPipe())
	var said bytes.Buffer
	cmd.Stderr = &said
	must.Do(t, cmd.Start())
	p := &program{cmd, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	if _, err := p.out.Peek(1); err != nil {
		p.kill()
		t.Fatalf("%s: %v\n%s", pkg, err, &said)
	}
	return p
}

func (p *program) kill() {
	p.cmd.Process.Kill() // an error says that it has ended
	p.cmd.Wait()
}

// end interrupts the program like Ctrl-C, and waits for its end.
func (p *program) end(t *testing.T) {
	t.Helper()
	must.Do(t, p.cmd.Process.Signal(os.Interrupt))
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// steward is a Steward that runs.
type steward struct {
	*program
	t    *testing.T
	url  string
	env  []string
	dir  string
	conn *grpc.ClientConn
}

// serve starts a Steward on a data folder, with settings.
func serve(t *testing.T, dir, listen, settings string) *steward {
	t.Helper()
	file := filepath.Join(dir, "settings.yaml")
	must.Do(t, os.WriteFile(file, []byte(settings), 0o600))
	s := &steward{t: t, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "STEWARD_TIMEOUTS_SHUTDOWN=1h"}}
	s.program = start(t, s.env, "steward/cmd/steward", "serve", "--json", "--listen", listen, "--data", filepath.Join(dir, "data"), "--config", file)
	var notice struct{ URL string }
	must.Do(t, json.NewDecoder(s.out).Decode(&notice))
	s.url = notice.URL
	s.conn = must.Get(grpc.NewClient(strings.TrimPrefix(s.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(s)))
	t.Cleanup(func() { s.conn.Close() })
	return s
}

// bearer is the header with the token.
func (s *steward) bearer() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "data", "token"))
	if err != nil {
		s.t.Error(err)
	}
	return "Bearer " + strings.TrimSpace(string(b))
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s *steward) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": s.bearer()}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (s *steward) RequireTransportSecurity() bool { return false }

// command runs another command of Steward's on the same data folder.
func (s *steward) command(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(path(s.t, "steward/cmd/steward"), append(args, "--data", filepath.Join(s.dir, "data"))...)
	cmd.Env, cmd.Dir = s.env, s.t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("steward %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// grpc calls a method with grpc-go.
func (s *steward) grpc(method string, in, out proto.Message) error {
	ctx := s.t.Context()
	return s.conn.Invoke(ctx, method, in, out)
}

// post posts as curl does.
func (s *steward) post(client *http.Client, path, kind string, body []byte) (status int, answer []byte) {
	s.t.Helper()
	ctx := s.t.Context()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body)))
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", s.bearer())
	res := must.Get(client.Do(r))
	defer res.Body.Close()
	return res.StatusCode, must.Get(io.ReadAll(res.Body))
}

// json calls a method with JSON.
func (s *steward) json(method, in string) map[string]any {
	s.t.Helper()
	_, answer := s.post(http.DefaultClient, method, "application/json", []byte(in))
	var out map[string]any
	if err := json.Unmarshal(answer, &out); err != nil {
		s.t.Fatalf("%v: %s", err, answer)
	}
	return out
}

// web calls a method with gRPC-Web and returns the trailers.
func (s *steward) web(method string, in, out proto.Message) string {
	s.t.Helper()
	msg := must.Get(proto.Marshal(in))
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
	_, rest := s.post(http.DefaultClient, method, "application/grpc-web+proto", frame)
	for len(rest) >= 5 {
		n := int(binary.BigEndian.Uint32(rest[1:5]))
		if rest[0]&0x80 != 0 {
			return string(rest[5 : 5+n])
		}
		must.Do(s.t, proto.Unmarshal(rest[5:5+n], out))
		rest = rest[5+n:]
	}
	s.t.Fatal("there are no trailers")
	return ""
}
