package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/heartbeat"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
)

// Why a job's turn did not end with an answer.
var (
	errJobStopped = fault.New(fault.Cancelled, "job_stopped", "the job was stopped")
	errJobTime    = fault.New(fault.Timeout, "job_time", "the job took longer than it may").WithHint("raise its time limit")
	errJobParked  = fault.New(fault.Unavailable, "job_parked", "Steward has stopped several times while the job ran").WithHint("look at steward requests, and resume the request or run the job again")
	errJobBound   = fault.New(fault.Exhausted, "job_bound", "the job reached a limit of its agent or its budget").WithHint("raise its cap on cost")
)

// jobTurn returns the interaction in which an attempt is made. It derives from the attempt, so that the
// limits of the job's tools are known before a run that was interrupted is resumed.
func jobTurn(key string) id.ID { return id.Derive("job", "turn", key) }

// performJob carries out an attempt of a job's occurrence: it opens a turn in the job's conversation and
// waits for its end. If Steward stops meanwhile, the run is resumed at the next start like any other, and
// performJob finds it by its client id. What needs approval is asked as if a person were present; the
// occurrence then waits for the answer.
func (n *Node) performJob(ctx context.Context, a *jobs.Attempt) (jobs.Result, error) {
	j := &a.Job
	if j.Kind == record.KindBackup {
		if n.opt.Backup == nil {
			return jobs.Result{Final: true}, fault.New(fault.Unsupported, "backup_unsupported", "no backups are made here")
		}
		said, err := n.opt.Backup(ctx)
		return jobs.Result{Said: said}, err
	}
	meter, content := llm.NewMeter(llm.Budget{MaxCost: j.MaxCost}), jobContent(a)
	if j.Kind != "" {
		var err error
		var done func()
		if meter, content, done, err = n.beginHeartbeat(ctx, a); err != nil {
			return jobs.Result{Final: true}, err
		}
		defer done()
	}
	conv, err := n.jobConversation(ctx, a)
	if err != nil {
		return jobs.Result{}, err
	}
	inter := jobTurn(a.Key())
	t := turn.Input{Conversation: conv, Derived: true, ClientID: "job " + a.Key(), Opens: inter, Content: content, Agent: j.Agent, Model: j.Model,
		Attended: mayAsk(j), Origin: record.OriginJob + j.ID.String(), Labels: j.Labels, Sources: j.Sources}
	if j.MaxCost > 0 || j.Kind != "" { // for all attempts together
		meter.Add(llm.Spend{Cost: a.Occurrence.Cost})
		t.ParentMeter = meter
	}
	n.jobTools.add(j.User, inter, j.Tools)
	acc, err := n.Turns.Send(ctx, j.User, t)
	if err != nil {
		return jobs.Result{Final: work.IsFinal(err)}, err
	}
	r := jobs.Result{Conversation: acc.Conversation, Interaction: acc.Interaction}
	if j.Kind != "" {
		n.nameHeartbeat(ctx, a, acc.Conversation)
	}
	at := record.InteractionURI(acc.Conversation, acc.Interaction)
	sc := store.ForUser(j.User)
	if acc.Duplicate && j.Kind != "" {
		made, err := n.modelCalls(ctx, sc, at)
		if err != nil {
			return r, err
		}
		meter.AddCalls(made)
	}
	if acc.Duplicate { // a run that has made Steward crash again and again is not resumed for the job
		run, _, err := requests.LastRun(ctx, n.opt.Store, sc, at)
		if err != nil {
			return r, err
		}
		if !run.Parked.IsZero() {
			r.Final = true
			return r, errJobParked
		}
	}
	timedOut, err := n.followJob(ctx, a, acc, t.ParentMeter)
	if err != nil {
		return r, err
	}
	if j.Kind != "" {
		if r.Calls, err = n.modelCalls(ctx, sc, at); err != nil {
			return r, err
		}
		r.Calls = max(r.Calls, meter.Calls())
	}
	if r.Cost, err = n.Records.Engine.Cost(ctx, sc, at); err != nil {
		return r, err
	}
	run, _, err := requests.LastRun(ctx, n.opt.Store, sc, at)
	if err != nil {
		return r, err
	}
	switch {
	case timedOut:
		r.Final = true
		return r, errJobTime
	case run.Outcome == "stopped":
		r.Final = true
		return r, errJobStopped
	case run.Outcome == "bound":
		r.Final = true
		return r, errJobBound
	case run.Outcome != "answered":
		return r, fault.New(fault.Unavailable, cmp.Or(run.Error, "job_failed"), "the turn of the job failed")
	}
	return r, n.deliverAnswer(ctx, a, at, &r)
}

