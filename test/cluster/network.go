//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// firstHost is the last number of the first node's address.
const firstHost = 11

// bridgeHost is the address of the bridge that joins the namespaces.
func bridgeHost() string { return host(1) }

// host returns an address of this process's own network.
func host(n int) string { return fmt.Sprintf("10.77.%d.%d", os.Getpid()%250, n) }

// network gives each node a network namespace of its own, which hangs at a bridge. A node is cut off when its end
// of the bridge is taken away: packets are lost in both directions, and nobody is told.
type network struct {
	bridge string
	spaces []*exec.Cmd // hold the namespaces open
}

// canSeparate reports whether this process may make network namespaces and a bridge.
func canSeparate() bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, name := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	name := fmt.Sprintf("stwt%d", os.Getpid())
	if ip("link", "add", name, "type", "bridge") != nil {
		return false
	}
	return ip("link", "del", name) == nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func newNetwork(nodes int) (*network, error) {
	removeLeft()
	n := &network{bridge: fmt.Sprintf("stwb%d", os.Getpid())}
	err := errors.Join(ip("link", "add", n.bridge, "type", "bridge"), ip("addr", "add", bridgeHost()+"/24", "dev", n.bridge), ip("link", "set", n.bridge, "up"))
	for i := 0; i < nodes && err == nil; i++ {
		err = n.add(i)
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// removeLeft removes the bridges of processes that were killed.
func removeLeft() {
	found, _ := filepath.Glob("/sys/class/net/stwb*") //nolint:errcheck // the pattern is right
	for _, path := range found {
		name := filepath.Base(path)
		pid, err := strconv.Atoi(strings.TrimPrefix(name, "stwb"))
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			ip("link", "del", name) //nolint:errcheck // somebody else may do it
		}
	}
}

// end is the name of a node's end of the bridge.
func (n *network) end(i int) string { return fmt.Sprintf("stwv%d.%d", os.Getpid(), i) }

func (n *network) pid(i int) string { return strconv.Itoa(n.spaces[i].Process.Pid) }

func (n *network) add(i int) error {
	cmd := exec.Command("unshare", "-n", "sh", "-c", "echo; exec sleep infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal of Pdeathsig comes when this thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() //nolint:errcheck // it is killed
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	n.spaces = append(n.spaces, cmd)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return err
	}
	inside := func(args ...string) error {
		return run("nsenter", append([]string{"--net=/proc/" + n.pid(i) + "/ns/net", "ip"}, args...)...)
	}
	return errors.Join(
		ip("link", "add", n.end(i), "type", "veth", "peer", "name", "eth0", "netns", n.pid(i)),
		ip("link", "set", n.end(i), "master", n.bridge, "up"),
		inside("addr", "add", host(firstHost+i)+"/24", "dev", "eth0"),
		inside("link", "set", "eth0", "up"),
		inside("link", "set", "lo", "up"))
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// enter is the beginning of a command that runs in a node's namespace. The process keeps its id.
func (n *network) enter(i int) []string {
	return []string{"nsenter", "--net=/proc/" + n.pid(i) + "/ns/net", "--"}
}

func (n *network) cut(i int) error  { return ip("link", "set", n.end(i), "nomaster") }
func (n *network) heal(i int) error { return ip("link", "set", n.end(i), "master", n.bridge) }

func (n *network) close() {
	for _, s := range n.spaces {
		s.Process.Kill() //nolint:errcheck // it may have ended
	}
	ip("link", "del", n.bridge) //nolint:errcheck // there may be none
}
