package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/tool"
)

type loop struct {
	Job
	rounds  []round // of tool calls, to detect cycles
	calls   int     // model calls so far
	active  time.Duration
	size    int           // bytes of the turn's replies and results so far
	used    message.Usage // by the turn's replies so far
	absent  bool          // no model was available at the last attempt
	pending bool          // Ready has not returned yet
}

// Run runs the loop to its end. It starts from what the last message of the conversation
// requires: an answer, or the results of calls that have none yet (after a crash). The
// error is nil if the end of the run was recorded, whatever the outcome; otherwise the run
// is still open.
func Run(ctx context.Context, j Job) (Outcome, error) {
	if j.Limits.Iterations == 0 {
		j.Limits.Iterations = DefaultIterations
	}
	if j.Limits.Calls == 0 {
		j.Limits.Calls = DefaultCalls
	}
	if j.Limits.Time == 0 {
		j.Limits.Time = DefaultTime
	}
	l := &loop{Job: j, pending: j.Ready != nil}
	l.restoreCounts()
	if open := message.Dangling(j.Journal.Transcript().Messages()); len(open) > 0 {
		if done, err := l.runCalls(ctx, open); done || err != nil {
			return l.end(ctx, err)
		}
	}
	if over, err := l.hook(ctx, tool.BeforeRequest, l.begin()); over {
		return l.refused(ctx, nil, err)
	}
	if err := l.recall(ctx); err != nil {
		return l.unrecorded(ctx, err)
	}
	for {
		if err := l.steer(ctx); err != nil {
			return Failure, err
		}
		m, err := l.nextWritten(ctx, nil)
		if err != nil {
			return l.failed(ctx, nil, err)
		}
		if m == nil {
			if why := l.bound(); why != "" {
				return l.finish(ctx, system(why, message.StopBound), Bounded, nil)
			}
			if over, err := l.hook(ctx, tool.BeforeModel, l.Hooks.Before); over {
				return l.refused(ctx, nil, err)
			}
			partial, failed := l.askUntilAvailable(ctx)
			if m = partial; failed != nil {
				if m, err = l.nextWritten(ctx, failed); m == nil || err != nil {
					return l.failed(ctx, partial, cmp.Or(err, failed))
				}
			} else if over, err := l.hook(ctx, tool.AfterModel, l.after(m)); over {
				return l.refused(ctx, m, err)
			}
		}
		calls := m.Calls()
		switch {
		case len(calls) > 0:
			if err := l.append(ctx, m); err != nil {
				return l.unrecorded(ctx, err)
			}
			if done, err := l.runCalls(ctx, calls); done || err != nil {
				return l.end(ctx, err)
			}
		case m.Stop == message.StopLength:
			if err := l.append(ctx, m, continueMessage()); err != nil {
				return l.unrecorded(ctx, err)
			}
		default:
			if again, err := l.review(ctx, m); err != nil {
				return l.unrecorded(ctx, err)
			} else if again {
				continue
			}
			if ctx.Err() != nil {
				return l.failed(ctx, m, ctx.Err())
			}
			return l.finish(ctx, m, Answered, nil)
		}
	}
}

// review has an answer looked at before it is given. It reports whether the model is to
// go on from it. Until then nothing of it is durable: after a crash it is written again.
func (l *loop) review(ctx context.Context, m *message.Message) (again bool, err error) {
	if l.Review == nil || l.bound() != "" {
		return false, nil
	}
	began := time.Now()
	note := l.Review(ctx, m)
	l.active += time.Since(began)
	if note == "" || ctx.Err() != nil {
		return false, nil
	}
	told := stewardMessage(note)
	told.Blocks[0].Base().Labels, told.Blocks[0].Base().Sources = message.LabelsOf(m.Blocks), l.Journal.Sources()
	return true, l.append(ctx, m, told)
}

// nextWritten returns the message that takes the place of the model's next one, or of one that
// has failed; or nil.
func (l *loop) nextWritten(ctx context.Context, failed error) (*message.Message, error) {
	if l.Write == nil || l.pending || failed != nil && (ctx.Err() != nil || errors.Is(failed, errTime) || fault.HasCode(failed, "budget_exhausted")) {
		return nil, nil
	}
	m, err := l.Write(ctx, failed)
	if m != nil {
		for _, b := range m.Blocks {
			b.Base().Labels |= l.Journal.Labels()
			b.Base().Sources = l.Journal.Sources()
		}
	}
	return m, err
}

