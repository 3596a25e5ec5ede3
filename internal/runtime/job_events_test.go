package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store/sqlite"
)

// storedJobs is a node with a scheduler over SQLite.
type storedJobs struct{ *jobWorld }

func newStoredJobs(t *testing.T, w *world) *storedJobs {
	x := &storedJobs{&jobWorld{world: made(t, w)}}
	x.start()
	t.Cleanup(x.close)
	return x
}

// start opens the node over the same file.
func (x *storedJobs) start() {
	x.t.Helper()
	st, err := sqlite.Open(x.t.Context(), sqlite.Options{Path: filepath.Join(x.dir, "jobs.db")})
	ok(x.t, err)
	x.memory = st
	x.schedule()
	ok(x.t, x.tryOpen())
}

// call begins the job of a webhook.
func (x *storedJobs) call(hook id.ID, key, text string) record.Occurrence {
	x.t.Helper()
	o, err := x.jobs.Happened(x.t.Context(), hook, key, jobs.Event{Cause: "a call of its webhook", Text: text})
	ok(x.t, err)
	return o
}

func (x *storedJobs) add(j record.Job) record.Job {
	x.t.Helper()
	j.User, j.Name = "anna", "job"
	j, err := x.jobs.AddJob(x.t.Context(), j)
	ok(x.t, err)
	return j
}

// follows waits until the events of the job are followed.
func (x *storedJobs) follows() {
	x.t.Helper()
	eventually(x.t, "the job is followed", func() bool {
		j, err := x.jobs.Job(x.t.Context(), "anna", "job")
		ok(x.t, err)
		return j.Cursor != ""
	})
}

// A run that a call has begun goes on after a restart, and the same call begins nothing more.
func TestACallGoesOnAfterARestart(t *testing.T) {
	x := newStoredJobs(t, &world{})
	x.model.begun = make(chan struct{}, 9)
	hook := id.New()
	j := record.Job{Text: "hang on"}
	j.Hook = hook
	j = x.add(j)
	first := x.call(hook, "a", "the body")
	<-x.model.begun
	x.close()
	x.start()
	<-x.model.begun
	if again := x.call(hook, "a", "the body"); again.ID != first.ID {
		t.Errorf("%+v", again)
	}
	close(x.model.gate)
	o := x.reaches(record.OccurrenceDone)
	if o.Number != 1 || o.Attempts != 1 || o.Text != "" {
		t.Errorf("%+v", o)
	}
	m := x.messages(j.Conversation)
	b := m[0].Blocks[1].Base()
	if !strings.HasSuffix(m[0].Text(), "What happened: a call of its webhook\n\nthe body") || b.Labels != message.Private|message.Untrusted || m[0].Blocks[0].Base().Labels.Has(message.Untrusted) || len(m) != 2 {
		t.Errorf("%d messages, %+v %q", len(m), b, m[0].Text())
	}
}

// A run at which Steward crashes again and again is parked, and its occurrence fails.
func TestACallThatIsParked(t *testing.T) {
	x := newStoredJobs(t, &world{})
	x.model.begun = make(chan struct{}, 9)
	hook := id.New()
	j := record.Job{Text: "hang on", Retries: 3}
	j.Hook = hook
	x.add(j)
	first := x.call(hook, "a", "")
	for range record.MaxCrashes {
		<-x.model.begun
		x.kill()
		x.start()
	}
	if o := x.reaches(record.OccurrenceFailed); o.Reason != "job_parked" || o.ID != first.ID {
		t.Errorf("%+v", o)
	}
	if again := x.call(hook, "a", ""); again.State != record.OccurrenceFailed {
		t.Errorf("%+v", again)
	}
}

