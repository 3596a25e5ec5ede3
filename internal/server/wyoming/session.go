package wyoming

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// session is the conversation of one device. mu is held while a sentence is sent.
type session struct {
	mu           sync.Mutex
	conversation id.ID // zero: the next sentence begins one

	used time.Time // guarded by sessions.mu
}

// sessions are the sessions of all devices.
type sessions struct {
	idle time.Duration

	mu    sync.Mutex
	byKey map[string]*session
}

// maxSessions bounds the sessions. The one that was used least recently makes room.
const maxSessions = 256

// of returns the session of a device.
func (s *sessions) of(key string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	x := s.byKey[key]
	if x == nil || now.Sub(x.used) > s.idle {
		if x == nil && len(s.byKey) >= maxSessions {
			s.dropOldest()
		}
		x = &session{}
		s.byKey[key] = x
	}
	x.used = now
	return x
}

func (s *sessions) dropOldest() {
	oldest := ""
	for key, x := range s.byKey {
		if oldest == "" || x.used.Before(s.byKey[oldest].used) {
			oldest = key
		}
	}
	delete(s.byKey, oldest)
}

// forget has the next sentence of a device begin a new conversation.
func (s *sessions) forget(key string, x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key] == x {
		delete(s.byKey, key)
	}
}

// deviceOf returns what identifies the device of a context, which stays the same from sentence to sentence. A
// conversation id does not, so without a device all sentences of a peer without one share a session.
func deviceOf(context jsontext.Value) string {
	var all map[string]jsontext.Value
	if context.Kind() == '{' && json.Unmarshal(context, &all) == nil {
		for _, name := range []string{"device_id", "satellite_id", "user_id"} {
			if x := textOf(all[name]); x != "" {
				return name + ":" + x[:min(len(x), 200)]
			}
		}
	}
	return ""
}

// maxSentence is the longest sentence that is handled, in bytes.
const maxSentence = 4000

// What is said about a sentence that was not handled.
const (
	saidNothing  = "I did not hear anything."
	saidTooMuch  = "That was too long for me."
	stillWorking = "I am still working on it. You will find the answer in Steward."
	busy         = "I am busy with other requests. Please try again."
	mustApprove  = "That needs an approval, which can only be given in Steward."
	noAnswer     = "I have no answer to that."
)

// transcript answers a sentence, with exactly one of handled, not-handled and error.
func (s *Server) transcript(ctx context.Context, e *event) *event {
	text := strings.TrimSpace(e.text("text"))
	if text == "" {
		return &event{Type: "not-handled", Data: e.with("text", saidNothing)}
	}
	if len(text) > maxSentence {
		return &event{Type: "not-handled", Data: e.with("text", saidTooMuch)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return &event{Type: "not-handled", Data: e.with("text", busy)}
	}
	said, err := s.say(ctx, deviceOf(e.Data["context"]), text)
	var not notHandled
	switch {
	case errors.As(err, &not):
		return &event{Type: "not-handled", Data: e.with("text", string(not))}
	case err != nil:
		s.Logger.Warn("a spoken sentence was not answered", "error", err)
		return failure(auth.Public(err))
	}
	return &event{Type: "handled", Data: e.with("text", said)}
}

// notHandled is what is said about a sentence that was not handled.
type notHandled string

// Error implements error.
func (n notHandled) Error() string { return string(n) }

// say has the agent answer a sentence in the conversation of a device, and returns its answer as plain words.
func (s *Server) say(ctx context.Context, device, text string) (string, error) {
	caller, leave, err := s.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if err := caller.Store(ctx, int64(len(text))); err != nil {
		return "", err
	}
	x := s.sessions.of(device)
	acc, err := s.send(ctx, caller, x, device, text)
	if err == nil {
		var answer string
		if answer, err = s.await(ctx, caller.User, acc); err == nil {
			return answer, nil
		}
	}
	if ctx.Err() != nil {
		err = notHandled(stillWorking)
	}
	if not := notHandled(""); errors.As(err, &not) { // its turn may go on for long
		s.sessions.forget(device, x)
	}
	return "", err
}

// send begins the turn. A conversation that cannot go on, because it was deleted, is replaced by a new one.
func (s *Server) send(ctx context.Context, caller auth.Caller, x *session, device, text string) (turn.Accepted, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		t := turn.Input{Conversation: x.conversation, Spoken: true, Agent: s.Agent, Model: s.Model, Content: []message.Block{&message.Text{Text: text}}}
		if x.conversation.Zero() {
			t.Metadata = map[string]string{"channel": "wyoming"}
			if device != "" {
				t.Metadata["device"] = device
			}
		}
		acc, err := caller.Send(ctx, s.Node, t)
		if err == nil {
			x.conversation = acc.Conversation
			return acc, nil
		}
		if x.conversation.Zero() || !fault.Is(err, fault.NotFound) && !fault.HasCode(err, "turn_withdrawn") {
			return acc, err
		}
		x.conversation = id.ID{}
	}
}

// await returns the answer of a turn.
func (s *Server) await(ctx context.Context, user string, acc turn.Accepted) (string, error) {
	for f, err := range s.Node.Watch(ctx, user, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		if err != nil {
			return "", err
		}
		if f.Interaction != acc.Interaction {
			continue
		}
		switch f.Kind {
		case turn.FrameCall:
			if f.Call != nil && f.Call.Status == turn.CallAwaiting {
				return "", notHandled(mustApprove)
			}
		case turn.FrameError:
			return "", f.Err
		case turn.FrameComplete:
			said := plain(f.Stored.Text())
			if s.Mask != nil {
				said = s.Mask(said)
			}
			if said != "" {
				return said, nil
			}
			return "", notHandled(noAnswer)
		}
	}
	return "", notHandled(stillWorking)
}
