package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/settings"
)

func (a *program) workerCommand() *cobra.Command {
	var metrics string
	var labels []string
	c := &cobra.Command{
		Use: "worker", Short: "Work for a cluster, without an address of its own", GroupID: "talk", Args: cobra.NoArgs,
		Long: "Run a node of a cluster that works for users but has no address of its own: requests reach it through the\n" +
			"nodes that serve (steward serve). It needs the settings store and cluster.servers or cluster.embed\n" +
			"(docs/operations/cluster.md). The first Ctrl-C hands over to other nodes what it works on, the second one\n" +
			"stops it at once.",
		Example: "  steward worker\n  steward worker --label gpu --metrics 127.0.0.1:9420",
		RunE: func(c *cobra.Command, _ []string) error {
			if metrics != "" {
				a.Flags = append(a.Flags, settings.Flag{Key: "metrics.listen", Value: metrics, Name: "--metrics"})
			}
			if len(labels) > 0 {
				a.Flags = append(a.Flags, settings.Flag{Key: "cluster.labels", Value: strings.Join(labels, ","), Name: "--label"})
			}
			return a.worker(c.Context())
		},
	}
	c.Flags().StringVar(&metrics, "metrics", "", "`HOST:PORT` at which /metrics and /readyz need no credential (docs/operations/observe.md)")
	c.Flags().StringSliceVar(&labels, "label", nil, "what this machine has and others may not, such as `gpu`; may be repeated")
	return c
}

func (a *program) worker(ctx context.Context) error {
	a.Serving = true
	app.RespectMemoryLimit(a.Getenv, "/")
	set, err := a.Settings()
	if err != nil {
		return err
	}
	switch {
	case !set.Cluster.On():
		return fault.New(fault.Invalid, "cluster_off", "a worker works for a cluster, and the settings name none").
			WithHint("set cluster.servers, or cluster.embed with cluster.listen and cluster.peers (docs/operations/cluster.md)")
	case !set.Cluster.Work:
		return fault.New(fault.Invalid, "worker_idle", "cluster.work is false, so that a worker would do nothing").WithHint("remove the setting, or start steward serve")
	}
	log := a.Logger(set, a.Stderr)
	l, err := a.OpenLocal(ctx, set, log)
	if err != nil {
		return a.notStarted(ctx, err)
	}
	observer, err := a.ListenMetrics(set, l, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer observer.Close() // last: it tells until the end that Steward is closing
	if err := a.WorkNode(ctx, set, l, log); err != nil {
		return a.notStarted(ctx, err, l.Close())
	}
	if err := a.sayWorks(set, l, observer); err != nil {
		return errors.Join(err, l.Close())
	}
	<-ctx.Done()
	a.Note("steward: stopping; other nodes go on with what this one works on (Ctrl-C stops at once)")
	return l.Close()
}

func (a *program) sayWorks(set *settings.Loaded, l *app.Local, observer *app.Observer) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"node": l.NodeName(), "pid": os.Getpid(), "version": a.VersionText()})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Steward works for its cluster as %s\n", l.NodeName())
	if len(set.Cluster.Labels) > 0 {
		fmt.Fprintf(&b, "  labels  %s\n", strings.Join(set.Cluster.Labels, ", "))
	}
	if observer != nil {
		fmt.Fprintf(&b, "  metrics http://%s/metrics, without a credential\n", observer.Address)
	}
	return a.Print(b.String())
}

func (a *program) clusterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cluster", Short: "List the nodes of the cluster and what each works on", GroupID: "look", Args: cobra.NoArgs,
		Long: "List the nodes of the cluster that are alive, with their labels, and what each of them works on: users\n" +
			"(user:NAME), the messengers (channels) and the home. What waits for a node is listed with the labels that the\n" +
			"node must have. It asks the Steward that serves this data folder. Only admins may.",
		Example: "  steward cluster\n  steward cluster --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.With(c.Context(), command.NeedReadOnly, func(s *command.Session) error {
				if s.IsLocal() {
					return fault.New(fault.Unavailable, "cluster_needs_node", "no node of a cluster serves this data folder").
						WithHint("start steward serve, or ask where another node serves")
				}
				list, err := s.Cluster(c.Context())
				return command.PrintValue(a.Program, list, err, clusterTable)
			})
		},
	}
}

