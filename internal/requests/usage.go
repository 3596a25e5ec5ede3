package requests

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Limits of a report about usage.
const (
	usageDays    = 30                   // without a beginning
	maxUsageTime = 366 * 24 * time.Hour // between beginning and end
	maxUsages    = 200_000              // model calls that are summed up
)

// UsageQuery selects the model calls of a report. The zero value stands for the last 30 days, by day.
type UsageQuery struct {
	From, To time.Time
	By       string                 // "day", "agent", "model" or "user"
	All      func(user string) bool // nil: only the user's own; else those of all users of whom it is true
}

// UsageReport sums up what the model calls of a time used, those in deleted conversations included. Days
// are those of the user's time zone, or else of UTC. Error codes: by_unknown, time_invalid.
func (e *Engine) UsageReport(ctx context.Context, user string, q UsageQuery) (client.UsageReport, error) {
	if q.By = cmp.Or(q.By, "day"); !slices.Contains([]string{"day", "agent", "model", "user"}, q.By) {
		return client.UsageReport{}, fault.New(fault.Invalid, "by_unknown", "usage cannot be summed up by %.40q", q.By).WithHint("use day, agent, model or user")
	}
	zone := time.UTC
	if e.zone != nil {
		zone = cmp.Or(e.zone(user), zone)
	}
	if q.To.IsZero() {
		q.To = time.Now()
	}
	if q.From.IsZero() {
		to := q.To.In(zone)
		q.From = time.Date(to.Year(), to.Month(), to.Day()-usageDays+1, 0, 0, 0, 0, zone)
	}
	if length := q.To.Sub(q.From); length < 0 || length > maxUsageTime {
		return client.UsageReport{}, fault.New(fault.Invalid, "time_invalid", "usage is summed up over at most 366 days, from a time to a later one")
	}
	sc := store.ForUser(user)
	if q.All != nil {
		sc = store.ForNode(resource.System)
	}
	out := client.UsageReport{From: q.From, To: q.To, By: q.By}
	rows := map[string]*client.UsageRow{}
	agents := map[resource.URI]string{}
	for u, err := range e.conversations.Usage(ctx, sc, q.From) {
		if err != nil {
			return client.UsageReport{}, err
		}
		if !u.At.Before(q.To) || q.All != nil && !q.All(u.User) {
			continue
		}
		if out.Total.Calls == maxUsages {
			out.Since = u.At
			break
		}
		key := u.User
		switch q.By {
		case "day":
			key = u.At.In(zone).Format(time.DateOnly)
		case "model":
			key = u.Model
		case "agent":
			known := false
			if key, known = agents[u.Where]; !known {
				if key, err = e.agentOf(ctx, sc, u.Where); err != nil {
					return client.UsageReport{}, err
				}
				agents[u.Where] = key
			}
		}
		row := rows[key]
		if row == nil {
			row = &client.UsageRow{Key: key}
			rows[key] = row
		}
		cost := 0.0
		if e.price != nil && u.Model != "" {
			cost = e.price(u.Model, u.Usage)
		}
		for _, r := range []*client.UsageRow{row, &out.Total} {
			r.Calls++
			r.Usage = client.Usage(message.Usage(r.Usage).Add(u.Usage))
			r.Cost += cost
		}
	}
	out.Rows = []client.UsageRow{}
	for _, r := range rows {
		out.Rows = append(out.Rows, *r)
	}
	slices.SortFunc(out.Rows, func(a, b client.UsageRow) int {
		if q.By == "day" {
			return strings.Compare(a.Key, b.Key)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Usage.Input+b.Usage.Output, a.Usage.Input+a.Usage.Output), strings.Compare(a.Key, b.Key))
	})
	return out, nil
}

// agentOf returns the agent that worked in an interaction, or "" if none did or it has been erased.
func (e *Engine) agentOf(ctx context.Context, sc store.Scope, inter resource.URI) (string, error) {
	if record.IDOf(inter, record.TypeInteraction).Zero() {
		return "", nil
	}
	run, _, err := LastRun(ctx, e.store, sc, inter)
	if strings.HasPrefix(run.Agent, kits.DesignedPrefix) {
		return "designed", err
	}
	return run.Agent, IgnoreNotFound(err)
}
