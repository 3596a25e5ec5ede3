package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/runtime"
	"steward/internal/secret"
	"steward/internal/server/auth"
	"steward/internal/server/forward"
	"steward/internal/settings"
	"steward/internal/store/cluster"
)

// joined is the part of a cluster that this process is. A Local that works alone has none.
type joined struct {
	*cluster.Cluster
	requests *forward.Forwarder
	duties   map[string]duty
	inside   *http.Server // for the other nodes; nil: not served yet
	voices   voices
}

// duty is something that one node of a cluster does at a time: to connect the messengers, or the home. Without a
// cluster, a Steward that serves has all duties.
type duty struct {
	start func(context.Context) error // begins; what goes on does not end with ctx
	stop  func()                      // returns when nothing goes on any more
}

// CheckCluster returns an error if this process may not take part in the cluster of the settings.
func (a *App) CheckCluster(set *settings.Loaded) error {
	if !set.Cluster.On() {
		return nil
	}
	if set.Store == "" {
		return fault.New(fault.Invalid, "cluster_needs_store", "the nodes of a cluster share a PostgreSQL database, and the setting store names none").
			WithHint("set store (docs/operations/postgres.md), or remove the settings cluster.*")
	}
	if !a.Serving {
		return fault.New(fault.Unavailable, "cluster_needs_node", "this data folder belongs to a node of a cluster, and no node runs here").
			WithHint("start steward serve, and run the command again")
	}
	return nil
}

// join connects to the cluster of the settings.
func (a *App) join(ctx context.Context, set *settings.Loaded, st Store, log *slog.Logger) (*joined, error) {
	s := set.Cluster
	key, err := a.clusterSecret(ctx, set)
	if err != nil {
		return nil, err
	}
	o := cluster.Options{Store: st, Name: nodeName(), Labels: s.Labels, Works: s.Work, Silence: s.Silence, Needs: needs(s.Needs),
		Servers: strings.Join(s.Servers, ","), Secret: key, Log: log}
	if s.Embed {
		o.Embed = &cluster.Embed{Dir: filepath.Join(set.Data, "nats"), Listen: s.Listen, Peers: s.Peers, Clients: s.Clients}
	}
	c, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	log.Info("joined the cluster", "node", o.Name, "labels", s.Labels, "works", s.Work)
	return &joined{Cluster: c, requests: forward.New(forward.Options{Nodes: c, Log: log}), duties: map[string]duty{}}, nil
}

// close leaves a cluster that nothing was done in yet.
func (j *joined) close() error {
	if j == nil {
		return nil
	}
	return j.Close(context.Background())
}

// clusterSecret returns the secret of the cluster, from where the setting says it is. It is hidden from then on.
func (a *App) clusterSecret(ctx context.Context, set *settings.Loaded) (string, error) {
	key := set.Cluster.Secret.Reveal()
	if secret.IsReference(key) {
		var err error
		if key, err = a.Resolver(set).Resolve(ctx, key); err != nil {
			return "", err
		}
	}
	if key != "" && secret.Check(key) != nil {
		return "", fault.New(fault.Invalid, "cluster_secret_short", "cluster.secret is too short").WithHint("make one at random: openssl rand -hex 32")
	}
	a.Hide(key, "secret of the cluster")
	return key, nil
}

// nodeName returns a name that no other process ever had, and by which a person knows the machine.
func nodeName() string {
	host, _ := os.Hostname() // a node without one still has a name
	host = regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(strings.ToLower(host), "-")
	unique := id.New().String()
	return strings.Trim(cmp.Or(host[:min(len(host), 40)], "node"), "-") + "-" + unique[len(unique)-12:]
}

// needs returns the labels that the worker of a piece must have, by the setting cluster.needs.
func needs(of map[string][]string) func(cluster.Piece) []string {
	if len(of) == 0 {
		return nil
	}
	return func(p cluster.Piece) []string { return of[forward.Name(p)] }
}

// spaces implements runtime.Spaces.
type spaces struct{ *joined }

// Want implements runtime.Spaces.
func (s spaces) Want(ctx context.Context, user string) error {
	return s.Cluster.Want(ctx, forward.Of(user))
}

