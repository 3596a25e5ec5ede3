package messaging_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/messaging"
	"steward/internal/store"
)

// apart is a world in which one node connects the accounts, and another one has the users.
type apart struct {
	*world
	front *messaging.Engine
	alive *mortal // the store of the front

	mu     sync.Mutex
	wanted []string
}

// newApart returns a world of two nodes. The node of w takes the users.
func newApart(w *world, users ...string) *apart {
	x := &apart{world: w}
	w.begin = func() error {
		w.engine.Open(w.node, w.node.Conversations, w.node.Effects)
		for _, u := range users {
			if err := w.engine.TakeUser(context.Background(), u); err != nil {
				return err
			}
		}
		return nil
	}
	return x
}

// newFront returns an engine with the accounts that runs no turns.
func (x *apart) newFront(st store.Store) *messaging.Engine {
	var accounts []messaging.Account
	for name, s := range x.services {
		accounts = append(accounts, messaging.Account{Name: name, Kind: "test", Channel: s})
	}
	e := messaging.New(messaging.Options{Store: st, Accounts: accounts, Want: func(_ context.Context, user string) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.wanted = append(x.wanted, user)
		return nil
	}})
	e.Open(nil, nil, nil)
	return e
}

// connect begins a life of the front that ends after some commits; 0: when it is closed.
func (x *apart) connect(left int, after bool) {
	x.t.Helper()
	x.alive = &mortal{Store: x.disk, left: left, after: after, dead: make(chan struct{})}
	x.front = x.newFront(x.alive)
	if err := x.front.ConnectAccounts(context.Background()); err != nil && !x.alive.isDead() {
		x.t.Fatal(err)
	}
}

// inApart runs a test with two nodes and one service, with ann paired at the front.
func inApart(t *testing.T, limits channel.Limits, do func(x *apart, s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newService(limits)
		x := newApart(newWorld(t, map[string]*service{"phone": s}), "ann")
		x.connect(0, false)
		x.open(0, false)
		defer func() { x.close(); x.front.Close() }()
		s.say(by("ann", "hello-ann", "hello"))
		settle()
		if _, err := x.front.Pair(t.Context(), "local", codeIn.FindStringSubmatch(s.newest("chat-ann").text())[1], "ann"); err != nil {
			t.Fatal(err)
		}
		settle()
		do(x, s)
	})
}

func TestAnotherNodeAnswers(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		s.say(by("ann", "1", "say hi"), by("ann", "1", "say hi"))
		settle()
		s.say(by("ann", "2", "/help"))
		settle()
		s.say(by("ann", "3", "slow one two three four five six"))
		settle()
		s.say(by("ann", "4", "/stop"), by("ann", "5", "say there"))
		settle()
		if got := s.seen("chat-ann")[greeted:]; len(got) != 4 || !strings.Contains(got[1], "/help shows this") || got[0] != "hi" || !strings.HasSuffix(got[2], "(stopped)") || got[3] != "there" {
			t.Errorf("%q", got)
		}
		if s.typing == 0 {
			t.Error("it is not shown that an answer is being written")
		}
		list, err := x.front.Channels(t.Context())
		if err != nil || !list[0].Running || list[0].Received+list[0].Unsent > 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err = x.engine.Channels(t.Context()); err != nil || list[0].Running {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestAQuestionOfAnotherNodeIsAnsweredByAButton(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		s.say(by("ann", "1", "note milk"))
		settle()
		p := s.newest("chat-ann")
		if len(p.Buttons) != 3 {
			t.Fatalf("%+v", p)
		}
		press := channel.Update{ID: "2", Kind: channel.Press, Address: p.Outgoing.At, From: channel.Sender{ID: "ann"}, Addressed: true, Message: p.ID, Button: p.Buttons[0].Data}
		s.say(press)
		settle()
		got := s.seen("chat-ann")[greeted:]
		if len(got) != 2 || !strings.Contains(got[0], "Allowed by ann on test (phone)") || got[1] != "ok: added milk" || !slices.Equal(x.ledger, []string{"milk"}) {
			t.Errorf("%q, %q", got, x.ledger)
		}
	})
}

