package cluster

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

var (
	errLost  = errors.New("the connection to the other node broke: it does not answer any more")
	errGap   = errors.New("the connection to the other node broke: the NATS servers have lost a part of it")
	errReset = errors.New("the connection was closed by the other node")
	errFull  = errors.New("the connection broke: too much waits to be read on this node")
)

// conn is a connection to another node. Safe for concurrent use.
type conn struct {
	c        *Cluster
	id, node string
	accepted bool

	sending sync.Mutex // held while a Write or CloseWrite goes on

	mu   sync.Mutex
	some *sync.Cond // something has changed
	to   string     // subject of the other side; empty until connected
	err  error      // why the connection is over
	shut bool       // Close was called

	// What this side receives.
	frames   [][]byte // that wait to be read; the first one is partly read
	waiting  int      // bytes in frames
	received uint64   // number of the last frame
	read     uint64   // bytes that were read
	granted  uint64   // bytes that the other side knows to be read
	ended    bool     // the other side sends no more
	closed   bool     // and reads no more
	heard    time.Time

	// What this side sends.
	sent       uint64 // number of the last frame
	sentBytes  uint64
	takenBytes uint64 // that the other side has read
	finished   bool   // CloseWrite was called
	probed     uint64 // number of the last frame when it was last confirmed
	lastFrame  time.Time
	lastProbe  time.Time

	readBy, writeBy deadline
}

func newConn(c *Cluster, id, node string, accepted bool) *conn {
	now := time.Now()
	t := &conn{c: c, id: id, node: node, accepted: accepted, heard: now, lastProbe: now}
	t.some = sync.NewCond(&t.mu)
	return t
}

// open begins to send.
func (t *conn) open(to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = to
	t.some.Broadcast()
}

// end ends the connection for a reason. tell: the other side does not know yet.
func (t *conn) end(err error, tell bool) {
	t.mu.Lock()
	first := t.err == nil
	if first {
		t.err = err
		t.readBy.stop()
		t.writeBy.stop()
		if !errors.Is(err, errReset) { // what came before a reset can be read
			t.discard()
		}
		t.some.Broadcast()
	}
	to := t.to
	t.mu.Unlock()
	if !first {
		return
	}
	t.c.tunnels.remove(t)
	if tell && to != "" {
		_ = t.c.nc.Publish(to, head(frameReset, 0))
	}
}

// discard forgets what waits to be read. t.mu is locked.
func (t *conn) discard() {
	t.c.tunnels.keep(-t.waiting)
	t.frames, t.waiting = nil, 0
}

// receive takes a frame from the other side.
func (t *conn) receive(kind byte, n uint64, data []byte) {
	if err := t.accept(kind, n, data); err != nil {
		t.end(err, !errors.Is(err, errReset))
	}
}

func (t *conn) accept(kind byte, n uint64, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return nil
	}
	t.heard = time.Now()
	switch kind {
	case frameData:
		if n != t.received+1 || t.ended {
			return errGap
		}
		t.received = n
		return t.store(data)
	case frameEnd, frameClose:
		if n != t.received+1 {
			return errGap
		}
		t.received, t.ended, t.closed = n, true, kind == frameClose
	case frameCredit:
		t.takenBytes = max(t.takenBytes, min(n, t.sentBytes))
	case frameProbe:
		if n != t.received {
			return errGap
		}
		if len(data) >= 8 {
			t.takenBytes = max(t.takenBytes, min(binary.BigEndian.Uint64(data), t.sentBytes))
		}
	case frameReset:
		return errReset
	}
	t.some.Broadcast()
	return nil
}

// store keeps data until it is read. t.mu is locked.
func (t *conn) store(data []byte) error {
	if t.waiting+len(data) > window || !t.c.tunnels.keep(len(data)) {
		return errFull
	}
	t.waiting += len(data)
	if last := len(t.frames) - 1; last >= 0 && len(t.frames[last])+len(data) <= small {
		t.frames[last] = append(t.frames[last], data...)
	} else {
		t.frames = append(t.frames, data)
	}
	t.some.Broadcast()
	return nil
}

// small frames are joined, so that many of them cost no more than their bytes.
const small = 8 << 10

// look confirms what was sent, and notices when the other side is gone.
func (t *conn) look(now time.Time) {
	t.mu.Lock()
	dead := now.Sub(t.heard) > deadAfter
	soon := t.sent > t.probed && now.Sub(t.lastFrame) >= probeSoon
	if t.to != "" && t.err == nil && !dead && (soon || now.Sub(t.lastProbe) >= probeEvery) {
		t.probed, t.lastProbe = t.sent, now
		b := binary.BigEndian.AppendUint64(head(frameProbe, t.sent), t.read)
		t.granted = t.read
		_ = t.c.nc.PublishRequest(t.to, t.c.subject(t.c.opt.Name, verbTunnel)+t.id, b)
	}
	t.mu.Unlock()
	if dead {
		t.end(errLost, true)
	}
}

