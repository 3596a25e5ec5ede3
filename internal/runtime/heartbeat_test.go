package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/events"
	"steward/internal/heartbeat"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/turn"
)

// oracle is a provider that counts its calls, and answers each with the same text, or by a function.
type oracle struct {
	mu     sync.Mutex
	calls  int
	shown  []string // what the last call was shown, message by message
	labels message.Labels
	answer func(call int) []message.Block
	fail   bool
	gone   <-chan struct{} // closed when the process is dead: it asks nobody any more
}

func (o *oracle) Name() string                               { return "test" }
func (o *oracle) Model(string) llm.Model                     { return o }
func (o *oracle) Models(context.Context) ([]llm.Info, error) { return []llm.Info{{Name: "m"}}, nil }

func (o *oracle) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	o.mu.Lock()
	select {
	case <-o.gone:
		o.mu.Unlock()
		return func(yield func(llm.Event, error) bool) { yield(llm.Event{}, errDead) }
	default:
	}
	o.calls++
	call, answer, fail := o.calls, o.answer, o.fail
	o.shown, o.labels = nil, 0
	for _, m := range r.Transcript.Messages() {
		o.shown = append(o.shown, m.Text())
		o.labels |= message.LabelsOf(m.Blocks)
	}
	o.mu.Unlock()
	if fail {
		return func(yield func(llm.Event, error) bool) { yield(llm.Event{}, errors.New("no luck")) }
	}
	blocks := answer(call)
	stop := message.StopEnd
	if _, calls := blocks[len(blocks)-1].(*message.ToolCall); calls {
		stop = message.StopTools
	}
	return func(yield func(llm.Event, error) bool) {
		yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: stop, Blocks: blocks, Usage: message.Usage{Input: 1000, Output: 100}}}, nil)
	}
}

// will says what it does from now on.
func (o *oracle) will(fail bool, answer func(int) []message.Block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail, o.answer = fail, answer
}

// diesWith says when the process that asks is dead; nil: it lives.
func (o *oracle) diesWith(gone <-chan struct{}) { o.mu.Lock(); defer o.mu.Unlock(); o.gone = gone }

// seen returns what the last call was shown.
func (o *oracle) seen() string { o.mu.Lock(); defer o.mu.Unlock(); return strings.Join(o.shown, "\n") }

// shownLabels returns the labels of what the last call was shown.
func (o *oracle) shownLabels() message.Labels { o.mu.Lock(); defer o.mu.Unlock(); return o.labels }

func (o *oracle) count() int { o.mu.Lock(); defer o.mu.Unlock(); return o.calls }

func answers(text string) func(int) []message.Block {
	return func(int) []message.Block { return []message.Block{&message.Text{Text: text}} }
}

// beating is a node over SQLite whose heartbeat can be turned on.
type beating struct {
	*world
	jobs    *jobs.Scheduler
	oracle  *oracle
	beat    heartbeat.Service
	zone    *time.Location
	mortal  *mortal
	mu      sync.Mutex
	told    []string
	sources []heartbeat.Source
	caps    heartbeat.Caps
}

func newBeating(t *testing.T, zone string) *beating {
	b := &beating{world: made(t, &world{}), oracle: &oracle{answer: answers("Something happened [1].")}, caps: heartbeat.Caps{Calls: 20}}
	var err error
	b.zone, err = time.LoadLocation(zone)
	ok(t, err)
	b.provider = b.oracle
	b.opt.Notify = func(_ context.Context, user, title, text string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, text)
		return nil
	}
	b.start()
	t.Cleanup(b.shutDown)
	return b
}

func (b *beating) start() {
	b.t.Helper()
	st, err := sqlite.Open(b.t.Context(), sqlite.Options{Path: filepath.Join(b.dir, "steward.db")})
	ok(b.t, err)
	b.mortal = &mortal{Store: st, left: -1, dead: make(chan struct{})}
	b.memory = b.mortal
	b.jobs = jobs.New(jobs.Options{Store: b.mortal})
	b.opt.Alarms = b.jobs
	b.opt.Heartbeat = runtime.HeartbeatOptions{Caps: b.caps, Sources: b.sources}
	b.beat = heartbeat.Service{Jobs: b.jobs, Settings: heartbeat.Settings{Every: 15 * time.Minute, At: "8:00", Caps: b.caps},
		Zone: func(string) *time.Location { return b.zone }}
	ok(b.t, b.tryOpen())
}

