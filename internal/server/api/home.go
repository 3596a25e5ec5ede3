package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/work"
)

// servesHome reports an error where there is no home, and to those who may not use it, who are not told that
// there is one.
func (f *server) servesHome(c *call) error {
	if f.Home == nil || f.Node == nil || !f.Home.Admits(c.User, c.Groups) {
		return fault.New(fault.Unsupported, "home_off", "no home is set up").WithHint("run steward home connect URL, with that of your Home Assistant")
	}
	return nil
}

// homeShown is how many devices are answered with by default.
const homeShown = 500

// home answers with the devices that Home Assistant exposes, by area.
func (f *server) home(ctx context.Context, c *call, in struct {
	Query string `query:"query"`
	Limit int    `query:"limit" range:"1,1000"`
}) (client.Home, error) {
	if err := f.servesHome(c); err != nil {
		return client.Home{}, err
	}
	return f.Home.View(ctx, in.Query, cmp.Or(in.Limit, homeShown))
}

// controlHome has a device do something. It is a call of a tool of the caller's, so policies and approvals apply.
// A call that waits for a person, or takes longer than intentWait, continues after the answer.
func (f *server) controlHome(ctx context.Context, c *call, in struct {
	Body client.HomeCommand `body:""`
}) (client.HomeOutcome, error) {
	if err := f.servesHome(c); err != nil {
		return client.HomeOutcome{}, err
	}
	name, err := f.Home.ToolFor(ctx, in.Body.Device)
	if err != nil {
		return client.HomeOutcome{}, err
	}
	args, err := json.Marshal(in.Body)
	if err != nil {
		return client.HomeOutcome{}, err
	}
	if err := c.Store(ctx, int64(len(args))); err != nil {
		return client.HomeOutcome{}, err
	}
	end, err := c.Turn(ctx)
	if err != nil {
		return client.HomeOutcome{}, err
	}
	defer end()
	waiting, cancel := context.WithTimeout(ctx, intentWait)
	defer cancel()
	var asked atomic.Pointer[effect.Question]
	done, err := f.Node.ExecuteTool(waiting, c.User, work.Execution{Tool: name, Args: args, Attended: c.Attended(), Notify: func(p effect.Progress) {
		if p.Status == effect.Awaiting && p.Question != nil {
			asked.Store(p.Question)
			cancel()
		}
	}})
	switch q := asked.Load(); {
	case err == nil:
		return client.HomeOutcome{Status: string(done.Result.Status), Text: done.Result.Text(), Tool: name}, nil
	case q != nil:
		c.status = http.StatusAccepted
		return client.HomeOutcome{Status: "waiting", Text: q.Summary, Tool: name, Approval: q.ID}, nil
	case fault.HasCode(err, "call_goes_on") && ctx.Err() == nil:
		c.status = http.StatusAccepted
		return client.HomeOutcome{Status: "running", Tool: name}, nil
	}
	return client.HomeOutcome{}, err
}
