package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/request"
)

// runCalls runs the calls of one assistant message in parallel. It appends their results
// in call order, each as soon as those before it are available. Calls beyond the limit per
// reply, of which one is kept (see bounded), get an error as their result. It returns done if the run must end, because it was
// stopped or repeats itself.
func (l *loop) runCalls(ctx context.Context, calls []message.Call) (done bool, err error) {
	if err := l.ready(); err != nil {
		return false, err
	}
	asked := signature(calls)
	switch n, before := l.repeats(asked); {
	case n >= stopAfter:
		return true, l.append(ctx, refusals(calls, message.Interrupted, "Not run: the turn was ended because it went in circles.")...)
	case n >= warnAfter:
		l.rounds = append(l.rounds, before)
		return false, l.append(ctx, refusals(calls, message.Interrupted,
			"Not run: you have made this call several times with the same result. Use the result that you have, try something else, or tell the user what stands in the way.")...)
	}
	all, half := l.reply(calls[0].Message)
	run, beyond := calls, []message.Call(nil)
	if most := l.Limits.Calls; len(all) > most { // after a crash some of them have results already
		n, _ := slices.BinarySearchFunc(calls, all[most].Block, func(c message.Call, block int) int { return c.Block - block })
		run, beyond = calls[:n], calls[n:]
	}
	r := &running{loop: l, slots: make([]slot, len(run)), labels: l.Journal.Labels(), half: half}
	began := time.Now()
	r.start(ctx, run)
	results, err := r.collect(ctx, run)
	if err == nil && len(beyond) > 0 {
		err = l.append(ctx, refusals(beyond, message.Failed, fmt.Sprintf("Not run: a reply may make at most %d calls. This one was not run, and those after it were left out. Make fewer at once.", l.Limits.Calls))...)
	}
	if err != nil {
		return false, err
	}
	if !r.waited {
		l.active += time.Since(began)
	}
	l.rounds = append(l.rounds, round{asked, results})
	return ctx.Err() != nil, nil
}

// running is the state of one round of calls while they run.
type running struct {
	loop   *loop
	labels message.Labels
	half   message.Ref // a call that was cut off by the length limit; zero: none
	slots  []slot
	mu     sync.Mutex // serializes emits
	waited bool       // a person was asked, so the time of the round does not count
	broken bool       // nothing of the round can be recorded any more
}

type slot struct {
	ctx   context.Context
	end   context.CancelCauseFunc
	done  chan struct{}
	res   *message.ToolResult
	err   error
	asked bool // a person is being asked about it
}

// start starts all calls. A single call runs synchronously.
func (r *running) start(ctx context.Context, calls []message.Call) {
	for i := range r.slots {
		s := &r.slots[i]
		s.done = make(chan struct{})
		s.ctx, s.end = context.WithCancelCause(ctx)
	}
	for i := range calls {
		s, c := &r.slots[i], calls[i]
		work := func() {
			defer close(s.done)
			defer s.end(nil)
			if c.Ref == r.half {
				s.res = statusResult(message.Failed, "Not run: your reply was cut off by its length limit inside this call. Make the call again, with shorter arguments.")
				return
			}
			if why, out := omittedArgs(c.Args); out {
				s.res = statusResult(message.Failed, "Not run: "+why)
				return
			}
			s.res, s.err = r.loop.Call(s.ctx, Call{Call: c, Labels: r.labels,
				Progress: func(p Progress) { r.progress(s, c, p) }})
			if s.err != nil {
				r.suspendWaiting()
			}
			r.answered(s, c)
		}
		if len(calls) == 1 {
			work()
		} else {
			go work()
		}
	}
}

// answered reports that a call no longer waits for a person. Its result may still have to
// wait for those before it.
func (r *running) answered(s *slot, c message.Call) {
	r.mu.Lock()
	asked := s.asked
	r.mu.Unlock()
	if asked {
		r.progress(s, c, Progress{Status: "running"})
	}
}

func (r *running) progress(s *slot, c message.Call, p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.asked = p.Approval != nil
	r.waited = r.waited || s.asked
	r.loop.Emit(Event{Kind: Calling, ID: c.Message, Call: c, Progress: p})
	if s.asked && r.broken {
		s.end(request.ErrSuspend)
	}
}

