package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// Limits on what a server may send.
const (
	maxMessage  = 8 << 20 // bytes of one message
	maxJunk     = 1 << 20 // bytes between two messages that are not messages
	maxPending  = 64      // requests of the server that have no answer yet
	maxPace     = 5000    // messages or lines per second; further ones wait
	discoverFor = 15 * time.Second
)

// Codes of the errors that Steward itself returns in place of the server's.
const (
	codeTooLarge = -32950
	codeGarbled  = -32951
)

var (
	errFlood     = fault.New(fault.Unavailable, "mcp_server_floods", "it wrote too much output that is not a message")
	errTooLarge  = fault.New(fault.Unavailable, "mcp_server_floods", "it sent a message of more than 8 MiB").WithHint("ask for less at once")
	errNoMessage = errors.New("it is not a message")
)

// lines is a connection to a program: one JSON-RPC message per line. Lines that are not messages
// are skipped. The SDK's own connection would end at such a line (see
// docs/decisions/dependencies.md).
type lines struct {
	in       *sandbox.Sender
	out      io.Reader
	log      *slog.Logger
	received func()      // called for every message
	ended    func(error) // called first when there are no more messages, with the reason

	incoming chan event
	closed   chan struct{}
	close    sync.Once
	done     sync.WaitGroup // until the program's output has ended

	pending chan struct{} // one element for each request of the server that has no answer yet
	changed func()        // called when the tools may have changed
	tokens  *progress
}

// mark records whether a call's request has been sent, and over HTTP the status of the response.
type mark struct {
	sent   atomic.Bool
	status atomic.Int32
	denied atomic.Pointer[error] // the server wants a sign-in
}

type markKey struct{}

// markOf returns the mark of a call's context, or an unused one if there is none.
func markOf(ctx context.Context) *mark {
	if m, ok := ctx.Value(markKey{}).(*mark); ok {
		return m
	}
	return new(mark)
}

func newLines(in io.WriteCloser, out io.Reader, log *slog.Logger, received func(), ended func(error), changed func(), tokens *progress) *lines {
	c := &lines{in: sandbox.NewSender(in), out: out, log: log, received: received, ended: ended, changed: changed, tokens: tokens,
		pending: make(chan struct{}, maxPending), incoming: make(chan event), closed: make(chan struct{})}
	c.done.Go(c.read)
	return c
}

// Connect implements the SDK's Transport.
func (c *lines) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements the SDK's Connection. Only HTTP has session ids.
func (c *lines) SessionID() string { return "" }

// event is a message, or the reason why there are no more.
type event struct {
	msg jsonrpc.Message
	err error
}

// Read returns the next message.
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case e := <-c.incoming:
		return e.msg, e.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write hands a message to the program. It returns when ctx is done, even if the program does not
// read.
func (c *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		defer func() { <-c.pending }()
	case *jsonrpc.Request:
		if m.Method == "server/discover" {
			c.answerUnsupported(m.ID)
		}
	}
	written, err := c.in.Send(ctx, append(data, '\n'))
	if err != nil {
		return err
	}
	markOf(ctx).sent.Store(true)
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err() // the message will be written whole when the program reads again
	}
}

// answerUnsupported answers a request that only newer servers know, because some servers leave it
// unanswered. A second answer is ignored.
func (c *lines) answerUnsupported(id jsonrpc.ID) {
	time.AfterFunc(discoverFor, func() {
		c.deliver(event{msg: &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}}})
	})
}

// Close closes the program's input; further output of the program is discarded.
func (c *lines) Close() error {
	c.close.Do(func() { close(c.closed) })
	_ = c.in.Close() // again is harmless
	return nil
}

// deliver hands an event to the SDK, unless the connection is closed.
func (c *lines) deliver(e event) {
	select {
	case c.incoming <- e:
	case <-c.closed:
	}
}

func (c *lines) read() {
	err := c.messages(bufio.NewReaderSize(c.out, 64<<10))
	c.ended(err)
	c.deliver(event{err: err})
	// The remaining output is read and discarded until the program has ended, because the program
	// would block otherwise.
	_, _ = io.Copy(io.Discard, c.out)
}

