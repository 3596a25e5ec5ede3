package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// begin is the hook that sees what was asked, before the run's first model call.
func (l *loop) begin() func(context.Context) (string, error) {
	if l.Hooks.Begin == nil || l.calls > 0 {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		for _, m := range slices.Backward(l.Journal.Transcript().Messages()) {
			if m.Role == message.User && origin(m) != record.OriginMemory {
				return l.Hooks.Begin(ctx, m.Text())
			}
		}
		return l.Hooks.Begin(ctx, "")
	}
}

// recall appends what is remembered for what a person asked, unless that has been done before a crash.
func (l *loop) recall(ctx context.Context) error {
	if l.Recall == nil || l.calls > 0 {
		return nil
	}
	asked := ""
	for _, m := range slices.Backward(l.Journal.Transcript().Messages()) {
		if from := origin(m); m.Role != message.User || from == record.OriginMemory {
			return nil
		} else if from == cmp.Or(l.RecallFrom, record.OriginUser) {
			asked = m.Text()
			break
		}
	}
	if asked == "" {
		return nil
	}
	began := time.Now()
	m := l.Recall(ctx, asked)
	l.active += time.Since(began)
	if m == nil {
		return nil
	}
	if err := l.ready(); err != nil {
		return err
	}
	return l.append(ctx, m)
}

// after is the hook that sees what the model wrote, before anyone else does.
func (l *loop) after(m *message.Message) func(context.Context) (string, error) {
	if l.Hooks.After == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) { return "", l.Hooks.After(ctx, m.Text()) }
}

// hook calls a hook, unless it is nil, and appends its note for the model. It returns over
// if the run must end. If the note was stored just before
// a crash, the hook is not called again.
func (l *loop) hook(ctx context.Context, place string, call func(context.Context) (string, error)) (over bool, err error) {
	if call == nil {
		return false, nil
	}
	if err := l.ready(); err != nil {
		return true, notReadyError{err}
	}
	msgs := l.Journal.Transcript().Messages()
	n := len(msgs)
	for n > 0 && origin(msgs[n-1]) == record.OriginMemory { // it follows the note
		n--
	}
	if n > 0 && origin(msgs[n-1]) == OriginHook+place {
		return false, nil
	}
	began := time.Now()
	note, err := call(ctx)
	l.active += time.Since(began)
	if err != nil || ctx.Err() != nil {
		return true, err
	}
	if note == "" {
		return false, nil
	}
	common := message.Common{Origin: OriginHook + place, Labels: l.Journal.Labels(), Sources: l.Journal.Sources()}
	m := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: common, Text: note}}}
	if err := l.append(ctx, m); err != nil {
		return true, notReadyError{err}
	}
	return false, nil
}

// notReadyError is an error after which nothing can be recorded any more.
type notReadyError struct{ error }

func (u notReadyError) Unwrap() error { return u.error }

// refused ends a run at a hook: the hook refused, the run was stopped in between, or
// nothing can be recorded. wrote is what the model wrote. Nobody sees it, but its cost is
// recorded.
func (l *loop) refused(ctx context.Context, wrote *message.Message, err error) (Outcome, error) {
	if u := (notReadyError{}); errors.As(err, &u) {
		return Failure, u.error
	}
	if ctx.Err() != nil {
		return l.failed(ctx, nil, ctx.Err())
	}
	m := system("I stopped: "+err.Error(), message.StopBound)
	if wrote != nil {
		m.Model, m.Usage = wrote.Model, wrote.Usage
	}
	return l.finish(ctx, m, Bounded, err)
}