// kill closes the node as it is, and the store below it.
func (b *beating) kill() {
	b.t.Helper()
	if b.Node == nil {
		return
	}
	b.mortal.mu.Lock()
	if b.mortal.left != 0 {
		b.mortal.left = 0
		close(b.mortal.dead)
	}
	b.mortal.mu.Unlock()
	_ = b.Node.Close(context.Background()) // it can record nothing any more
	ok(b.t, b.mortal.Store.(*sqlite.Store).Close())
	b.Node = nil
}

func (b *beating) shutDown() {
	b.t.Helper()
	if b.Node == nil {
		return
	}
	ok(b.t, b.Node.Close(context.Background()))
	ok(b.t, b.mortal.Store.(*sqlite.Store).Close())
	b.Node = nil
}

func (b *beating) restart() {
	b.t.Helper()
	b.shutDown()
	b.start()
}

func (b *beating) on(o client.NewHeartbeat) {
	b.t.Helper()
	v, err := b.beat.On(b.t.Context(), "anna", o)
	ok(b.t, err)
	if !v.On {
		b.t.Fatalf("it is off: %+v", v)
	}
}

// pass lets time pass, and waits until everything that was due is done.
func (b *beating) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *beating) messagesTold() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.told...)
}

// publish publishes an event to anna.
func (b *beating) publish(what string) {
	b.t.Helper()
	u, err := resource.Parse("cld:mail.Message." + what)
	ok(b.t, err)
	_, err = b.Publish(b.t.Context(), "anna", events.Publication{Resources: []events.Resource{{URI: u, Body: []byte(`{"subject":"` + what + `"}`)}}})
	ok(b.t, err)
}

// runs returns the occurrences of a job that are not only skipped.
func (b *beating) runs(name string) (out []record.Occurrence) {
	b.t.Helper()
	list, err := b.jobs.Occurrences(b.t.Context(), "anna", name, 200)
	ok(b.t, err)
	for _, o := range list {
		if o.State != record.OccurrenceSkipped {
			out = append(out, o)
		}
	}
	return out
}

// In seven days without a change, the heartbeat and the reviews look at each of their times, and call no model.
func TestSevenIdleDaysCallNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "Europe/Vienna")
		b.on(client.NewHeartbeat{})
		b.pass(7*24*time.Hour + time.Minute)
		if n := b.oracle.count(); n != 0 {
			t.Errorf("%d model calls: %q", n, b.oracle.seen())
		}
		v, err := b.beat.Status(t.Context(), "anna")
		ok(t, err)
		looks := map[string]int{}
		for _, j := range v.Jobs {
			looks[j.Kind] = j.Looks
			if j.Asked != 0 || j.Idle != "" && j.Idle != record.ReasonUnchanged || len(j.Failed) > 0 {
				t.Errorf("%+v", j)
			}
		}
		if looks["heartbeat"] != 7*24*4+1 || looks["daily"] != 7 || looks["weekly"] != 1 {
			t.Errorf("it has looked %v", looks)
		}
		if list := b.messagesTold(); len(list) > 0 || v.Calls.Today != 0 {
			t.Errorf("%q %+v", list, v.Calls)
		}
	})
}

