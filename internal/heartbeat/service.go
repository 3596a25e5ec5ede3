package heartbeat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
)

// Jobs keeps jobs; package jobs does.
type Jobs interface {
	SetJob(ctx context.Context, j record.Job) (record.Job, error)
	Job(ctx context.Context, user, name string) (record.Job, error)
	Jobs(ctx context.Context, user string) ([]record.Job, error)
	PauseJob(ctx context.Context, user, name string) (record.Job, error)
	RunJob(ctx context.Context, user, name string, by id.ID) (record.Occurrence, error)
	Occurrences(ctx context.Context, user, name string, limit int) ([]record.Occurrence, error)
	Preview(j record.Job, n int) ([]time.Time, error)
}

// Settings are what the settings say.
type Settings struct {
	Every time.Duration // of the heartbeat
	At    string        // the time of day of the reviews: "08:00"
	Quiet string        // hours in which nothing is said: "22:00-07:00"; empty: none
	Model string        // empty: that of the assistant
	Caps
}

// Service turns the heartbeat on and off, and shows it. Jobs is required.
type Service struct {
	Jobs     Jobs
	Settings Settings
	Zone     func(user string) *time.Location // nil, or a nil result: UTC
	Now      func() time.Time                 // nil: time.Now
	// Notifies reports whether a user can be notified outside of a conversation; nil: nobody can.
	Notifies func(user string) bool
	// Note returns a sentence for whoever turns it on, about whether anything will run; empty, or a nil
	// function: there is nothing to say.
	Note func(ctx context.Context) string
}

// names are the names of the jobs, by their kinds.
var names = map[string]string{record.KindHeartbeat: "heartbeat", record.KindDaily: "daily-review", record.KindWeekly: "weekly-review", record.KindMonthly: "monthly-review"}

// Kinds returns the kinds of jobs, the heartbeat first.
func Kinds() []string {
	return []string{record.KindHeartbeat, record.KindDaily, record.KindWeekly, record.KindMonthly}
}

// maxTime bounds a turn, in seconds.
const maxTime = 600

// job returns the job of a kind as a person turns it on.
func (s Service) job(user, kind string, o client.NewHeartbeat) (record.Job, error) {
	j := record.Job{User: user, Name: names[kind], Kind: kind, Creator: "user", Model: cmp.Or(o.Model, s.Settings.Model), MaxTime: maxTime,
		Tools: map[string]string{record.AllActions: record.ToolDeny}, Missed: record.MissedOnce, Overlap: record.OverlapSkip,
		Deliver: record.Delivery{Notify: true}, Text: "Tell me what has changed and matters"}
	maps.Copy(j.Tools, o.Tools)
	zone := s.zone(user)
	j.Zone = zone.String()
	if j.Zone == "Local" || j.Zone == "" {
		j.Zone = "UTC"
	}
	if o.Conversation != "" {
		conv, ok := id.Parse(o.Conversation)
		if !ok || conv.Zero() {
			return j, fault.New(fault.Invalid, "conversation_invalid", "%.80q is not the id of a conversation", o.Conversation).WithHint("steward conversations list shows the ids")
		}
		j.Deliver.Conversation = conv
	}
	from, to, ok := strings.Cut(strings.ReplaceAll(cmp.Or(o.Quiet, s.Settings.Quiet), " ", ""), "-")
	if ok {
		j.Quiet = record.Quiet{From: clock(from), To: clock(to)}
	} else if from != "" && from != "off" {
		return j, fault.New(fault.Invalid, "quiet_invalid", "the quiet hours %.40q are not valid", from).WithHint("give two times, such as 22:00-7:00, or off")
	}
	if kind == record.KindHeartbeat {
		every := s.Settings.Every
		if o.Every != "" {
			var err error
			if every, err = time.ParseDuration(o.Every); err != nil || every < time.Minute || every > 24*time.Hour {
				return j, fault.New(fault.Invalid, "every_invalid", "%.40q is not possible as the time between two looks", o.Every).WithHint("give 1m to 24h, such as 30m")
			}
		}
		j.Every = int(every / time.Second)
		return j, nil
	}
	at, err := time.Parse("15:04", clock(cmp.Or(o.At, s.Settings.At)))
	if err != nil {
		return j, fault.New(fault.Invalid, "time_invalid", "%.40q is not a time of day", cmp.Or(o.At, s.Settings.At)).WithHint("give one such as 8:00")
	}
	days := map[string]string{record.KindDaily: "* * *", record.KindWeekly: fmt.Sprintf("* * %d", reviewDay), record.KindMonthly: "1 * *"}[kind]
	j.Cron = fmt.Sprintf("%d %d %s", at.Minute(), at.Hour(), days)
	j.Text = strings.ToUpper(kind[:1]) + kind[1:] + " review"
	return j, nil
}

