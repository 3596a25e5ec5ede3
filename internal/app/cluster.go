package app

import (
	"cmp"
	"context"
	"encoding/json"
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
	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/secret"
	"steward/internal/server/auth"
	"steward/internal/server/forward"
	"steward/internal/settings"
	"steward/internal/store/cluster"
	"steward/internal/tool"
)

// joined is the part of a cluster that this process is. A Local that works alone has none.
type joined struct {
	*cluster.Cluster
	requests *forward.Forwarder
	duties   *duties      // nil: the node is not open yet
	inside   *http.Server // for the other nodes; nil: not served yet
	voices   voices
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
	o := cluster.Options{Store: st, Name: nodeName(), Version: a.VersionText(), Labels: s.Labels, Works: s.Work, Silence: s.Silence, Needs: needs(s.Needs),
		Servers: strings.Join(s.Servers, ","), Secret: key, Log: log}
	if s.Embed {
		o.Embed = &cluster.Embed{Dir: filepath.Join(set.Data, "nats"), Listen: s.Listen, Peers: s.Peers, Clients: s.Clients}
	}
	c, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	log.Info("joined the cluster", "node", o.Name, "labels", s.Labels, "works", s.Work)
	return &joined{Cluster: c, requests: forward.New(forward.Options{Nodes: c, Log: log})}, nil
}

