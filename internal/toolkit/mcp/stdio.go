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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
)

// Bounds of what a server may send.
const (
	maxMessage  = 8 << 20  // bytes of one message
	maxJunk     = 1 << 20  // bytes between two messages that are none
	maxSkipped  = 64 << 20 // bytes of a message that is too large, and is skipped
	maxPending  = 64       // requests of the server that have no answer yet
	maxPace     = 5000     // messages or lines in a second; more have to wait
	discoverFor = 15 * time.Second
)

// Codes of answers that Steward itself puts in the place of the server's.
const (
	codeTooLarge = -32950
	codeGarbled  = -32951
)

var (
	errFlood     = errors.New("it wrote too much that is no message")
	errNoMessage = errors.New("it is no message")
)

// lines is a connection to a program: a JSON-RPC message per line. What is no
// message is skipped, one that is too large ends its own call only.
type lines struct {
	in    io.WriteCloser
	out   io.Reader
	log   *slog.Logger
	heard func()      // is told of every message
	ended func(error) // is told why there are no more, before anybody else learns that

	incoming chan event
	outgoing chan *outgoing
	closed   chan struct{}
	close    sync.Once
	done     sync.WaitGroup

	pending  chan struct{} // one for each request of the server that has no answer yet
	changing *atomic.Bool  // the SDK is about to tell that the tools have changed
	tokens   *progress

	mu    sync.Mutex
	timer *time.Timer
}

// outgoing is a message on its way to the program.
type outgoing struct {
	data []byte
	mark *mark
	err  chan error
}

// mark tells of a call whether its request has left.
type mark struct {
	mu     sync.Mutex
	sent   bool
	status int // HTTP: of the answer
}

type markKey struct{}

func (m *mark) leave() {
	if m != nil {
		m.mu.Lock()
		m.sent = true
		m.mu.Unlock()
	}
}

func (m *mark) answered(status int) {
	if m != nil {
		m.mu.Lock()
		m.status = status
		m.mu.Unlock()
	}
}

func (m *mark) get() (sent bool, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent, m.status
}

func markOf(ctx context.Context) *mark {
	m, _ := ctx.Value(markKey{}).(*mark)
	return m
}

func newLines(in io.WriteCloser, out io.Reader, log *slog.Logger, heard func(), ended func(error), changing *atomic.Bool, tokens *progress) *lines {
	c := &lines{in: in, out: out, log: log, heard: heard, ended: ended, changing: changing, tokens: tokens, pending: make(chan struct{}, maxPending),
		incoming: make(chan event), outgoing: make(chan *outgoing), closed: make(chan struct{})}
	c.done.Go(c.read)
	c.done.Go(c.write)
	return c
}

// Connect implements the SDK's Transport.
func (c *lines) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is that of HTTP only.
func (c *lines) SessionID() string { return "" }

// event is a message, or why there are no more.
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

// Write hands a message to the program. It returns when ctx is done, also
// when the program does not read.
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
			c.giveUpOn(m.ID)
		}
	}
	o := &outgoing{data: append(data, '\n'), mark: markOf(ctx), err: make(chan error, 1)}
	select {
	case c.outgoing <- o:
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-o.err:
		return err
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err() // it will have been written whole when the program reads again
	}
}

// giveUpOn answers a question that only newer servers know, for the ones that
// leave it without an answer.
func (c *lines) giveUpOn(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(discoverFor, func() {
		c.deliver(event{msg: &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}}})
	})
}

// Close closes the program's input; what it still writes is thrown away.
func (c *lines) Close() error {
	var err error
	c.close.Do(func() {
		close(c.closed)
		err = c.in.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil {
			c.timer.Stop()
		}
	})
	return err
}

// wait waits until nothing of it runs any more: the program's output has ended.
func (c *lines) wait() { c.done.Wait() }

func (c *lines) write() {
	for {
		select {
		case o := <-c.outgoing:
			o.mark.leave()
			_, err := c.in.Write(o.data)
			o.err <- err
		case <-c.closed:
			return
		}
	}
}

// deliver hands something to the SDK, unless the connection is closed.
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
	// What comes now is nobody's: it is read until the program has ended, as it
	// would wait else.
	_, _ = io.Copy(io.Discard, c.out)
}

// messages hands on messages until there are no more, and returns why.
func (c *lines) messages(r *bufio.Reader) error {
	var p pace
	junk := 0
	for {
		line, err := readLine(r)
		if big, ok := errors.AsType[*tooLarge](err); ok {
			c.log.Warn("an MCP server sent a message that is too large", "bytes", big.size)
			if id, err := jsonrpc.MakeID(big.id); err == nil && id.IsValid() {
				c.deliver(event{msg: &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: codeTooLarge, Message: tooLargeText}}})
			}
			continue
		} else if fault.HasCode(err, "output_too_large") {
			return fmt.Errorf("%w: %v", errFlood, err) // a limit of the declaration
		} else if err != nil {
			return err
		}
		if c.idle(line) {
			junk = 0
			c.heard()
			continue
		}
		m, err := messageOf(line)
		if err != nil {
			if junk += len(line) + 1; junk > maxJunk {
				return errFlood
			}
			if len(bytes.TrimSpace(line)) > 0 {
				c.log.Debug("an MCP server wrote a line that is no message", "line", clip(string(line), 200))
			}
			continue
		}
		junk = 0
		c.heard()
		if !p.wait(1, c.closed) {
			return io.EOF
		}
		if !c.wanted(m) {
			continue
		}
		if req, ok := m.(*jsonrpc.Request); ok && req.IsCall() {
			select { // who asks without reading the answers has to wait
			case c.pending <- struct{}{}:
			case <-c.closed:
				return io.EOF
			}
		}
		c.deliver(event{msg: m})
	}
}

