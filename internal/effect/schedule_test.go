//go:build long

package effect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

// schedules is how many TestSchedules goes through.
const schedules = 10_000

// TestSchedules lets people approve, edit, deny, stop, withdraw, try again and
// answer too late, tools change, and processes die, at the moments that a seed
// says, around one action. Whatever happens: at most one effect, and what is
// recorded is what happened. STEWARD_SCHEDULE=SEED goes through one alone.
func TestSchedules(t *testing.T) {
	t.Parallel()
	first, n := rand.Uint64()>>16, schedules
	if s := os.Getenv("STEWARD_SCHEDULE"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	ends := map[intent.State]int{}
	var lives, answers, late, retries, effects int
	for i := range n {
		seed := first + uint64(i)
		s := goThrough(t, seed)
		ends[s.end]++
		lives, answers, late = lives+s.lives, answers+s.answers, late+s.late
		retries, effects = retries+s.retries, effects+s.world.total(true)
	}
	t.Logf("%d schedules from seed %d: %d lives of processes, %d answers that counted and %d that came to nothing, %d tried again, %d effects; they ended %v",
		n, first, lives, answers, late, retries, effects, ends)
	if n == 1 {
		return
	}
	for _, st := range []intent.State{intent.Done, intent.Failed, intent.Denied, intent.Cancelled, intent.Expired} {
		if ends[st] < n/200 {
			t.Errorf("only %d of %d ended %s", ends[st], n, st)
		}
	}
	if retries == 0 || lives < n+n/10 || late == 0 {
		t.Error("too little has happened")
	}
}

// goThrough runs the schedule of a seed.
func goThrough(t *testing.T, seed uint64) (s *schedule) {
	defer func() {
		if t.Failed() {
			t.Logf("STEWARD_SCHEDULE=%d goes through it again: %s, %s, %v", seed, s.kind, s.tool.spec.Delivery, s.log)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s = newSchedule(t, seed)
		s.run()
	})
	return s
}

// schedule is one action and what happens around it.
type schedule struct {
	t     *testing.T
	rnd   *rand.Rand
	kind  string
	store *storetest.Model
	world ledger
	tool  *risky
	call  Call

	mu      sync.Mutex
	delays  *rand.Rand
	process *mortal // the first of the two that work at once
	engine  *Engine
	stop    context.CancelCauseFunc
	ended   bool

	lives, answers, late, retries int
	end                           intent.State
	log                           []string
}

// say notes what happens.
func (s *schedule) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("05.000000")}, args...)...))
}

// slow is a store whose answers take a while, in which others get ahead.
type slow struct {
	store.Store
	s *schedule
}

func (x *slow) wait() {
	x.s.mu.Lock()
	d := time.Duration(x.s.delays.IntN(400)) * time.Microsecond
	x.s.mu.Unlock()
	time.Sleep(d)
}

func (x *slow) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	defer x.wait()
	return x.Store.Get(ctx, sc, u)
}

func (x *slow) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	x.wait()
	return x.Store.Commit(ctx, sc, b)
}

// risky is a tool whose calls take a while and may fail, surely or not.
type risky struct {
	*receiver
	s     *schedule
	takes time.Duration
	fails error // after its time; nil: it succeeds
	after bool  // it fails after the effect, so that nobody knows
}

func (r *risky) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	p, _ := ctx.Value(processKey{}).(*mortal)
	r.s.say("called %s", in.Key[:8])
	if !fault.Pause(ctx, r.takes) {
		return tool.Result{}, context.Cause(ctx)
	}
	if p.isDead() {
		return tool.Result{}, errCrash
	}
	if r.fails != nil && !r.after {
		return tool.Result{}, tool.NotDone(r.fails)
	}
	r.world.add(in.Key)
	r.s.say("done")
	if r.fails != nil {
		return tool.Result{}, r.fails
	}
	return tool.Text("sent"), nil
}

// processKey carries the process in which a call is made.
type processKey struct{}

func newSchedule(t *testing.T, seed uint64) *schedule {
	rnd := rand.New(rand.NewPCG(seed, 5))
	s := &schedule{t: t, rnd: rnd, store: storetest.NewModel(), delays: rand.New(rand.NewPCG(seed, 6)),
		kind: []string{"plain", "settles", "dedupes"}[rnd.IntN(3)]}
	delivery := []tool.Delivery{tool.Inline, tool.Inline, tool.Deferred}[rnd.IntN(3)]
	s.tool = &risky{receiver: newReceiver(&s.world, s.kind, delivery), s: s, takes: s.ms(3)}
	s.tool.spec.Timeout = time.Second
	switch rnd.IntN(6) {
	case 0:
		s.tool.fails = fault.New(fault.Invalid, "refused", "the receiver refuses it")
	case 1:
		s.tool.fails, s.tool.after = fault.New(fault.Unavailable, "cut", "the line was cut"), true
	}
	s.call = callOf(s.tool, `{"to":"bob"}`)
	s.call.Message = conversation.ChildID("common.Interaction", id.New()).ChildID("common.Message", s.call.Ref.Message)
	return s
}

