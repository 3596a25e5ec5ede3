package websocket

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// bufferingWriter gives the WebSocket library a connection that can hold writes back, so that queued frames
// leave in one write.
type bufferingWriter struct {
	http.ResponseWriter
	conn    *conn
	timeout time.Duration
}

// Hijack implements http.Hijacker.
func (k *bufferingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(k.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	k.conn.buffer = &writeBuffer{Conn: nc, timeout: k.timeout}
	rw.Writer.Reset(k.conn.buffer)
	return k.conn.buffer, rw, nil
}

// writeBuffer is a net.Conn that buffers writes between hold and flush.
type writeBuffer struct {
	net.Conn
	timeout time.Duration // per piece; after twice that the connection fails

	mu      sync.Mutex
	holding bool
	held    []byte
	slow    bool // a write has taken longer than the patience
}

const (
	maxHeld = 64 << 10 // bytes buffered, and bytes of one piece
	maxKept = 16 << 10 // the size of the buffer that an idle connection keeps
)

func (k *writeBuffer) hold() {
	k.mu.Lock()
	k.holding = true
	k.mu.Unlock()
}

// flush writes the buffer, and reports whether the peer was slow to accept it.
func (k *writeBuffer) flush() (slow bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holding = false
	err = k.release()
	return k.slow, err
}

func (k *writeBuffer) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.holding {
		return k.Conn.Write(p)
	}
	if len(k.held)+len(p) > maxHeld {
		if err := k.release(); err != nil {
			return 0, err
		}
	}
	k.held = append(k.held, p...)
	return len(p), nil
}

// release writes the buffer in pieces, because a long frame over a slow line does not mean that the
// client has stopped reading.
func (k *writeBuffer) release() error {
	rest := k.held
	k.held = k.held[:0]
	if cap(k.held) > maxKept {
		k.held = nil
	}
	if len(rest) == 0 {
		return nil
	}
	for len(rest) > 0 {
		n := min(len(rest), maxHeld)
		began := time.Now()
		if err := k.Conn.SetWriteDeadline(began.Add(2 * k.timeout)); err != nil {
			return err
		}
		if _, err := k.Conn.Write(rest[:n]); err != nil {
			return err
		}
		k.slow = k.slow || time.Since(began) > k.timeout
		rest = rest[n:]
	}
	return k.Conn.SetWriteDeadline(time.Time{})
}
