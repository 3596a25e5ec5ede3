package planning

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"steward/client"
	"steward/internal/plan"
	"steward/internal/requests"
	similar "steward/internal/search/words"
	"steward/internal/store"
)

// The bounds of the examples that a planner is given.
const (
	exampleCandidates = 100 // the newest plans, and as many that are made after them
	exampleUsers      = 64  // whose plans are in memory
	maxExamples       = 3
	maxExample        = 4 << 10 // bytes of each
	minLike           = 0.3     // share of the request that a document of all its words would have
)

// examples finds plans by their requests. Of each user it holds the words of the
// newest plans that may be examples, but not the plans.
type examples struct {
	mu     sync.Mutex
	byUser map[string]*exampleIndex // by user
}

type exampleIndex struct {
	requests *similar.Finder
	plans    []string // their ids, the oldest first
}

func (x *exampleIndex) add(p *client.Plan) {
	if isExample(p) {
		x.requests.Add(similar.Document{Fields: []similar.Field{{Text: p.Request, Weight: 1}}})
		x.plans = append(x.plans, p.ID)
	}
}

// isExample reports whether a plan may be shown to a planner: a planner made it, and
// it succeeded. One that was made after anything labelled had been read may not: no
// label would show in the prompt.
func isExample(p *client.Plan) bool {
	undone := func(t client.PlanTask) bool { return t.State != string(plan.Done) }
	return p.Outcome == string(plan.Done) && !slices.ContainsFunc(p.Tasks, undone) && !p.Fallback && len(p.Labels) == 0 && len(p.Plan)+len(p.Request) <= maxExample
}

// add adds a plan that was recorded. An index that has grown too large is made
// again when it is needed.
func (e *examples) add(user string, p *client.Plan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byUser[user]; x != nil {
		if x.add(p); len(x.plans) > 2*exampleCandidates {
			delete(e.byUser, user)
		}
	}
}

// Forget drops what is known of the plans of a user ("": of all), since some of it
// was erased.
func (e *examples) Forget(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.byUser, user); user == "" {
		clear(e.byUser)
	}
}

// similar returns the ids of the user's plans whose requests are similar to this one, the most
// similar and newest first.
func (e *examples) similar(ctx context.Context, st store.Store, user, request string) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byUser[user]
	if x == nil {
		page, err := st.Query(ctx, store.ForUser(user), store.Query{Term: store.Term{Name: requests.TermPlans}, Type: requests.TypePlan, Reverse: true, Limit: exampleCandidates})
		if err != nil {
			return nil, err
		}
		x = &exampleIndex{requests: similar.NewFinder(nil)}
		for _, it := range slices.Backward(page.Items) {
			p, err := requests.DecodePlan(it)
			if err != nil {
				return nil, err
			}
			x.add(&p)
		}
		if len(e.byUser) >= exampleUsers || e.byUser == nil {
			e.byUser = map[string]*exampleIndex{}
		}
		e.byUser[user] = x
	}
	scores, whole := x.requests.Scores(request)
	var order []int
	for i, score := range scores {
		if score > 0 && score >= minLike*whole {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a)) })
	out := make([]string, len(order))
	for k, i := range order {
		out[k] = x.plans[i]
	}
	return out, nil
}

// examplePlans returns, for the planner's prompt, plans of the user that succeeded and
// whose requests are most similar to this one. They are read again, so that none is
// shown that was deleted or erased.
func (e *Engine) examplePlans(ctx context.Context, user, request string) (string, error) {
	found, err := e.Examples.similar(ctx, e.store, user, request)
	if err != nil {
		return "", err
	}
	count := 0
	var b strings.Builder
	for _, own := range found {
		p, err := e.requests.FindPlan(ctx, store.ForUser(user), own)
		if err != nil {
			return "", err
		}
		if p == nil {
			continue
		}
		text, err := json.Marshal(map[string]any{"request": p.Request, "plan": p.Plan})
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + string(text))
		if count++; count == maxExamples {
			break
		}
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "\n\nPlans of similar requests that succeeded, as examples. Plan what is asked now, not what was asked then:" + b.String(), nil
}