// ms is a while of up to so many milliseconds.
func (s *schedule) ms(most int) time.Duration {
	return time.Duration(s.rnd.IntN(most*1000+1)) * time.Microsecond
}

func (s *schedule) run() {
	var people sync.WaitGroup
	timeout := time.Millisecond + s.ms(12)
	type step struct {
		after time.Duration
		do    func(*rand.Rand)
	}
	all := []func(*rand.Rand){s.answer, s.answer, s.answer, s.answer, s.refuse, s.halt, s.withdraw, s.crash, s.crash, s.change}
	steps := []step{{s.ms(4), s.answer}}
	for range s.rnd.IntN(7) {
		steps = append(steps, step{s.ms(12), all[s.rnd.IntN(len(all))]})
	}
	for _, st := range steps {
		own := rand.New(rand.NewPCG(s.rnd.Uint64(), 1))
		people.Go(func() {
			time.Sleep(st.after)
			st.do(own)
		})
	}
	second, at := s.rnd.IntN(4) == 0, s.ms(6)
	if second {
		people.Go(func() { // another worker of the node is at the same call
			time.Sleep(at)
			s.beside()
		})
	}
	s.live(timeout)
	people.Wait()
	if r, err := s.store.Get(context.Background(), s.call.Scope, IntentURI(s.call.Message, s.call.Ref.Block)); err == nil && intent.State(r.State).InFlight() {
		s.live(timeout) // the other worker died at it: the next start finds it
	}
	if _, err := s.store.Get(context.Background(), s.call.Scope, IntentURI(s.call.Message, s.call.Ref.Block)); fault.Is(err, fault.NotFound) {
		s.end = intent.Cancelled // it was stopped before it was recorded
		if n := s.world.total(false); n != 0 {
			s.t.Errorf("%d effects without a record", n)
		}
		return
	}
	s.check()
	s.again(timeout)
}

// live runs the call through as many lives of the process as it takes. A worker
// that finds another at the action tries again in the same process: a new one
// begins when the old one is dead, with all that worked in it.
func (s *schedule) live(timeout time.Duration) {
	alive, tries := false, 0
	for {
		ctx, cancel := context.WithCancelCause(context.Background())
		s.mu.Lock()
		if !alive {
			s.lives++
			s.process = &mortal{Store: s.store, left: -1}
			s.engine = s.node(s.process, timeout)
		}
		s.stop = cancel
		e, p := s.engine, s.process
		s.mu.Unlock()
		err := s.attempt(context.WithValue(ctx, processKey{}, p), e)
		cancel(nil)
		if err == nil {
			s.mu.Lock()
			s.ended = true
			s.mu.Unlock()
			return
		}
		if !errors.Is(err, errCrash) && !errors.Is(err, request.ErrSuspend) && !fault.HasCode(err, "effect_contended") && !fault.HasCode(err, "conflict") {
			s.t.Fatalf("life %d: %v", s.lives, err)
		}
		if tries++; tries > 60 {
			s.t.Fatalf("not settled after %d lives and %d tries: %v", s.lives, tries, err)
		}
		alive = !p.isDead()
		time.Sleep(time.Millisecond)
	}
}

func (s *schedule) node(p store.Store, timeout time.Duration) *Engine {
	return New(Options{Store: &slow{Store: p, s: s}, Authorizer: policy.Fixed{}, Log: quiet, ApprovalTimeout: timeout, Grace: time.Millisecond,
		Tool: func(string, string) (tool.Tool, bool) { return s.tool, true }})
}

// attempt runs the call, and what it has queued.
func (s *schedule) attempt(ctx context.Context, e *Engine) error {
	res, err := e.Run(ctx, s.call)
	s.say("%s, %v", describe(res), err)
	if err != nil || res.Status != message.Queued {
		return err
	}
	st := settlement(s.call, s.tool)
	st.Under = s.call.Message.Parent()
	_, err = e.Settle(ctx, st)
	return err
}

// beside is another worker of the same node that is at the same call. Which
// node works at a run is for leases to say, not for intents.
func (s *schedule) beside() {
	e, p, _ := s.now()
	err := s.attempt(context.WithValue(context.Background(), processKey{}, p), e)
	if err != nil && !errors.Is(err, errCrash) && !fault.HasCode(err, "effect_contended") && !fault.HasCode(err, "conflict") {
		s.t.Errorf("the other worker: %v", err)
	}
}

// now is the node that lives.
func (s *schedule) now() (*Engine, *mortal, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine, s.process, s.stop
}

