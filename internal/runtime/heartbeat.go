package runtime

import (
	"cmp"
	"context"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/heartbeat"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// HeartbeatOptions configure the heartbeat and the reviews.
type HeartbeatOptions struct {
	heartbeat.Caps
	Sources []heartbeat.Source // beside those of the node: events, failed work, unanswered messages, and agents' checks
}

// Why the heartbeat or a review did not ask a model.
var (
	errDayCap  = fault.New(fault.Exhausted, record.ReasonDayCap, "what the heartbeat and the reviews may spend in a day is spent").WithHint("raise heartbeat.calls or heartbeat.cost in the settings")
	errNoModel = fault.New(fault.Unavailable, "model_missing", "no model is set up that could be asked").WithHint("run steward setup")
)

// look finds out whether the heartbeat or a review has anything to do. A backup always has.
func (n *Node) look(ctx context.Context, j record.Job) (jobs.Sight, error) {
	if j.Kind == record.KindBackup {
		return jobs.Sight{Found: record.KindBackup}, nil
	}
	now := n.opt.Alarms.Now()
	list, err := n.opt.Alarms.Jobs(ctx, j.User)
	if err != nil {
		return jobs.Sight{}, err
	}
	if n.opt.Heartbeat.Left(list, now).None {
		return jobs.Sight{Idle: record.ReasonDayCap}, nil
	}
	seen, err := heartbeat.Look(ctx, &j, n.sources(), now)
	if err != nil {
		return jobs.Sight{}, err
	}
	out := jobs.Sight{Seen: seen.Mark, Failed: seen.Failed}
	if seen.Digest.Empty() {
		out.Idle = record.ReasonUnchanged
		return out, nil
	}
	out.Found = string(record.Encode(seen.Digest))
	if heartbeat.Covered(&j, list, now) {
		out.Idle = record.ReasonCovered
	}
	return out, nil
}

// beats is what the heartbeat and the reviews of a user have in common in this process. Its turn is held
// while one of them asks a model.
type beats struct {
	turn  chan struct{}
	date  string
	meter *llm.Meter // of the model calls on that date, also those of which nothing could be recorded
}

// beginHeartbeat returns what a turn of the heartbeat or a review may spend, and what the model is asked. The
// jobs of a user take turns, so that together they stay within the caps; done lets the next one begin.
func (n *Node) beginHeartbeat(ctx context.Context, a *jobs.Attempt) (meter *llm.Meter, content []message.Block, done func(), err error) {
	var b llm.Budget
	d, err := heartbeat.ReadDigest(a.Occurrence.Found)
	if err != nil {
		return nil, nil, nil, err
	}
	if m, err := n.opt.Models.Resolve(a.Job.Model); err != nil || llm.Offline(m.Models) {
		return nil, nil, nil, cmp.Or(err, error(errNoModel))
	} else if n.priced(m.Models) {
		b.MaxCost = a.Job.MaxCost
	}
	shared, _ := n.beats.LoadOrStore(a.Job.User, &beats{turn: make(chan struct{}, 1)})
	own := shared.(*beats)
	select {
	case own.turn <- struct{}{}:
	default: // the other one may wait for a person
		mine := false
		err := a.Wait(ctx, func() error {
			select {
			case own.turn <- struct{}{}:
				mine = true
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			if mine {
				<-own.turn
			}
			return nil, nil, nil, err
		}
	}
	now := n.opt.Alarms.Now()
	done = func() { <-own.turn }
	list, err := n.opt.Alarms.Jobs(ctx, a.Job.User)
	left := n.opt.Heartbeat.Left(list, now)
	if today := now.In(zoneOf(&a.Job)).Format(time.DateOnly); own.date != today && err == nil {
		own.date, own.meter = today, llm.NewMeter(llm.Budget{MaxCalls: n.opt.Heartbeat.Calls})
		before, _ := heartbeat.Spent(list, now)
		own.meter.AddCalls(before)
	}
	if most := n.opt.Heartbeat.Calls; err == nil && (left.None || most > 0 && own.meter.Calls() >= most) {
		err = errDayCap
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	b.MaxCalls = left.Calls
	if left.Cost > 0 && n.priced(n.modelsOf(a.Job.Model)) && (b.MaxCost == 0 || left.Cost < b.MaxCost) {
		b.MaxCost = left.Cost
	}
	meter = llm.NewMeter(b)
	meter.Under(own.meter)
	return meter, heartbeat.Content(a.Job.Kind, &d, zoneOf(&a.Job)), done, nil
}

// modelsOf returns the models that a name stands for.
func (n *Node) modelsOf(name string) []string {
	m, err := n.opt.Models.Resolve(name)
	if err != nil {
		return nil
	}
	return m.Models
}

// priced reports whether the prices of all models are known, so that their cost can be limited.
func (n *Node) priced(models []string) bool {
	for _, m := range models {
		if _, ok := n.opt.Models.Price(m); !ok {
			return false
		}
	}
	return len(models) > 0
}

// modelCalls returns how many replies of models a turn and everything below it have recorded.
func (n *Node) modelCalls(ctx context.Context, sc store.Scope, at resource.URI) (int, error) {
	sum, err := requests.SumUp(ctx, n.opt.Store, sc, at)
	if err != nil {
		return 0, err
	}
	for _, err := range conversation.Recorded(ctx, n.opt.Store, sc, at) {
		if err != nil {
			return 0, err
		}
		sum.Replies++
	}
	return sum.Replies, nil
}

// heartbeatConversation returns the conversation in which the heartbeat and the reviews of a user work on a
// day. It is another one each day, so that what a model is shown stays small.
func heartbeatConversation(user string, t time.Time, zone *time.Location) id.ID {
	return id.Derive("conversation", "heartbeat", user, t.In(zone).Format(time.DateOnly))
}

// nameHeartbeat gives the conversation of a day its title.
func (n *Node) nameHeartbeat(ctx context.Context, a *jobs.Attempt, conv id.ID) {
	c, found, err := requests.Conversation(ctx, n.opt.Store, store.ForUser(a.Job.User), conv)
	if err == nil && found && c.Title == "" {
		_, err = n.Rename(ctx, a.Job.User, conv, "Heartbeat, "+a.Occurrence.Due.In(zoneOf(&a.Job)).Format("Mon 2 Jan 2006"))
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("the conversation of the heartbeat has no title", "error", err)
	}
}

// heartbeatAnswer makes the user's message of a model's answer; empty: there is nothing to tell.
func heartbeatAnswer(a *jobs.Attempt, answer string) (string, error) {
	d, err := heartbeat.ReadDigest(a.Occurrence.Found)
	return heartbeat.Answer(answer, &d), err
}

// reportHeartbeat reports whether the user is told that the heartbeat or a review did not run: only of the
// first of several failures in a row. That it did not run while Steward did not run is no news.
func (n *Node) reportHeartbeat(ctx context.Context, j *record.Job, o *record.Occurrence) bool {
	if o.State != record.OccurrenceFailed || o.Reason == record.ReasonDayCap {
		return false
	}
	list, err := n.opt.Alarms.Occurrences(ctx, j.User, j.Name, 20)
	if err != nil {
		return true
	}
	for i := range list {
		if x := &list[i]; x.Number < o.Number && (x.State == record.OccurrenceDone || x.State == record.OccurrenceFailed) {
			return x.State == record.OccurrenceDone
		}
	}
	return true
}