// mayAsk reports whether a turn of a job may wait for a person. One of Steward's own waits only if it may
// ask for something.
func mayAsk(j *record.Job) bool {
	if j.Kind == "" {
		return true
	}
	for _, may := range j.Tools {
		if may == record.ToolAsk {
			return true
		}
	}
	return false
}

// jobConversation returns the conversation in which an occurrence is carried out: the job's own, or another
// one if the user has deleted that.
func (n *Node) jobConversation(ctx context.Context, a *jobs.Attempt) (id.ID, error) {
	j := &a.Job
	conv := j.Conversation
	if j.Kind != "" {
		conv = heartbeatConversation(j.User, a.Occurrence.Due, zoneOf(j))
	}
	for {
		r, err := n.opt.Store.Get(ctx, store.ForUser(j.User), record.ConversationURI(conv))
		if fault.Is(err, fault.NotFound) {
			return conv, nil
		}
		if err != nil {
			return conv, err
		}
		c, err := record.DecodeConversation(r.URI, r.Body)
		if err != nil || c.Deleted.IsZero() {
			return conv, err
		}
		conv = id.Derive("conversation", "job", conv.String())
	}
}

// jobContent returns what the agent is asked. What is said of an event comes from outside.
func jobContent(a *jobs.Attempt) []message.Block {
	out := []message.Block{&message.Text{Text: a.Job.Text}}
	if cause := a.Occurrence.Cause; cause != "" && cause != jobs.CausePerson {
		text := "What happened: " + cause
		if a.Occurrence.Text != "" {
			text += "\n\n" + a.Occurrence.Text
		}
		out = append(out, &message.Text{Common: message.Common{Labels: message.Private | message.Untrusted}, Text: text})
	}
	return out
}

// followJob waits for the end of a turn. It records while the turn waits for a person, and stops it when
// its time is over; waiting does not count.
func (n *Node) followJob(ctx context.Context, a *jobs.Attempt, acc turn.Accepted, meter *llm.Meter) (timedOut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	n.life.Of(a.Job.User).Go(func() { over <- n.Work.AwaitTurn(ctx, a.Job.User, acc.Conversation, acc.Interaction) })
	c := n.Turns.Enter(a.Job.User, acc.Conversation)
	defer n.Turns.Exit(c)
	left := time.Duration(a.Job.MaxTime) * time.Second
	for {
		live := c.Running(acc.Interaction)
		if live != nil && acc.Duplicate && meter != nil { // it was resumed without the meter
			live.Meter.Under(meter)
		}
		changed, began := n.Effects.Changed(), time.Now()
		waits, err := n.waitsForPerson(ctx, a.Job.User, acc.Conversation)
		if err != nil {
			return false, err
		}
		if waits {
			err, ended := error(nil), false
			if waiting := a.Wait(ctx, func() error { ended, err = n.awaitPerson(ctx, a.Job.User, acc.Conversation, over); return err }); waiting != nil || ended {
				return false, waiting
			}
			continue
		}
		var timeout <-chan time.Time
		if a.Job.MaxTime > 0 {
			timeout = time.After(max(left, 0))
		}
		select {
		case err := <-over:
			return timedOut, err
		case <-changed:
			fault.Pause(ctx, approvalsEvery)
		case <-c.RunChange():
		case <-timeout:
			if live = c.Running(acc.Interaction); live != nil && !timedOut {
				timedOut = true
				c.Stop(live, request.ErrStop)
			}
			left = time.Second
			continue
		}
		left -= time.Since(began)
	}
}