// spaces returns the users for the node; nil without a cluster.
func (l *Local) spaces() runtime.Spaces {
	if l.cluster == nil {
		return nil
	}
	return spaces{l.cluster}
}

// WorkNode is the part of a node without a listener of its own that serves the other nodes.
func (a *App) WorkNode(ctx context.Context, set *settings.Loaded, l *Local, log *slog.Logger) error {
	serves, err := a.handlers(set, l, "", log)
	if err != nil {
		return err
	}
	if _, err := l.takeDuties(ctx, set); err != nil {
		return err
	}
	return l.startCluster(set, serves, log)
}

// worker is the node as the cluster has it work. It implements cluster.Worker.
type worker struct {
	*Local
	set *settings.Loaded
}

const releaseTime = 5 * time.Second // how long requests have to end when this node lets go of their user

// Take implements cluster.Worker.
func (w worker) Take(ctx context.Context, p cluster.Piece, crashed bool) error {
	if p.Duty != "" {
		d, known := w.cluster.duties[p.Duty]
		if !known {
			return fault.New(fault.Unsupported, "duty_unknown", "this node cannot do %q", p.Duty).WithHint("give all nodes the same settings")
		}
		return d.start(ctx)
	}
	user, ok := p.Space.User()
	if !ok {
		return fault.New(fault.Internal, "piece_invalid", "a space that is not a user's cannot be worked on")
	}
	if err := w.node.TakeUser(ctx, user, crashed); err != nil {
		return err
	}
	if user == identity.Local {
		w.keepOwnJobs(ctx, w.set)
	}
	return nil
}

// Leave implements cluster.Worker.
func (w worker) Leave(p cluster.Piece) {
	w.cluster.requests.Leaving(p)
	if p.Duty != "" {
		if d, known := w.cluster.duties[p.Duty]; known {
			d.stop()
		}
	} else if user, ok := p.Space.User(); ok {
		if user == identity.Local {
			w.dropOwnJobs()
		}
		w.node.LeaveUser(user)
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	w.cluster.requests.Release(ctx, p)
}

// Idle implements cluster.Worker.
func (w worker) Idle(p cluster.Piece) bool {
	if p.Duty != "" || w.cluster.requests.Busy(p) {
		return false
	}
	user, ok := p.Space.User()
	return ok && user != identity.Local && w.node.IdleUser(user)
}

// places returns where requests are answered; nil without a cluster.
func (l *Local) places() auth.Places {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.requests
}

// NodeName returns the name of this node in its cluster; empty: there is none.
func (l *Local) NodeName() string {
	if l.cluster == nil {
		return ""
	}
	return l.cluster.Name()
}

// placesBelow is places for a server that other nodes answer below a path.
func (l *Local) placesBelow(path string) auth.Places {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.requests.Below(path)
}

// atDuty has requests answered by the node that has a duty.
func (l *Local) atDuty(name string, next http.Handler) http.Handler {
	if l.cluster == nil {
		return next
	}
	return l.cluster.requests.At(cluster.Piece{Duty: name}, next)
}

// insidePrefix begins the paths that only other nodes may call.
const insidePrefix = "/cluster/"

// forOthers adds what only the other nodes of a cluster may call.
func (l *Local) forOthers(a *App, set *settings.Loaded, mux *http.ServeMux, guard *auth.Guard, log *slog.Logger) {
	if l.cluster == nil {
		return
	}
	add := func(path string, h http.Handler) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if !auth.Trusted(r) {
				auth.WriteError(w, r, log, fault.New(fault.NotFound, "unknown_url", "there is no path %.200s", r.URL.Path))
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	add(ollamaInside+"/", l.ollamaInside(guard, log))
	add(wyomingInside, guard.Wrap(l.wyomingInside(a, set, guard, log), nil))
}

// takeDuties begins what one Steward does at a time. In a cluster it is begun when this node gets the duty.
func (l *Local) takeDuties(ctx context.Context, set *settings.Loaded) (stop func(), err error) {
	channels := l.channelsDuty(set)
	if l.cluster != nil {
		l.cluster.duties[cluster.Channels] = channels
		return nil, nil
	}
	return channels.stop, channels.start(ctx)
}

// channelsDuty connects the messengers, and watches for new mail.
func (l *Local) channelsDuty(set *settings.Loaded) duty {
	stopMail := func() {}
	return duty{
		start: func(ctx context.Context) (err error) {
			if stopMail, err = l.watchMail(set); err != nil {
				return err
			}
			if err := l.Messages.Start(ctx, l.node, l.node.Conversations, l.node.Effects); err != nil {
				stopMail()
				return err
			}
			return nil
		},
		stop: func() {
			stopMail()
			l.Messages.Close()
		},
	}
}

// startCluster serves the other nodes, and begins to take pieces.
func (l *Local) startCluster(set *settings.Loaded, serves *handlers, log *slog.Logger) error {
	c := l.cluster
	if c == nil {
		return nil
	}
	c.inside = serves.server(serves.handler, log)
	c.inside.BaseContext = func(net.Listener) context.Context { return auth.Trust(context.Background()) }
	c.inside.MaxHeaderBytes = 1 << 20 // a caller may be in many groups
	ln := c.Listen()
	go func() {
		if err := c.inside.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("the other nodes of the cluster are not served any more", "error", err)
		}
	}()
	c.Start(worker{l, set})
	ctx, cancel := context.WithTimeout(context.Background(), wantTime)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(c.duties)) {
		if err := c.Want(ctx, cluster.Piece{Duty: name}); err != nil {
			return err
		}
	}
	return c.Want(ctx, forward.Of(identity.Local)) // the jobs of agents and the backup are added there
}

