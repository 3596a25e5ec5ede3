package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/sandbox"
)

// maxMessage bounds one message of a browser, in bytes.
const maxMessage = 32 << 20

// answerTime bounds the wait for one reply: a script without end keeps its page from replying.
const answerTime = 15 * time.Second

// conn speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol) with a
// browser that was started with --remote-debugging-pipe: messages in JSON, each followed by a
// zero byte. No port is opened, so nothing but Steward can command the browser.
type conn struct {
	out  *sandbox.Sender
	done chan struct{} // closed when the browser has ended

	mu      sync.Mutex
	last    int
	waiting map[int]chan frame // by the id of the request
}

// frame is a request, a reply or an event.
type frame struct {
	ID      int             `json:"id,omitzero"`
	Session string          `json:"sessionId,omitzero"` // which page it is about
	Method  string          `json:"method,omitzero"`
	Params  json.RawMessage `json:"params,omitzero"`
	Result  json.RawMessage `json:"result,omitzero"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitzero"`
}

// m is the parameters of a request.
type m map[string]any

// errGone says that a browser has ended.
var errGone = errors.New("the browser has ended")

// call sends a request and reads the reply into a value, which may be nil.
func (c *conn) call(ctx context.Context, session, method string, params m, into any) error {
	answer, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c.mu.Lock()
	c.last++
	id, reply := c.last, make(chan frame, 1)
	c.waiting[id] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.write(answer, id, session, method, params); err != nil {
		return err
	}
	select {
	case r := <-reply:
		if r.Error != nil {
			return fault.New(fault.Unavailable, "browser_refused", "the browser refuses %s: %.300s", method, r.Error.Message)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(r.Result, into)
	case <-answer.Done():
		if ctx.Err() == nil {
			return fault.New(fault.Timeout, "browser_stuck", "the page does not answer").WithHint("close the browser, and look for the same elsewhere")
		}
		return ctx.Err()
	case <-c.done:
		return errGone
	}
}

func (c *conn) write(ctx context.Context, id int, session, method string, params m) error {
	if params == nil {
		params = m{}
	}
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	b, err := json.Marshal(frame{ID: id, Session: session, Method: method, Params: p})
	if err != nil {
		return err
	}
	_, err = c.out.Send(ctx, append(b, 0))
	return err
}

// read hands out replies and events until the browser ends or says something that is none.
func (c *conn) read(from io.Reader, event func(frame)) error {
	s := bufio.NewScanner(from)
	s.Buffer(nil, maxMessage)
	s.Split(func(data []byte, _ bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, 0); end >= 0 {
			return end + 1, data[:end], nil
		}
		return 0, nil, nil // what follows the last zero byte is not a message
	})
	for s.Scan() {
		var msg frame
		if err := json.Unmarshal(s.Bytes(), &msg); err != nil {
			return err
		}
		if msg.ID == 0 {
			event(msg)
			continue
		}
		c.mu.Lock()
		reply := c.waiting[msg.ID]
		delete(c.waiting, msg.ID)
		c.mu.Unlock()
		if reply != nil {
			reply <- msg
		}
	}
	return s.Err()
}
