//go:build linux

// Package postgres starts a PostgreSQL for the tests of one binary, and gives each
// test a database of its own.
//
// The cluster is made by initdb in a temporary folder and listens on a Unix socket
// there only. It starts with the first test that needs it and ends with the test
// binary, also if that is killed. PostgreSQL refuses to run as root, so a root
// starts it as the user postgres, which Debian's package creates. A package that
// uses it runs its tests through Main.
//
// Nothing is synced to disk, so that tests are quick; a benchmark asks for Synced.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The roles of every cluster. The owner of a database is no superuser either.
const (
	super = "postgres"
	Owner = "owner"
	App   = "steward"
)

// Cluster is a running PostgreSQL.
type Cluster struct {
	dir   string // its data, and its socket
	bin   string
	as    *syscall.Credential // nil: the user of the test
	sync  bool
	done  chan error
	cmd   *exec.Cmd
	mu    sync.Mutex
	count atomic.Int64
}

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests of a package, then ends the cluster if one was started.
func Main(run func() int) int {
	code := run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "ending PostgreSQL:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Shared returns the cluster of the test binary.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = Start(false) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Start makes a cluster and starts it. A synced one writes as a real one does.
func Start(synced bool) (*Cluster, error) {
	c := &Cluster{sync: synced}
	initdb, err := program("initdb")
	if err != nil {
		return nil, err
	}
	c.bin = filepath.Dir(initdb)
	if c.dir, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if c.as, err = servant(); err != nil {
			return nil, err
		}
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := c.command("initdb", "-D", c.data(), "-U", super, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	for _, role := range []string{Owner, App} {
		if err := c.Exec(context.Background(), "postgres", "CREATE ROLE "+role+" LOGIN"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// program finds a program of PostgreSQL. Debian keeps them out of the path.
func program(name string) (string, error) {
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/opt/homebrew/opt/postgresql@*/bin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return slices.Max(found), nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the tests need PostgreSQL: install postgresql-15: %w", err)
	}
	return filepath.EvalSymlinks(path)
}

func servant() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Pdeathsig ends PostgreSQL with the test, however that ends.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return cmd
}

// Start starts a cluster that was stopped.
func (c *Cluster) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	durable := "off"
	if c.sync {
		durable = "on"
	}
	args := []string{"-D", c.data(), "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
		"-c", "fsync=" + durable, "-c", "full_page_writes=" + durable, "-c", "max_wal_size=512MB"}
	var log bytes.Buffer
	started := make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal of Pdeathsig comes when this thread ends
		c.cmd = c.command("postgres", args...)
		c.cmd.Stderr = &log
		err := c.cmd.Start()
		started <- err
		if err == nil {
			done <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.done = done
	for {
		err := c.Exec(context.Background(), "postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case err := <-done:
			return fmt.Errorf("PostgreSQL has ended: %w\n%s", err, log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop stops the cluster: with SIGINT in order, with SIGQUIT as if it had crashed.
func (c *Cluster) Stop(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		c.cmd.Process.Signal(signal)
		<-c.done
		c.done = nil
	}
}

// Close stops the cluster and removes it.
func (c *Cluster) Close() error {
	c.Stop(syscall.SIGQUIT)
	return os.RemoveAll(c.dir)
}

// URL returns the address of a database for a role.
func (c *Cluster) URL(role, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: "host=" + url.QueryEscape(c.dir)}).String()
}

// Super returns the address of a database for the superuser, whom no policy binds.
func (c *Cluster) Super(database string) string { return c.URL(super, database) }

// Exec runs statements as the superuser.
func (c *Cluster) Exec(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, c.Super(database))
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s, err), conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}

// Database makes an empty database that Owner owns, as a copy of another if one is
// named, and returns its name.
func (c *Cluster) Database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", c.count.Add(1))
	if err := c.Create(name, template); err != nil {
		t.Fatal(err)
	}
	return name
}

// Create is Database with a name that the caller chooses.
func (c *Cluster) Create(name, template string) error {
	statement := "CREATE DATABASE " + name + " OWNER " + Owner
	if template != "" {
		statement += " TEMPLATE " + template
	}
	return c.Exec(context.Background(), "postgres", statement)
}

// CPU returns the time that the cluster has computed, in steps of the kernel's clock
// tick (10 ms), with the sessions that have ended.
func (c *Cluster) CPU() (all time.Duration, err error) {
	c.mu.Lock()
	postmaster := c.cmd.Process.Pid
	c.mu.Unlock()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // from the third field of proc(5) on
		of := []string{f[11], f[12]}
		switch {
		case filepath.Base(filepath.Dir(file)) == strconv.Itoa(postmaster):
			of = append(of, f[13], f[14]) // of sessions that have ended
		case f[1] != strconv.Itoa(postmaster):
			continue
		}
		for _, ticks := range of {
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return all, nil
}
