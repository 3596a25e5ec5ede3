package edge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"steward/internal/identity"
	"steward/internal/server/api"
	"steward/internal/server/mcp"
	"steward/internal/server/openai"
	"steward/internal/server/rpc"
	"steward/internal/server/services"
	"steward/internal/server/websocket"
	"steward/test/edge"
)

// routes returns every route that Steward serves to an authenticated client, as
// "METHOD /path", from the servers' own tables.
func routes(t *testing.T) []string {
	t.Helper()
	all := append(append(append([]string{"GET " + websocket.Path, "GET " + mcp.Path, "POST " + mcp.Path, "DELETE " + mcp.Path}, api.Routes()...), openai.Routes()...), services.Routes()...)
	for _, m := range rpc.Methods() {
		if dot := strings.LastIndex(m, "."); !strings.HasPrefix(m, "grpc.health.") {
			all = append(all, "POST /"+m[:dot]+"/"+m[dot+1:])
		}
	}
	all = append(all, "GET /tool.Tool/ListTools?encoding=json&message=%7B%7D", "POST /grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
	if len(all) < 90 {
		t.Errorf("there are only %d routes", len(all))
	}
	for i, route := range all {
		all[i] = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(route, "x")
	}
	return all
}

func TestNothingAnswersWithoutACredential(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	token := n.Token()
	for _, route := range routes(t) {
		method, path, _ := strings.Cut(route, " ")
		for _, headers := range [][]string{
			{"Authorization", ""},
			{"Authorization", "Bearer none"},
			{"Authorization", "Bearer"},
			{"Authorization", "Bearer " + identity.NewSecret()},
			{"Authorization", "Bearer " + token[:len(token)-1]},
			{"Authorization", "Bearer sts_x"},
			{"Authorization", "Basic " + token},
			{"Authorization", "", "Cookie", "token=" + token, "X-Api-Key", token, "X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1"},
		} {
			var body any
			if method != http.MethodGet {
				body = map[string]any{}
			}
			if status, b := n.HTTP(method, path, body, headers...); status != http.StatusUnauthorized {
				t.Errorf("%s with %v: %d %.200s", route, headers[1:], status, b)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, b := n.HTTP("GET", path, nil, "Authorization", ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	if status, b := n.HTTP("GET", "/api/v1/profile", nil); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, b)
	}
}

// stranger runs a command as another account of the machine, in a folder of
// that account. Only root can do that.
func stranger(t *testing.T, dir string, name string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func TestAnotherAccountOfTheMachineGetsNothing(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "files.write", Args: map[string]any{"path": "home/paid.txt", "content": "1000 EUR"}}))})
	if err := os.Mkdir(filepath.Join(n.Dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Write("folders: [{name: home, path: "+filepath.Join(n.Dir, "home")+", write: true}]\n", ".config", "steward", "steward.yaml")
	n.Serve()
	for path, want := range map[string]fs.FileMode{n.Data(): 0o700 | fs.ModeDir, n.Data("token"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if os.Geteuid() != 0 {
		return // no other account to try; the modes above suffice
	}
	c := n.Dial()
	tried := false
	a := c.Turn(map[string]any{"content": "Pay."}, func(q edge.Approval) string {
		tried = true
		attack(t, n, q)
		return "deny"
	})
	if !tried || len(a.Results) != 1 || a.Results[0].Status != "denied" {
		t.Errorf("the question was not the owner's to answer: %+v", a)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "home", "paid.txt")); err == nil {
		t.Error("it was paid")
	}
	for _, path := range []string{"/api/v1/keys", "/api/v1/conversations"} {
		_, b := n.HTTP("GET", path, nil)
		if bytes.Contains(b, []byte("mallory")) {
			t.Errorf("%s", b)
		}
	}
}

// attack tries, as another account, everything worth trying while a question
// waits.
func attack(t *testing.T, n *edge.Node, q edge.Approval) {
	t.Helper()
	dir, err := os.MkdirTemp("", "steward-stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(edge.Binary())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "steward"), program, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{n.Data("token"), n.Data("steward.db"), n.Data("server.json")} {
		if out, err := stranger(t, dir, "cat", path); err == nil {
			t.Errorf("cat %s: %s", path, out)
		}
	}
	for _, args := range [][]string{{"token"}, {"token", "--new"}, {"ask", "Pay mallory."}, {"keys", "create", "--user", "mallory"},
		{"approvals", "list"}, {"conversations", "list"}, {"chat"}} {
		if out, err := stranger(t, dir, filepath.Join(dir, "steward"), append(args, "--data", n.Data())...); err == nil {
			t.Errorf("steward %v: %s", args, out)
		}
	}
	answer, err := json.Marshal(map[string]any{"approve": true, "hash": q.Hash})
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range [][]string{
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"mallory"}]}`},
		{"/api/v1/approvals/" + q.ID, string(answer)},
		{"/api/v1/keys", `{"user":"mallory"}`},
		{"/api/v1/agents/approve", `{"path":"evil","hash":"x"}`},
		{"/api/v1/conversations", ""},
		{"/ws", ""},
		{"/tool.Tool/ExecuteTool", `{"function":{"name":"files.write","arguments":"{}"}}`},
	} {
		for _, credential := range []string{"", "none"} {
			args := []string{"-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer " + credential, "-H", "Content-Type: application/json", n.URL + try[0]}
			if try[1] != "" {
				args = append(args, "-d", try[1])
			}
			if out, err := stranger(t, dir, "curl", args...); err != nil || out != "401" {
				t.Errorf("%s: %s, %v", try[0], out, err)
			}
		}
	}
}

func TestANewTokenReplacesTheOldOneAtOnce(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	printed := strings.TrimSpace(n.Must("token")) // before the first start
	n.Serve()
	old := n.Token()
	if old != printed {
		t.Error("the first start made another token")
	}
	n.Stop()
	n.Serve()
	if n.Token() != old {
		t.Error("a restart has changed the token")
	}
	key := strings.TrimSpace(n.Must("keys", "create", "--user", "ada"))
	mine, hers := n.Dial(), n.Dial(key)
	fresh := strings.TrimSpace(n.Must("token", "--new"))
	if fresh == old || fresh != n.Token() || fresh != strings.TrimSpace(n.Must("token")) {
		t.Error("there is no new token")
	}
	if status, b := n.HTTP("GET", "/api/v1/profile", nil, "Authorization", "Bearer "+old); status != http.StatusUnauthorized {
		t.Errorf("the old token: %d %s", status, b)
	}
	if status, b := n.HTTP("GET", "/api/v1/profile", nil); status != http.StatusOK {
		t.Errorf("the new token: %d %s", status, b)
	}
	if code := mine.Ended(); code != int(websocket.CloseRevoked) {
		t.Errorf("the connection of the old token ends with %d", code)
	}
	if a := hers.Turn(map[string]any{"content": "What is 6 times 7?"}, nil); a.Stop == "" {
		t.Errorf("the connection of a key ends too: %+v", a)
	}
	if out := n.Must("ask", "-q", "What is 6 times 7?"); !strings.Contains(out, "42") {
		t.Errorf("Steward's own commands do not know the new token: %s", out)
	}
}

func TestATokenFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	token := n.Token()
	lay := func(content string, mode fs.FileMode) {
		t.Helper()
		if err := os.WriteFile(n.Data("token"), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(n.Data("token"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(){
		"readable": func() { lay(token, 0o644) },
		"empty":    func() { lay("", 0o600) },
		"damaged":  func() { lay(token[:20], 0o600) },
		"foreign":  func() { lay("secret", 0o600) },
	} {
		spoil()
		for _, credential := range []string{token, "", token[:20], "secret"} {
			if status, b := n.HTTP("GET", "/api/v1/profile", nil, "Authorization", "Bearer "+credential); status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, status, b)
			}
		}
		for _, args := range [][]string{{"token"}, {"ask", "hello"}, {"doctor"}} {
			if r := n.Run(args...); r.Code == 0 || !strings.Contains(r.Out+r.Err, "steward token --new") {
				t.Errorf("%s: steward %v: %d %s%s", name, args, r.Code, r.Out, r.Err)
			}
		}
		token = strings.TrimSpace(n.Must("token", "--new"))
		if status, b := n.HTTP("GET", "/api/v1/profile", nil, "Authorization", "Bearer "+token); status != http.StatusOK {
			t.Errorf("%s: a new token does not help: %d %s", name, status, b)
		}
	}
	n.Stop()
	lay("", 0o600)
	if r := n.Run("serve"); r.Code == 0 || !strings.Contains(r.Err, "token_unusable") {
		t.Errorf("it serves with an empty token: %d %s%s", r.Code, r.Out, r.Err)
	}
}

// The token appears in no environment and no argument of the programs that
// Steward starts, in no log, and in no file but its own, even if somebody
// pastes it into a message.
func TestTheTokenStaysInItsFile(t *testing.T) {
	t.Parallel()
	look := edge.Steps(edge.Call{Name: "spy.look", Args: map[string]any{}})
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if bytes.Contains(in.Body, []byte("sk-steward-")) {
			t.Errorf("the model is sent a token: %.300s", in.Body)
		}
		return look(in)
	}), Settings: "log: {level: debug}\n"})
	n.Write("name: spy\ndescription: Looks around.\nprocess:\n  spy:\n    command: ./look.sh\n    tools:\n      - {name: look, description: Look around., effect: query}\n", "data", "agents", "spy", "agent.yaml")
	n.Write(edge.Tool+`answer "{\"seen\":\"$( (env; cat /proc/*/environ /proc/*/cmdline; printf '%s' "$request") 2>/dev/null | base64 | tr -d '\n')\"}"`,
		"data", "agents", "spy", "look.sh")
	n.Must("agents", "approve", "spy", "--yes")
	n.Serve()
	token := n.Token()
	a := n.Dial().Turn(map[string]any{"content": "Look around for " + token, "agent": "spy"}, func(edge.Approval) string { return "approve" })
	if len(a.Results) != 1 || a.Results[0].Status != "ok" || len(a.Results[0].Result) < 200 {
		t.Fatalf("%+v", a)
	}
	var told struct{ Seen []byte }
	if err := json.Unmarshal([]byte(a.Results[0].Result), &told); err != nil {
		t.Fatalf("%v: %s", err, a.Results[0].Result)
	}
	if bytes.Contains(told.Seen, []byte(token)) || !bytes.Contains(told.Seen, []byte("PATH=")) {
		t.Errorf("a program sees %q", told.Seen)
	}
	n.Must("ask", "-q", "--agent", "spy", "Look around.")
	n.Stop()
	if strings.Contains(n.Log(), token) {
		t.Error("the log has the token")
	}
	err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == n.Data("token") {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(token)) {
			err = fmt.Errorf("%s has the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestServePrintsACommandThatWorks(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	cmd := exec.Command(edge.Binary(), "serve", "--listen", "0.0.0.0:0", "--data", filepath.Join(n.Dir, "it's")) // a folder whose name needs quoting
	cmd.Env, cmd.Dir = n.Env, n.Dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	var curl, said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		line := strings.TrimSpace(lines.Text())
		if rest, ok := strings.CutPrefix(line, "try "); ok {
			line = strings.TrimSpace(rest)
		} else if curl.Len() == 0 {
			continue
		}
		curl.WriteString(line + "\n")
		if !strings.HasSuffix(line, "\\") {
			break
		}
	}
	if !strings.Contains(said.String(), "serves at http://127.0.0.1:") || strings.Contains(said.String(), identity.Prefix) {
		t.Errorf("it says\n%s", said.String())
	}
	paste := exec.Command("sh", "-c", curl.String())
	paste.Env = []string{"PATH=" + os.Getenv("PATH")}
	b, err := paste.CombinedOutput()
	if err != nil || !bytes.Contains(b, []byte(`"object":"chat.completion"`)) {
		t.Errorf("%s%v: %s", curl.String(), err, b)
	}
}
