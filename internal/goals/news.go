package goals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/record"
)

// News is one thing that a user may want to hear of.
type News struct {
	At   time.Time
	Text string // has the labels that Changes tells
	URI  string
}

// News returns what has happened to a user's efforts after since and not after until, the oldest first: what
// others than the user have changed, what has become overdue, and what has stalled. Each thing is in one
// window only, if windows follow each other. It calls no model.
func (e *Engine) News(ctx context.Context, user string, since, until time.Time) ([]News, error) {
	c, _, err := e.changes(ctx, user, since, until.UTC())
	if err != nil {
		return nil, err
	}
	var out []News
	add := func(at time.Time, ref client.EffortRef, format string, args ...any) {
		kind := strings.ToUpper(ref.Kind[:1]) + ref.Kind[1:]
		out = append(out, News{at.UTC(), kind + " " + ref.Title + ": " + fmt.Sprintf(format, args...), "cld:" + record.EffortType(ref.Kind) + "." + ref.ID})
	}
	for _, ev := range slices.Concat(c.Created, c.Progressed, c.Ended) {
		if ev.Actor != "user" {
			add(ev.At, ev.EffortRef, "%s", ev.What)
		}
	}
	zone := e.local.Location(user)
	for _, d := range c.Overdue {
		if !d.New {
			continue
		}
		over, err := time.ParseInLocation(time.DateOnly, d.Due, zone)
		if err != nil {
			continue
		}
		what := "it"
		if d.Milestone != "" {
			what = "the milestone " + d.Milestone
		}
		add(over.AddDate(0, 0, 1), d.EffortRef, "%s was due on %s", what, d.Due)
	}
	for _, s := range c.Stalled {
		if s.New {
			add(s.Since.Add(stallsAfter(s.Kind)), s.EffortRef, "no change since %s", s.Since.In(zone).Format(time.DateOnly))
		}
	}
	slices.SortStableFunc(out, func(a, b News) int { return a.At.Compare(b.At) })
	return out, nil
}
