// Package crossing asks the real binary for another user's data by each route,
// frame, method, tool and command. It compares its tables with those that the
// servers serve from, so a route without an entry here is a failure.
package crossing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/apis"
	"steward/test/built"
)

// The people. Ann and bob are in the group family, eve is in none, and local
// is the admin whose machine it is.
const (
	ann, bob, eve = "ann", "bob", "eve"
	local         = identity.Local
	family        = "family"
)

// world is a Steward that serves, and all that is known of it.
type world struct {
	t       *testing.T
	bin     string
	dir     string
	env     []string
	url     string
	secrets map[string]string          // what each user shows
	log     *sqlite.Store              // for reading
	spare   map[string]id.ID           // keys of users that can be revoked
	known   string                     // is in the names of people and groups, which admins look after
	shared  string                     // is in all that is the family's
	canary  map[string]string          // is in all that is a user's
	ids     map[string]map[string]bool // of what is a user's
	named   map[string]bool            // ids that a user has named himself, behind his name
	seen    map[resource.Space]uint64  // how far the log was read
	task    string                     // the task of ann's, which says how far it is
	told    string                     // all that came in the last turn
	marker  string                     // what is told last, where something is streamed
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), secrets: map[string]string{}, spare: map[string]id.ID{},
		ids: map[string]map[string]bool{ann: {}, local: {}, family: {}}, named: map[string]bool{}, canary: map[string]string{}, seen: map[resource.Space]uint64{}}
	w.known = "knowncanary" + strings.ReplaceAll(id.New().String(), "-", "")
	w.shared = "ourcanary" + strings.ReplaceAll(id.New().String(), "-", "")
	for _, u := range []string{ann, local} {
		w.canary[u] = u + "canary" + strings.ReplaceAll(id.New().String(), "-", "")
	}
	var err error
	if w.bin, err = built.Program("steward/cmd/steward"); err != nil {
		t.Fatal(err)
	}
	double := httptest.NewServer(model{t})
	t.Cleanup(double.Close)
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "STEWARD_LISTEN=127.0.0.1:0", "OPENAI_API_KEY=test-key",
		"OPENAI_BASE_URL=" + double.URL + "/v1", "OLLAMA_HOST=127.0.0.1:1", "NO_COLOR=1",
		"STEWARD_TIMEOUTS_SHUTDOWN=" + patience.String()}
	w.desk()
	w.must("agents", "approve", "--all", "--yes")
	w.people()
	w.serve()
	return w
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func (w *world) data() string { return w.path("data") }

func (w *world) file(text string, mode os.FileMode, parts ...string) {
	w.t.Helper()
	at := w.path(parts...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), mode)); err != nil {
		w.t.Fatal(err)
	}
}

// desk writes the settings, an agent that has one of each domain, and one that
// keeps resources.
func (w *world) desk() {
	w.file(fmt.Sprintf("agents: [%q]\nfolders: [{name: notes, path: %q, write: true, users: [\"*\"]}]\nmodels: {default: {use: openai/gpt-test}}\n",
		w.path("agents"), w.path("notes")), 0o644, "steward.yaml")
	w.file("name: desk\ndescription: Does what a desk is for.\n"+
		"domains: {state: , db: , task: , calendar: , timer: , email: {from: Me <me@example.com>}, weather: , websearch: {folder: ./web, users: [\"*\"]}, document: {folder: ./documents, users: [\"*\"]}}\n"+
		"services:\n  state: {source: local, offering: serve}\n  db: {source: local, offering: serve}\n", 0o644, "agents", "desk", "agent.yaml")
	w.file("name: keeper\ndescription: Keeps things.\ntools: [resource.*]\n", 0o644, "agents", "keeper", "agent.yaml")
	w.file("# Lighthouses\n\nThey shine.\n", 0o644, "agents", "desk", "web", "page.md")
	w.file("# Bridges\n\nThey span.\n", 0o644, "agents", "desk", "documents", "doc.md")
	w.file(law, 0o600, "data", "policies", "law.rego")
	w.file("welcome\n", 0o644, "notes", "welcome.txt")
}

// law is the policy: nothing is asked but what is about files, and some of it
// is asked of the family.
const law = `package steward

trusted if not startswith(input.tool.name, "files.")

approvers contains "family" if contains(input.args.path, "ours.txt")
`