// messages passes on messages until there are no more, and returns the reason.
func (c *lines) messages(r *bufio.Reader) error {
	var p rateLimiter
	junk := 0
	for {
		line, err := readLine(r)
		if fault.HasCode(err, "output_too_large") {
			return fmt.Errorf("%w: %v", errFlood, err) // a limit of the declaration was exceeded
		} else if err != nil {
			return err
		}
		if c.idle(line) {
			junk = 0
			c.received()
			continue
		}
		m, err := messageOf(line)
		if err != nil {
			if junk += len(line) + 1; junk > maxJunk {
				return errFlood
			}
			if len(bytes.TrimSpace(line)) > 0 {
				c.log.Debug("an MCP server wrote a line that is not a message", "line", tool.Clip(string(line), 200))
			}
			continue
		}
		junk = 0
		c.received()
		if !p.wait(1, c.closed) {
			return io.EOF
		}
		if !c.wanted(m) {
			continue
		}
		if req, ok := m.(*jsonrpc.Request); ok && req.IsCall() {
			select { // a server that sends requests without reading the answers has to wait
			case c.pending <- struct{}{}:
			case <-c.closed:
				return io.EOF
			}
		}
		c.deliver(event{msg: m})
	}
}

// messageOf reads a message. A line that does not begin like one is not parsed: that would take
// 16 KiB for each line, however short.
func messageOf(line []byte) (jsonrpc.Message, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		return nil, errNoMessage
	}
	m, err := jsonrpc.DecodeMessage(valid(line))
	if err == nil {
		lenient(m)
	}
	return m, err
}

// idle reports whether a line is a notification that needs no further parsing. It recognises the
// common ones by their beginning: if all were parsed, a chatty server could keep Steward busy.
func (c *lines) idle(line []byte) bool {
	head := line[:min(len(line), 96)]
	for _, method := range []string{"message", "tools/list_changed"} {
		at := bytes.Index(head, []byte(`"method":"notifications/`+method+`"`))
		if at > 0 && bytes.Count(head[:at], []byte("{")) == 1 {
			if method == "tools/list_changed" {
				c.changed()
			}
			return true
		}
	}
	return false
}

// wanted reports whether a message is for the SDK. Notifications that mean nothing here are
// dropped before they cost anything.
func (c *lines) wanted(m jsonrpc.Message) bool {
	req, ok := m.(*jsonrpc.Request)
	if !ok || req.IsCall() {
		return true
	}
	switch req.Method {
	case "notifications/tools/list_changed":
		c.changed()
	case "notifications/progress":
		// This bypasses the SDK, which would let the answer overtake the progress.
		p := &sdk.ProgressNotificationParams{}
		if err := json.Unmarshal(req.Params, p); err == nil {
			c.tokens.report(p)
		}
		return false
	case "notifications/cancelled", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated", "notifications/subscriptions/acknowledged":
		return true
	}
	return false
}

const tooLargeText = "the answer is larger than 8 MiB"

// readLine returns the next line without its end. A line that is too long is an error, and the
// rest of it is not read.
func readLine(r *bufio.Reader) ([]byte, error) {
	var parts [][]byte // joined at the end: a growing slice takes several times its size
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		if size += len(part); size > maxMessage {
			return nil, errTooLarge
		}
		parts = append(parts, bytes.Clone(part)) // messages outlive the buffer
		switch {
		case err == nil:
			return bytes.TrimSuffix(bytes.Join(parts, nil), []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(bytes.Join(parts, nil))) > 0:
			return bytes.Join(parts, nil), nil // the next call returns the error
		default:
			return nil, err
		}
	}
}

// rateLimiter limits the number of events per second by making the others wait.
type rateLimiter struct {
	n     int
	since time.Time
}

// wait waits for n events. It returns false if it was stopped.
func (p *rateLimiter) wait(n int, stop <-chan struct{}) bool {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.n, p.since = 0, now
	}
	if p.n += n; p.n <= maxPace {
		return true
	}
	select {
	case <-time.After(time.Until(p.since.Add(time.Second))):
		return true
	case <-stop:
		return false
	}
}
