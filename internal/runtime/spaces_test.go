package runtime_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/jobs"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
	"steward/test/storetest"
)

// wants are the users that a node wants to be worked on.
type wants struct {
	mu    sync.Mutex
	users []string
}

func (w *wants) Want(_ context.Context, user string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users = append(w.users, user)
	return nil
}

func (w *wants) has(user string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.users, user)
}

// shared is a store that several nodes use, which none of them closes.
type shared struct{ store.Store }

// fence refuses what a node commits that has lost its users: nothing is committed after that.
type fence struct {
	store.Store
	mu   sync.RWMutex
	lost bool
}

// Commit implements store.Store.
func (f *fence) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.lost {
		return store.Receipt{}, lease.ErrLost
	}
	return f.Store.Commit(ctx, sc, b)
}

func (f *fence) set(lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = lost
}

// openShared opens a store for several nodes.
func openShared(t *testing.T) store.Store {
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "shared.db")})
	ok(t, err)
	t.Cleanup(func() { st.Close() })
	return shared{st}
}

// member is one node of several over a store.
type member struct {
	*world
	wants *wants
	fence *fence
}

// join opens a node over a store that it shares. Actions take place in the one ledger.
func join(t *testing.T, st store.Store, done *ledger, more ...tool.Tool) *member {
	m := &member{wants: &wants{}, fence: &fence{Store: st}}
	m.world = made(t, &world{memory: m.fence, more: more, judge: allows{"ledger.add": policy.Ask}})
	m.ledger = done
	m.aliases = map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}}
	m.model.begun = make(chan struct{}, 99)
	m.opt.Spaces, m.opt.Alarms = m.wants, jobs.New(jobs.Options{Store: st})
	m.open()
	return m
}

func (m *member) take(crashed bool) {
	m.t.Helper()
	ok(m.t, m.TakeUser(m.t.Context(), "anna", crashed))
}

// slowly is a tool that works until it is told to end. It counts how often it was begun.
func slowly(begun *atomic.Int32, gate chan struct{}) tool.Tool {
	return newTool(tool.Spec{Name: "slow.work", Description: "Works for long.", Effect: tool.Query, Async: true},
		func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
			begun.Add(1)
			select {
			case <-gate:
				return "worked", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
}

// pastAlarm sets an alarm that is due already.
func pastAlarm(t *testing.T, st store.Store, conv id.ID) record.Alarm {
	t.Helper()
	due := time.Now().Add(-10 * time.Second)
	before := jobs.New(jobs.Options{Store: st, Now: func() time.Time { return due.Add(-time.Hour) }})
	a := record.Alarm{ID: id.New(), User: "anna", Conversation: conv, Kind: "reminder", Text: "drink tea", Start: due, Zone: "UTC"}
	ok(t, second(before.Set(t.Context(), a)))
	return a
}

// approveAll approves what waits for anna until all of her requests are closed.
func (m *member) approveAll(over func() bool) {
	m.t.Helper()
	eventually(m.t, "all is over", func() bool {
		list, err := m.Effects.Questions(m.t.Context(), "anna")
		ok(m.t, err)
		for _, q := range list {
			if err := m.Effects.Decide(m.t.Context(), store.ForUser("anna"), effect.Decision{ID: q.ID, Hash: q.Hash, Approve: true}); err != nil && !fault.Is(err, fault.Conflict) {
				m.t.Fatal(err)
			}
		}
		open, err := m.Requests(m.t.Context(), "anna", false, 1000)
		ok(m.t, err)
		return len(list) == 0 && len(open) == 0 && over()
	})
}

// A user with all that can go on moves from one node to another one, which continues it: nothing is lost, and
// nothing happens twice. It makes no difference whether the first node lets the user go, or is only refused what it
// still writes, and learns of it later.
func TestAUserMoves(t *testing.T) {
	for name, crashed := range map[string]bool{"in good order": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) { moves(t, crashed) })
	}
}