func TestANodeIsCalledForAUserWhomNobodyHas(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		x.engine.LeaveUser("ann")
		x.mu.Lock()
		x.wanted = nil
		x.mu.Unlock()
		s.say(by("ann", "1", "say hi"))
		time.Sleep(12 * time.Second)
		x.mu.Lock()
		if n := len(x.wanted); n < 2 || n > 4 || x.wanted[0] != "ann" {
			t.Errorf("called %q", x.wanted)
		}
		x.mu.Unlock()
		want(t, s, "chat-ann", greeted)
		if err := x.engine.TakeUser(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		settle()
		want(t, s, "chat-ann", greeted, "hi")
		settle()
		x.mu.Lock()
		x.wanted = nil
		x.mu.Unlock()
		time.Sleep(time.Minute)
		if len(x.wanted) > 0 {
			t.Errorf("called again: %q", x.wanted)
		}
	})
}

// A user moves while a turn runs, and the accounts move while its answer is sent.
func TestBothHalvesMove(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		s.say(by("ann", "1", "slow one two three four five six seven eight"), by("ann", "2", "say hi"))
		time.Sleep(3 * time.Second)
		if !x.engine.Busy("ann") {
			t.Error("nothing is being handled")
		}
		x.engine.LeaveUser("ann")
		x.front.DisconnectAccounts()
		if x.engine.Busy("ann") || x.front.Connects() {
			t.Error("a half has not ended")
		}
		s.say(by("ann", "3", "say there"))
		settle()
		want(t, s, "chat-ann", greeted)
		if err := x.engine.ConnectAccounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle()
		if err := x.engine.TakeUser(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		want(t, s, "chat-ann", greeted, "one two three four five six seven eight", "hi", "there")
		x.engine.DisconnectAccounts()
		if ok, err := x.engine.Deliver(t.Context(), "ann", "ring", 0, "x"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := x.front.ConnectAccounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle()
		want(t, s, "chat-ann", greeted, "one two three four five six seven eight", "hi", "there", "ring")
	})
}

func TestWhatWasHeardInAGroupComesToTheOtherNode(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		s.say(in("eve", "g1", "the door is open", false), in("ann", "g2", "is it?", true))
		settle()
		if got := s.seen("group"); len(got) != 1 || !strings.Contains(got[0], "> EVE: the door is open") {
			t.Errorf("%q", got)
		}
		for it, err := range store.Items(t.Context(), x.disk, store.ForUser("ann"), store.Query{Type: "messaging.Update"}) {
			if err != nil || strings.Contains(string(it.Body), "the door is open") {
				t.Errorf("%s, %v", it.Body, err)
			}
		}
	})
}

// stopped is a store whose process can be stopped before a commit, and goes on later.
type stopped struct {
	store.Store
	mu   sync.Mutex
	stop func(store.Batch) bool
	gate chan struct{}
	at   chan struct{}
}

// Commit implements store.Store.
func (s *stopped) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	s.mu.Lock()
	stop := s.stop != nil && s.stop(b)
	if stop {
		s.stop = nil
	}
	s.mu.Unlock()
	if stop {
		close(s.at)
		<-s.gate
	}
	return s.Store.Commit(ctx, sc, b)
}

// A node with the accounts is suspended before it marks a post, or before it sends it, and wakes up when another
// node has the accounts.
func TestANodeThatLostTheAccountsPostsNothingTwice(t *testing.T) {
	for _, repeatable := range []bool{false, true} {
		for _, when := range []string{"before the mark", "before the request"} {
			t.Run(fmt.Sprintf("%s, repeatable %v", when, repeatable), func(t *testing.T) {
				limits := usual
				limits.Repeatable = repeatable
				inApart(t, limits, func(x *apart, s *service) {
					x.front.DisconnectAccounts()
					gate, at := make(chan struct{}), make(chan struct{})
					st := &stopped{Store: x.disk, gate: gate, at: at}
					var begun atomic.Bool
					if when == "before the mark" {
						st.stop = func(b store.Batch) bool { return len(b.Changes) > 0 && b.Changes[0].State == "sending" }
					} else {
						s.beforeSend = func(channel.Outgoing) {
							if begun.CompareAndSwap(false, true) {
								close(at)
								<-gate
							}
						}
					}
					old := x.newFront(st)
					defer old.Close()
					if err := old.ConnectAccounts(t.Context()); err != nil {
						t.Fatal(err)
					}
					if ok, err := x.engine.Deliver(t.Context(), "ann", "ring", 0, "x"); !ok || err != nil {
						t.Fatal(ok, err)
					}
					<-at
					if err := x.front.ConnectAccounts(t.Context()); err != nil {
						t.Fatal(err)
					}
					settle()
					close(gate)
					settle()
					want(t, s, "chat-ann", greeted, "ring")
					list, err := x.engine.Outbox(t.Context(), "ann", false)
					doubt := when == "before the request" && !repeatable
					if err != nil || len(list) > 0 != doubt {
						t.Errorf("%+v, %v", list, err)
					}
				})
			})
		}
	}
}