// messageOf reads a message. What does not begin as one is not tried: it would
// take 16 KiB for each line, however short.
func messageOf(line []byte) (jsonrpc.Message, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		return nil, errNoMessage
	}
	return jsonrpc.DecodeMessage(line)
}

// idle reports whether a line is a notification that means nothing now. It
// tells the common ones by their beginning: reading them all would let a server
// keep Steward busy by talking.
func (c *lines) idle(line []byte) bool {
	head := line[:min(len(line), 96)]
	for _, method := range []string{"message", "tools/list_changed"} {
		at := bytes.Index(head, []byte(`"method":"notifications/`+method+`"`))
		if at > 0 && bytes.Count(head[:at], []byte("{")) == 1 {
			return method == "message" || c.changing.Load()
		}
	}
	return false
}

// wanted reports whether a message is for the SDK. Notifications that mean
// nothing here are dropped before they cost anything.
func (c *lines) wanted(m jsonrpc.Message) bool {
	req, ok := m.(*jsonrpc.Request)
	if !ok || req.IsCall() {
		return true
	}
	switch req.Method {
	case "notifications/tools/list_changed":
		return !c.changing.Swap(true) // one that nobody has looked at yet tells as much as a thousand
	case "notifications/progress":
		// Not by way of the SDK, which would let the answer overtake it.
		p := &sdk.ProgressNotificationParams{}
		if err := json.Unmarshal(req.Params, p); err == nil {
			c.tokens.tell(p)
		}
		return false
	case "notifications/cancelled", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated", "notifications/subscriptions/acknowledged":
		return true
	}
	return false
}

const tooLargeText = "the answer is larger than 8 MiB"

// tooLarge says that a line was skipped: the id of the response that it was,
// nil where it was none.
type tooLarge struct {
	id   any
	size int
}

func (e *tooLarge) Error() string { return "a message of " + strconv.Itoa(e.size) + " bytes" }

// readLine returns the next line without its end. Of one that is too large it
// keeps nothing but the id.
func readLine(r *bufio.Reader) ([]byte, error) {
	var parts [][]byte // put together at the end: a slice that grows takes several times its size
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		if size += len(part); size > maxMessage {
			return nil, skipLine(r, parts, part, err)
		}
		parts = append(parts, bytes.Clone(part)) // messages outlive the buffer
		switch {
		case err == nil:
			return bytes.TrimSuffix(joined(parts), []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if line := joined(parts); len(bytes.TrimSpace(line)) > 0 {
				return line, nil // the next call tells
			}
			return nil, err
		default:
			return nil, err
		}
	}
}

func joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	return bytes.Join(parts, nil)
}

// skipLine reads a line on to its end.
func skipLine(r *bufio.Reader, parts [][]byte, part []byte, err error) error {
	var top outline
	for i, p := range parts {
		top.feed(p)
		parts[i] = nil
	}
	for size := 0; ; {
		top.feed(part)
		size += len(part)
		switch {
		case size > maxSkipped:
			return errFlood
		case err == nil:
			return &tooLarge{top.response(), size}
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		part, err = r.ReadSlice('\n')
	}
}

// outline follows a JSON object and remembers what stands in it as "id",
// and whether it has a "method".
type outline struct {
	depth          int
	quoted, escape bool
	value          bool // between a member's name and the comma
	word, id       []byte
	key            string
	method         bool
}

func (o *outline) feed(b []byte) {
	for _, c := range b {
		if o.quoted {
			o.inString(c)
			continue
		}
		switch c {
		case '"':
			o.quoted, o.word = true, o.word[:0]
		case '{', '[':
			o.depth++
		case '}', ']':
			o.depth--
		case ':':
			o.value = o.value || o.depth == 1
		case ',':
			o.value = o.value && o.depth != 1
		default:
			if o.depth == 1 && o.value && o.key == "id" && c >= '0' && c <= '9' && len(o.id) < 18 {
				o.id = append(o.id, c)
			}
		}
	}
}

func (o *outline) inString(c byte) {
	switch {
	case o.escape:
		o.escape = false
	case c == '\\':
		o.escape = true
	case c == '"':
		o.quoted = false
		if o.depth == 1 && !o.value {
			o.key = string(o.word)
			o.method = o.method || o.key == "method"
		}
	case o.depth == 1 && len(o.word) < 16:
		o.word = append(o.word, c)
	}
}

// response returns the id of the response that was followed, nil if it was none.
func (o *outline) response() any {
	n, err := strconv.ParseInt(string(o.id), 10, 64)
	if err != nil || o.method {
		return nil
	}
	return float64(n)
}

// pace lets so many things through in a second and has the others wait.
type pace struct {
	n     int
	since time.Time
}

// wait takes n; it reports false when it was stopped.
func (p *pace) wait(n int, stop <-chan struct{}) bool {
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

// clip shortens a text at a rune's boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
