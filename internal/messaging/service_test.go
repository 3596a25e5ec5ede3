package messaging_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
)

// service is a messenger in memory with one account, which it is an adapter for as well. It delivers what is
// said to it again until it is acknowledged, and can lose connections and requests.
type service struct {
	limits channel.Limits
	part   int // characters of a message; 0: no limit

	mu       sync.Mutex
	news     chan struct{}
	waiting  []channel.Update // not acknowledged, in the order of delivery
	past     []channel.Update // acknowledged
	posts    []*posted
	byKey    map[string]*posted
	typing   int
	lastSent map[channel.Address]time.Time
	tooSoon  int
	files    map[string][]byte

	chance *rand.Rand // nil: nothing goes wrong
	drops  int        // connections that are still to be lost
	refuse error      // what Send returns instead of posting
	away   bool       // it cannot be reached
	tries  int        // to connect while it is away
	late   int        // updates that are still to come late

	beforeSend func(channel.Outgoing) // may be nil
}

// posted is a message as the people in the chat see it.
type posted struct {
	channel.Outgoing
	ID     string
	Edits  []string // its texts, the first one included
	Edited int
	At     time.Time
}

func (p *posted) text() string { return p.Edits[len(p.Edits)-1] }

func newService(limits channel.Limits) *service {
	return &service{limits: limits, news: make(chan struct{}, 1), byKey: map[string]*posted{}, lastSent: map[channel.Address]time.Time{}, files: map[string][]byte{}}
}

// say has updates delivered.
func (s *service) say(list ...channel.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, list...)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// by returns a private message.
func by(sender, update, text string) channel.Update {
	return channel.Update{ID: update, Kind: channel.Message, Address: channel.Address{Chat: "chat-" + sender}, From: channel.Sender{ID: sender, Name: strings.ToUpper(sender)},
		Addressed: true, Message: "m-" + update, Text: text}
}

func (s *service) Check(context.Context) (string, error) { return "@steward", nil }

var errDropped = errors.New("the connection was lost")

// Run implements channel.Channel.
func (s *service) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	if s.isAway(true) {
		return channel.Unreachable("test", errDropped)
	}
	connected()
	for {
		if s.isAway(false) {
			return errDropped
		}
		batch, n := s.batch()
		if len(batch) == 0 {
			select {
			case <-s.news:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := receive(ctx, batch); err != nil {
			return err
		}
		if s.acknowledge(n) {
			return errDropped
		}
	}
}

// batch returns some updates, of which the first n are the oldest that wait, and others may be known.
func (s *service) batch() ([]channel.Update, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), 20)
	if s.chance == nil {
		return append([]channel.Update(nil), s.waiting[:n]...), n
	}
	if s.late > 0 && len(s.waiting) > 60 && s.chance.IntN(4) == 0 { // the first one comes later
		s.late--
		first := s.waiting[0]
		copy(s.waiting, s.waiting[1:50])
		s.waiting[49] = first
	}
	n = min(n, 1+s.chance.IntN(8))
	out := append([]channel.Update(nil), s.waiting[:n]...)
	for len(s.past) > 0 && s.chance.IntN(3) == 0 {
		out = append(out, s.past[s.chance.IntN(len(s.past))])
	}
	if len(out) > 1 && s.chance.IntN(3) == 0 {
		out = append(out, out[0]) // twice in a batch
	}
	return out, n
}

// acknowledge takes what was accepted out of the queue, unless the connection is lost before.
func (s *service) acknowledge(n int) (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chance != nil && s.drops > 0 && s.chance.IntN(2) == 0 {
		s.drops--
		if s.chance.IntN(2) == 0 {
			return true
		}
		dropped = true
	}
	s.past = append(s.past, s.waiting[:n]...)
	s.waiting = s.waiting[n:]
	return dropped
}

// Send implements channel.Channel.
func (s *service) Send(_ context.Context, m channel.Outgoing) (string, error) {
	if s.beforeSend != nil {
		s.beforeSend(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return "", channel.Unreachable("test", errDropped)
	}
	if s.refuse != nil {
		return "", s.refuse
	}
	fate := 1000
	if s.chance != nil {
		fate = s.chance.IntN(1000)
	}
	if fate < 20 {
		return "", channel.Limited("test", 200*time.Millisecond)
	}
	if fate < 40 {
		return "", channel.Unreachable("test", errDropped)
	}
	if fate < 50 {
		return "", channel.Uncertain("test", errDropped)
	}
	if last, ok := s.lastSent[m.At]; ok && time.Since(last) < s.limits.SendEvery {
		s.tooSoon++
	}
	s.lastSent[m.At] = time.Now()
	p := s.byKey[m.Key]
	if p == nil || !s.limits.Repeatable {
		p = &posted{Outgoing: m, ID: fmt.Sprintf("p%d", len(s.posts)), Edits: []string{m.Text}, At: time.Now()}
		s.posts = append(s.posts, p)
		s.byKey[m.Key] = p
	}
	if fate < 60 {
		return "", channel.Uncertain("test", errDropped)
	}
	return p.ID, nil
}

// Edit implements channel.Channel.
func (s *service) Edit(_ context.Context, at channel.Address, message string, m channel.Outgoing) error {
	if s.limits.EditEvery == 0 {
		return channel.Unsupported("test", "edit messages")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		if p.ID == message && p.Outgoing.At == at {
			p.Edits, p.Buttons = append(p.Edits, m.Text), m.Buttons
			p.Edited++
			return nil
		}
	}
	return channel.Rejected("test", "there is no message "+message)
}

// Typing implements channel.Channel.
func (s *service) Typing(context.Context, channel.Address) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.typing++
	return nil
}

// Fetch implements channel.Channel.
func (s *service) Fetch(_ context.Context, a channel.Attachment) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.files[a.Ref]
	if !ok {
		return nil, fault.New(fault.NotFound, "file_not_found", "the file is gone")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Render implements channel.Channel.
func (s *service) Render(markdown string) (parts []string) {
	for s.part > 0 && len(markdown) > s.part {
		parts, markdown = append(parts, markdown[:s.part]), markdown[s.part:]
	}
	return append(parts, markdown)
}

// Limits implements channel.Channel.
func (s *service) Limits() channel.Limits { return s.limits }

// seen returns the texts that a chat shows, oldest first.
func (s *service) seen(chat string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		if p.Outgoing.At.Chat == chat {
			list = append(list, p.text())
		}
	}
	return list
}

// newest returns the newest message of a chat, or nil.
func (s *service) newest(chat string) *posted {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.posts) - 1; i >= 0; i-- {
		if s.posts[i].Outgoing.At.Chat == chat {
			c := *s.posts[i]
			return &c
		}
	}
	return nil
}

// left returns how many updates wait to be delivered.
func (s *service) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// isAway reports whether the service cannot be reached.
func (s *service) isAway(try bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away && try {
		s.tries++
	}
	return s.away
}

// leave makes the service unreachable, or reachable again.
func (s *service) leave(away bool) {
	s.mu.Lock()
	s.away = away
	s.mu.Unlock()
	s.say() // its connection notices
}
