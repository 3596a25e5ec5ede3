package chat

import (
	"context"
	"strings"

	"steward/internal/catalog"
)

// waiting is what waits for an approval: the questions, and the frame that
// tells of them.
type waiting struct {
	key string
	raw []byte
}

// attend counts the connections of those who decide about agents: while there
// is one, the server follows what waits for an approval. Under s.mu.
func (s *Server) attend(c *conn) {
	if s.o.Agents == nil || !s.desk().Decides(context.Background(), c.caller) {
		return
	}
	c.news = make(chan struct{}, 1)
	if s.admins++; s.admins > 1 {
		c.hear() // of what waits already
		return
	}
	s.waits.Store(&waiting{})
	ctx, cancel := context.WithCancel(context.Background())
	s.unattend = cancel
	s.serving.Go(func() { s.followAgents(ctx) })
}

// desert ends what attend began. Under s.mu.
func (s *Server) desert(c *conn) {
	if c.news == nil {
		return
	}
	if s.admins--; s.admins == 0 {
		s.unattend()
	}
}

// followAgents keeps what waits, and lets the connections know of changes.
// What changes while it is at it is told in one.
func (s *Server) followAgents(ctx context.Context) {
	for {
		changed := s.o.Agents.Changed()
		w, err := waitingOf(s.o.Agents.Listings())
		switch {
		case err != nil:
			s.o.Logger.Error("what waits for an approval cannot be told", "error", err)
		case !s.publish(ctx, w):
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func waitingOf(list []catalog.Listing) (*waiting, error) {
	list = catalog.Waiting(list)
	var key strings.Builder
	for _, l := range list {
		key.WriteString(l.Question() + "\n")
	}
	raw, err := encodeAnswer(struct {
		Type   string            `json:"type"`
		Agents []catalog.Listing `json:"agents"`
	}{"agents_waiting", append([]catalog.Listing{}, list...)})
	return &waiting{key.String(), raw}, err
}

// publish hands on what waits, unless somebody else does by now.
func (s *Server) publish(ctx context.Context, w *waiting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if old := s.waits.Swap(w); old.key == w.key {
		return true
	}
	for c := range s.conns {
		if c.news != nil {
			c.hear()
		}
	}
	return true
}

// hear lets the writer know that there is something to tell.
func (c *conn) hear() {
	select {
	case c.news <- struct{}{}:
	default: // it knows
	}
}

// whatWaits returns the frame of what waits, unless the client knows it. Only
// the writer calls it.
func (c *conn) whatWaits() (raw []byte, ok bool) {
	w := c.server.waits.Load()
	if w.key == c.knows {
		return nil, false
	}
	c.knows = w.key
	return w.raw, true
}