func moves(t *testing.T, crashed bool) {
	st, done := openShared(t), &ledger{}
	var worked atomic.Int32
	workGate := make(chan struct{})
	s := newShop("shop.order", tool.Deferred)
	s.spec.Dedupes, s.gate = true, make(chan struct{})
	tools := []tool.Tool{slowly(&worked, workGate), s}
	a, b := join(t, st, done, tools...), join(t, st, done, tools...)
	coded(t, second(a.Send(t.Context(), "anna", turn.Input{Content: text("say hello")})), "closing")
	a.take(false)

	running := a.send(id.ID{}, "hang on").Conversation
	<-a.model.begun
	background := a.send(id.ID{}, "call slow.work {}").Conversation
	queued := a.send(id.ID{}, order("tea")).Conversation
	waiting := a.send(id.ID{}, `call ledger.add {"what":"asked"}`).Conversation
	a.until(waiting, turn.Cursor{}, asksPerson)
	planned := a.sent(turn.Input{Agent: kits.PlannerAgent, Attended: true, Content: text(`call plan.start {"analysis":"a","plan":"p","confidence":1,"subtasks":[` +
		`{"name":"first","purpose":"call math.multiply {\"a\":6,\"b\":7}","selected_tools":["math.multiply"]},` +
		`{"name":"slow","purpose":"hang on","after":["first"],"selected_tools":["math.multiply"]}]}`)}).Conversation
	<-a.model.begun
	job, err := a.opt.Alarms.AddJob(t.Context(), record.Job{User: "anna", Name: "job", Text: `call ledger.add {"what":"job"}`, Trigger: record.Trigger{Cron: "0 7 1 1 *"}})
	ok(t, err)
	ok(t, second(b.opt.Alarms.RunJob(t.Context(), "anna", "job", id.New()))) // at the node that does not work on anna
	eventually(t, "the job waits for a person", func() bool {
		list, err := a.Effects.Questions(t.Context(), "anna")
		ok(t, err)
		return len(list) == 2
	})
	alarm := pastAlarm(t, st, waiting) // it goes off, and its message waits for the answer
	for r := range a.FollowReminders(t.Context(), "anna") {
		if r.Text != "Reminder: drink tea" {
			t.Errorf("%+v", r)
		}
		break
	}
	eventually(t, "the background call and the queued action have begun", func() bool {
		list := a.requests()
		return worked.Load() == 1 && slices.ContainsFunc(list, func(r record.Request) bool { return r.Tool == "shop.order" }) &&
			slices.ContainsFunc(list, func(r record.Request) bool { return r.Tool == "slow.work" })
	})
	if a.IdleUser("anna") {
		t.Error("the user counts as idle")
	}

	ended := make(chan error, 1)
	go func() {
		for _, err := range a.Watch(context.Background(), "anna", running, turn.Cursor{}) {
			if err != nil {
				ended <- err
			}
		}
	}()
	var left sync.WaitGroup
	if crashed {
		a.fence.set(true)
		b.take(true)
		left.Go(func() { a.LeaveUser("anna") })
	} else {
		a.LeaveUser("anna")
		if n := a.CachedConversations(); n != 0 {
			t.Errorf("%d conversations stay in memory", n)
		}
		a.faulty.set(func(b store.Batch) error {
			for _, c := range b.Changes {
				if at := c.URI.Type(); at != "llm.Calibration" {
					t.Errorf("the node that let the user go writes %s", c.URI)
				}
			}
			return nil
		})
		b.take(false)
	}
	if err := <-ended; !fault.HasCode(err, "closing") {
		t.Errorf("the watcher got %v", err)
	}
	coded(t, second(a.Send(t.Context(), "anna", turn.Input{Content: text("say hello")})), "closing")

	close(workGate)
	close(s.gate)
	close(b.model.gate)
	b.approveAll(func() bool {
		o, err := b.opt.Alarms.Occurrences(t.Context(), "anna", "job", 1)
		ok(t, err)
		al, err := b.opt.Alarms.Get(t.Context(), "anna", alarm.ID)
		ok(t, err)
		return o[0].Over() && al.Next.IsZero()
	})
	left.Wait()
	for _, conv := range []id.ID{running, background, queued, waiting, planned, job.Conversation} {
		b.atRest(conv)
	}
	if got := b.messages(running); len(got) != 2 || got[1].Text() != "half whole" {
		t.Errorf("the turn that was running: %d messages", len(got))
	}
	if got := b.heard(background, "tool:slow.work"); len(got) != 1 || !strings.Contains(got[0], "worked") {
		t.Errorf("the background call: %q", got)
	}
	if s.mu.Lock(); len(s.orders) != 1 {
		t.Errorf("the orders are %v", s.orders)
	}
	s.mu.Unlock()
	entries := strings.Split(done.list(), ",")
	slices.Sort(entries)
	if !slices.Equal(entries, []string{"asked", "job"}) {
		t.Errorf("the ledger has %v", entries)
	}
	if got := b.heard(waiting, "alarm:"+alarm.ID.String()); len(got) != 1 {
		t.Errorf("the alarm was told as %q", got)
	}
	plan := b.messages(planned)
	if last := plan[len(plan)-1]; last.Role != message.Assistant || !strings.Contains(last.Text(), "half whole") {
		t.Errorf("the plan ended with %q", last.Text())
	}
	eventually(t, "the user is idle", func() bool { return b.IdleUser("anna") })
	if a.IdleUser("anna"); a.CachedConversations() != 0 {
		t.Error("the first node keeps something")
	}
}