// decide answers what is asked, as a person would who sees it.
func (s *schedule) decide(rnd *rand.Rand, d Decision) {
	e, _, _ := s.now()
	if rnd.IntN(4) == 0 { // through another node
		e = s.node(s.store, time.Minute)
	}
	asked, err := e.Questions(context.Background(), "ann")
	if err != nil && !errors.Is(err, errCrash) {
		s.t.Errorf("Questions: %v", err)
	}
	for _, q := range asked {
		time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond) // to read it
		d.ID, d.Hash = q.ID, q.Hash
		err := e.Decide(context.Background(), s.call.Scope, d)
		s.say("decide %v %s: %v", d.Approve, d.Args, err)
		s.mu.Lock()
		if err == nil {
			s.answers++
		} else {
			s.late++
		}
		s.mu.Unlock()
		if err != nil && !errors.Is(err, errCrash) && fault.Of(err).Kind != fault.Conflict && fault.Of(err).Kind != fault.NotFound {
			s.t.Errorf("Decide: %v", err)
		}
	}
}

func (s *schedule) answer(rnd *rand.Rand) {
	d := Decision{Approve: true}
	switch rnd.IntN(5) {
	case 0:
		d.Args = []byte(`{"to":"eve"}`)
	case 1:
		d.Standing = InConversation
	}
	s.decide(rnd, d)
}

func (s *schedule) refuse(rnd *rand.Rand) { s.decide(rnd, Decision{}) }

func (s *schedule) halt(*rand.Rand) {
	_, _, stop := s.now()
	s.say("stop")
	stop(request.ErrStop)
}

func (s *schedule) withdraw(*rand.Rand) {
	e, _, _ := s.now()
	_, err := e.Cancel(context.Background(), s.call.Scope, IntentURI(s.call.Message, s.call.Ref.Block), "not wanted any more")
	if err != nil && !errors.Is(err, errCrash) && !fault.Is(err, fault.NotFound) {
		s.t.Errorf("Withdraw: %v", err)
	}
}

// crash ends the process: nothing that it holds is recorded any more.
func (s *schedule) crash(*rand.Rand) {
	_, p, stop := s.now()
	s.say("crash")
	p.kill()
	stop(request.ErrSuspend)
}

func (s *schedule) change(*rand.Rand) { s.tool.setVersion("2") }

// check compares what is recorded with what happened.
func (s *schedule) check() {
	s.t.Helper()
	in := stateOf(s.t, s.store, s.call)
	s.end = in.State
	n := s.world.total(s.kind == "dedupes")
	switch {
	case n > 1:
		s.t.Errorf("done %d times", n)
	case !in.State.Settled():
		s.t.Errorf("left %s", in.State)
	case in.State == intent.Done && n != 1, in.State != intent.Done && in.State != intent.Unknown && n != 0:
		s.t.Errorf("%s (%s) with %d effects", in.State, in.Reason, n)
	case in.State == intent.Unknown && s.kind == "settles":
		s.t.Errorf("unknown (%s), and it could have been asked", in.Reason)
	case n > 0 && in.Approval == nil:
		s.t.Error("done without an approval")
	case n > 0 && in.Approval.ArgsHash != in.ArgsHash:
		s.t.Error("other arguments were done than were approved")
	}
}

// again has people do everything once more when all is over: the same call,
// the same answers, and a retry of what failed, from two sides at once.
func (s *schedule) again(timeout time.Duration) {
	ctx := context.WithValue(context.Background(), processKey{}, &mortal{Store: s.store, left: -1})
	e := s.node(s.store, timeout)
	uri := IntentURI(s.call.Message, s.call.Ref.Block)
	before := s.world.total(s.kind == "dedupes")
	if err := s.attempt(ctx, e); err != nil {
		s.t.Errorf("the same call again: %v", err)
	}
	if n := s.world.total(s.kind == "dedupes"); n != before {
		s.t.Errorf("the same call again: %d effects, and then %d", before, n)
	}
	s.say("it is %s", s.end)
	if s.end == intent.Unknown {
		happened := before > 0
		if err := e.Resolve(ctx, s.call.Scope, uri, Resolution{Done: happened}); err != nil {
			s.t.Errorf("Resolve: %v", err)
		}
	}
	var sides sync.WaitGroup
	s.tool.fails = nil
	for range 2 {
		sides.Go(func() { s.retry(ctx, e) })
	}
	sides.Wait()
	if n := s.world.total(s.kind == "dedupes"); n > 1 {
		s.t.Errorf("done %d times, after it was tried again", n)
	}
}

func (s *schedule) retry(ctx context.Context, e *Engine) {
	at, err := e.Again(ctx, s.call.Scope, IntentURI(s.call.Message, s.call.Ref.Block), Retry, s.tool, nil)
	if fault.Is(err, fault.Conflict) {
		return // it did not fail, or is tried already
	}
	if err != nil {
		s.t.Errorf("Again: %v", err)
		return
	}
	c, err := e.CallOf(ctx, s.call.Scope, at, s.tool)
	if err == nil {
		c.Request = request.Context{ID: id.New(), User: "ann", Conversation: conversation}
		_, err = e.Run(ctx, c)
	}
	if err != nil && fault.Of(err).Kind != fault.Conflict {
		s.t.Errorf("the retry: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries++
	s.log = append(s.log, fmt.Sprint("retried ", err))
}
