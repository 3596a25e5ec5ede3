package websocket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// conn is one connection. It has a reader (the handler's own goroutine), a writer, which alone
// sends frames, a goroutine that pings, one that rechecks the caller's access, and those of its
// talks.
type conn struct {
	server *Server
	caller auth.Caller
	log    *slog.Logger
	ctx    context.Context // for everything that the connection starts
	cancel context.CancelCauseFunc
	buffer *writeBuffer
	out    chan item
	work   sync.WaitGroup

	ready sync.Mutex // guards ws until the handshake is complete
	ws    *websocket.Conn

	mu            sync.Mutex
	conversations map[id.ID]*liveConversation
	uses          uint64 // counts the uses of talks, to find the least recently used
	observing     feeds  // changes
	subscribed    feeds  // events

	room func() // gives back the room of the frame that is being handled; only the reader uses it

	pending atomic.Int32 // messages that wait for their turn, and unanswered frames about agents

	asking   atomic.Bool // the client receives the approvals that wait for the caller
	reminded atomic.Bool // the client receives the caller's reminders
}

// item is a frame for the client: a frame of the runtime, or one that is already encoded.
type item struct {
	frame turn.Frame
	raw   []byte
}

func (c *conn) open(ws *websocket.Conn) {
	ws.SetReadLimit(-1) // receive enforces the limit, and survives frames that are too large
	c.ready.Lock()
	c.ws = ws
	c.ready.Unlock()
}

// close ends the connection with a code, once the handshake is complete.
func (c *conn) close(code websocket.StatusCode, reason string) {
	c.ready.Lock()
	ws := c.ws
	c.ready.Unlock()
	if ws == nil { // not upgraded yet
		c.cancel(nil)
		return
	}
	ws.Close(code, reason) // the peer may be gone, so the error does not matter
}

// drop ends the connection without a close frame.
func (c *conn) drop() {
	c.cancel(nil)
	c.ready.Lock()
	defer c.ready.Unlock()
	if c.ws != nil {
		c.ws.CloseNow()
	}
}

func (c *conn) serve() {
	c.work.Go(c.write)
	c.work.Go(c.pinging)
	c.work.Go(c.recheckCaller)
	if c.server.o.Agents != nil && c.server.agents().Decides(c.ctx, c.caller) {
		c.work.Go(c.sendWaiting)
	}
	err := c.read()
	c.cancel(err)
	c.work.Wait()
	c.ws.CloseNow()
	if code := websocket.CloseStatus(err); code == -1 {
		c.log.Debug("connection ended", "error", err)
	}
}

// read handles the client's frames until the connection ends.
func (c *conn) read() error {
	var buf bytes.Buffer
	for {
		typ, r, err := c.ws.Reader(c.ctx)
		if err != nil {
			return err
		}
		err = c.receive(&buf, r)
		if e := fault.Of(err); err != nil && e.Kind != fault.TooLarge && e.Kind != fault.RateLimited {
			return err
		}
		if err == nil && typ != websocket.MessageText {
			err = fault.New(fault.Invalid, "binary_frame", "binary frames are not supported").WithHint("send JSON in text frames")
		}
		if again := c.caller.Recheck(c.ctx); again != nil {
			return c.refuse(again)
		}
		if err != nil {
			c.sendRaw(c.ctx, errorFrame(err, "", id.ID{}))
		} else {
			c.handle(buf.Bytes())
		}
		c.takeRoom()()
		if buf.Cap() > maxHeld {
			buf = bytes.Buffer{}
		}
	}
}

// receive reads one frame. It reads a frame that is too large to its end without keeping it, up to
// a limit beyond which it ends the connection.
func (c *conn) receive(buf *bytes.Buffer, r io.Reader) error {
	buf.Reset()
	most := c.caller.BodyLimit(c.server.o.MaxMessage)
	n, room, err := c.caller.ReadFrame(c.ctx, buf, r, most)
	if err == nil && n <= most {
		c.room = room
		return nil
	}
	room()
	if err != nil && n <= most && !fault.Is(err, fault.RateLimited) {
		return err
	}
	refused := err
	*buf = bytes.Buffer{}
	const times = 8
	if _, err := io.CopyN(io.Discard, r, most*(times-1)); !errors.Is(err, io.EOF) {
		if err == nil {
			c.ws.Close(websocket.StatusMessageTooBig, "the frame is too large")
			err = websocket.ErrMessageTooBig
		}
		return err
	}
	return cmp.Or(refused, auth.TooLarge(most))
}

