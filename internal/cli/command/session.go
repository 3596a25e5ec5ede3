package command

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"steward/client"
	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/auth"
	"steward/internal/settings"
)

// Need is how much of a data folder a command opens if no Steward serves it. Each value
// opens more than the one before.
type Need int

const (
	NeedReadOnly Need = iota // the database, read-only, even while another process uses it
	NeedDatabase             // the database, for changes that need no running node
	NeedAgents               // the agents too
	NeedIdleNode             // a node that does not resume interrupted work
	NeedNode                 // a node that resumes interrupted work
)

// Session is a command's connection to the API: to the Steward that serves the data folder
// or, if there is none, to the same handlers in this process.
type Session struct {
	*client.Client
	Server app.Notice // of the Steward that serves the folder; zero: there is none
	Local  *app.Local // the node in this process; nil: there is none
	close  func() error
}

// ErrNothingStored is the error for a data folder in which nothing is stored.
var ErrNothingStored = noConversation()

// With runs a function with the API.
func (a *Program) With(ctx context.Context, n Need, do func(*Session) error) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	s, err := a.Connect(ctx, set, n, a.Logger(set, a.Stderr))
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.End())
}

// WithStored is like With, but fails if nothing is stored.
func (a *Program) WithStored(ctx context.Context, n Need, do func(*Session) error) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	if !app.HasStore(set) {
		return ErrNothingStored
	}
	return a.With(ctx, n, do)
}

// Connect connects to the Steward that serves the data folder, or opens the folder.
func (a *Program) Connect(ctx context.Context, set *settings.Loaded, n Need, log *slog.Logger) (*Session, error) {
	if n == NeedReadOnly {
		if s, err := a.Join(set); err == nil && s.listens(ctx) {
			a.noteUnused(s)
			return s, nil
		}
		return a.readStored(ctx, set, log)
	}
	if err := a.CheckCluster(set); err != nil { // only nodes may write
		if s := a.Served(ctx, set); s != nil {
			a.noteUnused(s)
			return s, nil
		}
		return nil, err
	}
	for until := time.Now().Add(cmp.Or(a.JoinFor, joinPatience)); ; {
		s, err := a.openStored(ctx, set, n, log)
		if !fault.HasCode(err, "data_in_use") {
			return s, err
		}
		s, joined := a.Join(set)
		if joined == nil {
			a.noteUnused(s)
			return s, nil
		}
		if time.Now().After(until) || !fault.HasCode(joined, "server_unknown") {
			return nil, fault.Of(err).WithHint("it cannot be joined: %s", joined)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// joinPatience is how long a Steward that uses the data folder may take to say where it can be reached: a
// service, for example, that has just started because a chat has ended.
const joinPatience = 5 * time.Second

// noteUnused names the flags that a Steward that already runs does not take.
func (a *Program) noteUnused(s *Session) {
	var flags []string
	if len(a.AgentFolders) > 0 {
		flags = append(flags, "--agents")
	}
	if len(a.MCPFiles) > 0 {
		flags = append(flags, "--mcp")
	}
	if len(flags) > 0 {
		a.Note("steward: %s has no effect here: a Steward already runs at %s, with the agents that it was started with", strings.Join(flags, " and "), s.Server.URL)
	}
}

// Join connects to the Steward that uses the data folder.
func (a *Program) Join(set *settings.Loaded) (*Session, error) {
	n, err := app.ReadNotice(set.Data)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "server_unknown", "the address of the Steward that uses %s is unknown: %w", set.Data, err).
			WithHint("stop it, or start steward serve and chat beside it")
	}
	token := a.Token(set.Data)
	if _, err := token(); err != nil {
		return nil, err
	}
	return &Session{Server: n, close: func() error { return nil },
		Client: client.New(client.Options{URL: n.URL, Token: token, HTTP: &http.Client{Transport: &http.Transport{}}, Fault: auth.FaultOf})}, nil
}

// Served returns a session with the Steward that serves the data folder; nil: none does. The folder is not opened.
func (a *Program) Served(ctx context.Context, set *settings.Loaded) *Session {
	s, err := a.Join(set)
	if err != nil || !s.listens(ctx) {
		return nil
	}
	return s
}

// listens reports whether the server still runs and listens. After a crash, another program
// may have its process id or its port, and would receive the token.
func (s *Session) listens(ctx context.Context) bool {
	u, err := url.Parse(s.Server.URL)
	if err != nil || !Alive(s.Server.PID) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	return err == nil && c.Close() == nil
}

// IsLocal reports whether no Steward serves the data folder.
func (s *Session) IsLocal() bool { return s.Server.URL == "" }

// Alive reports whether there is a process with this id.
func Alive(pid int) bool { return pid > 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// End closes the session.
func (s *Session) End() error {
	s.Client.Close()
	return s.close()
}

// ResolveConversation returns the id of the conversation that the user named: by its id, or as last. For
// the name "" it returns "".
func (s *Session) ResolveConversation(ctx context.Context, name string) (string, error) {
	switch name {
	case "":
		return "", nil
	case "last":
		list, err := s.Conversations(ctx, 1)
		if err == nil && len(list) == 0 {
			err = noConversation()
		}
		if err != nil {
			return "", err
		}
		return list[0].ID, nil
	}
	conv, err := ConversationID(name)
	if err == nil {
		_, err = s.Conversation(ctx, conv.String())
	}
	return conv.String(), err
}

func noConversation() error {
	return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation yet").WithHint(`start one: steward ask "…"`)
}

// ConversationID parses the id of a conversation.
func ConversationID(name string) (id.ID, error) {
	conv, ok := id.Parse(strings.ToLower(name))
	if !ok || conv.Zero() {
		return conv, fault.New(fault.Invalid, "conversation_invalid", "%.80q is not the id of a conversation", name).
			WithHint("steward conversations list shows the ids")
	}
	return conv, nil
}

// readStored returns a session over the database, opened read-only.
func (a *Program) readStored(ctx context.Context, set *settings.Loaded, log *slog.Logger) (*Session, error) {
	st, err := a.OpenReadOnly(ctx)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, ErrNothingStored
	}
	return a.sessionOf(a.Stored(st, set, log))
}

// sessionOf returns a session over an API in this process.
func (a *Program) sessionOf(api *app.API, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	return &Session{Client: api.Client, close: api.Close}, nil
}

// openStored opens as much of the data folder as n requires, for this process alone.
func (a *Program) openStored(ctx context.Context, set *settings.Loaded, n Need, log *slog.Logger) (*Session, error) {
	if n >= NeedIdleNode {
		a.Idle = n == NeedIdleNode
		l, err := a.OpenLocal(ctx, set, log)
		if err != nil {
			return nil, err
		}
		return &Session{Client: l.Own.Client, Local: l, close: l.Close}, nil
	}
	st, err := a.OpenStore(ctx, set, log, nil)
	if err != nil {
		return nil, err
	}
	if n == NeedAgents {
		return a.sessionOf(a.OpenCatalog(ctx, set, st))
	}
	return a.sessionOf(a.Stored(st, set, log))
}

// OpenReadOnly opens the database read-only, even while a Steward uses it. It returns nil if
// there is no database yet.
func (a *Program) OpenReadOnly(ctx context.Context) (app.Store, error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	st, err := a.ReadStore(ctx, set)
	if fault.HasCode(err, "database_missing") {
		return nil, nil
	}
	return st, err
}
