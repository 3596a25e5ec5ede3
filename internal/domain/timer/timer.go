// Package timer lets an agent set timers. A timer is a file with its end, so it also goes off after a
// restart.
package timer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:timer"

// MaxSeconds is the longest timer: 31 days.
const MaxSeconds = 31 * 24 * 3600

// State is the state of a timer.
type State string

// The states.
const (
	Running   State = "running"
	Over      State = "over"
	Cancelled State = "cancelled"
)

// Timer is a timer.
type Timer struct {
	Key   string    `json:"key"` // of the call that set it
	Name  string    `json:"name"`
	Set   time.Time `json:"set"`  // when the call was first accepted
	Ends  time.Time `json:"ends"` // when it goes off
	State State     `json:"state"`
	By    string    `json:"by,omitzero"` // the key of the call that cancelled it
}

// Options configure the source. The zero value works.
type Options = local.Options

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Declared `yaml:",inline"`
	Folder         string `yaml:"folder"` // where the timers are kept
}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		place, err := local.NewPlace(env, d.Folder, "timers")
		if err != nil {
			return nil, err
		}
		k := local.NewKit(env, Kind)
		if err := k.Deliver(d.Declared, d.Folder); err != nil {
			return nil, err
		}
		s := &service{Options: opt, place: place, cancelled: map[string]chan struct{}{}}
		return s.source(k)
	}
}

// service holds the tools over the users' timers. Closing the source ends no waiting call; the call's
// context does. Another source over the same folder finds the same timers.
type service struct {
	Options
	place local.Place

	mu        sync.Mutex
	cancelled map[string]chan struct{} // by user and key: closed when the timer is cancelled
}

// of returns the timers of a user.
func (s *service) of(user string) files { return files{s.place.For(user)} }

type setArgs struct {
	Seconds int    `json:"seconds" jsonschema:"how long the timer runs, in seconds" min:"1" max:"2678400"`
	Name    string `json:"name,omitzero" jsonschema:"what the timer is called or is for, such as tea" maxlen:"100"`
}

type cancelArgs struct {
	Name string `json:"name,omitzero" jsonschema:"the timer's name; the only running one unless given" maxlen:"100"`
}

// mine are the labels of the timers' names: they belong to the user, and may come from others.
const mine = message.Private | message.Untrusted

func (s *service) source(k *local.Kit) (tool.Source, error) {
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list")}}}
	local.Action(k, tool.Spec{Name: "set", Async: true, Timeout: (MaxSeconds + 3600) * time.Second, Tidy: stale,
		Description: "Sets a timer: starts a countdown that tells when a number of minutes or hours is over.",
		Log:         tool.LogSpec{Summary: "Set a timer of {seconds} s: {name|unnamed}", Impact: []string{"name"}}}, s.set, s.settleSet)
	local.Query(k, tool.Spec{Name: "list", Yields: mine,
		Tidy:        []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Minute}, {Kind: tool.ByTool, Tools: []string{k.Name("list")}}},
		Description: "Lists the timers that are running: how much time is left of each countdown.",
		Log:         tool.LogSpec{Summary: "List the timers"}}, s.list)
	local.Action(k, tool.Spec{Name: "cancel", Yields: mine, Tidy: stale,
		Description: "Cancels a timer: stops a countdown before it is over.",
		Log:         tool.LogSpec{Summary: "Cancel the timer {name|that is running}", Impact: []string{"name"}}}, s.cancel, s.settleCancel)
	return k.Source()
}

