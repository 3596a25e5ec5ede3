package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// Limits on what a program may write, and on how long to wait for it.
const (
	maxNoise    = 1 << 20         // bytes that are not messages, between two that are
	maxBetween  = 64 << 20        // bytes between two answers
	maxStatuses = 100_000         // status messages between two answers
	maxNotes    = 3               // oddities reported in an error
	grace       = 5 * time.Second // to end by itself, after the answer or the end of its output
)

// session is a running program and the calls that wait for its answers.
type session struct {
	env     tool.Env
	proc    *sandbox.Process
	secrets []string
	release func()
	serves  bool

	began time.Time
	input *sandbox.Sender
	done  chan struct{} // closed when no process of the program runs any more

	mu      sync.Mutex
	calls   map[string]*call
	notes   []string // oddities in the program's output
	answers int
	used    bool // it has been called
	// suspected: a call was given up, and the program has written nothing since.
	suspected bool
	why       error // why we ended it
	closing   bool  // no more calls
	err       error // set before done is closed: why there is no answer
}

// call is a waiting call.
type call struct {
	in     tool.Invocation
	answer chan request.Envelope // holds one
}

// run reads the program's output until the program has ended, and cleans up.
func (x *session) run() {
	defer close(x.done)
	defer x.release()
	rerr := x.read()
	x.mu.Lock()
	x.closing = true
	x.mu.Unlock()
	impatient := time.AfterFunc(grace, x.proc.Kill) // its output has ended
	werr := x.proc.Wait()
	impatient.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = masked(open(x.reason(rerr, werr)), x.secrets)
}