// A user comes back to a node that it was moved away from, again and again, in the middle of a turn.
func TestAUserMovesToAndFro(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	nodes := []*member{join(t, st, done), join(t, st, done)}
	nodes[0].take(false)
	conv := nodes[0].send(id.ID{}, "hang on").Conversation
	for i := range 6 {
		at, to := nodes[i%2], nodes[(i+1)%2]
		<-at.model.begun
		at.LeaveUser("anna")
		to.take(false)
	}
	close(nodes[0].model.gate)
	nodes[0].until(conv, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := nodes[0].messages(conv); len(got) != 2 {
		t.Errorf("%d messages", len(got))
	}
	run := nodes[0].messages(conv)
	if run[1].Text() != "half whole" {
		t.Error(run[1].Text())
	}
}

// What is due for a user on whom no node works makes each node ask for a worker. Whoever takes the user does it.
func TestWhatIsDueWantsAWorker(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	a, b := join(t, st, done), join(t, st, done)
	a.take(false)
	conv, _ := a.turn(id.ID{}, "say hello")
	a.LeaveUser("anna")
	alarm := pastAlarm(t, st, conv)
	eventually(t, "both nodes want the user", func() bool { return a.wants.has("anna") && b.wants.has("anna") })
	b.take(false)
	eventually(t, "the alarm was told", func() bool { return len(b.heard(conv, "alarm:"+alarm.ID.String())) == 1 })
	b.atRest(conv)
	b.LeaveUser("anna")
	a.take(false)
	a.turn(conv, "say more")
	if got := a.heard(conv, "alarm:"+alarm.ID.String()); len(got) != 1 {
		t.Errorf("the alarm was told as %q", got)
	}
}

// Work that makes two nodes crash in a row is parked, wherever it is taken next. A user with nothing else is idle.
func TestATurnThatMakesNodesCrashIsParked(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	a, b, c := join(t, st, done), join(t, st, done), join(t, st, done)
	a.take(false)
	conv := a.send(id.ID{}, "hang on").Conversation
	<-a.model.begun
	a.fence.set(true)
	b.take(true)
	<-b.model.begun
	b.fence.set(true)
	c.take(true)
	parked := func(f turn.Frame) bool { return f.Err != nil && f.Err.Code == "turn_parked" }
	f := c.until(conv, turn.Cursor{}, parked)
	eventually(t, "the user is idle", func() bool { return c.IdleUser("anna") })
	a.LeaveUser("anna")
	b.LeaveUser("anna")
	c.LeaveUser("anna")
	a.fence.set(false)
	a.take(false)
	a.until(conv, turn.Cursor{}, parked)
	close(a.model.gate)
	ok(t, a.ResumeParked(t.Context(), "anna", f[len(f)-1].Err.Details["request"].(string)))
	a.until(conv, turn.Cursor{}, isKind(turn.FrameComplete))
}

// An action that a program calls from outside moves with its user. The same call finds its outcome at the other node.
func TestACallFromOutsideMoves(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	s := newShop("shop.order", tool.Inline)
	s.spec.Dedupes, s.gate = true, make(chan struct{})
	a, b := join(t, st, done, s), join(t, st, done, s)
	a.take(false)
	call := work.Execution{Tool: "shop.order", Args: []byte(`{"what":"tea"}`), ClientID: "the one"}
	ended := make(chan error, 1)
	go func() { ended <- second(a.ExecuteTool(t.Context(), "anna", call)) }()
	eventually(t, "it is being done", func() bool {
		list := a.intents(requests.IntentFilter{})
		return len(list) == 1 && list[0].State == string(intent.Executing)
	})
	a.LeaveUser("anna")
	if err := <-ended; !fault.HasCode(err, "call_goes_on") && !fault.HasCode(err, "closing") {
		t.Errorf("the caller is told %v", err)
	}
	coded(t, second(a.ExecuteTool(t.Context(), "anna", call)), "closing")
	close(s.gate)
	b.take(false)
	x, err := b.ExecuteTool(t.Context(), "anna", call)
	if ok(t, err); x.Result.Status != message.OK || len(s.orders) != 1 {
		t.Errorf("%+v, orders %v", x, s.orders)
	}
	b.settled()
}

// Each node maintains the users on whom it works. Somebody has to work on a user whose deleted data is to be erased.
func TestEachNodeMaintainsItsUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, done := store.Store(shared{storetest.NewModel()}), &ledger{}
		a := join(t, st, done)
		b := made(t, &world{memory: st, judge: allows{}})
		erased := make(chan string, 9)
		wanted := &wants{}
		b.opt.Spaces, b.opt.KeepDeleted = wanted, time.Hour
		b.opt.Erased = func(_ context.Context, user string) error { erased <- user; return nil }
		b.open()
		a.take(false)
		conv, _ := a.turn(id.ID{}, "say Quittenbrot")
		a.atRest(conv)
		ok(t, a.Delete(t.Context(), "anna", conv))
		a.LeaveUser("anna")
		ok(t, b.RunMaintenance(t.Context(), time.Now().Add(2*time.Hour)))
		if !says(t, st, "Quittenbrot") {
			t.Error("a node erases what belongs to a user on whom it does not work")
		}
		time.Sleep(3 * time.Hour)
		if !wanted.has("anna") || len(erased) != 0 {
			t.Error("no node is asked to work on the user whose data is to be erased")
		}
		ok(t, b.TakeUser(t.Context(), "anna", false))
		time.Sleep(5 * time.Minute)
		if says(t, st, "Quittenbrot") || len(erased) != 1 || <-erased != "anna" {
			t.Error("what was deleted is not erased")
		}
		a.close()
		b.close()
	})
}

