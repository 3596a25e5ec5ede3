package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/vendors"
)

// A cluster is checked as a whole: addresses, labels, and that servers that other machines reach have a secret.
func TestCluster(t *testing.T) {
	load := func(text string) (*Loaded, error) {
		file := filepath.Join(t.TempDir(), "s.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{Vendors: vendors.All(), File: file, Dir: t.TempDir(), Environ: []string{"STEWARD_CLUSTER_PEERS=b:6222,c:6222"}})
	}
	l, err := load("cluster: {embed: true, listen: '10.0.0.1:6222', secret: 'env:X', labels: [gpu], needs: {'user:ada': [gpu], home: [home-network]}}")
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Cluster; !c.On() || !c.Work || c.Silence == 0 || len(c.Peers) != 2 || c.Needs["user:ada"][0] != "gpu" {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"{}": "cluster.peers needs cluster.listen",
		"cluster: {embed: true, listen: '10.0.0.1:6222'}":                           "so cluster.secret is needed",
		"cluster: {embed: true, listen: '127.0.0.1:1', clients: '0.0.0.0:4222'}":    "other machines reach cluster.clients",
		"cluster: {servers: ['http://x'], listen: 'localhost:1'}":                   "is not the address of a NATS server",
		"cluster: {servers: ['nats://u:p@x'], listen: 'localhost:1'}":               "put it into cluster.secret",
		"cluster: {servers: ['nats://x:4222'], embed: true, listen: 'localhost:1'}": "cluster.servers is for a node without a server of its own",
		"cluster: {servers: ['nats://x:4222'], listen: 'localhost:1'}":              "cluster.listen is for a server in this process",
		"cluster: {embed: true, listen: 'localhost:1', labels: [A B]}":              "is not a valid name",
		"cluster: {embed: true, listen: 'localhost:1', needs: {bob: [gpu]}}":        "write channels, home or user:NAME",
		"cluster: {embed: true, listen: 'localhost:1', needs: {home: ['G P']}}":     "is not a valid name",
		"cluster: {embed: true, listen: 'localhost:1', silence: 10ms}":              "silence",
		"cluster: {embed: true, listen: 'localhost:1', peers: ['nats://x:6222']}":   "is not HOST:PORT",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
