//go:build linux

// Package cluster runs several Stewards on one machine, with a PostgreSQL and a NATS cluster of three, and breaks
// them on request: a node is killed, suspended or cut off, the database crashes, a NATS server ends.
//
// Everything else of their world is in the process of the test and outlives each of them: the model, the ledger
// that counts effects, and the people, who change to another node when theirs does not answer. Each life of a node
// works as a database role of its own. A trigger notes which role wrote which entry of the log, so that the writers
// can be compared with the holders afterwards (see Witness).
//
// If the process is root, each node has a network namespace of its own, which is cut off as a whole. Otherwise the
// node reaches PostgreSQL and the NATS servers through proxies that pass nothing on while it is cut off; then it
// still reaches the model, the ledger and its clients.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"steward/internal/store/postgres"
	pgtest "steward/test/postgres"
)

// Options configure a Rig.
type Options struct {
	Dir      string // of everything
	Binary   string // the steward program
	Nodes    int
	Alone    bool     // the nodes are told of no cluster; there may be one only
	SQLite   bool     // no PostgreSQL; implies Alone
	Servers  []string // of NATS that run already; none: three are started
	Direct   bool     // nothing stands between the nodes and the servers, so that none can be cut off
	Proxies  bool     // no namespaces, even if they can be made
	Settings string   // further settings
	Model    http.Handler
	Ledger   http.Handler // an MCP server; nil: none
}

// Rig is what runs.
type Rig struct {
	opt      Options
	Nodes    []*Node
	Postgres *pgtest.Cluster
	database string
	servers  *NATS
	network  *network // nil: there are no namespaces
	modelURL string
	closing  []func()
}

// Silence is after how long without a sign of life a node's work is given to another.
const Silence = 5 * time.Second

// New starts PostgreSQL and the NATS servers, and prepares the nodes. None runs yet.
func New(o Options) (*Rig, error) {
	r := &Rig{opt: o}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) open() (err error) {
	o := r.opt
	if !o.Direct && !o.Proxies && canSeparate() {
		if r.network, err = newNetwork(o.Nodes); err != nil {
			return err
		}
		r.closing = append(r.closing, r.network.close)
	}
	if !o.SQLite {
		if err := r.openPostgres(); err != nil {
			return err
		}
	}
	if !o.Alone && !o.SQLite && o.Servers == nil {
		if r.servers, err = StartNATS(o.Dir, 3); err != nil {
			return err
		}
		r.closing = append(r.closing, r.servers.Close)
	}
	if r.modelURL, err = r.serve(o.Model); err != nil {
		return err
	}
	ledger := ""
	if o.Ledger != nil {
		if ledger, err = r.serve(o.Ledger); err != nil {
			return err
		}
	}
	for i := range o.Nodes {
		n := &Node{rig: r, number: i, Name: fmt.Sprint("n", i+1), dir: filepath.Join(o.Dir, fmt.Sprint("n", i+1))}
		if err := n.prepare(ledger); err != nil {
			return err
		}
		r.Nodes = append(r.Nodes, n)
	}
	return nil
}

// serve serves in this process, where the nodes reach it.
func (r *Rig) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(r.host(), "0"))
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h}
	go s.Serve(l) //nolint:errcheck // it ends with Close
	r.closing = append(r.closing, func() { s.Close() })
	return "http://" + l.Addr().String(), nil
}

// host is the address at which the nodes reach this process.
func (r *Rig) host() string {
	if r.network != nil {
		return bridgeHost()
	}
	return "127.0.0.1"
}

// openPostgres starts a database whose log has a witness.
func (r *Rig) openPostgres() (err error) {
	if r.Postgres, err = pgtest.Start(true); err != nil {
		return err
	}
	r.closing = append(r.closing, func() { r.Postgres.Close() })
	r.database = "steward"
	ctx := context.Background()
	if err := r.Postgres.Exec(ctx, "postgres", "CREATE DATABASE steward OWNER "+pgtest.Owner); err != nil {
		return err
	}
	if err := postgres.Prepare(ctx, r.Postgres.URL(pgtest.Owner, r.database), pgtest.App); err != nil {
		return err
	}
	return r.Postgres.Exec(ctx, r.database,
		"CREATE SCHEMA witness",
		"CREATE TABLE witness.wrote (seq bigint PRIMARY KEY, role name NOT NULL)",
		`CREATE FUNCTION witness.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
			AS $$ BEGIN INSERT INTO witness.wrote VALUES (NEW.seq, session_user); RETURN NEW; END $$`,
		"CREATE TRIGGER witness AFTER INSERT ON steward.log FOR EACH ROW EXECUTE FUNCTION witness.note()")
}

// Close ends everything.
func (r *Rig) Close() {
	for _, n := range r.Nodes {
		n.Kill()
		for _, p := range n.proxies {
			p.close()
		}
	}
	for _, end := range slices.Backward(r.closing) {
		end()
	}
	r.closing = nil
}

