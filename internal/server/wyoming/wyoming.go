// Package wyoming is a server for the Wyoming protocol (https://github.com/OHF-Voice/wyoming), by which Home Assistant
// has sentences that were spoken handled. It offers the service "handle": a transcript arrives, an agent answers it in
// a turn, and the answer, as plain words, is read aloud.
//
// A connection carries events. To describe the server answers info, to ping pong, and to each transcript exactly one of
// handled, not-handled and error; whatever else arrives is ignored. Answers are short and are sent at once, so info
// announces no streaming.
//
// Home Assistant makes a new connection and a new conversation id for each sentence. What stays the same is the device
// that listened, so a session is that of a device. It is a conversation of Steward's, which ends when nobody has said
// anything for a while (Options.Idle), when its turn has not ended in time, or when it was deleted.
//
// The protocol has no credential. The server is off until the settings name a listening address, the peers that may
// connect (auth.Peers), and the one user as whom all of them speak. Turns are unattended and nothing is decided here:
// a call that policy would ask about is denied, and the agent says so.
// Everything is bounded: the bytes of an event, the connections, the turns at the same time, and the time of each.
//
// docs/reference/wyoming.md says what is supported, field by field.
package wyoming

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/server/auth"
)

// Options configure a server. Node and Enter are required; zero values are good defaults for the rest.
type Options struct {
	Node auth.Sender
	// Enter returns the caller as whom a sentence is said, and how its request ends; see auth.Guard.EnterAs.
	Enter func(ctx context.Context) (auth.Caller, func(), error)

	Mask func(string) string // hides secrets in answers; nil: none

	Agent    string        // the path of the agent that answers; empty: as in a chat
	Model    string        // the model that answers; empty: the agent's
	Version  string        // of Steward, as info says it
	Parallel int           // turns at the same time; 0: 4
	Timeout  time.Duration // of one answer; 0: 60 seconds
	Idle     time.Duration // after which a device's next sentence begins a new conversation; 0: 10 minutes
	Logger   *slog.Logger
}

// Server serves the Wyoming protocol.
type Server struct {
	Options
	slots    chan struct{} // one for each turn
	sessions sessions

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// New returns a server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Parallel, o.Timeout, o.Idle = cmp.Or(o.Parallel, 4), cmp.Or(o.Timeout, time.Minute), cmp.Or(o.Idle, 10*time.Minute)
	return &Server{Options: o, slots: make(chan struct{}, o.Parallel), sessions: sessions{idle: o.Idle, byKey: map[string]*session{}}, conns: map[net.Conn]bool{}}
}

// Serve accepts connections until ctx ends, then closes all and waits for them. The listener must be that of
// auth.Peers.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })() //nolint:errcheck // Accept tells
	for {
		c, err := ln.Accept()
		if err != nil {
			closing := ctx.Err() != nil
			cancel()
			s.closeAll()
			if closing || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fault.New(fault.Unavailable, "listen_failed", "the Wyoming server stopped: %w", err)
		}
		s.mu.Lock()
		s.conns[c] = true
		s.done.Add(1)
		s.mu.Unlock()
		go s.talk(ctx, c)
	}
}

// closeAll closes all connections and waits for what serves them.
func (s *Server) closeAll() {
	s.mu.Lock()
	for c := range s.conns {
		c.Close() //nolint:errcheck // it is given up
	}
	s.mu.Unlock()
	s.done.Wait()
}

// Limits of the time of a connection.
const (
	betweenEvents = 2 * time.Minute  // until the next event begins
	withinEvent   = 10 * time.Second // until an event has arrived, or was accepted
)

// talk serves one connection.
func (s *Server) talk(ctx context.Context, c net.Conn) {
	defer s.done.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close() //nolint:errcheck // what counts was answered
	}()
	in := bufio.NewReader(c)
	for ctx.Err() == nil {
		c.SetReadDeadline(time.Now().Add(betweenEvents)) //nolint:errcheck // the read tells
		if _, err := in.Peek(1); err != nil {
			return // closed, or silent for too long
		}
		c.SetReadDeadline(time.Now().Add(withinEvent)) //nolint:errcheck // the read tells
		e, err := readEvent(in)
		if err != nil {
			if fault.Is(err, fault.Invalid) || fault.Is(err, fault.TooLarge) {
				s.refuse(c, in, failure(err))
			}
			s.Logger.Debug("a Wyoming connection ends", "from", c.RemoteAddr().String(), "error", err)
			return
		}
		answer := s.answer(ctx, e)
		if answer == nil {
			continue
		}
		if err := s.write(c, answer); err != nil {
			s.Logger.Debug("a Wyoming client does not read", "from", c.RemoteAddr().String(), "error", err)
			return
		}
	}
}

// refuse sends an error and ends the connection. It reads on for a while: if a connection is closed with data unread,
// the client may lose the error.
func (s *Server) refuse(c net.Conn, in io.Reader, e *event) {
	half, ok := c.(interface{ CloseWrite() error })
	if s.write(c, e) != nil || !ok || half.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(withinEvent)) //nolint:errcheck // the read tells
	io.CopyN(io.Discard, in, 4*maxPayload)         //nolint:errcheck // nothing is wanted of it
}

func (s *Server) write(c net.Conn, e *event) error {
	if err := c.SetWriteDeadline(time.Now().Add(withinEvent)); err != nil {
		return err
	}
	return writeEvent(c, e)
}

// answer returns the answer to an event; nil: it has none.
func (s *Server) answer(ctx context.Context, e *event) *event {
	switch e.Type {
	case "describe":
		return s.info()
	case "ping":
		return &event{Type: "pong", Data: e.Data}
	case "transcript":
		return s.transcript(ctx, e)
	case "recognize": // a client that asks for an intent would wait for ever
		return &event{Type: "not-recognized", Data: e.with("text", "Steward handles sentences, and recognizes no intents.")}
	}
	return nil
}

// attribution says who made something.
type attribution struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// artifact is what programs and models have in common.
type artifact struct {
	Name        string      `json:"name"`
	Attribution attribution `json:"attribution"`
	Installed   bool        `json:"installed"`
	Description string      `json:"description"`
	Version     string      `json:"version"`
}

type handleModel struct {
	artifact
	Languages []string `json:"languages"` // none: all
}

type handleProgram struct {
	artifact
	Models    []handleModel `json:"models"`
	Streaming bool          `json:"supports_handled_streaming"`
	Control   bool          `json:"supports_home_control"`
}

// info describes the service. It needs nothing but the settings, because clients wait for one second.
func (s *Server) info() *event {
	own := artifact{Name: "steward", Attribution: attribution{Name: "Steward"}, Installed: true,
		Description: "Agents of Steward", Version: s.Version}
	model := own
	model.Name = cmp.Or(s.Agent, "assistant")
	program := handleProgram{artifact: own, Models: []handleModel{{artifact: model, Languages: []string{}}}}
	none := jsontext.Value("[]")
	return &event{Type: "info", Data: map[string]jsontext.Value{"handle": encode([]handleProgram{program}),
		"asr": none, "tts": none, "intent": none, "wake": none, "mic": none, "snd": none}}
}