// read distributes the program's output, line by line.
func (x *session) read() error {
	r := bufio.NewReaderSize(x.proc.Stdout, 64<<10)
	noise, between, statuses := 0, 0, 0
	for {
		line, err := readLine(r)
		if err != nil && err != io.EOF {
			return err
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			between += len(line)
			switch x.handle(text, err != nil) {
			case request.TypeStatus:
				noise = 0
				statuses++
			case "":
				noise += len(line)
			default:
				noise, between, statuses = 0, 0, 0
			}
		}
		if noise > maxNoise || between > maxBetween || statuses > maxStatuses {
			x.end(fault.New(fault.TooLarge, "process_noise", "the program wrote too much output that is not an answer%s", x.describeOddities()).
				WithHint("write everything else to stderr"))
			return nil
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine returns a line, including an unfinished last one. The sandbox limits its length.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// handle processes one line, the last of which may be unfinished. It returns the message's type
// if the message was for a call. Other lines are noted, and it returns nothing.
func (x *session) handle(line []byte, last bool) string {
	e, err := request.ParseEnvelope(line)
	x.mu.Lock()
	c := x.calls[e.RequestID]
	switch {
	case err != nil && last:
		x.note("its last message is cut off: %.80q", line)
		c = nil
	case err != nil:
		x.note("%.80q (%s)", line, fault.Of(err).Message)
		c = nil
	case e.Type == request.TypeRequest:
		x.note("a request for %.40q, which Steward does not support", e.Action)
		c = nil
	case c == nil:
		x.note("a %s for the request %.60q, which is unknown or already answered", e.Type, e.RequestID)
	case e.Type != request.TypeStatus:
		x.suspected = false
		x.answers++
		delete(x.calls, e.RequestID)
	default:
		x.suspected = false
		if e.Status == request.StatusError && e.Message != "" {
			x.note("%.200s", e.Message)
		}
	}
	x.mu.Unlock()
	switch {
	case c == nil:
		return ""
	case e.Type == request.TypeStatus:
		p := progress(e)
		p.Message = sandbox.Mask(p.Message, x.secrets)
		c.in.Report(p)
	default:
		c.answer <- e
	}
	return e.Type
}

func progress(e request.Envelope) tool.Progress {
	p := tool.Progress{Message: e.Message, Fraction: e.Progress}
	if p.Fraction == 0 {
		p.Fraction = -1
	}
	if p.Message == "" {
		p.Message = e.Status
	}
	return p
}

// note records an oddity for a later error. Called under mu.
func (x *session) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	x.env.Log.Debug("a program wrote something that is not an answer", "what", sandbox.Mask(text, x.secrets))
	if len(x.notes) < maxNotes {
		x.notes = append(x.notes, text)
	}
}

// describeOddities returns the recorded oddities.
func (x *session) describeOddities() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.quotedNotes()
}

func (x *session) quotedNotes() string {
	if len(x.notes) == 0 {
		return ""
	}
	return "; what it wrote instead: " + strings.Join(x.notes, "; ")
}

// end ends the program for a reason.
func (x *session) end(why error) {
	x.mu.Lock()
	if x.why == nil {
		x.why = why
	}
	x.closing = true
	x.mu.Unlock()
	x.proc.Kill()
}

// reason returns the error for calls that have no answer when the program has ended. Called under
// mu.
func (x *session) reason(rerr, werr error) error {
	f := fault.Of(werr)
	switch {
	case x.why != nil:
		return x.why
	case rerr != nil && fault.HasCode(rerr, "output_too_large"):
		return rerr
	case f == nil:
		return fault.New(fault.Unavailable, "process_failed", "the program ended without an answer%s%s", x.quotedNotes(), x.proc.StderrSuffix(x.secrets)).
			WithHint("the program must write one line of JSON: type result, the request_id of the request, and a status")
	case f.Code == "program_failed":
		how, _, _ := strings.Cut(f.Message, "; it said: ")
		return fault.New(fault.Unavailable, "process_failed", "%s without an answer%s%s", how, x.quotedNotes(), x.proc.StderrSuffix(x.secrets))
	case f.Code == "program_killed": // we killed it after waiting too long
		return fault.New(fault.Unavailable, "process_failed", "the program closed its output without an answer%s%s", x.quotedNotes(), x.proc.StderrSuffix(x.secrets))
	}
	return werr
}

// open makes an error uncertain about whether an action was done, because the program had received
// the request before it ended. Only a program that could not be executed has certainly done nothing.
func open(err error) error {
	f := *fault.Of(err)
	if f.Code != "program_not_executable" && tool.CertainlyNotDone(err) {
		f.Kind = fault.Unavailable
	}
	return &f
}

// ask makes one call.
func (x *session) ask(ctx context.Context, spec tool.Spec, in tool.Invocation) (tool.Result, error) {
	token, release, err := "", func() {}, error(nil)
	if x.serves {
		token, release, err = sandbox.Token(ctx, x.env)
	}
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	defer release()
	e := envelopeOf(spec, in, token)
	line, err := e.Encode()
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	c := &call{in: in, answer: make(chan request.Envelope, 1)}
	x.mu.Lock()
	x.used = true
	if x.closing {
		why := x.why
		x.mu.Unlock()
		if why != nil {
			return tool.Result{}, tool.NotDone(why)
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return tool.Result{}, tool.NotDone(ended(ctx))
		}
		if fault.HasCode(x.err, "program_not_executable") { // it ended before it could be asked
			return tool.Result{}, tool.NotDone(x.err)
		}
		return tool.Result{}, tool.NotDone(fault.New(fault.Unavailable, "process_failed", "the program has just ended").
			Retrying(fault.RetryImmediate, 0))
	}
	x.calls[e.RequestID] = c
	x.mu.Unlock()
	if err := x.send(ctx, line); err != nil {
		x.drop(e)
		return tool.Result{}, tool.NotDone(err)
	}
	select {
	case a := <-c.answer:
		return x.result(a, token)
	case <-x.done:
	case <-ctx.Done():
		if x.serves {
			x.drop(e)
			x.checkHanging()
			return tool.Result{}, ended(ctx)
		}
		<-x.done
	}
	select {
	case a := <-c.answer: // an answer just before its end
		if ctx.Err() == nil {
			return x.result(a, token)
		}
	default:
	}
	if ctx.Err() != nil {
		return tool.Result{}, ended(ctx)
	}
	return tool.Result{}, x.err
}

// envelopeOf makes the request of a call.
func envelopeOf(spec tool.Spec, in tool.Invocation, token string) request.Envelope {
	_, action, _ := strings.Cut(spec.Name, ".")
	e := request.Envelope{Type: request.TypeRequest, RequestID: id.New().String(), Timestamp: time.Now().UTC(),
		Sender: "steward", Target: spec.Origin, Trace: in.Trace, Action: action, Parameters: in.Args}
	if !in.Request.Zero() {
		e.ParentID = in.Request.String()
	}
	if in.Agent != "" {
		e.Sender = "agent:" + in.Agent
	}
	if len(e.Parameters) == 0 {
		e.Parameters = []byte("{}")
	}
	e.Metadata = metadata(in, token)
	return e
}

// send writes a request. In mode once it closes the input afterwards. A program may
// answer even if it does not read the request.
func (x *session) send(ctx context.Context, line []byte) error {
	written, err := x.input.Send(ctx, line)
	switch {
	case err != nil && ctx.Err() != nil:
		return ended(ctx)
	case err != nil:
		return err
	}
	if !x.serves {
		go func() {
			<-written // a program that has ended cannot read; its end reports that
			x.input.Close()
		}()
	}
	return nil
}

// drop gives up a call; later answers to it are ignored.
func (x *session) drop(e request.Envelope) {
	x.mu.Lock()
	delete(x.calls, e.RequestID)
	x.mu.Unlock()
}

// endAfterAnswer ends a program that has answered, unless it soon ends by itself.
func (x *session) endAfterAnswer() {
	select {
	case <-x.done:
		return
	default:
	}
	timer := time.AfterFunc(grace, x.proc.Kill)
	go func() {
		<-x.done
		timer.Stop()
	}()
}

// result converts an answer into the tool's result.
func (x *session) result(e request.Envelope, token string) (tool.Result, error) {
	secrets := append(slices.Clone(x.secrets), token)
	if f := e.Fault(); f != nil {
		return tool.Result{}, masked(f, secrets)
	}
	res := resultOf(e)
	for _, b := range res.Content {
		if t, ok := b.(*message.Text); ok {
			t.Text = sandbox.Mask(t.Text, secrets)
		}
	}
	return res, nil
}