// What has changed is told once, with its place, and the model sees it as private and untrusted.
func TestTheHeartbeatTellsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.publish("old") // before it was turned on
		time.Sleep(time.Second)
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.pass(time.Hour)
		b.publish("one")
		b.pass(24 * time.Hour)
		if n := b.oracle.count(); n != 1 {
			t.Fatalf("%d model calls: %q", n, b.oracle.seen())
		}
		shown := b.oracle.seen()
		if !strings.Contains(shown, `put mail.Message by user:anna: {"subject":"one"} <cld:mail.Message.one>`) || strings.Contains(shown, "old") {
			t.Error(shown)
		}
		if labels := b.oracle.shownLabels(); !labels.Has(message.Private | message.Untrusted) {
			t.Error(labels.Names())
		}
		list := b.messagesTold()
		if len(list) != 1 || list[0] != "Something happened [1].\n\nSources:\n[1] cld:mail.Message.one" {
			t.Errorf("%q", list)
		}
		runs := b.runs("heartbeat")
		if len(runs) != 1 || runs[0].State != record.OccurrenceDone || runs[0].Said != list[0] || runs[0].Calls != 1 {
			t.Errorf("%+v", runs)
		}
		b.oracle.will(false, answers("NOTHING."))
		b.publish("two")
		b.pass(time.Hour)
		if runs = b.runs("heartbeat"); len(runs) != 2 || runs[0].Reason != record.ReasonSilent || len(b.messagesTold()) != 1 {
			t.Errorf("%+v", runs)
		}
	})
}

// An e-mail by which Steward has notified the user is no news, so no heartbeat leads to the next.
func TestTheHeartbeatDoesNotHearItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		next := 0
		tell := b.opt.Notify
		b.opt.Notify = func(ctx context.Context, user, title, text string) error {
			next++
			u, err := resource.Parse(fmt.Sprint("cld:mail.Message.notice-", next))
			if err == nil {
				_, err = b.Publish(ctx, user, events.Publication{Resources: []events.Resource{{URI: u, Body: []byte(`{"subject":"Heartbeat","notice":true}`)}}})
			}
			return errors.Join(err, tell(ctx, user, title, text))
		}
		there, _ := b.turn(id.ID{}, "hello")
		b.restart()
		b.on(client.NewHeartbeat{Conversation: there.String()})
		b.pass(time.Minute)
		b.publish("one")
		before := b.oracle.count()
		b.pass(7 * time.Hour) // the first review is not due yet
		if n := b.oracle.count() - before; n != 1 || next != 1 {
			t.Errorf("%d model calls, %d notifications", n, next)
		}
	})
}

// Whatever the model wants, it changes nothing unless the person has allowed that.
func TestTheHeartbeatDoesNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.oracle.will(false, func(call int) []message.Block {
			if call%2 == 1 {
				return []message.Block{&message.ToolCall{CallID: "a", Name: "ledger.add", Args: []byte(`{"what":"x"}`)}, &message.ToolCall{CallID: "b", Name: "math.multiply", Args: []byte(`{"a":2,"b":3}`)}}
			}
			return []message.Block{&message.Text{Text: "I would add x to the ledger."}}
		})
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.publish("one")
		b.pass(time.Hour)
		if got := b.ledger.list(); got != "" || len(b.messagesTold()) != 1 {
			t.Errorf("%q %q", got, b.messagesTold())
		}
		if shown := b.oracle.seen(); !strings.Contains(shown, "the job may not use this tool") || !strings.Contains(shown, "6") {
			t.Error(shown)
		}
	})
}

// The reviews run once each at their local time, over both changes of the clocks, and once after days
// without Steward. On Mondays, and on the first of a month, the longer review takes the place of the daily one.
func TestReviewsRunOnceEach(t *testing.T) {
	for _, c := range []struct {
		name, from string
		days, off  int // days without Steward follow, and then two more
		want       map[string]string
	}{
		{"the clocks are put forward", "2000-03-20", 14, 5, map[string]string{
			"daily-review":   "Mar 21 Mar 22 Mar 23 Mar 24 Mar 25 Mar 26 Mar 28 Mar 29 Mar 30 Mar 31 Apr 2 Apr 8 Apr 9 Apr 11",
			"weekly-review":  "Mar 27 Apr 3 Apr 10",
			"monthly-review": "Apr 1"}},
		{"the clocks are put back", "2000-10-23", 4, 8, map[string]string{
			"daily-review":   "Oct 24 Oct 25 Oct 26 Oct 27 Nov 4 Nov 5 Nov 7",
			"weekly-review":  "Oct 30 Nov 6",
			"monthly-review": "Nov 1"}},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { reviews(t, c.from, c.days, c.off, c.want) }) })
	}
}

