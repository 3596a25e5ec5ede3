//go:build linux && long

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pg "steward/internal/store/postgres"
	"steward/test/postgres"
)

const childEnv = "STEWARD_TEST_CLUSTER_NODE"

// child configures a node in a process of its own.
type child struct {
	Name, URL, Dir, Listen string
	Peers                  []string
}

// inside runs a node that the test has started in a process of its own. It answers each line, which is the name of a user,
// with the node that holds his space.
func inside() {
	text, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	var o child
	ctx := context.Background()
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, o.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o *child) run(ctx context.Context) error {
	st, err := pg.Open(ctx, pg.Options{URL: o.URL})
	if err != nil {
		return err
	}
	c, err := Open(ctx, Options{Store: st, Name: o.Name, Works: true, Secret: "a secret of the cluster", Embed: &Embed{Dir: o.Dir, Listen: o.Listen, Peers: o.Peers},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	c.Start(&worker{name: o.Name, pieces: map[Piece]*state{}})
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		node, _, err := c.Reach(ctx, of(in.Text()))
		fmt.Println(node, err)
	}
	return errors.Join(c.Close(ctx), st.Close())
}

type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (o *child) start(t *testing.T) *process {
	t.Helper()
	text, _ := json.Marshal(o)
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), childEnv+"="+string(text))
	p.Stderr = t.Output()
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// holder asks who holds the space of a user.
func (p *process) holder(user string) string {
	fmt.Fprintln(p.in, user)
	p.out.Scan()
	node, _, _ := strings.Cut(p.out.Text(), " ")
	return node
}

// A node that is killed or stands still, with its server, is replaced by another one within seconds. How many is in the log of
// the test.
func TestProcessesThatEnd(t *testing.T) {
	cl, err := postgres.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	db := cl.Database(t, "")
	if err := pg.Prepare(t.Context(), cl.URL(postgres.Owner, db), postgres.App); err != nil {
		t.Fatal(err)
	}
	list, dir := addresses(t, 3), t.TempDir()
	nodes, procs := make([]*child, 3), make([]*process, 3)
	starts := 0
	start := func(i int) {
		starts++
		nodes[i] = &child{Name: fmt.Sprintf("node%d-%d", i, starts), URL: cl.URL(postgres.App, db), Dir: filepath.Join(dir, fmt.Sprint(i)), Listen: list[i], Peers: slices.Delete(slices.Clone(list), i, i+1)}
		procs[i] = nodes[i].start(t)
	}
	for i := range 3 {
		start(i)
	}
	ready := func(i int) {
		if !procs[i].out.Scan() || procs[i].out.Text() != "ready" {
			t.Fatal("a node does not start")
		}
	}
	for i := range 3 {
		ready(i)
	}
	for round := range 6 {
		holder := procs[0].holder("ada")
		at := slices.IndexFunc(nodes, func(n *child) bool { return n.Name == holder })
		other := (at + 1) % 3
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP}[round%2]
		if err := procs[at].Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for next := holder; next == holder || next == ""; {
			time.Sleep(50 * time.Millisecond)
			next = procs[other].holder("ada")
		}
		t.Logf("%s of %s: another holds it after %s", signal, holder, time.Since(began).Round(time.Millisecond))
		if signal == syscall.SIGSTOP {
			_ = procs[at].Process.Signal(syscall.SIGCONT)
			time.Sleep(time.Second)
			continue
		}
		_ = procs[at].Wait()
		start(at)
		ready(at)
		t.Logf("it is back after %s", time.Since(began).Round(time.Millisecond))
	}
	for _, p := range procs {
		_ = p.in.Close()
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
}