// clock writes "7:00" as "07:00".
func clock(t string) string {
	if i := strings.IndexByte(t, ':'); i == 1 {
		return "0" + t
	}
	return t
}

func (s Service) zone(user string) *time.Location {
	if s.Zone != nil {
		if z := s.Zone(user); z != nil {
			return z
		}
	}
	return time.UTC
}

func (s Service) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// On turns the heartbeat and the reviews of a user on, or changes how they are. Error codes: every_invalid,
// time_invalid, quiet_invalid, review_unknown, conversation_invalid, and those of the scheduler (name_taken:
// the user has a job with the name).
func (s Service) On(ctx context.Context, user string, o client.NewHeartbeat) (client.Heartbeat, error) {
	want := []string{record.KindHeartbeat}
	switch {
	case o.Reviews == nil:
		want = Kinds()
	case len(o.Reviews) == 1 && o.Reviews[0] == "none":
	default:
		for _, kind := range o.Reviews {
			if kind == record.KindHeartbeat || names[kind] == "" {
				return client.Heartbeat{}, fault.New(fault.Invalid, "review_unknown", "there is no review %.40q", kind).WithHint("use daily, weekly, monthly or none")
			}
			want = append(want, kind)
		}
	}
	var list []record.Job
	for _, kind := range want { // all of them are checked before the first one is stored
		j, err := s.job(user, kind, o)
		if err == nil {
			_, err = s.Jobs.Preview(j, 1)
		}
		if err != nil {
			return client.Heartbeat{}, err
		}
		if old, err := s.Jobs.Job(ctx, user, j.Name); err == nil && old.Kind != kind {
			return client.Heartbeat{}, fault.New(fault.Conflict, "name_taken", "there is already a job %q", j.Name).WithHint("remove it, and add it again under another name")
		}
		list = append(list, j)
	}
	for _, j := range list {
		if _, err := s.Jobs.SetJob(ctx, j); err != nil {
			return client.Heartbeat{}, err
		}
	}
	for _, kind := range Kinds() {
		if !slices.Contains(want, kind) {
			if err := s.pause(ctx, user, kind); err != nil {
				return client.Heartbeat{}, err
			}
		}
	}
	v, err := s.Status(ctx, user)
	if err == nil && s.Note != nil {
		v.Note = s.Note(ctx)
	}
	return v, err
}

// Off turns all of them off. What has been spent today stays known.
func (s Service) Off(ctx context.Context, user string) (client.Heartbeat, error) {
	for _, kind := range Kinds() {
		if err := s.pause(ctx, user, kind); err != nil {
			return client.Heartbeat{}, err
		}
	}
	return s.Status(ctx, user)
}

func (s Service) pause(ctx context.Context, user, kind string) error {
	j, err := s.Jobs.Job(ctx, user, names[kind])
	if fault.Is(err, fault.NotFound) || err == nil && j.Kind != kind {
		return nil
	}
	if err == nil && j.State == record.JobActive {
		_, err = s.Jobs.PauseJob(ctx, user, j.Name)
	}
	return err
}