func reviews(t *testing.T, from string, days, off int, want map[string]string) {
	b := newBeating(t, "Europe/Vienna")
	b.caps = heartbeat.Caps{}
	b.oracle.will(false, answers("All is well [1]."))
	b.restart()
	noon, err := time.Parse(time.DateOnly, from) // a Monday
	ok(t, err)
	time.Sleep(time.Until(noon.Add(12 * time.Hour)))
	b.on(client.NewHeartbeat{Every: "24h"})
	day := 0
	live := func(days int) {
		for range days {
			day++
			b.publish(fmt.Sprint("day-", day))
			b.pass(24 * time.Hour)
		}
	}
	live(days)
	b.publish("last")
	b.shutDown()
	time.Sleep(time.Duration(off) * 24 * time.Hour)
	b.start()
	synctest.Wait()
	live(3)
	for name, w := range want {
		list, err := b.jobs.Occurrences(t.Context(), "anna", name, 200)
		ok(t, err)
		seen, done := map[time.Time]bool{}, []string{}
		for _, o := range list {
			at := o.Due.In(b.zone)
			if seen[o.Due] || at.Format("15:04") != "08:00" {
				t.Errorf("%s was due at %s", name, at)
			}
			seen[o.Due] = true
			if o.State == record.OccurrenceDone {
				done = append(done, at.Format("Jan 2"))
			}
		}
		slices.Reverse(done)
		if got := strings.Join(done, " "); got != w {
			t.Errorf("%s: %s, want %s", name, got, w)
		}
		j, err := b.jobs.Job(t.Context(), "anna", name)
		ok(t, err)
		if c := j.Count; c.Due != c.Done+c.Failed+c.Missed+c.Skipped {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// The caps of a day hold for all jobs together, and over restarts.
func TestTheCapOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.caps = heartbeat.Caps{Calls: 3}
		b.restart()
		b.on(client.NewHeartbeat{})
		for i := range 40 { // ten hours
			b.publish(fmt.Sprint("n", i))
			b.pass(15 * time.Minute)
			if i%5 == 4 {
				b.restart()
				synctest.Wait()
			}
		}
		if n := b.oracle.count(); n != 3 {
			t.Errorf("%d model calls", n)
		}
		v, err := b.beat.Status(t.Context(), "anna")
		ok(t, err)
		if v.Calls.Today != 3 || v.Jobs[0].Idle != record.ReasonDayCap {
			t.Errorf("%+v", v)
		}
		b.pass(15 * time.Hour) // after midnight, the rest is told
		if n := b.oracle.count(); n != 4 && n != 5 {
			t.Errorf("%d model calls", n)
		}
		if shown := b.oracle.seen(); !strings.Contains(shown, "more") {
			t.Error(shown)
		}
	})
}

// A model that calls tools again and again is stopped by the cap, within one turn too.
func TestTheCapHoldsWithinATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.caps = heartbeat.Caps{Calls: 4}
		b.oracle.will(false, func(call int) []message.Block {
			return []message.Block{&message.ToolCall{CallID: fmt.Sprint(call), Name: "math.multiply", Args: fmt.Appendf(nil, `{"a":2,"b":%d}`, call)}}
		})
		b.restart()
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.publish("one")
		b.pass(20 * time.Hour)
		if n := b.oracle.count(); n != 4 {
			t.Errorf("%d model calls", n)
		}
	})
}

// Quiet hours: nothing is looked at, and the first look after them tells everything.
func TestQuietHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it begins at midnight UTC
		b := newBeating(t, "UTC")
		b.on(client.NewHeartbeat{Quiet: "22:00-7:00", Reviews: []string{"none"}})
		b.publish("one")
		b.pass(6 * time.Hour)
		b.publish("two")
		if n := b.oracle.count(); n != 0 {
			t.Errorf("%d model calls in the quiet hours", n)
		}
		b.pass(2 * time.Hour)
		if shown := b.oracle.seen(); b.oracle.count() != 1 || !strings.Contains(shown, "one") || !strings.Contains(shown, "two") {
			t.Errorf("%d: %s", b.oracle.count(), shown)
		}
	})
}

