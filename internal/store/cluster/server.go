package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
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

// tlsTimeout is in seconds. A busy machine needs a while.
const tlsTimeout = 10

// user is the name under which embedded servers connect to each other.
const user = "steward"

// startServer starts the embedded server, and returns the token with which this node connects.
func (c *Cluster) startServer(ctx context.Context, key *identity) (token string, err error) {
	o, err := c.serverOptions(key)
	if err != nil {
		return "", err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return "", fault.New(fault.Unavailable, "cluster_refused", "cannot make the NATS server of this node: %w", err).
			WithHint("check the cluster settings")
	}
	c.server = s
	log := &serverLog{log: c.log, last: map[string]time.Time{}}
	s.SetLoggerV2(log, false, false, false)
	c.serving.Go(s.Start)
	for log.fatal.Load() == nil && ctx.Err() == nil && !s.ReadyForConnections(100*time.Millisecond) {
	}
	if why := log.fatal.Load(); why != nil {
		return "", fault.New(fault.Unavailable, "cluster_refused", "the NATS server of this node does not start: %s", *why).
			WithHint("check that cluster.listen is a free address of this machine and that %s can be written", c.opt.Embed.Dir)
	}
	if ctx.Err() != nil {
		return "", unreachable("the NATS server of this node does not start in time: %w", context.Cause(ctx))
	}
	return o.Authorization, nil
}

func (c *Cluster) serverOptions(key *identity) (*server.Options, error) {
	e := c.opt.Embed
	name, err := serverName(e.Dir)
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: name, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: e.Dir, SyncAlways: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
		// Where only this node connects, nobody else knows the token. A server without this listener does not
		// connect to its peers.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, Authorization: rand.Text(),
	}
	o.Cluster.NoAdvertise = e.Clients == ""
	if e.Clients != "" {
		if o.Host, o.Port, err = split(e.Clients); err != nil {
			return nil, err
		}
		o.Authorization = c.opt.Secret
		if key != nil {
			o.TLS, o.TLSConfig, o.TLSTimeout = true, key.clients(), tlsTimeout
		}
	}
	if len(e.Peers) == 0 {
		o.DontListen = e.Clients == ""
		return o, nil
	}
	o.Cluster.Name = user
	if o.Cluster.Host, o.Cluster.Port, err = split(e.Listen); err != nil {
		return nil, err
	}
	if key != nil {
		o.Cluster.Username, o.Cluster.Password = user, c.opt.Secret
		o.Cluster.TLSConfig, o.Cluster.TLSTimeout = key.routes(), tlsTimeout
	}
	for _, p := range e.Peers {
		if _, _, err := split(p); err != nil {
			return nil, err
		}
		u := &url.URL{Scheme: "nats-route", Host: p}
		if key != nil {
			u.User = url.UserPassword(user, c.opt.Secret)
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
}

func (c *Cluster) stopServer(ctx context.Context) error {
	if c.server == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.server.Shutdown()
		c.server.WaitForShutdown()
		c.serving.Wait()
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
	var key *identity
	if c.opt.Secret != "" {
		var err error
		if key, err = newIdentity(c.opt.Secret); err != nil {
			return fault.New(fault.Internal, "cluster_refused", "cluster.secret cannot be used: %w", err)
		}
		options = append(options, key.connecting())
	}
	servers, token := c.opt.Servers, c.opt.Secret
	if c.opt.Embed != nil {
		var err error
		if token, err = c.startServer(ctx, key); err != nil {
			return err
		}
		options, servers = append(options, nats.InProcessServer(c.server)), ""
	}
	if token != "" {
		options = append(options, nats.Token(token))
	}
	for told := false; ; told = true {
		nc, err := nats.Connect(servers, options...)
		if err == nil {
			c.nc = nc
			break
		}
		if !told {
			c.log.Info("no NATS server of the cluster answers yet", "for", openFor, "error", err)
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.As(err, new(*tls.CertificateVerificationError)) {
			return fault.New(fault.Unauthentic, "cluster_refused", "the NATS servers do not have the secret of this node: %w", err).
				WithHint("compare cluster.secret on all nodes, and with the token of the NATS servers")
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
