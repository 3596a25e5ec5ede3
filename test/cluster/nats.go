//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS is a cluster of NATS servers in this process. It syncs each write, as the documentation of JetStream
// recommends for what must survive a power failure (sync_interval: always).
type NATS struct {
	options []*server.Options
	servers []*server.Server
}

// freePorts returns ports of loopback on which nobody listens.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// StartNATS starts n servers that keep their files below a folder.
func StartNATS(dir string, n int) (*NATS, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	s := &NATS{servers: make([]*server.Server, n)}
	var routes []*url.URL
	for i := range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[n+i])})
	}
	for i := range n {
		o := &server.Options{ServerName: fmt.Sprint("nats", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint("nats", i)), SyncAlways: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[n+i], NoAdvertise: true}
			o.Routes = routes
		}
		s.options = append(s.options, o)
		if err := s.start(i); err != nil {
			s.Close()
			return nil, err
		}
	}
	for range 600 {
		for _, v := range s.servers {
			if n == 1 || v.JetStreamIsLeader() && len(v.JetStreamClusterPeers()) == n {
				return s, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Close()
	return nil, errors.New("the NATS servers have no leader")
}

func (s *NATS) start(i int) error {
	v, err := server.NewServer(s.options[i].Clone())
	if err != nil {
		return err
	}
	s.servers[i] = v
	v.Start()
	if !v.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("the NATS server %d is not ready", i)
	}
	return nil
}

func (s *NATS) stop(i int) {
	s.servers[i].Shutdown()
	s.servers[i].WaitForShutdown()
}

// Address returns the host and port of a server.
func (s *NATS) Address(i int) string {
	return fmt.Sprintf("127.0.0.1:%d", s.options[i].Port)
}

// Close ends the servers.
func (s *NATS) Close() {
	for i, v := range s.servers {
		if v != nil {
			s.stop(i)
		}
	}
}
