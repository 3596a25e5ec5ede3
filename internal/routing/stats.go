package routing

import (
	"context"
	"math"
	"slices"

	"steward/internal/kits"
	"steward/internal/record"
	"steward/internal/store"
)

// Stats are figures about a user's newest decisions.
type Stats struct {
	Decisions int              `json:"decisions"`
	Corrected int              `json:"corrected"` // decisions after which the person named another agent for the same words
	Taught    int              `json:"taught"`    // messages for which the person named an agent
	Fallbacks int              `json:"fallbacks"` // decisions for the planner after which planning failed, and the candidate answered
	Paths     map[string]int   `json:"paths"`
	Times     map[string]Times `json:"times"` // "route": of the decision; "direct" and "planned": of whole turns
}

// Times are times in milliseconds.
type Times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
}

// StatsOf returns figures about the newest decisions of routing for a user.
func StatsOf(ctx context.Context, st store.Store, user string) (Stats, error) {
	out := Stats{Paths: map[string]int{}, Times: map[string]Times{}}
	sc, times := store.ForUser(user), map[string][]float64{}
	for run, err := range routedRuns(ctx, st, sc, record.TermRouted, maxDecided) {
		if err != nil {
			return out, err
		}
		out.Decisions++
		out.Paths[run.Route.Path]++
		if run.Route.Fallback {
			out.Fallbacks++
		}
		times["route"] = append(times["route"], run.Route.Millis)
		kind := "direct"
		if run.Agent == kits.PlannerAgent {
			kind = "planned"
		}
		if !run.Ended.IsZero() {
			times[kind] = append(times[kind], float64(run.Ended.Sub(run.Started).Microseconds())/1000+run.Route.Millis)
		}
	}
	for run, err := range routedRuns(ctx, st, sc, record.TermNamed, maxDecided) {
		if err != nil {
			return out, err
		}
		if out.Taught++; run.Route.Instead != "" {
			out.Corrected++
		}
	}
	for name, list := range times {
		slices.Sort(list)
		at := func(q float64) float64 { return list[int(math.Ceil(q*float64(len(list))))-1] }
		out.Times[name] = Times{len(list), at(0.5), at(0.95)}
	}
	return out, nil
}
