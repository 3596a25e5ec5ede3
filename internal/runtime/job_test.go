package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/test/storetest"
)

// jobWorld is a world with a scheduler.
type jobWorld struct {
	*world
	jobs *jobs.Scheduler
}

func newJobWorld(t *testing.T, more ...tool.Tool) *jobWorld {
	w := &jobWorld{world: made(t, &world{memory: storetest.NewModel(), more: more})}
	w.schedule()
	w.open()
	return w
}

func (w *jobWorld) schedule() {
	w.jobs = jobs.New(jobs.Options{Store: w.memory})
	w.opt.Alarms = w.jobs
}

func (w *jobWorld) reopen() {
	w.t.Helper()
	w.close()
	w.schedule()
	w.open()
}

// begin adds a job of anna's and begins it.
func (w *jobWorld) begin(j record.Job) record.Job {
	w.t.Helper()
	j.User, j.Name, j.Cron = "anna", "job", "0 7 1 1 *"
	j, err := w.jobs.AddJob(w.t.Context(), j)
	ok(w.t, err)
	ok(w.t, second(w.jobs.RunJob(w.t.Context(), "anna", "job", id.New())))
	return j
}

// reaches waits until the job's newest occurrence has a state.
func (w *jobWorld) reaches(state string) (o record.Occurrence) {
	w.t.Helper()
	eventually(w.t, "the occurrence is "+state, func() bool {
		list, err := w.jobs.Occurrences(w.t.Context(), "anna", "job", 1)
		ok(w.t, err)
		if len(list) == 0 {
			return false
		}
		o = list[0]
		if o.Over() && o.State != state {
			w.t.Fatalf("%+v", o)
		}
		return o.State == state
	})
	return o
}

// lastAnswer returns the text of the last message of a conversation.
func (w *jobWorld) lastAnswer(conv id.ID) string {
	w.t.Helper()
	list := w.messages(conv)
	return list[len(list)-1].Text()
}

func TestAJobOpensATurn(t *testing.T) {
	w := newJobWorld(t)
	there, _ := w.turn(id.ID{}, "say hello")
	j := w.begin(record.Job{Text: "say good morning", Labels: message.Private, Sources: []string{"user:anna"}, Deliver: record.Delivery{Conversation: there}})
	o := w.reaches(record.OccurrenceDone)
	if o.Conversation != j.Conversation || o.Attempts != 1 || o.Interaction.Zero() {
		t.Errorf("%+v", o)
	}
	m := w.messages(j.Conversation)
	if b := m[0].Blocks[0].Base(); b.Origin != "job:"+j.ID.String() || !b.Labels.Has(message.Private) || m[0].Text() != "say good morning" {
		t.Errorf("%+v", m[0])
	}
	if got := w.lastAnswer(j.Conversation); got != "good morning" {
		t.Error(got)
	}
	eventually(t, "the answer was delivered", func() bool { return w.lastAnswer(there) == "good morning" })
	ok(t, second(w.jobs.RunJob(t.Context(), "anna", "job", id.New())))
	eventually(t, "it ran again, in the same conversation", func() bool { return len(w.messages(j.Conversation)) == 4 })
}

// A question for approval makes an occurrence wait. It goes on after a restart, and is done once.
func TestAJobWaitsForAPerson(t *testing.T) {
	w := newJobWorld(t)
	j := w.begin(record.Job{Text: `call ledger.add {"what":"x"}`, MaxTime: 3600, MaxCost: 0})
	w.reaches(record.OccurrenceWaiting)
	w.reopen()
	o := w.reaches(record.OccurrenceWaiting)
	if o.Attempts != 1 {
		t.Errorf("%+v", o)
	}
	asked := w.until(j.Conversation, turn.Cursor{}, asksPerson)
	a := asked[len(asked)-1].Call.Approval
	ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: true}))
	w.reaches(record.OccurrenceDone)
	if got := w.ledger.list(); got != "x" {
		t.Error(got)
	}
	if n := len(w.messages(j.Conversation)); n != 4 {
		t.Errorf("%d messages", n)
	}
}