// StartAll starts all nodes.
func (r *Rig) StartAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, n := range r.Nodes {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the store of the nodes, none of which runs any more.
func (r *Rig) Open(ctx context.Context) (*postgres.Store, error) {
	return postgres.Open(ctx, postgres.Options{URL: r.Postgres.URL(pgtest.App, r.database), Log: slog.New(slog.DiscardHandler)})
}

// CrashPostgres stops the database as if the machine had lost its power, and starts it again.
func (r *Rig) CrashPostgres() error {
	r.Postgres.Stop(syscall.SIGQUIT)
	return r.Postgres.Start()
}

// StopServer ends one of the NATS servers; StartServer starts it again.
func (r *Rig) StopServer(i int)        { r.servers.stop(i) }
func (r *Rig) StartServer(i int) error { return r.servers.start(i) }

// Node is one Steward, in all its lives.
type Node struct {
	rig     *Rig
	number  int
	Name    string
	dir     string
	proxies []*proxy
	store   string   // host:port of PostgreSQL, or the folder of its socket
	servers []string // of NATS
	log     Log

	mu    sync.Mutex
	life  int
	cmd   *exec.Cmd
	done  chan struct{}
	url   string
	token string
	exits []string // of lives that ended by themselves
}

// prepare writes what the node finds at its start.
func (n *Node) prepare(ledger string) error {
	r := n.rig
	write := func(text string, names ...string) error {
		path := filepath.Join(append([]string{n.dir}, names...)...)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	var err error
	through := func(dial func() (net.Conn, error)) string {
		p, e := newProxy(r.host(), dial)
		if e != nil {
			err = errors.Join(err, e)
			return ""
		}
		n.proxies = append(n.proxies, p)
		return p.address()
	}
	if r.Postgres != nil {
		folder := socketFolder(r.Postgres.URL(pgtest.App, r.database))
		n.store = folder
		if !r.opt.Direct {
			n.store = through(func() (net.Conn, error) { return net.Dial("unix", filepath.Join(folder, ".s.PGSQL.5432")) })
		}
	}
	if r.servers != nil {
		for i := range r.servers.options {
			address := r.servers.Address(i)
			if !r.opt.Direct {
				address = through(func() (net.Conn, error) { return net.Dial("tcp", r.servers.Address(i)) })
			}
			n.servers = append(n.servers, address)
		}
	}
	n.servers = append(n.servers, r.opt.Servers...)
	settings := "limits: {iterations: 60, time: 1h}\nmemory: {off: true}\nweb: {off: true}\nbrowser: {off: true}\nweather: {off: true}\nshell: {off: true}\n" + r.opt.Settings
	err = errors.Join(err, write(settings, ".config", "steward", "steward.yaml"),
		write("package steward\ntrusted if startswith(input.tool.name, \"ledger.\")\ntrusted if startswith(input.tool.name, \"plan.\")\n", "data", "policies", "chaos.rego"))
	if err == nil && ledger != "" {
		err = n.approve(ledger, write)
	}
	if err == nil && len(n.servers) > 0 { // only now: a node of a cluster does nothing alone
		err = write(settings+fmt.Sprintf("cluster: {servers: ['nats://%s'], silence: %s}\n", strings.Join(n.servers, "', 'nats://"), Silence), ".config", "steward", "steward.yaml")
	}
	return err
}

// approve gives the node the ledger's tools.
func (n *Node) approve(ledger string, write func(text string, names ...string) error) error {
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"ledger": map[string]any{"url": ledger, "users": []string{"*"}, "yields": []string{}, "reach": "here"}}})
	if err != nil {
		return err
	}
	if err := write(string(servers), "data", "mcp.json"); err != nil {
		return err
	}
	_, err = n.Run("agents", "approve", "mcp:ledger", "--yes")
	return err
}

// socketFolder returns the folder that an address of PostgreSQL names.
func socketFolder(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Query().Get("host")
}

// storeURL is the address of the database for a role.
func (n *Node) storeURL(role string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + n.rig.database}
	if strings.HasPrefix(n.store, "/") {
		u.RawQuery = "host=" + url.QueryEscape(n.store)
	} else {
		u.Host, u.RawQuery = n.store, "sslmode=disable"
	}
	return u.String()
}

// env returns the environment of a life.
func (n *Node) env(role string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "STEWARD_DATA=" + filepath.Join(n.dir, "data"), "OLLAMA_HOST=127.0.0.1:1", "NO_COLOR=1",
		"STEWARD_LOG_LEVEL=warn", "OPENAI_API_KEY=none", "OPENAI_BASE_URL=" + n.rig.modelURL + "/" + n.Name + "/v1"}
	for _, name := range []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOTRACEBACK"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if n.rig.Postgres != nil {
		env = append(env, "STEWARD_STORE="+n.storeURL(role), "STEWARD_STORE_OWNER="+n.storeURL(pgtest.Owner))
	}
	return env
}