// Run looks now, apart from the times, as the heartbeat or a review does. Error codes: heartbeat_off
// (Conflict), review_unknown, job_busy.
func (s Service) Run(ctx context.Context, user, kind string) (client.HeartbeatRun, error) {
	kind = cmp.Or(kind, record.KindHeartbeat)
	if names[kind] == "" {
		return client.HeartbeatRun{}, fault.New(fault.Invalid, "review_unknown", "there is no review %.40q", kind).WithHint("use daily, weekly or monthly")
	}
	j, err := s.Jobs.Job(ctx, user, names[kind])
	if fault.Is(err, fault.NotFound) || err == nil && (j.Kind != kind || j.State != record.JobActive) {
		return client.HeartbeatRun{}, fault.New(fault.Conflict, "heartbeat_off", "the %s is off", names[kind]).WithHint("turn it on: steward heartbeat on")
	}
	if err != nil {
		return client.HeartbeatRun{}, err
	}
	o, err := s.Jobs.RunJob(ctx, user, j.Name, id.New())
	return s.run(&j, &o), err
}

// Status shows how the heartbeat and the reviews of a user are, and what they did last.
func (s Service) Status(ctx context.Context, user string) (client.Heartbeat, error) {
	list, err := s.Jobs.Jobs(ctx, user)
	if err != nil {
		return client.Heartbeat{}, err
	}
	v := client.Heartbeat{Zone: s.zone(user).String(), Calls: client.HeartbeatCalls{Max: s.Settings.Calls, MaxCost: s.Settings.Cost}, Jobs: []client.HeartbeatJob{}}
	v.Calls.Today, v.Calls.Cost = Spent(list, s.now())
	for _, kind := range Kinds() {
		i := slices.IndexFunc(list, func(j record.Job) bool { return j.Kind == kind })
		if i < 0 {
			continue
		}
		j := &list[i]
		x, err := s.view(ctx, j)
		if err != nil {
			return v, err
		}
		v.Jobs = append(v.Jobs, x)
		if kind == record.KindHeartbeat {
			v.On, v.Zone, v.Tools, v.Notify, v.Model = j.State == record.JobActive, j.Zone, j.Tools, j.Deliver.Notify && s.Notifies != nil && s.Notifies(user), j.Model
			v.Every = (time.Duration(j.Every) * time.Second).String()
			if j.Quiet != (record.Quiet{}) {
				v.Quiet = j.Quiet.From + "-" + j.Quiet.To
			}
			if !j.Deliver.Conversation.Zero() {
				v.Conversation = j.Deliver.Conversation.String()
			}
		}
	}
	return v, nil
}

// view shows one of the jobs, with its last look and the last time that it asked a model.
func (s Service) view(ctx context.Context, j *record.Job) (client.HeartbeatJob, error) {
	v := client.HeartbeatJob{Name: j.Name, Kind: j.Kind, State: j.State, Next: in(j.Next, j.Zone), Looked: in(j.Last.At, j.Zone), Idle: j.Last.Reason, Failed: j.Last.Failed,
		Looks: j.Count.Skipped + j.Count.Done + j.Count.Failed, Asked: j.Count.Done + j.Count.Failed, Cost: j.Count.Cost}
	list, err := s.Jobs.Occurrences(ctx, j.User, j.Name, 20)
	if err != nil {
		return v, err
	}
	for i := range list {
		if o := &list[i]; o.State != record.OccurrenceSkipped && o.State != record.OccurrenceMissed {
			run := s.run(j, o)
			v.Last = &run
			break
		}
	}
	return v, nil
}

// run shows an occurrence.
func (s Service) run(j *record.Job, o *record.Occurrence) client.HeartbeatRun {
	v := client.HeartbeatRun{ID: o.ID.String(), Job: j.Name, Due: in(o.Due, j.Zone), Ended: in(o.Ended, j.Zone), State: o.State, Reason: o.Reason, Said: o.Said, Calls: o.Calls, Cost: o.Cost}
	if !o.Conversation.Zero() {
		v.Conversation = o.Conversation.String()
	}
	if d, err := ReadDigest(o.Found); err == nil {
		for _, c := range d.Changes {
			v.Changes = append(v.Changes, client.HeartbeatChange{Source: c.Source, At: in(c.At, j.Zone), Text: c.Text, URI: c.URI})
		}
		v.More = d.More
	}
	return v
}

func in(t time.Time, name string) time.Time {
	zone, err := time.LoadLocation(name)
	if err != nil || t.IsZero() {
		return t
	}
	return t.In(zone)
}