func TestACodeIsEnteredOnOneOfTwoNodes(t *testing.T) {
	inApart(t, usual, func(x *apart, s *service) {
		s.say(by("eve", "e1", "hello"))
		settle()
		code := codeIn.FindStringSubmatch(s.newest("chat-eve").text())[1]
		var errs [2]error
		var both sync.WaitGroup
		for i, e := range []*messaging.Engine{x.front, x.engine} {
			both.Go(func() { _, errs[i] = e.Pair(t.Context(), "local", code, fmt.Sprint("eve", i)) })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !fault.HasCode(errs[0], "code_unknown") && !fault.HasCode(errs[1], "code_unknown") && !fault.HasCode(errs[0], "sender_paired") && !fault.HasCode(errs[1], "sender_paired") {
			t.Error(errs)
		}
		if list, err := x.engine.People(t.Context()); err != nil || len(list) != 2 {
			t.Error(list, err)
		}
	})
}

// TestNothingIsLostBetweenTwoNodes is the proof with two nodes, each of which is killed at random commits while the
// other one goes on.
func TestNothingIsLostBetweenTwoNodes(t *testing.T) {
	for _, x := range storms() {
		t.Run(fmt.Sprintf("%d messages, repeatable %v", x.messages, x.repeatable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { x.apart(t) })
		})
	}
}

func (x storm) apart(t *testing.T) {
	s := newService(channel.Limits{Text: 4000, SendEvery: 20 * time.Millisecond, Buttons: 3, Repeatable: x.repeatable})
	st := sqliteIn(t)
	defer st.Close() //nolint:errcheck // the test is over
	w := newWorld(t, map[string]*service{"phone": s})
	w.disk = st
	w.open(0, false)
	for i := range x.people {
		w.pair("phone", fmt.Sprint("p", i), "user")
	}
	w.close()

	chance := rand.New(rand.NewPCG(1125, uint64(x.messages)))
	s.mu.Lock()
	s.chance, s.drops, s.late = rand.New(rand.NewPCG(1126, uint64(x.messages))), x.drops, x.late
	greeted := len(s.posts)
	s.mu.Unlock()
	for i := range x.messages {
		s.say(by(fmt.Sprint("p", chance.IntN(x.people)), fmt.Sprint("u", i), fmt.Sprint("say answer ", i)))
	}
	two := newApart(w, "user")
	over := make(chan struct{})
	// live begins lives of a node until all is done, the first kills of which end after some commits.
	live := func(seed uint64, commits int, begin func(left int, after bool) (dead chan struct{}, end func())) {
		chance := rand.New(rand.NewPCG(1127, seed))
		for lives := 0; ; lives++ {
			left := 0
			if lives < x.kills {
				left = 1 + chance.IntN(2*commits/x.kills)
			}
			dead, end := begin(left, chance.IntN(2) == 0)
			select {
			case <-dead:
				end()
			case <-over:
				end()
				if lives < 1 {
					t.Error("a node was never killed")
				}
				return
			}
		}
	}
	var nodes sync.WaitGroup
	nodes.Go(func() {
		live(1, x.messages*2, func(left int, after bool) (chan struct{}, func()) {
			two.connect(left, after)
			return two.alive.dead, two.front.Close
		})
	})
	nodes.Go(func() {
		live(2, x.messages*2, func(left int, after bool) (chan struct{}, func()) {
			w.open(left, after)
			return w.store.dead, w.close
		})
	})
	watcher := messaging.New(messaging.Options{Store: st, Accounts: []messaging.Account{{Name: "phone", Channel: s}}})
	for began := time.Now(); ; {
		time.Sleep(10 * time.Second)
		list, err := watcher.Channels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.left()+list[0].Received+list[0].Unsent == 0 {
			break
		}
		if time.Since(began) > 100*24*time.Hour {
			t.Error("it does not end")
			break
		}
	}
	close(over)
	nodes.Wait()
	w.begin = nil
	x.judge(t, w, s, greeted)
}
