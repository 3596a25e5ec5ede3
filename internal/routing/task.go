package routing

import (
	"context"
	"math"
	"strings"

	"steward/internal/catalog"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search/similar"
)

// DefaultTaskThreshold is the certainty from which an agent of the catalog gets a task. Above it, nine of ten
// requests of the labelled sets are for the agent that gets them (docs/concepts/routing.md).
const DefaultTaskThreshold = 0.85

// Task is a task whose agent is to be found.
type Task struct {
	User   string
	About  resource.Metadata
	Labels message.Labels
	Fits   func(path string) bool // whether an agent could do it at all, for example has the tools for it
}

// AgentFor returns the path of the agent of the catalog that a task is for, and how sure that is; "" if no agent
// reaches the threshold.
//
// The words of the task's purpose give each agent of the tree a probability (Router). If no agent is certain by them
// and there is an embedding model, the task's description is also compared with those of the agents, and with the kinds
// of requests that are for no agent. Words and similarity are pooled.
//
// An agent answers for those below it. So the certainties of a subtree add up, and the way goes down from the surest
// subtree of the first level: to a child, if it is sure enough that the task is for the child's subtree, and otherwise
// no further.
func (e *Engine) AgentFor(ctx context.Context, t Task) (path string, sure float64, err error) {
	if !e.HasCatalogAgents() {
		return "", 0, nil
	}
	tree := e.opt.Catalog.Tree()
	router, err := e.router(ctx, t.User, hasNested(tree))
	if err != nil {
		return "", 0, err
	}
	sureOf := e.certainties(ctx, tree, router.Rank(firstText(t.About)), &t)
	threshold := e.opt.TaskThreshold
	if threshold == 0 {
		threshold = DefaultTaskThreshold
	}
	for level := tree.Root.Children; ; {
		var best *catalog.Agent
		most := 0.0
		for _, a := range level {
			if p := within(a, sureOf, t.Fits); p > most {
				best, most = a, p
			}
		}
		if best == nil || most < threshold {
			return path, sure, nil
		}
		if t.Fits == nil || t.Fits(best.Path) {
			path, sure = best.Path, most
		}
		level = best.Children
	}
}

func hasNested(tree *catalog.Tree) bool {
	for _, a := range tree.Root.Children {
		if len(a.Children) > 0 {
			return true
		}
	}
	return false
}

func firstText(m resource.Metadata) string {
	for _, text := range []string{m.Purpose, m.Instructions} {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return m.Description()
}

// leastSure spares the question whether an agent could do a task that is hardly for it: it may make its kit.
const leastSure = 0.01

// within returns how sure it is that a task is for an agent or one below it that could do it.
func within(a *catalog.Agent, sureOf map[string]float64, fits func(string) bool) float64 {
	sum := sureOf[a.Path]
	if sum > 0 && fits != nil && (sum < leastSure || !fits(a.Path)) {
		sum = 0
	}
	for _, c := range a.Children {
		sum += within(c, sureOf, fits)
	}
	return sum
}

// certainties returns how sure it is that a task is for each agent of the catalog. Agents that are built in do not
// compete: one that is designed for the task has the same tools.
func (e *Engine) certainties(ctx context.Context, tree *catalog.Tree, ranked []Ranked, t *Task) map[string]float64 {
	out, none, all, most := map[string]float64{}, 0.0, 0.0, 0.0
	var paths, texts []string
	for _, x := range ranked {
		a := tree.ByPath[x.Agent]
		if x.Agent == "" {
			none = x.P
		} else if a != nil {
			out[x.Agent] = x.P
			paths, texts = append(paths, x.Agent), append(texts, compiled(a))
		} else {
			continue
		}
		all += x.P
	}
	if all <= 0 {
		return nil
	}
	none /= all
	for path := range out {
		out[path] /= all
		most = max(most, out[path])
	}
	if most >= Certain {
		return out // no model knows it better
	}
	asked := similar.Request{User: t.User, Agent: kits.PlannerAgent, Labels: t.Labels, Text: t.About.Description()}
	if shares := similar.Shares(e.opt.Similar.Scores(ctx, asked, append(texts, kindsOfNone()...))); shares != nil {
		pool(out, paths, none, shares)
	}
	return out
}

// wordsCount is how much the words count in a pool, and the vectors the rest: they know sentences.
const wordsCount = 1.0 / 3

// pool replaces the certainties of agents by a logarithmic opinion pool of words and vectors: certainties that are high
// in both are high. shares are those of the agents, in the order of paths, and then of what is for no agent.
func pool(sureOf map[string]float64, paths []string, none float64, shares []float64) {
	both := func(word, vector float64) float64 { return math.Pow(word, wordsCount) * math.Pow(vector, 1-wordsCount) }
	forNone := 0.0
	for _, s := range shares[len(paths):] {
		forNone += s
	}
	sum := both(none, forNone)
	for i, path := range paths {
		sureOf[path] = both(sureOf[path], shares[i])
		sum += sureOf[path]
	}
	for _, path := range paths {
		sureOf[path] /= max(sum, math.SmallestNonzeroFloat64)
	}
}

// kindsOfNone describes the kinds of requests that are for no agent, like agents.
func kindsOfNone() (out []string) {
	for kind := range strings.SplitSeq(background, "\n\n") {
		lines := strings.Split(strings.TrimSpace(kind), "\n")
		out = append(out, strings.Join(lines[:min(len(lines), 1+maxSaid)], "\n"))
	}
	return out
}

// maxSaid is how many examples of an agent its description has.
const maxSaid = 8

// compiled returns what an agent says of itself as one text, which is embedded: its four texts, and some examples.
func compiled(a *catalog.Agent) string {
	var b strings.Builder
	b.WriteString(a.Name + "\n" + a.Metadata.Description())
	for _, x := range a.Examples[:min(len(a.Examples), maxSaid)] {
		b.WriteString("\n" + x.Say)
	}
	return b.String()
}