// A node learns of the questions that others ask, for those who answer them at this one.
func TestQuestionsOfOtherNodesAreNoticed(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	a, b := join(t, st, done), join(t, st, done)
	a.take(false)
	changed := b.Effects.Changed()
	conv := a.send(id.ID{}, `call ledger.add {"what":"x"}`).Conversation
	a.until(conv, turn.Cursor{}, asksPerson)
	<-changed
	list, err := b.Effects.Questions(t.Context(), "anna")
	if ok(t, err); len(list) != 1 {
		t.Fatalf("%d questions", len(list))
	}
	ok(t, b.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: list[0].ID, Hash: list[0].Hash, Approve: true}))
	a.until(conv, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := done.list(); got != "x" {
		t.Error(got)
	}
}

// What was spent today is read before anything of a user goes on. A user cannot be taken twice, and an error leaves
// nothing behind.
func TestTakingAUser(t *testing.T) {
	t.Parallel()
	st, done := openShared(t), &ledger{}
	a := made(t, &world{memory: st, judge: allows{}})
	a.ledger = done
	var read []string
	var fails error
	a.opt.Spaces, a.opt.Today = &wants{}, func(_ context.Context, user string) error { read = append(read, user); return fails }
	a.open()
	fails = fault.New(fault.Unavailable, "store_away", "it is away")
	coded(t, a.TakeUser(t.Context(), "anna", false), "store_away")
	coded(t, second(a.Send(t.Context(), "anna", turn.Input{Content: text("say hello")})), "closing")
	fails = nil
	ok(t, a.TakeUser(t.Context(), "anna", false))
	coded(t, a.TakeUser(t.Context(), "anna", false), "user_taken")
	a.turn(id.ID{}, "say hello")
	a.LeaveUser("ben") // who was never taken
	coded(t, a.EraseUser(t.Context(), "root", "ben"), "user_elsewhere")
	select {
	case <-a.Left("ben"):
	default:
		t.Error("a user who is not there has not left")
	}
	if !slices.Equal(read, []string{"anna", "anna", "anna"}) {
		t.Error(read)
	}
}

