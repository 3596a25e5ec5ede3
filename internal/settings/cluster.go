package settings

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Cluster joins this node to others that work on the same store.
type Cluster struct {
	Servers []string `yaml:"servers" form:"nats" doc:"Addresses of the NATS servers through which the nodes reach each other, such as nats://10.0.0.1:4222. With any, or with embed, this node is part of a cluster, which needs store."`
	Embed   bool     `yaml:"embed" doc:"Run a NATS server in this process, so that no other one is needed: the same as steward serve --cluster."`
	Listen  string   `yaml:"listen" form:"listen" doc:"Address at which the server in this process talks to those of the peers. Empty: it stands alone."`
	Peers   []string `yaml:"peers" form:"host_port" doc:"The cluster.listen of the other nodes with a server, as HOST:PORT."`
	Clients string   `yaml:"clients" form:"listen" doc:"Address at which nodes without a server of their own reach that of this process, such as 0.0.0.0:4222; they have it in cluster.servers. Empty: none can."`
	Secret  Secret   `yaml:"secret" doc:"What all nodes and servers of the cluster know and nobody else: whoever has it may act as any user. Or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`

	Work    bool                `yaml:"work" doc:"This node works for users. Without it, it only passes requests on to the nodes that do."`
	Labels  []string            `yaml:"labels" form:"word" doc:"What this machine has and others may not, such as gpu or home-network."`
	Needs   map[string][]string `yaml:"needs" names:"need" doc:"Labels that a node must have to do something: to work for a user (user:NAME), to connect the messengers (channels) or the home (home)."`
	Silence time.Duration       `yaml:"silence" min:"1s" max:"5m" doc:"A node of which nothing is heard for so long loses its work to others. All nodes have the same."`
}

// On reports whether the node is part of a cluster.
func (c Cluster) On() bool { return c.Embed || len(c.Servers) > 0 }

// checkNATS checks the address of a NATS server.
func checkNATS(v string) string {
	u, err := url.Parse(v)
	switch {
	case err != nil, u.Scheme != "nats" && u.Scheme != "tls", u.Hostname() == "", u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return "is not the address of a NATS server; write one such as nats://10.0.0.1:4222"
	case u.User != nil:
		return "contains a user name or password; put it into cluster.secret"
	}
	return ""
}

// checkCluster checks the constraints that involve several values of the cluster.
func (l *loading) checkCluster() {
	c := l.Cluster
	bad := func(path, format string, args ...any) {
		l.faults = append(l.faults, fmt.Sprintf("%s: %s", l.where(path), fmt.Sprintf(format, args...)))
	}
	if len(c.Peers) > 0 && c.Listen == "" {
		bad("cluster.peers", "cluster.peers needs cluster.listen, the address at which this node talks to them")
	}
	if c.Embed && len(c.Servers) > 0 {
		bad("cluster.servers", "cluster.servers is for a node without a server of its own; leave it out, or cluster.embed (steward serve --cluster)")
	}
	if c.Listen != "" && !c.Embed && len(c.Servers) > 0 {
		bad("cluster.listen", "cluster.listen is for a server in this process; set cluster.embed too, or leave it out")
	}
	for path, address := range map[string]string{"cluster.listen": c.Listen, "cluster.clients": c.Clients} {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && c.Embed && c.Secret == "" && !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			bad(path, "other machines reach %s, so cluster.secret is needed", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Needs)) {
		for _, label := range c.Needs[name] {
			if why := check("word", label); why != "" {
				bad("cluster.needs", "cluster.needs.%s: %q %s", name, label, why)
			}
		}
	}
}
