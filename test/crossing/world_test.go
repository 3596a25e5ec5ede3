// Package crossing requests another user's data from the real binary by each
// route, frame, method, tool and command. It compares its tables with those of
// the servers, so a route without an entry here is a failure.
package crossing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/apis"
	"steward/test/edge"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

// Ann and bob are in the group family, eve is in none, and local is the admin,
// who owns the machine.
const (
	ann, bob, eve = "ann", "bob", "eve"
	local         = identity.Local
	family        = "family"
)

// world is a served node and everything known about its users' data.
type world struct {
	*edge.Node
	secrets  map[string]string          // each user's credential
	sessions map[string]*http.Cookie    // each user's session of a browser
	log      store.Store                // for reading
	spare    map[string]id.ID           // keys of users that can be revoked
	known    string                     // in the names of people and groups, which admins manage
	shared   string                     // in all of the family's data
	canary   map[string]string          // in all of a user's data
	ids      map[string]map[string]bool // ids of each user's things
	named    map[string]bool            // ids that a user has named, each preceded by the user's name
	seen     map[resource.Space]uint64  // last sequence number read of the log
	task     string                     // ann's task, which reports progress
	told     string                     // everything received in the last turn
	marker   string                     // the text that ends a streamed answer
}

func newWorld(t *testing.T) *world {
	w := &world{secrets: map[string]string{}, sessions: map[string]*http.Cookie{}, spare: map[string]id.ID{},
		ids: map[string]map[string]bool{ann: {}, local: {}, family: {}}, named: map[string]bool{}, canary: map[string]string{}, seen: map[resource.Space]uint64{}}
	w.known = "knowncanary" + strings.ReplaceAll(id.New().String(), "-", "")
	w.shared = "ourcanary" + strings.ReplaceAll(id.New().String(), "-", "")
	for _, u := range []string{ann, local} {
		w.canary[u] = u + "canary" + strings.ReplaceAll(id.New().String(), "-", "")
	}
	// Conversations are not read for facts: that happens minutes later, during any call, and is paid for in ann's space.
	w.Node = edge.New(t, edge.Options{Model: edge.Script(t, reply), Env: []string{"STEWARD_TIMEOUTS_SHUTDOWN=1h", "STEWARD_MEMORY_READ=false"}})
	w.desk()
	w.Must("agents", "approve", "--all", "--yes")
	w.people()
	w.Serve()
	t.Cleanup(func() {
		if w.Stop(); strings.Contains(w.Log(), "panic") {
			t.Error(w.Log())
		}
	})
	w.secrets[local] = w.Token()
	for _, u := range []string{ann, bob, eve, local} {
		w.sessions[u] = w.signIn(u)
	}
	w.log = w.ReadStore()
	return w
}

// desk writes the settings, an agent with services and tools of several kinds, and
// an agent that keeps resources.
func (w *world) desk() {
	w.Write(fmt.Sprintf("agents: [%q]\nfolders: [{name: notes, path: %q, write: true, users: [\"*\"]}]\nmodels: {default: {use: openai/gpt-test}, embed: {use: offline/lexical}}\n",
		filepath.Join(w.Dir, "agents"), filepath.Join(w.Dir, "notes")), ".config", "steward", "steward.yaml")
	w.Write("name: desk\ndescription: Does what a desk is for.\n"+
		"tools: [todo.*, calendar.*]\n"+
		"process:\n  slow:\n    command: ./slow\n    tools: [{name: work, description: Takes its time., effect: query, async: true}]\n"+
		"services:\n  state: {source: local, offering: serve, tools: true}\n  db: {source: local, offering: serve, tools: true}\n", "agents", "desk", "agent.yaml")
	w.Write(edge.Tool+"answer null\n", "agents", "desk", "slow")
	w.Write("name: keeper\ndescription: Keeps things.\ntools: [resource.*]\n", "agents", "keeper", "agent.yaml")
	w.Write(law, "data", "policies", "law.rego")
	w.Write("welcome\n", "notes", "welcome.txt")
}

// law is the policy: only calls about files need approval, and the family
// approves some of them.
const law = `package steward

trusted if not startswith(input.tool.name, "files.")

approvers contains "family" if contains(input.args.path, "ours.txt")
`

// people creates the users, their group and their keys.
func (w *world) people() {
	ctx := context.Background()
	st := w.OpenStore(false)
	reg := identity.New(st)
	for _, u := range []string{ann, bob, eve} {
		display := u
		if u == ann {
			display = "Ann " + w.known
		}
		if _, err := reg.AddUser(ctx, local, u, identity.AccountChange{Display: &display}); err != nil {
			w.T.Fatal(err)
		}
		_, secret, err := reg.Create(ctx, "local", u, "the key of "+u, time.Time{})
		if err != nil {
			w.T.Fatal(err)
		}
		w.secrets[u] = secret
	}
	if _, err := reg.AddGroup(ctx, local, identity.NewGroup{Name: family, Display: "Family " + w.known, Members: []string{ann, bob}, Managers: []string{ann}}); err != nil {
		w.T.Fatal(err)
	}
	for _, u := range []string{ann, local} {
		k, _, err := reg.Create(ctx, "local", u, w.mark(u, "key"), time.Time{})
		if err != nil {
			w.T.Fatal(err)
		}
		w.spare[u] = k.ID
	}
	if err := st.Close(); err != nil {
		w.T.Fatal(err)
	}
}

// watched runs an endless command until it has printed the marker.
func (w *world) watched(args ...string) edge.Result {
	cmd := w.Command(args...)
	all := &until{text: w.marker, seen: func() { cmd.Process.Signal(syscall.SIGINT) }} //nolint:errcheck // it may have ended
	cmd.Stdout, cmd.Stderr = all, all
	cmd.Run() //nolint:errcheck // the exit code says it
	return edge.Result{Out: string(all.all), Code: cmd.ProcessState.ExitCode()}
}

// until is a writer that calls seen, once, when text has been written to it: a
// second signal would end the program at once.
type until struct {
	all  []byte
	text string
	seen func()
	once sync.Once
}

func (u *until) Write(b []byte) (int, error) {
	if u.all = append(u.all, b...); bytes.Contains(u.all, []byte(u.text)) {
		u.once.Do(u.seen)
	}
	return len(b), nil
}

// entries returns the changes of a space after a sequence number, and the
// newest number.
func (w *world) entries(sp resource.Space, after uint64) (list []resource.Entry, last uint64) {
	w.T.Helper()
	last = after
	sc := store.Scope{Actor: "test", Read: []resource.Space{sp}, Write: sp}
	for e, err := range store.Entries(context.Background(), w.log, sc, store.LogQuery{Since: after, Limit: 1000}) {
		if err != nil {
			w.T.Fatal(err)
		}
		list, last = append(list, e), max(last, e.Seq)
	}
	return list, last
}

// reply is the model: if the user says CALL tool {…}, it makes that call.
// Otherwise it repeats its input.
func reply(in edge.Asked) edge.Reply {
	text := in.User()
	if in.Last().Role != "user" {
		text = apis.AsWritten(in.Last().Text())
	}
	if _, rest, ok := strings.Cut(text, "CALL "); ok && in.Last().Role == "user" {
		name, rest, _ := strings.Cut(rest, " ")
		var args json.RawMessage
		if err := json.NewDecoder(strings.NewReader(rest)).Decode(&args); err != nil {
			return edge.Refuse(400, fmt.Sprintf("%v: %s", err, rest))
		}
		return edge.Reply{Calls: []edge.Call{{Name: name, Args: args}}}
	}
	return edge.Reply{Text: "You said: " + text}
}
