package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// optimizerTimeout is how long an optimizer may take.
const optimizerTimeout = 100 * time.Millisecond

// askOptimizer calls a tool's optimizer with earlier results, and returns those that the
// optimizer declares obsolete, with its reasons. Errors go to OnRefused.
func (t *Tracker) askOptimizer(ctx context.Context, o tool.Optimizer, call *entry, targets []string) (hit []*entry, reasons []string) {
	shown := t.recentResults(call.tool, targets)
	if o == nil || len(shown) == 0 {
		return nil, nil
	}
	earlier := make([]tool.PastCall, len(shown))
	byRef := make(map[message.Ref]*entry, len(shown))
	for i, e := range shown {
		earlier[i] = e.pastCall()
		byRef[e.ref] = e
	}
	said, err := t.protected(ctx, o, call, earlier)
	if err != nil {
		t.refused(fault.New(fault.Internal, "tidy_failed", "the tool %s failed to report obsolete results: %w", call.tool, err).
			Detail("tool", call.tool))
		return nil, nil
	}
	var strange []string
	for _, x := range said {
		e := byRef[x.Ref]
		if e == nil {
			strange = append(strange, x.Ref.String())
			continue
		}
		if !slices.Contains(hit, e) {
			hit, reasons = append(hit, e), append(reasons, x.Reason)
		}
	}
	if len(strange) > 0 {
		t.refused(fault.New(fault.Denied, "tidy_refused", "the tool %s reported results as obsolete that it was not given: %s",
			call.tool, oneLine(strings.Join(strange, ", "), maxReason)).Detail("tool", call.tool))
	}
	return hit, reasons
}

func (t *Tracker) refused(err error) {
	if t.OnRefused != nil {
		t.OnRefused(err)
	}
}

// recentResults returns the newest results of a tool and its targets, oldest first.
func (t *Tracker) recentResults(name string, targets []string) []*entry {
	var out []*entry
	for _, n := range union([]string{name}, targets) {
		list := t.index[indexKey{tool: n}]
		out = append(out, list[max(0, len(list)-tool.MaxShown):]...)
	}
	out = slices.DeleteFunc(out, func(e *entry) bool { return e.result == nil })
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	return out[max(0, len(out)-tool.MaxShown):]
}

func (e *entry) pastCall() tool.PastCall {
	return tool.PastCall{Ref: e.ref, Name: e.tool, Args: e.args, At: e.at, Result: e.result}
}

// protected calls an optimizer in a goroutine of its own, so that neither a panic
// nor a hang reaches the caller. An optimizer that hangs is not called again
// until it has returned.
func (t *Tracker) protected(ctx context.Context, o tool.Optimizer, call *entry, earlier []tool.PastCall) ([]tool.Obsolete, error) {
	if before := t.runningOptimizers[call.tool]; before != nil {
		select {
		case <-before:
			delete(t.runningOptimizers, call.tool)
		default:
			return nil, errors.New("an earlier call still hangs")
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, optimizerTimeout, fmt.Errorf("it took longer than %s", optimizerTimeout))
	defer cancel()
	var said []tool.Obsolete
	err := errors.New("it ended its goroutine")
	done := make(chan struct{})
	past := call.pastCall()
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("it panicked: %v", p)
			}
		}()
		said, err = o.Obsolete(ctx, past, earlier)
	}()
	select {
	case <-done:
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return said, err
	case <-ctx.Done():
		t.runningOptimizers[call.tool] = done
		return nil, context.Cause(ctx)
	}
}
