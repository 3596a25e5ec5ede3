package sandbox

import (
	"context"
	"io"
	"sync"
)

// Sender writes to the input of a program that may not be reading it.
type Sender struct {
	to     io.WriteCloser
	turn   chan struct{} // a semaphore with one slot, which the current writer holds
	closed chan struct{}
	close  sync.Once
}

// NewSender returns a sender that writes to w.
func NewSender(w io.WriteCloser) *Sender {
	return &Sender{to: w, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Send begins to write data as a whole, after what was sent before. It returns when writing has
// begun, or with an error if ctx is done or the sender is closed before that; then no part of
// data was written. done yields the outcome when everything is written. A program that does not
// read delays only the next Send.
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

// Close closes the program's input, which asks the program to end.
func (s *Sender) Close() error {
	err := io.ErrClosedPipe
	s.close.Do(func() {
		close(s.closed)
		err = s.to.Close()
	})
	return err
}
