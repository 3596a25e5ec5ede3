package chat

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// corking hands the WebSocket library a connection that can hold writes back,
// so that frames which wait together leave together.
type corking struct {
	http.ResponseWriter
	conn     *conn
	patience time.Duration
}

// Hijack implements http.Hijacker.
func (k *corking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(k.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	k.conn.cork = &cork{Conn: nc, patience: k.patience}
	rw.Writer.Reset(k.conn.cork)
	return k.conn.cork, rw, nil
}

// cork is a net.Conn whose writes are held back between hold and flush.
type cork struct {
	net.Conn
	patience time.Duration // of one flush

	mu      sync.Mutex
	holding bool
	held    []byte
}

// most is how much is held back, and how large a buffer an idle connection keeps.
const (
	mostHeld = 64 << 10
	mostKept = 16 << 10
)

func (k *cork) hold() {
	k.mu.Lock()
	k.holding = true
	k.mu.Unlock()
}

// flush writes what was held back.
func (k *cork) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holding = false
	return k.release()
}

func (k *cork) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.holding {
		return k.Conn.Write(p)
	}
	if len(k.held)+len(p) > mostHeld {
		if err := k.release(); err != nil {
			return 0, err
		}
	}
	k.held = append(k.held, p...)
	return len(p), nil
}

func (k *cork) release() error {
	if len(k.held) == 0 {
		return nil
	}
	if err := k.Conn.SetWriteDeadline(time.Now().Add(k.patience)); err != nil {
		return err
	}
	_, err := k.Conn.Write(k.held)
	k.held = k.held[:0]
	if cap(k.held) > mostKept {
		k.held = nil
	}
	if err != nil {
		return err
	}
	return k.Conn.SetWriteDeadline(time.Time{})
}