// people makes the users, their group and their keys.
func (w *world) people() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(w.data(), "steward.db")})
	if err != nil {
		w.t.Fatal(err)
	}
	reg := identity.New(st)
	for _, u := range []string{ann, bob, eve} {
		display := u
		if u == ann {
			display = "Ann " + w.known
		}
		if _, err := reg.AddUser(ctx, local, u, identity.AccountChange{Display: &display}); err != nil {
			w.t.Fatal(err)
		}
		_, secret, err := reg.Create(ctx, u, "the key of "+u, time.Time{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.secrets[u] = secret
	}
	if _, err := reg.AddGroup(ctx, local, identity.NewGroup{Name: family, Display: "Family " + w.known, Members: []string{ann, bob}, Managers: []string{ann}}); err != nil {
		w.t.Fatal(err)
	}
	for _, u := range []string{ann, local} {
		k, _, err := reg.Create(ctx, u, w.mark(u, "key"), time.Time{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.spare[u] = k.ID
	}
	if err := st.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// serve starts Steward and opens its store for reading.
func (w *world) serve() {
	cmd := exec.Command(w.bin, w.flags("serve")...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = w.env, w.dir, &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait()); err != nil || strings.Contains(stderr.String(), "panic") {
			w.t.Errorf("%v\n%s", err, stderr.String())
		}
	})
	line := make([]byte, 1<<10)
	n, err := out.Read(line)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, stderr.String())
	}
	go io.Copy(io.Discard, out)
	w.url = strings.TrimPrefix(strings.Split(string(line[:n]), "\n")[0], "Steward serves at ")
	if w.secrets[local], err = httpauth.ReadToken(w.data()); err != nil {
		w.t.Fatal(err)
	}
	w.log, err = sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(w.data(), "steward.db"), ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.log.Close() })
}

func (w *world) flags(args ...string) []string {
	return append([]string{"--config", w.path("steward.yaml"), "--data", w.data()}, args...)
}

// program is a command of the admin's, to be run beside the server or before it.
func (w *world) program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.bin, w.flags(args...)...)
	cmd.Env, cmd.Dir = w.env, w.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	return cmd
}

// command runs a command to its end.
func (w *world) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := w.program(ctx, args...).CombinedOutput()
	return string(out), err
}

// watched runs a command until it has told what is told last.
func (w *world) watched(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.program(ctx, args...)
	all := &until{text: w.marker, seen: cancel}
	cmd.Stdout, cmd.Stderr = all, all
	err := cmd.Run()
	if errors.Is(err, context.Canceled) { // it has told it, and has ended well
		err = nil
	}
	return string(all.all), err
}

// until says when a text has been written to it.
type until struct {
	all  []byte
	text string
	seen func()
}

func (u *until) Write(b []byte) (int, error) {
	if u.all = append(u.all, b...); bytes.Contains(u.all, []byte(u.text)) {
		u.seen()
	}
	return len(b), nil
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...)
	if err != nil {
		w.t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// entries are the changes of a space after a sequence number, and the newest
// number.
func (w *world) entries(sp resource.Space, after uint64) (list []resource.Entry, last uint64) {
	w.t.Helper()
	last = after
	sc := store.Scope{Actor: "test", Read: []resource.Space{sp}, Write: sp}
	for e, err := range store.Entries(context.Background(), w.log, sc, store.LogQuery{Since: after, Limit: 1000}) {
		if err != nil {
			w.t.Fatal(err)
		}
		list, last = append(list, e), max(last, e.Seq)
	}
	return list, last
}

// model speaks OpenAI's protocol. Where the last message of the user says
// CALL tool {…}, the tool is called with that; else what was said is said
// again.
type model struct{ t *testing.T }

func (m model) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/embeddings" {
		fmt.Fprint(rw, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,0]}],"model":"gpt-test","usage":{"prompt_tokens":1,"total_tokens":1}}`)
		return
	}
	if r.URL.Path != "/v1/chat/completions" {
		fmt.Fprint(rw, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1,"owned_by":"test"}]}`)
		return
	}
	var in struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // whoever asked has gone
	}
	if err := errors.Join(apis.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
		m.t.Errorf("%v: %s", err, body)
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	last := in.Messages[len(in.Messages)-1]
	text := fmt.Sprint(last.Content)
	rw.Header().Set("Content-Type", "text/event-stream")
	say := func(delta map[string]any, finish any) {
		b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
		if err != nil {
			m.t.Error(err)
		}
		fmt.Fprintf(rw, "data: %s\n\n", b)
	}
	if _, rest, ok := strings.Cut(text, "CALL "); ok && last.Role == "user" {
		name, rest, _ := strings.Cut(rest, " ")
		var args json.RawMessage
		if err := json.NewDecoder(strings.NewReader(rest)).Decode(&args); err != nil {
			m.t.Errorf("%v: %s", err, rest)
		}
		say(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "type": "function",
			"function": map[string]any{"name": strings.ReplaceAll(name, ".", "__"), "arguments": string(args)}}}}, nil)
		say(map[string]any{}, "tool_calls")
	} else {
		say(map[string]any{"content": "You said: " + text}, nil)
		say(map[string]any{}, "stop")
	}
	fmt.Fprint(rw, "data: [DONE]\n\n")
}