func called(name string) string {
	if name == "" {
		return "the timer"
	}
	return fmt.Sprintf("the timer %q", name)
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// set stores the timer and waits for its end. If the same call is made again after a restart, it waits for
// the rest of the time.
func (s *service) set(ctx context.Context, in tool.Invocation, a setArgs) (string, error) {
	store := s.of(in.User)
	key := local.Key(in)
	now := s.Time().UTC()
	t, err := store.Accept(ctx, Timer{Key: key, Name: strings.Join(strings.Fields(a.Name), " "), Set: now, Ends: now.Add(time.Duration(a.Seconds) * time.Second), State: Running})
	if err != nil {
		return "", err
	}
	stop := s.watch(in.User, key)
	defer s.unwatch(in.User, key)
	if now, ok, err := store.Get(ctx, key); err != nil { // it may have been cancelled before the watch began
		return "", err
	} else if ok {
		t = now
	}
	if t.State == Running {
		if err := s.wait(ctx, in, store, t, stop); err != nil {
			return "", err
		}
		if t, err = store.Finish(context.WithoutCancel(ctx), key, Over, ""); err != nil {
			return "", err
		}
	}
	return s.told(t, in.User), nil
}

// told returns the text about a timer that has ended.
func (s *service) told(t Timer, user string) string {
	if t.State == Cancelled {
		return sentence(called(t.Name)) + " was cancelled."
	}
	out := sentence(called(t.Name)) + " is over."
	if late := s.Time().Sub(t.Ends); late > time.Minute {
		out += " It ended at " + t.Ends.In(s.Location(user)).Format("15:04 on Mon 2 Jan") + "; Steward was not running then."
	}
	return out
}

const (
	reports   = 20          // progress reports of a timer
	mostSleep = time.Minute // at once, because the clock may be set, or the machine may sleep
)

// wait waits until the timer is over or cancelled, or ctx is done.
func (s *service) wait(ctx context.Context, in tool.Invocation, store files, t Timer, stop <-chan struct{}) error {
	whole := t.Ends.Sub(t.Set)
	told := -1
	for {
		left := t.Ends.Sub(s.Time())
		if left <= 0 {
			return nil
		}
		if part := int(float64(reports) * float64(whole-left) / float64(whole)); part > told {
			told = part
			in.Report(tool.Progress{Message: fmt.Sprintf("%s: %s left", called(t.Name), shown(left)), Fraction: float64(whole-left) / float64(whole)})
		}
		next := time.NewTimer(min(left, mostSleep, max(whole/reports, time.Second)))
		select {
		case <-next.C: // it may have been cancelled through another source
			if now, ok, err := store.Get(ctx, t.Key); err != nil || ok && now.State != Running {
				return err
			}
		case <-stop:
			next.Stop()
			return nil
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		}
	}
}

// shown returns a duration in words, to the second.
func shown(d time.Duration) string {
	d = max(d.Round(time.Second), time.Second)
	var out []string
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		n := d / u.size
		d -= n * u.size
		switch {
		case n == 1:
			out = append(out, "1 "+u.name)
		case n > 1:
			out = append(out, fmt.Sprintf("%d %ss", n, u.name))
		}
	}
	return strings.Join(out[:min(len(out), 2)], " and ")
}

func (s *service) watch(user, key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := user + "\x00" + key
	if s.cancelled[id] == nil {
		s.cancelled[id] = make(chan struct{})
	}
	return s.cancelled[id]
}

func (s *service) unwatch(user, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cancelled, user+"\x00"+key)
}

// wake wakes the call that waits for a timer, if there is one, because the timer was cancelled.
func (s *service) wake(user, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := user + "\x00" + key
	if c := s.cancelled[id]; c != nil {
		close(c)
		delete(s.cancelled, id)
	}
}

// settleSet returns the text about a timer that has ended. If it still runs, the call must be resumed.
func (s *service) settleSet(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	store := s.of(in.User)
	t, ok, err := store.Get(ctx, local.Key(in))
	if err != nil || !ok || t.State == Running {
		return false, tool.Result{}, err
	}
	return true, tool.Text(s.told(t, in.User)), nil
}

func (s *service) list(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
	store := s.of(in.User)
	all, err := store.All(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	for _, t := range all {
		if left := t.Ends.Sub(s.Time()); t.State == Running && left > 0 {
			out = append(out, fmt.Sprintf("- %s: %s left", called(t.Name), shown(left)))
		}
	}
	if len(out) == 0 {
		return "No timer is running.", nil
	}
	return strings.Join(out, "\n"), nil
}

func (s *service) cancel(ctx context.Context, in tool.Invocation, a cancelArgs) (string, error) {
	store := s.of(in.User)
	all, err := store.All(ctx)
	if err != nil {
		return "", tool.NotDone(err)
	}
	var running []Timer
	for _, t := range all {
		if t.By == local.Key(in) {
			return "Cancelled " + called(t.Name) + ".", nil
		}
		if t.State == Running && (a.Name == "" || strings.EqualFold(t.Name, strings.TrimSpace(a.Name))) {
			running = append(running, t)
		}
	}
	switch {
	case len(running) == 0 && a.Name != "":
		return "", fault.New(fault.NotFound, "timer_not_found", "no timer called %.80q is running", a.Name).WithHint("list the timers")
	case len(running) == 0:
		return "", fault.New(fault.NotFound, "timer_not_found", "no timer is running")
	case len(running) > 1 && a.Name == "":
		var names []string
		for _, t := range running {
			names = append(names, called(t.Name))
		}
		return "", fault.New(fault.Conflict, "timer_ambiguous", "several timers are running").WithHint("say which: %s", strings.Join(names, ", "))
	}
	t, err := store.Finish(ctx, running[0].Key, Cancelled, local.Key(in))
	if err != nil {
		return "", err
	}
	s.wake(in.User, t.Key)
	if t.State != Cancelled {
		return sentence(called(t.Name)) + " was over already.", nil
	}
	return "Cancelled " + called(t.Name) + ".", nil
}

// settleCancel reports whether the call cancelled a timer.
func (s *service) settleCancel(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	store := s.of(in.User)
	all, err := store.All(ctx)
	if err != nil {
		return false, tool.Result{}, err
	}
	for _, t := range all {
		if t.By == local.Key(in) {
			s.wake(in.User, t.Key)
			return true, tool.Text("Cancelled " + called(t.Name) + "."), nil
		}
	}
	return false, tool.Result{}, nil
}
