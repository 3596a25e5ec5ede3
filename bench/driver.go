package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// figures are the costs of a window: the server's CPU ms per turn, which equals
// CPU s per 1,000 turns, and the median time of a turn in ms.
type figures struct{ cpu, p50 float64 }

// talk is a conversation over its own connection.
type talk struct {
	ws *websocket.Conn
	id string
	n  int
}

func (s *server) dial() (*talk, error) {
	header := http.Header{}
	if s.token != "" {
		header.Set("Authorization", "Bearer "+s.token)
	}
	ws, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(s.url, "http")+"/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	return &talk{ws: ws}, nil
}

func (c *talk) close() { c.ws.CloseNow() } //nolint:errcheck // nothing is expected of it

// turn sends a message and reads frames until the turn is complete.
func (c *talk) turn() error {
	ctx := context.Background()
	text := "What is 12 times 7? This is question " + strconv.Itoa(c.n) + " of the conversation, and it has about as many words as such a question tends to have."
	c.n++
	message := map[string]string{"type": "message", "content": text}
	if c.id != "" {
		message["conversation_id"] = c.id
	}
	b, err := json.Marshal(message)
	if err == nil {
		err = c.ws.Write(ctx, websocket.MessageText, b)
	}
	for err == nil {
		if _, b, err = c.ws.Read(ctx); err != nil {
			break
		}
		switch {
		case bytes.HasPrefix(b, []byte(`{"type":"error"`)):
			return fmt.Errorf("the server says %s", b)
		case bytes.HasPrefix(b, []byte(`{"type":"complete"`)):
			var f struct {
				Content string
				ID      string `json:"conversation_id"`
			}
			if err := json.Unmarshal(b, &f); err != nil {
				return err
			}
			if len(f.Content) < 10 {
				return fmt.Errorf("the answer is %q", f.Content)
			}
			c.id = f.ID
			return nil
		}
	}
	return err
}

// run runs conversations, atOnce of them concurrently.
func (s *server) run(conversations, turns int) (figures, error) {
	var begun atomic.Int64
	return s.window(atOnce, func(took func(time.Duration)) error {
		for begun.Add(1) <= int64(conversations) {
			c, err := s.dial()
			if err != nil {
				return err
			}
			err = c.some(turns, took)
			c.close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// after returns the CPU ms of a turn in new conversations that already had the
// given number of turns.
func (s *server) after(chats, turns, sample int) (float64, error) {
	open, err := s.connect(chats)
	if err != nil {
		return 0, err
	}
	defer func() {
		for _, c := range open {
			c.close()
		}
	}()
	if _, err := s.measure(open, turns); err != nil {
		return 0, err
	}
	f, err := s.measure(open, sample)
	return f.cpu, err
}

// connect opens connections that stay open.
func (s *server) connect(n int) ([]*talk, error) {
	open := make([]*talk, n)
	for i := range open {
		var err error
		if open[i], err = s.dial(); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// measure runs turns in each of the open conversations.
func (s *server) measure(open []*talk, turns int) (figures, error) {
	var next atomic.Int64
	return s.window(len(open), func(took func(time.Duration)) error {
		return open[next.Add(1)-1].some(turns, took)
	})
}

func (c *talk) some(turns int, took func(time.Duration)) error {
	for range turns {
		began := time.Now()
		if err := c.turn(); err != nil {
			return err
		}
		took(time.Since(began))
	}
	return nil
}

// window runs clients concurrently and measures the server meanwhile.
func (s *server) window(clients int, client func(took func(time.Duration)) error) (figures, error) {
	var mu sync.Mutex
	var times []time.Duration
	took := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, d)
	}
	before, err := s.cpu()
	if err != nil {
		return figures{}, err
	}
	errs := make(chan error, clients)
	for range clients {
		go func() { errs <- client(took) }()
	}
	for range clients {
		err = errors.Join(err, <-errs)
	}
	after, late := s.cpu()
	if err = errors.Join(err, late); err != nil || len(times) == 0 {
		return figures{}, err
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return figures{cpu: ms(after-before) / float64(len(times)), p50: ms(times[len(times)/2])}, nil
}