// awaitPerson waits until a conversation waits for no person any more, or its turn is over.
func (n *Node) awaitPerson(ctx context.Context, user string, conv id.ID, over <-chan error) (ended bool, err error) {
	for {
		changed := n.Effects.Changed()
		if waits, err := n.waitsForPerson(ctx, user, conv); err != nil || !waits {
			return false, err
		}
		select {
		case err := <-over:
			return true, err
		case <-changed:
			fault.Pause(ctx, approvalsEvery)
		case <-time.After(time.Minute): // a question may have expired
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// waitsForPerson reports whether an agent waits for an answer in a conversation, or in one that is held
// on its behalf.
func (n *Node) waitsForPerson(ctx context.Context, user string, conv id.ID) (bool, error) {
	list, err := n.Effects.Questions(ctx, user)
	if err != nil {
		return false, err
	}
	for i := range list {
		in, err := resource.Parse(list[i].Conversation)
		if err != nil {
			continue // it is about no conversation
		}
		at := record.IDOf(in, record.TypeConversation)
		for level := 0; !at.Zero() && level < requests.MaxLevels; level++ {
			if at == conv {
				return true, nil
			}
			c, _, err := requests.Conversation(ctx, n.opt.Store, store.ForUser(user), at)
			if err != nil {
				return false, err
			}
			at = record.IDOf(c.Asked, record.TypeConversation)
		}
	}
	return false, nil
}

// deliverAnswer brings the answer of a job to where it is wanted.
func (n *Node) deliverAnswer(ctx context.Context, a *jobs.Attempt, at resource.URI, r *jobs.Result) error {
	d := a.Job.Deliver
	if d.Conversation.Zero() && !d.Notify && a.Job.Kind == "" {
		return nil
	}
	sum, err := requests.SumUp(ctx, n.opt.Store, store.ForUser(a.Job.User), at)
	if err != nil || sum.Final == nil {
		return err
	}
	text := sum.Final.Text()
	if a.Job.Kind != "" {
		if text, err = heartbeatAnswer(a, text); err != nil {
			return err
		}
		if r.Said = text; text == "" {
			r.Reason = record.ReasonSilent
			return nil
		}
	}
	reached := n.writeToMessenger(ctx, &a.Job, text, sum.Labels, "job "+a.Key())
	if d.Notify && !reached {
		n.notifyJob(&a.Job, text)
	}
	if d.Conversation.Zero() {
		return nil
	}
	send := func() error {
		return n.tell(ctx, &a.Job, "job answer "+a.Key(), text, sum.Labels, sum.Sources)
	}
	if n.Turns.Running(a.Job.User, d.Conversation) { // it may wait for a person
		return a.Wait(ctx, send)
	}
	return send()
}

// tell writes a text into the conversation that a job delivers to. If that is gone, the text stays in
// the job's own.
func (n *Node) tell(ctx context.Context, j *record.Job, key, text string, labels message.Labels, sources []string) error {
	if _, found, err := requests.Conversation(ctx, n.opt.Store, store.ForUser(j.User), j.Deliver.Conversation); err != nil || !found {
		return err
	}
	t := turn.Input{Conversation: j.Deliver.Conversation, ClientID: key, Content: []message.Block{&message.Text{Text: text}},
		Model: record.RepeatModel, Origin: record.OriginJob + j.ID.String(), Labels: labels, Sources: sources}
	_, err := n.Turns.Send(ctx, j.User, t)
	if err != nil && work.IsFinal(err) {
		n.log.Warn("the answer of a job could not be delivered", "job", j.Name, "error", err)
		return nil
	}
	return err
}

// writeToMessenger writes to the user of a job in the messenger in which the user is reached, once for each
// key. It reports whether there is one.
func (n *Node) writeToMessenger(ctx context.Context, j *record.Job, text string, labels message.Labels, key string) bool {
	if n.opt.Deliver == nil {
		return false
	}
	reached, err := n.opt.Deliver(ctx, j.User, heartbeat.Title(j)+"\n\n"+text, labels, key)
	if err != nil {
		n.log.Warn("a job could not write to a messenger", "job", j.Name, "error", err)
	}
	return reached && err == nil
}

// notifyJob notifies the user of a job. After a crash it may do so again.
func (n *Node) notifyJob(j *record.Job, text string) {
	if n.opt.Notify == nil {
		return
	}
	user, name, title := j.User, j.Name, heartbeat.Title(j) // the job is changed when its occurrence ends
	life := n.life.Of(user)
	life.Go(func() {
		if err := n.opt.Notify(life, user, title, text); err != nil {
			n.log.Warn("a job notified nobody", "job", name, "error", err)
		}
	})
}

// reportJob tells the user of occurrences that failed or were missed.
func (n *Node) reportJob(ctx context.Context, j record.Job, o record.Occurrence) {
	if j.Kind != "" && j.Kind != record.KindBackup && !n.reportHeartbeat(ctx, &j, &o) {
		return
	}
	due := o.Due.In(zoneOf(&j)).Format("Mon 2 Jan at 15:04")
	text := fmt.Sprintf("The job %s failed (%s). It was due on %s. steward jobs history %s tells more.", j.Name, o.Reason, due, j.Name)
	if o.State == record.OccurrenceMissed {
		if text = fmt.Sprintf("The job %s was missed on %s: Steward was not running then.", j.Name, due); o.Several > 1 {
			text = fmt.Sprintf("The job %s was missed %d times since %s: Steward was not running then.", j.Name, o.Several, due)
		}
	}
	if (o.State == record.OccurrenceFailed || j.Deliver.Notify) && !n.writeToMessenger(ctx, &j, text, j.Labels, "job report "+o.ID.String()) {
		n.notifyJob(&j, text)
	}
	if !j.Deliver.Conversation.Zero() {
		life := n.life.Of(j.User)
		life.Go(func() { // a turn that is running there may take its time
			if err := n.tell(life, &j, "job report "+o.ID.String(), text, 0, nil); err != nil && life.Err() == nil {
				n.log.Warn("cannot tell that a job did not run", "job", j.Name, "error", err)
			}
		})
	}
}

// CheckJob refuses a job whose agent, model or check does not exist. A job may also come to name what is gone
// later; its occurrences then fail. Error codes: agent_not_found, model_not_found and others of models,
// check_invalid.
func (n *Node) CheckJob(ctx context.Context, j record.Job) error {
	if j.Model != "" {
		if _, err := n.opt.Models.Resolve(j.Model); err != nil {
			return err
		}
	}
	return n.canCheck(ctx, j.User, j.Agent, j.Check.Tool)
}

// canCheck refuses a job whose agent does not exist, or whose check is no query of that agent.
func (n *Node) canCheck(ctx context.Context, user, agent, name string) error {
	specs, err := n.Work.ToolList(ctx, user, agent, "")
	if err != nil || name == "" {
		return err
	}
	i := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == name })
	switch {
	case i < 0:
		return fault.New(fault.Invalid, "check_invalid", "there is no tool %.80q for the check", name).WithHint("steward tools lists the tools that only read")
	case specs[i].Effect != tool.Query:
		return fault.New(fault.Invalid, "check_invalid", "%s changes something, so it cannot be a check", name).WithHint("use a tool that only reads")
	}
	return nil
}

// zoneOf returns the time zone of a job.
func zoneOf(j *record.Job) *time.Location {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// checkJob runs the query of a job's check and returns a hash of its result, or of the part that the
// check's pointer names.
func (n *Node) checkJob(ctx context.Context, j record.Job) (string, error) {
	part, err := n.check(ctx, j.User, j.Agent, j.Check)
	return hashed(part), err
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// check runs a query and returns its result, or the part that the check's pointer names.
func (n *Node) check(ctx context.Context, user, agent string, c record.Check) (string, error) {
	if err := n.canCheck(ctx, user, agent, c.Tool); err != nil {
		return "", err
	}
	x, err := n.Work.ExecuteTool(ctx, user, work.Execution{Agent: agent, Tool: c.Tool, Args: []byte(c.Args)})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, b := range x.Result.Content {
		if b, ok := b.(*message.Text); ok {
			text.WriteString(b.Text)
		}
	}
	if x.Result.Status != message.OK {
		return "", fault.New(fault.Unavailable, "check_failed", "the check did not work: %.300s", text.String())
	}
	return pointed(text.String(), c.Pointer)
}

// pointed returns the part of a JSON text that a pointer (RFC 6901) names; everything if it is empty.
func pointed(text, pointer string) (string, error) {
	if pointer == "" {
		return text, nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "", fault.New(fault.Invalid, "check_invalid", "the result of the check is not JSON: %w", err).WithHint("leave the pointer out")
	}
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i < 0 || i >= len(at) {
				return "null", nil
			}
			v = at[i]
		default:
			return "null", nil
		}
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// jobEvents yields the events that begin a job. What the job itself writes is no event for it.
func (n *Node) jobEvents(ctx context.Context, j record.Job) iter.Seq2[jobs.Events, error] {
	switch {
	case j.Mail != record.MailFilter{}:
		return n.mailEvents(ctx, j)
	case j.On.Zero():
		if n.opt.JobSource == nil {
			return func(yield func(jobs.Events, error) bool) {
				yield(jobs.Events{}, fault.New(fault.Unsupported, "job_source", "files and the home are not followed here"))
			}
		}
		return n.opt.JobSource(ctx, j)
	}
	var f events.Filter
	if j.On.Type != "" {
		f.Types = []string{j.On.Type}
	}
	verbs := map[events.DetailType]string{events.Put: "put", events.Delete: "delete"}
	for detail, verb := range verbs {
		if j.On.Verb == "" || j.On.Verb == verb {
			f.Details = append(f.Details, detail)
		}
	}
	return func(yield func(jobs.Events, error) bool) {
		if j.On.URI != "" {
			at, err := resource.Parse(j.On.URI)
			if err != nil {
				yield(jobs.Events{}, err)
				return
			}
			f.Prefixes = []resource.URI{at}
		}
		for b, err := range n.events.Subscribe(ctx, events.Caller{User: j.User, Agent: j.Agent}, f, events.Cursor(j.Cursor)) {
			out := jobs.Events{Cursor: string(b.Cursor)}
			for i := range b.Events {
				e := &b.Events[i]
				about := e.URI
				if e.Published && len(e.Resources) > 0 {
					about = e.Resources[0].URI
				}
				conv, job := record.IDOf(about, record.TypeConversation), !record.IDOf(about, record.TypeJob).Zero()
				if job || !conv.Zero() && (conv == j.Conversation || conv == j.Deliver.Conversation) {
					continue
				}
				out.List = append(out.List, jobs.Event{ID: e.ID.String(), Cause: verbs[e.Detail] + " " + about.String()})
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// mailEvents yields the e-mails that begin a job. An event about each is published when it arrives.
func (n *Node) mailEvents(ctx context.Context, j record.Job) iter.Seq2[jobs.Events, error] {
	f := events.Filter{Types: []string{mailMessage}, Prefixes: []resource.URI{resource.Root("mail.Account", j.Mail.Account)}, Bodies: true}
	return func(yield func(jobs.Events, error) bool) {
		for b, err := range n.events.Subscribe(ctx, events.Caller{User: j.User, Agent: j.Agent}, f, events.Cursor(j.Cursor)) {
			out := jobs.Events{Cursor: string(b.Cursor)}
			for i := range b.Events {
				e := &b.Events[i]
				if !e.Published || len(e.Resources) == 0 {
					continue
				}
				var letter struct{ ID, From, Subject string }
				if err := json.Unmarshal(e.Resources[0].Body, &letter); err != nil || !holds(letter.From, j.Mail.From) || !holds(letter.Subject, j.Mail.Subject) {
					continue
				}
				out.List = append(out.List, jobs.Event{ID: e.ID.String(), Cause: "an e-mail to " + j.Mail.Account,
					Text: fmt.Sprintf("id: %s\nfrom: %s\nsubject: %s", letter.ID, letter.From, letter.Subject)})
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// mailMessage is the type of the resources of events about e-mails.
const mailMessage = "mail.Message"

// holds reports whether a text has a part, in any case.
func holds(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