// A source that fails is named, and is asked later from where it was. The others go on.
func TestASourceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		var mu sync.Mutex
		broken, asked := true, []time.Time{}
		b.sources = []heartbeat.Source{{Name: "goals", Look: func(_ context.Context, w heartbeat.Window) (heartbeat.Found, error) {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return heartbeat.Found{}, fmt.Errorf("no luck")
			}
			asked = append(asked, w.Since)
			return heartbeat.Found{}, nil
		}}}
		b.restart()
		begun := time.Now()
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.publish("one")
		b.pass(time.Hour + time.Minute)
		v, err := b.beat.Status(t.Context(), "anna")
		ok(t, err)
		if j := v.Jobs[0]; len(j.Failed) != 1 || j.Failed[0] != "goals (internal)" || b.oracle.count() != 1 {
			t.Errorf("%+v", j)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		b.pass(30 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(asked) != 2 || asked[0].Sub(begun).Abs() > time.Second || asked[1].Sub(asked[0]) < time.Hour {
			t.Errorf("%v, begun %v", asked, begun)
		}
	})
}

// Failed jobs, and messages that got no answer, are found.
func TestWhatWentWrongIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		ok(t, second(b.jobs.AddJob(t.Context(), record.Job{User: "anna", Name: "backup", Text: "check it", Agent: "nobody", Trigger: record.Trigger{At: time.Now().Add(time.Minute)}})))
		b.pass(16 * time.Minute)
		if shown := b.oracle.seen(); b.oracle.count() != 1 || !strings.Contains(shown, "failed work: the job backup failed (") {
			t.Errorf("%d: %s", b.oracle.count(), shown)
		}
		ok(t, second(b.jobs.RunJob(t.Context(), "anna", "heartbeat", id.New())))
		b.pass(time.Minute)
		if b.oracle.count() != 1 {
			t.Error("a person's run of the heartbeat asked a model, though nothing had changed")
		}
	})
}

// mortal is a store whose process dies at a commit, just before or after it takes effect.
type mortal struct {
	store.Store
	mu   sync.Mutex
	left int // commits until death; negative: it lives on
	late bool
	dead chan struct{}
}

var errDead = errors.New("the process is dead")

func (m *mortal) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return store.Receipt{}, errDead
	}
	if m.left > 0 {
		m.left--
	}
	if dies := m.left == 0; dies {
		close(m.dead)
		if !m.late {
			return store.Receipt{}, errDead
		}
		_, err := m.Store.Commit(ctx, sc, b)
		return store.Receipt{}, errors.Join(errDead, err)
	}
	return m.Store.Commit(ctx, sc, b)
}

// Steward dies at any commit from the look on, and starts again: what has changed is told once, and a model
// that has answered is not asked again.
func TestAHeartbeatThatIsKilled(t *testing.T) {
	deaths := 0
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			died := true
			synctest.Test(t, func(t *testing.T) { died = killed(t, at, late) })
			if !died || t.Failed() {
				break
			}
			deaths++
		}
	}
	if deaths < 12 {
		t.Errorf("it died %d times only", deaths)
	}
}

// A disk that takes nothing any more does not make it ask a model again and again.
func TestACapThatCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		b.caps = heartbeat.Caps{Calls: 5}
		b.restart()
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.pass(time.Minute)
		b.publish("one")
		b.mortal.mu.Lock()
		b.mortal.left = 3 // the turn cannot begin
		b.mortal.mu.Unlock()
		b.pass(20 * time.Hour)
		if n := b.oracle.count(); n > 5 {
			t.Errorf("%d model calls", n)
		}
		b.kill()
	})
}