// suspendWaiting suspends the calls that wait for a person, now or later, in the same way as when
// Steward closes. No result of the round can be recorded, so the run ends, and whoever
// resumes it makes these calls again. Calls that are working run to their end.
func (r *running) suspendWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	for i := range r.slots {
		if s := &r.slots[i]; s.asked {
			s.end(request.ErrSuspend)
		}
	}
}

// collect appends the results as they arrive. It returns a digest of them once all calls
// have returned.
func (r *running) collect(ctx context.Context, calls []message.Call) (digest [32]byte, err error) {
	h := sha256.New()
	for i := 0; i < len(calls); {
		var msgs []*message.Message
		for ; i < len(calls) && (len(msgs) == 0 || r.ready(i)); i++ {
			s := &r.slots[i]
			<-s.done
			if s.err != nil {
				if err == nil || errors.Is(err, request.ErrSuspend) { // prefer the error that caused the others to be suspended
					err = s.err
				}
				continue
			}
			m := resultMessage(calls[i], s.res)
			h.Write([]byte(m.Text()))
			h.Write([]byte{0})
			msgs = append(msgs, m)
		}
		if err != nil { // keep waiting for the others; results that cannot be recorded are not emitted
			continue
		}
		if context.Cause(ctx) == request.ErrSuspend {
			err = request.ErrSuspend
			continue
		}
		r.mu.Lock()
		err = r.loop.append(ctx, msgs...)
		r.mu.Unlock()
		if err != nil {
			r.suspendWaiting()
		}
	}
	return [32]byte(h.Sum(nil)), err
}

// ready reports whether call i has returned.
func (r *running) ready(i int) bool {
	select {
	case <-r.slots[i].done:
		return true
	default:
		return false
	}
}

// resultMessage builds the tool message that answers a call.
func resultMessage(c message.Call, res *message.ToolResult) *message.Message {
	res.Call, res.CallID, res.Name = c.Ref, c.CallID, c.Name
	return &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}}
}

// refusals returns the results of calls that are not run.
func refusals(calls []message.Call, status message.Status, why string) []*message.Message {
	out := make([]*message.Message, len(calls))
	for i, c := range calls {
		out[i] = resultMessage(c, statusResult(status, why))
	}
	return out
}

// statusResult builds a result in Steward's own words.
func statusResult(status message.Status, why string) *message.ToolResult {
	common := message.Common{Origin: "system"}
	return &message.ToolResult{Common: common, Status: status, Content: []message.Block{&message.Text{Common: common, Text: why}}}
}

// reply returns all calls of a message, and the call in which the message was cut off by
// its length limit. The arguments of that call may be incomplete even if they look valid.
func (l *loop) reply(msg id.ID) (calls []message.Call, half message.Ref) {
	for _, m := range slices.Backward(l.Journal.Transcript().Messages()) {
		if m.ID != msg {
			continue
		}
		calls = m.Calls()
		if m.Stop == message.StopLength && len(calls) > 0 {
			if last := calls[len(calls)-1].Ref; last.Block == len(m.Blocks)-1 {
				half = last
			}
		}
		break
	}
	return calls, half
}

// round holds hashes of what the model asked for in a round, and of the results.
type round struct{ asked, results [32]byte }

// After warnAfter equal rounds (or repetitions of a longer cycle) the calls are not run
// again but answered with a warning. After stopAfter the run ends.
const (
	warnAfter = 3
	stopAfter = 5
	maxPeriod = 3 // the longest cycle that is detected, in rounds
)

// repeats returns how often the cycle that asked would continue has been completed
// already, each time with the same results. It also returns the last round that asked the
// same.
func (l *loop) repeats(asked [32]byte) (most int, before round) {
	for p := 1; p <= maxPeriod; p++ {
		n := len(l.rounds)
		if n < p || l.rounds[n-p].asked != asked {
			continue
		}
		same := p
		for same < n && l.rounds[n-1-same] == l.rounds[n-1-same+p] {
			same++
		}
		if same/p > most {
			most, before = same/p, l.rounds[n-p]
		}
	}
	return most, before
}

// signature returns a digest of a message's calls: of names and arguments, but not IDs.
func signature(calls []message.Call) [32]byte {
	h := sha256.New()
	for _, c := range calls {
		h.Write([]byte(c.Name))
		h.Write([]byte{0})
		h.Write(c.Args)
		h.Write([]byte{0})
	}
	return [32]byte(h.Sum(nil))
}