// The cap on cost ends a run that a call has begun. It is not tried again.
func TestACallThatCostsTooMuch(t *testing.T) {
	x := newStoredJobs(t, &world{prices: map[string]llm.Price{"test/m": {Rates: llm.Rates{Input: 100_000}}}}) // $1 for each ten tokens
	hook := id.New()
	j := record.Job{Text: `call math.multiply {"a":2,"b":3}`, Retries: 3, MaxCost: 1.5}
	j.Hook = hook
	x.add(j)
	x.call(hook, "a", "")
	o := x.reaches(record.OccurrenceFailed)
	if o.Reason != "job_bound" || o.Attempts != 1 || o.Cost > 1.5 {
		t.Errorf("%+v", o)
	}
}

// A job begins on the e-mails that it selects, also on those that were noticed while it was not followed.
func TestAJobBeginsOnMail(t *testing.T) {
	x := newStoredJobs(t, &world{})
	arrive := func(n int, account, from, subject string) {
		t.Helper()
		body, err := json.Marshal(map[string]string{"account": account, "id": fmt.Sprint("mail-", n), "from": from, "subject": subject})
		ok(t, err)
		key := fmt.Sprint("mail ", n)
		at := resource.Root("mail.Account", account).ChildID("mail.Message", id.Derive(key))
		for range 2 { // published twice, it is one event
			ok(t, second(x.Publish(t.Context(), "anna", events.Publication{ID: key, Resources: []events.Resource{{URI: at, Body: body}}})))
		}
	}
	j := record.Job{Text: "say mail"}
	j.Mail = record.MailFilter{Account: "home", From: "BANK", Subject: "statement"}
	j = x.add(j)
	x.follows()
	arrive(1, "work", "the bank", "Your statement")
	arrive(2, "home", "a friend", "A statement of mine")
	arrive(3, "home", "The Bank <info@bank.example>", "Good news")
	arrive(4, "home", "The Bank <info@bank.example>", "Your Statement")
	o := x.reaches(record.OccurrenceDone)
	if o.Cause != "an e-mail to home" || o.Number != 1 {
		t.Errorf("%+v", o)
	}
	if text := x.messages(j.Conversation)[0].Text(); !strings.Contains(text, "id: mail-4") || !strings.Contains(text, "Your Statement") || strings.Contains(text, "mail-3") {
		t.Error(text)
	}
	x.close()
	x.start()
	arrive(5, "home", "bank", "statement")
	eventually(t, "the next e-mail begins it", func() bool {
		list, err := x.jobs.Occurrences(t.Context(), "anna", "job", 9)
		ok(t, err)
		return len(list) == 2 && list[0].Number == 2
	})
}

// What is followed elsewhere begins a job once: after a restart it goes on from the cursor.
func TestAJobBeginsOnASource(t *testing.T) {
	w := &world{}
	var from atomic.Pointer[string]
	seen := make(chan jobs.Events)
	w.opt.JobSource = func(ctx context.Context, j record.Job) iter.Seq2[jobs.Events, error] {
		return func(yield func(jobs.Events, error) bool) {
			from.Store(&j.Cursor)
			for {
				select {
				case b := <-seen:
					if !yield(b, nil) {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}
	}
	x := newStoredJobs(t, w)
	j := record.Job{Text: "say changed"}
	j.File = "workspace/in/*.txt"
	x.add(j)
	seen <- jobs.Events{Cursor: "one", Keep: true, List: []jobs.Event{{ID: "1", Cause: "a change"}}}
	x.reaches(record.OccurrenceDone)
	x.close()
	x.start()
	eventually(t, "it is followed from the cursor", func() bool { at := from.Load(); return at != nil && *at == "one" })
}

func TestCheckJob(t *testing.T) {
	x := newStoredJobs(t, &world{})
	for code, j := range map[string]record.Job{"agent_not_found": {Agent: "nobody"}, "model_not_found": {Model: "no/model"}, "check_invalid": {Check: record.Check{Tool: "no.tool"}}, "": {Check: record.Check{Tool: "math.multiply"}}} {
		j.User = "anna"
		err := x.CheckJob(t.Context(), j)
		if code == "" && err != nil || code != "" && !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := x.CheckJob(t.Context(), record.Job{User: "anna", Check: record.Check{Tool: "ledger.add"}}); !fault.HasCode(err, "check_invalid") {
		t.Error(err)
	}
}