// restoreCounts counts the work that the turn had done before a crash, so that its limits cover
// it.
func (l *loop) restoreCounts() {
	msgs := l.Journal.Transcript().Messages()
	for i := len(msgs) - 1; i >= 0; i-- {
		m := msgs[i]
		if m.Final || m.Role == message.User && origin(m) != "system" {
			return
		}
		l.size += SizeOf(m.Blocks)
		if m.Role == message.Assistant {
			l.calls++
			l.used = l.used.Add(m.Usage)
			if l.Meter != nil && l.Spent != nil {
				l.Meter.Add(l.Spent(m.Model, m.Usage))
			}
		}
	}
}

// SizeOf returns the approximate size of blocks in bytes.
func SizeOf(blocks []message.Block) (n int) {
	for _, b := range blocks {
		n += len(b.Base().Meta.Fields)
		switch b := b.(type) {
		case *message.Text:
			n += len(b.Text)
		case *message.Reasoning:
			n += len(b.Text)
		case *message.ToolCall:
			n += len(b.Name) + len(b.Args)
		case *message.ToolResult:
			n += SizeOf(b.Content)
		case *message.Image:
			n += len(b.Data)
		case *message.File:
			n += len(b.Data)
		}
	}
	return n
}

func origin(m *message.Message) string {
	if len(m.Blocks) == 0 {
		return ""
	}
	return m.Blocks[0].Base().Origin
}

// bound returns which limit has been reached, as the text of the final message, or "".
func (l *loop) bound() string {
	switch lim := l.Limits; {
	case l.calls >= lim.Iterations:
		return fmt.Sprintf("I stopped: this turn has asked the model %d times, which is its limit, without coming to an answer. What was found so far is above. Say “go on” to continue, or raise limits.iterations.", l.calls)
	case l.active >= lim.Time:
		return fmt.Sprintf("I stopped: this turn has worked for %s, which is its limit, without coming to an answer. What was found so far is above. Say “go on” to continue, or raise limits.time.", lim.Time)
	case l.size >= maxTurn:
		return fmt.Sprintf("I stopped: this turn has read and written %d MiB, which is more than a turn may. What was found so far is above. Ask for less at once.", l.size>>20)
	}
	return ""
}

// system returns a final message written by Steward.
func system(text string, stop message.Stop) *message.Message {
	return &message.Message{ID: id.New(), Role: message.Assistant, Stop: stop,
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "system"}, Text: text}}}
}

// continueMessage returns a message that asks the model to continue a reply that was cut off by its
// length limit. A user message is needed because not every provider accepts a history that
// ends with the assistant.
func continueMessage() *message.Message {
	return stewardMessage("Your reply was cut off by its length limit. Continue exactly where it stopped; repeat nothing.")
}

// stewardMessage returns a message to the model in Steward's own words.
func stewardMessage(text string) *message.Message {
	return &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "system"}, Text: text}}}
}

// ready waits until the turn's first message is durable.
func (l *loop) ready() error {
	if !l.pending {
		return nil
	}
	if err := l.Ready(); err != nil {
		return err
	}
	l.pending = false
	return nil
}

// askUntilAvailable asks the model. If none is available, a turn that has begun already waits
// until one is.
func (l *loop) askUntilAvailable(ctx context.Context) (*message.Message, error) {
	for {
		calls, active := l.calls, l.active
		m, err := l.askFitted(ctx)
		if l.Await == nil || m != nil || !llm.IsUnavailable(err) || calls == 0 && !l.Begun || l.pending || ctx.Err() != nil {
			return m, err
		}
		l.calls, l.active, l.absent = calls, active, true
		if err := l.Await(ctx, err); err != nil {
			return nil, err
		}
	}
}

