// Package websocket is the WebSocket server. One connection carries the turns of any number of
// conversations as JSON text frames, which docs/reference/websocket.md describes.
package websocket

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/turn"
)

// Node is the part of the runtime that the server uses.
type Node interface {
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
	Watch(ctx context.Context, user string, conversation id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
	Position(ctx context.Context, user string, conversation id.ID) (turn.Cursor, error)
	Stop(ctx context.Context, user string, conversation id.ID) error
	FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error]
	FollowReminders(ctx context.Context, user string) iter.Seq[runtime.Reminder]
	Observe(ctx context.Context, user string, f events.ChangeFilter, from events.Cursor) iter.Seq2[events.Batch, error]
	Requests(ctx context.Context, user string, all bool, limit int) ([]client.Request, error)
	RequestTree(ctx context.Context, user, which string) (client.Request, error)
	CancelRequest(ctx context.Context, user, which string) error
	ResumeRequest(ctx context.Context, user, which string) error
}

// Approvals is the part of the effect engine that the server uses.
type Approvals interface {
	Questions(ctx context.Context, user string) ([]effect.Question, error)
	Question(ctx context.Context, sc store.Scope, which string, p intent.Pattern) (effect.Question, error)
	Decide(ctx context.Context, sc store.Scope, d effect.Decision) error
}

// Options configure the server. Node and Approvals are required; zero values are good defaults for the rest.
type Options struct {
	Node         Node
	Approvals    Approvals
	Agents       Agents            // nil: there are none
	Authorizer   policy.Authorizer // who may decide about agents; nil: administrators
	Events       Events            // nil: events are not served
	MaxMessage   int64             // size limit of a frame from a client, in bytes; 0: auth.MaxBody
	PingEvery    time.Duration     // 0: 20 seconds
	WriteTimeout time.Duration     // how long a client may block a write; 0: 10 seconds
	Logger       *slog.Logger

	// Mask hides secrets in frames for clients. It returns the frame unchanged or a masked one. If nil,
	// there are no secrets.
	Mask func(frame []byte) []byte
}

// Steward's own close codes (RFC 6455, 7.4.2: the private range).
const (
	CloseSlow    websocket.StatusCode = 4008 // the client does not read; it can resume from its last cursor
	CloseRevoked websocket.StatusCode = 4001 // the key that the client used is no longer valid
)

// Limits of one connection.
const (
	maxConversations = 1024 // conversations that are followed at the same time
	maxPending       = 32   // messages that wait for an earlier turn
	maxQueued        = 32   // frames queued for the client; when the queue is full, watches wait
	maxBatch         = 64   // frames sent in one write
)

// Path is the path of the server.
const Path = "/ws"

// Server is the WebSocket server. It is an http.Handler, to be mounted at Path behind a
// auth.Guard, which has checked the caller and the Origin.
type Server struct {
	o        Options
	handlers map[string]handler // by the type of the client's frame

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing bool
	serving sync.WaitGroup
	life    context.Context // done when the server is shut down
	end     context.CancelFunc
}

// Handler returns the server.
func Handler(o Options) *Server {
	if o.MaxMessage <= 0 {
		o.MaxMessage = auth.MaxBody
	}
	if o.PingEvery <= 0 {
		o.PingEvery = 20 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{o: o, handlers: handlers(), conns: map[*conn]struct{}{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// ServeHTTP upgrades the request and serves the connection until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := auth.From(r.Context())
	if err != nil {
		auth.WriteError(w, r, s.o.Logger, err)
		return
	}
	c := &conn{server: s, caller: caller, log: s.o.Logger.With("server", "chat", "user", caller.User),
		out: make(chan item, maxQueued), conversations: map[id.ID]*liveConversation{},
		observing:  feeds{noun: "observation", end: "unobserve", most: maxObservations},
		subscribed: feeds{noun: "subscription", end: "unsubscribe", most: maxSubscriptions}}
	// The request's context ends with this call. A connection is stopped by its client or by
	// Shutdown.
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer c.cancel(nil)
	if !s.enter(c) {
		auth.WriteError(w, r, s.o.Logger, fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0))
		return
	}
	defer s.leave(c)
	ws, err := websocket.Accept(&bufferingWriter{ResponseWriter: w, conn: c, timeout: s.o.WriteTimeout}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the Guard has checked the Origin, by Steward's settings
	})
	if err != nil {
		c.log.Info("not a WebSocket handshake", "error", err) // Accept has answered already
		return
	}
	c.open(ws)
	if left := caller.Left(); left != nil {
		go func() {
			select {
			case <-left: // the client connects again, and another node answers
				c.close(websocket.StatusServiceRestart, "another node of the cluster goes on")
			case <-c.ctx.Done():
			}
		}()
	}
	c.serve()
}

func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	return true
}

// after calls free when a turn has ended. Only a connection, which is being served, may call it.
func (s *Server) after(user string, acc turn.Accepted, free func()) {
	s.serving.Go(func() {
		defer free()
		auth.AwaitTurn(s.life, s.o.Node, user, acc)
	})
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.serving.Done()
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown refuses new connections, closes the open ones with 1001 (going away), and returns when
// all have ended. If ctx is done first, it drops the rest and returns ctx's error. Running turns
// continue.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	s.mu.Lock()
	s.closing = true
	for c := range s.conns {
		go c.close(websocket.StatusGoingAway, "Steward is stopping")
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.drop()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}
