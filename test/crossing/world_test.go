// Package crossing asks the real binary for another user's data by each route,
// frame, method, tool and command. It compares its tables with those that the
// servers serve from, so a route without an entry here is a failure.
package crossing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/edge"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

// The people. Ann and bob are in the group family, eve is in none, and local
// is the admin whose machine it is.
const (
	ann, bob, eve = "ann", "bob", "eve"
	local         = identity.Local
	family        = "family"
)

// world is a node that serves, and all that is known of it.
type world struct {
	*edge.Node
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
	w := &world{secrets: map[string]string{}, spare: map[string]id.ID{},
		ids: map[string]map[string]bool{ann: {}, local: {}, family: {}}, named: map[string]bool{}, canary: map[string]string{}, seen: map[resource.Space]uint64{}}
	w.known = "knowncanary" + strings.ReplaceAll(id.New().String(), "-", "")
	w.shared = "ourcanary" + strings.ReplaceAll(id.New().String(), "-", "")
	for _, u := range []string{ann, local} {
		w.canary[u] = u + "canary" + strings.ReplaceAll(id.New().String(), "-", "")
	}
	w.Node = edge.New(t, edge.Options{Model: edge.Script(t, reply), Env: []string{"STEWARD_TIMEOUTS_SHUTDOWN=" + edge.Patience.String()}})
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
	var err error
	if w.log, err = sqlite.Open(t.Context(), sqlite.Options{Path: w.Data("steward.db"), ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.log.Close() })
	return w
}

// desk writes the settings, an agent that has one of each domain, and one that
// keeps resources.
func (w *world) desk() {
	w.Write(fmt.Sprintf("agents: [%q]\nfolders: [{name: notes, path: %q, write: true, users: [\"*\"]}]\nmodels: {default: {use: openai/gpt-test}}\n",
		filepath.Join(w.Dir, "agents"), filepath.Join(w.Dir, "notes")), ".config", "steward", "steward.yaml")
	w.Write("name: desk\ndescription: Does what a desk is for.\n"+
		"domains: {state: , db: , task: , calendar: , timer: , email: {from: Me <me@example.com>}, weather: , websearch: {folder: ./web, users: [\"*\"]}, document: {folder: ./documents, users: [\"*\"]}}\n"+
		"services:\n  state: {source: local, offering: serve}\n  db: {source: local, offering: serve}\n", "agents", "desk", "agent.yaml")
	w.Write("name: keeper\ndescription: Keeps things.\ntools: [resource.*]\n", "agents", "keeper", "agent.yaml")
	w.Write("# Lighthouses\n\nThey shine.\n", "agents", "desk", "web", "page.md")
	w.Write("# Bridges\n\nThey span.\n", "agents", "desk", "documents", "doc.md")
	w.Write(law, "data", "policies", "law.rego")
	w.Write("welcome\n", "notes", "welcome.txt")
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
	st, err := sqlite.Open(ctx, sqlite.Options{Path: w.Data("steward.db")})
	if err != nil {
		w.T.Fatal(err)
	}
	reg := identity.New(st)
	for _, u := range []string{ann, bob, eve} {
		display := u
		if u == ann {
			display = "Ann " + w.known
		}
		if _, err := reg.AddUser(ctx, local, u, identity.AccountChange{Display: &display}); err != nil {
			w.T.Fatal(err)
		}
		_, secret, err := reg.Create(ctx, u, "the key of "+u, time.Time{})
		if err != nil {
			w.T.Fatal(err)
		}
		w.secrets[u] = secret
	}
	if _, err := reg.AddGroup(ctx, local, identity.NewGroup{Name: family, Display: "Family " + w.known, Members: []string{ann, bob}, Managers: []string{ann}}); err != nil {
		w.T.Fatal(err)
	}
	for _, u := range []string{ann, local} {
		k, _, err := reg.Create(ctx, u, w.mark(u, "key"), time.Time{})
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

// entries are the changes of a space after a sequence number, and the newest
// number.
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
// Otherwise it repeats what it was told.
func reply(in edge.Asked) edge.Reply {
	text := in.Last().Text()
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