const wantTime = 30 * time.Second

// leaveCluster lets go of all that this node works on, which other nodes take over, and disconnects. It may be
// called more than once.
func (l *Local) leaveCluster() error {
	c := l.cluster
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(l.grace, time.Second)+releaseTime)
	defer cancel()
	err := c.Close(ctx)
	c.voices.close()
	if c.inside != nil {
		err = errors.Join(err, c.inside.Close())
	}
	c.requests.Close()
	return err
}

// keepOwnJobs begins to keep the jobs that the settings and the folders of agents define, and watches folders of
// documents. In a cluster, the node
// does it that works for the machine's own user.
func (l *Local) keepOwnJobs(ctx context.Context, set *settings.Loaded) {
	if err := l.keepBackupJob(ctx, set); err != nil {
		l.Log.Warn("no backups are made by themselves", "error", err)
	}
	l.keepAgentJobs(agentJobs{local: l, jobs: l.jobService(set)})
	l.stopDocuments = inBackground(l.papers.Watch)
}

// dropOwnJobs ends what keepOwnJobs began.
func (l *Local) dropOwnJobs() {
	for _, stop := range []*func(){&l.stopJobs, &l.stopDocuments} {
		if *stop != nil {
			(*stop)()
			*stop = nil
		}
	}
}

// clusterView returns the nodes of the cluster, and what each of them holds.
func (l *Local) clusterView(ctx context.Context) (client.Cluster, error) {
	c := l.cluster
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return client.Cluster{}, err
	}
	out := client.Cluster{Node: c.Name(), Nodes: []client.ClusterNode{}, Pieces: []client.ClusterPiece{}}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, client.ClusterNode{Name: n.Name, Labels: n.Labels, Works: n.Works, Pieces: n.Pieces, Since: n.Since})
	}
	for _, p := range c.Pieces() {
		if len(out.Pieces) == maxPieces {
			out.More = true
			break
		}
		out.Pieces = append(out.Pieces, client.ClusterPiece{Name: forward.Name(p.Piece), Node: p.Node, Needs: p.Labels})
	}
	return out, nil
}

// clusterAPI is the cluster for the API; nil: there is none.
func (l *Local) clusterAPI() func(context.Context) (client.Cluster, error) {
	if l.cluster == nil {
		return nil
	}
	return l.clusterView
}

// maxPieces is how many pieces are listed.
const maxPieces = 10_000

// voices are the Wyoming servers for connections that other nodes pass on, by user.
type voices struct {
	mu     sync.Mutex
	byUser map[string]*voice
	closed bool
}