// A run that was interrupted is finished after the next start, in the same turn.
func TestAJobGoesOnAfterARestart(t *testing.T) {
	w := newJobWorld(t)
	w.model.begun = make(chan struct{}, 9)
	j := w.begin(record.Job{Text: "hang on"})
	<-w.model.begun
	w.reopen()
	<-w.model.begun
	close(w.model.gate)
	w.reaches(record.OccurrenceDone)
	if m := w.messages(j.Conversation); m[0].Text() != "hang on" || !m[len(m)-1].Final {
		t.Errorf("%d messages", len(m))
	}
	n := 0
	for _, m := range w.messages(j.Conversation) {
		if m.Role == message.User && m.Blocks[0].Base().Origin == "job:"+j.ID.String() {
			n++
		}
	}
	if n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestWhatAJobMayDo(t *testing.T) {
	for _, c := range []struct {
		tools map[string]string
		text  string
		state string
		says  string
	}{
		{map[string]string{"ledger.*": record.ToolDeny}, `call ledger.add {"what":"x"}`, record.OccurrenceDone, "denied"},
		{map[string]string{"*": record.ToolDeny, "math.multiply": record.ToolAllow}, `call math.multiply {"a":2,"b":3}`, record.OccurrenceDone, "ok: 6"},
		{map[string]string{"math.*": record.ToolAsk}, `call math.multiply {"a":2,"b":3}`, record.OccurrenceWaiting, ""},
	} {
		w := newJobWorld(t)
		j := w.begin(record.Job{Text: c.text, Tools: c.tools})
		w.reaches(c.state)
		if got := w.lastAnswer(j.Conversation); !strings.Contains(got, c.says) {
			t.Errorf("%v: %s", c.tools, got)
		}
		if c.state == record.OccurrenceWaiting { // also for the run that is resumed
			w.reopen()
			w.reaches(record.OccurrenceWaiting)
		}
		w.close()
	}
}

func TestAJobThatFails(t *testing.T) {
	var told = make(chan string, 9)
	w := made(t, &world{memory: storetest.NewModel()})
	w.opt.Notify = func(_ context.Context, user, title, text string) error {
		told <- user + " " + title + ": " + text
		return nil
	}
	x := &jobWorld{world: w}
	x.schedule()
	w.open()
	x.begin(record.Job{Text: "fail x"})
	o := x.reaches(record.OccurrenceFailed)
	if o.Reason == "" || o.Attempts != 1 {
		t.Errorf("%+v", o)
	}
	if got := <-told; !strings.HasPrefix(got, "anna Job job: The job job failed ("+o.Reason+")") {
		t.Error(got)
	}
	ok(t, second(x.jobs.RemoveJob(t.Context(), "anna", "job")))
	x.begin(record.Job{Text: "hang on", MaxTime: 1, Retries: 3})
	if o := x.reaches(record.OccurrenceFailed); o.Reason != "job_time" || o.Attempts != 1 {
		t.Errorf("%+v", o)
	}
}

// A check decides without a model whether there is something to do.
func TestAJobWithACheck(t *testing.T) {
	mail := make(chan string, 1)
	mail <- `{"unread":1,"at":"10:00"}`
	look := newTool(tool.Spec{Name: "mail.look", Description: "Look.", Effect: tool.Query}, func(context.Context, tool.Invocation, struct{}) (string, error) {
		now := <-mail
		mail <- now
		return now, nil
	})
	w := newJobWorld(t, look)
	w.close()
	var late atomic.Int64 // seconds
	w.jobs = jobs.New(jobs.Options{Store: w.memory, Now: func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Second) }})
	w.opt.Alarms = w.jobs
	w.open()
	j := record.Job{User: "anna", Name: "job", Text: "say you have mail", Check: record.Check{Tool: "mail.look", Pointer: "/unread"}}
	j.Every = 3600
	j, err := w.jobs.AddJob(t.Context(), j)
	ok(t, err)
	answers := func() int {
		c, found, err := requests.Conversation(t.Context(), w.memory, store.ForUser("anna"), j.Conversation)
		ok(t, err)
		if !found {
			return 0
		}
		return len(w.messages(c.ID)) / 2
	}
	for hour, step := range []struct {
		mail    string
		state   string
		answers int
	}{
		{`{"unread":1,"at":"10:00"}`, record.OccurrenceDone, 1},
		{`{"unread":1,"at":"11:00"}`, record.OccurrenceSkipped, 1},
		{`{"unread":2,"at":"12:00"}`, record.OccurrenceDone, 2},
	} {
		<-mail
		mail <- step.mail
		late.Store(int64(hour)*3600 + 1)
		other := record.Job{User: "anna", Name: fmt.Sprint("other-", hour), Text: "say nothing"} // makes the scheduler look at the clock
		other.Cron = "0 0 1 1 *"
		ok(t, second(w.jobs.AddJob(t.Context(), other)))
		eventually(t, "the hour has passed", func() bool {
			list, err := w.jobs.Occurrences(t.Context(), "anna", "job", 9)
			ok(t, err)
			return len(list) == hour+1 && list[0].State == step.state
		})
		if n := answers(); n != step.answers {
			t.Errorf("hour %d: %d answers", hour, n)
		}
	}
}

// A job begins when something happens to what it watches, and is told what.
func TestAJobBeginsOnAnEvent(t *testing.T) {
	w := newJobWorld(t)
	there, _ := w.turn(id.ID{}, "say hello")
	j := record.Job{User: "anna", Name: "job", Text: "say renamed"}
	j.On = record.EventFilter{Type: record.TypeConversation, URI: record.ConversationURI(there).String(), Verb: "put"}
	j, err := w.jobs.AddJob(t.Context(), j)
	ok(t, err)
	eventually(t, "the job follows events", func() bool {
		j, err := w.jobs.Job(t.Context(), "anna", "job")
		ok(t, err)
		return j.Cursor != ""
	})
	ok(t, second(w.Rename(t.Context(), "anna", there, "another name")))
	eventually(t, "the job began", func() bool {
		list, err := w.jobs.Occurrences(t.Context(), "anna", "job", 9)
		ok(t, err)
		return len(list) == 1 && list[0].State == record.OccurrenceDone
	})
	m := w.messages(j.Conversation)[0]
	if b := m.Blocks[1].Base(); !strings.Contains(m.Text(), "What happened: put "+record.ConversationURI(there).String()) || !b.Labels.Has(message.Untrusted) || m.Blocks[0].Base().Labels.Has(message.Untrusted) {
		t.Errorf("%s %+v", m.Text(), b)
	}
}