// command prepares a process of the node.
func (n *Node) command(role string, args ...string) *exec.Cmd {
	all := append([]string{n.rig.opt.Binary}, args...)
	if n.rig.network != nil {
		all = append(n.rig.network.enter(n.number), all...)
	}
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env, cmd.Dir = n.env(role), n.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // it ends with the test, however that ends
	return cmd
}

// Run runs a command at the node.
func (n *Node) Run(args ...string) (string, error) {
	out, err := n.command(pgtest.App, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("steward %s at %s: %w: %s", strings.Join(args, " "), n.Name, err, out)
	}
	return string(out), nil
}

// listen is where the node listens.
func (n *Node) listen() string {
	if n.rig.network != nil {
		return host(firstHost+n.number) + ":7420"
	}
	return "127.0.0.1:0"
}

// Start starts the node. If it does not start, as when the database is away, it is started again until ctx ends.
func (n *Node) Start(ctx context.Context, args ...string) error {
	for {
		err := n.startOnce(args...)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		n.mu.Lock()
		n.exits = append(n.exits, "at its start: "+err.Error())
		n.mu.Unlock()
		pause(ctx, 200*time.Millisecond)
	}
}

func (n *Node) startOnce(args ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life++
	role := pgtest.App
	if n.rig.Postgres != nil {
		role = fmt.Sprintf("%s_%d", n.Name, n.life)
		if err := n.rig.Postgres.Exec(context.Background(), "postgres", "CREATE ROLE "+role+" LOGIN"); err != nil {
			return err
		}
	}
	if len(args) == 0 {
		args = []string{"serve", "--json", "--listen", n.listen()}
	}
	cmd := n.command(role, args...)
	cmd.Stderr = &n.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the signal of Pdeathsig comes when this thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			<-done
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		defer close(done)
		return fmt.Errorf("%s does not start: %w, %w: %s", n.Name, err, cmd.Wait(), n.log.tail(2000))
	}
	token, err := os.ReadFile(filepath.Join(n.dir, "data", "token"))
	if err != nil {
		defer close(done)
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	n.cmd, n.done, n.url, n.token = cmd, done, notice.URL, strings.TrimSpace(string(token))
	go func() {
		io.Copy(io.Discard, out) //nolint:errcheck // whatever else it prints
		err := cmd.Wait()
		n.mu.Lock()
		if n.cmd == cmd { // nobody has ended it
			n.exits = append(n.exits, fmt.Sprintf("%v: %s", err, n.log.tail(2000)))
			n.cmd, n.url = nil, ""
		}
		n.mu.Unlock()
		close(done)
	}()
	return nil
}

// URL returns where the node is served, "" if it is not.
func (n *Node) URL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.url
}

// Token returns the credential of the machine's own user.
func (n *Node) Token() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.token
}

// PID returns the id of the process, 0 if there is none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Alive reports whether the process runs.
func (n *Node) Alive() bool { return n.PID() != 0 }

// Exits returns how lives ended that nobody ended.
func (n *Node) Exits() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.exits...)
}

// Log returns the end of what the node has written to standard error.
func (n *Node) Log() string { return n.log.tail(16 << 20) }

func (n *Node) end(signal os.Signal) error {
	n.mu.Lock()
	cmd, done := n.cmd, n.done
	n.cmd, n.url = nil, ""
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-done
	if signal == os.Interrupt && !cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended with %s: %s", n.Name, cmd.ProcessState, n.log.tail(2000))
	}
	return nil
}

// Kill ends the node as kill -9 does.
func (n *Node) Kill() { n.end(syscall.SIGKILL) } //nolint:errcheck // it may have ended

// Stop ends the node as Ctrl-C does.
func (n *Node) Stop() error { return n.end(os.Interrupt) }

// Dump ends the node; what its goroutines were at is at the end of its log.
func (n *Node) Dump() { n.end(syscall.SIGQUIT) } //nolint:errcheck // it may have ended

// Suspend stops the process where it stands; Continue lets it go on.
func (n *Node) Suspend()  { n.signal(syscall.SIGSTOP) }
func (n *Node) Continue() { n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) {
	if pid := n.PID(); pid != 0 {
		syscall.Kill(pid, s) //nolint:errcheck // it may have ended
	}
}

// Cut cuts the node off; Heal takes that back.
func (n *Node) Cut() error {
	if n.rig.network != nil {
		return n.rig.network.cut(n.number)
	}
	for _, p := range n.proxies {
		p.cut()
	}
	return nil
}

// Heal connects a node again that was cut off.
func (n *Node) Heal() error {
	if n.rig.network != nil {
		return n.rig.network.heal(n.number)
	}
	for _, p := range n.proxies {
		p.heal()
	}
	return nil
}

// Separated reports whether nodes have namespaces of their own.
func (r *Rig) Separated() bool { return r.network != nil }

// Log keeps the end of what a process writes.
type Log struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b = append(l.b, p...); len(l.b) > 32<<20 {
		l.b = l.b[len(l.b)-(16<<20):]
	}
	return len(p), nil
}

func (l *Log) tail(most int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b[max(0, len(l.b)-most):])
}
