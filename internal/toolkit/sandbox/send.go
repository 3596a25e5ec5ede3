package sandbox

import (
	"context"
	"io"
	"sync"
)

// Sender writes to the input of a program that may not read it.
type Sender struct {
	to     io.WriteCloser
	turn   chan struct{} // holds one: who has put it in writes
	closed chan struct{}
	close  sync.Once
}

// NewSender returns a sender that writes to w.
func NewSender(w io.WriteCloser) *Sender {
	return &Sender{to: w, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Send begins to write data whole, after what was sent before. It returns when
// that has begun, or with an error when ctx is done or the sender closed
// before: then nothing of data has left. done holds the outcome when all is
// written; a program that does not read holds up the next one only.
func (s *Sender) Send(ctx context.Context, data []byte) (done <-chan error, err error) {
	select {
	case <-s.closed:
		return nil, io.ErrClosedPipe
	default:
	}
	select {
	case s.turn <- struct{}{}:
	case <-s.closed:
		return nil, io.ErrClosedPipe
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := make(chan error, 1)
	go func() {
		_, err := s.to.Write(data)
		<-s.turn
		out <- err
	}()
	return out, nil
}

// Close closes the program's input: that is how a program is asked to end.
func (s *Sender) Close() error {
	err := io.ErrClosedPipe
	s.close.Do(func() {
		close(s.closed)
		err = s.to.Close()
	})
	return err
}