// clusterTable returns the nodes and pieces as text.
func clusterTable(list client.Cluster) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tVERSION\tLABELS\tWORKS ON\tSINCE")
	for _, n := range list.Nodes {
		name, works := n.Name, fmt.Sprint(n.Pieces)
		if n.Name == list.Node {
			name += " (asked)"
		}
		if !n.Works {
			works = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", command.PlainLine(name), command.PlainLine(n.Version), command.PlainLine(strings.Join(n.Labels, ",")), works, n.Since.Local().Format(time.DateTime))
	}
	fmt.Fprintln(t, "\t\t\t\t")
	fmt.Fprintln(t, "WORK\tNODE\tNEEDS\t\t")
	for _, p := range list.Pieces {
		at := p.Node
		if at == "" {
			at = "waits"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t\t\n", command.PlainLine(p.Name), command.PlainLine(at), command.PlainLine(strings.Join(p.Needs, ",")))
	}
	t.Flush() //nolint:errcheck // it writes to memory
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	out := strings.Join(lines, "\n")
	if list.More {
		out += "and more\n"
	}
	return out
}

// checkCluster asks the Steward that runs here for the nodes of its cluster.
func (a *program) checkCluster(ctx context.Context, set *settings.Loaded) []check {
	const name = "cluster"
	if set.Cluster.On() && set.Store == "" {
		return []check{problem(name, bad, "the settings name a cluster, but no PostgreSQL database (store)", "set store (docs/operations/postgres.md)")}
	}
	s := a.Served(ctx, set)
	switch {
	case s == nil && !set.Cluster.On():
		return nil
	case s == nil:
		return []check{problem(name, warn, "no node of the cluster serves this data folder", "start steward serve; a worker is listed by steward cluster where another node serves")}
	}
	defer s.End()
	list, err := s.Cluster(ctx)
	switch {
	case fault.HasCode(err, "cluster_off") && !set.Cluster.On():
		return nil
	case err != nil:
		return []check{failed(name, bad, err)}
	}
	return clusterFindings(list)
}

// clusterFindings says what is wrong with a cluster.
func clusterFindings(list client.Cluster) (all []check) {
	warning := func(remedy, format string, args ...any) {
		all = append(all, problem("cluster", warn, fmt.Sprintf(format, args...), remedy))
	}
	alive, versions := map[string]bool{}, map[string]bool{}
	for _, n := range list.Nodes {
		alive[n.Name], versions[n.Version] = true, true
	}
	if len(versions) > 1 {
		warning("run the same version on all nodes (steward cluster lists them)", "the nodes have different versions of Steward: %s", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
	waits, lost := 0, 0
	for _, p := range list.Pieces {
		switch {
		case p.Node == "" && len(p.Needs) > 0:
			if waits++; waits == 1 {
				warning("start a node with these labels, or change cluster.needs", "%s waits for a node with the labels %s", p.Name, strings.Join(p.Needs, ", "))
			}
		case p.Node == "":
			if waits++; waits == 1 {
				warning("if it stays so: at least one node must work (cluster.work), and most of the NATS servers must run", "%s waits for a node", p.Name)
			}
		case !alive[p.Node]:
			if lost++; lost == 1 {
				warning("if it stays so: most of the NATS servers must run, and all nodes must use the same ones (cluster.servers, cluster.peers)", "%s is with the node %s, which does not answer", p.Name, p.Node)
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	work := "works"
	if len(list.Nodes) > 1 {
		work = "work"
	}
	return []check{fine("cluster", "%s, which %s on %s", app.Counted(len(list.Nodes), "node", "nodes"), work, app.Counted(len(list.Pieces), "space or duty", "spaces and duties"))}
}