// The node that works on a user is refused everything from any of its commits on. Another one takes over: each effect
// happens once, and each result is told once. The first node learns of its loss only then.
func TestTakingOverAtEachCommit(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		if !takesOver(t, n) {
			if n < 20 {
				t.Errorf("the whole took %d commits only", n)
			}
			return
		}
	}
}

// takesOver has another node take over after n commits. It returns false if the first node had done everything before.
func takesOver(t *testing.T, n int) bool {
	st, done := shared{storetest.NewModel()}, &ledger{}
	s := newShop("shop.order", tool.Deferred)
	s.spec.Dedupes = true
	s.fail["caviar"] = fault.New(fault.Invalid, "too_dear", "that is too dear")
	open := make(chan struct{})
	close(open)
	tools := []tool.Tool{slowly(new(atomic.Int32), open), s}
	a, b := join(t, st, done, tools...), join(t, st, done, tools...)
	a.take(false)
	crash, crashed := after(n)
	a.faulty.set(func(b store.Batch) error {
		if crash(b) != nil {
			return lease.ErrLost
		}
		return nil
	})
	words := order("tea", "caviar") + "\ncall slow.work {}"
	in := turn.Input{ClientID: "the one", Content: text(words), Attended: true}
	told := func(m *member, conv id.ID) bool {
		return len(m.heard(conv, "intent:shop.order")) == 1 && len(m.heard(conv, "tool:slow.work")) == 1 && len(m.openOnes()) == 0
	}
	if acc, err := a.Send(t.Context(), "anna", in); err == nil {
		eventually(t, "it comes to be", func() bool { return isClosed(crashed) || told(a, acc.Conversation) })
	}
	a.fence.set(true) // which waits for what is being committed
	b.take(true)
	acc := b.sent(in)
	eventually(t, "all is told", func() bool { return told(b, acc.Conversation) })
	a.LeaveUser("anna")
	b.quietened(acc.Conversation)
	if !told(b, acc.Conversation) {
		t.Errorf("after %d commits: told %q and %q", n, b.heard(acc.Conversation, "intent:shop.order"), b.heard(acc.Conversation, "tool:slow.work"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orders) != 1 {
		t.Errorf("after %d commits: orders %v", n, s.orders)
	}
	a.close()
	b.close()
	return isClosed(crashed)
}