func killed(t *testing.T, at int, late bool) bool {
	b := newBeating(t, "UTC")
	b.oracle.will(false, answers("Something happened [1]."))
	there, _ := b.turn(id.ID{}, "hello")
	synctest.Wait()
	b.on(client.NewHeartbeat{Reviews: []string{"none"}, Conversation: there.String()})
	b.pass(time.Minute)
	b.publish("one")
	b.mortal.mu.Lock()
	b.mortal.left, b.mortal.late = at, late
	b.mortal.mu.Unlock()
	b.oracle.diesWith(b.mortal.dead)
	died := true
	select {
	case <-b.mortal.dead:
	case <-time.After(20 * time.Minute):
		died = false
	}
	b.kill()
	b.oracle.diesWith(nil)
	b.start()
	b.pass(2 * time.Hour)
	n := 0
	for _, m := range b.messages(there) {
		if m.Role == message.Assistant && strings.Contains(m.Text(), "[1] cld:mail.Message.one") {
			n++
		}
	}
	runs := b.runs("heartbeat")
	if n != 1 || len(runs) != 1 || runs[0].State != record.OccurrenceDone {
		t.Errorf("death at commit %d (after it: %v): told %d times, %+v", at, late, n, runs)
	}
	// The first call is that of the turn above. One whose answer was not recorded has to be made again.
	if calls := b.oracle.count(); calls < 2 || calls > 3 {
		t.Errorf("death at commit %d (after it: %v): %d model calls", at, late, calls)
	}
	return died
}

// A look also finds agents' checks whose results have changed, and messages without an answer.
func TestChecksAndUnansweredMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		state := `{"temperature":-18,"door":"closed"}`
		read := newTool(tool.Spec{Name: "freezer.state", Description: "Read.", Effect: tool.Query}, func(context.Context, tool.Invocation, struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return state, nil
		})
		b := newBeating(t, "UTC")
		freezer := agentOf("freezer", read)
		freezer.Checks = []catalog.Check{{Name: "temperature", Query: "freezer.state", Part: "/temperature"}}
		g := &grove{}
		g.plant(freezer)
		b.opt.Catalog = g
		b.restart()
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		set := func(to string) { mu.Lock(); defer mu.Unlock(); state = to }
		b.pass(20 * time.Minute)
		set(`{"temperature":-18,"door":"open"}`)
		b.pass(20 * time.Minute)
		if n := b.oracle.count(); n != 0 {
			t.Errorf("%d model calls: %q", n, b.oracle.seen())
		}
		set(`{"temperature":4,"door":"open"}`)
		b.pass(20 * time.Minute)
		if shown := b.oracle.seen(); b.oracle.count() != 1 || !strings.Contains(shown, "the check freezer: temperature has changed: 4") {
			t.Errorf("%d: %s", b.oracle.count(), shown)
		}

		b.oracle.will(true, nil)
		_, err := b.Turns.Send(t.Context(), "anna", turn.Input{Content: []message.Block{&message.Text{Text: "What is for dinner?"}}, Attended: true})
		ok(t, err)
		synctest.Wait()
		b.oracle.will(false, answers("It was not answered [1]."))
		b.pass(20 * time.Minute)
		if shown := b.oracle.seen(); !strings.Contains(shown, `unanswered: the last message of the conversation "What is for dinner?" has no answer (`) {
			t.Errorf("%d: %s", b.oracle.count(), shown)
		}
	})
}

// What the heartbeat says goes to the user's messengers, in place of a notification, and is known there by a
// key: after a restart it is not written again.
func TestTheHeartbeatWritesToMessengers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeating(t, "UTC")
		written := map[string]string{}
		b.opt.Deliver = func(_ context.Context, user, text string, _ message.Labels, key string) (bool, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if user != "anna" || written[key] != "" {
				t.Errorf("%s is written to %s again", key, user)
			}
			written[key] = text
			return true, nil
		}
		b.restart()
		b.on(client.NewHeartbeat{Reviews: []string{"none"}})
		b.publish("one")
		b.pass(time.Hour)
		b.restart()
		b.pass(time.Hour)
		told := b.messagesTold()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(written) != 1 || len(told) != 0 {
			t.Fatalf("%q, and notifications %q", written, told)
		}
		for _, text := range written {
			if !strings.HasPrefix(text, "Heartbeat\n\n") {
				t.Errorf("%q", text)
			}
		}
	})
}
