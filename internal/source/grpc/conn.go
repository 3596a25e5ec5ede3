package grpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"steward/internal/fault"
)

// Timeouts of connections.
const (
	connectTimeout = 10 * time.Second // of the first attempt
	repairTimeout  = time.Second      // of one more attempt, if the last one failed
	keepaliveTime  = 6 * time.Minute  // servers refuse pings more often than every 5 minutes
)

// Kit opens gRPC services as sources of tools. All sources share one connection per server. The
// zero value is ready to use. Safe for concurrent use.
type Kit struct {
	mu    sync.Mutex
	conns map[target]*conn
}

// target is what two sources must have in common to share a connection.
type target struct {
	address    string
	tls        bool
	ca         string // PEM
	serverName string
}

// local reports whether nothing leaves this machine.
func (t target) local() bool {
	if strings.HasPrefix(t.address, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(t.address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credentials returns how to authenticate the server.
func (t target) credentials() credentials.TransportCredentials {
	if !t.tls {
		return insecure.NewCredentials()
	}
	c := &tls.Config{ServerName: t.serverName, MinVersion: tls.VersionTLS12}
	if t.ca != "" { // else the system's
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(t.ca)) // was validated before
	}
	return credentials.NewTLS(c)
}

// conn is a connection that sources share.
type conn struct {
	to         target
	cc         *rpc.ClientConn
	users      int           // guarded by Kit.mu
	generation atomic.Uint64 // incremented with each connection made: another server may be there
}

// take returns the connection to a server; the caller must call release once.
func (k *Kit) take(to target) (*conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.conns[to]; ok {
		c.users++
		return c, nil
	}
	c := &conn{to: to, users: 1}
	address := to.address
	if !strings.HasPrefix(address, "unix:") {
		address = "dns:///" + address
	}
	cc, err := rpc.NewClient(address, rpc.WithTransportCredentials(to.credentials()), rpc.WithStatsHandler(c),
		rpc.WithUserAgent("steward"), rpc.WithDisableServiceConfig(), rpc.WithMaxHeaderListSize(64<<10),
		rpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: 20 * time.Second}),
		rpc.WithConnectParams(rpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 15 * time.Second}}))
	if err != nil {
		return nil, badDeclaration("%s is not an address to connect to: %w", to.address, err).WithHint("correct host")
	}
	c.cc = cc
	if k.conns == nil {
		k.conns = map[target]*conn{}
	}
	k.conns[to] = c
	return c, nil
}

// release gives a connection back; the last user closes it.
func (k *Kit) release(c *conn) error {
	k.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		delete(k.conns, c.to)
	}
	k.mu.Unlock()
	if !last {
		return nil
	}
	if err := c.cc.Close(); err != nil {
		return fault.New(fault.Internal, "grpc_close", "closing the connection to %s: %w", c.to.address, err)
	}
	return nil
}

// ready waits until the connection is established, an attempt has failed, or ctx is done. In the
// latter cases a call reports why.
func (c *conn) ready(ctx context.Context) {
	if c.cc.GetState() == connectivity.Ready {
		return
	}
	timeout := connectTimeout
	if c.cc.GetState() == connectivity.TransientFailure {
		c.cc.ResetConnectBackoff()
		timeout = repairTimeout // the state stays as it is until an attempt succeeds
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	repairing := timeout == repairTimeout
	for {
		state := c.cc.GetState()
		switch state {
		case connectivity.Ready, connectivity.Shutdown:
			return
		case connectivity.Idle:
			c.cc.Connect()
		case connectivity.TransientFailure:
			if !repairing {
				return
			}
		}
		if !c.cc.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// attempt is one try of a call.
type attempt struct{ sent atomic.Bool } // something of it may have reached the server

type attemptKey struct{}

// TagRPC implements stats.Handler.
func (c *conn) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. It records when a call is sent.
func (c *conn) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.OutHeader, *stats.OutPayload:
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			a.sent.Store(true)
		}
	}
}

// TagConn implements stats.Handler.
func (c *conn) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler. It counts the connections made.
func (c *conn) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.generation.Add(1)
	}
}

// frame is a message as on the wire.
type frame struct{ bytes []byte }

// raw passes frames through unchanged, so that the size of an answer can be checked before it is
// decoded.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, errors.New("not a frame")
	}
	return f.bytes, nil
}

func (raw) Unmarshal(data []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errors.New("not a frame")
	}
	f.bytes = data
	return nil
}

// options returns the options of every call.
func options(most int) []rpc.CallOption {
	return []rpc.CallOption{rpc.ForceCodec(raw{}), rpc.MaxCallRecvMsgSize(most), rpc.MaxCallSendMsgSize(maxBytes)}
}