// Read implements net.Conn.
func (t *conn) Read(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case t.shut:
			return 0, t.op("read", net.ErrClosed)
		case t.readBy.passed():
			return 0, t.op("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case t.waiting > 0:
			n := t.take(b)
			t.grant()
			return n, nil
		case t.ended:
			return 0, io.EOF
		case t.err != nil:
			return 0, t.op("read", t.err)
		}
		t.some.Wait()
	}
}

// take moves bytes that wait to b. t.mu is locked.
func (t *conn) take(b []byte) int {
	n := 0
	for n < len(b) && len(t.frames) > 0 {
		m := copy(b[n:], t.frames[0])
		if n += m; m < len(t.frames[0]) {
			t.frames[0] = t.frames[0][m:]
		} else {
			t.frames[0] = nil
			t.frames = t.frames[1:]
		}
	}
	if len(t.frames) == 0 {
		t.frames = nil
	}
	t.waiting -= n
	t.read += uint64(n)
	t.c.tunnels.keep(-n)
	return n
}

// grant tells the other side what was read, once that is worth a message. t.mu is locked.
func (t *conn) grant() {
	if t.read-t.granted >= window/4 && t.err == nil && t.to != "" {
		t.granted = t.read
		_ = t.c.nc.Publish(t.to, head(frameCredit, t.read))
	}
}

// Write implements net.Conn.
func (t *conn) Write(b []byte) (n int, err error) {
	t.sending.Lock()
	defer t.sending.Unlock()
	for first := true; len(b) > 0 || first; first = false {
		m, err := t.send(frameData, b)
		n += m
		if err != nil {
			return n, t.op("write", err)
		}
		b = b[m:]
	}
	return n, nil
}

// CloseWrite tells the other side that no more data follows.
func (t *conn) CloseWrite() error {
	t.sending.Lock()
	defer t.sending.Unlock()
	if _, err := t.send(frameEnd, nil); err != nil {
		return t.op("close", err)
	}
	return nil
}

// send sends one frame with as much of b as fits. It waits until the other side has room. t.sending is locked.
func (t *conn) send(kind byte, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case t.shut:
			return 0, net.ErrClosed
		case t.writeBy.passed():
			return 0, os.ErrDeadlineExceeded
		case t.err != nil:
			return 0, t.err
		case t.finished:
			return 0, net.ErrClosed
		case t.closed:
			return 0, errReset
		case len(b) == 0 && kind == frameData:
			return 0, nil
		}
		room := window - int(t.sentBytes-t.takenBytes)
		if t.to != "" && (room > 0 || kind == frameEnd) {
			n := min(len(b), room, t.c.chunk())
			return n, t.publish(kind, b[:max(n, 0)])
		}
		t.some.Wait()
	}
}

// publish sends one frame. t.mu is locked, so that frames leave in order.
func (t *conn) publish(kind byte, b []byte) error {
	pool := &t.c.tunnels.frames
	buf, ok := pool.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	t.sent++
	f := append((*buf)[:0], kind)
	f = binary.BigEndian.AppendUint64(f, t.sent)
	f = append(f, b...)
	t.sentBytes += uint64(len(b))
	t.finished = t.finished || kind != frameData
	t.lastFrame = time.Now()
	err := t.c.nc.Publish(t.to, f) // copies it
	*buf = f
	pool.Put(buf)
	return err
}

// chunk is how many bytes fit in a frame.
func (c *Cluster) chunk() int {
	if most := int(c.nc.MaxPayload()) - headSize; most > 0 {
		return min(chunk, most)
	}
	return chunk
}

// Close implements net.Conn.
func (t *conn) Close() error {
	t.mu.Lock()
	again := t.shut
	t.shut = true
	t.discard()
	if !again && t.err == nil && t.to != "" && !t.closed {
		_ = t.publish(frameClose, nil) // behind what was written: the other side reads that first
	}
	t.some.Broadcast()
	t.mu.Unlock()
	if again {
		return t.op("close", net.ErrClosed)
	}
	t.end(net.ErrClosed, false)
	return nil
}

// LocalAddr implements net.Conn.
func (t *conn) LocalAddr() net.Addr { return addr(t.c.opt.Name) }

// RemoteAddr implements net.Conn.
func (t *conn) RemoteAddr() net.Addr { return addr(t.node) }

// SetDeadline implements net.Conn.
func (t *conn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (t *conn) SetReadDeadline(at time.Time) error { return t.setDeadline(&t.readBy, at) }

// SetWriteDeadline implements net.Conn.
func (t *conn) SetWriteDeadline(at time.Time) error { return t.setDeadline(&t.writeBy, at) }

func (t *conn) setDeadline(d *deadline, at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return t.op("set", net.ErrClosed)
	}
	d.set(at, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.some.Broadcast()
	})
	t.some.Broadcast()
	return nil
}

func (t *conn) op(what string, err error) error {
	return &net.OpError{Op: what, Net: "steward", Source: t.LocalAddr(), Addr: t.RemoteAddr(), Err: err}
}

// deadline is one of a connection. Its lock guards it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) set(at time.Time, wake func()) {
	d.stop()
	d.at, d.timer = at, nil
	if left := time.Until(at); !at.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake)
	}
}