// takeRoom returns what gives back the room of the frame that is being handled. It must be called once.
func (c *conn) takeRoom() func() {
	room := c.room
	c.room = nil
	if room == nil {
		return func() {}
	}
	return room
}

// refuse ends the connection of a caller who has lost access.
func (c *conn) refuse(err error) error {
	if fault.Is(err, fault.Unauthentic) {
		c.ws.Close(CloseRevoked, fault.Of(err).Code)
	} else {
		c.ws.Close(websocket.StatusInternalError, fault.Of(err).Code)
	}
	return err
}

// recheckEvery is how often access is rechecked while the client only listens. A connection outlives its
// access at most by this time.
const recheckEvery = time.Second

// recheckCaller rechecks whether the caller's key was revoked or roles have changed, even while a ping
// waits for its answer. A check that fails temporarily is repeated.
func (c *conn) recheckCaller() {
	tick := time.NewTicker(min(recheckEvery, c.server.o.PingEvery))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		if err := c.caller.Recheck(c.ctx); fault.Is(err, fault.Unauthentic) || fault.Is(err, fault.Denied) {
			c.refuse(err)
			return
		}
	}
}

// pinging keeps proxies from closing a connection that is silent during a long turn, and detects
// dead connections.
func (c *conn) pinging() {
	tick := time.NewTicker(c.server.o.PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.server.o.PingEvery+3*c.server.o.WriteTimeout)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			c.ws.CloseNow() // the reader notices it
			return
		}
	}
}

// enqueue hands an item to the writer and waits for room in the queue. It returns false if the
// connection, or ctx, ends first.
func (c *conn) enqueue(ctx context.Context, it item) bool {
	select {
	case c.out <- it:
		return true
	case <-ctx.Done():
		return false
	case <-c.ctx.Done():
		return false
	}
}

func (c *conn) sendRaw(ctx context.Context, raw []byte) bool { return c.enqueue(ctx, item{raw: raw}) }

// write sends the queued items. It disconnects a client that blocks a write for longer than the
// patience; the client can reconnect and resume from its last cursor.
func (c *conn) write() {
	defer c.cancel(nil) // otherwise senders that wait for room would wait forever
	var buf []byte
	var it item
	for more := false; ; {
		if !more {
			select {
			case it = <-c.out:
			case <-c.ctx.Done():
				return
			}
		}
		var slow bool
		var err error
		if it, more, slow, err = c.batch(&buf, it); err != nil {
			c.ws.CloseNow()
			return
		}
		if slow {
			c.log.Info("slow client disconnected")
			c.ws.Close(CloseSlow, "too slow; resume from the last cursor")
			return
		}
	}
}

// batch sends an item and those queued behind it, in one write if they are small. If there are too
// many for one batch, it returns the first one that it did not send.
func (c *conn) batch(buf *[]byte, it item) (rest item, more, slow bool, err error) {
	c.buffer.hold()
	for range maxBatch {
		var next item
		next, more = c.join(&it)
		if it.raw == nil {
			it.raw = appendFrame((*buf)[:0], &it.frame)
			if cap(it.raw) <= maxKept {
				*buf = it.raw
			}
		}
		if hide := c.server.o.Mask; hide != nil {
			it.raw = hide(it.raw)
		}
		// The write is bounded by the buffer's timeout, not by a context.
		if err := c.ws.Write(context.Background(), websocket.MessageText, it.raw); err != nil {
			return item{}, false, false, err
		}
		it = next
		if !more {
			break
		}
	}
	slow, err = c.buffer.flush()
	return it, more, slow, err
}

// join merges queued items into the frame if they are further pieces of the same text. It returns
// the first item that it cannot merge.
func (c *conn) join(it *item) (next item, more bool) {
	for {
		select {
		case next = <-c.out:
		default:
			return item{}, false
		}
		if !joins(it, &next) {
			return next, true
		}
		it.frame.Text += next.frame.Text
		it.frame.Cursor = next.frame.Cursor
	}
}

func joins(a, b *item) bool {
	f, g := &a.frame, &b.frame
	return a.raw == nil && b.raw == nil && f.Kind == g.Kind &&
		(f.Kind == turn.FrameToken || f.Kind == turn.FrameReasoning) &&
		f.Conversation == g.Conversation && f.Message == g.Message && f.Block == g.Block &&
		len(f.Text) < maxKept
}