// askFitted asks the model after fitting the context to its window. If the model still
// rejects it as too long, askFitted reduces it and asks again.
func (l *loop) askFitted(ctx context.Context) (*message.Message, error) {
	if l.Fitter != nil && l.Fitter.Over(ctx) {
		if _, err := l.fit(ctx, false); err != nil {
			return nil, err
		}
	}
	for refits := 0; ; refits++ {
		m, err := l.ask(ctx)
		certain, perhaps := llm.TooLong(err)
		if l.Fitter == nil || m != nil || !certain && !perhaps || certain && refits >= maxRefits || perhaps && refits >= maxGuesses {
			return m, err
		}
		less, fitErr := l.fit(ctx, true)
		if fitErr != nil {
			return nil, fitErr
		}
		if !less {
			return nil, err
		}
	}
}

// maxRefits bounds how often the context is reduced because the model rejected it as too
// long, and maxGuesses how often because that may be the reason.
const (
	maxRefits  = 8
	maxGuesses = 4
)

// fit reduces the model's context. Its time counts towards the run's limit.
func (l *loop) fit(ctx context.Context, refused bool) (bool, error) {
	if err := l.ready(); err != nil {
		return false, err
	}
	began := time.Now()
	defer func() { l.active += time.Since(began) }()
	ctx, cancel := context.WithTimeoutCause(ctx, l.Limits.Time-l.active, errTime)
	defer cancel()
	less, err := l.Fitter.Fit(ctx, refused)
	if err != nil && context.Cause(ctx) == errTime {
		err = errTime
	}
	return less, err
}

