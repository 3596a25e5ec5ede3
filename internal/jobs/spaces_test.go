package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/test/storetest"
)

// several are schedulers over one store, of which each works on users of its own. Users move between them at random.
type several struct {
	*testing.T
	st   store.Store
	rand *rand.Rand
	all  []*place

	mu      sync.Mutex
	wanted  map[string]bool
	running map[string]int // attempts that are carried out now, by key
	done    map[string]int // attempts that came to an end, by key
	told    map[id.ID]int  // occurrences of alarms that were told to their end
}

// place is one scheduler.
type place struct {
	*several
	*Scheduler
	mu   sync.Mutex
	held map[string]*hold
}

// hold is a user at a place.
type hold struct {
	ctx  context.Context
	end  context.CancelFunc
	busy sync.WaitGroup
}

// Enter implements Spaces.
func (p *place) Enter(_ context.Context, user string) (context.Context, func(), bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[user]
	if h == nil {
		return nil, nil, false
	}
	h.busy.Add(1)
	return h.ctx, h.busy.Done, true
}

// Want implements Spaces.
func (p *place) Want(_ context.Context, user string) error {
	s := p.several
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[user] = true
	return nil
}

func (p *place) take(user string) {
	p.mu.Lock()
	h := &hold{}
	h.ctx, h.end = context.WithCancel(context.Background())
	p.held[user] = h
	p.mu.Unlock()
	if err := p.LoadUser(p.Context(), user); err != nil {
		p.Fatal(err)
	}
}

// leave lets a user go. Sometimes the place cannot read what is due later.
func (p *place) leave(user string, reads bool) {
	p.mu.Lock()
	h := p.held[user]
	delete(p.held, user)
	p.mu.Unlock()
	h.end()
	h.busy.Wait()
	if reads {
		if err := p.LoadUser(p.Context(), user); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *place) handlers() Handlers {
	s := p.several
	return Handlers{
		Spaces: p,
		Alarm: func(ctx context.Context, _ record.Alarm, o Occurrence) (bool, error) {
			if !fault.Pause(ctx, s.pause()) {
				return false, ctx.Err()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told[o.ID]++
			return false, nil
		},
		Job: func(ctx context.Context, a *Attempt) (Result, error) {
			key := a.Job.Name + " " + a.Key()
			s.mu.Lock()
			s.running[key]++
			if s.running[key] > 1 {
				s.Errorf("%s is carried out twice at the same time", key)
			}
			s.mu.Unlock()
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.running[key]--
			}()
			if !fault.Pause(ctx, s.pause()) {
				return Result{}, ctx.Err()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.done[key]++
			return Result{}, nil
		},
	}
}

// draw returns a random number below n.
func (s *several) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *several) pause() time.Duration { return time.Duration(s.draw(20_000)) * time.Millisecond }

// follow tells a place what is in the log, as its node does.
func (p *place) follow(ctx context.Context, after uint64) {
	for ctx.Err() == nil {
		head, err := p.st.Wait(ctx, after)
		if err != nil {
			return
		}
		for en, err := range store.Entries(ctx, p.st, store.ForNode(""), store.LogQuery{Since: after}) {
			if err != nil {
				return
			}
			after = en.Seq
			p.Told(&en)
		}
		after = max(after, head)
	}
}

// Each occurrence is carried out once, and none is forgotten, although each scheduler carries out only those of its
// users, users move in the middle of what goes on, and for a while nobody works on them.
func TestOccurrencesOfUsersThatMove(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { usersMove(t, seed) })
		})
	}
}

func usersMove(t *testing.T, seed uint64) {
	s := &several{T: t, st: storetest.NewModel(), rand: rand.New(rand.NewPCG(seed, 1)), wanted: map[string]bool{}, running: map[string]int{}, done: map[string]int{}, told: map[id.ID]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	for range 3 {
		p := &place{several: s, Scheduler: New(Options{Store: s.st}), held: map[string]*hold{}}
		s.all = append(s.all, p)
		head, err := follow.Head(ctx, s.st)
		if err != nil {
			t.Fatal(err)
		}
		nodes.Go(func() { p.follow(ctx, head) })
		nodes.Go(func() { _ = p.Run(ctx, p.handlers()) })
	}
	synctest.Wait()
	users, at := []string{"ann", "ben", "cy"}, map[string]*place{}
	for _, user := range users {
		set := s.all[s.draw(3)] // not the one that will work on the user
		j := record.Job{User: user, Name: "often", Text: "look", Missed: record.MissedAll, Overlap: record.OverlapQueue}
		j.Every = 120
		if _, err := set.AddJob(ctx, j); err != nil {
			t.Fatal(err)
		}
		a := record.Alarm{ID: id.New(), User: user, Kind: "reminder", Text: "tea", Start: time.Now().Add(time.Minute), Rule: "FREQ=MINUTELY;INTERVAL=3;COUNT=15", Zone: "UTC"}
		if _, err := set.Set(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	begun := 0
	for end := time.Now().Add(time.Hour); time.Now().Before(end); {
		time.Sleep(time.Duration(s.draw(30_000)) * time.Millisecond)
		user := users[s.draw(len(users))]
		if p := at[user]; p != nil {
			p.leave(user, s.draw(3) > 0)
			delete(at, user)
		}
		if s.draw(4) == 0 { // a person begins the job, at any node
			if _, err := s.all[s.draw(3)].RunJob(ctx, user, "often", id.New()); err == nil {
				begun++
			}
		}
		if s.draw(2) == 0 {
			at[user] = s.all[s.draw(3)]
			at[user].take(user)
		}
		s.mu.Lock()
		wanted := s.wanted
		s.wanted = map[string]bool{}
		s.mu.Unlock()
		for user := range wanted {
			if at[user] == nil {
				at[user] = s.all[s.draw(3)]
				at[user].take(user)
			}
		}
	}
	for _, user := range users {
		if at[user] == nil {
			at[user] = s.all[0]
			s.all[0].take(user)
		}
		if _, err := s.all[1].PauseJob(ctx, user, "often"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(30 * time.Minute)
	occurrences := 0
	for _, user := range users {
		j, _, err := s.all[0].job(ctx, user, record.JobID(user, "often"))
		if err != nil {
			t.Fatal(err)
		}
		if c := j.Count; open(&j) != 0 || c.Failed != 0 || c.Missed+c.Skipped != 0 || c.Due-c.Manual < 29 {
			t.Errorf("%s: %+v", user, c)
		}
		occurrences += j.Count.Done
		list, err := s.all[0].List(ctx, user)
		if err != nil || len(list) != 0 {
			t.Errorf("%s still has %d alarms, %v", user, len(list), err)
		}
	}
	if len(s.done) != occurrences || begun == 0 {
		t.Errorf("%d attempts were made for %d occurrences, %d of which people had begun", len(s.done), occurrences, begun)
	}
	for _, user := range users {
		for _, p := range s.all {
			if p.held[user] != nil {
				p.leave(user, true)
			}
		}
	}
	cancel()
	nodes.Wait()
}
