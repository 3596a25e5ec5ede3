package cluster

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"steward/internal/fault"
	"steward/internal/id"
)

// user is the name under which embedded servers connect to each other.
const user = "steward"

// startServer starts the embedded server.
func (c *Cluster) startServer(ctx context.Context) error {
	e := c.opt.Embed
	name, err := serverName(e.Dir)
	if err != nil {
		return err
	}
	o := &server.Options{
		ServerName: name, DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: e.Dir, SyncAlways: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
		Authorization: c.opt.Secret,
	}
	if e.Clients != "" {
		if o.Host, o.Port, err = split(e.Clients); err != nil {
			return err
		}
		o.DontListen = false
	}
	if len(e.Peers) > 0 {
		o.Cluster.Name = user
		if o.Cluster.Host, o.Cluster.Port, err = split(e.Listen); err != nil {
			return err
		}
		o.Cluster.Username, o.Cluster.Password = user, c.opt.Secret
		if c.opt.Secret == "" {
			o.Cluster.Username = ""
		}
		for _, p := range e.Peers {
			if _, _, err := split(p); err != nil {
				return err
			}
			u := &url.URL{Scheme: "nats-route", Host: p}
			if c.opt.Secret != "" {
				u.User = url.UserPassword(user, c.opt.Secret)
			}
			o.Routes = append(o.Routes, u)
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fault.New(fault.Unavailable, "cluster_refused", "cannot make the NATS server of this node: %w", err).
			WithHint("check the cluster settings")
	}
	c.server = s
	s.SetLoggerV2(serverLog{c.log}, false, false, false)
	s.Start()
	for !s.ReadyForConnections(100*time.Millisecond) && ctx.Err() == nil && s.Running() {
	}
	if !s.Running() || !s.ReadyForConnections(time.Millisecond) {
		return fault.New(fault.Unavailable, "cluster_refused", "the NATS server of this node does not start").
			WithHint("check that cluster.listen is a free address and that %s can be written", e.Dir)
	}
	return nil
}

func (c *Cluster) stopServer(ctx context.Context) error {
	if c.server == nil {
		return nil
	}
	c.server.Shutdown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.server.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "cluster_close_timeout", "the NATS server of this node has not ended in time: %w", context.Cause(ctx))
	}
}

// serverName returns the name of the embedded server. It is kept with its files, since the servers of a cluster
// know each other by name: one that came back under another name would count as one more.
func serverName(dir string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fault.New(fault.Unavailable, "cluster_refused", "cannot use the folder of the NATS server: %w", err).
			WithHint("check that %s can be written", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	path := filepath.Join(dir, "name")
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	name := "steward-" + id.New().String()
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return fail(err)
	}
	return name, nil
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		return "", 0, fault.New(fault.Invalid, "cluster_refused", "%q is not an address of the cluster: %w", address, err).
			WithHint("write host:port")
	}
	return host, port, nil
}

// connect connects to the servers.
func (c *Cluster) connect(ctx context.Context) error {
	options := []nats.Option{
		nats.Name("steward " + c.opt.Name), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.Timeout(5 * time.Second), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn("the connection to the NATS servers broke", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.log.Info("connected to the NATS servers again")
			c.publisher.again()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.log.Warn("the NATS servers report an error", "error", err)
		}),
	}
	if c.opt.Secret != "" {
		options = append(options, nats.Token(c.opt.Secret))
	}
	servers := c.opt.Servers
	if c.opt.Embed != nil {
		if err := c.startServer(ctx); err != nil {
			return err
		}
		options, servers = append(options, nats.InProcessServer(c.server)), ""
	}
	for {
		nc, err := nats.Connect(servers, options...)
		if err == nil {
			c.nc = nc
			break
		}
		if errors.Is(err, nats.ErrAuthorization) {
			return fault.New(fault.Unauthentic, "cluster_refused", "the NATS servers refuse this node: %w", err).
				WithHint("check cluster.secret")
		}
		if !fault.Pause(ctx, 200*time.Millisecond) {
			return unreachable("no NATS server answers: %w", err)
		}
	}
	js, err := jetstream.New(c.nc, jetstream.WithDefaultTimeout(5*time.Second))
	if err != nil {
		return unreachable("JetStream cannot be used: %w", err)
	}
	c.js = js
	return nil
}