// ask streams one message from the model. With an error it returns the text received so
// far as a message, or nil.
func (l *loop) ask(ctx context.Context) (*message.Message, error) {
	began := time.Now()
	defer func() { l.active += time.Since(began) }()
	l.calls++
	ctx, cancel := context.WithTimeoutCause(ctx, l.Limits.Time-l.active, errTime)
	defer cancel()

	m := &message.Message{ID: id.New(), Role: message.Assistant}
	var partial bytes.Buffer
	var reply *llm.Reply
	request := l.Request()
	if l.Asking != nil {
		l.Asking(m.ID, request)
	}
	for ev, err := range l.Model.Stream(ctx, request) {
		if err := l.ready(); err != nil {
			return nil, err
		}
		if err != nil {
			if context.Cause(ctx) == errTime {
				err = errTime
			}
			return l.partialMessage(m, partial.String()), err
		}
		switch ev.Kind {
		case llm.Done:
			reply, l.absent = ev.Reply, false
			continue
		case llm.Notice:
			if l.absent { // the user has been told already
				continue
			}
		case llm.TextDelta:
			partial.WriteString(ev.Text)
		case llm.Reset:
			partial.Reset()
		}
		if l.Hooks.After == nil && l.Review == nil || ev.Kind == llm.Notice { // otherwise it may not be given yet
			l.Emit(Event{Kind: Delta, ID: m.ID, Stream: ev})
		}
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	if reply == nil {
		return l.partialMessage(m, partial.String()), fault.New(fault.Unavailable, "stream_broken", "the model's stream ended without its end mark")
	}
	m.Blocks, m.Model, m.Stop, m.Usage, m.Meta = bounded(reply.Blocks, l.Limits.Calls), reply.Model, reply.Stop, reply.Usage, reply.Meta
	l.mark(m)
	return m, nil
}

var errTime = errors.New("the run's time is up")

// mark sets the origin and labels of what a model wrote, and assigns an ID or a name to
// calls that came without one.
func (l *loop) mark(m *message.Message) {
	labels, sources, from := l.Journal.Labels(), l.Journal.Sources(), "model:"+m.Model
	if m.Foreign() {
		labels |= message.Untrusted
	}
	for i, b := range m.Blocks {
		c := b.Base()
		c.Origin = from
		c.Labels |= labels
		c.Sources = sources
		if call, ok := b.(*message.ToolCall); ok {
			if call.CallID == "" {
				call.CallID = fmt.Sprintf("call_%x_%d", m.ID[10:], i)
			}
			if call.Name == "" {
				call.Name = "unnamed"
			}
		}
	}
}

// partialMessage returns the text of an incomplete stream as a message, or nil.
func (l *loop) partialMessage(m *message.Message, text string) *message.Message {
	if text == "" || l.Hooks.After != nil {
		return nil
	}
	m.Blocks = []message.Block{&message.Text{Text: text}}
	l.mark(m)
	m.Blocks[0].Base().Origin = "model"
	return m
}

// append makes messages durable and emits them.
func (l *loop) append(ctx context.Context, msgs ...*message.Message) error {
	seqs, err := l.Journal.Append(context.WithoutCancel(ctx), msgs...)
	if err != nil {
		return err
	}
	for i, m := range msgs {
		l.size += SizeOf(m.Blocks)
		l.used = l.used.Add(m.Usage)
		l.Emit(Event{Kind: Stored, ID: m.ID, Message: m, Seq: seqs[i]})
	}
	return nil
}

// steer appends what the user has written since. It returns only errors of Ready.
func (l *loop) steer(ctx context.Context) error {
	if l.Steer == nil {
		return nil
	}
	msgs := l.Steer()
	if len(msgs) == 0 {
		return nil
	}
	if err := l.ready(); err != nil {
		return err
	}
	// An error breaks the journal, which the next step reports.
	_ = l.append(ctx, msgs...)
	return nil
}

// failed ends a run whose model call failed.
func (l *loop) failed(ctx context.Context, partial *message.Message, err error) (Outcome, error) {
	if l.pending { // the turn itself could not be recorded
		return Failure, err
	}
	switch {
	case context.Cause(ctx) == request.ErrSuspend:
		return Failure, request.ErrSuspend
	case ctx.Err() != nil:
		return l.stopped(ctx, partial)
	case errors.Is(err, errTime):
		l.active = l.Limits.Time
		return l.finish(ctx, system(l.bound(), message.StopBound), Bounded, nil)
	case fault.HasCode(err, "budget_exhausted"):
		e := fault.Of(err)
		return l.finish(ctx, system("I stopped: "+e.Error()+".", message.StopBound), Bounded, nil)
	}
	return l.finish(ctx, nil, Failure, err)
}

// unrecorded ends a run after a failed append. Either the model wrote an invalid message
// (of which nothing was kept), or messages cannot be stored any more.
func (l *loop) unrecorded(ctx context.Context, err error) (Outcome, error) {
	if fault.Is(err, fault.Invalid) {
		return l.finish(ctx, nil, Failure, err)
	}
	return Failure, err
}

// stopped ends a run that a person stopped, keeping the partial reply.
func (l *loop) stopped(ctx context.Context, partial *message.Message) (Outcome, error) {
	if partial == nil {
		partial = system("(stopped)", message.StopCancelled)
	}
	partial.Stop = message.StopCancelled
	return l.finish(ctx, partial, Stopped, nil)
}

// end ends a run after its tool calls: if err is nil, because it was stopped or a cycle
// was detected; otherwise because the results could not be recorded.
func (l *loop) end(ctx context.Context, err error) (Outcome, error) {
	switch {
	case err != nil:
		return Failure, err
	case context.Cause(ctx) == request.ErrSuspend: // just after the results were recorded
		return Failure, request.ErrSuspend
	case ctx.Err() != nil:
		return l.stopped(ctx, nil)
	}
	return l.finish(ctx, system("I stopped: the model keeps making the same tool calls and getting the same results. Ask in other words, or try another model.", message.StopBound), Bounded, nil)
}

// finish records the end of the run.
func (l *loop) finish(ctx context.Context, m *message.Message, out Outcome, cause error) (Outcome, error) {
	var code string
	if cause != nil {
		code = fault.Of(cause).Code
	}
	if m != nil {
		m.Final = true
		m.Approach = l.Approach
		m.Took = time.Since(l.Started).Truncate(time.Millisecond)
		if all := l.turnUsage(ctx, m); all != m.Usage {
			m.Turn = all
		}
	}
	seq, err := l.Journal.Finish(context.WithoutCancel(ctx), m, string(out), code)
	if m != nil && fault.Is(err, fault.Invalid) {
		return l.finish(ctx, nil, Failure, err)
	}
	if err != nil {
		return Failure, err
	}
	if out != Failure {
		cause = nil // the message says why
	}
	l.Emit(Event{Kind: Finished, Message: m, Seq: seq, Outcome: out, Err: cause})
	return out, nil
}

// turnUsage returns the total usage of the turn that message m ends.
func (l *loop) turnUsage(ctx context.Context, m *message.Message) message.Usage {
	all := l.used.Add(m.Usage)
	if l.Below != nil {
		all = all.Add(l.Below(context.WithoutCancel(ctx)))
	}
	return all
}