// holds reports whether this node does what is done once about a space.
func (j *joined) holds(s resource.Space) bool {
	user, ok := s.User()
	return !ok || j.Holds(forward.Of(user))
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
	if key == "" {
		return "", nil
	}
	if secret.Check(key) != nil {
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

// others is what the parts of the node need of the other nodes. It implements runtime.Spaces and peers.
type others struct{ *joined }

// Want implements runtime.Spaces and peers.
func (o others) Want(ctx context.Context, user string) error {
	return o.Cluster.Want(ctx, forward.Of(user))
}

// DialDuty implements peers.
func (o others) DialDuty(ctx context.Context, duty string) (net.Conn, error) {
	node, _, err := o.Reach(ctx, cluster.Piece{Duty: duty})
	if err != nil {
		return nil, err
	}
	return o.Dial(ctx, node)
}

// spaces returns the users for the node; nil without a cluster.
func (l *Local) spaces() runtime.Spaces {
	if l.cluster == nil {
		return nil
	}
	return others{l.cluster}
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
	set  *settings.Loaded
	kept []string // see keptUsers
}

const releaseTime = 5 * time.Second // how long requests have to end when this node lets go of their user

// Take implements cluster.Worker.
func (w worker) Take(ctx context.Context, p cluster.Piece, crashed bool) error {
	if p.Duty != "" {
		return w.cluster.duties.take(ctx, p.Duty)
	}
	user, ok := p.Space.User()
	if !ok {
		return fault.New(fault.Internal, "piece_invalid", "a space that is not a user's cannot be worked on")
	}
	w.intake.Forget(user)
	if err := w.node.TakeUser(ctx, user, crashed); err != nil {
		return err
	}
	if err := w.cluster.duties.takeUser(ctx, user); err != nil {
		w.node.LeaveUser(user)
		return err
	}
	if user == identity.Local {
		w.keepOwnJobs(ctx, w.set)
	}
	w.index.Vectors.Wake()
	return nil
}

// Leave implements cluster.Worker.
func (w worker) Leave(p cluster.Piece) {
	w.cluster.requests.Leaving(p)
	if p.Duty != "" {
		w.cluster.duties.leave(p.Duty)
	} else if user, ok := p.Space.User(); ok {
		if user == identity.Local {
			w.dropOwnJobs()
		}
		w.cluster.duties.leaveUser(user)
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
	return ok && !slices.Contains(w.kept, user) && !w.cluster.duties.busy(user) && w.node.IdleUser(user)
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
	add(homeGatePath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.cluster.duties.homeGate().ServeHTTP(w, r) }))
	add(accountsInside, l.accountsHere())
	add(ollamaInside+"/", l.ollamaInside(guard, log))
	add(wyomingInside, guard.Wrap(l.wyomingInside(a, set, guard, log), nil))
}

// takeDuties begins what one Steward does at a time. In a cluster it is begun when this node gets the duty, or the user.
func (l *Local) takeDuties(ctx context.Context, set *settings.Loaded) (stop func(), err error) {
	if l.cluster != nil {
		return nil, nil
	}
	stopMail, err := l.watchMail(set, "")
	if err != nil {
		return nil, err
	}
	if err := l.Messages.Start(ctx, l.node, l.node.Conversations, l.node.Effects); err != nil {
		stopMail()
		return nil, err
	}
	return func() { stopMail(); l.Messages.Close() }, nil
}

// keptUsers are the users for whom a node always works, because something is watched for them: jobs of agents and
// the backup (of the machine's own user), mailboxes, folders of documents.
func keptUsers(set *settings.Loaded) []string {
	users := []string{identity.Local}
	for _, m := range set.Mail {
		if of := tool.OwnedBy(m.Users, m.Groups); of != nil && m.New != "ignore" {
			users = append(users, of.Users...)
		}
	}
	for _, f := range set.Documents.Folders {
		users = append(users, cmp.Or(f.User, identity.Local))
	}
	slices.Sort(users)
	return slices.DeleteFunc(slices.Compact(users), func(u string) bool { return u == "*" })
}

// wanted are the pieces on which a node always works.
func wanted(set *settings.Loaded) (all []cluster.Piece) {
	for _, user := range keptUsers(set) {
		all = append(all, forward.Of(user))
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(set.Channels)), func(c settings.Channel) bool { return !c.Off }) {
		all = append(all, cluster.Piece{Duty: cluster.Channels})
	}
	if set.Home.URL != "" {
		all = append(all, cluster.Piece{Duty: cluster.Home})
	}
	return all
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
	if err := c.sharePauses(l.Found.Models); err != nil {
		return err
	}
	c.Start(worker{l, set, keptUsers(set)})
	ctx, cancel := context.WithTimeout(context.Background(), wantTime)
	defer cancel()
	for _, p := range wanted(set) {
		if err := c.Want(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

const wantTime = 30 * time.Second

// pause is what nodes tell each other when a provider has asked one of them not to call a model for a while.
type pause struct {
	Model string        `json:"model"`
	For   time.Duration `json:"for"` // nanoseconds
}

const topicPause = "pause"

// sharePauses has what a provider asks one node for count on all.
func (j *joined) sharePauses(models *llm.Models) error {
	models.OnPause(func(model string, after time.Duration) {
		b, err := json.Marshal(pause{model, after})
		if err != nil { // it is a text and a number
			panic(err)
		}
		j.Tell(topicPause, b)
	})
	return j.Hear(topicPause, func(b []byte) {
		var p pause
		if json.Unmarshal(b, &p) == nil && p.Model != "" && p.For > 0 {
			models.Pause(p.Model, p.For)
		}
	})
}

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
	l.Messages.Close()
	c.voices.close()
	if c.inside != nil {
		err = errors.Join(err, c.inside.Close())
	}
	c.requests.Close()
	return err
}

// keepOwnJobs begins to keep the jobs that the settings and the folders of agents define. In a cluster, the node
// does it that works for the machine's own user.
func (l *Local) keepOwnJobs(ctx context.Context, set *settings.Loaded) {
	if err := l.keepBackupJob(ctx, set); err != nil {
		l.Log.Warn("no backups are made by themselves", "error", err)
	}
	l.keepAgentJobs(agentJobs{local: l, jobs: l.jobService(set)})
}

// dropOwnJobs ends what keepOwnJobs began.
func (l *Local) dropOwnJobs() {
	if l.stopJobs != nil {
		l.stopJobs()
		l.stopJobs = nil
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
		out.Nodes = append(out.Nodes, client.ClusterNode{Name: n.Name, Version: n.Version, Labels: n.Labels, Works: n.Works, Pieces: n.Pieces, Since: n.Since})
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
